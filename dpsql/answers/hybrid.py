"""Answer a top-k above a threshold by hybrid top-k (Algorithm 19): the threshold is one more item."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.top_k import Noise, budgeted, quote_of
from dpsql.estimates import Combined, MeasuringPlan, from_measurements, from_top_k
from dpsql.privacy import PrivacyLoss

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.answers.measuring import Measurement
    from dpsql.engines import Counts
    from dpsql.language import TopK

__all__ = ["HybridTopK"]


@dataclass(frozen=True, slots=True)
class HybridTopK:
    """Selects by hybrid top-k; the charge depends on the groups found, not on k."""

    plan: Plan
    selection: TopK
    noise: Noise
    phases: MeasuringPlan
    parts: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: TopK) -> HybridTopK:
        """Divide the statement's epsilon as for a top-k."""
        noise, phases, parts = budgeted(plan, selection)
        return cls(
            plan,
            selection,
            noise,
            phases,
            parts,
            quote_of(plan, "hybrid top-k with gap", phases, parts, selection.count),
        )

    def run(self, counts: Counts) -> NoisyResult:
        """Select the groups above the threshold, measure them, and combine gaps and measurements."""
        count = self.plan.counts[self.selection.count]
        threshold = self.selection.threshold or Fraction(0)
        found = mechanisms.hybrid_top_k(
            counts.n[self.selection.count],
            threshold,
            self.selection.k,
            self.phases.selection_epsilon,
            sensitivity=count.bound,
            monotone=count.monotone,
            noise=self.noise,
        )
        size = len(found.index)

        def strategy(scale: Fraction) -> str:
            return measuring.each_or_anchor(
                self.plan,
                self.noise,
                found.scale,
                size,
                resolution=found.resolution,
                measuring_scale=scale,
                threshold_scale=found.scale if found.reached_threshold else None,
            )

        def combine(measured: Measurement | None) -> Combined:
            if size == 0:
                return from_measurements([], scale=1, confidence=measuring.confidence_of(self.plan))
            return from_top_k(
                found.gap,
                size,
                scale=found.scale,
                noise=self.noise,
                resolution=found.resolution,
                threshold=threshold if found.reached_threshold else None,
                confidence=measuring.confidence_of(self.plan),
                **measuring.measurement(measured),
            )

        estimates, loss = measuring.measure(
            self.plan, counts, found.index, self.parts, self.selection.count, strategy, combine
        )
        return NoisyResult(
            found.index, PrivacyLoss.of(found.charge.epsilon, found.charge.delta) + loss, estimates, found.gap
        )
