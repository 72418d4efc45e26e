"""How far units are beyond a bound that a search found, summed over them: a number beside those it bounds.

The sum of all that a bound cuts has no bound itself. Of one cut again, at so many times the bound, a unit
moves little, and it is all that is cut if no unit has more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.plan import BoundSearch, Plan
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.released.counts import UnitsOfFew, WeightedRows
from dpsql.analysis.released.sums import CappedSum, Moment, RowSum
from dpsql.errors import InternalError
from dpsql.kernel.tree import Case, Expr, Steps, conjunction, kept
from dpsql.kernel.tree.exact import whole
from dpsql.language import AllGroups, Scalar
from dpsql.lazy_dataclass import dataclass

ALONE, IN_GROUPS = 1, 3
"""At how many bounds the excess of a unit over the bound is cut: of a number without keys, and in groups."""
_LARGEST = 1 << 60
"""The largest bound that a unit is known to exceed."""
_ROW = whole(1)
"""What a row adds to the rows of a unit."""


@dataclass(frozen=True, slots=True)
class Excess:
    """The sum over units of min((c - B)+, t B), c being what a unit has in all groups together.

    It is a whole number of steps. *Claim:* one unit more moves it by 0 to `most` steps and never down, since
    (c - B)+ of a unit is a function of its own rows. Where nothing that is measured is below 0, the number
    that the bound cuts moves up, too: both are in one box.

    Attributes
    ----------
    search
        The place of the search among those of the plan.
    places
        The places of the numbers whose units it bounds, among the counts of the plan.
    bound
        B, the place of the bound among those of the search.
    times
        t: 1 or 3; 0: nothing is known of what B cuts, since it is the largest bound, or nearly.
    size
        What a step of it is worth, in steps of the search.
    along
        Whether all numbers that it is beside are what the bound leaves of what the search measures: then a
        unit moves 2 E - A by at most the bound, E with the sign of what it has (`RungBins.lead`).
    """

    search: int
    of: BoundSearch
    places: tuple[int, ...]
    bound: int
    times: int
    size: Fraction
    along: bool = False

    def __post_init__(self) -> None:
        if self.times not in (0, ALONE, IN_GROUPS):
            raise InternalError("an excess is cut at one bound or at three")

    @property
    def limit(self) -> int:
        """B in steps of the search."""
        return self.of.ladder.bounds[self.bound]

    @property
    def most(self) -> int:
        """The most by which one unit moves it, in its steps; it is measured as 0 if it is not known."""
        found = max(self.times, 1) * self.limit / self.size
        if found.denominator != 1:
            raise InternalError("a bound is a whole number of steps")
        return int(found)

    @property
    def step(self) -> Fraction:
        """What a step is worth, in the unit of what is measured."""
        return self.of.ladder.step * self.size

    @property
    def ends(self) -> bool:
        """Whether no unit has more than the bound, by the type of the values or since somebody says so."""
        return not self.times and self.of.ladder.ends

    @property
    def rows(self) -> bool:
        """Whether it is of rows; else of totals."""
        return self.of.ladder.of is Contribution.ROWS


def excesses(plan: Plan, searches: Sequence[BoundSearch], found: Sequence[int]) -> tuple[Excess, ...]:
    """Return the excess of each bound on what units have: those that are measured with an answer of the plan.

    `found` are the places of the bounds. There is none where the statement wants the noise alone in its
    intervals, where noise selects the groups, and where existence depends on one unit.
    """
    alone = isinstance(plan.selection, Scalar) and not plan.key_types
    if plan.options.cut == "NOISE_ONLY" or plan.cells is not None or plan.values is not None:
        return ()
    if not alone and not _every_group(plan):
        return ()
    made = []
    for search, (each, place) in enumerate(zip(searches, found, strict=True)):
        ladder = each.ladder
        if not ladder.by_excess:
            continue
        bound = ladder.bounds[place]
        own = tuple(p for p, count in enumerate(plan.counts) if _bounded_by(count, each, bound))
        if not own:
            continue
        times, size = ALONE if alone else IN_GROUPS, Fraction(1)
        # Sums of steps are cut at 2^60: what is beyond a bound near that is not known.
        while times and ((times + 1) * bound not in ladder.bounds or (times + 1) * bound > _LARGEST):
            times //= 2
        part = plan.counts[own[0]].parts[0]
        if isinstance(part, CappedSum):
            size = part.grid.step / ladder.step
        along = alone and times == ALONE and all(_all_of_it(plan.counts[p], ladder, bound) for p in own)
        made.append(Excess(search, each, own, place, times, size, along))
    return tuple(made)


def worth_of(count: ReleasedAggregate) -> tuple[Fraction, Fraction]:
    """Return what 1 of an excess is worth in a number at least, at most 0, and at most, in its unit."""
    part = count.parts[0]
    if isinstance(part, RowSum):
        low, high = part.grid.low * part.grid.step, part.grid.high * part.grid.step
        return min(low, Fraction(0)), max(high, Fraction(0))
    if isinstance(part, CappedSum) and part.grid.low < 0:
        return Fraction(-1), Fraction(1)
    return Fraction(0), Fraction(1)


def _every_group(plan: Plan) -> bool:
    selection = plan.selection
    return (
        isinstance(selection, AllGroups)
        and selection.limit is None
        and plan.domain_size is not None
        and plan.partitions is None
        and plan.existence is None
        and not plan.sparse
        and plan.groups_kept is None
    )


def clipped_step(count: ReleasedAggregate, ladder: Ladder, bound: int) -> int | None:
    """Return the step of a number that is the sum of what a ladder measures of units, cut at the bound.

    It is a number without keys, of the same rows, and the step is in those of the ladder. None: it is not so,
    or its step is finer. Without keys `WeightedRows` is the sum of min(rows, bound), and `CappedSum` that of
    totals cut to -bound .. bound: then neither weighs one group against another. Of a DOUBLE the rows are
    then rounded to the steps of the ladder, which are as fine as those of the number or finer.
    """
    if len(count.parts) != 1 or ladder.by_row:
        return None
    (part,) = count.parts
    if isinstance(part, WeightedRows):
        rows = ladder.of is Contribution.ROWS and ladder.row == kept(_ROW, part.row)
        return 1 if rows and part.most == bound else None
    if not isinstance(part, CappedSum) or ladder.of is not Contribution.TOTAL or ladder.row is None:
        return None
    size = part.grid.step / ladder.step
    if part.most * size != bound:
        return None
    if size == 1 and part.row == (ladder.row,) and part.scale == ladder.scale:
        return 1
    fine = ladder.fine is not None and size >= 1 and size.denominator == 1
    return int(size) if fine and _uncut(part.row[0]) == _uncut(ladder.row) else None


def _all_of_it(count: ReleasedAggregate, ladder: Ladder, bound: int) -> bool:
    """Return whether a number is what a bound leaves of what a ladder measures; none is twice in a share."""
    return clipped_step(count, ladder, bound) is not None


def _bounded_by(count: ReleasedAggregate, search: BoundSearch, bound: int) -> bool:
    """Return whether the bound of a number is that of a search."""
    ladder = search.ladder
    if len(count.parts) != 1:
        return False
    (part,) = count.parts
    if isinstance(part, UnitsOfFew):
        return ladder.of is Contribution.GROUPS and ladder.row == conjunction(part.row) and part.most == bound
    if ladder.row is None:
        return False
    if isinstance(part, CappedSum):
        same = ladder.of is Contribution.TOTAL and _uncut(part.row[0]) == _uncut(ladder.row)
        return same and part.most * part.grid.step == bound * ladder.step
    if ladder.of is not Contribution.ROWS:
        return False
    if isinstance(part, WeightedRows):
        return ladder.row == kept(_ROW, part.row) and part.most == bound
    if isinstance(part, RowSum):
        return ladder.row == kept(_ROW, _condition_of(part.row[0])) and part.most == bound
    if isinstance(part, Moment):
        same = ladder.row == kept(_ROW, _condition_of(part.vector.row[0]))
        return same and part.vector.most == bound
    return False


def _condition_of(value: Expr) -> tuple[Expr, ...]:
    """Return the condition on rows of which `tree.kept` made a value; none if it had none."""
    found = isinstance(value, Case) and value.default is None and len(value.branches) == 1
    return (value.branches[0][0],) if found and isinstance(value, Case) else ()


def _uncut(value: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """Return the value of a row and the condition on rows; of a DOUBLE before it is in steps."""
    condition = _condition_of(value)
    own = value.branches[0][1] if condition and isinstance(value, Case) else value
    return (own.operand if isinstance(own, Steps) else own), condition
