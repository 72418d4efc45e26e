"""The query of how much lies beyond the declared bounds of a column, of all rows of a table.

A value beyond a bound counts by its distance, up to the width of the bounds. Rows of a unit beyond a number B
are weighted down: a unit with n > B values counts with B/n of what they have. `dpsql bounds` releases it.
"""

from __future__ import annotations

import math
from fractions import Fraction

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
from dpsql.analysis.relation import select_list
from dpsql.analysis.rules import RULES_BY_NODE
from dpsql.analysis.typed import Bounds
from dpsql.kernel.tree import Beyond, Select, items, quote
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
    by_unit = made.owner is None or not made.owner.row
    rows_of_units = Select((*select_list(made.unit, "k", ()), *items("f", (row,))), made.source)
    found = Beyond(rows_of_units, *ends, width, rows, by_unit)
    used = tuple(sorted(compiler.used))
    sealed = seal(found, catalog, policy, used, 3, order=())
    measure = ValueMeasure(sealed, rows, width, grid.step, bounds.low, bounds.high)
    check_numbers(sealed.certificate, measure.moved)
    check_together(sealed.certificate, measure.moved)
    return measure
