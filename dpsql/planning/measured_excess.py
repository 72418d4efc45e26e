"""Measure numbers whose bound a search found, with what is beyond it: the intervals have what is cut.

The interval of a group has twice its share of what is cut. In many groups each is also given back its share;
in few the noise of the excess is worse than what is cut.

Without keys, a number A and its excess E are measured together (`excess_noise`): a unit moves each by at most
the bound B. The exact number is from A to A + E, unless a unit has more than 2B, so it is in
[A - q1, A + E + q2] with the quantiles q1 of the noise of A and q2 of that of A + E.

In groups, and for the moments of a column, E is one number by itself, with a share of the statement's epsilon
that makes the intervals about as narrow as they can be (`ExcessApart.share`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.analysis.bound_ladders import UNDECLARED_GROUPS
from dpsql.analysis.cut_contributions import BEYOND, MANY_GROUPS, Excess, bound_worth, times_of_excess
from dpsql.errors import InternalError
from dpsql.estimates import Combined, Formula
from dpsql.estimates.noise_laws import Linear
from dpsql.estimates.predictions import half_width
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.parted import join_runs
from dpsql.kernel.release import Run
from dpsql.language import AllGroups, Scalar
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests
from dpsql.planning.cut_intervals import (
    MeasuredCut,
    describe_left_out,
    estimates_of,
    move_ends,
    rows_of_moments,
    share_left_out,
    units_above,
    widen_formula,
    widen_numbers,
)
from dpsql.planning.divided_methods import divide_plan
from dpsql.planning.excess_noise import BoxOfAll, FloatArray, GaussianOfEach, NoiseOfAll
from dpsql.planning.method import KeepsQuote, Method, NoisyResult, Quote
from dpsql.planning.noise_shares import Values, gaussian_cost
from dpsql.planning.shown_groups import divide_released

_LEAST_WHOLE = 1e-9
"""The least part of all that groups are taken to have."""
_PARTS, _MOST_PARTS = 16, 4
"""Into how many parts epsilon is divided after the searches, and the most of them that excesses have."""


@dataclass(frozen=True, slots=True)
class ExcessApart(KeepsQuote):
    """Measures the excess of each bound with Laplace noise, and the numbers by their own method."""

    plan: Plan
    found: tuple[Excess, ...]
    share: Fraction
    """The part for all excesses of what is left of epsilon after the searches."""
    noise: tuple[mechanisms.Laplace, ...]
    """That of each excess."""
    inner: Method

    @classmethod
    def of(cls, plan: Plan, found: Sequence[Excess], choose: Callable[[Plan], Method]) -> ExcessApart:
        """Divide epsilon between the excesses, equally, and the numbers."""
        share = _share_of_excesses(plan, found)
        epsilon = plan.epsilon_division.epsilon_of(share / len(found))
        noise = tuple(mechanisms.Laplace.plan(1, epsilon, sensitivity=each.most) for each in found)
        return cls(plan, tuple(found), share, noise, choose(plan.with_share(1 - share)))

    def compute_quote(self) -> Quote:
        """Return the price and the predicted error."""
        plan, first = self.plan, self.inner.quote
        times = sorted({times_of_excess(plan, each.places) for each in self.found})
        beyond = ", ".join(f"{each + 1}B" for each in times)
        return replace(
            first,
            charge=Charge(plan.price, first.charge.delta),
            split=f"{float(self.share):g} of the rest for the excess to {beyond}, then {first.split}",
            divided=None if plan.epsilon_division.order is None else self._loss,
        )

    @property
    def _loss(self) -> PrivacyLoss:
        return sum((each.loss for each in self.noise), PrivacyLoss()) + self.inner.quote.loss

    def run(self, run: Run) -> NoisyResult:
        """Refuse to run without the excesses."""
        raise InternalError("excesses are counted beside the numbers")

    def run_beside(self, run: Run, excesses: Run) -> NoisyResult:
        """Measure the numbers, and the excesses, in their steps."""
        result, cuts = self.inner.run(run), list[MeasuredCut]()
        alone = result
        level = plan_requests.confidence_of(self.plan)
        for place, (own, noise) in enumerate(zip(self.found, self.noise, strict=True)):
            measured = excesses.measure(noise, (place,), excesses.every())
            cuts.append(MeasuredCut.of(own, float(measured.value[0]), half_width(noise, level)))
        for cut in cuts:
            if cut.known:
                result = self._widen(result, cut, self._find_largest(run, result, cut))
        added = [cut for cut in cuts if self._is_added(cut)]
        said, beyond = describe_left_out(self.plan, cuts, added), estimates_of(self.plan, cuts)
        return replace(
            result,
            alone=alone,
            left_out=said,
            excess=beyond,
            most_left_out={place: cut.most for cut in cuts if cut.known for place in cut.excess.places},
            units_above=units_above(cuts),
        )

    def _find_largest(self, run: Run, result: NoisyResult, cut: MeasuredCut) -> NDArray[np.bool_] | None:
        """Return which groups have the largest values, where groups are ranges of what is cut."""
        arguments = (self.plan.counts[place].argument for place in cut.excess.places)
        found = next((each.largest_in for each in arguments if each and each.largest_in), None)
        if found is None:
            return None
        key, values = found
        return np.array([each in values for each in run.keys(result.rows, [key])[0].to_pylist()], dtype=bool)

    def _widen(self, result: NoisyResult, cut: MeasuredCut, largest: NDArray[np.bool_] | None) -> NoisyResult:
        """Return the result with what is cut in the intervals of the numbers that the bound is for."""
        plan = self.plan

        def number(place: int, found: Combined) -> Combined:
            step = float(plan.counts[place].step)
            ends, whole = bound_worth(plan.counts[place]), step * result.sums.get(plan.equal[place], 0.0)
            return self._number(found.scale(step), cut, *ends, whole, largest).scale(1 / step)

        def of_formula(uses: tuple[int, ...], formula: Formula, found: Combined) -> Combined:
            return widen_formula(
                formula,
                found,
                lambda found, least, most: self._number(found, cut, least, most),
                lambda: share_left_out(plan, cut.most, rows_of_moments(plan, result, uses)),
            )

        return widen_numbers(plan, result, {*cut.excess.places}, number, of_formula)

    def _is_added(self, cut: MeasuredCut) -> bool:
        """Return whether the measured excess is given back to the groups' numbers by their shares."""
        many = self._is_given_back and self.plan.options.cut != "WHOLE"
        worths = (bound_worth(self.plan.counts[place]) for place in cut.excess.places)
        return many and all(least >= 0 and most == 1 for least, most in worths)

    @property
    def _is_given_back(self) -> bool:
        """Whether there are many groups, and all of them are shown: only then their sum is known."""
        size = self.plan.domain_size  # of undeclared keys not all groups are shown
        return size is not None and size >= MANY_GROUPS and isinstance(self.plan.selection, AllGroups)

    def _number(
        self,
        found: Combined,
        cut: MeasuredCut,
        least: Fraction,
        most: Fraction,
        whole: float = 0.0,
        largest: NDArray[np.bool_] | None = None,
    ) -> Combined:
        """Return a number, or the numbers of groups, with intervals that include what a bound cuts.

        `whole` is what all groups have, where some are not among these and it is known. Those of the
        largest values have all of it among them, by their shares, as a number without groups has.
        """
        plan, high = self.plan, cut.most * float(most)
        if not plan.key_types or least < 0 or plan.options.cut == "WHOLE":
            return move_ends(found, cut.most * float(-least), high)
        there = np.maximum(found.value, 0)
        whole = max(float(there.sum()), whole)
        if whole <= 0:
            return move_ends(found, 0.0, high)
        back = cut.estimate if self._is_given_back and most == 1 else 0.0
        of, times = np.full(len(there), whole), np.full(len(there), 2 * high)
        if largest is not None:
            own = np.flatnonzero(largest)
            of[own] = max(float(there[own].sum()), _LEAST_WHOLE * whole)
            times[own] = (cut.most - cut.beyond + BEYOND * max(cut.estimate, 0.0)) * float(most)

        def above(end: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(end + times * np.clip(end / of, 0, 1))

        ends = found.together and (found.together[0], above(found.together[1]))
        return replace(
            found,
            value=found.value + back * there / whole,
            stddev=found.stddev * (1 + back / whole),
            high=above(found.high),
            together=ends,
        )


def _share_of_excesses(plan: Plan, found: Sequence[Excess]) -> Fraction:
    """Return the part of epsilon for excesses with which intervals are about as narrow as they can be.

    With a share s the noise of a number is a/(1 - s) on either side, and that of an excess t a/s: an interval
    of 2 a/(1 - s) + c t a/s is narrowest where s/(1 - s) is the root of c t/2. Here c is twice the share of a
    group of average size; 1 where the number has the whole excess; 2 where it has it on both sides. Since the
    error of the number grows with s, s is at most a quarter: the narrowest intervals are a quarter narrower.
    """
    worths = [bound_worth(plan.counts[place])[0] for each in found for place in each.places]
    if any(least < 0 for least in worths):
        sides = Fraction(2)
    elif not plan.key_types or plan.options.cut == "WHOLE":
        sides = Fraction(1)
    else:
        sides = Fraction(2, plan.domain_size or UNDECLARED_GROUPS)
    square = sides * max(times_of_excess(plan, each.places) for each in found) / 2
    fits = (n for n in range(_MOST_PARTS, 1, -1) if Fraction(n, _PARTS - n) ** 2 <= square)
    return Fraction(next(fits, 1), _PARTS)


ChooseMethod = Callable[[Plan], Method]


def choose_with_excess(
    plan: Plan, found: Sequence[Excess], choose: ChooseMethod
) -> Method | WithExcess | ExcessApart:
    """Return the method of a plan whose bounds were found, which measures what is beyond them if it can."""
    if not found:
        return choose(plan)
    moments = any(plan.counts[p].noise_group is not None for own, _ in divide_released(plan) for p in own[1:])
    options = plan.options
    named = options.mechanism not in (None, "AUTO") or options.measure_strategy not in (None, "AUTO")
    if isinstance(plan.selection, Scalar) and not moments and not named:
        return WithExcess.of(plan, found, choose)
    return ExcessApart.of(plan, found, choose)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Numbers that share a part of epsilon, with the excesses beyond some bounds, under one noise."""

    places: tuple[int, ...]
    """The places of the numbers."""
    excesses: tuple[int, ...]
    """The places of the excesses among those of the statement, measured after the numbers."""
    noise: NoiseOfAll
    """The noise."""


@dataclass(frozen=True, slots=True)
class WithExcess(KeepsQuote):
    """Measures numbers without keys, each beside its excess; other numbers by their own method."""

    plan: Plan
    found: tuple[Excess, ...]
    pairs: tuple[Pairs, ...]
    others: tuple[Method, ...]
    first: Method
    """The method without any excess, whose notes are also those of this one."""

    @classmethod
    def of(cls, plan: Plan, found: Sequence[Excess], choose: ChooseMethod) -> WithExcess:
        """Divide epsilon among the numbers as without excesses: each is in the box of its number."""
        divided, pairs, others = divide_released(plan), list[Pairs](), list[Method]()
        plans = divide_plan(plan, [places for places, _ in divided])
        for (places, epsilon), own_plan in zip(divided, plans, strict=True):
            own = tuple(i for i, each in enumerate(found) if {*each.places} & {*places})
            if own:
                noise = _noise(plan, places, [found[i] for i in own], epsilon)
                pairs.append(Pairs(tuple(places), own, noise))
            else:
                others.append(choose(own_plan))
        return cls(plan, tuple(found), tuple(pairs), tuple(others), choose(plan))

    def compute_quote(self) -> Quote:
        """Return the price and the predicted error."""
        plan, first = self.plan, self.first.quote
        return replace(
            first,
            charge=Charge(plan.price),
            mechanism=", ".join(dict.fromkeys(pair.noise.name for pair in self.pairs)),
            split=f"noise and excess to 2B: {first.split}",
            divided=None if plan.epsilon_division.order is None else self._loss,
        )

    @property
    def leads(self) -> frozenset[int]:
        """The places of the excesses that are measured as twice the excess less the number beside them."""
        every = ((pair, i, j) for pair in self.pairs for j, i in enumerate(pair.excesses))
        return frozenset(i for pair, i, j in every if pair.noise.leads(j))

    @property
    def _loss(self) -> PrivacyLoss:
        parts = (*(pair.noise.loss for pair in self.pairs), *(each.quote.loss for each in self.others))
        return sum(parts, PrivacyLoss())

    def run(self, run: Run) -> NoisyResult:
        """Refuse to run without the excesses."""
        raise InternalError("excesses are counted beside the numbers")

    def run_beside(self, run: Run, excesses: Run) -> NoisyResult:
        """Measure the numbers, and the excesses, in their steps."""
        plan, first = self.plan, len(run.changes.numbers)
        run = join_runs(run, excesses)
        noisy: dict[int, Combined] = {}
        wider: dict[int, Combined] = {}
        sizes: dict[int, tuple[Pairs, FloatArray]] = {}
        for pair in self.pairs:
            value = pair.noise.run(run, pair.places, [first + i for i in pair.excesses])
            sizes |= dict.fromkeys(pair.excesses, (pair, value))
            for at, (place, source) in enumerate(zip(pair.places, pair.noise.sources, strict=True)):
                made = Linear.alone(place, value[at : at + 1], source)
                noisy[place] = replace(self._estimate(pair, at, value), made=made)
                wider[place] = self._wider(pair, at, value, noisy[place])
        values: Values = {}
        for method in self.others:
            other = method.run(run)
            noisy |= {place: each for place, each in enumerate(other.counts) if each is not None}
            values |= other.values

        def listed(found: dict[int, Combined]) -> tuple[Combined | None, ...]:
            return tuple(found.get(place) for place in range(len(plan.counts)))

        alone = NoisyResult(run.every(), listed(noisy), values)
        cuts = [self._cut(i, each) for i, each in sizes.items()]
        said, beyond = describe_left_out(plan, cuts), estimates_of(plan, cuts)
        return replace(
            alone,
            counts=listed(noisy | wider),
            alone=alone,
            left_out=said,
            excess=beyond,
            units_above=units_above(cuts),
        )

    def _cut(self, place: int, found: tuple[Pairs, FloatArray]) -> MeasuredCut:
        """Return what the measured excess tells about values that were cut."""
        (pair, noisy), own, level = found, self.found[place], plan_requests.confidence_of(self.plan)
        number = next(at for at, each in enumerate(pair.places) if each in own.places)
        at, worth = pair.excesses.index(place), float(own.step / self.plan.counts[pair.places[number]].step)
        value = pair.noise.excess_of(noisy, at, number, worth)
        half = pair.noise.excess_half_width(at, number, worth, level)
        return MeasuredCut.of(own, abs(value) if pair.noise.leads(at) else value, half)

    def _level(self) -> tuple[Fraction, Fraction]:
        """Return the level of an interval, and the level at which intervals hold for all numbers at once."""
        wide = plan_requests.level_at_once(self.plan)
        return wide if plan_requests.is_simultaneous(self.plan) else plan_requests.confidence_of(
            self.plan
        ), wide

    def _estimate(self, pair: Pairs, at: int, noisy: FloatArray) -> Combined:
        """Return a number with the intervals of its noise."""
        value, noise = noisy[at : at + 1].astype(np.float64), pair.noise
        half, wide = (noise.half_width(at, level) for level in self._level())
        ends = (value - wide, value + wide)
        return Combined(value, np.array([noise.stddev(at)]), value - half, value + half, ends)

    def _wider(self, pair: Pairs, at: int, noisy: FloatArray, found: Combined) -> Combined:
        """Return a number with what its bound cuts in the intervals, if that was measured."""
        place, noise = pair.places[at], pair.noise
        beyond = next((i for i in pair.excesses if place in self.found[i].places), None)
        if beyond is None or not self.found[beyond].times:
            return found
        count, own, last = self.plan.counts[place], self.found[beyond], pair.excesses.index(beyond)
        least, most = bound_worth(count)
        # What 1 of the excess is worth is what makes both move by as much.
        worth = float(max(-least, most) * own.step / count.step)
        value, excess = found.value, noise.excess_of(noisy, last, at, worth) * worth
        down = -excess if noise.leads(last) else excess

        def ends(level: Fraction, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
            width = noise.sum_half_width(last, at, worth, level)
            below, above = (width + e + own.most_beyond(e) for e in (down, excess))
            return np.minimum(low, value - below) if least < 0 else low, np.maximum(high, value + above)

        level, wide = self._level()
        low, high = ends(level, found.low, found.high)
        together = found.together and ends(wide, *found.together)
        return replace(found, low=low, high=high, together=together)


def _noise(plan: Plan, places: Sequence[int], found: Sequence[Excess], epsilon: Fraction) -> NoiseOfAll:
    """Return the noise of numbers and of their excesses: Gaussian where costs are divided."""
    counts = [plan.counts[place] for place in places]
    bounds, monotone = [count.bound for count in counts], all(count.monotone for count in counts)
    rho = gaussian_cost(plan, epsilon, len(counts))
    if rho is not None:
        return GaussianOfEach.plan(bounds, found, rho, monotone=monotone)
    size, every = len(counts) + len(found), [*bounds, *(each.most for each in found)]
    box = mechanisms.Box.plan(size, epsilon, sensitivity=every, monotone=monotone)
    return BoxOfAll(box, len(counts))
