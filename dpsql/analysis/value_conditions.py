"""For which parts of units a condition can be true, false, NULL, where each value of a column is a part.

Comparisons with constants are followed by what they mean. Any other leaf over the one column is computed for
each listed value, up to `MOST_VALUES`; for values that are not listed it can be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

from dpsql.analysis.part_conditions import ANYTHING, MIRRORED, NULLS, VALUES, Conditions, Evaluate, Truths
from dpsql.kernel.tree import (
    Between,
    Binary,
    Column,
    Constant,
    Expr,
    InList,
    IsNull,
    Node,
    Not,
    Paren,
    Query,
    Try,
    conjunction,
    duckdb_sql,
    map_parts,
    parts,
)
from dpsql.kernel.tree.exact import whole
from dpsql.kernel.unit_parts import (
    ALL_PARTS,
    EARLIER,
    LATER,
    NO_PARTS,
    NULL_PART,
    ListedValues,
    PartSet,
    WholeNumbers,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BOOLEAN, VARCHAR

MOST_VALUES: Final = 10_000

Compute = Callable[[Expr, Column], Sequence[object]]
"""Returns the values of a condition for each listed value in the place of a column, then for NULL."""


@dataclass(frozen=True, slots=True)
class ValueConditions(Conditions):
    """Follows conditions over a column whose values are the parts of units."""

    numbering: ListedValues | WholeNumbers
    """Numbers the parts."""
    columns: Mapping[Column, bool]
    """The columns that hold the value, and whether each is padded."""
    evaluate: Evaluate
    """Evaluates constants."""
    compute: Compute
    """Computes a condition for each of the listed values."""
    listed: Sequence[int]
    """The parts of these values, in order."""

    def follow_leaf(self, condition: Expr) -> Truths:
        """Return the parts for which a condition on a listed value can be true, false and NULL."""
        return self._compare_all(condition) or self._compute(condition)

    def _compare_all(self, condition: Expr) -> Truths | None:
        """Return where comparisons with constants can be true, false, NULL; None for other conditions."""
        match condition:
            case Binary(operator, left, right) if operator in MIRRORED:
                return self._compare(operator, left, right) or self._compare(MIRRORED[operator], right, left)
            case Between(operand, low, high):
                least, most = self._compare(">=", operand, low), self._compare("<=", operand, high)
                return None if least is None or most is None else least.both(most)
            case InList(operand, items):
                found = Truths(NO_PARTS, ALL_PARTS, NO_PARTS)
                for item in items:
                    one = self._compare("=", operand, item)
                    if one is None:
                        return None
                    found = found.either(one)
                return found
            case IsNull(operand, negated):
                column = self._column(operand)
                if column is None:
                    return None
                found = Truths(self._nulls(column), VALUES, NO_PARTS)
                return found.negate() if negated else found
        return None

    def _compare(self, operator: str, left: Expr, right: Expr) -> Truths | None:
        column = self._column(left)
        if column is None or _columns_of(right) != set():
            return None
        value, nulls = self.evaluate(right), self._nulls(column)
        if isinstance(self.numbering, ListedValues):
            if not isinstance(value, (str, bool)):
                return None
            same = self.numbering.equal(value)
            other = VALUES - (same & self.numbering.listed)
        elif isinstance(value, int) and not isinstance(value, bool):
            same = PartSet.of((self.numbering.number(value),) * 2)
            exact = 0 < same.ranges[0][0] < LATER
            other = VALUES - same if exact else VALUES
        else:
            return None
        match operator:
            case "=":
                return Truths(same, other, nulls)
            case "<>":
                return Truths(other, same, nulls)
            case "IS NOT DISTINCT FROM":
                return Truths(same, other | nulls, NO_PARTS)
            case "IS DISTINCT FROM":
                return Truths(other | nulls, same, NO_PARTS)
        if not (isinstance(self.numbering, WholeNumbers) and isinstance(value, int)):
            return None
        number = self.numbering.number
        match operator:
            case "<":
                true, false = (0, number(value - 1)), (number(value), LATER)
            case "<=":
                true, false = (0, number(value)), (number(value + 1), LATER)
            case ">":
                true, false = (number(value + 1), LATER), (0, number(value))
            case _:
                true, false = (number(value), LATER), (0, number(value - 1))
        return Truths(PartSet.of(true), PartSet.of(false), nulls)

    def _compute(self, condition: Expr) -> Truths:
        columns = _columns_of(condition)
        column = next(iter(columns)) if columns is not None and len(columns) == 1 else None
        if column is None or column not in self.columns or not 0 < len(self.listed) <= MOST_VALUES:
            return ANYTHING
        try:
            *values, null = self.compute(condition, column)
        except ValueError:
            return ANYTHING
        listed = PartSet.of(*((n, n) for n in self.listed))
        others = NO_PARTS if self._is_whole else VALUES - listed
        nulls, found = self._nulls(column), list[PartSet]()
        for which in (True, False, None):
            there = PartSet.of(*((n, n) for n, v in zip(self.listed, values, strict=True) if v is which))
            found.append(there | others | (nulls if null is which else NO_PARTS))
        return Truths(*found)

    @property
    def _is_whole(self) -> bool:
        """Whether there are no other values than the listed ones: truth values."""
        return isinstance(self.numbering, ListedValues) and not self.numbering.outside

    def _nulls(self, column: Column) -> PartSet:
        """Return the parts for which a value can be NULL."""
        return ALL_PARTS if self.columns[column] else NULLS

    def _column(self, expr: Expr) -> Column | None:
        """Return the column with the value of a unit that an expression is; None for other expressions."""
        while isinstance(expr, (Paren, Try)):
            expr = expr.inner if isinstance(expr, Paren) else expr.operand
        return expr if isinstance(expr, Column) and expr in self.columns else None


def select_values(expr: Expr, column: Column, values: Sequence[str | bool | int]) -> str:
    """Return the SQL of an expression with each of some values in the place of a column, then with NULL."""
    listed = ", ".join([*(duckdb_sql(_write(value)) for value in values), "NULL"])
    made = duckdb_sql(_put(expr, column, Column("d", "v")))
    rows = f"SELECT unnest([{listed}]) AS v, unnest(range({len(values) + 1})) AS i"
    return f"SELECT {made} AS c FROM ({rows}) AS d ORDER BY d.i"


def write_guard(column: Column, chosen: PartSet, numbering: ListedValues | WholeNumbers) -> Expr:
    """Return the condition that the value in a column is in a set of parts, as the kernel reads it."""
    if isinstance(numbering, WholeNumbers):
        terms = [
            _write_range(column, low, min(high, LATER), numbering)
            for low, high in chosen.ranges
            if low <= LATER
        ]
    else:
        within = [_write(value) for value, number in numbering.values if number in chosen]
        beyond = [_write(value) for value, number in numbering.values if number not in chosen]
        terms = [Paren(InList(column, tuple(within)))] if within else []
        if chosen & numbering.outside:
            terms = [Paren(Not(InList(column, tuple(beyond))) if beyond else IsNull(column, negated=True))]
    if NULL_PART in chosen:
        terms.append(Paren(IsNull(column)))
    if not terms:  # no part: no row
        return Binary("AND", Paren(IsNull(column)), Paren(IsNull(column, negated=True)))
    return reduce(lambda one, other: Binary("OR", one, other), terms)


def _write_range(column: Column, low: int, high: int, numbering: WholeNumbers) -> Expr:
    ends = (
        [] if low == EARLIER else [Paren(Binary(">=", column, whole(numbering.value(min(low, LATER - 1)))))]
    )
    if high < LATER:
        ends.append(Paren(Binary("<=", column, whole(numbering.value(max(high, EARLIER + 1))))))
    return Paren(conjunction(ends) or IsNull(column, negated=True))


def _put(expr: Expr, column: Column, value: Column) -> Expr:
    """Return an expression with another column in the place of one."""
    if expr == column:
        return value
    made: Expr = expr if isinstance(expr, Column) else map_parts(expr, lambda each: _put(each, column, value))
    return made


def _write(value: str | bool | int) -> Expr:
    if isinstance(value, int) and not isinstance(value, bool):
        return whole(value)
    return Constant(value, BOOLEAN if isinstance(value, bool) else VARCHAR)


def _columns_of(expr: Expr) -> set[Column] | None:
    """Return the columns that an expression reads; None if it has a subquery."""
    found, waiting = set[Column](), list[Node]((expr,))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Query):
            return None
        if isinstance(node, Column):
            found.add(node)
        waiting += parts(node)
    return found
