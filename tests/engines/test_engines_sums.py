# ruff: noqa: E501  statements read better unbroken
"""Sums, averages and variances of hostile numbers are the same whole numbers on each engine as in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import duckdb
import pytest
from fuzz.amounts import TABLES, analysed, create, policy
from support.stores import Store

from dpsql.analysis import CompiledQuery
from dpsql.engines import Engine
from dpsql.engines.remote_engine import RemoteEngine
from dpsql.engines.writer import Untranslatable, write
from dpsql.kernel.tree import Aggregate, Column, Derived, Item, Mean, Scan, Select, duckdb_sql
from dpsql.session import Session
from tests.narrow import engine_of
from tests.support.exact import exact_of
from tests.support.world import open_world

G, R, AUTO = (
    "contribution_bounds_per_group => (-3, 7)",
    "contribution_bounds_per_row => (-3, 7)",
    "contribution_bounds => AUTO",
)
LARGE, SMALL = (
    "contribution_bounds_per_group => (0, 1000000000000)",
    "contribution_bounds_per_row => (0, 0.001)",
)
STATEMENTS = (
    "SELECT k, SUM(i64) AS a, AVG(i64) AS b, COUNT(i64) AS n FROM many GROUP BY k",
    f"SELECT k, STDDEV(i8) AS a, COUNT(*) AS n, SUM(u64) AS b, AVG(u32, {G}) AS c FROM many GROUP BY k",
    f"SELECT SUM(i64, {G}) AS a, AVG(i64, {LARGE}) AS b, VAR_POP(i32, {R}) AS c FROM many",
    f"SELECT k, AVG(d2) AS a, VARIANCE(d9) AS b, SUM(d18, {R}) AS c, AVG(d0, {R}) AS d FROM many GROUP BY k",
    f"SELECT k, SUM(d9, {G}) AS a, AVG(d9, {LARGE}) AS b, SUM(d18, {LARGE}) AS c, AVG(small, {G}) AS d FROM many GROUP BY k",
    f"SELECT SUM(f) AS a, AVG(f) AS b, COUNT(*) AS n, SUM(f, {SMALL}) AS c FROM many WHERE b",
    f"SELECT k, STDDEV(f) AS a, SUM(f, {G}) AS b, AVG(f, {LARGE}) AS c FROM many GROUP BY k",
    f"SELECT k, SUM(small * i8, {R}) AS a, AVG(i32 + i8, {R}) AS b, SUM(i64) FILTER (WHERE b) AS c FROM many GROUP BY k",
    f"SELECT k, SUM(f) AS a, STDDEV(d2) AS b, SUM(d9, {G}) AS c, AVG(i32, {G}) AS d FROM one GROUP BY k",
    f"SELECT k, SUM(u64) AS a, AVG(d9) AS b, SUM(d18, {G}) AS c, AVG(f, {G}) AS d FROM apart GROUP BY k",
    *(f"SELECT k, SUM({c}, {AUTO}) AS a FROM many GROUP BY k" for c in ("i64", "d18", "f")),
    f"SELECT k, AVG(d2, {AUTO}) AS a FROM many GROUP BY k",
    f"SELECT SUM(u64, {AUTO}) AS a FROM apart",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("amounts")
    with duckdb.connect() as connection:
        create(connection, Random(1), 600, 30)
        for table in TABLES:
            connection.execute(f"COPY main.{table} TO '{folder}/{table}.parquet'")
    with open_world(folder, policy()) as found:
        yield found


@pytest.fixture(scope="module")
def engine(store: Store) -> Iterator[RemoteEngine]:
    with duckdb.connect() as connection:
        create(connection, Random(1), 600, 30)
        sources = store.put(connection, {table: f"FROM {table}" for table in TABLES})
    schema_database, engine = store.open(store.policy(policy(), sources))
    yield engine
    engine.close()
    schema_database.close()


def counted(engine: Engine, compiled: CompiledQuery) -> list[tuple[object, ...]]:
    counts = engine.count(compiled)
    columns = [column.to_pylist() for column in exact_of(counts).keys.columns] + [
        n.tolist() for n in exact_of(counts).n
    ]
    return sorted(zip(*columns, strict=True), key=repr)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_sums_are_the_same_whole_numbers(statement: str, session: Session, engine: RemoteEngine) -> None:
    plan = analysed(session, statement)
    others = analysed(session, statement, engine="spark").ladders  # as for each server
    queries = [(a.compiled, b.compiled) for a, b in zip(plan.ladders, others, strict=True)]
    if plan.ladders:
        places = tuple(len(search.ladder.bounds) // 2 for search in plan.ladders)
        plan = analysed(session, statement, places)
    for own, other in (*queries, (plan.compiled, plan.compiled)):
        found = counted(engine_of(session), own)
        assert counted(engine, other) == found
        assert any(isinstance(n, int) and n for row in found for n in row)


def test_averages_of_integers_have_the_same_bits(engine: RemoteEngine) -> None:
    names = {"u": "user_id", "k": "i8", "x": "i64"}
    scan = Select(tuple(Item(Column("b", c, stored=True), n) for n, c in names.items()), Scan("many", "b"))
    keys = (Column("t", "u"), Column("t", "k"))
    means = []
    for distinct in (False, True):
        both = (Aggregate(name, (Column("t", "x"),), distinct) for name in ("SUM", "COUNT"))
        means.append(Item(Mean(*both), f"m{distinct:d}"))
    query = Select((*map(Item, keys), *means), Derived(scan, "t"), group=keys)
    statement = write(query, engine.dialect, engine.schema_database, engine._private, {})
    engine.bind(statement)
    found = engine._run(statement).to_pydict().values()
    with duckdb.connect() as connection:
        create(connection, Random(1), 600, 30)
        wanted = connection.sql(duckdb_sql(query)).fetchall()
        total, number, mean = (Aggregate(n, (Column("t", "x"),)) for n in ("SUM", "COUNT", "AVG"))
        own = tuple(Item(e, f"m{i}") for i, e in enumerate((mean, Mean(total, number), total)))
        plain = connection.sql(duckdb_sql(replace(query, items=own))).fetchall()
    assert sorted(zip(*found, strict=True), key=repr) == sorted(wanted, key=repr)
    assert len(wanted) > 100
    exact = [(a, m) for a, m, s in plain if s is not None and abs(s) <= 1 << 53]
    assert len(exact) > 10
    assert all(a == m for a, m in exact)


def test_products_that_could_overflow_are_refused_by_name(session: Session, engine: RemoteEngine) -> None:
    plan = analysed(session, f"SELECT k, SUM(f * f, {R}) AS a FROM many GROUP BY k")
    if engine.dialect.name == "Spark":
        assert counted(engine, plan.compiled) == counted(engine_of(session), plan.compiled)
        return
    with pytest.raises(Untranslatable, match="DOUBLE arithmetic overflows"):
        engine.translate(plan.compiled)
