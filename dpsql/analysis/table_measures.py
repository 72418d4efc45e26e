"""Queries that measure a whole table for its bounds: rows, totals, groups of units, values beyond bounds.

A measure of a unit is a whole number c >= 0, a function of the unit's own rows. What the queries return of
all units is whole numbers, too: by how much units are above bounds (`scores`), and how many units lie between
ends (`above`). `dpsql bounds` releases a bound and a histogram of a measure by them (`mechanisms`).

A value beyond a bound counts by its distance, up to the width of the bounds. Rows of a unit beyond a number B
are weighted down: a unit with n > B values counts with B/n of what they have. `dpsql bounds` releases it.

Values outside of the declared ones of a column are one group together, and NULL is a value as any other, as
where statements release all groups. Of keys without declared values each value is a group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import select_blocks
from dpsql.analysis.bound_ladders import ROWS, UNDECLARED_GROUPS, groups_by, total_of
from dpsql.analysis.compiled_query import CompiledQuery, seal
from dpsql.analysis.compiled_relation import From, select_list
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.facts_of_values import bounds_of_column
from dpsql.analysis.from_joins import compile_from
from dpsql.analysis.grids import grid_of, prepare_for_search
from dpsql.analysis.group_rules import find_undeclared_keys
from dpsql.analysis.known_subqueries import find_rule
from dpsql.analysis.large_domains import count_groups
from dpsql.analysis.outer_query import compile_outer_query
from dpsql.analysis.released import HIGHEST, HIGHEST_ROWS, find_power
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.statement_plan import check_numbers, check_search, check_together
from dpsql.analysis.total_forms import widen_integer
from dpsql.analysis.typed_expression import Bounds
from dpsql.errors import ProgrammingError, QueryRefused, with_article
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    Above,
    Aggregate,
    Beyond,
    Call,
    Column,
    Derived,
    Expr,
    IsNull,
    Item,
    Scores,
    Select,
    Sums,
    items,
    quote,
)
from dpsql.kernel.tree.exact import BEYOND, huge, to_least_steps, within
from dpsql.language import Query, parse
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table
from dpsql.types import DOUBLE

_IN_A_QUERY = 8
"""The most numbers of one query of a server: each repeats the measure of a unit."""


@dataclass(frozen=True, slots=True)
class UnitMeasure:
    """A measure of the units of a private table, and the query that has it for each unit."""

    table: str
    text: str
    """The table, and the measure in words: `rows`, or as `total_of` or `groups_by` says."""
    step: Fraction
    """What 1 is worth: 1 row, or a step of the column's values."""
    top: int
    """The power of two of the largest bound that is searched."""
    wide: bool
    """Whether the measure is a HUGEINT; else it is a BIGINT."""
    _units: Select
    """Column `a`: the measure of each unit that has a row."""
    _used: tuple[str, ...]
    _catalog: Catalog
    _policy: Policy
    groups: int = 1
    """Into how many groups a statement divides the rows that has this bound on groups; 1: none."""
    declared: bool = True
    """Whether the values of these groups are declared."""

    @property
    def bounds(self) -> tuple[int, ...]:
        """The bounds that are searched: powers of two, in ascending order."""
        return tuple(1 << power for power in range(self.top + 1))

    def scores(self) -> CompiledQuery:
        """Return the query of the scores of all bounds (`kernel.tree.scores`).

        One unit more moves each score by 0 to `FULL`, all in one direction.
        """
        server = self._policy.engine != "duckdb"
        query = Scores(self._units, self.bounds, by_excess=True, wide=self.wide, server=server)
        made = self._seal_query(query, Sums.NONE.value, one_row=False)
        check_search(made.certificate, self.bounds)
        return made

    def above(self, ends: Sequence[int]) -> tuple[CompiledQuery, ...]:
        """Return the queries of how many units are above each of some ends, each of one row.

        For a server they are several, each of a length that servers take.
        """
        most = len(ends) if self._policy.engine == "duckdb" else _IN_A_QUERY
        parts = (tuple(ends[place : place + most]) for place in range(0, len(ends), most))
        return tuple(self._seal_above(part) for part in parts)

    def _seal_above(self, ends: tuple[int, ...]) -> CompiledQuery:
        made = self._seal_query(Above(self._units, ends), len(ends))
        check_numbers(made.certificate, 1)
        return made

    def _seal_query(self, query: tree.Query, size: int, *, one_row: bool = True) -> CompiledQuery:
        order = () if one_row else None
        return seal(query, self._catalog, self._policy, self._used, size, order=order, cells=not one_row)


def compile_unit_measure(
    policy: Policy, catalog: Catalog, table: Table, column: str | None = None
) -> UnitMeasure:
    """Compile a measure of the units of a table: their rows, or the totals of a column.

    Raises `ProgrammingError` if the table has no such measure: it is public, each of its rows is a unit, or
    the column has no numbers.
    """
    what = "COUNT(*)" if column is None else f"SUM({quote(column)})"
    query = parse(f"SELECT {what} FROM {quote(table.name)}")
    assert isinstance(query, Query)  # noqa: S101  as written above
    with query.source.limited_depth():
        return _compile_parsed_measure(policy, catalog, table, column, query)


def _compile_parsed_measure(
    policy: Policy, catalog: Catalog, table: Table, column: str | None, query: Query
) -> UnitMeasure:
    compiler = StatementCompiler(query.source, policy, catalog, find_rule, select_blocks.compile_query)
    assert isinstance(query.tree, exp.Select)  # noqa: S101  as written
    made = compile_from(compiler, query.tree, (), 1)
    if made.owner is None or made.unit is None:
        raise ProgrammingError(f"{table.name} is public: nothing in it is bounded")
    if column is None and made.owner.row:
        raise ProgrammingError(f"each row of {table.name} is a unit: it has one row")
    used = tuple(sorted(compiler.used))
    if column is None:
        units = _group_by_unit(made, None, Aggregate("COUNT", (Column("s", "u"),)))
        return UnitMeasure(table.name, ROWS, Fraction(1), HIGHEST_ROWS, False, units, used, catalog, policy)
    value = compiler.expression(exp.column(exp.to_identifier(column, quoted=True)), made.scope)
    if not value.type.numeric:
        raise ProgrammingError(f"{table.name}.{column} is {value.type}, which has no totals")
    value = widen_integer(value)
    row, scale, step = prepare_for_search(value.guarded_node, value.type)
    own = Column("s", "f0")
    # The absolute value of the least BIGINT is none.
    size = Call("abs", (own if scale else huge(own),))
    if made.owner.row:
        units = Select((Item(_convert_to_steps(size, scale), "a"),), Derived(_project_rows(made, row), "s"))
    else:
        units = _group_by_unit(made, row, _convert_to_steps(Aggregate("SUM", (size,)), scale))
    top = HIGHEST if value.type == DOUBLE else min(HIGHEST, find_power(value.type) + HIGHEST_ROWS)
    return UnitMeasure(table.name, total_of(column), step, top, True, units, used, catalog, policy)


def _project_rows(made: From, row: Expr | None) -> Select:
    """Return the rows of a FROM clause: the unit `u`, and the value `f0` if there is one."""
    values = () if row is None else (row,)
    return Select((*select_list(made.unit, "k", ()), *items("f", values)), made.source)


def _group_by_unit(made: From, row: Expr | None, aggregate: Expr) -> Select:
    """Return one row for each unit with a row: an aggregate of its rows, as `a`."""
    unit = Column("s", "u")
    there = IsNull(unit, negated=True)
    return Select((Item(aggregate, "a"),), Derived(_project_rows(made, row), "s"), there, group=(unit,))


def _convert_to_steps(total: Expr, scale: int) -> Expr:
    """Return a total of values with a given number of decimals in steps, 0 for NULL."""
    return within(to_least_steps(total, scale), BEYOND)


_LARGEST = 1 << 200
"""Bounds farther from 0 are not measured, as statements do not cut at them."""


@dataclass(frozen=True, slots=True)
class ValueMeasure:
    """What values of a column have beyond its bounds, in three whole numbers of all units together.

    Notes
    -----
    A value adds its distance above or below, at most w, to one of the first two numbers, and w less that to
    the third: w in all, none of it negative. So a unit with n <= B values adds n w. With n > B values it adds
    floor(A B/n) and floor(D B/n) for sums A and D, which are at most n w together, and to the third number
    what these leave of B w. *Bounded:* one unit adds at most B w to all three together, and takes nothing.
    All of it is a function of the unit's own rows.
    """

    compiled: CompiledQuery
    """The query of the three numbers, of one row: what is above, what is below, and what is left."""
    rows: int
    """B, how many rows of a unit count."""
    width: int
    """w, the most by which a value counts, in steps."""
    step: Fraction
    """What a step is worth."""
    low: Fraction
    high: Fraction
    """The declared bounds."""

    @property
    def unit_change(self) -> int:
        """The most by which one unit moves the three numbers together, in steps."""
        return self.rows * self.width


def find_declared_bounds(catalog: Catalog, table: Table, column: str) -> Bounds | None:
    """Return the bounds of a column that statements cut its values to, and beyond which values may lie."""
    kind = dict(catalog.columns(table.name)).get(column)
    if table.public or kind is None or not kind.numeric:
        return None
    found = bounds_of_column(catalog, table, column, kind)
    if found is None or not found.declared or max(-found.low, found.high) > _LARGEST:
        return None
    return found


def compile_value_measure(
    policy: Policy, catalog: Catalog, table: Table, column: str, rows: int
) -> ValueMeasure:
    """Compile the measure of a column with declared bounds, of which `rows` count for each unit."""
    query = parse(f"SELECT SUM({quote(column)}) FROM {quote(table.name)}")
    assert isinstance(query, Query)  # noqa: S101  as written above
    with query.source.limited_depth():
        return _compile_parsed_values(policy, catalog, table, column, rows, query)


def _compile_parsed_values(
    policy: Policy, catalog: Catalog, table: Table, column: str, rows: int, query: Query
) -> ValueMeasure:
    compiler = StatementCompiler(query.source, policy, catalog, find_rule, select_blocks.compile_query)
    assert isinstance(query.tree, exp.Select)  # noqa: S101  as written
    made = compile_from(compiler, query.tree, (), 1)
    bounds = find_declared_bounds(catalog, table, column)
    assert bounds is not None  # noqa: S101  the caller has looked
    assert made.unit is not None  # noqa: S101  the table is private
    value = widen_integer(compiler.expression(exp.column(exp.to_identifier(column, quoted=True)), made.scope))
    low, high = bounds.low, bounds.high if bounds.high > bounds.low else bounds.low + 1
    beyond = high - low
    grid = grid_of(value.type, low - beyond, high + beyond, rows, degree=1)
    ends = math.floor(low / grid.step) - grid.low, math.ceil(high / grid.step) - grid.low
    width = max(ends[0], grid.width - ends[1], ends[1] - ends[0])
    row = grid.write_steps(value.guarded_node, shifted=True)
    by_unit = made.owner is None or not made.owner.row
    rows_of_units = Select((*select_list(made.unit, "k", ()), *items("f", (row,))), made.source)
    found = Beyond(rows_of_units, *ends, width, rows, by_unit)
    used = tuple(sorted(compiler.used))
    sealed = seal(found, catalog, policy, used, 3, order=())
    measure = ValueMeasure(sealed, rows, width, grid.step, bounds.low, bounds.high)
    check_numbers(sealed.certificate, measure.unit_change)
    check_together(sealed.certificate, measure.unit_change)
    return measure


def compile_group_measure(
    policy: Policy, catalog: Catalog, table: Table, columns: Sequence[str]
) -> UnitMeasure:
    """Compile the measure of in how many groups of some columns a unit of a table has a row.

    Raises `ProgrammingError` if the table has no such measure: it is public, its columns are no keys, or each
    of its units is in one group or has a group of its own.
    """
    keys = ", ".join(map(quote, columns))
    query = parse(f"SELECT {keys}, COUNT(*) FROM {quote(table.name)} GROUP BY {keys}")
    assert isinstance(query, Query)  # noqa: S101  as written above
    try:
        with query.source.limited_depth():
            return _compile_parsed_groups(policy, catalog, table, columns, query)
    except QueryRefused as refused:
        raise ProgrammingError(f"{', '.join(columns)} of {table.name}: {refused.message}") from None


def _compile_parsed_groups(
    policy: Policy, catalog: Catalog, table: Table, columns: Sequence[str], query: Query
) -> UnitMeasure:
    if table.public:
        raise ProgrammingError(f"{table.name} is public: nothing in it is bounded")
    compiler = StatementCompiler(query.source, policy, catalog, find_rule, select_blocks.compile_query)
    block = compile_outer_query(compiler, query)
    owner, listed = block.source.owner, ", ".join(columns)
    assert owner is not None  # noqa: S101  the table is private
    if owner.row:
        raise ProgrammingError(f"each row of {table.name} is a unit: it is in one group")
    if block.one_group:
        raise ProgrammingError(
            f"{with_article(owner.kind)} is in one group by {listed}: no statement needs a bound"
        )
    if any(key.link for key in block.keys):
        raise ProgrammingError(f"each value of {listed} belongs to one {owner.kind}, so no group is shown")
    declared = not find_undeclared_keys(block)
    rows = block.rows.add_outside(block.domains) if declared else block.rows
    size = count_groups(catalog, block.domains) + 1 if declared else None
    top = HIGHEST_ROWS if size is None else min(HIGHEST_ROWS, max(size - 1, 1).bit_length())
    return UnitMeasure(
        table.name,
        groups_by(columns),
        Fraction(1),
        top,
        False,
        rows.groups_of_units("a"),
        tuple(sorted(compiler.used)),
        catalog,
        policy,
        UNDECLARED_GROUPS if size is None else max(size - 1, 1),
        declared,
    )
