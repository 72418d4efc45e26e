"""Bounds on what one unit contributes that are found privately, among powers of two."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction
from functools import lru_cache, reduce

from dpsql.analysis.grids import SMALL, narrow_steps, steps_as_double
from dpsql.kernel.tree import Aggregate, Binary, Call, Case, Cast, Constant, Expr, IsNull, Paren, Sums
from dpsql.kernel.tree.exact import BEYOND, absolute, huge, in_least_steps, whole, within
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, DOUBLE, SqlType


class Contribution(Enum):
    """What of a unit a bound is for."""

    TOTAL = "total"
    """Its absolute total; in groups, the sum of the absolute values of its rows, which bounds all of them."""
    HIGHEST = "highest"
    """How far its largest value is above 0."""
    LOWEST = "lowest"
    """How far its least value is below 0."""
    ROWS = "rows"
    """The number of its rows with a value."""
    GROUPS = "groups"
    """In how many groups it has a row."""


FINE = 1 << 31
"""In how many steps a total of a DOUBLE is summed: `grids.MOST_STEPS` are those of twice as large a bound."""
_EXTREMES = (Contribution.HIGHEST, Contribution.LOWEST)


@dataclass(frozen=True, slots=True)
class Ladder:
    """The bounds among which one is found: powers of two of a step, from 2^0 to 2^`top`; for values also 0.

    Attributes
    ----------
    of
        What of a unit is bounded.
    row
        The value of a row, in steps or with decimals; NULL where the row has none. Of groups, the condition
        on rows; None: all count.
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
    type
        The type of the values.
    """

    of: Contribution
    row: Expr | None
    scale: int
    step: Fraction
    top: int
    by_row: bool
    ends: bool = False
    type: SqlType = BIGINT
    far: Expr | None = None
    """What is added to `row`, which is then a BIGINT: NULL for nearly all rows."""

    small: Expr | None = None
    """The same as a DOUBLE, which is summed faster if none is below 0."""

    @property
    def rows(self) -> tuple[Expr, ...]:
        """What a row has, as terms of a sum; of groups, the condition on rows if there is one."""
        return tuple(each for each in (self.row, self.far) if each is not None)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The bounds in steps, in ascending order."""
        return _powers(self.top)[self.of not in _EXTREMES :]

    @property
    def by_excess(self) -> bool:
        """Whether a unit counts at a bound by how far it exceeds it; else it counts in full.

        The noise of sums grows with the bound, so it is not worth much to keep a unit that is barely above
        it. What is beyond a bound of values is lost to extremes and quantiles, whose noise is in ranks: it is
        no larger with a larger bound.
        """
        return self.of not in _EXTREMES

    @property
    def wide(self) -> bool:
        """Whether what a unit has needs more than BIGINT, as far as the largest bound goes."""
        return self.of not in (Contribution.ROWS, Contribution.GROUPS) and self.top >= 62

    @property
    def fine(self) -> int | None:
        """In how many steps the search sums a total as large as the last bound that it exceeds, at least.

        None: it sums them in steps of the ladder, as those of exact types. A DOUBLE may be so large that sums
        in steps of the ladder would be cut, and they are not worth more.
        """
        return FINE if self.type == DOUBLE and self.of is Contribution.TOTAL else None

    def sums(self, *, keys: bool) -> Sums:
        """Return what the search also sums: of which it is known what any of the bounds cuts.

        Without keys it is also what answers with any of the bounds are made of. In groups totals have no
        sign here: that of a unit is the sum of its absolute values.
        """
        if not self.by_excess:
            return Sums.NONE
        return Sums.SIGNED if self.of is Contribution.TOTAL and not keys else Sums.SIZES

    def of_unit(self, rows: Sequence[Expr], *, keys: bool) -> Expr:
        """Return the aggregate of a unit's rows: of one group, or in groups. A total of one has a sign.

        `rows` is a row as the ladder has it. It is a function of these rows whatever groups they are in, so
        that units alone are grouped.
        """
        if self.of is Contribution.ROWS:
            return Aggregate("COUNT", tuple(rows))
        if self.of in _EXTREMES:
            name = "MAX" if self.of is Contribution.HIGHEST else "MIN"
            return self._beyond(Aggregate(name, tuple(rows)))
        summed = (absolute(each, self.type) if keys else each for each in rows)
        return self._cut(_added([Aggregate("SUM", (each,)) for each in summed]))

    def of_small_unit(self, row: Expr) -> Expr:
        """Return the same of a unit as a BIGINT, if none of its values is below 0; `SMALL` steps at most.

        `row` is the column of `small`. The kernel's rule of such sums has the proof.
        """
        total = Call("COALESCE", (Aggregate("SUM", (steps_as_double(row),)), _double(0)))
        return Case(((Binary("<", total, _double(SMALL)), Cast(total, BIGINT)),), whole(SMALL))

    def in_row(self, rows: Sequence[Expr]) -> Expr:
        """Return what one row contributes, where each row is a privacy unit; totals are signed."""
        if self.of is Contribution.ROWS:
            return Case(((IsNull(rows[0], negated=True), whole(1)),), whole(0))
        if self.of in _EXTREMES:
            return self._beyond(_added(rows))
        return self._cut(_added(rows))

    def _beyond(self, value: Expr) -> Expr:
        """Return how far a value is beyond 0, on the side that is bounded; 0 on the other side."""
        far = self._cut(value)
        signed = far if self.of is Contribution.HIGHEST else Paren(Binary("-", whole(0), far))
        return Call("GREATEST", (signed, whole(0)))

    def _cut(self, value: Expr) -> Expr:
        """Return whole steps, cut beyond the largest bound; 0 for NULL."""
        if self.wide:
            return within(in_least_steps(value, self.scale), BEYOND)
        return narrow_steps(value, self.scale, self.bounds[-1] + 1)


@lru_cache(maxsize=128)
def _powers(top: int) -> tuple[int, ...]:
    """Return 0 and the powers of two up to 2^`top`."""
    return 0, *(1 << j for j in range(top + 1))


def _double(number: int) -> Expr:
    return Constant(float(number), DOUBLE)


def _added(terms: Sequence[Expr]) -> Expr:
    """Return a sum of terms; those after the first are 0 where they are NULL."""
    if len(terms) == 1:
        return terms[0]
    first, *rest = map(huge, terms)
    return Paren(
        reduce(lambda sum_, each: Binary("+", sum_, Call("COALESCE", (each, whole(0)))), rest, first)
    )
