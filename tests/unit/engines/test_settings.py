"""Every cursor of every DuckDB database has the pinned settings."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import duckdb
import pytest

from dpsql.database import Database
from dpsql.engines.duckdb import duckdb_settings

VALUES: dict[str, object] = {
    "TimeZone": "UTC",
    "Calendar": "gregorian",
    "default_collation": "",
    "ieee_floating_point_ops": True,
    "error_on_division_by_zero": False,
    "integer_division": False,
    "scalar_subquery_error_on_multiple_rows": True,
    "default_null_order": "NULLS_LAST",
    "default_order": "ASC",
    "order_by_non_integer_literal": False,
    "regex_match_operator_semantics": "partial",
    "max_execution_time": 0,
    "enable_logging": False,
    "enable_external_access": False,
    "lock_configuration": True,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
    "enable_progress_bar": False,
}
"""The values that the guarantee needs; the engine's defaults that it relies on are data of its version."""
RELIED_ON = {*duckdb_settings.RELIED_ON, *VALUES}
SHOWN_ALONE = {
    "enable_progress_bar_print",
    "max_streaming_buffer_size",
    "streaming_buffer_size",
    "profiling_coverage",
    "profiling_renderer_settings",
    "progress_bar_time",
    "tracked_metrics",
}
"""Settings of a cursor that cannot change a result: progress, profiles and buffers of streamed results."""

POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.csv"
unit = "id"
columns = { id = "INTEGER" }
"""


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, duckdb.DuckDBPyConnection]]:
    """The databases of one session, whose settings are locked."""
    folder = tmp_path_factory.mktemp("settings")
    (folder / "visits.csv").write_text("id\n1\n")
    (folder / "dpsql.toml").write_text(POLICY)
    with Database(folder / "dpsql.toml") as database:
        engines: Any = database.engines()
        yield {
            "counts only": engines.engine._connection(counts_only=True),
            "other counts": engines.engine._connection(counts_only=False),
            "schema": engines.schema_database._database.connection,
        }


def current(cursor: duckdb.DuckDBPyConnection, name: str) -> object:
    return cursor.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]


def test_a_fresh_cursor_has_every_setting_that_is_relied_on(
    connections: dict[str, duckdb.DuckDBPyConnection],
) -> None:
    for which, connection in connections.items():
        for cursor in (connection, connection.cursor(), connection.cursor().cursor()):
            assert {name: current(cursor, name) for name in VALUES} == VALUES, which
            facts = duckdb_settings.tested_versions()[duckdb_settings.installed_version()]
            assert duckdb_settings.read_relied_on(cursor) == facts.relied_on, which


def test_a_fresh_cursor_has_the_settings_of_the_database(
    connections: dict[str, duckdb.DuckDBPyConnection],
) -> None:
    for connection in connections.values():
        every = "SELECT name, value FROM duckdb_settings() ORDER BY name"
        assert connection.cursor().execute(every).fetchall() == connection.execute(every).fetchall()


def test_all_pinned_settings_and_all_settings_of_cursors_are_listed(
    connections: dict[str, duckdb.DuckDBPyConnection],
) -> None:
    cursor = connections["schema"].cursor()
    scopes = dict(cursor.execute("SELECT name, scope FROM duckdb_settings()").fetchall())
    assert {*duckdb_settings._AT_START, *duckdb_settings._PINNED} <= RELIED_ON
    assert {name for name, scope in scopes.items() if scope == "LOCAL"} <= RELIED_ON | SHOWN_ALONE


def test_what_may_fail_is_not_optimized_out_of_its_try(
    connections: dict[str, duckdb.DuckDBPyConnection],
) -> None:
    unsafe = {"type_pushdown", "scalar_fn_pushdown", "common_subexpressions"}
    unsafe |= {"self_join_aggregate"} & set(duckdb_settings.list_optimizers(connections["schema"]))
    for which, connection in connections.items():
        off = set(str(current(connection.cursor(), "disabled_optimizers")).split(","))
        assert off == (unsafe if which == "counts only" else {*unsafe, "statistics_propagation"})


def test_the_meaning_of_values_is_pinned_in_a_fresh_cursor(
    connections: dict[str, duckdb.DuckDBPyConnection],
) -> None:
    sql = "SELECT 1 // 0, 1 / 2, CAST(TIMESTAMPTZ '2024-01-01 00:00:00+00' AS VARCHAR), 'ab' ~ 'b'"
    for connection in connections.values():
        assert connection.cursor().execute(sql).fetchall() == [(None, 0.5, "2024-01-01 00:00:00+00", True)]


@pytest.mark.parametrize(
    "name",
    [*duckdb_settings._AT_START, *duckdb_settings._PINNED, "enable_progress_bar", "threads", "allowed_paths"],
)
def test_no_cursor_can_change_a_setting(connections: dict[str, duckdb.DuckDBPyConnection], name: str) -> None:
    for connection in connections.values():
        before = current(connection.cursor(), name)
        for verb in ("SET GLOBAL", "SET SESSION", "SET"):
            with pytest.raises(duckdb.Error):
                connection.cursor().execute(f"{verb} {name} = '1'")
        with pytest.raises(duckdb.Error):
            connection.cursor().execute(f"RESET {name}")
        assert current(connection.cursor(), name) == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority is the whole process's")
def test_the_threads_of_a_database_in_the_background_give_way() -> None:
    def priorities() -> dict[str, int]:
        found = dict[str, int]()
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # one of an earlier test has ended meanwhile
                found[thread] = os.getpriority(os.PRIO_PROCESS, int(thread))
        return found

    before = priorities()
    with duckdb_settings.connect(background=True) as connection:
        (threads,) = connection.execute("SELECT current_setting('threads')").fetchall()[0]
        connection.execute("SELECT COUNT(*) FROM range(1000000)").fetchall()
        made = [priority for thread, priority in priorities().items() if thread not in before]
        own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert made.count(min(19, own + duckdb_settings._NICENESS)) >= threads - 1
    assert priorities()[str(threading.get_native_id())] == own


def test_a_progress_bar_is_switched_off_wherever_it_is_on() -> None:
    with duckdb.connect() as connection:
        connection.execute("SET progress_bar_time = 1")  # which switches it on
        assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]
        duckdb_settings.switch_off_progress_bar(connection)
        assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
