"""The rows of a counting query with what a unit has in all groups, for numbers that depend on it.

Both functions return a query with the numbers of units and groups, in columns `r0`.., and for each part its
columns in an alias `w` of that query: the sum over the unit's groups up to this one, and that over all, at
least 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from dpsql.analysis.grids import huge
from dpsql.analysis.released import Part
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Bound,
    Call,
    Case,
    Column,
    Constant,
    Derived,
    Expr,
    Frame,
    IsNull,
    Item,
    Join,
    OrderTerm,
    Select,
    Source,
    Window,
    columns,
    items,
)
from dpsql.types import BIGINT

Sums = dict[Part, tuple[Expr, Expr]]
_ONE = Constant(1, BIGINT)
_UPWARDS = Frame("ROWS", Bound("PRECEDING"))


def with_totals(
    units: Select, keys: int, parts: Mapping[Part, Sequence[int]], size: int
) -> tuple[Select, Sums]:
    """Add to the numbers of a unit and group, of which there are `size`, their sums over the unit's groups.

    `parts` has the places of the numbers that each part needs.
    """
    unit, by, cells = Column("v", "u"), columns("v", "k", keys), columns("v", "r", size)
    sums: dict[Expr, str] = {}
    found: Sums = {}
    for part, numbers in parts.items():
        measured = part.measured(*(cells[n] for n in numbers))
        one = Window(Aggregate("SUM", (measured,)), (unit,)) if keys else measured
        whole = Column("w", sums.setdefault(Call("GREATEST", (one, _ONE)), f"a{len(sums)}"))
        up_to: Expr = whole
        if part.in_turn:
            running = Window(Aggregate("SUM", (measured,)), (unit,), _terms(part, unit, by), _UPWARDS)
            up_to = Column("w", sums.setdefault(running, f"a{len(sums)}"))
        found[part] = up_to, whole
    listed = [*cells, *by, unit]
    more = [Item(expr, name) for expr, name in sums.items()]
    return Select((*map(Item, listed), *more), Derived(units, "v")), found


def merged_units(
    source: Source,
    keys: int,
    parts: Mapping[Part, Sequence[int]],
    each: Sequence[Expr],
    sizes: Mapping[Part, Expr],
    alone: Source,
) -> tuple[Select, Sums]:
    """Return the numbers `each` of all units together whose rows count in full, and of every other unit.

    It is for parts with `in_full` alone; `sizes` has the `size` of each, of the rows of `alone`: those of
    `source`, perhaps without their groups. The merged units have one row in each group, without a unit and
    with 1 as what they have. Most units are among them, so neither a window nor a grouping is over all pairs
    of a unit and a group.

    Notes
    -----
    *The same numbers:* of a unit whose `size` is at most `in_full`, what counts in a group is what its rows
    there add up to, so that of all such units together is what all their rows add up to. Every other unit has
    its own row. The size of a unit is a function of its rows alone, and the rows that `source` gives are
    the same each time it is read: no function of a row and no window depends on anything but the unit's rows,
    and the tables are read alike (`rereading`). Else a unit that grows between the two readings would count
    with all its rows.
    """
    unit, by = Column("s", "u"), columns("s", "k", keys)
    there = IsNull(unit, negated=True)
    rows = {e: f"a{i}" for i, e in enumerate(dict.fromkeys(sizes[part] for part in parts))}
    names = {part: rows[sizes[part]] for part in parts}
    counted = Select((Item(unit), *(Item(e, name) for e, name in rows.items())), alone, there, group=(unit,))
    limits = dict.fromkeys((name, part.in_full or 0) for part, name in names.items())
    more: list[Expr] = [Binary(">", Column("n", name), Constant(most, BIGINT)) for name, most in limits]
    shown = (Item(Column("n", "u")), *(Item(Column("n", name)) for name in rows.values()))
    many = Select(shown, Derived(counted, "n"), reduce(partial(Binary, "OR"), more))
    other = Column("h", "u")
    whole = [
        Item(huge(Call("GREATEST", (Aggregate("MAX", (Column("h", name),)), _ONE))), name)
        for name in rows.values()
    ]
    made = Select(
        (Item(other), *map(Item, by), *items("r", each), *whole),
        Join(source, "LEFT", Derived(many, "h"), Binary("=", other, unit)),
        there,
        group=(other, *by),
    )
    found: Sums = {part: (Column("w", name), Column("w", name)) for part, name in names.items()}
    running = {
        part: Window(Aggregate("SUM", (Column("v", f"r{places[0]}"),)), (Column("v", "u"),), terms, _UPWARDS)
        for part, places in parts.items()
        if part.in_turn and (terms := _terms(part, Column("v", "u"), columns("v", "k", keys)))
    }
    wholes = {part: _whole(part, places) for part, places in parts.items() if part.own_whole}
    if not running and not wholes:
        return made, found
    listed = dict.fromkeys((*running.values(), *wholes.values()))
    sums = {e: f"b{i}" for i, e in enumerate(listed)}
    found |= {part: (Column("w", sums[e]), found[part][1]) for part, e in running.items()}
    found |= {part: (found[part][0], Column("w", sums[e])) for part, e in wholes.items()}
    kept = [Column("v", "u"), *columns("v", "k", keys), *columns("v", "r", len(each))]
    kept += [Column("v", name) for name in rows.values()]
    return Select((*map(Item, kept), *(Item(e, name) for e, name in sums.items())), Derived(made, "v")), found


def _whole(part: Part, places: Sequence[int]) -> Expr:
    """Return what a unit has in all groups, where it has a row of its own; 1 for those that are merged."""
    unit = Column("v", "u")
    measured = part.measured(*(Column("v", f"r{place}") for place in places))
    summed = Call("GREATEST", (Window(Aggregate("SUM", (measured,)), (unit,)), _ONE))
    return Case(((IsNull(unit), huge(_ONE)),), summed)


def _terms(part: Part, unit: Expr, keys: Sequence[Expr]) -> tuple[OrderTerm, ...]:
    return tuple(OrderTerm(e) for e in part.ranked(unit, tuple(keys)))
