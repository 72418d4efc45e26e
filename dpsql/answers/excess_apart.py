"""Measure what is beyond a bound by itself: in groups, and beside the moments of a column.

The interval of a group has twice its share of what is cut. In many groups each is also given back its share;
in few the noise of the excess is worse than what is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.analysis.excess import Excess, worth_of
from dpsql.answers import plan_requests
from dpsql.answers.cut_intervals import (
    move_ends,
    rows_of_moments,
    share_left_out,
    widen_formula,
    widen_numbers,
)
from dpsql.answers.excess_words import Cut, estimates_of, left_out_words, units_above
from dpsql.answers.method import KeepsQuote, Method, NoisyResult, Quote
from dpsql.errors import InternalError
from dpsql.estimates import Combined, Formula
from dpsql.estimates.predictions import half_width
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.release import Run
from dpsql.lazy_dataclass import dataclass

SHARE = Fraction(1, 8)
"""The part for all excesses of what is left of epsilon after the searches: a tenth of all of it."""
MANY_GROUPS = 100
"""From so many groups on, what is cut is given back to them by their shares."""


@dataclass(frozen=True, slots=True)
class ExcessApart(KeepsQuote):
    """Measures the excess of each bound with Laplace noise, and the numbers by their own method."""

    plan: Plan
    found: tuple[Excess, ...]
    noise: tuple[mechanisms.Laplace, ...]
    """That of each excess."""
    inner: Method

    @classmethod
    def of(cls, plan: Plan, found: Sequence[Excess], choose: Callable[[Plan], Method]) -> ExcessApart:
        """Divide epsilon between the excesses, equally, and the numbers."""
        epsilon = plan.layout.part(SHARE / len(found))
        noise = tuple(mechanisms.Laplace.plan(1, epsilon, sensitivity=each.most) for each in found)
        return cls(plan, tuple(found), noise, choose(plan.with_share(1 - SHARE)))

    def quoted(self) -> Quote:
        """See `Method`."""
        plan, first = self.plan, self.inner.quote
        beyond = "4B" if plan.key_types else "2B"
        return replace(
            first,
            charge=Charge(plan.price, first.charge.delta),
            split=f"{float(SHARE):g} of the rest for the excess to {beyond}, then {first.split}",
            divided=None if plan.layout.order is None else self._loss,
        )

    @property
    def _loss(self) -> PrivacyLoss:
        return sum((each.loss for each in self.noise), PrivacyLoss()) + self.inner.quote.loss

    def run(self, run: Run) -> NoisyResult:
        """Refuse to run without the excesses."""
        raise InternalError("excesses are counted beside the numbers")

    def run_beside(self, run: Run, excesses: Run) -> NoisyResult:
        """Measure the numbers, and the excesses, in their steps."""
        result, cuts = self.inner.run(run), list[Cut]()
        alone = result
        level = plan_requests.confidence_of(self.plan)
        for place, (own, noise) in enumerate(zip(self.found, self.noise, strict=True)):
            measured = excesses.measure(noise, (place,), excesses.every())
            cuts.append(Cut.of(own, float(measured.value[0]), half_width(noise, level)))
        for cut in cuts:
            if cut.known:
                result = self._widened(result, cut)
        added = [cut for cut in cuts if self._is_added(cut)]
        said, beyond = left_out_words(self.plan, cuts, added), estimates_of(self.plan, cuts)
        return replace(result, alone=alone, left_out=said, excess=beyond, units_above=units_above(cuts))

    def _widened(self, result: NoisyResult, cut: Cut) -> NoisyResult:
        """Return the result with what is cut in the intervals of the numbers that the bound is for."""
        plan = self.plan

        def number(place: int, found: Combined) -> Combined:
            step = float(plan.counts[place].step)
            return self._number(found.scaled(step), cut, *worth_of(plan.counts[place])).scaled(1 / step)

        def of_formula(uses: tuple[int, ...], formula: Formula, found: Combined) -> Combined:
            return widen_formula(
                formula,
                found,
                lambda found, least, most: self._number(found, cut, least, most),
                lambda: share_left_out(plan, cut.most, rows_of_moments(plan, result, uses)),
            )

        return widen_numbers(plan, result, {*cut.excess.places}, number, of_formula)

    def _is_added(self, cut: Cut) -> bool:
        """Return whether each number under a bound has what is cut of it, by the shares of its groups."""
        many = self.plan.groups >= MANY_GROUPS and self.plan.options.cut != "WHOLE"
        worths = (worth_of(self.plan.counts[place]) for place in cut.excess.places)
        return many and all(least >= 0 and most == 1 for least, most in worths)

    def _number(self, found: Combined, cut: Cut, least: Fraction, most: Fraction) -> Combined:
        """Return a number, or those of all groups, with what is cut in the intervals."""
        plan, high = self.plan, cut.most * float(most)
        if not plan.key_types or least < 0 or plan.options.cut == "WHOLE":
            return move_ends(found, cut.most * float(-least), high)
        there = np.maximum(found.value, 0)
        whole = float(there.sum())
        if whole <= 0:
            return move_ends(found, 0.0, high)
        back = cut.estimate if plan.groups >= MANY_GROUPS and most == 1 else 0.0

        def above(end: NDArray[np.float64]) -> NDArray[np.float64]:
            return end + 2 * high * np.clip(end / whole, 0, 1)

        ends = found.together and (found.together[0], above(found.together[1]))
        return replace(
            found,
            value=found.value + back * there / whole,
            stddev=found.stddev * (1 + back / whole),
            high=above(found.high),
            together=ends,
        )
