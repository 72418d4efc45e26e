"""The queries of what units have, of which a bound is found: the scores of all bounds."""

from __future__ import annotations

from dataclasses import replace

from dpsql.analysis.grids import SMALL
from dpsql.analysis.groups import Rows
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.score_queries import score_query
from dpsql.errors import InternalError
from dpsql.kernel.tree import Call, Column, Derived, Expr, IsNull, Item, Query, Select


def rungs(rows: Rows, ladder: Ladder, *, server: bool = False) -> Query:
    """Return the query of the scores of bounds (`score_queries.score_query`): units alone are grouped."""
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
    return score_query(
        _sized(ladder, units),
        ladder.bounds,
        by_excess=ladder.by_excess,
        wide=ladder.wide,
        sums=ladder.sums(keys=keys),
        fine=ladder.fine,
        server=server,
    )


def small_rungs(rows: Rows, ladder: Ladder) -> tuple[Query, ...]:
    """Return queries of `rungs` for units with small totals of a DOUBLE, and of how many have others.

    That is their last number. If it is 0, the others are those of `rungs`; DuckDB sums DOUBLEs and BIGINTs
    faster than HUGEINTs. The first query is the fastest, and for values from 0 on, if there are two.
    """
    if ladder.small is None or ladder.positive is None or rows.by_row or ladder.small not in rows.row:
        return ()
    small, keys = _small_rungs(rows, ladder, ladder.small, positive=False), bool(rows.keys)
    return (small,) if keys else (_small_rungs(rows, ladder, ladder.positive, positive=True), small)


def _small_rungs(rows: Rows, ladder: Ladder, row: Expr, *, positive: bool) -> Query:
    unit, keys, name = Column("s", "u"), bool(rows.keys), f"f{rows.row.index(row)}"
    own = ladder.of_small_unit(Column("s", name), positive=positive, keys=keys)
    there = IsNull(unit, negated=True)
    units = Select((Item(own, "t"),), Derived(_only(rows.query, name), "s"), there, group=(unit,))
    return score_query(
        Select((Item(Column("x", "t"), "a"),), Derived(units, "x")) if positive else _sized(ladder, units),
        [bound for bound in ladder.bounds if bound < SMALL],
        by_excess=True,
        wide=False,
        sums=ladder.sums(keys=keys),
        fine=ladder.fine,
        missing=True,
        positive=positive,
    )


def _sized(ladder: Ladder, units: Select) -> Select:
    """Return what units have, from `t`: as `t` and as `a` without its sign."""
    total = Column("x", "t")
    size = Call("abs", (total,)) if ladder.of is Contribution.TOTAL else total
    return Select((Item(size, "a"), Item(total)), Derived(units, "x"))


def _only(query: Query, *names: str) -> Query:
    """Return rows with their unit and some of the columns alone: a shorter text is planned faster."""
    if not isinstance(query, Select) or query.distinct:
        return query
    return replace(query, items=tuple(item for item in query.items if item.name in ("u", *names)))
