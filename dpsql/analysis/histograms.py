"""The counting query of quantiles and extremes: for each group, the rows of each cell of the values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpsql.analysis.domains import Candidates, same
from dpsql.analysis.groups import CountingQuery, Rows, all_groups, groups_with_units
from dpsql.analysis.released import CellRows, ReleasedAggregate
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Item,
    Join,
    OrderTerm,
    Query,
    Select,
    SetOperation,
    Window,
    columns,
    conjunction,
)
from dpsql.types import BIGINT

_COUNT = Aggregate("COUNT")


def cells_of_all(
    rows: Rows, domains: Sequence[Candidates], part: CellRows, order: Iterable[tuple[int, bool]]
) -> CountingQuery:
    """Count the rows of each group of the domain and each of its cells: the cell in `n0`, its rows in `n1`.

    A group without rows has one row, with 0 rows in cell 0. Which cells a group has is private; the order of
    the groups is public, as that of `all_groups`.
    """
    return all_groups(rows, domains, order, cells=cells(rows, part))


def cells_of_one(rows: Rows, part: CellRows) -> CountingQuery:
    """Count the rows of each cell, of all rows together; without any, there is none."""
    return CountingQuery(cells(rows, part), order=())


def cells_of_existing(rows: Rows, part: CellRows, units: ReleasedAggregate) -> CountingQuery:
    """Count the rows of the cells of all groups that have a unit, with the units of the group in `n2`.

    Which groups there are is private, and their order says nothing, as in `groups_with_units`.
    """
    groups = groups_with_units(replace(rows, released=(units,)), 0).query
    zero, keys = Constant(0, BIGINT), columns("g", "k", rows.keys)
    known = conjunction(same(key, Column("c", key.name), null=True) for key in keys)
    source = Join(Derived(groups, "g"), "LEFT", Derived(cells(rows, part), "c"), known)
    numbers = [Item(Call("COALESCE", (Column("c", n), zero)), n) for n in ("n0", "n1")]
    listed = (*(Item(key, key.name) for key in keys), *numbers, Item(Column("g", "n0"), "n2"))
    return CountingQuery(Select(listed, source))


def cells(rows: Rows, part: CellRows) -> Query:
    """Return the keys, the cells `n0` and the numbers of their rows `n1`, of the rows that units keep.

    For an extreme a unit keeps one row in each group, with its least or greatest cell.
    """
    unit, keys, cell = Column("s", "u"), columns("s", "k", rows.keys), Column("s", "f0")
    owned = IsNull(unit, negated=True)
    every = Select(tuple(Item(c) for c in (unit, *keys, cell)), Derived(rows.query, "s"), owned)
    own = replace(every, where=conjunction((owned, IsNull(cell, negated=True))))
    if rows.by_row or part.single:
        return _numbered(own, rows.keys)
    if part.extreme:
        furthest = Aggregate("MIN" if part.extreme == "least" else "MAX", (cell,))
        listed = (*(Item(c) for c in (unit, *keys)), Item(furthest, "f0"))
        return _numbered(replace(own, items=listed, group=(unit, *keys)), rows.keys)
    return _with_few(every, own, rows.keys, part.most)


def _numbered(rows: Query, keys: int, number: Expr = _COUNT) -> Select:
    """Return the keys, the cells `n0` and the numbers of their rows `n1`."""
    by = (*columns("h", "k", keys), Column("h", "f0"))
    listed = (*map(Item, by[:-1]), Item(by[-1], "n0"), Item(number, "n1"))
    return Select(listed, Derived(rows, "h"), group=by)


def _with_few(every: Query, rows: Query, keys: int, most: int) -> Query:
    """Count the rows of which each unit keeps at most `most`, in all groups together: a sample of them.

    That is the number of all rows less that of the rows which units with more do not keep. So only the rows
    of these few units are joined and ordered, and all rows are grouped by their cells alone.

    `rows` are those of `every` that have a cell: only these are dropped, and none of a unit with `most` or
    fewer of them. Where rows are counted, those without a cell count 0: an engine that compares a cell with
    NULL computes it twice.
    """
    unit = Column("w", "u")
    numbered = Select((Item(unit), Item(_COUNT, "n")), Derived(every, "w"), group=(unit,))
    beyond = Select(
        (Item(Column("v", "u")),),
        Derived(numbered, "v"),
        Binary(">", Column("v", "n"), Constant(most, BIGINT)),
    )
    names = ("u", *(f"k{i}" for i in range(keys)), "f0")
    listed = tuple(Item(Column("a", name), name) for name in names)
    same = Binary("=", Column("a", "u"), Column("b", "u"))
    few = Select(listed, Join(Derived(rows, "a"), "", Derived(beyond, "b"), same))
    dropped = _numbered(_dropped(few, keys, most), keys, Binary("-", Constant(0, BIGINT), _COUNT))
    counted = _numbered(every, keys, Aggregate("COUNT", (Column("h", "f0"),)))
    both = Derived(SetOperation(counted, "UNION ALL", dropped), "l")
    by = (*columns("l", "k", keys), Column("l", "n0"))
    left = Cast(Aggregate("SUM", (Column("l", "n1"),)), BIGINT)
    totals = Derived(Select((*map(Item, by), Item(left, "n1")), both, group=by), "m")
    shown = (*columns("m", "k", keys), *columns("m", "n", 2))
    return Select(tuple(map(Item, shown)), totals, Binary(">", Column("m", "n1"), Constant(0, BIGINT)))


def _dropped(rows: Query, keys: int, most: int) -> Query:
    """Return the rows beyond the first `most` of each unit, in all groups together, in the order of a hash.

    Rows of a unit in one group and cell are numbered: they are alike, so which of them gets which number
    changes nothing. Unit, keys, cell and number then tell all rows apart, and the order by their hash, and by
    themselves where hashes are equal, is complete. So what a unit keeps is a function of its own rows alone.
    Without the unit in the hash all units would keep the same values; without the number a repeated value
    would be kept whole or not at all.
    """
    own = [Column("x", "u"), *columns("x", "k", keys), Column("x", "f0")]
    number = Window(Call("ROW_NUMBER", ()), tuple(own), (OrderTerm(own[0]),))
    numbered = Select((*map(Item, own), Item(number, "j")), Derived(rows, "x"))
    unit, *terms = [Column("y", "u"), *columns("y", "k", keys), Column("y", "f0"), Column("y", "j")]
    order = (Call("hash", (unit, *terms)), *terms)
    place = Window(Call("ROW_NUMBER", ()), (unit,), tuple(OrderTerm(e) for e in order))
    placed = Select((*(Item(c) for c in (unit, *terms)), Item(place, "r")), Derived(numbered, "y"))
    listed = tuple(Item(Column("z", c.name)) for c in own)
    return Select(listed, Derived(placed, "z"), Binary(">", Column("z", "r"), Constant(most, BIGINT)))
