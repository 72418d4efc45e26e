"""Measure numbers whose bound a search found, with what is beyond it: the intervals have what is cut.

Without keys, a number A and its excess E are two numbers of one box (of one cube, where A may be below 0): a
unit moves each by at most the bound B, and if nothing is below 0, both in one direction. The exact number is
from A to A + E, unless a unit has more than 2B, so it is in [A - q1, A + E + q2] with the quantiles q1 of
the noise of A and q2 of that of A + E.

In groups, and for the moments of a column, E is one number by itself, with a tenth of the statement's
epsilon: up to 4B of a unit count in it (`excess_apart`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.analysis.excess import Excess, worth_of
from dpsql.answers import measuring
from dpsql.answers.all_numbers import of_share, users_of
from dpsql.answers.blocks import Values, shares
from dpsql.answers.excess_apart import ExcessApart
from dpsql.answers.excess_words import Cut, estimates_of, left_out_words
from dpsql.answers.method import KeepsQuote, Method, NoisyResult, Quote
from dpsql.answers.shown import released
from dpsql.answers.sources import law_of, source_of
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import Combined, pair_half_width
from dpsql.estimates.noise_laws import Linear
from dpsql.estimates.predictions import half_width, in_counts, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.language import Scalar
from dpsql.lazy_dataclass import dataclass

Choose = Callable[[Plan], Method]


def beside(plan: Plan, found: Sequence[Excess], choose: Choose) -> Method | WithExcess | ExcessApart:
    """Return the method of a plan whose bounds were found, which measures what is beyond them if it can."""
    if not found:
        return choose(plan)
    moments = any(plan.counts[p].share is not None for own, _ in _divided(plan) for p in own[1:])
    options = plan.options
    named = options.mechanism not in (None, "AUTO") or options.measure_strategy not in (None, "AUTO")
    if isinstance(plan.selection, Scalar) and not moments and not named and options.noise != "GAUSSIAN":
        return WithExcess.of(plan, found, choose)
    return ExcessApart.of(plan, found, choose)


def _divided(plan: Plan) -> list[tuple[list[int], Fraction]]:
    return shares(plan, released(plan), plan.epsilon)


FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Numbers that share a part of epsilon, and the excess of the bounds on some of them, in one noise.

    Attributes
    ----------
    places
        The places of the numbers.
    excesses
        The places of the excesses among those of the statement, measured after the numbers.
    box
        The noise.
    """

    places: tuple[int, ...]
    excesses: tuple[int, ...]
    box: mechanisms.Box


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
    def of(cls, plan: Plan, found: Sequence[Excess], choose: Choose) -> WithExcess:
        """Divide epsilon among the numbers as without excesses: each is in the box of its number."""
        divided, pairs, others = _divided(plan), list[Pairs](), list[Method]()
        options = plan.with_share(Fraction(1, len(divided))).options
        for places, epsilon in divided:
            own = tuple(i for i, each in enumerate(found) if {*each.places} & {*places})
            if own:
                counts = [plan.counts[place] for place in places]
                box = mechanisms.Box.plan(
                    len(places) + len(own),
                    epsilon,
                    sensitivity=[*(count.bound for count in counts), *(found[i].most for i in own)],
                    monotone=all(count.monotone for count in counts),
                )
                pairs.append(Pairs(tuple(places), own, box))
            else:
                others.append(choose(of_share(plan, users_of(plan), places, options)))
        return cls(plan, tuple(found), tuple(pairs), tuple(others), choose(plan))

    def quoted(self) -> Quote:
        """See `Method`."""
        plan, first = self.plan, self.first.quote
        return replace(
            first,
            charge=Charge(plan.price),
            mechanism="box of numbers and excess" if self._monotone else "cube of numbers and excess",
            split=f"noise and excess to 2B: {first.split}",
            divided=None if plan.layout.order is None else self._loss,
        )

    @property
    def _monotone(self) -> bool:
        return all(pair.box.pads for pair in self.pairs)

    @property
    def _loss(self) -> PrivacyLoss:
        parts = (*(pair.box.loss for pair in self.pairs), *(each.quote.loss for each in self.others))
        return sum(parts, PrivacyLoss())

    def run(self, counts: Counts) -> NoisyResult:
        """Refuse to run without the excesses."""
        raise InternalError("excesses are counted beside the numbers")

    def run_beside(self, counts: Counts, exact: Sequence[int]) -> NoisyResult:
        """Measure the numbers, and the exact excesses, in their steps."""
        plan, loss = self.plan, PrivacyLoss()
        noisy: dict[int, Combined] = {}
        wider: dict[int, Combined] = {}
        sizes: dict[int, tuple[Pairs, float]] = {}
        for pair in self.pairs:
            numbers = [int(counts.n[place][0]) for place in pair.places]
            numbers += [exact[i] for i in pair.excesses]
            measured = pair.box.run(np.array(numbers, dtype=np.int64))
            loss += measured.loss
            sizes |= {i: (pair, measured.value[len(pair.places) + j]) for j, i in enumerate(pair.excesses)}
            law = law_of(pair.box)
            for at, place in enumerate(pair.places):
                made = Linear.alone(place, measured.value[at : at + 1], source_of(pair.box, law, at))
                noisy[place] = replace(self._estimate(pair, at, measured.value), made=made)
                wider[place] = self._wider(pair, at, measured.value, noisy[place])
        values: Values = {}
        for method in self.others:
            other = method.run(counts)
            loss += other.loss
            noisy |= {place: each for place, each in enumerate(other.counts) if each is not None}
            values |= other.values

        def listed(found: dict[int, Combined]) -> tuple[Combined | None, ...]:
            return tuple(found.get(place) for place in range(len(plan.counts)))

        rows = np.zeros(1, dtype=np.int64)
        alone = NoisyResult(rows, loss, listed(noisy), values)
        cuts = [self._cut(i, each) for i, each in sizes.items()]
        said, beyond = left_out_words(plan, cuts), estimates_of(plan, cuts)
        return replace(alone, counts=listed(noisy | wider), alone=alone, left_out=said, excess=beyond)

    def _cut(self, place: int, noisy: tuple[Pairs, float]) -> Cut:
        """Return what is known of an excess."""
        (pair, value), own = noisy, self.found[place]
        at = len(pair.places) + pair.excesses.index(place)
        half = half_width(pair.box, measuring.confidence_of(self.plan), at)
        return Cut.of(own, value, half)

    def _level(self) -> tuple[Fraction, Fraction]:
        """Return the level of an interval, and that of one of those that hold for all numbers at once."""
        wide = measuring.at_once(self.plan)
        return wide if measuring.simultaneous(self.plan) else measuring.confidence_of(self.plan), wide

    def _estimate(self, pair: Pairs, at: int, noisy: FloatArray) -> Combined:
        """Return a number with the intervals of its noise."""
        value, box = noisy[at : at + 1].astype(np.float64), pair.box
        half, wide = (half_width(box, level, at) for level in self._level())
        ends = (value - wide, value + wide)
        return Combined(value, np.array([stddev(box, at)]), value - half, value + half, ends)

    def _wider(self, pair: Pairs, at: int, noisy: FloatArray, found: Combined) -> Combined:
        """Return a number with what its bound cuts in the intervals, if that was measured."""
        place, box = pair.places[at], pair.box
        beyond = next((i for i in pair.excesses if place in self.found[i].places), None)
        if beyond is None or not self.found[beyond].times:
            return found
        count, own = self.plan.counts[place], self.found[beyond]
        last = len(pair.places) + pair.excesses.index(beyond)
        least, most = worth_of(count)
        # What 1 of the excess is worth is what makes both move by as much.
        worth = float(max(-least, most) * own.step / count.step)
        unit = max(in_counts(box, at, 1), worth * in_counts(box, last, 1))
        value, excess = found.value, noisy[last] * worth

        def ends(level: Fraction, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
            width = pair_half_width(box.size, box.pads, float(level)) * unit
            reach = excess + width + box.step(at) + worth * box.step(last)
            return np.minimum(low, value - reach) if least < 0 else low, np.maximum(high, value + reach)

        level, wide = self._level()
        low, high = ends(level, found.low, found.high)
        together = found.together and ends(wide, *found.together)
        return replace(found, low=low, high=high, together=together)
