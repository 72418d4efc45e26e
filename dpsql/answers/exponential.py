"""Answer an argmax by the exponential mechanism with gap, and measure the selected group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.estimates import Combined, exponential_mechanism_p_value
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.engines import Counts
    from dpsql.language import TopK

__all__ = ["ExponentialMechanism"]


@dataclass(frozen=True, slots=True)
class ExponentialMechanism:
    """Selects one group with `selection_epsilon`; `parts` maps a measured count's place to its epsilon."""

    plan: Plan
    selection: TopK
    selection_epsilon: Fraction
    parts: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: TopK) -> ExponentialMechanism:
        """Divide the statement's epsilon; by default half of it measures if a count is shown."""
        shown = measuring.wanted(plan, selection.count)
        share = measuring.share_of(plan)
        if share is None:
            share = Fraction(1, 2) if shown else Fraction(0)
        if shown and share == 0:
            raise plan.query.source.refuse(
                "measure = 0 pays for no count, and a count is selected",
                plan.options.at.get("measure"),
                "leave it out",
            )
        count = plan.counts[selection.count]
        selection_epsilon = plan.epsilon * (1 - share)
        parts = measuring.divide(plan, shown, plan.epsilon - selection_epsilon)
        scale = count.bound * (1 if count.monotone else 2) / selection_epsilon
        predicted = None
        if len(parts) == 1:
            place, share_of_one = next(iter(parts.items()))
            predicted = measuring.stddev(Fraction(plan.counts[place].bound) / share_of_one)
        rest = plan.epsilon - selection_epsilon
        split = f"{float(selection_epsilon):g} for selecting, {float(rest):g} for measuring"
        quote = Quote(
            Charge(plan.epsilon),
            "exponential mechanism with gap",
            float(scale),
            split if parts else "all for selecting",
            predicted,
            None,
            None,
        )
        return cls(plan, selection, selection_epsilon, parts, quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Select one group, then measure it."""
        count = self.plan.counts[self.selection.count]
        found = mechanisms.exponential(
            counts.n[self.selection.count],
            self.selection_epsilon,
            sensitivity=count.bound,
            monotone=count.monotone,
            lowest=self.selection.lowest,
        )

        def combine(each: mechanisms.Laplace | None, anchor: mechanisms.Anchor | None) -> Combined:
            if each is None or anchor is not None:
                raise ValueError("one group is measured by itself")
            return measuring.plain(self.plan, each)

        estimates, charge = measuring.measure(
            self.plan, counts, found.index, self.parts, self.selection.count, lambda _: "EACH", combine
        )
        gap = np.full(len(found.index), np.nan)
        gap[: len(found.gap)] = found.gap
        significance = gap.copy()
        if len(found.gap):
            significance[: len(found.gap)] = exponential_mechanism_p_value(found.gap, found.scale)
        return NoisyResult(found.index, found.charge + charge, estimates, gap, significance)
