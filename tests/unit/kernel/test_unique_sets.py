"""Which columns of public rows no two rows have equal: it is what a domain of keys needs."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import duckdb
import pytest
from kernel.reading import tree_of

from dpsql.kernel.check.totality import check_total
from dpsql.kernel.tree import (
    Binary,
    Cast,
    Column,
    Constant,
    Derived,
    Item,
    Query,
    Range,
    Select,
    Values,
    duckdb_sql,
)
from dpsql.types import BIGINT, DATE, INTEGER, SqlType
from tests.unit.kernel.trees_by_hand import FACTS

RANGE = "SELECT r.i AS v, r.i AS o FROM GENERATE_SERIES(0, 4) AS r(i)"
LIST = "SELECT r.v AS v, r.o AS o FROM (VALUES ('a', 0), ('b', 1)) AS r(v, o)"
OF_RANGE = "SELECT {} AS v FROM GENERATE_SERIES({}, {}) AS r(i)"
NULL_LAST = "SELECT d.v AS v, d.o AS o FROM ({}) AS d UNION ALL SELECT NULL AS v, {} AS o"

CASES = {
    "a list": (LIST, {"v", "o"}),
    "a list with a value twice": (LIST.replace("'b'", "'a'"), {"o"}),
    "TRUE beside 1": ("SELECT r.v AS v FROM (VALUES (1), (TRUE)) AS r(v)", set[str]()),
    "TRUE beside 2": ("SELECT r.v AS v FROM (VALUES (2), (TRUE)) AS r(v)", {"v"}),
    "a column twice": (RANGE, {"v", "o"}),
    "numbers that fit": (OF_RANGE.format("CAST(r.i AS TINYINT)", 0, 99), {"v"}),
    "numbers that may be NULL": (OF_RANGE.format("TRY_CAST(r.i AS TINYINT)", 0, 999), set[str]()),
    "numbers that are left": (
        OF_RANGE.format("TRY_CAST(r.i AS TINYINT)", 0, 999) + " WHERE TRY_CAST(r.i AS TINYINT) IS NOT NULL",
        {"v"},
    ),
    "a sum": (OF_RANGE.format("r.i + r.i", 0, 9), set[str]()),
    "with NULL": (NULL_LAST.format(LIST, 9), {"v", "o"}),
    "with NULL at the place of a value": (NULL_LAST.format(LIST, 1), {"v"}),
    "with NULL twice": (NULL_LAST.format(NULL_LAST.format(LIST, 9), 10), {"o"}),
    "with two rows": (NULL_LAST.format(LIST, 9) + " FROM (VALUES (1), (2)) AS y(x)", set[str]()),
    "the least of each": (f"SELECT d.v AS v, MIN(d.o) AS o FROM ({LIST}) AS d GROUP BY d.v", {"v", "o"}),
    "the sum of each": (f"SELECT d.v AS v, SUM(d.o) AS o FROM ({LIST}) AS d GROUP BY d.v", {"v"}),
    "numbered": (f"SELECT d.v AS v, ROW_NUMBER() OVER (ORDER BY d.v) AS o FROM ({LIST}) AS d", {"v", "o"}),
    "different": (f"SELECT DISTINCT d.o // 2 AS v FROM ({LIST}) AS d", {"v"}),
    "of a public table": ('SELECT b."page" AS v, b."rank" AS o FROM main."pages" AS b', {"v"}),
    "with one partner": (
        f"SELECT d.v AS v FROM ({RANGE}) AS d JOIN ({RANGE}) AS e ON e.v = d.o",
        {"v"},
    ),
    "with several partners": (
        f"SELECT d.v AS v FROM ({RANGE}) AS d JOIN ({RANGE}) AS e ON e.v > d.o",
        set[str](),
    ),
}


def unique(query: Query) -> set[str]:
    """Return the columns that are unique by themselves."""
    found = check_total(query, FACTS).found[id(query)]
    return {name for names in found.unique for name in names if len(names) == 1}


@pytest.mark.parametrize("name", CASES)
def test_unique_columns(name: str) -> None:
    sql, expected = CASES[name]
    query = tree_of(sql)
    assert unique(query) == expected
    if "main" in sql:
        return
    with duckdb.connect() as connection:
        rows = connection.execute(duckdb_sql(query)).fetchall()
        names = [described[0] for described in connection.description or ()]
    for column in expected:
        values = [row[names.index(column)] for row in rows]
        assert len({*values}) == len(values)


def test_numbers_that_may_become_one_are_not_told_apart() -> None:
    near = Constant(Decimal("1.0000000000000000001"), SqlType("DECIMAL", 20, 19))
    rows = ((Constant(1, BIGINT),), (near,), (Constant(2.0, SqlType("DOUBLE")),))
    assert unique(Select((Item(Column("r", "v"), "v"),), Values(rows, "r", ("v",)))) == set()


def test_a_column_of_the_query_around_it_tells_no_rows_apart() -> None:
    """It has the name of one that does, and is the same in all rows."""
    inner = Select((Item(Column("d", "v"), "v"),), Derived(tree_of(RANGE), "e"))
    outer = tree_of(f"SELECT d.v AS v FROM ({RANGE}) AS d WHERE d.v IN (SELECT e.v AS v FROM ({RANGE}) AS e)")
    assert isinstance(outer, Select)
    assert outer.where is not None
    changed = Select(outer.items, outer.source, type(outer.where)(outer.where.operand, inner))  # type: ignore[attr-defined, call-arg]
    assert check_total(changed, FACTS).found[id(inner)].unique == frozenset()


@pytest.mark.parametrize(("last", "expected"), [(99, {"v"}), (10**7, set())])
def test_days_are_told_apart_if_all_of_them_are_days(last: int, expected: set[str]) -> None:
    i = Cast(Column("", "i"), INTEGER)
    day = Cast(Binary("+", Constant(date(2024, 1, 1), DATE), i), DATE)
    assert unique(Select((Item(day, "v"),), Range(-99, last))) == expected
