"""The types in a compiled query are those of DuckDB's binder, for each column of each query within it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

import duckdb
import pytest
from fuzz.check import DEFAULTS
from fuzz.statements import statement
from fuzz.world import World, worlds

from dpsql.analysis import CompiledQuery, Plan, analyse, complete_options
from dpsql.analysis.column_types import ColumnTyping, Stored, give_types
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import QueryRefused
from dpsql.kernel.tree import Column, duckdb_sql, walk
from dpsql.kernel.tree.node import Query as Node
from dpsql.language import Query, parse
from dpsql.policy import load
from dpsql.session import Session
from dpsql.types import SqlType
from tests.narrow import engine_of
from tests.sql_fixtures import raw_data, write
from tests.unit.analysis import test_sql_fixtures as fixtures

RANDOM = 16


class Recorder(ColumnTyping):
    """Keeps the columns of each query that it types."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        self.found: list[tuple[Node, dict[str, SqlType | None]]] = []

    def query(self, node: Node, outer: object) -> dict[str, SqlType | None]:
        columns = super().query(node, outer)  # type: ignore[arg-type]
        self.found.append((node, columns))
        return columns


def shown(sql_type: SqlType | None) -> str:
    """A NULL without a type is an INTEGER where nothing says otherwise."""
    return "INTEGER" if sql_type is not None and sql_type.name == "NULL" else str(sql_type)


def compiled_queries(plan: Plan) -> Iterator[CompiledQuery]:
    yield plan.compiled
    yield from (ladder.compiled for ladder in plan.ladders)


def compared(compiled: CompiledQuery, schema: SchemaDatabase, bound: Callable[[str], dict[str, str]]) -> int:
    """Compare the types of each query that binds by itself; return how many name columns of others."""
    assert give_types(compiled.query, schema.stored_types) is compiled.query
    assert all(node.type is not None for node in walk(compiled.query) if isinstance(node, Column))
    recorder, within = Recorder(schema.stored_types), 0
    recorder.query(compiled.query, None)
    for node, columns in recorder.found:
        sql = duckdb_sql(node)
        try:
            wanted = bound(sql)
        except duckdb.BinderException:
            within += 1
            continue
        assert [shown(kind) for kind in columns.values()] == [*wanted.values()], sql
    return within


def binder(schema: SchemaDatabase) -> Callable[[str], dict[str, str]]:
    @cache
    def bound(sql: str) -> dict[str, str]:
        with schema._database.connection.cursor() as cursor:
            rows = cursor.execute(f"DESCRIBE {sql}").fetchall()
        return {
            f"{place} {row[0]}": str(row[1]).replace('"NULL"', "INTEGER") for place, row in enumerate(rows)
        }

    return bound


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with raw_data() as raw:
        found = Session(load(write(Path(tmp_path_factory.mktemp("types")) / "whole", raw)))
    yield found
    found.close()


@pytest.mark.parametrize("part", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_the_types_of_the_fixtures_are_those_of_the_binder(session: Session, part: int) -> None:
    schema = engine_of(session).schema_database
    within, bound = 0, binder(schema)
    for fixture in fixtures.ACCEPTED[::part]:
        plan = fixtures.proved(session, fixture.values[0].statement)
        within += sum(compared(each, schema, bound) for each in compiled_queries(plan))
    assert within < 50


def accepted(times: int, seed: int) -> Iterator[tuple[World, Plan]]:
    rng, every = Random(seed), worlds()
    while times:
        world = rng.choice(every)
        try:
            query = parse(statement(rng, world).text)
            assert isinstance(query, Query)
            plan = analyse(
                query, world.policy, world.schema_database, complete_options(query.options, DEFAULTS)
            )
        except QueryRefused:
            continue
        times -= 1
        yield world, plan


@pytest.mark.parametrize(
    ("times", "seed"),
    [(10, 36), *(pytest.param(1000, seed, marks=pytest.mark.slow) for seed in range(5))],
)
def test_the_types_of_random_statements_are_those_of_the_binder(times: int, seed: int) -> None:
    binders: dict[str, Callable[[str], dict[str, str]]] = {}
    for world, plan in accepted(times, seed):
        bound = binders.setdefault(world.name, binder(world.schema_database))
        for each in compiled_queries(plan):
            compared(each, world.schema_database, bound)
