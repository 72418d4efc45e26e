"""The numbers that a private statement releases with noise, and how the counting query computes them.

All of them are whole numbers of public steps (`grids.Grid`), and each is a function of the multiset of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.bound_ladders import WholeTable
from dpsql.analysis.compiled_relation import From
from dpsql.analysis.compiler import StatementCompiler, call_name
from dpsql.analysis.grids import MOST_STEPS, Grid
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.typed_expression import Typed
from dpsql.errors import Fix, QueryRefused
from dpsql.kernel import tree
from dpsql.kernel.tree import Argument, Counted, Expr, KeptHash, UnitValue, conjunction
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class UnitNumber(KeptHash, ABC):
    """A whole number that the engine computes exactly for each group; equal ones are computed once."""

    row: tuple[Expr, ...]
    """The expressions of a row that the number depends on."""

    @property
    @abstractmethod
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which adding a unit can change the numbers of all groups together: their L1 distance.

        None: there is no such bound. With one, the numbers all go in one direction.
        """
        return None

    @property
    def step(self) -> Fraction:
        """The size of one step of the number, in the unit of its values: 1 for counts."""
        return Fraction(1)

    @property
    def noise_group(self) -> object:
        """A key that parts have in common which are measured with one noise; None for a count."""
        return None

    @property
    def fields(self) -> tuple[Expr, ...]:
        """The expressions of a row of which the counting query has columns: what the number depends on."""
        return self.row

    @abstractmethod
    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of `fields`."""


SEARCHED = "found privately"
"""The origin of bounds that nobody says: a search finds them with a part of epsilon."""


@dataclass(frozen=True, slots=True)
class CallArgument:
    """What a sum or an average aggregates, and the bounds at which values are cut: for EXPLAIN."""

    text: str
    """The argument as the statement writes it."""
    low: Fraction
    high: Fraction
    """The bounds."""
    origin: str
    """The origin of the bounds, in words; "" if the statement says them."""
    per_group: bool
    """Whether a unit's total, or average, in a group is cut; else each row's value."""
    largest: Fraction | None = None
    """The largest absolute value of a row, if a bound on totals says nothing of it and the policy does."""
    cut: bool = False
    """Whether values may lie beyond the bounds: nobody says that none does."""
    column: str = ""
    """The column whose values they are, of a table all rows of which are aggregated; "" for other ones."""
    largest_in: tuple[int, tuple[object, ...]] | None = None
    """Where groups are ranges of the values: the place of a key, and its values for the largest ones."""

    @property
    def searched(self) -> bool:
        """Whether a search finds the bounds, so that `low` and `high` are preliminary."""
        return self.origin == SEARCHED


@dataclass(frozen=True, slots=True)
class ReleasedAggregate:
    """A released number: a part, or the first part minus the others.

    It is a whole number, so noise is exact on the grid of integers. What is computed from released numbers
    without charge, such as a ratio, is an output column (`statement_plan.Output`).
    """

    parts: tuple[UnitNumber, ...]
    argument: CallArgument | None = field(default=None, compare=False)
    """What it is of; None for counts of units and rows."""
    measure: str = field(default="", compare=False)
    """What of a unit its bound cuts, if it is of all rows of a table (`bound_ladders`); else ""."""
    signed: bool = field(default=False, compare=False, kw_only=True)
    """Whether what it cuts may be of either sign."""

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        low, high = self.parts[0].unit_change
        for part in self.parts[1:]:
            less, more = part.unit_change
            low, high = low - more, high - less
        return low, high

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which a unit can change the numbers of all groups together, or None without a bound."""
        totals = [part.l1_over_groups for part in self.parts if part.l1_over_groups is not None]
        return sum(totals) if len(totals) == len(self.parts) else None

    @property
    def step(self) -> Fraction:
        """The size of one step of the number, in the unit of its values."""
        return self.parts[0].step

    @property
    def noise_group(self) -> object:
        """A key that numbers have in common which are measured with one noise; None for a count."""
        return self.parts[0].noise_group

    @property
    def width(self) -> int:
        """The range of the amounts by which adding a unit can change the number, 0 among them."""
        low, high = self.unit_change
        return max(high, 0) - min(low, 0)

    @property
    def bound(self) -> int:
        """The sensitivity: the most by which one unit can change the number."""
        low, high = self.unit_change
        return max(-low, high)

    @property
    def difference(self) -> tuple[int, bool]:
        """The sensitivity where only differences of groups decide, and whether the number is monotone there.

        Moves of a sum in [low, high] are then as good as moves in [0, high - low].
        """
        return (self.bound, self.monotone) if self.noise_group is None else (self.width, True)

    @property
    def monotone(self) -> bool:
        """Whether adding a unit never decreases the number of any group."""
        return self.unit_change[0] >= 0


@dataclass(slots=True)
class AggregateCall:
    """A call in the outermost block of a statement, and the conditions on the rows that it aggregates."""

    compiler: StatementCompiler
    node: exp.Expr
    source: From
    single: bool
    """Whether each unit has at most one row in a group."""
    conditions: list[Expr]
    """The condition of FILTER, to which a rule adds its own."""
    one_row: bool = False
    """Whether each unit has at most one row in all groups."""
    within: tuple[exp.Expr, bool] | None = None
    """The expression of WITHIN GROUP (ORDER BY ..), and whether it is descending."""
    measure: str = ""
    """What of a unit the bound cuts, once a rule has found it (`ReleasedAggregate.measure`)."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return call_name(self.node)

    @property
    def by_row(self) -> bool:
        """Whether each row is a privacy unit."""
        return self.source.owner is not None and self.source.owner.row

    @property
    def whole(self) -> WholeTable | None:
        """The table of which the call aggregates every row; None if it leaves out rows or reads a join."""
        return None if self.conditions else self.compiler.whole

    def condition(self) -> tuple[Expr, ...]:
        """Return the conjunction of the conditions, if there are any."""
        found = conjunction(self.conditions)
        return () if found is None else (found,)

    def expression(self, node: exp.Expr) -> Typed:
        """Compile an expression of the row."""
        return self.compiler.expression(node, self.source.scope)

    def where(self, node: exp.Expr) -> None:
        """Add a condition on the rows that the aggregate reads."""
        self.conditions.append(compile_condition(self.compiler, node, self.source.scope).guarded_node)

    def refuse(
        self, message: str, at: exp.Expr, hint: str | None = None, fix: Fix | None = None
    ) -> QueryRefused:
        """Return the error that refuses the statement."""
        return self.compiler.source.refuse(message, at, hint, fix)


@dataclass(frozen=True, slots=True, eq=False)
class SumPart(UnitNumber, ABC):
    """A sum over the rows of a group; `row` is the value of a row in steps, NULL where the row has none."""

    grid: Grid
    scale: int
    """The decimals of the values: their sums are DECIMAL. 0: the values are whole steps."""
    single: bool
    """Whether each unit has at most one row in all that is counted together."""

    @property
    def step(self) -> Fraction:
        """The size of one step of the sum, in the unit of its values."""
        return self.grid.step

    @property
    def noise_group(self) -> object:
        """The key of the noise: the sum itself, since no other part shares its noise."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class GroupSum(SumPart):
    """The sum over units of each unit's total in the group, which is cut to the bounds of the grid.

    Adding a unit moves it by the unit's cut total, or by 0 if the unit has no value there.
    """

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        return min(self.grid.low, 0), max(self.grid.high, 0)

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts; of one row a unit, the row's value is the unit's total."""
        alone = self.grid.write_total(row[0], single=True) if self.single else None
        return UnitValue(row, self.grid.write_total(Argument(0)), alone)


@dataclass(frozen=True, slots=True, eq=False)
class RowSum(SumPart):
    """The sum of the values of rows, each within the bounds; `most` rows count for each unit in all groups.

    Rows beyond are weighted down, not dropped: of a unit with a > C rows in all groups, C being `most`, each
    value x counts as x C/a, rounded towards zero to a part of a step; `fine` of these are one.

    *Bounded:* with M the largest distance of a bound from 0, a values of at most M C/a add up to at most M C.
    """

    most: int
    fine: int = 1

    @property
    def step(self) -> Fraction:
        """The size of one step of the sum, in the unit of its values."""
        return self.grid.step / self.fine

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        times = self.most * self.fine
        return times * min(self.grid.low, 0), times * max(self.grid.high, 0)

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which adding a unit can change the numbers of all groups together."""
        return self.most * self.fine * max(-self.grid.low, self.grid.high)

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        return tree.RowSum(row, self.most, self.fine, self.single)


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
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        return -self.most if self.grid.low < 0 else 0, self.most if self.grid.high > 0 else 0

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which adding a unit can change the numbers of all groups together."""
        return self.most

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
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
    scale, fine
        As in `SumPart`, 0 for moments; how many parts a step has, as in `RowSum`.
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
    fine: int = 1

    @property
    def size(self) -> int:
        """The number of moments of a column, with the count of NULL beside them."""
        return self.degree + 1 + self.nulls

    @property
    def whole(self) -> int:
        """What one row adds to all moments together, in steps: R^d."""
        return int(max(self.grid.width, 1) ** self.degree)


@dataclass(frozen=True, slots=True, eq=False)
class Moment(UnitNumber):
    """One of the moments of a column: parts of unity, summed over rows, of which C count for each unit.

    For a value x steps above the lower bound, and y = R - x, the moments of degree 1 are y and x, those of
    degree 2 are y^2, 2xy and x^2; rows without a value add R^d to a further one.

    *Bounded:* what a row adds to all moments together is (x + y)^d = R^d, and never negative. Of a unit with
    a > C rows it is the floor of R^d C/a, of moments but the first that of their parts times C/a, and the
    first is what these leave, which is not negative. All moments of a unit then add up to at most C R^d.
    """

    vector: Vector
    place: int

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        return 0, self.vector.most * self.vector.whole * self.vector.fine

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which adding a unit can change all moments of all groups together."""
        return self.vector.most * self.vector.whole * self.vector.fine

    @property
    def step(self) -> Fraction:
        """The size of one step of the moment, in rows: moments are released in rows."""
        return Fraction(1, self.vector.whole * self.vector.fine)

    @property
    def noise_group(self) -> object:
        """A key that moments have in common which are measured with one noise."""
        return self.vector

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        of = self.vector
        return tree.Moment(row, of.most, of.fine, of.grid.width, of.degree, self.place, of.nulls, of.single)


@dataclass(frozen=True, slots=True, eq=False)
class UnitMean(UnitNumber):
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
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        return 0, self.whole

    @property
    def step(self) -> Fraction:
        """The size of one step of the sum, in the unit of its values."""
        return Fraction(1, self.whole)

    @property
    def noise_group(self) -> object:
        """What both sums have in common; moments of rows with an equal `Vector` have another noise."""
        return UnitMean, self.vector

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        of, width = self.vector, max(self.vector.grid.width, 1)
        fine = self.whole // width
        return tree.UnitMean(row, of.grid.low, width, fine, of.scale, self.place, of.single)
