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

from dpsql import mechanisms
from dpsql.analysis import Plan
from dpsql.analysis.excess import Excess, worth_of
from dpsql.answers import measuring
from dpsql.answers.excess_words import AVERAGE_DIFFERS, Cut, estimates_of, left_out_words
from dpsql.answers.left_out import join_groups, rows_of_moments, share_left_out
from dpsql.answers.method import KeepsQuote, Method, NoisyResult, Quote
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import Average, Combined, Formula, RowCount, SumOfRows
from dpsql.lazy_dataclass import dataclass
from dpsql.privacy import Charge, PrivacyLoss

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

    def run(self, counts: Counts) -> NoisyResult:
        """Refuse to run without the excesses."""
        raise InternalError("excesses are counted beside the numbers")

    def run_beside(self, counts: Counts, exact: Sequence[int]) -> NoisyResult:
        """Measure the numbers, and the exact excesses, in their steps."""
        result, loss, cuts = self.inner.run(counts), PrivacyLoss(), list[Cut]()
        alone = result
        level = measuring.confidence_of(self.plan)
        for own, noise, number in zip(self.found, self.noise, exact, strict=True):
            measured = noise.run(np.array([number], dtype=np.int64))
            loss += measured.loss
            cuts.append(Cut.of(own, float(measured.value[0]), noise.half_width(level)))
        for cut in cuts:
            if cut.known:
                result = self._widened(result, cut)
        said, beyond = left_out_words(self.plan, cuts), estimates_of(self.plan, cuts)
        return replace(result, loss=result.loss + loss, alone=alone, left_out=said, excess=beyond)

    def _widened(self, result: NoisyResult, cut: Cut) -> NoisyResult:
        """Return the result with what is cut in the intervals of the numbers that the bound is for."""
        plan, places = self.plan, {*cut.excess.places}
        counts, outside = list(result.counts), result.outside
        beyond = [] if outside is None else list(outside.counts)
        for place in places:
            found, last = counts[place], beyond[place] if beyond else None
            if found is None or plan.counts[place].share not in (None, plan.counts[place].parts[0]):
                continue
            whole = found if last is None else join_groups(found, last)
            step = float(plan.counts[place].step)
            made = self._number(whole.scaled(step), cut, *worth_of(plan.counts[place])).scaled(1 / step)
            counts[place] = replace(made.taken(np.arange(len(found.value))), made=found.made)
            if last is not None:
                beyond[place] = made.taken(np.arange(len(found.value), len(whole.value)))
        values = {
            (uses, formula): self._of_formula(result, uses, formula, each, cut) if uses[0] in places else each
            for (uses, formula), each in result.values.items()
        }
        if outside is not None:
            outside = replace(outside, counts=tuple(beyond), loss=result.loss)
        return replace(result, counts=tuple(counts), values=values, outside=outside)

    def _number(self, found: Combined, cut: Cut, least: Fraction, most: Fraction) -> Combined:
        """Return a number, or those of all groups, with what is cut in the intervals."""
        plan, high = self.plan, cut.most * float(most)
        if not plan.key_types or least < 0 or plan.options.cut == "WHOLE":
            return moved(found, cut.most * float(-least), high)
        there = np.maximum(found.value, 0)
        whole = float(there.sum())
        if whole <= 0:
            return moved(found, 0.0, high)
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

    def _of_formula(
        self, result: NoisyResult, uses: Sequence[int], formula: Formula, found: Combined, cut: Cut
    ) -> Combined:
        """Return a number that follows from moments, all of which have one bound on rows."""
        if isinstance(formula, RowCount):
            return self._number(found, cut, Fraction(0), Fraction(1))
        if isinstance(formula, SumOfRows):
            return self._number(found, cut, min(formula.low, Fraction(0)), max(formula.high, Fraction(0)))
        if not isinstance(formula, Average):
            return found
        share = share_left_out(self.plan, cut.most, rows_of_moments(self.plan, result, uses))
        part = share * float(formula.high - formula.low) / AVERAGE_DIFFERS
        return moved(found, part, part)


def moved(found: Combined, below: float, above: float) -> Combined:
    """Return estimates whose intervals reach farther."""
    ends = None if found.together is None else (found.together[0] - below, found.together[1] + above)
    return replace(found, low=found.low - below, high=found.high + above, together=ends)
