"""The bounds of an expression hold its values, for random expressions over values within their bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.known_subqueries import find_rule
from dpsql.analysis.select_blocks import compile_query
from dpsql.errors import QueryRefused
from dpsql.kernel.tree import duckdb_sql
from dpsql.language import Query, parse
from dpsql.session import Session
from tests.narrow import engine_of, of_type
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
[tables.t.columns]
u = "BIGINT"
i = "INTEGER"
k = "UTINYINT"
p = "DECIMAL(6,2)"
x = "DOUBLE"
b = "BOOLEAN"
d = "DATE"
[tables.t.bounds]
i = { from = -7, to = 500 }
k = { from = 2, to = 9 }
p = { from = -0.5, to = 99.5 }
x = { from = -3, to = -0.125 }
"""
EIGHTHS = {"i": (-56, 4000), "k": (16, 72), "p": (-4, 796), "x": (-24, -1)}
"""The bounds of the numbers in eighths: sums and products of these are exact as DOUBLE."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("bounds")
    columns = "1::BIGINT AS u, 1 AS i, 2::UTINYINT AS k, 1::DECIMAL(6,2) AS p, 1.5::DOUBLE AS x, TRUE AS b"
    with open_world(folder, POLICY, t=f"SELECT {columns}, DATE '2024-02-02' AS d") as found:
        yield found


@st.composite
def rows(draw: st.DrawFn) -> str:
    """Draw one row within the bounds, often at their ends, with NULL and NaN."""

    def between(low: int, high: int) -> int:
        return draw(st.one_of(st.sampled_from([low, high]), st.integers(low, high)))

    cells = []
    for name, (low, high) in EIGHTHS.items():
        scale = 8 if name in "ik" else 2 if name == "p" else 1  # whole numbers, quarters, eighths
        number = between(-(-low // scale), high // scale) * scale / 8
        cells.append("NULL" if draw(st.integers(0, 9)) == 0 else str(number))
    if draw(st.integers(0, 9)) == 0:
        cells[3] = "'nan'"
    date = f"DATE '2024-01-01' + {draw(st.integers(0, 365))}"
    return f"({', '.join(['1', *cells, draw(st.sampled_from(['TRUE', 'FALSE', 'NULL'])), date])})"


LEAVES = st.sampled_from(
    ["i", "k", "p", "x", "3", "-2", "0.25", "-1.5", "0", "1e1", "b::INTEGER", "month(d)", "NULL"]
)
"""Expressions whose values are exact as DOUBLE."""


def _exact(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(two, st.sampled_from(["+", "-", "*"])).map(lambda t: f"({t[0][0]} {t[1]} {t[0][1]})"),
        inner.map(lambda a: f"(- {a})"),
        st.tuples(inner, st.sampled_from(["abs", "floor", "ceil", "round", "trunc"])).map(
            lambda t: f"{t[1]}({t[0]})"
        ),
        two.map(lambda t: f"CASE WHEN b THEN {t[0]} ELSE {t[1]} END"),
        two.map(lambda t: f"CASE WHEN {t[0]} < {t[1]} THEN {t[0]} END"),
        st.tuples(two, st.sampled_from(["COALESCE", "GREATEST", "LEAST", "NULLIF"])).map(
            lambda t: f"{t[1]}({t[0][0]}, {t[0][1]})"
        ),
        two.map(lambda t: f"IF(b, {t[0]}, {t[1]})"),
        st.tuples(inner, st.sampled_from(["INTEGER", "TINYINT", "DOUBLE", "DECIMAL(9,1)"])).map(
            lambda t: f"({t[0]})::{t[1]}"
        ),
        st.tuples(inner, st.integers(-2, 2)).map(lambda t: f"round({t[0]}, {t[1]})"),
    )


def _any(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner, st.sampled_from(["+", "-", "*", "/", "//"]))
    return st.one_of(two.map(lambda t: f"({t[0]} {t[2]} {t[1]})"), inner.map(lambda a: f"abs({a})"))


EXPRESSIONS = st.recursive(st.recursive(LEAVES, _exact, max_leaves=5), _any, max_leaves=3)


def check(session: Session, expression: str, listed: list[str]) -> None:
    """Compare the values of an expression over rows with its bounds."""
    query = of_type(parse(f"SELECT {expression} AS c FROM t"), Query)
    catalog = engine_of(session).schema_database
    compiler = StatementCompiler(query.source, session.policy, catalog, find_rule, compile_query)
    try:
        relation = compile_query(compiler, query.tree, (), 1)
    except QueryRefused:
        event("refused")
        return
    bounds = relation.columns[0].bounds
    if bounds is None:
        event("without bounds")
        return
    event("with bounds")
    with duckdb.connect() as connection:
        types = "u BIGINT, i INTEGER, k UTINYINT, p DECIMAL(6,2), x DOUBLE, b BOOLEAN, d DATE"
        connection.execute(f"CREATE TABLE t({types})")
        connection.execute(f"INSERT INTO t VALUES {', '.join(listed)}")
        found = connection.execute(f"SELECT c0 FROM ({duckdb_sql(relation.query)}) AS q").fetchall()
    slack = Fraction(1, 10**9) * max(Fraction(1), abs(bounds.low), abs(bounds.high))
    for (value,) in found:
        if value is not None and not math.isnan(value):
            assert bounds.low - slack <= Fraction(value) <= bounds.high + slack, (expression, value, bounds)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EXPRESSIONS, st.lists(rows(), min_size=4, max_size=8))
def test_bounds_hold_the_values(session: Session, expression: str, listed: list[str]) -> None:
    check(session, expression, listed)


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EXPRESSIONS, st.lists(rows(), min_size=8, max_size=30))
def test_bounds_hold_the_values_of_many_expressions(
    session: Session, expression: str, listed: list[str]
) -> None:
    check(session, expression, listed)
