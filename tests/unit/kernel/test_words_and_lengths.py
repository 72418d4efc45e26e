"""Trees whose text is another query, whose texts grow with the data, or whose constants are almost equal."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from dpsql.kernel.check import NotCertified
from dpsql.kernel.facts import ByColumn, Facts, TableFacts
from dpsql.kernel.tree import (
    Aggregate,
    Apply,
    Binary,
    Bound,
    Call,
    Case,
    Cast,
    CellsOfDecided,
    Column,
    Constant,
    Decided,
    Derived,
    Expr,
    Frame,
    Interval,
    IsNull,
    Item,
    Join,
    Lambda,
    ListOf,
    Moved,
    OrderTerm,
    Parameter,
    Paren,
    Range,
    Sampled,
    Scan,
    Select,
    SetOperation,
    Slice,
    Source,
    Try,
    Unary,
    Window,
)
from dpsql.kernel.tree.forms import LONGEST, NEAR, SHORT_LIST, Form, listed_forms, text_up_to
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, INTEGER, TIMESTAMP, VARCHAR, SqlType
from tests.counted_nodes import certify

FACTS = Facts(
    (
        TableFacts(
            "t",
            ByColumn("u"),
            (("u", BIGINT), ("k", BIGINT), ("x", VARCHAR), ("l", SqlType("LIST", item=VARCHAR))),
        ),
        TableFacts("o", ByColumn("u"), (("u", BIGINT), ("k", INTEGER), ("x", INTEGER))),
    )
)
U, K, X, L = (Column("t", name, stored=True) for name in "ukxl")
UNITS = Aggregate("COUNT", (Column("d", "u"),), distinct=True)
AND_SO_ON = "1) IS NULL UNION ALL SELECT COUNT(*) FROM main.t --"


def number(value: int) -> Constant:
    return Constant(value, BIGINT)


def text(value: str) -> Constant:
    return Constant(value, VARCHAR)


def rows(*items: Item) -> Select:
    return Select((Item(U, "u"), *items), Scan("t", "t"), IsNull(U, negated=True))


def of_value(value: Expr) -> Select:
    """Count the units with a value, which a row computes."""
    return counted(Derived(rows(Item(value, "z")), "d"), IsNull(Column("d", "z"), negated=True))


def counted(source: Source, where: Expr | None = None) -> Select:
    return Select((Item(UNITS, "n"),), source, where)


def ranked(frame: Frame | None = None, order: OrderTerm | None = None) -> Select:
    window = Window(Aggregate("COUNT"), (U,), (order or OrderTerm(K),), frame)
    return counted(Derived(rows(Item(window, "r")), "d"))


def form(name: str, *kinds: str) -> Form:
    return next(each for each in listed_forms()[name] if each.arguments == kinds)


def of_items(body: Expr, parameter: str = "p", name: str = "list_transform") -> Expr:
    return Try(Call(name, (L, Lambda(parameter, body))))


def measured(most: int, *, of: Expr = L) -> Expr:
    made = Call("list_transform", (L, Lambda("p", text("abc"))))
    return Try(Apply(SHORT_LIST, (of, number(most), made)))


P = Parameter("p")
CONCAT = form("||", "VARCHAR", "VARCHAR")
LPAD = form("lpad", "VARCHAR", "#LENGTH", "#PAD")
ROUND = form("round", "DOUBLE", "#INTEGER")
REPLACED = form("regexp_replace", "VARCHAR", "#VARCHAR", "#REWRITE")

RIGHT = {
    "a value": of_value(K),
    "a slice from the end": of_value(IsNull(Try(Slice(L, 3, -1)))),
    "a list as a text that is cut": of_value(
        IsNull(Apply(text_up_to(LONGEST), (Cast(L, VARCHAR, safe=True),)))
    ),
    "the least number": of_value(Binary("<", K, number(-(1 << 63)))),
    "a frame": ranked(Frame("ROWS", Bound("PRECEDING"), Bound("CURRENT ROW"))),
    "items": of_value(of_items(IsNull(P), name="list_filter")),
    "items in the place of others": of_value(of_items(P)),
    "texts in the place of items": of_value(measured(3)),
    "a padded text": of_value(Try(Apply(LPAD, (X, number(9), text(" "))))),
    "texts together": of_value(Try(Apply(CONCAT, (X, X)))),
    "a rounded number": of_value(Try(Apply(ROUND, (Cast(K, DOUBLE), Paren(Unary("-", number(2))))))),
    "other texts": of_value(Try(Apply(REPLACED, (X, text("a"), text("b"))))),
    "a group of the pattern": of_value(Try(Apply(REPLACED, (X, text("(a)"), text("\\1\\\\\\0"))))),
    "a number below 0": of_value(Binary("<", K, number(-5))),
    "signs apart": of_value(Unary("-", Paren(number(-5)))),
    "a day": of_value(Constant(date(2024, 1, 1), SqlType("DATE"))),
    "the number of an interval": of_value(IsNull(Interval("1 day"))),
}

WORDS = {
    "the side of a frame": ranked(Frame("ROWS", Bound(f"PRECEDING) + ({AND_SO_ON}", 1))),
    "the offset of a frame": ranked(Frame("ROWS", Bound("PRECEDING", "1 PRECEDING) --"))),  # type: ignore[arg-type]
    "an offset below 0": ranked(Frame("ROWS", Bound("PRECEDING", -1))),
    "an offset of the current row": ranked(Frame("ROWS", Bound("CURRENT ROW", 1))),
    "the unit of a frame": ranked(Frame("ROWS UNBOUNDED PRECEDING) --", Bound("PRECEDING"))),
    "a direction": ranked(order=OrderTerm(K, "ASC) --")),
    "the place of NULL": ranked(order=OrderTerm(K, "ASC", "LAST) --")),
    "the parameter of a lambda": of_value(of_items(IsNull(P), f"zz: true) {AND_SO_ON}", "list_filter")),
    "a parameter": of_value(of_items(Parameter("p) --"), "p) --")),
    "a field of a parameter": of_value(of_items(IsNull(Parameter("p", ("x') --",))), name="list_filter")),
    "a column with the name of a parameter": of_value(of_items(IsNull(Column("", "p", stored=True)), "P")),
    "a table with the name of a parameter": of_value(of_items(IsNull(X), "t", "list_filter")),
    "a negative number": of_value(Binary("<", Apply(NEAR["neg"], (number(-5),)), number(3))),
    "a sign before the least number": of_value(
        Binary("<", Apply(NEAR["neg"], (number(-(1 << 63)),)), number(3))
    ),
    "a word before the least number": of_value(Unary("-", number(-(1 << 63)))),
    "two signs": of_value(Unary("-", number(-5))),
    "two signs of other nodes": of_value(Unary("-", Unary("-", number(5)))),
    "an infinity": of_value(Constant(float("inf"), DOUBLE)),
    "a DECIMAL that is no number": of_value(Constant(Decimal("NaN"), SqlType("DECIMAL", 9, 2))),
    "an interval": of_value(IsNull(Interval("1 day' IS NULL --"))),
    "an interval in quotes": of_value(IsNull(Interval("'1 day'"))),
    "a type": of_value(Cast(K, SqlType("INT) --"))),
    "the digits of a type": of_value(Cast(K, SqlType("DECIMAL", "9,2) --"))),  # type: ignore[arg-type]
    "the type of items": of_value(Cast(X, SqlType("LIST", item=SqlType("INT) --")))),
    "the seconds of a move": of_value(Try(Moved(Cast(X, TIMESTAMP), "1' --"))),  # type: ignore[arg-type]
    "the ends of a slice": of_value(Try(Slice(L, "1", "2]) --"))),  # type: ignore[arg-type]
    "an operator": of_value(Binary("= 1 OR 1 =", K, number(1))),
    "the name of a function": of_value(Call("coalesce(1) --", (K,))),
    "the name of an aggregate": Select((Item(Aggregate("COUNT(*) --"), "n"),), Derived(rows(), "d")),
    "the name of a column": counted(
        Derived(Select((Item(Column("d", "u, 1 AS v"), "u"),), Derived(rows(), "d")), "d")
    ),
    "a column that is a value": counted(
        Derived(rows(Item(K, "null")), "d"), IsNull(Column("", "null"), negated=True)
    ),
    "an alias": counted(Derived(rows(), "d CROSS JOIN main.t AS")),
    "the alias of a table": Select(
        (Item(UNITS, "n"),), Derived(Select((Item(U, "u"),), Scan("t", "t --")), "d")
    ),
    "the name of an item": counted(
        Derived(Select((Item(U, "u"), Item(K, "k, 1 AS m")), Scan("t", "t"), IsNull(U, negated=True)), "d")
    ),
    "a limit": Select((Item(UNITS, "n"),), Derived(rows(), "d"), limit=True),
    "a set operation": counted(Derived(SetOperation(rows(), "UNION ALL SELECT 1 UNION ALL", rows()), "d")),
    "a join": counted(Join(Derived(rows(), "d"), "CROSS JOIN main.t AS x LEFT", Range(0, 1))),
    "a range": counted(Join(Derived(rows(), "d"), "CROSS", Range(0, 1, alias="r(i) --"))),
}

LENGTHS = {
    "a padded text": of_value(Try(Apply(LPAD, (X, K, text(" "))))),
    "a long padded text": of_value(Try(Apply(LPAD, (X, number(2_000_000_000), text(" "))))),
    "padded with what a row has": of_value(Try(Apply(LPAD, (X, number(9), X)))),
    "texts with each other": of_value(Try(Binary("||", X, X))),
    "rewritten with what a row has": of_value(Try(Apply(REPLACED, (X, text("a"), X)))),
    "rewritten with the name of a group": of_value(Try(Apply(REPLACED, (X, text("(a)"), text("\\g1"))))),
    "rewritten with half of a group": of_value(Try(Apply(REPLACED, (X, text("(a)"), text("\\1\\"))))),
    "rounded to what a row has": of_value(Try(Apply(ROUND, (Cast(K, DOUBLE), K)))),
    "a field of what has none": of_value(of_items(IsNull(Parameter("p", ("x",))), name="list_filter")),
    "longer items": of_value(of_items(Apply(CONCAT, (P, P)))),
    "texts in the place of items": of_value(of_items(text("a" * 1000))),
    "texts of which fewer are measured": of_value(measured(2)),
    "texts of another list": of_value(measured(3, of=ListOf((text("a"),)))),
    "lists in the place of items": of_value(of_items(ListOf((P, P)))),
    "a list as a text": of_value(Cast(L, VARCHAR)),
    "a list as a text beside one that is cut": of_value(
        Binary("=", Apply(text_up_to(LONGEST), (Cast(L, VARCHAR, safe=True),)), Cast(L, VARCHAR, safe=True))
    ),
    "a list as a text below one that is cut": of_value(
        Apply(text_up_to(LONGEST), (Apply(LPAD, (Cast(L, VARCHAR, safe=True), number(3), text(" "))),))
    ),
    "a list as a text of which more is left": of_value(
        Apply(text_up_to(LONGEST + 1), (Cast(L, VARCHAR, safe=True),))
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_like_them_is_certified(name: str) -> None:
    assert certify(RIGHT[name], FACTS).numbers[0].high == 1


@pytest.mark.parametrize("name", WORDS)
def test_a_text_that_is_not_its_tree_is_refused(name: str) -> None:
    with pytest.raises(NotCertified, match="a word that is none of those of SQL"):
        certify(WORDS[name], FACTS)


@pytest.mark.parametrize("name", LENGTHS)
def test_a_text_that_grows_with_the_data_is_refused(name: str) -> None:
    with pytest.raises(NotCertified):
        certify(LENGTHS[name], FACTS)


def test_constants_are_told_by_their_types() -> None:
    """Else the proof of one would be that of another: of a sum of DOUBLEs in no order."""
    alike = [Constant(value, BIGINT) for value in (1, 1.0, True, Decimal(1))]
    alike += [Constant(0.0, DOUBLE), Constant(-0.0, DOUBLE), Constant(0, BIGINT), Constant(False, BOOLEAN)]
    for place, one in enumerate(alike):
        assert [one == other for other in alike] == [place == at for at in range(len(alike))]
        assert [Paren(one) == Paren(other) for other in alike] == [place == at for at in range(len(alike))]
        assert Case(((one, K),)) == Case(((Constant(one.value, one.type), K),))


def total(more: Expr) -> Select:
    value = Binary("+", Cast(K, HUGEINT), more)
    sums = Call("GREATEST", (Aggregate("SUM", (value,)), number(0)))
    return Select((Item(U, "u"), Item(sums, "c")), Scan("t", "t"), IsNull(U, negated=True), (U,))


def test_a_sum_beside_one_of_equal_constants_is_refused_as_alone() -> None:
    pair = Join(
        Derived(total(number(1)), "a"),
        "INNER",
        Derived(total(Constant(1.0, BIGINT)), "b"),
        Binary("=", Column("a", "u"), Column("b", "u")),
    )
    rest = Binary("%", Column("b", "c"), number(1000))
    joined = Derived(Select((Item(Column("a", "u"), "u"), Item(rest, "c")), pair), "z")
    summed = Call("COALESCE", (Aggregate("SUM", (Cast(Column("z", "c"), BIGINT),)), number(0)))
    with pytest.raises(NotCertified, match="numbers with a point"):
        certify(Select((Item(summed, "n"),), joined), FACTS)


def with_cells(most: int) -> CellsOfDecided:
    """Return groups with the cells of their rows, from 5 to 9, of which units keep one."""
    u, k, x = (Column("o", name, stored=True) for name in ("u", "k", "x"))
    there = IsNull(u, negated=True)
    own = Select((Item(u, "u"), Item(k, "k0")), Scan("o", "o"), there)
    by = Column("d", "k0")
    groups = Decided(Select((Item(by, "k0"), Item(UNITS, "n0")), Derived(own, "d"), group=(by,)), 1, 1, 0)
    cell = Call("LEAST", (Call("GREATEST", (Call("COALESCE", (x, number(7))), number(5))), number(9)))
    rows = Select((Item(u, "u"), Item(k, "k0"), Item(cell, "f0")), Scan("o", "o"), there)
    return CellsOfDecided(groups, Sampled(rows, 1, most))


def test_a_group_without_cells_has_the_cell_0() -> None:
    found = certify(with_cells(3), FACTS)
    assert (found.cells, found.decides) == ((("n0", (0, 9)),), "n2")
    assert [(each.column, each.high, each.total) for each in found.numbers] == [("n1", 3, 3), ("n2", 1, None)]
    with pytest.raises(NotCertified):
        certify(with_cells(0), FACTS)
