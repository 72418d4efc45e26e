"""A release block and the SELECT over its rows mean, over exact counts, what the statement means."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from sqlglot import exp

from dpsql.composition.block import separate
from dpsql.language import MARK, Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, of_type
from tests.unit.analysis.test_sql_fixtures import FOLDER, Fixture, fixtures, raw_data, write

MEASURES = fixtures(FOLDER / "accepted" / "measures.sql")


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with raw_data() as connection:
        yield connection


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    found = Session(load(write(tmp_path_factory.mktemp("block") / "data", raw)))
    yield found
    found.close()


def divided(session: Session, statement: str) -> tuple[Query, exp.Select | None]:
    query = parse(statement)
    assert isinstance(query, Query)
    return separate(query, session.policy, engine_of(session).schema_database)


def sql(tree: exp.Expr) -> str:
    """The statement as plain DuckDB runs it: the rank is the place in the block's own order."""
    tree = tree.copy()
    for call in tree.find_all(exp.Anonymous):
        call.set("this", str(call.this).removeprefix(MARK))
    order = tree.args.get("order")
    for call in list(tree.find_all(exp.Anonymous)):
        if call.this == "dp_rank":
            call.replace(exp.Window(this=exp.func("row_number"), order=order and order.copy()))
    return tree.sql("duckdb")


def values(found: duckdb.DuckDBPyRelation) -> list[tuple[object, ...]]:
    return [
        tuple(float(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in row)
        for row in found.fetchall()
    ]


def released(raw: duckdb.DuckDBPyConnection, plain: Query) -> None:
    """Create the released relation with exact counts, as DOUBLE; keys keep their types."""
    made = raw.sql(sql(plain.tree))
    cells = [
        f'CAST("{name}" AS DOUBLE) AS "{name}"' if kind in ("BIGINT", "HUGEINT") else f'"{name}"'
        for name, kind in zip(made.columns, made.types, strict=True)
    ]
    raw.execute(f"CREATE OR REPLACE TEMP TABLE r0 AS SELECT {', '.join(cells)} FROM ({sql(plain.tree)})")


@pytest.mark.parametrize("fixture", MEASURES)
def test_both_parts_together_mean_the_statement(
    fixture: Fixture, session: Session, raw: duckdb.DuckDBPyConnection
) -> None:
    plain, outer = divided(session, fixture.statement)
    if outer is None:
        assert values(raw.sql(sql(plain.tree))) == values(raw.sql(fixture.statement))
        return
    released(raw, plain)
    found, meant = raw.sql(sql(outer)), raw.sql(fixture.statement)
    tree = of_type(parse(fixture.statement), Query).tree
    assert {i.alias_or_name for i in tree.expressions if isinstance(i, (exp.Alias, exp.Column))} <= set(
        found.columns
    )
    if tree.args.get("order") is not None:
        assert values(found) == values(meant)
    else:
        assert sorted(map(repr, values(found))) == sorted(map(repr, values(meant)))
