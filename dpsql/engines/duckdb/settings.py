"""The settings of every DuckDB database, the lock that prevents changes to them, and cursors.

Each statement runs on a cursor of its own, which can be interrupted alone. A cursor has the database's
settings, not those that another cursor or connection set for itself, so settings are pinned globally.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import duckdb

from dpsql.engines.duckdb import tested_versions
from dpsql.engines.worker import run
from dpsql.errors import EngineNotTested

_Result = TypeVar("_Result")

_AT_START: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
}

_PINNED = {
    # The meaning of a value must not depend on the machine or on the owner's configuration.
    "TimeZone": "'UTC'",
    "Calendar": "'gregorian'",
    "default_collation": "''",
    "ieee_floating_point_ops": "true",  # false makes sqrt, ln and / raise
    "error_on_division_by_zero": "false",
    "integer_division": "false",
    "scalar_subquery_error_on_multiple_rows": "true",
    "default_null_order": "'NULLS_LAST'",
    "default_order": "'ASCENDING'",
    "order_by_non_integer_literal": "false",
    "regex_match_operator_semantics": "'partial'",
    "max_execution_time": "0",  # a failure by the engine's timeout would depend on data
    "enable_logging": "false",
}

_UNSAFE_OPTIMIZERS = ("type_pushdown", "scalar_fn_pushdown", "common_subexpressions", "self_join_aggregate")
"""Optimizers that move a conversion or a function out of its TRY: into a file's reader, or into a common
subexpression of two TRYs. The last one makes one reading of two, and nobody has shown that it keeps each TRY.
"""
_STATISTICS = "statistics_propagation"
"""It computes functions of a column's minimum and maximum during planning, where no TRY catches an error."""

_NICENESS = 10
"""How far threads in the background stand behind others of the machine."""
_LAST = 19
"""The lowest priority that there is."""


def connect(
    pinned: Mapping[str, str] | None = None, *, background: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open an empty in-memory database with settings pinned, not yet locked.

    Without an argument they are those that the compiled queries of releases need. In the `background`, the
    threads that it starts for its queries give way to others. Raises `EngineNotTested` for an engine that was
    not tested and lacks one of the settings, or has another value for one that is relied on.
    """
    what = "start"
    try:
        connection = _opened_in_background() if background else _opened()
        for name, value in (_PINNED if pinned is None else pinned).items():
            what = f"take the setting {name}"
            connection.execute(f"SET GLOBAL {name} = {value}")
        what = "tell its settings"
        # It has no global value, and a cursor starts without it. In a notebook without widgets the engine
        # refuses to switch it off, even where it is off.
        if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
            connection.execute("SET enable_progress_bar = false")
        if pinned is None:
            what = "list its optimizers"
            _switch_off(connection, (_STATISTICS, *_UNSAFE_OPTIMIZERS))
            tested_versions.check_settings(connection)
    except duckdb.Error:
        untested = tested_versions.notice()
        if not untested:
            raise
        raise EngineNotTested(f"{untested}; it does not {what}, so the data are not opened") from None
    return connection


def _switch_off(connection: duckdb.DuckDBPyConnection, optimizers: Sequence[str]) -> None:
    """Switch off those optimizers that the engine has, and those that no tested version has."""
    known = {name for each in tested_versions.tested().values() for name in each.optimizers}
    there = tested_versions.optimizers(connection)
    names = ",".join(name for name in there if name in optimizers or name not in known)
    connection.execute(f"SET GLOBAL disabled_optimizers = '{names}'")


def _opened() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config=dict(_AT_START))


def _opened_in_background() -> duckdb.DuckDBPyConnection:
    """Open a database in a thread of low priority, which the threads that it starts inherit."""

    def give_way() -> None:
        if sys.platform == "linux":  # elsewhere a priority is the whole process's
            thread = threading.get_native_id()
            own = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(_LAST, own + _NICENESS))

    with ThreadPoolExecutor(1, initializer=give_way) as thread:
        return thread.submit(_opened).result()


def run_on_cursor(
    connect: Callable[[], duckdb.DuckDBPyConnection],
    work: Callable[[duckdb.DuckDBPyConnection], _Result],
    message: str,
) -> _Result | None:
    """Run work on a new cursor; return its result, or None if it failed. `message` is that of `Cancelled`.

    The thread that runs it calls `connect` too: in the main thread, a Ctrl-C while a database opens would
    look like a failure of the engine.
    """
    cursors: list[duckdb.DuckDBPyConnection] = []

    def body() -> _Result:
        cursors.append(connect().cursor())
        with cursors[0]:
            return work(cursors[0])

    def stop() -> None:
        for cursor in cursors:
            interrupt(cursor)

    return run(body, stop, lambda error: isinstance(error, duckdb.InterruptException), message)


def interrupt(cursor: duckdb.DuckDBPyConnection) -> None:
    """Stop what a cursor runs, from another thread."""
    with suppress(duckdb.Error):  # it may be closed
        cursor.interrupt()


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for a Ctrl-C that DuckDB reports as `RuntimeError` in the main thread."""
    try:
        yield
    except RuntimeError as problem:
        if str(problem) != "Query interrupted":
            raise
        stopped = True
    else:
        stopped = False
    if stopped:
        raise KeyboardInterrupt


def lock(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    spill: Path | None,
    *,
    statistics: bool = False,
    memory: int | None = None,
) -> None:
    """Allow reading exactly these files and lock all settings; `spill` is the folder of temporary files.

    `memory` is the most bytes that the database takes; None: the engine's own limit.

    `statistics` lets the optimizer use the minimum and maximum of columns: counting distinct units takes an
    eighth less time and a quarter less memory. It is only for queries with `CompiledQuery.counts_only`:
    see `_STATISTICS`.
    """
    if statistics:
        _switch_off(connection, _UNSAFE_OPTIMIZERS)
    if memory is not None:
        connection.execute(f"SET GLOBAL memory_limit = '{memory}B'")
    folder = str(spill) if spill is not None else ""
    connection.execute("SET GLOBAL temp_directory = '" + folder.replace("'", "''") + "'")
    listed = ", ".join("'" + str(p).replace("'", "''") + "'" for p in paths)
    connection.execute(f"SET GLOBAL allowed_paths = [{listed}]")
    connection.execute("SET GLOBAL enable_external_access = false")
    connection.execute("SET GLOBAL lock_configuration = true")
