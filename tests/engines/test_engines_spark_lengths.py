# ruff: noqa: E501  statements read better unbroken
"""Long texts and patterns on Spark, and types whose values are longer than what is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import duckdb
import pytest
from support.lengths import forms
from support.reading import query_of
from support.stores import SparkStore, compare

from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import declared_columns
from dpsql.engines.remote_engine import RemoteEngine
from dpsql.engines.spark.spark_tables import columns_of, write_scan
from dpsql.engines.writer import Untranslatable, write
from dpsql.errors import PolicyError, QueryRefused
from dpsql.session import Session
from tests.narrow import engine_of

pytestmark = pytest.mark.spark

POLICY = """
[budget]
epsilon = 100000
default_epsilon = 1
max_failures = 100
ledger = "ledger.sqlite"
[tables.notes]
source = "notes.parquet"
unit = "user_id"
columns = { user_id = "BIGINT", note = "VARCHAR" }
"""
TEXTS = {
    1: "repeat('a', 65536)",
    2: "repeat('é', 32768)",
    3: "repeat('%', 35000)",
    4: "repeat(' ', 65536)",
    5: "repeat('Ab1,', 16384)",
    6: "'short'",
}
LONG = {7: "repeat('a', 65537)", 8: "repeat('é', 32769)", 9: "repeat('É', 20000000)"}
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM notes WHERE "
SCAN = '(SELECT b."user_id" AS id, b."note" AS s FROM main."notes" AS b) AS t1'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> SparkStore:
    return SparkStore(tmp_path_factory.mktemp("lengths"))


@pytest.fixture(scope="module")
def session(place: SparkStore) -> Iterator[Session]:
    values = ", ".join(f"({i}, {text})" for i, text in {**TEXTS, **LONG}.items())
    with duckdb.connect() as connection:
        rows = f"SELECT user_id::BIGINT AS user_id, note FROM (VALUES {values}) AS v(user_id, note)"
        sources = place.put(connection, {"notes": rows})
    found = place.session(place.policy(POLICY, sources))
    yield found
    found.close()


def test_longer_texts_are_null_at_the_scan(session: Session) -> None:
    found = compare(engine_of(session), f"SELECT t1.id AS id, strlen(t1.s) AS n FROM {SCAN}")  # type: ignore[arg-type]
    lengths = dict(zip(*(c.to_pylist() for c in found.columns), strict=True))
    assert {i for i, n in lengths.items() if n is None} == set(LONG)
    assert {lengths[i] for i in (1, 2, 4)} == {65536}
    assert engine_of(session).vet("notes")


def test_every_form_takes_the_longest_texts_and_means_the_same(session: Session) -> None:
    """The same rows in DuckDB, with NULL where the scan has NULL; many forms in each statement."""
    written, slow = [], {}
    engine: RemoteEngine = engine_of(session)  # type: ignore[assignment]
    for sql in forms("t1.s", "t1.s"):
        with suppress(Untranslatable):
            query = query_of(f"SELECT {sql} AS x FROM {SCAN}")
            write(query, engine.dialect, engine.schema_database, engine._private, {})
            written.append(sql)
    assert len(written) > 40
    with duckdb_settings.connect() as connection:
        texts = [f"({i}, {text})" for i, text in TEXTS.items()] + [f"({i}, NULL)" for i in LONG]
        connection.execute(
            f"CREATE TABLE t1 AS SELECT id::BIGINT AS id, s FROM (VALUES {', '.join(texts)}) AS v(id, s)"
        )
        for i in range(0, len(written), 10):
            batch = written[i : i + 10]
            listed = ", ".join(f"{sql} AS x{j}" for j, sql in enumerate(batch))
            began = time.perf_counter()
            found = compare(engine, f"SELECT t1.id AS id, {listed} FROM {SCAN}")
            slow[batch[0]] = time.perf_counter() - began
            wanted = connection.execute(f"SELECT id, {', '.join(batch)} FROM t1 ORDER BY id").fetchall()
            assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == wanted, batch
    for sql, seconds in sorted(slow.items(), key=lambda item: -item[1])[:5]:
        print(f"{seconds * 1000:8.1f} ms over 9 rows and ten forms from {sql[:70]} on")


@pytest.mark.parametrize(
    "condition",
    [f"note LIKE '{'%' * 35_000}'", f"contains(note, '{'a' * 30_000}b')"],
    ids=("like", "contains"),
)
def test_long_patterns_and_needles_are_refused(session: Session, condition: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(COUNT + condition)


def test_texts_that_grow_are_null_and_nothing_fails(session: Session) -> None:
    for condition in (
        "note || note || note || note = 'a'",
        "replace(note, 'a', 'bbbb') = 'a'",
        "upper(lower(note)) = 'a'",
        "contains(note, left(note, 20000))",
    ):
        assert session.run(COUNT + condition).release is not None, condition
    assert session.ledger.count_failures(session.analyst) == 0


@pytest.mark.parametrize(
    "kind",
    [
        "variant",
        "string collate UTF8_LCASE",
        "array<string>",
        "map<string,string>",
        "struct<a:string>",
        "interval day to second",
    ],
)
def test_values_that_are_no_plain_ones_are_no_column_type(session: Session, kind: str) -> None:
    field = SimpleNamespace(name="note", dataType=SimpleNamespace(simpleString=lambda: kind))
    unit = SimpleNamespace(name="user_id", dataType=SimpleNamespace(simpleString=lambda: "bigint"))
    table = session.policy.tables["notes"]
    physical = columns_of(SimpleNamespace(fields=[unit, field]))
    with pytest.raises(PolicyError) as caught:
        write_scan(table, "t", physical, declared_columns(table, physical), 65536)
    assert "note" in caught.value.message


def test_rows_with_long_keys_of_a_fact_are_not_read(place: SparkStore) -> None:
    text = POLICY + 'unique = [["note"]]\n'
    rows = "SELECT i AS user_id, chr(97 + i::INTEGER) || repeat('a', 65533 + i::INTEGER) AS note FROM range(6) AS r(i)"
    with duckdb.connect() as connection:
        schema_database, engine = place.open(place.policy(text, place.put(connection, {"notes": rows})))
    found = compare(engine, f"SELECT t1.id AS id FROM {SCAN}")
    assert sorted(found.column(0).to_pylist()) == [0, 1, 2]
    assert engine.vet("notes")
    engine.close()
    schema_database.close()
