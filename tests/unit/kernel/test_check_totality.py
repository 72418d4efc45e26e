"""The checker's second proof that a query fails on no rows and depends on no order of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest

from dpsql.kernel.check import NotCertified, certify
from dpsql.kernel.check.derive import ROWS, Rows, Scope, Value, ends, whole
from dpsql.kernel.check.totality import Checked, Walk, check_total
from dpsql.kernel.check.values import value_of
from dpsql.kernel.facts import ByColumn, Facts, TableFacts
from dpsql.kernel.tree import (
    Aggregate,
    Apply,
    Argument,
    Binary,
    Bound,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Cut,
    Derived,
    Element,
    Exists,
    Expr,
    Form,
    Frame,
    Interval,
    IsNull,
    Item,
    Join,
    Lambda,
    Mean,
    Moved,
    OrderTerm,
    Parameter,
    Paren,
    Query,
    Saturated,
    ScalarQuery,
    Scan,
    Select,
    SetOperation,
    Steps,
    Try,
    Unary,
    Unscaled,
    Values,
    Window,
    duckdb_sql,
    listed_forms,
    replace_nodes,
    walk,
)
from dpsql.kernel.tree.forms import NEAR, NEGATED, UTC_OFFSET, concatenated, overlaid, text_up_to
from dpsql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    HUGEINT,
    INTEGER,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
    column_type,
)
from tests.form_templates import KNOWN, failing, template

PRICE = SqlType("DECIMAL", 9, 2)
COLUMNS = {
    "u": BIGINT,
    "n": INTEGER,
    "big": BIGINT,
    "x": DOUBLE,
    "price": PRICE,
    "text": VARCHAR,
    "day": DATE,
    "moment": TIMESTAMP,
    "items": column_type("BIGINT[]"),
    "doubles": column_type("DOUBLE[]"),
}
FACTS = Facts(
    (
        TableFacts("visits", ByColumn("u"), tuple(COLUMNS.items()), kind="person"),
        TableFacts(
            "users", ByColumn("u"), (("u", BIGINT), ("age", INTEGER)), frozenset((frozenset(("u",)),))
        ),
        TableFacts("moments", None, (("since", TIMESTAMPTZ),)),
        TableFacts("pages", None, (("w", DOUBLE),)),
    )
)
VISITS = Scan("visits", "b")
U, N, BIG, X, PRICE_OF, TEXT, DAY, MOMENT, ITEMS, DOUBLES = (
    Column("b", name, stored=True) for name in COLUMNS
)


def number(value: int) -> Expr:
    return Constant(value, BIGINT) if value >= 0 else Paren(Unary("-", Constant(-value, BIGINT)))


def form(name: str, *arguments: str) -> Form:
    return next(f for f in listed_forms()[name] if f.arguments == arguments)


ZEROS = Apply(form("*", "DOUBLE", "DOUBLE"), (X, X))
"""A DOUBLE that has, as far as its type shows, several zeros."""


def of(*expressions: Expr, **more: object) -> Select:
    made = Select(tuple(Item(e, f"x{i}") for i, e in enumerate(expressions)), VISITS)
    return replace(made, **more)  # type: ignore[arg-type]


def value(expr: Expr) -> Value:
    (found,) = check_total(of(expr), FACTS).rows.columns.values()
    return found


def huge(expr: Expr) -> Expr:
    return Cast(expr, HUGEINT)


def ascending(*expressions: Expr) -> tuple[OrderTerm, ...]:
    return tuple(OrderTerm(e) for e in expressions)


def over(
    function: Expr, partition: Iterable[Expr], order: Iterable[Expr], frame: Frame | None = None
) -> Window:
    return Window(function, tuple(partition), ascending(*order), frame)


X_OF_ONE = Constant(1.0, DOUBLE)
ROW_NUMBER = Call("ROW_NUMBER", ())
PRECEDING = Frame("ROWS", Bound("PRECEDING"))
ONE_COUNT = Select((Item(Aggregate("COUNT"), "c"),), Scan("users", "b"))

FAILS = {
    "a CAST of a text": Cast(TEXT, INTEGER, safe=False),
    "a CAST that does not fit": Cast(BIG, INTEGER, safe=False, bounded=True),
    "a CAST of a text that is written": Cast(Constant("a", VARCHAR), DATE, safe=False, bounded=True),
    "a CAST of a DOUBLE": Cast(X, BIGINT, safe=False, bounded=True),
    "a CAST of a date to a moment": Cast(DAY, TIMESTAMP, safe=False, bounded=True),
    "a CAST of a DECIMAL to fewer digits": Cast(PRICE_OF, SqlType("DECIMAL", 8, 2), safe=False, bounded=True),
    "a CAST of a DECIMAL that rounds up": Cast(PRICE_OF, SqlType("DECIMAL", 8, 1), safe=False, bounded=True),
    "a sum of two BIGINTs": Binary("+", BIG, number(1)),
    "a difference of INTEGERs": Binary("-", N, N),
    "a product of BIGINTs": Binary("*", BIG, BIG),
    "the sign of an INTEGER": Paren(Unary("-", N)),
    "the sign of the least of all": Call("abs", (N,)),
    "a division by a column": Binary("//", BIG, BIG),
    "a rest by a column": Binary("%", huge(BIG), huge(BIG)),
    "1/x": Binary("/", number(1), X),
    "the least by -1": Binary("//", BIG, number(-1)),
    "a product of HUGEINTs": Binary("*", huge(BIG), Paren(Binary("*", huge(BIG), huge(BIG)))),
    "a sum of DECIMALs of 38 digits": Binary("+", Cast(X, SqlType("DECIMAL", 38, 0)), PRICE_OF),
    "a comparison with a text": Binary("=", N, Constant("1", VARCHAR)),
    "a comparison of a date and a moment": Binary("=", DAY, MOMENT),
    "a HUGEINT beside a DECIMAL": Binary("<", huge(X), PRICE_OF),
    "a choice of a date and a moment": Case(((Binary(">", N, number(0)), DAY),), MOMENT),
    "a date and a number": Binary("+", DAY, N),
    "a moment and an interval": Binary("+", MOMENT, Interval("1 day")),
    "a moved moment": Moved(MOMENT, 3600),
    "a function that fails outside TRY": Apply(form("left", "VARCHAR", "#INTEGER"), (TEXT, number(1))),
    "an element outside TRY": Element(ITEMS, N),
    "a list function outside TRY": Call("list_slice", (ITEMS, number(1), number(2))),
    "a chr": Call("chr", (N,)),
    "a product that a condition does not narrow": Case(((Binary("<", N, number(9)), Binary("*", N, N)),)),
    "a condition that can be NULL": Case(
        ((Binary("<", BIG, Column("b", "n", stored=True)), number(0)),), Binary("-", BIG, number(1))
    ),
    "a text as a condition": Case(((TEXT, number(1)),)),
    "a number as a condition": Case(((N, number(1)),)),
    "a DECIMAL of other digits": Unscaled(PRICE_OF, SqlType("DECIMAL", 4, 2)),
    "steps of a whole number": Steps(N, 0, 10, Fraction(1, 4)),
    "steps that are no power of two": Steps(X, 0, 10, Fraction(1, 10)),
    "steps with an end that is rounded": Steps(X, 0, (1 << 62) + 1, Fraction(1)),
    "steps with an odd end": Steps(X, 0, (1 << 52) + 1, Fraction(1)),
    "a DECIMAL that is not cut": Cut(Unscaled(PRICE_OF, PRICE), PRICE_OF, PRICE, 0, 10),
    "an average of doubles": Mean(X, number(1)),
    "a query of several rows": ScalarQuery(Select((Item(N, "c"),), VISITS)),
    "a query of several columns": ScalarQuery(
        replace(ONE_COUNT, items=(Item(number(1), "a"), Item(number(2), "b")))
    ),
    "a query under TRY": Try(ScalarQuery(ONE_COUNT)),
    "an aggregate under TRY": Try(Aggregate("COUNT")),
}
CHANGES = {
    "random": Call("random", ()),
    "now": Call("now", ()),
    "current_date": Column("", "current_date"),
    "the user": Call("current_user", ()),
    "a setting": Try(Call("current_setting", (Constant("threads", VARCHAR),))),
    "the age until now": Try(Call("age", (MOMENT,))),
    "a new UUID": Try(Call("uuid", ())),
    "a file": Try(Call("read_text", (TEXT,))),
    "the zone of the session": Cast(MOMENT, TIMESTAMPTZ),
    "a form that no table has": Try(Apply(Form("x", "T", ("BIGINT",), "(random() + {0})", "BIGINT"), (BIG,))),
    "a form with other flags": Try(Apply(replace(form("chr", "INTEGER"), guard="T"), (N,))),
    "a form of a text without a limit": Try(
        Apply(Form("||", "T", ("VARCHAR", "VARCHAR"), "({0}||{1})", "VARCHAR"), (TEXT, TEXT))
    ),
    "a sum of DOUBLEs": Aggregate("SUM", (X,)),
    "a sum of DOUBLEs in another order": Aggregate("SUM", (X,), order=ascending(N)),
    "a sum of different DOUBLEs": Aggregate("SUM", (X,), distinct=True),
    "an average of DOUBLEs": Aggregate("AVG", (X,)),
    "a sum of DECIMALs of many digits": Aggregate("SUM", (Cast(X, SqlType("DECIMAL", 38, 2)),)),
    "FIRST in no order": Aggregate("FIRST", (N,)),
    "LIST by other columns": Aggregate("LIST", (N,), order=ascending(DAY)),
    "STRING_AGG": Aggregate("STRING_AGG", (TEXT,)),
    "ANY_VALUE": Aggregate("ANY_VALUE", (TEXT,)),
    "MODE": Aggregate("MODE", (TEXT,)),
    "STDDEV": Aggregate("STDDEV", (X,)),
    "the least of two zeros": Aggregate("MIN", (Try(Apply(form("round", "DOUBLE"), (X,))),)),
    "a hash of two zeros": Call("hash", (ZEROS,)),
    "a window of FIRST": over(Aggregate("FIRST", (N,)), (U,), (N,)),
    "a window sum of DOUBLEs": over(Aggregate("SUM", (X,)), (U,), ()),
    "a frame with an offset in values": over(
        Aggregate("COUNT", ()), (U,), (N,), Frame("RANGE", Bound("PRECEDING", 1), Bound("CURRENT ROW"))
    ),
    "an unknown window": over(Call("random", ()), (U,), (N,)),
    "NTILE of a column": over(Call("NTILE", (N,)), (U,), (U, N)),
}


@pytest.mark.parametrize("name", FAILS)
def test_what_can_fail_on_a_row_is_refused(name: str) -> None:
    with pytest.raises(NotCertified) as caught:
        check_total(of(FAILS[name]), FACTS)
    assert caught.value.node is not None
    assert "binds" not in caught.value.rule


@pytest.mark.parametrize("name", CHANGES)
def test_what_rows_do_not_decide_is_refused(name: str) -> None:
    with pytest.raises(NotCertified) as caught:
        check_total(of(CHANGES[name]), FACTS)
    assert "binds" not in caught.value.rule


TRIED = [
    name
    for name in FAILS
    if name.startswith(("a CAST", "a sum of two", "a product of", "a division", "a rest", "a func"))
]


@pytest.mark.parametrize("name", TRIED)
def test_under_try_the_same_is_null(name: str) -> None:
    found = value(Try(FAILS[name]))
    assert found.nullable
    assert ends(found.type)[0] <= found.low
    assert found.high <= ends(found.type)[1]


@pytest.mark.parametrize(
    "of_what", [Binary("*", huge(BIG), huge(BIG)), huge(X)], ids=["products", "HUGEINTs"]
)
def test_sums_that_can_overflow_are_left_to_the_bounds_of_units(of_what: Expr) -> None:
    total = Aggregate("SUM", (of_what,))
    ((_, large),) = check_total(of(total), FACTS).large
    assert large == total
    assert not check_total(of(Aggregate("SUM", (BIG,))), FACTS).large
    with pytest.raises(NotCertified):
        certify(of(total), FACTS)
    with pytest.raises(NotCertified):
        check_total(of(over(total, (U,), ())), FACTS)


ORDERS = {
    "ties of ROW_NUMBER": of(U, N, DAY, over(ROW_NUMBER, (U,), (N,))),
    "ties of LAG": of(U, DAY, over(Call("LAG", (DAY,)), (U,), (N,))),
    "ties of a frame": of(U, DAY, over(Aggregate("SUM", (BIG,)), (U,), (N,), PRECEDING)),
    "two orders of the same rows": of(U, N, over(ROW_NUMBER, (U,), (N,)), over(ROW_NUMBER, (), (N, U))),
    "an aggregate that joins two ties": replace(
        of(Column("b", "x0"), Aggregate("COUNT", (Case(((Column("b", "x1"), Column("b", "x2")),)),))),
        source=Derived(
            of(
                U,
                Binary(">", N, number(1)),
                Case(((Binary("=", over(ROW_NUMBER, (U,), (DAY,)), number(1)), DAY),)),
            ),
            "b",
        ),
        group=(Column("b", "x0"),),
    ),
    "a partition by two zeros": replace(
        of(over(Call("RANK", ()), (Column("b", "x0"),), ())), source=Derived(of(ZEROS), "b")
    ),
    "an order by two zeros that tie": of(X, over(ROW_NUMBER, (), (Paren(ZEROS),))),
    "LIMIT in no order": of(U, N, limit=3),
    "LIMIT in an order with ties": of(U, N, order=ascending(N), limit=3),
    "LIMIT of two zeros": of(ZEROS, order=ascending(ZEROS), limit=3),
    "DISTINCT of two zeros": of(ZEROS, distinct=True),
    "GROUP BY of two zeros": of(ZEROS, Aggregate("COUNT"), group=(ZEROS,)),
    "GROUP BY of two zeros by its place": of(ZEROS, Aggregate("COUNT"), group=(number(1),)),
    "UNION of two zeros": SetOperation(of(X), "UNION", of(ZEROS)),
    "INTERSECT ALL of two zeros": SetOperation(of(ZEROS), "INTERSECT ALL", of(X)),
    "UNION of a date and a moment": SetOperation(of(DAY), "UNION ALL", of(MOMENT)),
    "UNION of other columns": SetOperation(of(U, N), "UNION ALL", of(U)),
    "an ORDER BY that fails": of(U, order=ascending(Binary("*", BIG, BIG))),
    "a WHERE that fails": of(U, where=Binary("=", Binary("//", number(1), BIG), number(1))),
    "a WHERE before what fails": of(Binary("+", N, number(1)), where=Binary("<", N, number(3))),
    "a WHERE with an aggregate": of(U, where=Binary("=", Aggregate("COUNT"), number(1))),
    "a window among aggregates": of(Aggregate("COUNT"), over(Call("RANK", ()), (U,), (N,))),
    "a join that fails": replace(
        of(U),
        source=Join(VISITS, "INNER", Scan("users", "c"), Binary("=", TEXT, Column("c", "age", stored=True))),
    ),
    "a table of nobody": Select((Item(number(1), "x"),), Scan("other", "b")),
    "a column of nobody": of(Column("b", "other", stored=True)),
    "two tables of one alias": replace(of(U), source=Join(VISITS, "CROSS", Scan("users", "b"))),
    "a column of another type": of(Column("b", "n", stored=True, type=BIGINT)),
    "an instant that is no time of UTC": Select(
        (Item(Cast(Column("m", "since", stored=True), DATE), "x"),), Scan("moments", "m")
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_queries_that_fail_or_depend_on_an_order_are_refused(name: str) -> None:
    with pytest.raises(NotCertified) as caught:
        check_total(ORDERS[name], FACTS)
    assert "binds" not in caught.value.rule


KEPT = over(ROW_NUMBER, (U,), (DAY,))
TOTAL = {
    "rows that tie are the same": of(U, N, DAY, over(ROW_NUMBER, (U,), (N, DAY))),
    "ranks by two zeros": of(over(Call("RANK", ()), (Paren(ZEROS),), (Paren(ZEROS),))),
    "ranks of rows that tie": of(U, N, DAY, over(Call("RANK", ()), (U,), (N,))),
    "a unique column in the order": Select(
        (
            Item(Column("c", "age", stored=True), "a"),
            Item(over(ROW_NUMBER, (), (Column("c", "u", stored=True),)), "r"),
            Item(
                over(Call("LAG", (Column("c", "age", stored=True),)), (), (Column("c", "u", stored=True),)),
                "s",
            ),
        ),
        Scan("users", "c"),
    ),
    "what an order decides, alone": replace(
        of(
            Column("b", "x0"),
            Aggregate("COUNT", (Column("b", "x2"),)),
            Aggregate("MIN", (Column("b", "x1"),)),
        ),
        source=Derived(of(U, N, Case(((Binary("=", KEPT, number(1)), DAY),))), "b"),
        group=(Column("b", "x0"),),
    ),
    "groups told apart by an order": of(
        U, N, Aggregate("COUNT"), group=(U, N), order=ascending(N, U), limit=3
    ),
    "a sum of DOUBLEs in order": of(Aggregate("SUM", (X,), order=ascending(X))),
    "DISTINCT of one zero": of(Canonical(Paren(ZEROS)), distinct=True),
    "DISTINCT of what columns beside it decide": of(X, ZEROS, distinct=True),
    "EXISTS of the outer row": of(
        U,
        where=Exists(
            Select((Item(number(1), "x"),), Scan("users", "c"), Binary("=", Column("c", "u", stored=True), U))
        ),
    ),
    "values": Select(
        (Item(Column("w", "a"), "a"),), Values(((number(1),), (Constant(None, NULL),)), "w", ("a",))
    ),
}


@pytest.mark.parametrize("name", TOTAL)
def test_total_queries_in_a_total_order_are_accepted(name: str) -> None:
    checked = check_total(TOTAL[name], FACTS)
    assert isinstance(checked, Checked)
    assert checked.rows.columns


COUNTED = Aggregate("COUNT")
ENDS: list[tuple[Expr, object, object]] = [
    (N, -(1 << 31), (1 << 31) - 1),
    (number(-7), -7, -7),
    (Constant(True, BOOLEAN), 1, 1),
    (COUNTED, 0, ROWS),
    (Aggregate("SUM", (Call("LEAST", (Call("GREATEST", (N, number(-2))), number(3))),)), -2 * ROWS, 3 * ROWS),
    (Call("LEAST", (N, number(5))), -(1 << 31), 5),
    (Call("LEAST", (N, N)), -(1 << 31), (1 << 31) - 1),
    (Call("GREATEST", (Call("LEAST", (N, number(5))), number(0))), 0, 5),
    (Call("COALESCE", (COUNTED, number(-1))), 0, ROWS),
    (Call("COALESCE", (Aggregate("MIN", (N,)), number(1 << 40))), -(1 << 31), 1 << 40),
    (Cast(BIG, INTEGER), -(1 << 31), (1 << 31) - 1),
    (Cast(number(7), HUGEINT), 7, 7),
    (Cast(PRICE_OF, BIGINT), -(10**7), 10**7),
    (Unscaled(PRICE_OF, PRICE), -(10**9) + 1, 10**9 - 1),
    (Steps(X, -4, 40, Fraction(1, 4)), -4, 40),
    (Binary("*", huge(N), number(-3)), -3 * ((1 << 31) - 1), 3 << 31),
    (Binary("//", huge(N), number(-3)), -(((1 << 31) - 1) // 3), (1 << 31) // 3),
    (Binary("%", N, number(10)), -9, 9),
    (Binary("%", COUNTED, number(10)), 0, 9),
    (Case(((Binary(">", N, number(0)), Binary("-", N, number(1))),), number(3)), 0, (1 << 31) - 2),
    (Case(((Binary("<=", N, number(9)), number(0)),), N), 0, (1 << 31) - 1),
    (Case(((Binary("AND", Binary(">=", N, number(0)), Binary("<", N, number(9))), N),), number(5)), 0, 8),
    (Case(((Binary("OR", Binary("<", N, number(0)), Binary(">", N, number(9))), number(1)),), N), 0, 9),
    (Saturated(Binary("*", huge(BIG), huge(BIG)), BIGINT, 1 << 126), -(1 << 63), (1 << 63) - 1),
    (Call("hash", (U,)), 0, (1 << 64) - 1),
    (Apply(form("+", "BIGINT", "BIGINT"), (BIG, number(7))), 7 - (1 << 63), (1 << 63) + 6),
    (Call("abs", (huge(BIG),)), 0, 1 << 63),
    (over(ROW_NUMBER, (U,), (N, DAY)), 1, ROWS),
]


@pytest.mark.parametrize(
    ("expr", "low", "high"), ENDS, ids=lambda part: duckdb_sql(part) if isinstance(part, Expr) else ""
)
def test_ends_of_numbers(expr: Expr, low: object, high: object) -> None:
    found = value(expr)
    assert (found.low, found.high) == (low, high)
    assert all(type(end) is not float for end in (found.low, found.high))


def test_a_share_of_a_capped_number_and_a_difference_of_quotients_are_bounded() -> None:
    counts = Rows(
        {"n": Value(BIGINT, 1, ROWS, False), "x": Value(BIGINT, 0, ROWS), "b": whole(HUGEINT)}, single=False
    )
    counts.columns["b"] = Value(HUGEINT, 0, ROWS * ROWS)
    scope = Scope({"w": counts}, Walk(FACTS))
    n, x, b = (Column("w", name) for name in ("n", "x", "b"))
    wide = Paren(Cast(n, HUGEINT))
    share = Binary(
        "//", Paren(Binary("*", Call("LEAST", (x, Paren(Binary("*", wide, number(9))))), number(4))), wide
    )
    assert value_of(share, scope)[1:3] == (0, 36)

    def quotient(upto: Expr) -> Expr:
        line = Binary("+", Binary("*", Call("LEAST", (n, number(100))), upto), Call("LEAST", (n, number(5))))
        return Paren(Binary("//", Paren(line), wide))

    before = Paren(Binary("-", b, huge(x)))
    found = value_of(Binary("-", quotient(b), quotient(before)), scope)
    assert (found.low, found.high) == (0, 100 * ROWS + 1)
    other = value_of(Binary("-", quotient(b), quotient(Paren(Binary("-", b, number(-1))))), scope)
    assert other.low < 0


def test_no_function_reads_the_sign_of_a_zero_that_no_row_decides() -> None:
    w = Column("p", "w", stored=True)
    listed = Select(
        (Item(Try(Apply(form("round", "DOUBLE"), (w,))), "v"),), Scan("pages", "p"), distinct=True
    )
    check_total(listed, FACTS)
    v = Column("d", "v")

    def reading(expr: Expr) -> Query:
        return Select((Item(expr, "x"),), Derived(listed, "d"))

    for accepted in (
        v,
        Binary("=", v, X_OF_ONE),
        IsNull(v),
        Aggregate("COUNT", (v,)),
        Call("COALESCE", (v, v)),
    ):
        check_total(reading(accepted), FACTS)
    check_total(reading(Call("hash", (Canonical(v),))), FACTS)
    bits = (
        Apply(form("signbit", "DOUBLE"), (v,)),
        Cast(v, VARCHAR),
        Apply(form("*", "DOUBLE", "DOUBLE"), (v, v)),
        Aggregate("MAX", (v,)),
        Paren(Unary("-", v)),
    )
    for refused in bits:
        with pytest.raises(NotCertified):
            check_total(reading(refused), FACTS)
    private = replace(listed, source=VISITS, items=(Item(Try(Apply(form("round", "DOUBLE"), (X,))), "v"),))
    with pytest.raises(NotCertified):
        check_total(private, FACTS)


def test_of_two_columns_with_one_name_the_first_is_read() -> None:
    inner = Select((Item(N, "x"), Item(TEXT, "x")), VISITS)
    made = check_total(Select((Item(Column("d", "x"), "y"),), Derived(inner, "d")), FACTS)
    assert made.rows.columns["y"].type == INTEGER
    nulls = Select((Item(Constant(None, NULL)), Item(Constant(None, NULL))))
    assert len(check_total(SetOperation(of(N, X), "UNION ALL", nulls), FACTS).rows.columns) == 2


def test_nulls_and_zeros() -> None:
    assert not value(COUNTED).nullable
    assert value(U).nullable
    assert not check_total(of(U, where=IsNull(U, negated=True)), FACTS).rows.columns["x0"].nullable
    outer = Join(VISITS, "LEFT", Derived(ONE_COUNT, "c"), Constant(True, BOOLEAN))
    assert check_total(replace(of(Column("c", "c")), source=outer), FACTS).rows.columns["x0"].nullable
    assert value(X).canonical
    assert not value(Cast(TEXT, DOUBLE)).canonical
    assert not value(Cast(TEXT, column_type("DOUBLE[]"))).canonical
    assert value(Cast(BIG, DOUBLE)).canonical
    assert not value(DOUBLES).canonical
    squares = Lambda("y", Apply(form("*", "DOUBLE", "DOUBLE"), (Parameter("y"), Parameter("y"))))
    assert not value(Try(Call("list_transform", (DOUBLES, squares)))).canonical
    assert value(Cast(N, DOUBLE)).high == (1 << 31) - 1
    assert math.isinf(value(ZEROS).high)


def given(node: Expr, arguments: tuple[Expr, ...]) -> Expr:
    """Put arguments into an expression."""
    found = replace_nodes(
        Paren(node), lambda part: arguments[part.place] if isinstance(part, Argument) else part
    )
    assert isinstance(found, Paren)
    return found.inner


def without_places(parsed: str) -> str:
    return re.sub(r'"query_location(_length)?":\d+', "", parsed)


ROWS_OF_TABLE = [row for forms in listed_forms().values() for row in forms]
OTHER_FORMS = [NEGATED, UTC_OFFSET, *NEAR.values(), text_up_to(7), concatenated(3), overlaid(3), overlaid(4)]


def test_a_total_form_calls_what_fails_under_try_alone() -> None:
    for row in (*ROWS_OF_TABLE, *OTHER_FORMS):
        found = template(row.template)
        called = {node.name.lower() for node in walk(found) if isinstance(node, Call)}
        assert called <= KNOWN, row
        assert row.deterministic, row
        if row.total:
            assert failing(found, of_time="TIME" in row.arguments) == set(), row


@pytest.mark.parametrize(
    "text", ["({0}||{1})", "replace({0},{1},{2})", "({0}", "{0} {1}", "SELECT 1", "f({0}"]
)
def test_what_is_no_form_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="form"):
        template(text)


def test_what_fails_is_found_in_a_form() -> None:
    assert failing(template("week({0})")) == {"week"}
    assert failing(template("TRY(week({0}))")) == set()
    assert failing(template("(CASE WHEN {0} > 1 THEN chr({0}) END)")) == {"chr"}
    assert failing(template("left({0},{1})")) == {"left"}


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def test_each_form_is_read_as_duckdb_reads_it(parser: duckdb.DuckDBPyConnection) -> None:
    """The form's expression, written again, is the same to DuckDB's parser."""
    for row in ROWS_OF_TABLE:
        compare_readings(row, parser)


def compare_readings(row: Form, parser: duckdb.DuckDBPyConnection) -> None:
    arguments = tuple(Column("t", f"a{i}") for i in range(len(row.arguments)))
    written = row.template
    for i in range(len(arguments)):
        written = written.replace(f"{{{i}}}", f"t.a{i}")
    written = re.sub(r"(\S+) NOT LIKE", r"NOT \1 LIKE", written)
    again = duckdb_sql(given(template(row.template), arguments)).replace("CAST(0.0 AS DECIMAL(2,1))", "0.0")
    parsed = [
        parser.execute("SELECT json_serialize_sql(?, skip_null := true)", [f"SELECT {sql}"]).fetchall()
        for sql in (written, again)
    ]
    places = [without_places(found[0][0]) for found in parsed]
    assert places[0] == places[1], row
