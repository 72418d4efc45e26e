"""The query of how much lies beyond the declared bounds of a column, of all rows of a table.

A value beyond a bound counts by its distance, up to the width of the bounds. Rows of a unit beyond a number B
are weighted down: a unit with n > B values counts with B/n of what they have. `dpsql bounds` releases it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

from sqlglot import exp

from dpsql.analysis import blocks
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.claims import check_numbers, check_together
from dpsql.analysis.column_bounds import bounds_of_column
from dpsql.analysis.compiled_query import CompiledQuery, seal
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.grids import grid_of
from dpsql.analysis.integers import in_full
from dpsql.analysis.joins import from_clause
from dpsql.analysis.relation import From, select_list
from dpsql.analysis.rules import RULES_BY_NODE
from dpsql.analysis.typed import Bounds
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Column,
    Derived,
    Expr,
    IsNull,
    Paren,
    Select,
    items,
    quote,
)
from dpsql.kernel.tree.counted_sums import in_ratio
from dpsql.kernel.tree.exact import clamp, huge, saturated, whole
from dpsql.language import Query, parse
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table

_LARGEST = 1 << 200
"""Bounds farther from 0 are not measured, as statements do not cut at them."""


@dataclass(frozen=True, slots=True)
class ValueMeasure:
    """What values of a column have beyond its bounds, in three whole numbers of all units together.

    Attributes
    ----------
    compiled
        The query of the three numbers, of one row: what is above, what is below, and what is left.
    rows
        B, how many rows of a unit count.
    width
        w, the most by which a value counts, in steps.
    step
        What a step is worth.
    low, high
        The declared bounds.

    Notes
    -----
    A value adds its distance above or below, at most w, to one of the first two numbers, and w less that to
    the third: w in all, none of it negative. So a unit with n <= B values adds n w. With n > B values it adds
    floor(A B/n) and floor(D B/n) for sums A and D, which are at most n w together, and to the third number
    what these leave of B w. *Bounded:* one unit adds at most B w to all three together, and takes nothing.
    All of it is a function of the unit's own rows.
    """

    compiled: CompiledQuery
    rows: int
    width: int
    step: Fraction
    low: Fraction
    high: Fraction

    @property
    def moved(self) -> int:
        """The most by which one unit moves the three numbers together, in steps."""
        return self.rows * self.width


def declared_bounds(catalog: Catalog, table: Table, column: str) -> Bounds | None:
    """Return the bounds of a column that statements cut its values to, and beyond which values may lie."""
    kind = dict(catalog.columns(table.name)).get(column)
    if table.public or kind is None or not kind.numeric:
        return None
    found = bounds_of_column(catalog, table, column, kind)
    if found is None or not found.declared or max(-found.low, found.high) > _LARGEST:
        return None
    return found


def value_measure(policy: Policy, catalog: Catalog, table: Table, column: str, rows: int) -> ValueMeasure:
    """Compile the measure of a column with declared bounds, of which `rows` count for each unit."""
    query = parse(f"SELECT SUM({quote(column)}) FROM {quote(table.name)}")
    assert isinstance(query, Query)  # noqa: S101  as written above
    with query.source.limited_depth():
        return _compiled(policy, catalog, table, column, rows, query)


def _compiled(
    policy: Policy, catalog: Catalog, table: Table, column: str, rows: int, query: Query
) -> ValueMeasure:
    compiler = StatementCompiler(query.source, policy, catalog, RULES_BY_NODE, blocks.query)
    assert isinstance(query.tree, exp.Select)  # noqa: S101  as written
    made = from_clause(compiler, query.tree, (), 1)
    bounds = declared_bounds(catalog, table, column)
    assert bounds is not None  # noqa: S101  the caller has looked
    assert made.unit is not None  # noqa: S101  the table is private
    value = in_full(compiler.expression(exp.column(exp.to_identifier(column, quoted=True)), made.scope))
    low, high = bounds.low, bounds.high if bounds.high > bounds.low else bounds.low + 1
    beyond = high - low
    grid = grid_of(value.type, low - beyond, high + beyond, rows, degree=1)
    ends = math.floor(low / grid.step) - grid.low, math.ceil(high / grid.step) - grid.low
    width = max(ends[0], grid.width - ends[1], ends[1] - ends[0])
    row = grid.steps(value.guarded_node, shifted=True)
    by_row = made.owner is not None and made.owner.row
    units = _units(made, row, ends, by_row=by_row)
    sums = _weighted(rows, width)
    listed = items("n", tuple(saturated(Aggregate("SUM", (each,))) for each in sums))
    found = Select(listed, Derived(units, "v"))
    used = tuple(sorted(compiler.used))
    sealed = seal(found, catalog, policy, used, len(listed), order=())
    measure = ValueMeasure(sealed, rows, width, grid.step, bounds.low, bounds.high)
    check_numbers(sealed.certificate, measure.moved)
    check_together(sealed.certificate, measure.moved)
    return measure


def _units(made: From, row: Expr, ends: tuple[int, int], *, by_row: bool) -> Select:
    """Return for each unit the steps above the bounds (`a0`) and below (`a1`), and how many values (`a2`)."""
    rows = Select((*select_list(made.unit, "k", ()), *items("f", (row,))), made.source)
    value, unit = Column("s", "f0"), Column("s", "u")
    above = Call("GREATEST", (Paren(Binary("-", value, whole(ends[1]))), whole(0)))
    below = Call("GREATEST", (Paren(Binary("-", whole(ends[0]), value)), whole(0)))
    there = IsNull(value, negated=True)
    if by_row:
        sums: Sequence[Expr] = (_if(there, above), _if(there, below), _if(there, whole(1)))
        return Select(items("a", tuple(sums)), Derived(rows, "s"))
    sums = (
        Aggregate("SUM", (_if(there, above),)),
        Aggregate("SUM", (_if(there, below),)),
        Aggregate("COUNT", (value,)),
    )
    known = IsNull(unit, negated=True)
    return Select(items("a", tuple(sums)), Derived(rows, "s"), known, group=(unit,))


def _if(condition: Expr, value: Expr) -> Expr:
    # GREATEST leaves NULLs out: a NULL would be at a bound.
    return Case(((condition, value),), whole(0))


def _weighted(rows: int, width: int) -> tuple[Expr, ...]:
    """Return what counts of a unit above, below, and of what these leave."""
    values = Column("v", "a2")
    counted = Call("LEAST", (values, whole(rows)))
    parts: list[Expr] = []
    for name in ("a0", "a1"):
        own = huge(Call("COALESCE", (Column("v", name), whole(0))))
        parts.append(clamp(in_ratio(own, rows, values), _rest(whole(rows * width), parts)))
    every = Paren(Binary("*", huge(counted), whole(width)))
    return (*parts, clamp(_rest(every, parts), whole(rows * width)))


def _rest(every: Expr, parts: Sequence[Expr]) -> Expr:
    """Return a number less some parts of it."""
    return reduce(lambda left, part: Paren(Binary("-", left, part)), parts, every)
