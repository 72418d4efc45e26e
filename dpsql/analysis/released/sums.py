"""Sums of values, of which one privacy unit contributes a bounded part.

All of them are whole numbers of public steps (`grids.Grid`), and each is a function of the multiset of rows.
"""

from __future__ import annotations

from abc import ABC
from fractions import Fraction

from dpsql.analysis.grids import MOST_STEPS, Grid
from dpsql.analysis.released.aggregate import Part
from dpsql.kernel import tree
from dpsql.kernel.tree import Argument, Counted, Expr, UnitValue
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class SumPart(Part, ABC):
    """A sum over the rows of a group; `row` is the value of a row in steps, NULL where the row has none."""

    grid: Grid
    scale: int
    """The decimals of the values: their sums are DECIMAL. 0: the values are whole steps."""
    single: bool
    """Whether each unit has at most one row in all that is counted together."""

    @property
    def step(self) -> Fraction:
        """See `Part`."""
        return self.grid.step

    @property
    def share(self) -> object:
        """See `Part`: a sum is measured by itself."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class GroupSum(SumPart):
    """The sum over units of each unit's total in the group, which is cut to the bounds of the grid.

    Adding a unit moves it by the unit's cut total, or by 0 if the unit has no value there.
    """

    @property
    def move(self) -> tuple[int, int]:
        """See `Part`."""
        return min(self.grid.low, 0), max(self.grid.high, 0)

    def counted(self, *row: Expr) -> Counted:
        """See `Part`; of one row a unit, the row's value is the unit's total."""
        alone = self.grid.total(row[0], single=True) if self.single else None
        return UnitValue(row, self.grid.total(Argument(0)), alone)


@dataclass(frozen=True, slots=True, eq=False)
class RowSum(SumPart):
    """The sum of the values of rows, each within the bounds; `most` rows count for each unit in all groups.

    Rows beyond are weighted down, not dropped: of a unit with a > C rows in all groups, C being `most`, the
    total s of a group counts as s C/a, rounded towards zero.

    Notes
    -----
    *Bounded:* with M the largest distance of a bound from 0, the totals of a unit's groups have absolute
    values of at most M times the rows there, so their sum is at most M a, and of the weighted ones at most
    M a C/a = M C; rounding towards zero only decreases it.
    """

    most: int

    @property
    def move(self) -> tuple[int, int]:
        """See `Part`."""
        return self.most * min(self.grid.low, 0), self.most * max(self.grid.high, 0)

    @property
    def total(self) -> int | None:
        """See `Part`."""
        return self.most * max(-self.grid.low, self.grid.high)

    def counted(self, *row: Expr) -> Counted:
        """See `Part`."""
        return tree.RowSum(row, self.most, self.single)


@dataclass(frozen=True, slots=True, eq=False)
class CappedSum(SumPart):
    """The sum of values, of which each unit's total has a bound in all groups together (`most` steps).

    A unit whose absolute totals add up to a > B counts each of them at B/a, rounded towards zero. The sum of
    their absolute values is then at most B. B, a and the totals are in steps of the grid; where these are
    coarser than the least difference of two values, a total is first rounded towards zero to whole steps:
    that is a function of the unit's own rows, and only makes its absolute value less.
    """

    most: int

    @property
    def move(self) -> tuple[int, int]:
        """See `Part`."""
        return -self.most if self.grid.low < 0 else 0, self.most if self.grid.high > 0 else 0

    @property
    def total(self) -> int | None:
        """See `Part`."""
        return self.most

    def counted(self, *row: Expr) -> Counted:
        """See `Part`."""
        return tree.CappedSum(row, self.most, self.scale, self.grid.type, self.grid.size_of_step, self.single)


@dataclass(frozen=True, slots=True)
class Vector:
    """What the moments of one column have in common: they are measured with one noise.

    Attributes
    ----------
    row
        The value of a row in steps from the lower bound on, and the condition on rows if there is one.
    grid
        The grid of the values; R is its width.
    scale
        As in `SumPart`; 0 for moments.
    most
        C, in how many rows of a unit, in all groups together, each moment counts.
    degree
        d: the moments are the Bernstein polynomials of degree d.
    nulls
        Whether rows without a value are counted by a further moment.
    single
        Whether each unit has at most one row in all groups.
    """

    row: tuple[Expr, ...]
    grid: Grid
    scale: int
    most: int
    degree: int
    nulls: bool
    single: bool

    @property
    def size(self) -> int:
        """The number of moments."""
        return self.degree + 1 + self.nulls

    @property
    def whole(self) -> int:
        """What a row adds to all moments together: R^d."""
        return int(max(self.grid.width, 1) ** self.degree)


@dataclass(frozen=True, slots=True, eq=False)
class Moment(Part):
    """One of the moments of a column: parts of unity, summed over rows, of which C count for each unit.

    For a value x steps above the lower bound, and y = R - x, the moments of degree 1 are y and x, those of
    degree 2 are y^2, 2xy and x^2; rows without a value add R^d to a further one.

    Notes
    -----
    *Bounded:* what a row adds to all moments together is (x + y)^d = R^d, and never negative. A unit with r
    rows in a group and a in all adds r R^d there, or, if a > C, the floors of its sums times C/a. The first
    moment gets the floor of the whole less the floors of the others, which is at least the floor of its own
    part, so it is not negative. All moments of a unit in all groups then add up to at most the sum of the
    floors of r R^d C/a over its groups, which is at most C R^d.
    """

    vector: Vector
    place: int

    @property
    def move(self) -> tuple[int, int]:
        """See `Part`."""
        return 0, self.vector.most * self.vector.whole

    @property
    def total(self) -> int | None:
        """See `Part`: the bound of all moments together."""
        return self.vector.most * self.vector.whole

    @property
    def step(self) -> Fraction:
        """See `Part`: moments are released in rows."""
        return Fraction(1, self.vector.whole)

    @property
    def share(self) -> object:
        """See `Part`."""
        return self.vector

    def counted(self, *row: Expr) -> Counted:
        """See `Part`."""
        of = self.vector
        return tree.Moment(row, of.most, of.grid.width, of.degree, self.place, of.nulls, of.single)


@dataclass(frozen=True, slots=True, eq=False)
class UnitMean(Part):
    """One of two sums over units: of each unit's own average in the group, or of what it lacks to R.

    The average of a unit's values, x steps above the lower bound and cut to 0 .. R, is added to the second
    part, and R - x to the first. One unit moves both together by R in each group.
    """

    vector: Vector
    place: int

    @property
    def whole(self) -> int:
        """R in parts of a step: the average of whole steps need not be a whole number of steps."""
        width = max(self.vector.grid.width, 1)
        return width << max(0, (MOST_STEPS // width).bit_length() - 1)

    @property
    def move(self) -> tuple[int, int]:
        """See `Part`."""
        return 0, self.whole

    @property
    def step(self) -> Fraction:
        """See `Part`."""
        return Fraction(1, self.whole)

    @property
    def share(self) -> object:
        """See `Part`: moments of rows with an equal `Vector` have a noise of their own."""
        return UnitMean, self.vector

    def counted(self, *row: Expr) -> Counted:
        """See `Part`."""
        of, width = self.vector, max(self.vector.grid.width, 1)
        fine = self.whole // width
        return tree.UnitMean(row, of.grid.low, width, fine, of.scale, self.place, of.single)
