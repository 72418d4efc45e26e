"""Trees by hand whose numbers one unit changes: a certificate says by how much at most, or there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb
import pytest

from dpsql.kernel.check import Certificate, NotCertified, certify
from dpsql.kernel.facts import ByColumn, TableFacts
from dpsql.kernel.facts import Facts as Declared
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Bounded,
    Call,
    CappedRows,
    Case,
    Cast,
    Column,
    Decided,
    Derived,
    Expr,
    IsNull,
    Item,
    KeptValues,
    Paren,
    Query,
    Scan,
    Select,
    Weighted,
    Window,
    duckdb_sql,
)
from dpsql.kernel.tree.exact import furthest, whole
from dpsql.types import BIGINT, HUGEINT

FACTS = Declared((TableFacts("t", ByColumn("u"), (("u", BIGINT), ("v", BIGINT)), kind="person"),))
Row = tuple[int, int]


def select(source: str, query: Query, *listed: tuple[Expr, str], by: str = "") -> Select:
    group = (Column(source, by),) if by else ()
    return Select(tuple(Item(expr, name) for expr, name in listed), Derived(query, source), group=group)


def rows(*names: str) -> Select:
    """The rows that have a unit, with the value under some names."""
    values = [Item(Column("b", "v", stored=True), name) for name in names]
    unit = Column("b", "u", stored=True)
    return Select((Item(unit, "u"), *values), Scan("t", "b"), IsNull(unit, negated=True))


def capped(low: int, high: int) -> Select:
    """One row of each unit: its sum, cut."""
    total = Aggregate("SUM", (Column("s", "x"),))
    cut = Cast(Call("LEAST", (Call("GREATEST", (total, whole(low))), whole(high))), BIGINT)
    x = Call("COALESCE", (cut, whole(0)))
    return select("s", rows("x"), (Column("s", "u"), "u"), (x, "x"), by="u")


def search(units: Select, number: Expr, end: int) -> Select:
    """Units by whether their absolute value exceeds an end, and a number of each."""
    u, x, a = Column("w", "u"), Column("w", "x"), Call("abs", (Column("w", "x"),))
    measured = select("w", units, (u, "u"), (x, "x"), (a, "a"))
    key = Case(((Binary(">", Column("m", "a"), whole(end)), whole(1)),), whole(0))
    passed = [(Column("m", name), name) for name in ("u", "x", "a")]
    keyed = select("m", measured, *passed, (key, "k"))
    listed = (Column("c", "k"), "n0"), (Aggregate("COUNT"), "n1"), (number, "n2")
    return select("c", keyed, *listed, by="k")


def counts(query: Query, table: Sequence[Row]) -> dict[int, int]:
    """The last number of each cell."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (u BIGINT, v BIGINT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", table)
        return {row[0]: row[-1] for row in connection.execute(duckdb_sql(query)).fetchall()}


X = Column("c", "x")
SUM = Aggregate("SUM", (X,))
SIGNS = [Aggregate("COUNT", (Case(((Binary(op, X, whole(0)), whole(1)),)),)) for op in "<>"]
NEAR_0 = Binary("//", Paren(Binary("-", SUM, Binary("*", Aggregate("COUNT"), whole(0)))), whole(10))
ROUNDED = Binary(
    "-",
    Binary("+", Binary("*", Paren(NEAR_0), whole(1000)), Paren(Binary("*", SIGNS[0], whole(1000)))),
    Paren(Binary("*", SIGNS[1], whole(2000))),
)
BIG = 1 << 62

SEARCHES: dict[str, tuple[Select, list[Row]]] = {
    "a sum with signs that is cut at one end": (
        search(capped(-1000, 1000), Call("LEAST", (Call("COALESCE", (SUM, whole(0))), whole(5))), 0),
        [(1, 900), (2, -950)],
    ),
    "a sum that a conversion makes NULL": (
        search(capped(0, BIG), Call("COALESCE", (Cast(SUM, BIGINT), whole(0))), 0),
        [(1, 100), (2, BIG - 10), (3, BIG - 20)],
    ),
    "a quotient that is rounded towards 0": (
        search(
            capped(-20, 20),
            Call("LEAST", (Call("GREATEST", (ROUNDED, whole(-BIG >> 4))), whole(BIG >> 4))),
            10,
        ),
        [(1, -11), (2, 16), (3, -11)],
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_no_unit_moves_a_number_of_a_cell_by_more_than_is_certified(name: str) -> None:
    query, table = SEARCHES[name]
    try:
        found = certify(query, FACTS).number("n2")
    except NotCertified:
        return
    with_unit, without = counts(query, table), counts(query, [row for row in table if row[0] != 1])
    assert found is not None
    for key, low, high in found.rungs:
        assert low <= with_unit.get(key, 0) - without.get(key, 0) <= high


def test_a_sum_that_is_cut_at_both_ends_moves_by_no_more_than_these() -> None:
    both = Call("LEAST", (Call("GREATEST", (Call("COALESCE", (SUM, whole(0))), whole(-3))), whole(5)))
    found = certify(search(capped(-1000, 1000), both, 0), FACTS).number("n2")
    assert found is not None
    assert (found.low, found.high) == (-8, 8)


def test_what_a_condition_says_of_a_row_is_not_said_of_the_rows_of_its_window() -> None:
    """A row from 0 to 5 has the largest value of its unit's rows, whatever that is."""
    x, own = Column("s", "x"), Column("s", "u")
    small = Binary("AND", Binary(">=", x, whole(0)), Binary("<=", x, whole(5)))

    def total(most: Expr) -> Select:
        each = select("s", rows("x"), (own, "u"), (Case(((small, most),), whole(0)), "y"))
        one = select("w", each, (Column("w", "u"), "u"), (Aggregate("MAX", (Column("w", "y"),)), "y"), by="u")
        summed = Cast(furthest(Aggregate("SUM", (Column("c", "y"),))), BIGINT)
        return select("c", one, (summed, "n0"))

    found = certify(total(x), FACTS).number("n0")
    assert found is not None
    assert (found.low, found.high) == (0, 5)
    query, table = total(Window(Aggregate("MAX", (x,)), (own,))), [(1, 3), (1, 10**6), (2, 2)]
    found = certify(query, FACTS).number("n0")
    assert found is not None
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (u BIGINT, v BIGINT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", table)
        ((counted,),) = connection.execute(duckdb_sql(query)).fetchall()
    assert counted == 10**6 + 2
    assert found.high >= 10**6


def test_a_number_of_128_bits_has_128_of_them() -> None:
    wide = Call("bit_count", (Cast(Column("w", "x"), HUGEINT),))
    one = select("w", capped(-5, 5), (Column("w", "u"), "u"), (wide, "y"))
    summed = Call("COALESCE", (Cast(furthest(Aggregate("SUM", (Column("c", "y"),))), BIGINT), whole(0)))
    found = certify(select("c", one, (summed, "n0")), FACTS).number("n0")
    assert found is not None
    with duckdb.connect() as connection:
        ((counted,),) = connection.execute("SELECT bit_count((-1)::HUGEINT)").fetchall()
    assert found.high >= counted == 128


def test_pairs_by_a_column_that_is_named_as_their_number_are_refused() -> None:
    """`r` would be the column, which is compared in the place of the number."""

    def bounded(name: str) -> Callable[[], Certificate]:
        own = rows(name)
        u, value = Column("x", "u"), Column("x", name)
        pairs = Select((Item(u, "u"), Item(value, name)), Derived(own, "x"), distinct=True)
        few = Bounded(own, (name,), (name,), 2, pairs)
        units = Aggregate("COUNT", (Column("s", "u"),), distinct=True)
        groups = select("s", few, (Column("s", name), "k0"), (units, "n0"), by=name)
        return lambda: certify(Decided(groups, 1, 1, 0), FACTS)

    assert bounded("k0")().most_groups == 2
    with pytest.raises(NotCertified):
        bounded("r")()


def test_a_number_reads_no_column_that_other_units_decide() -> None:
    """`v0` are the values that are kept once in a group: those that other units have are not there."""
    kept = KeptValues((Column("s", "f0"),), 100, cut=True)

    def of(name: str) -> Weighted:
        values = CappedRows((Column("s", name),), 1, different=True)
        return Weighted(rows("f0", "v0"), 0, 1, ((kept,), (values,)))

    assert certify(of("f0"), FACTS).number("n1")
    with pytest.raises(NotCertified):
        certify(of("v0"), FACTS)
