# ruff: noqa: E501  statements and lists of values read better unbroken
"""Each engine only reads, stops when told to, says nothing of why it failed, and reads values canonically."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from support.stores import PostgresStore, Store, compare

from dpsql.engines import FAILED, Cancelled
from dpsql.engines.remote_engine import RemoteEngine
from dpsql.engines.writer import TargetColumn, Translated
from dpsql.errors import OperationalError, PolicyError, QueryRefused
from dpsql.session import Session
from dpsql.types import BIGINT
from tests.narrow import engine_of

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
max_failures = 100
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unique = [["visit_id"]]
columns = { visit_id = "BIGINT", user_id = "BIGINT", page = "VARCHAR" }
not_null = ["page"]
[tables.visits.domain]
page = ["a", "b"]
"""
ROWS = "SELECT i AS visit_id, i % 7 AS user_id, ['a', 'b', 'c'][1 + i % 3] AS page FROM range(30) AS r(i)"
LONG = {
    "PostgreSQL": "SELECT COUNT(*) AS n0 FROM generate_series(1, 100000000000) AS r(i) WHERE i % 7 = 3",
    "Spark": "SELECT COUNT(*) AS n0 FROM range(100000000000000) WHERE id % 7 = 3",
}
"""Statements that run for minutes."""
COUNT = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 1"


@pytest.fixture(scope="module")
def session(store: Store) -> Iterator[Session]:
    with duckdb.connect() as connection:
        sources = store.put(connection, {"visits": ROWS})
    found = store.session(store.policy(POLICY, sources))
    yield found
    found.close()


@pytest.fixture
def engine(session: Session) -> RemoteEngine:
    found = engine_of(session)
    assert isinstance(found, RemoteEngine)
    return found


def long_one(engine: RemoteEngine) -> Translated:
    return Translated(LONG[engine.dialect.name], (TargetColumn("n0", BIGINT),), ())


def test_what_runs_is_stopped_from_another_thread(engine: RemoteEngine, session: Session) -> None:
    stopper = threading.Timer(1.5, session.cancel)
    stopper.start()
    begun = time.monotonic()
    with pytest.raises(Cancelled) as caught, session.statement():
        engine._run(long_one(engine))
    stopper.join()
    assert time.monotonic() - begun < 60  # it would take minutes
    assert caught.value.__cause__ is None
    assert session.run(COUNT).release is not None


def test_stopping_one_statement_leaves_another_sessions(engine: RemoteEngine, session: Session) -> None:
    other = Session(session.database, "another")
    prepared = other.prepare(f"{COUNT[:-1]}3")

    def run_long() -> None:
        with session.statement():
            engine._run(long_one(engine))

    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(run_long)
        answer = pool.submit(other.execute, prepared)
        while not long.done():
            session.cancel()
            time.sleep(0.1)
        with pytest.raises(Cancelled):
            long.result()
        assert answer.result().release is not None
    other.close()
    assert session.run("SHOW TABLES").table.num_rows == 1


def test_a_stopped_vetting_is_no_verdict(
    engine: RemoteEngine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = engine.fetch
    monkeypatch.setattr(engine, "fetch", lambda connection, _: fetch(connection, long_one(engine)))
    stopper = threading.Timer(1.5, session.cancel)
    stopper.start()
    with pytest.raises(Cancelled, match="nothing was charged"), session.statement():
        engine.vet("visits")
    stopper.join()
    monkeypatch.undo()
    assert engine.vet("visits")


def test_what_runs_too_long_fails_without_a_word(engine: RemoteEngine, session: Session) -> None:
    policy = engine._policy
    object.__setattr__(policy, "timeout", 1)
    try:
        with pytest.raises(OperationalError) as caught:
            engine._run(long_one(engine))
    finally:
        object.__setattr__(policy, "timeout", 3600)
    assert str(caught.value) == FAILED
    assert session.run(f"{COUNT[:-1]}2").release is not None


def test_a_source_is_vetted_once(engine: RemoteEngine, store: Store) -> None:
    assert engine.vet("visits")
    with duckdb.connect() as connection:
        twice = store.put(connection, {"visits": f"{ROWS} UNION ALL SELECT 3, 5, 'a'"})
    policy = store.policy(POLICY, twice)
    if isinstance(store, PostgresStore):  # there an index says so, at every statement
        with pytest.raises(PolicyError) as caught:
            store.open(policy)
        assert "no index" in caught.value.message
        return
    schema_database, other = store.open(policy)
    assert not other.vet("visits")
    other.close()
    schema_database.close()


def test_a_table_that_is_not_there_is_a_policy_error(store: Store) -> None:
    with pytest.raises(PolicyError) as caught:
        store.open(store.policy(POLICY, {"visits": "public.nowhere"}))
    assert "no table" in caught.value.message or "no such table" in caught.value.message


def test_a_column_that_is_not_there_or_not_readable_is_a_policy_error(store: Store) -> None:
    with duckdb.connect() as connection:
        sources = store.put(connection, {"visits": ROWS})
    for old, new in (('page = "VARCHAR"', 'pag = "VARCHAR"'), ('page = "VARCHAR"', 'page = "VARCHAR[]"')):
        with pytest.raises(PolicyError) as caught:
            store.open(store.policy(POLICY.replace(old, new).partition("[tables.visits.domain]")[0], sources))
        assert "visits" in caught.value.message


def test_what_does_not_translate_is_refused_uncharged(session: Session) -> None:
    before = session.budget().spent
    with pytest.raises(QueryRefused) as caught:
        session.run("SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(page, '^a')")
    assert caught.value.__cause__ is None
    assert session.budget().spent == before
    with pytest.raises(QueryRefused):
        session.run(
            "EXPLAIN SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(page, '^a')"
        )


def test_types_come_from_the_catalog(store: Store) -> None:
    with duckdb.connect() as connection:
        sources = store.put(connection, {"visits": ROWS})
    text = POLICY.replace('columns = { visit_id = "BIGINT", user_id = "BIGINT", page = "VARCHAR" }\n', "")
    schema_database, engine = store.open(store.policy(text, sources))
    assert [(name, str(kind)) for name, kind in schema_database.columns("visits")] == [
        ("visit_id", "BIGINT"),
        ("user_id", "BIGINT"),
        ("page", "VARCHAR"),
    ]
    engine.close()
    schema_database.close()


@pytest.fixture
def postgres(postgres_address: str, tmp_path: Path) -> PostgresStore:
    return PostgresStore(tmp_path, postgres_address)


@pytest.mark.postgres
def test_postgres_writes_nothing(postgres: PostgresStore) -> None:
    postgres.execute(
        "DROP TABLE IF EXISTS public.plain",
        "CREATE TABLE public.plain (user_id bigint, page text)",
        "CREATE SEQUENCE IF NOT EXISTS public.plain_seq",
    )
    text = POLICY.replace('unique = [["visit_id"]]\n', "").replace('visit_id = "BIGINT", ', "")
    schema_database, engine = postgres.open(postgres.policy(text, {"visits": "plain"}))
    connection = engine._idle[-1]  # type: ignore[attr-defined]  # PostgresEngine
    for sql in (  # the whole statement is one transaction, which only reads
        "WITH w AS (INSERT INTO public.plain VALUES (1, 'a') RETURNING 1) SELECT * FROM w",
        "SELECT nextval('public.plain_seq')",
    ):
        with pytest.raises(Exception, match="read-only"):
            connection.table(sql)
    settings = dict(connection.ask("SELECT name, setting FROM pg_settings"))
    assert settings["search_path"] == "pg_catalog, pg_temp"
    assert settings["default_transaction_read_only"] == settings["transaction_read_only"] == "on"
    assert settings["statement_timeout"] == "3600000"
    assert settings["TimeZone"] == "UTC"
    engine.close()
    schema_database.close()


@pytest.mark.postgres
def test_postgres_finds_no_function_but_its_own(postgres: PostgresStore) -> None:
    """The owner's schema, role and database bend names and settings: counts stay what they are."""
    postgres.execute(
        "DROP TABLE IF EXISTS public.plain",
        "CREATE TABLE public.plain AS SELECT i AS visit_id, i AS user_id, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END "
        "AS page FROM generate_series(1, 10) AS r(i)",
        "CREATE OR REPLACE FUNCTION public.starts_with(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE OR REPLACE FUNCTION public.char_length(text) RETURNS integer LANGUAGE sql AS 'SELECT 7'",
        "ALTER ROLE owner SET search_path = public, pg_catalog",
        "ALTER ROLE owner SET TimeZone = 'Asia/Tokyo'",
    )
    schema_database, engine = postgres.open(postgres.policy(POLICY, {"visits": "plain"}))
    found = compare(
        engine,
        'SELECT t1.page AS page, COUNT(*) AS n FROM (SELECT b."page" AS page FROM main."visits" AS b) AS t1 '
        "WHERE starts_with(t1.page, 'a') AND (length(t1.page) = 1) GROUP BY t1.page",
    )
    assert [tuple(row.values()) for row in found.to_pylist()] == [("a", 5)]
    engine.close()
    schema_database.close()
    postgres.execute(
        "DROP FUNCTION public.starts_with", "DROP FUNCTION public.char_length", "ALTER ROLE owner RESET ALL"
    )


ODD = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[tables.odd]
source = "odd.parquet"
unit = "id"
columns = { id = "BIGINT", d = "DOUBLE", r = "DOUBLE", t = "DATE", m = "TIMESTAMP", z = "TIMESTAMP", \
n = "DECIMAL(5,2)", c = "VARCHAR", i = "VARCHAR", w = "SMALLINT" }
"""


@pytest.mark.postgres
def test_postgres_values_are_canonical(postgres: PostgresStore) -> None:
    postgres.execute(
        "DROP TABLE IF EXISTS public.odd",
        "DROP COLLATION IF EXISTS public.loose",
        "CREATE COLLATION public.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE public.odd (id int, d float8, r real, t date, m timestamp, z timestamptz, n numeric(6,3), "
        "c char(4), i text COLLATE public.loose, w bigint)",
        "INSERT INTO public.odd VALUES (1, '-0', '-0', 'infinity', '-infinity', 'infinity', 'NaN', 'a', 'a', 70000), "
        "(2, 'NaN', 'NaN', '0044-03-15 BC', '294276-01-01', '2024-01-01 01:00+03', 999.996, 'a ', 'A', -32768), "
        "(3, '-infinity', 1.5, '9999-12-31', '9999-12-31 23:59:59.999999', NULL, -1.005, 'ab', 'b', 7)",
    )
    schema_database, engine = postgres.open(postgres.policy(ODD, {"odd": "odd"}))
    names = ("d", "r", "t", "m", "z", "n", "c", "i", "w")
    listed = ", ".join(f'b."{n}" AS {n}' for n in names)
    rows = compare(engine, f'SELECT b."id" AS id, {listed} FROM main."odd" AS b ORDER BY b."id"').to_pylist()
    one, two, three = (list(map(str, row.values())) for row in rows)
    assert one == ["1", "0.0", "0.0", "None", "None", "None", "None", "a", "a", "None"]
    # 999.996 has no two decimals below 1000.
    assert two == ["2", "nan", "nan", "None", "None", "2023-12-31 22:00:00", "None", "a", "A", "-32768"]
    assert three == [
        "3",
        "-inf",
        "1.5",
        "9999-12-31",
        "9999-12-31 23:59:59.999999",
        "None",
        "-1.01",
        "ab",
        "b",
        "7",
    ]
    groups = compare(
        engine,
        'SELECT t1.i AS i, COUNT(*) AS n FROM (SELECT b."i" AS i FROM main."odd" AS b) AS t1 GROUP BY t1.i ',
    )
    assert groups.num_rows == 3  # a and A are equal in their own collation
    engine.close()
    schema_database.close()


@pytest.mark.postgres
def test_postgres_reads_no_view(postgres: PostgresStore) -> None:
    postgres.execute(
        "CREATE OR REPLACE VIEW public.mixed AS SELECT 1::bigint AS visit_id, 1::bigint AS user_id, 'a'::text AS page"
    )
    with pytest.raises(PolicyError) as caught:
        postgres.open(postgres.policy(POLICY, {"visits": "mixed"}))
    assert "is a view" in caught.value.message


@pytest.mark.postgres
def test_a_session_that_is_cut_off_is_opened_again(postgres: PostgresStore) -> None:
    with duckdb.connect() as connection:
        sources = postgres.put(connection, {"visits": ROWS})
    session = postgres.session(postgres.policy(POLICY, sources))
    session.run(COUNT)
    cut = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    postgres.execute(cut)
    assert session.run(COUNT.replace("visits", "visits WHERE user_id > 1")).release is not None
    prepared = session.prepare(COUNT.replace("visits", "visits WHERE user_id > 2"))
    postgres.execute(cut)
    before = session.budget().spent.epsilon
    assert session.execute(prepared).release is not None  # the cut is seen before the charge
    assert session.budget().spent.epsilon == before + 1
    assert session.run(COUNT.replace("visits", "visits WHERE user_id > 3")).release is not None
    session.close()
