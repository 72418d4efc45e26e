"""What is released and what of a unit is cut: in words for EXPLAIN, and as numbers beside those cut.

The sum of all that a bound cuts has no bound itself. Of one cut again, at so many times the bound, a unit
moves little, and it is all that is cut if no unit has more than that.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from fractions import Fraction

from dpsql.analysis.bound_ladders import KEPT, Contribution, Ladder
from dpsql.analysis.released import write_ends
from dpsql.analysis.released.few_groups import FewGroups
from dpsql.analysis.released.first_rows import FirstNumber
from dpsql.analysis.released.quantiles import CellRows, Quantile
from dpsql.analysis.released.released_numbers import (
    CallArgument,
    CappedSum,
    Moment,
    ReleasedAggregate,
    RowSum,
    UnitMean,
    UnitNumber,
)
from dpsql.analysis.released.unit_counts import (
    BoundedRows,
    DistinctValues,
    OwnedValues,
    SingleRows,
    Units,
    UnitsOfFew,
    WeightedRows,
)
from dpsql.analysis.statement_plan import BoundSearch, Plan
from dpsql.errors import InternalError, with_article
from dpsql.estimates import Average, Deviation, Formula, RowCount, Variance, decimal, with_noun
from dpsql.kernel.tree import Case, Expr, Steps, conjunction, kept
from dpsql.kernel.tree.exact import whole
from dpsql.language import AboveThreshold, AllGroups, Scalar, TopK
from dpsql.lazy_dataclass import dataclass


def describe_number(number: ReleasedAggregate, formula: Formula | None, unit: str) -> str:
    """Return what a number is, such as "average of cost"; "" if its kind is not known here."""
    if len(number.parts) > 1:
        return "difference of two counts"
    if isinstance(formula, RowCount):
        return "number of rows"
    if number.argument is None:
        return _describe_count(number.parts[0], unit)
    of = number.argument.text
    match formula:
        case Average() if number.argument.per_group:
            return f"average over {_describe_units(unit)} of the average of {of} of each"
        case Average():
            return f"average of {of}"
        case Variance():
            return f"variance of {of}"
        case Deviation():
            return f"standard deviation of {of}"
    return f"sum of {of}"


def describe_cuts(
    number: ReleasedAggregate, formula: Formula | None, unit: str, searched: Container[Contribution] = ()
) -> tuple[str, ...]:
    """Return what of a unit is cut, weighted down or left out, in sentences.

    `searched` says what the bounds that are still to be found are of.
    """
    argument = None if isinstance(formula, RowCount) else number.argument
    found = [] if argument is None else [_describe_value_cut(argument, formula, unit, searched)]
    rows = bound_on_rows(number)
    if rows is not None and Contribution.ROWS_IN_A_GROUP in searched:
        found.append(
            f"rows of {with_article(unit)} beyond a number that is found privately, in each group or in all, "
            "are left out or weighted down"
        )
    elif rows is not None and Contribution.ROWS in searched:
        found.append(
            f"rows of {with_article(unit)} beyond a number that is found privately are weighted down"
        )
    elif rows is not None:
        found.append(f"{_describe_argument(rows, 'row', unit)} in all groups, rows beyond are weighted down")
    groups = Contribution.GROUPS in searched
    if groups and any(isinstance(part, UnitsOfFew) for part in number.parts):
        return (
            *found,
            f"{with_article(unit)} counts in a number of groups that is found privately, chosen by a hash",
        )
    if Contribution.VALUES in searched and any(isinstance(p, DistinctValues) for p in number.parts):
        some = "values of {} beyond a number that is found privately may be missed, in each group"
        return (*found, some.format(with_article(unit)))
    return (*found, *(text for part in number.parts if (text := _describe_cut(part, unit))))


def _describe_value_cut(
    argument: CallArgument, formula: Formula | None, unit: str, searched: Container[Contribution]
) -> str:
    if argument.origin == KEPT:
        return f"the total of {with_article(unit)} in all groups is cut to {decimal(argument.high)} ({KEPT})"
    if argument.searched:
        what = f"the total of {with_article(unit)} in all groups" if formula is None else "each value"
        if Contribution.TOTAL_IN_A_GROUP in searched:
            what = f"the total of {with_article(unit)}, in each group or in all,"
        return f"{what} is cut to a bound that is {argument.origin}"
    what = "each value"
    if argument.per_group:
        what = (
            f"the {'average' if isinstance(formula, Average) else 'total'} of {with_article(unit)} in a group"
        )
    ends = f"{decimal(argument.low)} to {decimal(argument.high)}"
    return f"{what} is cut to {ends} ({argument.origin or 'as written'})"


def describe_quantile(quantile: Quantile, part: CellRows) -> str:
    """Return the words for a quantile, or for MIN and MAX."""
    if part.extreme:
        word = "largest" if part.extreme == "greatest" else "least"
        return f"{word} of {quantile.argument} that enough units reach"
    return f"quantile {decimal(quantile.q)} of {quantile.argument}"


def describe_cells(quantile: Quantile, part: CellRows, unit: str) -> tuple[str, ...]:
    """Return what of a unit is cut or left out of a quantile, and among which values it is chosen."""
    size = 1_000_000 if quantile.type.moment else 1
    ends = write_ends(quantile.type, *(end * size for end in quantile.ends))
    found = [f"each value is cut to {ends} ({quantile.origin or 'as written'})"]
    if quantile.searched:
        found = [f"each value is cut to bounds that are {quantile.origin}"]
    if part.extreme:
        found.append(f"each {unit} counts once")
    elif not part.single:
        found.append(f"{_describe_argument(part.most, 'row', unit)} in all groups, chosen by a hash")
    if quantile.searched:
        return tuple(found)
    return (*found, f"chosen among {part.cells.number:,} public values")


def bound_on_rows(number: ReleasedAggregate) -> int | None:
    """Return how many rows of a unit count in all groups together; None where nothing needs that bound."""
    match number.parts:
        case (RowSum(single=False, most=most) | WeightedRows(most=most),):
            return most
        case (Moment(vector=vector),) if not vector.single:
            return vector.most
    return None


def _describe_argument(number: int, noun: str, unit: str) -> str:
    """Write how many rows or values of a unit count."""
    return f"{with_noun(number, noun)} of {with_article(unit)} count{'s' if number == 1 else ''}"


def _describe_units(unit: str) -> str:
    return "units" if unit == "unit" else f"units ({unit})"


def _describe_count(part: UnitNumber, unit: str) -> str:
    match part:
        case OwnedValues() | DistinctValues():
            return "number of different values"
        case FewGroups():
            return "number of groups" if part.value is None else "sum over groups"
        case FirstNumber():
            return f"{'number' if part.counts else 'sum'} over the first {part.first:,} rows"
        case SingleRows() | BoundedRows():
            return "number of rows"
        case Units():
            return f"number of {_describe_units(unit)}"
    return ""


def _describe_cut(part: UnitNumber, unit: str) -> str:
    match part:
        case WeightedRows():
            return ""
        case OwnedValues(most=most):
            return f"{_describe_argument(most, 'value', unit)} in each group"
        case BoundedRows(most=most):
            return f"{_describe_argument(most, 'row', unit)} in each group, rows beyond do not"
        case DistinctValues(most=most, kept=True):
            return f"{_describe_argument(most, 'value', unit)} in each group, so that some may be missed"
        case UnitsOfFew(most=most) | FewGroups(most=most):
            return f"{with_article(unit)} counts in {with_noun(most, 'group')}, chosen by a hash"
        case FirstNumber(most=most):
            return f"{_describe_argument(most, 'row', unit)}, chosen by a hash"
        case UnitMean():
            return f"each {unit} weighs the same"
    return ""


IN_FEW_GROUPS, IN_MANY_GROUPS = 1, 3
"""At how many bounds the excess of a unit over the bound is cut: where the interval of a number has a large
part of the excess, and where it has a small one."""
MANY_GROUPS = 100
"""From so many groups on, what is cut is given back to them by their shares."""
BEYOND, _BEYOND_IN_GROUPS = 2.0, 0.5
"""How many times the excess from B to 2B may be beyond 2B; in groups, of which each has twice its share."""
_LARGEST = 1 << 60
"""The largest bound that a unit is known to exceed."""
_FINER = 19
_ROW = whole(1)
"""What a row adds to the rows of a unit."""


@dataclass(frozen=True, slots=True)
class Excess:
    """The sum over units of min((c - B)+, t B), c being what a unit has in all groups together.

    It is a whole number of steps. *Claim:* one unit more moves it by 0 to `most` steps and never down, since
    (c - B)+ of a unit is a function of its own rows. Where nothing that is measured is below 0, the number
    that the bound cuts moves up, too: both are in one box.
    """

    search: int
    """The place of the search among those of the plan."""
    of: BoundSearch
    places: tuple[int, ...]
    """The places of the numbers whose units it bounds, among the counts of the plan."""
    bound: int
    """B, the place of the bound among those of the search."""
    times: int
    """t: 1 or 3; 0: nothing is known of what B cuts, since it is the largest bound, or nearly."""
    size: Fraction
    """What a step of it is worth, in steps of the search."""
    beyond: float
    """How many times the excess may be beyond what it covers."""
    along: bool = False
    """Whether all numbers that it is beside are what the bound leaves of what the search measures: then a
    unit moves 2 E - A by at most the bound, E with the sign of what it has (`RungBins.lead`)."""

    def __post_init__(self) -> None:
        if self.times not in (0, IN_FEW_GROUPS, IN_MANY_GROUPS):
            raise InternalError("an excess is cut at one bound or at three")

    @property
    def limit(self) -> int:
        """The bound above which contributions are cut, in steps of the search."""
        return self.of.ladder.bounds[self.bound]

    @property
    def most(self) -> int:
        """The most by which one unit moves the excess, in its steps; an unknown excess is measured as 0."""
        found = max(self.times, 1) * self.limit / self.size
        if found.denominator != 1:
            raise InternalError("a bound is a whole number of steps")
        return int(found)

    def most_beyond(self, measured: float) -> float:
        """Return the most that is taken to be beyond (t + 1) B, given the estimate of the excess.

        Where the part between B and 2B is e, and each next one two thirds of the one before, as of a power
        law with the exponent 1.6, all others together are 2 e; of most distributions they are less. The
        interval of a group has twice its share of e, so that half of it is enough for the same. By simulation
        of 1,000 units at epsilon .25 and 10,000 at 1, intervals that reach so far cover sums of lognormal
        totals (sigma 1.6) in 87% and 95% of answers, where those of the excess alone do in 29% and 61%; those
        of totals without a tail are a twentieth wider.
        """
        return self.beyond * max(measured, 0.0)

    @property
    def step(self) -> Fraction:
        """The size of one step, in the unit of the numbers that the ladder measures."""
        return self.of.ladder.step * self.size

    @property
    def ends(self) -> bool:
        """Whether no unit has more than the bound, by the type of the values or since somebody says so."""
        return not self.times and self.of.ladder.ends

    @property
    def rows(self) -> bool:
        """Whether numbers of rows are cut; else totals of a column."""
        return self.of.ladder.of is Contribution.ROWS


def find_excesses(plan: Plan, searches: Sequence[BoundSearch], found: Sequence[int]) -> tuple[Excess, ...]:
    """Return the excess of each bound on what units have: those that are measured with an answer of the plan.

    `found` are the places of the bounds. There is none where the statement wants the noise alone in its
    intervals, where noise selects the groups, and where existence depends on one unit.
    """
    alone = isinstance(plan.selection, Scalar) and not plan.key_types
    if plan.options.cut == "NOISE_ONLY" or plan.cells is not None or plan.values is not None:
        return ()
    if not alone and not _knows_groups(plan):
        return ()
    made = []
    for search, (each, place) in enumerate(zip(searches, found, strict=True)):
        ladder = each.ladder
        if not ladder.by_excess:
            continue
        bound = ladder.bounds[place]
        own = tuple(p for p, count in enumerate(plan.counts) if has_bound_of(count, ladder, bound))
        if not any(is_used(plan, place) for place in own):
            continue
        times, size = times_of_excess(plan, own), Fraction(1)
        # Sums of steps are cut at 2^60: what is beyond a bound near that is not known.
        while times and ((times + 1) * bound not in ladder.bounds or (times + 1) * bound > _LARGEST):
            times //= 2
        part = plan.counts[own[0]].parts[0]
        if isinstance(part, CappedSum):
            size = part.grid.step / ladder.step
        elif alone:
            size = _find_step(max(plan.counts[p].bound for p in own), max(times, 1) * bound)
        along = (
            alone and times == IN_FEW_GROUPS and all(_is_clipped(plan.counts[p], ladder, bound) for p in own)
        )
        beyond = (BEYOND if alone else _BEYOND_IN_GROUPS) / max(times, 1)
        made.append(Excess(search, each, own, place, times, size, beyond, along))
    return tuple(made)


def is_used(plan: Plan, place: int) -> bool:
    """Return whether a count is shown or compared; that which decides on undeclared groups may not be."""
    if place != plan.existence or place == getattr(plan.selection, "count", None):
        return True
    return any(place in (output.of, *output.uses) for output in plan.outputs if output.kind != "key")


def _find_step(number: int, excess: int) -> Fraction:
    """Return the step of an excess beside a number, given how far a unit moves each at most, in steps of 1.

    One noise is on a grid whose step has at most 2^20 parts: where a number moves by more than 2^`_FINER`
    times as many steps as its excess, that has finer ones, so that at every bound one noise serves both.
    """
    return Fraction(1, 1 << max(((number - 1) // excess).bit_length() - _FINER, 0))


def times_of_excess(plan: Plan, places: Sequence[int]) -> int:
    """Return at how many bounds the excess over the bound of some numbers is cut, if it is known so far."""
    few = plan.domain_size is None or plan.domain_size < MANY_GROUPS
    signed = any(bound_worth(plan.counts[place])[0] < 0 for place in places)
    return IN_FEW_GROUPS if few or signed else IN_MANY_GROUPS


def bound_worth(count: ReleasedAggregate) -> tuple[Fraction, Fraction]:
    """Return the least and the greatest change of a number for 1 of excess over a unit's bound."""
    part = count.parts[0]
    if isinstance(part, RowSum):
        low, high = part.grid.low * part.grid.step, part.grid.high * part.grid.step
        return min(low, Fraction(0)), max(high, Fraction(0))
    if isinstance(part, CappedSum) and part.grid.low < 0:
        return Fraction(-1), Fraction(1)
    return Fraction(0), Fraction(1)


def _knows_groups(plan: Plan) -> bool:
    """Return whether no group is shown because of one unit: keys are declared, or each has many units."""
    selection = plan.selection
    every = isinstance(selection, AllGroups) and selection.limit is None
    return (
        (every or isinstance(selection, (TopK, AboveThreshold)))
        and (plan.domain_size is not None or plan.existence is not None)
        and plan.partitions is None
        and not plan.sparse
        and plan.groups_kept is None
    )


def find_clipped_step(count: ReleasedAggregate, ladder: Ladder, bound: int) -> int | None:
    """Return the step of a number that sums over units what a ladder measures, cut at the bound.

    The number has no keys and is of the same rows; its step is given in steps of the ladder. None: it is no
    such sum, or its step is finer. Without keys `WeightedRows` is the sum of min(rows, bound), and
    `CappedSum` that of totals cut to -bound .. bound: then neither weighs one group against another. Of a
    DOUBLE the rows are then rounded to the steps of the ladder, which are as fine as those of the number or
    finer.
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
    return int(size) if fine and _split_value(part.row[0]) == _split_value(ladder.row) else None


def _is_clipped(count: ReleasedAggregate, ladder: Ladder, bound: int) -> bool:
    """Return whether a number sums what a ladder measures, cut at a bound; a share has one such number."""
    return find_clipped_step(count, ladder, bound) is not None


def find_limited(count: ReleasedAggregate) -> Contribution | None:
    """Return what of a unit a bound on a number limits in all groups together; None: neither of both."""
    (part, *_) = count.parts
    if isinstance(part, CappedSum):
        return Contribution.TOTAL
    return Contribution.ROWS if isinstance(part, (WeightedRows, RowSum, Moment)) else None


def has_bound_of(count: ReleasedAggregate, ladder: Ladder, bound: int) -> bool:
    """Return whether the bound of a number is the bound that a search found on a ladder."""
    if len(count.parts) != 1:
        return False
    (part,) = count.parts
    if isinstance(part, UnitsOfFew):
        return ladder.of is Contribution.GROUPS and ladder.row == conjunction(part.row) and part.most == bound
    if ladder.row is None:
        return False
    if isinstance(part, CappedSum):
        same = ladder.of is Contribution.TOTAL and _split_value(part.row[0]) == _split_value(ladder.row)
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


def _split_value(value: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """Return the value of a row and the condition on rows; of a DOUBLE before it is in steps."""
    condition = _condition_of(value)
    own = value.branches[0][1] if condition and isinstance(value, Case) else value
    return (own.operand if isinstance(own, Steps) else own), condition
