"""What the numbers of a release are sums of: rows of one table, in groups and where columns have some values.

Two such releases are *linear in common cells*: each of their numbers is a sum over the cells of one table of
counts, whatever else is asked of it. So one estimate answers both. `cell_sums_of` reads this from the
analysed plan, and says of any other release why it stays out.

What is read here decides the weights and the estimate alone, never a charge: what is charged follows from
the plans of what is measured, which the kernel certifies as those of every statement.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.analysis import Plan, ReleasedAggregate
from dpsql.analysis.released.released_numbers import GroupSum, Moment, RowSum, Vector
from dpsql.analysis.released.unit_counts import SingleRows, Units
from dpsql.analysis.row_conditions import split_conjuncts
from dpsql.estimates import Average, Formula, RowCount, SumOfRows
from dpsql.kernel.tree import (
    Binary,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Node,
    Query,
    Scan,
    Select,
    Window,
    facts,
    map_parts,
    parts,
)
from dpsql.language import AllGroups, Scalar
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table, UnitColumn, UnitRow, fold
from dpsql.types import BIGINT


@dataclass(frozen=True, slots=True)
class ZerosAndOnes:
    """What is computed of a column of zeros and ones: by which counts and formula, and from which numbers."""

    uses: tuple[int, ...]
    formula: Formula
    rows: int
    ones: int


@dataclass(frozen=True, slots=True)
class CellSums:
    """The numbers of a release as sums over cells of one table."""

    table: str
    """The table whose rows are counted."""
    keys: tuple[Expr, ...]
    """For each key of the release, an expression of one column."""
    where: tuple[Expr, ...]
    """The conditions on the rows of all numbers, each of one column."""
    own: tuple[tuple[Expr, ...], ...]
    """For each number, the conditions on its rows alone: for the counts of the plan, then for what formulas
    are of."""
    formulas: tuple[ZerosAndOnes, ...] = ()
    """For each sum or average of zeros and ones, what the plan calls it, and the places of the number of its
    rows and of its ones."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that keys and conditions read, each once, in the order of their first use."""
        every = (*self.keys, *self.where, *(each for own in self.own for each in own))
        return tuple(dict.fromkeys(column_of(each) for each in every))


class StaysOutError(Exception):
    """A release is not linear in common cells; the text says why, after the word "it"."""


def cell_sums_of(plan: Plan, policy: Policy) -> CellSums:
    """Return a release's numbers as sums over cells; raise `StaysOutError` if they are not linear."""
    groups = plan.compiled.groups
    if plan.ladders:
        raise StaysOutError(
            "adds up rows of which a unit may have several, within a bound that is found first"
        )
    if groups is None or not isinstance(groups.rows.query, Select):
        raise StaysOutError("is no count of rows")
    if not isinstance(plan.selection, (AllGroups, Scalar)) or getattr(plan.selection, "limit", None):
        raise StaysOutError("selects groups by noise")
    if plan.options.mechanism is not None or plan.options.noise is not None:
        raise StaysOutError("names its mechanism or its noise")
    if plan.domain_size is None:
        raise StaysOutError("has keys without declared values")
    if plan.groups_kept is not None or plan.values is not None:
        raise StaysOutError("keeps a part of the rows of a unit, or counts different values")
    table, bases, where = _rows_of(groups.rows.query, policy)
    keys = tuple(_put_columns(item.expr, bases) for item in groups.rows.query.items[1 : 1 + groups.rows.keys])
    own = [_conditions_of(number) for number in plan.counts]
    formulas = tuple(_list_formulas(plan, own))
    put = tuple(tuple(_put_columns(each, bases) for each in conditions) for conditions in own)
    return CellSums(table.name, keys, tuple(where), put, formulas)


def home_of(table: Table, policy: Policy) -> str | None:
    """Return the column of a table that divides units into parts by its date; None: it has none."""
    found = policy.unit_parts
    if found is None or found.every is None or fold(found.table) != fold(table.name):
        return None
    return fold(found.column)


def column_of(expr: Expr) -> str:
    """Return the one column that an expression reads; raise `StaysOutError` if there is not one."""
    if any(isinstance(node, Query) for node in _nodes(expr)):
        raise StaysOutError("has a subquery in a condition")
    reads = facts(expr).reads
    if len(reads) != 1:
        what = "no column" if not reads else "several columns together"
        raise StaysOutError(f"has a key or a condition of {what}")
    return next(iter(reads)).partition(".")[2]


def _rows_of(rows: Select, policy: Policy) -> tuple[Table, dict[str, Expr], list[Expr]]:
    """Return the one table that is read, its columns by the names of the rows, and the conditions on them."""
    source = rows.source
    if not isinstance(source, Derived) or not isinstance(source.query, Select) or not _is_plain(rows):
        raise StaysOutError("reads several tables, or rows that are no stored ones")
    inner = source.query
    if isinstance(inner.source, Scan):
        if not _is_plain(inner):
            raise StaysOutError("reads rows that are no stored ones")
        table = policy.table(inner.source.table)
        if table is None or table.public:
            raise StaysOutError("reads several tables, or a subquery")
        if not _has_one_row(table):
            raise StaysOutError(f"counts rows of which a unit may have several in {table.name}")
        own: dict[str, Expr] = {
            f"{each.table}.{each.name}": Column("", fold(each.name)) for each in _columns_of(inner)
        }
        where = [_put_columns(each, own) for each in split_conjuncts(inner.where)]
    else:
        table, own, where = _rows_of(inner, policy)
    bases = {f"{source.alias}.{item.column}": _put_columns(item.expr, own) for item in inner.items}
    where += [_put_columns(each, bases) for each in split_conjuncts(rows.where)]
    unit = fold(table.unit.column) if isinstance(table.unit, UnitColumn) else ""
    return table, bases, [each for each in where if not _is_owned(each, unit)]


def _is_plain(rows: Select) -> bool:
    """Return whether rows are those of their source, one by one."""
    return not (rows.group or rows.distinct or rows.limit is not None) and not any(
        isinstance(node, Window) for item in rows.items for node in _nodes(item.expr)
    )


def _columns_of(scan: Select) -> Iterator[Column]:
    for item in scan.items:
        yield from (node for node in _nodes(item.expr) if isinstance(node, Column))
    if scan.where is not None:
        yield from (node for node in _nodes(scan.where) if isinstance(node, Column))


def _has_one_row(table: Table) -> bool:
    """Whether a unit has at most one row in a table, as the owner declares."""
    if not isinstance(table.unit, UnitColumn):
        return isinstance(table.unit, UnitRow)
    own = fold(table.unit.column)
    return any(len(names) == 1 and fold(names[0]) == own for names in table.unique)


def _is_owned(condition: Expr, unit: str) -> bool:
    """Whether a condition says only that a row has a unit."""
    if not isinstance(condition, IsNull) or not condition.negated:
        return False
    return isinstance(condition.operand, Column) and condition.operand.name == unit


def _conditions_of(number: ReleasedAggregate) -> tuple[Expr, ...]:
    """Return the conditions on the rows that a number counts.

    Of values of which each is 0 or 1 in steps of its grid, a sum is the number of ones, and a moment that of
    zeros, of ones, or of rows without a value.
    """
    part = number.parts[0]
    if len(number.parts) == 1:
        match part:
            case Moment(row=(value, *more), vector=of, place=place) if _is_binary(of):
                told = (Binary("=", value, _ZERO), Binary("=", value, _ONE), IsNull(value))
                return told[place], *(each for row in more if place > 1 for each in split_conjuncts(row))
            case RowSum(row=(value,), most=1) | GroupSum(row=(value,)) if _is_sum_of_ones(part):
                return (Binary(">=", value, _ONE),)
    if len(number.parts) > 1 or type(part) not in (SingleRows, Units):
        raise StaysOutError("has a number that is no plain count of rows")
    return tuple(each for row in part.row for each in split_conjuncts(row))


_ZERO, _ONE = Constant(0, BIGINT), Constant(1, BIGINT)


def _is_binary(vector: Vector) -> bool:
    return (vector.degree, vector.grid.width, vector.most, vector.single) == (1, 1, 1, True)


def _is_sum_of_ones(part: RowSum | GroupSum) -> bool:
    return (part.single, part.grid.low, part.grid.high) == (True, 0, 1)


def _list_formulas(plan: Plan, own: list[tuple[Expr, ...]]) -> Iterator[ZerosAndOnes]:
    """Yield the formulas of a plan, and add the conditions of the numbers that they are of to `own`."""
    for uses, formula in dict.fromkeys((o.uses, o.formula) for o in plan.outputs if o.formula is not None):
        part = plan.counts[uses[0]].parts[0] if uses else None
        is_known = isinstance(formula, (RowCount, Average)) or (
            isinstance(formula, SumOfRows) and formula.low == 0
        )
        if not isinstance(part, Moment) or formula is None or not is_known:
            raise StaysOutError("has a number that is no plain count of rows")
        own.append(own[uses[2]][1:] if len(uses) > 2 else (IsNull(part.row[0], negated=True),))
        yield ZerosAndOnes(uses, formula, len(own) - 1, uses[1])


def _put_columns(expr: Expr, columns: dict[str, Expr]) -> Expr:
    """Return an expression over the columns of the table."""
    if isinstance(expr, Column):
        found = columns.get(f"{expr.table}.{expr.name}") or columns.get(f"{expr.table}.{fold(expr.name)}")
        if found is None:
            raise StaysOutError("has a computed column")
        return found
    return map_parts(expr, lambda each: _put_columns(each, columns))


def _nodes(expr: Expr) -> Iterator[Node]:
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += parts(node)
