"""A certificate names a table in which each unit has at least as many rows as are counted, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from dpsql.kernel.check import certify, queries, sources
from dpsql.kernel.tree import (
    Aggregate,
    Bounded,
    Column,
    Derived,
    Join,
    ListOf,
    Query,
    SetOperation,
    Source,
    Unnest,
    Weighted,
    WeightedRows,
    duckdb_sql,
)
from dpsql.kernel.unweighted import units_of
from tests.kernel_trees import (
    FACTS,
    GOODS,
    PER_PAGE,
    TWO,
    VISITS,
    c,
    eq,
    joined,
    n,
    public,
    select,
    there,
    tied,
)

MADE = {
    "visits(user_id, page, ms, x)": "(1, 'a', 5, 0.5), (1, 'a', 6, NULL), (1, 'b', NULL, 1.5), "
    "(2, 'b', 7, 1.0), (3, NULL, 8, 2.0), (NULL, 'a', 9, 3.0), (4, 'd', 1, 1.0)",
    "users(user_id, city, age)": "(1, 'x', 30), (1, 'y', 31), (2, 'y', NULL), (5, 'x', 50)",
    "baskets(basket_id, user_id)": "(10, 1), (11, 1), (12, 2), (13, NULL), (11, 2)",
    "goods(basket_id, sku)": "(10, 'p'), (10, 'q'), (11, 'p'), (12, 'p'), (13, 'q'), (99, 'q'), (NULL, 'p')",
    "pages(page, kind)": "('a', 'news'), ('b', 'shop'), ('c', 'shop'), (NULL, 'none')",
    "names(page, kind)": "('a', 'news'), ('a', 'shop'), ('b', 'shop')",
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for table, listed in MADE.items():
            made.execute(f"CREATE TABLE {table.partition('(')[0]} AS FROM (VALUES {listed}) AS {table}")
        yield made


def of_visits(right: Source, kind: str = "INNER", on: bool = True) -> Query:
    """The visits joined with public pages."""
    return select(Join(VISITS, kind, right, eq(c("s.c0"), c("p.c0")) if on else None), u=c("s.u"))


def in_few_groups() -> Query:
    rows = select(VISITS, u=c("s.u"), k0=c("s.c0"))
    pairs = replace(select(Derived(rows, "s"), there(c("s.u")), u=c("s.u"), k0=c("s.k0")), distinct=True)
    return Bounded(rows, ("k0",), ("k0",), 1, pairs)


PAGES, NAMES = public("pages", "p"), public("names", "p")
LISTED = Unnest(ListOf((n(1), n(2))), "l")
ROWS: dict[str, tuple[Query, str | None]] = {
    "scan": (VISITS.query, "visits"),
    "condition on rows of the unit": (select(VISITS, tied(eq(c("e.u"), c("s.u"))), u=c("s.u")), "visits"),
    "projection": (select(VISITS, u=c("s.u"), c0=c("s.c1")), "visits"),
    "different rows": (replace(select(VISITS, u=c("s.u"), c0=c("s.c0")), distinct=True), "visits"),
    "groups of units": (PER_PAGE, "visits"),
    "first groups": (in_few_groups(), "visits"),
    "rows of a parent": (GOODS, "goods"),
    "join with unique rows": (of_visits(PAGES), "visits"),
    "LEFT JOIN with unique rows": (of_visits(PAGES, "LEFT"), "visits"),
    "RIGHT JOIN with unique rows": (of_visits(PAGES, "RIGHT"), "visits"),
    "FULL JOIN with unique rows": (of_visits(PAGES, "FULL"), "visits"),
    "SEMI JOIN": (of_visits(NAMES, "SEMI"), "visits"),
    "ANTI JOIN": (of_visits(NAMES, "ANTI"), "visits"),
    "join with rows that repeat": (of_visits(NAMES), None),
    "LEFT JOIN with rows that repeat": (of_visits(NAMES, "LEFT"), None),
    "CROSS JOIN": (of_visits(PAGES, "CROSS", on=False), None),
    "elements of a list": (select(Join(VISITS, "CROSS", LISTED), u=c("s.u")), None),
    "join of units": (select(joined(VISITS, TWO, eq(c("s.u"), c("t.u"))), u=c("s.u")), None),
    "twice": (SetOperation(select(VISITS, u=c("s.u")), "UNION ALL", select(VISITS, u=c("s.u"))), None),
}


def rows_of(rows: Query) -> str | None:
    return certify(Weighted(rows, 0, 0, ((WeightedRows((), 3),),)), FACTS).rows_of


def by_unit(connection: duckdb.DuckDBPyConnection, rows: Query) -> dict[object, int]:
    unit = Column("r", "u")
    counted = select(Derived(rows, "r"), there(unit), (unit,), u=unit, n=Aggregate("COUNT"))
    return dict(connection.execute(duckdb_sql(counted)).fetchall())


def holds(connection: duckdb.DuckDBPyConnection, rows: Query, table: str) -> bool:
    """Whether each unit has at most as many of the rows as in the table."""
    units = units_of(FACTS, table)
    assert units is not None
    every = by_unit(connection, units)
    return all(number <= every[unit] for unit, number in by_unit(connection, rows).items())


@pytest.mark.parametrize("name", ROWS)
def test_a_unit_has_no_more_rows_than_in_the_table(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    rows, table = ROWS[name]
    assert rows_of(rows) == table
    assert table is None or holds(connection, rows, table)


WRONG: dict[str, tuple[Any, Any, Callable[..., object]]] = {
    "join with rows that repeat": (sources, "_has_one_partner", lambda *_: True),
    "CROSS JOIN": (sources, "_has_one_partner", lambda *_: True),
    "elements of a list": (
        sources,
        "_unnest",
        lambda proof, left, right, join, _made=sources._unnest: _made(proof, left, right, join)._replace(
            rows_of=left.rows_of
        ),
    ),
    "join of units": (
        sources,
        "_join_units",
        lambda proof, a, *rest, _made=sources._join_units: _made(proof, a, *rest)._replace(rows_of=a.rows_of),
    ),
    "twice": (
        queries._RULES,
        SetOperation,
        lambda proof, query, _made=queries.relation_of_operation: _made(proof, query)._replace(
            rows_of="visits"
        ),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_names_a_table_with_fewer_rows(
    name: str, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, what, wrong = WRONG[name]
    if isinstance(where, dict):
        monkeypatch.setitem(where, what, wrong)
    else:
        monkeypatch.setattr(where, what, wrong)
    rows, _ = ROWS[name]
    assert rows_of(rows) == "visits"
    assert not holds(connection, rows, "visits")


def test_the_units_of_a_table() -> None:
    assert units_of(FACTS, "logs") is None
    assert units_of(FACTS, "pages") is None
    assert units_of(FACTS, "strangers") is None
