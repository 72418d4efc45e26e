# ruff: noqa: E501  statements and lists of values read better unbroken
"""What an owner's PostgreSQL may hold that makes a statement fail, or take long, because of one row."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.stores import PostgresStore

from dpsql.engines import postgres as postgres_engine
from dpsql.engines.postgres import PostgresConnection
from dpsql.engines.postgres.postgres_tables import find_table, write_scan
from dpsql.errors import OperationalError, PolicyError, QueryRefused
from dpsql.policy import DatabaseSource, Policy, Table, UnitColumn
from dpsql.session import Session
from dpsql.types import BIGINT
from tests.narrow import engine_of

pytestmark = pytest.mark.postgres

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
max_failures = 100
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
columns = { user_id = "BIGINT", page = "VARCHAR" }
"""
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE "


@pytest.fixture
def postgres(postgres_address: str, tmp_path: Path) -> PostgresStore:
    store = PostgresStore(tmp_path, postgres_address)
    store.execute(
        "DROP SCHEMA IF EXISTS owned CASCADE",
        "CREATE SCHEMA owned",
        "CREATE TABLE owned.visits AS SELECT i AS user_id, 'a' AS page FROM generate_series(1::bigint, 30) AS r(i)",
    )
    return store


def opened(store: PostgresStore) -> Session:
    return store.session(policy(store))


def policy(store: PostgresStore) -> Policy:
    return store.policy(POLICY, {"visits": "owned.visits"})


RAISES = (
    "LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF $1 = 7 THEN RAISE EXCEPTION '%', $1; END IF; RETURN {}; END $$"
)
OWN = {
    "no user-defined cast": (
        [
            f"CREATE FUNCTION owned.shown(bigint) RETURNS text {RAISES.format('md5(int8send($1))')}",
            "CREATE CAST (bigint AS text) WITH FUNCTION owned.shown(bigint)",
        ],
        "DROP CAST (bigint AS text)",
    ),
    "no user-defined operator": (
        [
            f"CREATE FUNCTION owned.added(float8, numeric) RETURNS float8 {RAISES.format('$1')}",
            "CREATE OPERATOR pg_catalog.+ (LEFTARG = float8, RIGHTARG = numeric, FUNCTION = owned.added)",
        ],
        "DROP OPERATOR pg_catalog.+ (float8, numeric)",
    ),
    "no user-defined function": (
        [f"CREATE FUNCTION pg_catalog.mod(numeric, bigint) RETURNS numeric {RAISES.format('$1')}"],
        "DROP FUNCTION pg_catalog.mod(numeric, bigint)",
    ),
}


@pytest.mark.parametrize("what", OWN)
def test_a_database_that_calls_somebodys_function_on_built_in_types_is_refused(
    postgres: PostgresStore, what: str
) -> None:
    session = opened(postgres)
    made, undone = OWN[what]
    postgres.execute("SET allow_system_table_mods = on", *made)
    try:
        with pytest.raises(OperationalError, match=what):
            opened(postgres)
        before = session.budget().spent
        with pytest.raises(OperationalError, match=what) as caught:
            session.run(f"{COUNT}CAST(user_id AS VARCHAR) = '7'")
        assert caught.value.__cause__ is None
        assert session.budget().spent == before
    finally:
        postgres.execute("SET allow_system_table_mods = on", undone)
    session.close()


def test_casts_that_do_what_the_server_does_are_no_matter(postgres: PostgresStore) -> None:
    postgres.execute("CREATE CAST (varchar AS uuid) WITH INOUT AS IMPLICIT")
    try:
        session = opened(postgres)
    finally:
        postgres.execute("DROP CAST (varchar AS uuid)")
    session.close()


def test_one_row_does_not_decide_whether_temporary_files_suffice(postgres: PostgresStore) -> None:
    postgres.execute("ALTER ROLE owner SET temp_file_limit = '8MB'")
    try:
        with pytest.raises(OperationalError, match="temp_file_limit is -1"):
            opened(postgres)
        postgres.execute("ALTER ROLE owner SET temp_file_limit = '2147483647kB'")
        opened(postgres).close()
    finally:
        postgres.execute("ALTER ROLE owner RESET temp_file_limit")


def test_a_session_that_the_server_ended_costs_nothing(postgres: PostgresStore) -> None:
    session = opened(postgres)
    session.run(f"{COUNT}page = 'a'")
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    # The same counting text as before, which is translated and bound already.
    assert session.run(f"{COUNT}page = 'a'".replace("AS n", "AS m")).release is not None
    session.close()


ASLEEP = """
import sys
from dpsql.engines.postgres import PostgresConnection
PostgresConnection(sys.argv[1], 3600).table("SELECT 1 AS asleep FROM pg_sleep(3600)")
"""
RUNNING = "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE '%1 AS asleep%' AND state = 'active' AND pid <> pg_backend_pid()"


def test_the_statement_of_a_process_that_was_killed_ends(postgres: PostgresStore) -> None:
    asked = PostgresConnection(postgres.address, 60)

    def waits_until(running: int) -> bool:
        for _ in range(600):
            if asked.ask(RUNNING) == [(running,)]:
                return True
            time.sleep(0.1)
        return False

    process = subprocess.Popen([sys.executable, "-c", ASLEEP, postgres.address])
    try:
        assert waits_until(1)
    finally:
        process.kill()
        process.wait()
    assert waits_until(0)
    asked.close()


def test_a_server_that_does_not_look_for_its_client_serves_it(
    postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_engine, "_WATCHED", ("client_connection_check_interval", "whenever"))
    session = opened(postgres)
    assert session.run(f"{COUNT}page = 'a'").release is not None
    session.close()


@pytest.mark.parametrize(
    "condition",
    [
        f"{'upper(lower(' * 12}page{'))' * 12} = 'q'",
        " OR ".join(f"page ILIKE '%{i}%'" for i in range(21)),
    ],
    ids=["nested", "many"],
)
def test_changing_the_case_of_many_texts_is_refused_uncharged(
    postgres: PostgresStore, condition: str
) -> None:
    session = opened(postgres)
    with pytest.raises(QueryRefused, match="too long"):
        session.run(COUNT + condition)
    assert session.budget().spent.epsilon == 0
    assert session.run(f"{COUNT}upper(lower(upper(page))) = 'A' OR page ILIKE '%b%'").release is not None
    session.close()


def test_a_column_that_is_calculated_when_it_is_read_is_refused(postgres: PostgresStore) -> None:
    # PostgreSQL 18 has VIRTUAL columns: 100 / x is calculated, and fails, at every SELECT.
    source = DatabaseSource("owned", "visits")
    columns = (("user_id", BIGINT), ("page", BIGINT))
    table = Table(name="visits", source=source, unit=UnitColumn("user_id"), columns=dict(columns))
    session = opened(postgres)
    ask = engine_of(session)._idle[-1].ask  # type: ignore[attr-defined]  # PostgresEngine
    seen = find_table(ask, table, source)
    assert [c.type_name for c in seen.columns] == ["int8", "text"]

    def as_version_18(sql: str) -> list[tuple[object, ...]]:
        assert "a.attgenerated = 'v'" in sql
        return ask(sql.replace("a.attgenerated = 'v'", "a.attname = 'page'"))

    found = find_table(as_version_18, table, source)
    assert [c.type_name for c in found.columns] == ["int8", "virtual"]
    with pytest.raises(PolicyError, match="calculated when it is read"):
        write_scan(table, found, columns, 1000)
    session.close()
