# ruff: noqa: E501  statements read better unbroken
"""Long texts, long patterns and jsonb on PostgreSQL, where one row of one unit would make a statement fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lengths import forms
from support.stores import PostgresStore, compare

from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.postgres import PostgresConnection
from dpsql.engines.writer import Untranslatable
from dpsql.errors import OperationalError, PolicyError, QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of

pytestmark = pytest.mark.postgres

POLICY = """
[budget]
epsilon = 100000
default_epsilon = 1
max_failures = 100
ledger = "ledger.sqlite"
[tables.notes]
source = "long.notes"
unit = "user_id"
columns = { user_id = "BIGINT", note = "VARCHAR", doc = "VARCHAR" }
"""
TEXTS = {
    1: "repeat('a', 65536)",
    2: "repeat('é', 32768)",
    3: "repeat('%', 35000)",
    4: "repeat(' ', 65536)",
    5: "repeat('Ab1,', 16384)",
    6: "'short'",
}
LONG = {
    7: "repeat('a', 65537)",
    8: "repeat('é', 32769)",
    9: "repeat('a', 300000000)",
    10: "repeat('É', 150000000)",
}
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM notes WHERE "


@pytest.fixture(scope="module")
def place(postgres_address: str, tmp_path_factory: pytest.TempPathFactory) -> PostgresStore:
    """Two of the texts have 300 MB, and take some megabytes as they are stored."""
    store = PostgresStore(tmp_path_factory.mktemp("long"), postgres_address)
    store.execute(
        "DROP SCHEMA IF EXISTS long CASCADE",
        "CREATE SCHEMA long",
        "CREATE TABLE long.notes (user_id bigint, note text, doc json)",
        *(f"INSERT INTO long.notes VALUES ({i}, {text}, '[1]')" for i, text in {**TEXTS, **LONG}.items()),
        "INSERT INTO long.notes SELECT 11, NULL, json_build_object('a', repeat('b', 100000000))",
        "INSERT INTO long.notes SELECT 12, NULL, json_build_object('a', repeat('b', 65526))",
    )
    return store


def written(store: PostgresStore, text: str = POLICY) -> Path:
    folder = store.folder / f"policy{next(store._numbers)}"
    folder.mkdir()
    (folder / "dpsql.toml").write_text(f'[database]\nengine = "{store.engine}"\n{text}', "utf-8")
    return folder / "dpsql.toml"


@pytest.fixture(scope="module")
def session(place: PostgresStore) -> Iterator[Session]:
    found = place.session(load(written(place)))
    yield found
    found.close()


SCAN = '(SELECT b."user_id" AS id, b."note" AS s FROM main."notes" AS b) AS t1'


def test_longer_texts_are_null_at_the_scan(session: Session) -> None:
    found = compare(engine_of(session), f"SELECT t1.id AS id, strlen(t1.s) AS n FROM {SCAN}")  # type: ignore[arg-type]
    lengths = dict(zip(*(c.to_pylist() for c in found.columns), strict=True))
    assert {i for i, n in lengths.items() if n is None} == {*LONG, 11, 12}
    assert {lengths[i] for i in (1, 2, 4)} == {65536}
    documents = '(SELECT b."user_id" AS id, b."doc" AS s FROM main."notes" AS b) AS t1'
    found = compare(engine_of(session), f"SELECT t1.id AS id FROM {documents} WHERE (t1.s IS NULL)")  # type: ignore[arg-type]
    assert found.column(0).to_pylist() == [11]
    assert engine_of(session).vet("notes")


def test_every_form_takes_the_longest_texts_and_means_the_same(session: Session) -> None:
    """The same rows in DuckDB, with NULL where the scan has NULL."""
    taken, slow = 0, {}
    with duckdb_settings.connect() as connection:
        texts = [f"({i}, {text})" for i, text in TEXTS.items()] + [f"({i}, NULL)" for i in (*LONG, 11, 12)]
        connection.execute(
            f"CREATE TABLE t1 AS SELECT id::BIGINT AS id, s FROM (VALUES {', '.join(texts)}) AS v(id, s)"
        )
        for sql in forms("t1.s", "t1.s"):
            try:
                began = time.perf_counter()
                found = compare(engine_of(session), f"SELECT t1.id AS id, {sql} AS x FROM {SCAN}")  # type: ignore[arg-type]
                slow[sql] = time.perf_counter() - began
            except Untranslatable:
                continue
            wanted = connection.execute(f"SELECT id, {sql} FROM t1 ORDER BY id").fetchall()
            assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == wanted, sql
            taken += 1
    assert taken > 40
    for sql, seconds in sorted(slow.items(), key=lambda item: -item[1])[:8]:
        print(f"{seconds * 1000:8.1f} ms over 12 rows: {sql[:90]}")


@pytest.mark.parametrize(
    "condition",
    [
        f"note LIKE '{'%' * 35_000}'",
        f"note LIKE '{'%a' * 20_000}b'",
        f"note ILIKE '{'_' * 35_000}'",
        f"contains(note, '{'a' * 30_000}b')",
        f"strpos(note, 'b{'a' * 30_000}') > 0",
    ],
    ids=lambda c: c[:18],
)
def test_long_patterns_and_needles_are_refused_before_anything_is_charged(
    session: Session, condition: str
) -> None:
    before = session.budget().spent
    with pytest.raises(QueryRefused):
        session.run(COUNT + condition)
    assert session.budget().spent == before


def test_statements_on_them_are_answered(session: Session) -> None:
    """Each failed on such a row: stack depth, lengths beyond 2^28 bits or 1 GB, memory for the other case."""
    for condition in (
        "bit_length(note) > 0",
        "trim(note) = 'a'",
        "lower(note) = 'a'",
        "upper(note) LIKE 'É%'",
        "note ILIKE '%é%é%'",
        f"note LIKE '{'%a' * 100}'",
        "contains(note, left(note, 20000))",
        "md5(note) = 'a'",
        "note || note || note || note = 'a'",
        "replace(note, 'a', 'bbbb') = 'a'",
        "doc = '[1]'",
        "rpad(note, 1000, 'x') = 'a'",
    ):
        assert session.run(COUNT + condition).release is not None, condition
    session.run(
        "SELECT note, COUNT(DISTINCT user_id) AS n FROM notes WHERE note IN ('short', 'a') GROUP BY note TOP 1"
    )
    assert session.ledger.count_failures(session.analyst) == 0


def test_bits_are_counted_beyond_two_to_the_31(session: Session) -> None:
    engine = engine_of(session)
    (form,) = engine.dialect.forms["bit_length"]  # type: ignore[attr-defined]  # RemoteEngine
    rows = engine._idle[-1].ask(f"SELECT {str(form.text).format('note')} FROM long.notes WHERE user_id = 9")  # type: ignore[attr-defined]
    assert rows == [(2_400_000_000,)]


def test_jsonb_is_no_column_type_and_json_is_advised(place: PostgresStore) -> None:
    place.execute("DROP TABLE IF EXISTS long.other", "CREATE TABLE long.other (user_id bigint, doc jsonb)")
    text = POLICY.replace("long.notes", "long.other").replace(' note = "VARCHAR",', "")
    with pytest.raises(PolicyError) as caught:
        place.open(load(written(place, text)))
    assert "half a million times" in caught.value.message
    assert "json" in (caught.value.hint or "")


def test_rows_with_long_keys_of_a_fact_are_not_read(place: PostgresStore) -> None:
    """Compressed, they fit into an index: read as NULL, two of them would be one key."""
    place.execute(
        "DROP TABLE IF EXISTS long.keys",
        "CREATE TABLE long.keys (user_id bigint, note text PRIMARY KEY)",
        "INSERT INTO long.keys VALUES (1, 'a'), (2, repeat('b', 65536)), (3, repeat('c', 65537)), (4, repeat('d', 100000))",
    )
    text = (
        POLICY.replace("long.notes", "long.keys").replace(', doc = "VARCHAR"', "") + 'unique = [["note"]]\n'
    )
    schema_database, engine = place.open(load(written(place, text)))
    found = compare(engine, f"SELECT t1.id AS id FROM {SCAN}")
    assert sorted(found.column(0).to_pylist()) == [1, 2]
    assert engine.vet("notes")
    engine.close()
    schema_database.close()


def test_a_key_that_becomes_deferrable_is_seen_at_the_next_statement(place: PostgresStore) -> None:
    place.execute(
        "DROP TABLE IF EXISTS long.keys",
        "CREATE TABLE long.keys (user_id bigint, note text, n bigint CONSTRAINT one PRIMARY KEY)",
        "INSERT INTO long.keys SELECT i, 'a', i FROM generate_series(1, 50) r(i)",
    )
    text = POLICY.replace("long.notes", "long.keys").replace('doc = "VARCHAR"', 'n = "BIGINT"')
    session = place.session(load(written(place, text + 'unique = [["n"]]\n')))
    assert session.run(COUNT + "n > 1").release is not None
    prepared = session.prepare(COUNT + "n > 2")
    place.execute(
        "ALTER TABLE long.keys DROP CONSTRAINT one, ADD CONSTRAINT one PRIMARY KEY (n) DEFERRABLE",
        "SET session_replication_role = replica",
        "INSERT INTO long.keys SELECT 1, 'a', 1 FROM generate_series(1, 5000)",
    )
    before = session.budget().spent
    with pytest.raises(OperationalError, match="no index of PostgreSQL keeps"):
        session.execute(prepared)
    assert session.budget().spent == before
    session.close()


def test_a_table_that_changes_while_it_is_counted_is_not_answered_for(place: PostgresStore) -> None:
    """A child comes without waiting for the lock of who reads; its rows are no longer those of the table."""
    place.execute(
        "DROP TABLE IF EXISTS long.parent CASCADE", "CREATE TABLE long.parent (user_id bigint, note text)"
    )
    text = POLICY.replace("long.notes", "long.parent").replace(', doc = "VARCHAR"', "")
    schema_database, engine = place.open(load(written(place, text)))
    connection, guards = engine._idle[-1], engine._guards.values()  # type: ignore[attr-defined]  # PostgresEngine
    assert connection.table("SELECT 1 AS x", guards).num_rows == 1
    problems: list[str] = []

    def run() -> None:
        try:
            connection.table("SELECT pg_sleep(3) IS NULL AS x", guards)
        except Exception as problem:  # noqa: BLE001  whatever it is, it is compared below
            problems.append(str(problem))

    watcher = PostgresConnection(place.address, 60)
    worker = threading.Thread(target=run)
    worker.start()
    sleeping = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    while worker.is_alive() and watcher.ask(sleeping) != [(1,)]:
        time.sleep(0.02)
    place.execute("CREATE TABLE long.child () INHERITS (long.parent)")
    worker.join()
    assert problems == ["table notes was replaced or altered since it was opened"]
    watcher.close()
    engine.close()
    schema_database.close()


def test_a_server_with_a_small_stack_is_refused(place: PostgresStore) -> None:
    place.execute("ALTER ROLE owner SET max_stack_depth = '1MB'")
    try:
        with pytest.raises(OperationalError) as caught:
            place.open(load(written(place)))
    finally:
        place.execute("ALTER ROLE owner RESET max_stack_depth")
    assert "max_stack_depth is at least 2MB" in str(caught.value)
    assert caught.value.__cause__ is None
