"""Trees by hand whose numbers one unit changes: a certificate says by how much at most, or there is none."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest

from dpsql.kernel.check import Certificate, NotCertified
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
    Derived,
    Expr,
    IsNull,
    Item,
    KeptValues,
    Query,
    Scan,
    Select,
    Weighted,
    Window,
    duckdb_sql,
)
from dpsql.kernel.tree.exact import furthest, whole
from dpsql.types import BIGINT, HUGEINT
from tests.counted_nodes import certify

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
        left = select("g", groups, (Column("g", "k0"), "k0"), (Column("g", "n0"), "n0"))
        there = Select(left.items, left.source, Binary(">", Column("g", "n0"), whole(0)))
        return lambda: certify(there, FACTS)

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
