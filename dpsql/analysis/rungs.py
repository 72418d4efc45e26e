"""The queries of what units have, of which a bound is found: the scores of all bounds."""

from __future__ import annotations

from dataclasses import replace

from dpsql.analysis.grids import SMALL
from dpsql.analysis.groups import Rows
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.errors import InternalError
from dpsql.kernel.tree import Bounded, Call, Column, Derived, IsNull, Item, Query, Scores, Select, Sums


def rungs(rows: Rows, ladder: Ladder, *, server: bool = False) -> Query:
    """Return the query of the scores of bounds (`kernel.tree.scores`): units alone are grouped."""
    terms = [Column("s", f"f{rows.row.index(each)}") for each in ladder.rows]
    source = Derived(_only(rows.query, *(term.name for term in terms)), "s")
    unit, keys = Column("s", "u"), bool(rows.keys)
    if ladder.of is Contribution.GROUPS:
        units = rows.groups_of_units("t", terms)
    elif not terms:
        raise InternalError("all but groups are searched by a value of rows")
    elif rows.by_row:
        units = Select((Item(ladder.in_row(terms), "t"),), source)
    else:
        there, own = IsNull(unit, negated=True), ladder.of_unit(terms, keys=keys)
        units = Select((Item(own, "t"),), source, there, group=(unit,))
    sums = ladder.sums(keys=keys)
    signed = sums is Sums.SIGNED
    units = units if signed else _sized(ladder, units)
    return Scores(units, ladder.bounds, ladder.by_excess, ladder.wide, sums, ladder.fine, server, signed)


def small_rungs(rows: Rows, ladder: Ladder) -> tuple[tuple[Query, int], ...]:
    """Return a query with the numbers of `rungs`, if no unit exceeds all of its bounds, and their number.

    DuckDB sums DOUBLEs faster than HUGEINTs: of units with small totals of values from 0 on. Any other unit
    exceeds all of these bounds.
    """
    if ladder.small is None or rows.by_row or ladder.small not in rows.row:
        return ()
    unit, keys, name = Column("s", "u"), bool(rows.keys), f"f{rows.row.index(ladder.small)}"
    own, there = ladder.of_small_unit(Column("s", name)), IsNull(unit, negated=True)
    units = Select((Item(own, "t"),), Derived(_only(rows.query, name), "s"), there, group=(unit,))
    bounds = tuple(bound for bound in ladder.bounds if bound < SMALL)
    sized = Select((Item(Column("x", "t"), "a"),), Derived(units, "x"))
    return ((Scores(sized, bounds, True, False, ladder.sums(keys=keys), ladder.fine), len(bounds)),)


def _sized(ladder: Ladder, units: Select) -> Select:
    """Return what units have, from `t`: as `t` and as `a` without its sign."""
    total = Column("x", "t")
    size = Call("abs", (total,)) if ladder.of is Contribution.TOTAL else total
    return Select((Item(size, "a"), Item(total)), Derived(units, "x"))


def _only(query: Query, *names: str) -> Query:
    """Return rows with their unit and some of the columns alone: a shorter text is planned faster."""
    if isinstance(query, Bounded):
        return replace(query, columns=tuple(name for name in query.columns if name in names))
    if not isinstance(query, Select) or query.distinct:
        return query
    return replace(query, items=tuple(item for item in query.items if item.name in ("u", *names)))
