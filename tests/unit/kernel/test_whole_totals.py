"""The rule of sums of DOUBLEs that are exact in every order, and trees that differ from one in one place."""

from __future__ import annotations

from itertools import permutations, product

import duckdb
import pytest

from dpsql.kernel.check import NotCertified
from dpsql.kernel.facts import ByColumn, Facts, TableFacts
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Item,
    Scan,
    Select,
    duckdb_sql,
)
from dpsql.types import BIGINT, DOUBLE, HUGEINT, INTEGER
from tests.counted_nodes import certify

FACTS = Facts((TableFacts("t", ByColumn("u"), (("u", BIGINT), ("x", DOUBLE), ("i", BIGINT))),))
U, X, WHOLE = (Column("t", name, stored=True) for name in "uxi")
MOST = 1 << 53
LIMIT = Constant(float(MOST), DOUBLE)


def number(value: float | None) -> Constant:
    return Constant(value, DOUBLE)


def whole(value: int) -> Constant:
    return Constant(value, BIGINT)


def term(
    column: Column = X,
    *,
    condition: str = ">=",
    least: float = 0.0,
    factor: float = 4.0,
    half: float = 0.5,
    function: str = "floor",
    none: Column | None = None,
    null: Expr = number(None),  # noqa: B008  nodes do not change
    other: Expr = LIMIT,
) -> Expr:
    nearest = Call(function, (Binary("+", Binary("*", column, number(factor)), number(half)),))
    there = Binary(condition, column, number(least))
    return Case(((there, nearest), (IsNull(none or column), null)), other)


def total(row: Expr, *, zero: float = 0.0, distinct: bool = False) -> Expr:
    return Call("COALESCE", (Aggregate("SUM", (row,), distinct=distinct), number(zero)))


def cut(
    summed: Expr,
    *,
    same: Expr | None = None,
    operator: str = "<",
    most: Expr = LIMIT,
    last: Expr | None = whole(MOST),  # noqa: B008  nodes do not change
    cast: Cast | None = None,
) -> Expr:
    result = cast or Cast(same or summed, BIGINT)
    return Case(((Binary(operator, summed, most), result),), last)


def counted(value: Expr) -> Select:
    """Count the units with their totals, of which each is cut again."""
    units = Select((Item(U, "u"), Item(value, "c")), Scan("t", "t"), IsNull(U, negated=True), (U,))
    small = Call("LEAST", (Call("GREATEST", (Column("d", "c"), whole(0))), whole(9)))
    summed = Call("COALESCE", (Aggregate("SUM", (small,)), whole(0)))
    return Select((Item(summed, "n"),), Derived(units, "d"))


GOOD = total(term())
WRONG = {
    "values of both signs": cut(total(term(least=-1.0))),
    "other values": cut(total(term(condition="<="))),
    "a value below 0 that counts": cut(total(term(other=number(0.0)))),
    "a value below 0 that is left out": cut(total(term(other=number(None)))),
    "another NULL": cut(total(term(null=number(1.0)))),
    "the NULL of another column": cut(total(term(none=WHOLE))),
    "a factor that is no power of two": cut(total(term(factor=3.0))),
    "a factor that is rounded": cut(total(term(factor=0.1))),
    "no factor": cut(total(term(factor=0.0))),
    "no whole numbers": cut(total(term(half=0.25))),
    "another function": cut(total(term(function="abs"))),
    "a sum that is not rounded": cut(total(X)),
    "whole numbers of another type": cut(total(term(WHOLE))),
    "another nothing": cut(total(term(), zero=1.0)),
    "different values": cut(total(term(), distinct=True)),
    "sums beyond 2^53": cut(GOOD, most=number(2.0**54)),
    "2^53 itself": cut(GOOD, operator="<="),
    "sums that are not small": cut(GOOD, operator=">"),
    "another sum": cut(GOOD, same=total(term(factor=8.0))),
    "another type": cut(GOOD, cast=Cast(GOOD, INTEGER)),
    "a wide type": cut(GOOD, cast=Cast(GOOD, HUGEINT)),
    "the sum itself": GOOD,
    "another end": cut(GOOD, last=whole(MOST + 1)),
    "no end": cut(GOOD, last=None),
    "the sum where it is rounded": cut(GOOD, last=Cast(GOOD, BIGINT)),
}


def test_an_exact_sum_of_doubles_is_certified() -> None:
    found = certify(counted(cut(GOOD)), FACTS)
    assert (found.numbers[0].low, found.numbers[0].high) == (0, 9)


@pytest.mark.parametrize("name", WRONG)
def test_a_sum_that_differs_in_one_place_is_refused(name: str) -> None:
    with pytest.raises(NotCertified):
        certify(counted(WRONG[name]), FACTS)


SPECIAL = (0.0, -0.0, 0.1, 0.125, -0.125, -1.0, 2.0**50, 2.0**51 - 0.25, 2.0**51, 1e300)


def test_it_is_the_same_in_every_order() -> None:
    """Of all multisets of three hostile values, in all orders; where it is not 2^53, it is exact."""
    values = [*map(repr, SPECIAL), "NULL", "'nan'", "'inf'", "'-inf'"]
    sql = duckdb_sql(cut(GOOD)).replace('t."x"', "x")
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("CREATE TABLE r (g INTEGER, o INTEGER, p INTEGER, x DOUBLE)")
        multisets = [m for m in product(range(len(values)), repeat=3) if [*m] == sorted(m)]
        listed = [
            f"({g},{o},{p},{values[v]})"
            for g, multiset in enumerate(multisets)
            for o, order in enumerate(permutations(multiset))
            for p, v in enumerate(order)
        ]
        connection.execute(f"INSERT INTO r VALUES {', '.join(listed)}")
        found = connection.execute(
            f"SELECT g, MIN(n), MAX(n) FROM (SELECT g, {sql} AS n FROM r GROUP BY g, o) GROUP BY g ORDER BY g"
        ).fetchall()
    assert len(found) == len(multisets)
    for (_, least, most), multiset in zip(found, multisets, strict=True):
        assert least == most
        known = [float(values[v].strip("'")) for v in multiset if values[v] != "NULL"]
        small = all(0 <= x < 2.0**52 for x in known)
        exact = sum(int(x * 4 + 0.5) for x in known) if small else MOST
        assert least == min(exact, MOST)
