"""Queries over what each unit has in a whole table: how many rows, how large a total.

A measure of a unit is a whole number c >= 0, a function of the unit's own rows. What the queries return of
all units is whole numbers, too: by how much units are above bounds (`scores`), and how many units lie between
ends (`above`). `dpsql bounds` releases a bound and a histogram of a measure by them (`mechanisms`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis import blocks
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.claims import check_numbers, check_search
from dpsql.analysis.compiled_query import CompiledQuery, seal
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.grids import in_search
from dpsql.analysis.integers import in_full
from dpsql.analysis.joins import from_clause
from dpsql.analysis.kept_bounds import ROWS, total_of
from dpsql.analysis.relation import From, select_list
from dpsql.analysis.released.auto import HIGHEST, HIGHEST_ROWS, power_of
from dpsql.analysis.rules import RULES_BY_NODE
from dpsql.errors import ProgrammingError
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    Above,
    Aggregate,
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
from dpsql.kernel.tree.exact import BEYOND, huge, in_least_steps, within
from dpsql.language import Query, parse
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table
from dpsql.types import DOUBLE

_IN_A_QUERY = 8
"""The most numbers of one query of a server: each repeats the measure of a unit."""


@dataclass(frozen=True, slots=True)
class UnitMeasure:
    """A measure of the units of a private table, and the query that has it for each unit.

    Attributes
    ----------
    table, text
        The table, and the measure in words: `rows`, or as `total_of` or `groups_by` says.
    unit
        The kind of the unit, for messages.
    step
        What 1 is worth: 1 row, or a step of the column's values.
    top
        The power of two of the largest bound that is searched.
    wide
        Whether the measure is a HUGEINT; else it is a BIGINT.
    """

    table: str
    text: str
    unit: str
    step: Fraction
    top: int
    wide: bool
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
        made = self._sealed(query, Sums.NONE.value, one_row=False)
        check_search(made.certificate, self.bounds)
        return made

    def above(self, ends: Sequence[int]) -> tuple[CompiledQuery, ...]:
        """Return the queries of how many units are above each of some ends, each of one row.

        For a server they are several, each of a length that servers take.
        """
        most = len(ends) if self._policy.engine == "duckdb" else _IN_A_QUERY
        parts = (tuple(ends[place : place + most]) for place in range(0, len(ends), most))
        return tuple(self._asked(part) for part in parts)

    def _asked(self, ends: tuple[int, ...]) -> CompiledQuery:
        made = self._sealed(Above(self._units, ends), len(ends))
        check_numbers(made.certificate, 1)
        return made

    def _sealed(self, query: tree.Query, size: int, *, one_row: bool = True) -> CompiledQuery:
        order = () if one_row else None
        return seal(query, self._catalog, self._policy, self._used, size, order=order, cells=not one_row)


def unit_measure(policy: Policy, catalog: Catalog, table: Table, column: str | None = None) -> UnitMeasure:
    """Compile a measure of the units of a table: their rows, or the totals of a column.

    Raises `ProgrammingError` if the table has no such measure: it is public, each of its rows is a unit, or
    the column has no numbers.
    """
    what = "COUNT(*)" if column is None else f"SUM({quote(column)})"
    query = parse(f"SELECT {what} FROM {quote(table.name)}")
    assert isinstance(query, Query)  # noqa: S101  as written above
    with query.source.limited_depth():
        return _compiled(policy, catalog, table, column, query)


def _compiled(
    policy: Policy, catalog: Catalog, table: Table, column: str | None, query: Query
) -> UnitMeasure:
    compiler = StatementCompiler(query.source, policy, catalog, RULES_BY_NODE, blocks.query)
    assert isinstance(query.tree, exp.Select)  # noqa: S101  as written
    made = from_clause(compiler, query.tree, (), 1)
    if made.owner is None or made.unit is None:
        raise ProgrammingError(f"{table.name} is public: nothing in it is bounded")
    if column is None and made.owner.row:
        raise ProgrammingError(f"each row of {table.name} is a unit: it has one row")
    used, kind = tuple(sorted(compiler.used)), made.owner.kind
    if column is None:
        units = _by_unit(made, None, Aggregate("COUNT", (Column("s", "u"),)))
        return UnitMeasure(
            table.name, ROWS, kind, Fraction(1), HIGHEST_ROWS, False, units, used, catalog, policy
        )
    value = compiler.expression(exp.column(exp.to_identifier(column, quoted=True)), made.scope)
    if not value.type.numeric:
        raise ProgrammingError(f"{table.name}.{column} is {value.type}, which has no totals")
    value = in_full(value)
    row, scale, step = in_search(value.guarded_node, value.type)
    own = Column("s", "f0")
    # The absolute value of the least BIGINT is none.
    size = Call("abs", (own if scale else huge(own),))
    if made.owner.row:
        units = Select((Item(_steps(size, scale), "a"),), Derived(_rows(made, row), "s"))
    else:
        units = _by_unit(made, row, _steps(Aggregate("SUM", (size,)), scale))
    top = HIGHEST if value.type == DOUBLE else min(HIGHEST, power_of(value.type) + HIGHEST_ROWS)
    return UnitMeasure(table.name, total_of(column), kind, step, top, True, units, used, catalog, policy)


def _rows(made: From, row: Expr | None) -> Select:
    """Return the rows of a FROM clause: the unit `u`, and the value `f0` if there is one."""
    values = () if row is None else (row,)
    return Select((*select_list(made.unit, "k", ()), *items("f", values)), made.source)


def _by_unit(made: From, row: Expr | None, aggregate: Expr) -> Select:
    """Return one row for each unit with a row: an aggregate of its rows, as `a`."""
    unit = Column("s", "u")
    there = IsNull(unit, negated=True)
    return Select((Item(aggregate, "a"),), Derived(_rows(made, row), "s"), there, group=(unit,))


def _steps(total: Expr, scale: int) -> Expr:
    """Return a total of values with so many decimals in steps, 0 for NULL."""
    return within(in_least_steps(total, scale), BEYOND)
