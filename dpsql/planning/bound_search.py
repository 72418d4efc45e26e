"""Find bounds privately, with a part of epsilon, before a statement is answered with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from dpsql.analysis import Contribution, Plan, ReleasedAggregate
from dpsql.analysis.bound_ladders import IN_A_GROUP, UNDECLARED_GROUPS
from dpsql.analysis.cut_contributions import Excess, bound_worth, find_clipped_step, find_excesses, is_used
from dpsql.analysis.released.unit_counts import UnitsOfFew
from dpsql.errors import InternalError, QueryRefused
from dpsql.estimates import Average, with_noun
from dpsql.kernel import mechanisms
from dpsql.kernel.counts import changes_of
from dpsql.kernel.loss import Charge, PrivacyLoss, is_within
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.parted import Figure, Of, run_of_figures
from dpsql.kernel.release import Run, score_change
from dpsql.language import AllGroups, TopK
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests
from dpsql.planning.column_values import UNRELIABLE
from dpsql.planning.cut_intervals import describe_low_bounds, describe_unknown_cuts, merge_properties
from dpsql.planning.measured_excess import ExcessApart, WithExcess, choose_with_excess
from dpsql.planning.method import SHOWN, KeepsQuote, Method, NoisyResult, Quote

SHARE = Fraction(1, 5)
"""The part of epsilon that finds bounds, if the statement does not say it."""
SHARE_OF_COST = Fraction(1, 10)
"""The same of a statement's cost at one order: a choice of bounded range needs less of it."""

_PARTS_OF_REST = [
    *(Fraction(1), *(Fraction(most, 16) for most in range(15, 0, -1))),
    *(Fraction(1, 1 << n) for n in range(5, 21)),
]
"""The parts of what is left after the searches that an answer is tried with.

The last ones are for pure parts of numbers that were quoted by bounds in another proportion.
"""

AVERAGES = 34
"""By how many times noise counts for more where all numbers are averages.

A unit that is cut keeps its own average: with a share s of the rows cut, an average moves by s R/40, R being
the range, as for `KeptLadder.choose_average_bound`; its noise is 1.2 B R/(n epsilon). Twice the bound changes
both alike where 48/epsilon units are cut; that of a number, where sqrt(2)/epsilon are.
"""

ONE_IN = 4
"""Of all units at most one in so many exceeds a bound on sums at no cost, however large the noise is: what is
cut must be so little that intervals have it. Of averages any may: a unit that is cut keeps its own."""

FIRST_RUNGS = 2
"""The last of the first rungs: where units are too few, others are chosen with a chance of less than .001."""

MOST_SIGNED_GROUPS = 24
"""For at most so many sums with signs the noise is weighed against what a bound cuts."""

_OF_BOUNDS = {
    UNRELIABLE: "of how few rows a quantile is unreliable follows from the bound that is found",
    SHOWN: f"{SHOWN} is at least one that follows from the bounds that are found",
}
"""What a note says before bounds are found, by the words in it."""

_EVERY_GROUP = "noise on every group"
_TWO_WAYS = (
    "which of two mechanisms answers follows from the bounds that are found: noise on every group for what a "
    "unit has in all groups, or on the selection and what it selects for what a unit has in one group"
)

_WHAT = {
    Contribution.TOTAL: "the absolute totals of one {unit}",
    Contribution.HIGHEST: "the largest value",
    Contribution.LOWEST: "the least value",
    Contribution.ROWS: "rows of one {unit}",
    Contribution.GROUPS: "groups of one {unit}",
    Contribution.ROWS_IN_A_GROUP: "rows of one {unit} in a group",
    Contribution.VALUES: "different values of one {unit} in a group",
    Contribution.TOTAL_IN_A_GROUP: "the absolute totals of one {unit} in a group",
}


_MOST_RUNGS = 48
"""The most rungs of which each may cost as much as all before it: units are outvoted by the costs of more."""


@dataclass(frozen=True, slots=True)
class BoundSearches(KeepsQuote):
    """Chooses each bound among powers of two by `Ladder`; the rest of epsilon answers with them.

    Where a statement divides its cost at one order, the range of the choice is bounded.
    """

    plan: Plan
    choose: Callable[[Plan], Method]
    first: Method
    """The method for the largest bounds, of which any other differs by its noise alone."""
    epsilon: Fraction
    """The epsilon of each search."""
    first_epsilon: Fraction
    """That of the answer."""

    @classmethod
    def of(cls, plan: Plan, choose: Callable[[Plan], Method]) -> BoundSearches:
        """Divide the statement's epsilon between the searches and the answer."""
        share, layout = _share(plan), plan.epsilon_division
        rest, each = layout.epsilon_of(1 - share), layout.ranged_epsilon(share, times=len(plan.ladders))
        largest = find_excesses(plan, plan.ladders, [len(s.ladder.bounds) - 1 for s in plan.ladders])
        kinds: tuple[Literal["GAUSSIAN", "LAPLACE"], ...] = ("GAUSSIAN", "LAPLACE")
        for noise in kinds if _may_change_noise(plan) else ():
            alike = replace(plan, options=replace(plan.options, noise=noise))
            with suppress(QueryRefused):  # Gaussian noise for the largest bounds may be too large
                first = choose_with_excess(_rest(alike, rest), largest, choose)
                return cls(alike, choose, first, each, rest)
        return cls(plan, choose, choose_with_excess(_rest(plan, rest), largest, choose), each, rest)

    def compute_quote(self) -> Quote:
        """Return the price; the errors depend on the bounds, which are not known yet."""
        plan, found = self.plan, f"{float(self.epsilon) * len(self.plan.ladders):.4g}"
        if plan.epsilon_division.order is not None:
            found = f"{float(_share(plan)):g} of its cost"
        notes = [*dict.fromkeys(_of_bounds(note) or note for note in self.first.quote.notes)]
        mechanism, split = self.first.quote.mechanism, self.first.quote.split
        if self._has_two_ways:
            mechanism = self._name_two_ways(mechanism)
            notes, split = [_TWO_WAYS], f"{split}, or half of it"
        notes += [self._note(place) for place in range(len(plan.ladders))]
        return replace(
            self.first.quote,
            mechanism=mechanism,
            charge=Charge(plan.price, self.first.quote.charge.delta),
            divided=None if plan.epsilon_division.order is None else self._loss,
            scale=0.0,
            split=f"{found} for finding bounds, then {split}",
            predicted_stddev=None,
            half_width=None,
            tells_apart=None,
            errors={},
            outlook={},
            notes=tuple(notes),
        )

    def _name_two_ways(self, mechanism: str) -> str:
        """Return the names of the mechanisms of which one answers; one is that for the largest bounds."""
        selection = self.plan.selection
        if not isinstance(selection, TopK):
            return mechanism
        of_selection = plan_requests.name_noisy_order(selection)
        return f"{mechanism}, or {_EVERY_GROUP if mechanism == of_selection else of_selection}"

    def _note(self, place: int) -> str:
        ladder, unit = self.plan.ladders[place].ladder, self.plan.unit
        most = with_noun(math.ceil(self.search(place).cut(plan_requests.confidence_of(self.plan))), unit)
        power = all(n & (n - 1) == 0 for n in ladder.step.as_integer_ratio())
        times = "" if power else f" times {float(ladder.step):g}"
        found = f"a bound on {self._what(place)} is found privately: a power of two{times}"
        if ladder.by_excess:
            return f"{found}; up to about {most} may have 9/8 to 2 times as much"
        return f"{found}; up to about {most} may be cut"

    @property
    def _loss(self) -> PrivacyLoss:
        return sum((self.search(i).loss for i in range(len(self.plan.ladders))), self.first.quote.loss)

    def _what(self, place: int) -> str:
        return _WHAT[self.plan.ladders[place].ladder.of].format(unit=self.plan.unit)

    def search(self, place: int) -> mechanisms.Ladder:
        """Return the mechanism that finds one of the bounds."""
        searched = self.plan.ladders[place]
        compiled = searched.compiled
        size, noise = len(searched.ladder.bounds), self._groups(searched.ladder.of) / self.first_epsilon
        one_in = ONE_IN
        if searched.ladder.of is Contribution.ROWS and self._averages:
            noise, one_in = noise * AVERAGES, 1
        ranged = self.plan.epsilon_division.order is not None
        most = score_change(changes_of(compiled.certificate, compiled.counts))
        # Values and totals may be far above the first rung, of which a DOUBLE has 85.
        capped = not searched.ladder.by_excess or size > _MOST_RUNGS
        return mechanisms.Ladder.plan(
            size, self.epsilon, noise=noise, one_in=one_in, sensitivity=most, ranged=ranged, capped=capped
        )

    def _groups(self, bounded: Contribution) -> int:
        """Return for how many groups the noise is weighed in the search of a bound.

        Of a selection, it is the geometric mean of the groups that are shown and of all: the former would be
        right if all rows were in these, the latter if they were spread evenly. The interval of each sum with
        signs has all that is cut, so that cutting more does not pay however many they are.
        """
        plan, selection = self.plan, self.plan.selection
        groups = plan.domain_size or plan.groups_per_unit or 1
        if plan.existence is not None:
            groups = UNDECLARED_GROUPS
        signed = bounded is Contribution.TOTAL and any(bound_worth(count)[0] < 0 for count in plan.counts)
        if signed and isinstance(selection, AllGroups) and plan.options.cut != "NOISE_ONLY":
            return min(groups, MOST_SIGNED_GROUPS)
        most = selection.k if isinstance(selection, TopK) else getattr(selection, "limit", None)
        if most is None or plan.partitions is not None:
            return groups
        if bounded in IN_A_GROUP:  # the measured groups have noise for 2 sqrt(k) times it
            return math.isqrt(4 * max(most, 1) * groups)
        return min(groups, math.isqrt(max(most, 1) * groups))

    @property
    def _averages(self) -> bool:
        """Return whether every measured number is for an average; a number that is compared is none."""
        if getattr(self.plan.selection, "count", None) is not None:
            return False
        numbers = [output.formula for output in self.plan.outputs if output.kind == "count"]
        return bool(numbers) and all(isinstance(each, Average) for each in numbers)

    def find(self, searches: Sequence[Run]) -> tuple[int, ...]:
        """Return the places of the bounds that are chosen, by what their queries have counted."""
        pairs = enumerate(zip(self.plan.ladders, searches, strict=True))
        return tuple(run.search(self.search(i), len(each.ladder.bounds)) for i, (each, run) in pairs)

    def known(
        self, plan: Plan, found: Sequence[int], searches: Sequence[Run], spending: Spending
    ) -> Run | None:
        """Return a run whose numbers the searches have counted already; None if some must be counted.

        Without keys the searches have summed what answers with any of the bounds are made of. None: not all
        numbers of the plan are of that kind, and they are counted.
        """
        if plan.key_types or plan.values is not None or plan.cells is not None:
            return None
        figures = [self._clip(count, found) for count in plan.counts]
        known = [figure for figure in figures if figure is not None]
        if len(known) < len(figures):
            return None
        order = None if plan.compiled.order is None else plan.compiled.order.terms
        return run_of_figures(searches, known, spending, order)

    def _clip(self, count: ReleasedAggregate, found: Sequence[int]) -> Figure | None:
        for place, (search, at) in enumerate(zip(self.plan.ladders, found, strict=True)):
            ladder = search.ladder
            step = find_clipped_step(count, ladder, ladder.bounds[at])
            if step is not None:
                size = Fraction(step)
                return Figure(Of.CLIPPED, place, tuple(ladder.bounds), at, size=size, fine=ladder.fine)
        return None

    def answer_with(
        self, plan: Plan, found: Sequence[int], searches: Sequence[Run], run: Run, spending: Spending
    ) -> NoisyResult:
        """Answer the plan with the bounds that were found, given what the searches have counted."""
        beyond = find_excesses(plan, self.plan.ladders, found)
        method = self.within_quote(plan, beyond)
        if isinstance(method, (WithExcess, ExcessApart)):
            leads = method.leads if isinstance(method, WithExcess) else frozenset[int]()
            figures = [figure_of(each, lead=i in leads) for i, each in enumerate(beyond)]
            return method.run_beside(run, run_of_figures(searches, figures, spending, ()))
        return method.run(run)

    def within_quote(self, plan: Plan, beyond: Sequence[Excess]) -> Method | WithExcess | ExcessApart:
        """Return the method that answers with bounds that were found, at no more than was quoted.

        A cost may be divided among other parts than for the largest bounds: by what one unit changes, and
        among fewer excesses. Each must be within one that was quoted: where one is not, all have less.
        """
        first = self.first.quote.loss
        plan = replace(plan, options=replace(plan.options, noise=self.plan.options.noise))
        for part in _PARTS_OF_REST:
            epsilon = (
                self.first_epsilon
                if part == 1
                else self.plan.epsilon_division.epsilon_of(part * (1 - _share(plan)))
            )
            method = choose_with_excess(_rest(plan, epsilon), beyond, self.choose)
            if self.plan.epsilon_division.order is None or is_within(method.quote.loss, first):
                return method
        raise InternalError("no part of what was quoted is enough for these bounds")

    def add_left_out(self, plan: Plan, result: NoisyResult, found: Sequence[int]) -> NoisyResult:
        """Return a result of a plan with what bounds leave out in words.

        What was predicted of the bounds is not told: the answer has what was found.
        """
        beyond = find_excesses(plan, self.plan.ladders, found)
        measured = {each.search for each in beyond}
        low = [(each, are) for each in beyond if (are := self._say_if_low(plan, each, result))]
        pairs = enumerate(zip(self.plan.ladders, found, strict=True))
        unknown = [pair for place, pair in pairs if place not in measured and self._cuts(plan, place)]
        others = describe_unknown_cuts(plan, unknown)
        predicted = {self._note(place) for place in range(len(found))} | {*_OF_BOUNDS.values(), _TWO_WAYS}
        own: tuple[str, ...] = ()
        mechanism = ""
        if self._has_two_ways or any(map(_of_bounds, self.first.quote.notes)):
            quote = self.within_quote(plan, beyond).quote
            own = tuple(note for note in quote.notes if self._has_two_ways or _of_bounds(note))
            mechanism = quote.mechanism if self._has_two_ways else ""
        return replace(
            result,
            notes=(*own, *result.notes),
            untold=frozenset(predicted),
            mechanism=mechanism,
            left_out=merge_properties(result.left_out, describe_low_bounds(plan, low), others),
        )

    @property
    def _has_two_ways(self) -> bool:
        """Return whether a bound on what a unit has in each group, or in all of them, answers a selection."""
        return any(each.ladder.of in IN_A_GROUP for each in self.plan.ladders)

    def _cuts(self, plan: Plan, place: int) -> bool:
        """Return whether a plan with bounds that were found has one of them, and does not say so itself.

        What a bound on each group leaves out is said with the number that has it.
        """
        ladder = self.plan.ladders[place].ladder
        if ladder.of in IN_A_GROUP:
            return False
        if plan.existence is not None and ladder.of is Contribution.GROUPS:
            units = (at for at, count in enumerate(plan.counts) if type(count.parts[0]) is UnitsOfFew)
            return any(is_used(plan, at) for at in units)
        return not self._has_two_ways or plan.counts[0].l1_over_groups is not None

    def _say_if_low(self, plan: Plan, excess: Excess, result: NoisyResult) -> str:
        """Return "are", or "may be", if more units are above a found bound than a search leaves there; or "".

        Where the units that count are too few to outvote what rungs cost, the first rungs are chosen however
        far above them all are; another rung k beyond with a chance of the order e^(-5k/2). That may be so
        where half of what counts at the bound may be of units above it; it is so where a third is, clearly
        of more than a rung costs. A number is at most the bound for each unit; where it may be less for many,
        the half is of no meaning but at the first rungs, nor the third if the excess is without signs.
        """
        least, most = result.units_above.get(excess.search, (0.0, 0.0))
        if least > self._most_above(excess):
            return "are"
        if not most or self.search(excess.search).one_in != ONE_IN:
            return ""
        units, exact = self._units_at_bound(plan, excess, result)
        clearly = least > 0 and least + most > 2 * self.search(excess.search).penalty
        if clearly and (exact or excess.along) and 3 * (least + most) > 2 * units:
            return "are"
        return "may be" if 2 * most > units and (exact or excess.bound <= FIRST_RUNGS) else ""

    def _most_above(self, excess: Excess) -> float:
        """Return how many units are above a bound that was found, if none is beyond what its excess covers.

        At that rung the score would be 0: with more of them the search would have chosen it, but for noise.
        """
        search, rungs = self.search(excess.search), (excess.times + 1).bit_length() - 1
        return search.cut(plan_requests.confidence_of(self.plan)) + (rungs - 1) * float(search.penalty)

    def _units_at_bound(self, plan: Plan, excess: Excess, result: NoisyResult) -> tuple[float, bool]:
        """Return how many units with the bound would make the number, and whether no more units are above it.

        There may be more if what they have has signs, or rows with values that differ.
        """
        alone, found, exact = result.alone or result, dict[object, float](), True
        for place in excess.places:
            count, noisy = plan.counts[place], alone.counts[place]
            if noisy is None:
                continue
            least, most = bound_worth(count)
            exact = exact and least == 0 and most == 1
            beyond = None if alone.outside is None else alone.outside.counts[place]
            total = float(noisy.value.sum() + (0 if beyond is None else beyond.value.sum()))
            moments = place if count.noise_group is None else count.noise_group  # they add up to the rows
            found[moments] = found.get(moments, 0) + total * float(count.step / max(-least, most))
        of_all = (max(each, 0.0) if exact else abs(each) for each in found.values())
        return min(of_all, default=math.inf) / float(excess.limit * excess.of.ladder.step), exact

    def run(self, run: Run) -> NoisyResult:
        """Refuse to run: bounds must be found before the statement is planned."""
        raise InternalError("bounds are found before the counts")


def _of_bounds(note: str) -> str:
    """Return what is said in place of a note, if it follows from bounds that are not found yet; else ""."""
    return next((said for words, said in _OF_BOUNDS.items() if words in note), "")


def figure_of(excess: Excess, *, lead: bool) -> Figure:
    """Return the figure of a search that gives an excess, or twice the excess less its number.

    `lead`: twice the excess less the number beside it, with signs.
    """
    ladder = excess.of.ladder
    of = Of.LEAD if lead and excess.times else Of.EXCESS
    fine = ladder.fine if lead else None
    bounds = tuple(ladder.bounds)
    return Figure(of, excess.search, bounds, excess.bound, excess.times, excess.size, fine)


def _may_change_noise(plan: Plan) -> bool:
    """Return whether the bounds that are found might choose between Gaussian and Laplace noise.

    It is so where costs are divided, and a number of which a unit has so much in each group is beside one of
    which it has so much in all. The reserved cost is of one kind, so that all get the one that serves both.
    """
    several = len({*plan.equal}) > 1 and any(s.ladder.of is Contribution.VALUES for s in plan.ladders)
    return several and plan.options.noise is None and plan.epsilon_division.order is not None


def _share(plan: Plan) -> Fraction:
    """Return the part of the divided amount that pays for finding bounds."""
    return plan.options.bound_share or (SHARE if plan.epsilon_division.order is None else SHARE_OF_COST)


def _rest(plan: Plan, epsilon: Fraction) -> Plan:
    """Return the plan of the answer alone, with its part of epsilon.

    Where the bounds that were found are on each group, no bound on rows is of use: it has none then.
    """
    way = plan.with_share(Fraction(1)).options.layout
    rows = plan.options.max_rows_contributed
    if all(count.l1_over_groups is None for count in plan.counts):
        rows = None
    options = replace(plan.options, epsilon=epsilon, bound_share=None, layout=way, max_rows_contributed=rows)
    return replace(plan, options=options, ladders=())
