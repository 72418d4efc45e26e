"""Bounds on what one unit contributes that are found privately, among powers of two."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from dpsql.analysis.grids import BEYOND, in_least_steps, whole, within
from dpsql.lazy_dataclass import dataclass
from dpsql.tree import Aggregate, Binary, Call, Case, Expr, IsNull, Paren


class Contribution(Enum):
    """What of a unit a bound is for."""

    TOTAL = "total"
    """The sum of its absolute totals in all groups."""
    HIGHEST = "highest"
    """How far its largest value is above 0."""
    LOWEST = "lowest"
    """How far its least value is below 0."""
    ROWS = "rows"
    """The number of its rows with a value."""


_EXTREMES = (Contribution.HIGHEST, Contribution.LOWEST)


@dataclass(frozen=True, slots=True)
class Ladder:
    """The bounds among which one is found: powers of two of a step, from 2^0 to 2^`top`; for values also 0.

    Attributes
    ----------
    of
        What of a unit is bounded.
    row
        The value of a row, in steps or with decimals; NULL where the row has none.
    scale
        The decimals of the values; 0: they are whole steps.
    step
        What a step is worth.
    top
        The power of the largest bound.
    by_row
        Whether each row is a privacy unit.
    ends
        Whether no unit can have more than the largest bound, from the type of the values, or since somebody
        says so. If that bound is found where it is not so, nobody knows how much is cut.
    """

    of: Contribution
    row: Expr
    scale: int
    step: Fraction
    top: int
    by_row: bool
    ends: bool = False

    @property
    def bounds(self) -> tuple[int, ...]:
        """The bounds in steps, in ascending order."""
        powers = tuple(1 << j for j in range(self.top + 1))
        return (0, *powers) if self.of in _EXTREMES else powers

    def in_group(self, row: Expr) -> Expr:
        """Return the aggregate of a unit's rows in a group."""
        if self.of is Contribution.ROWS:
            return Aggregate("COUNT", (row,))
        if self.of in _EXTREMES:
            name = "MAX" if self.of is Contribution.HIGHEST else "MIN"
            return self._beyond(Aggregate(name, (row,)))
        return Call("abs", (_cut(in_least_steps(Aggregate("SUM", (row,)), self.scale)),))

    def in_row(self, row: Expr) -> Expr:
        """Return what one row contributes, where each row is a privacy unit."""
        if self.of is Contribution.ROWS:
            return Case(((IsNull(row, negated=True), whole(1)),), whole(0))
        if self.of in _EXTREMES:
            return self._beyond(row)
        return Call("abs", (_cut(in_least_steps(row, self.scale)),))

    def of_unit(self, value: Expr) -> Expr:
        """Return the aggregate over the groups of a unit."""
        return Aggregate("MAX" if self.of in _EXTREMES else "SUM", (value,))

    def exceeding(self, value: Expr) -> tuple[Expr, ...]:
        """Return for each bound the number of units that contribute more."""
        rungs = [Binary(">", value, whole(bound)) for bound in self.bounds]
        return tuple(Aggregate("COUNT", (Case(((rung, whole(1)),)),)) for rung in rungs)

    def _beyond(self, value: Expr) -> Expr:
        """Return how far a value is beyond 0, on the side that is bounded; 0 on the other side."""
        far = _cut(in_least_steps(value, self.scale))
        signed = far if self.of is Contribution.HIGHEST else Paren(Binary("-", whole(0), far))
        return Call("GREATEST", (signed, whole(0)))


def _cut(value: Expr) -> Expr:
    """Return a HUGEINT cut beyond the largest of all bounds, so that sums over groups fit; 0 for NULL."""
    return within(value, BEYOND)
