"""Answer top-k and argmax on a public domain by noisy top-k with gap, and estimate the counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.estimates import (
    Combined,
    MeasuringPlan,
    choose_measuring,
    distinguishable_gap,
    from_top_k,
    p_value,
)
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.engines import Counts
    from dpsql.language import TopK

__all__ = ["NOISE", "Noise", "NoisyTopK", "budgeted", "quote_of", "significance"]

Noise = Literal["exponential", "laplace", "geometric"]
NOISE: dict[str, Noise] = {"EXPONENTIAL": "exponential", "LAPLACE": "laplace", "GEOMETRIC": "geometric"}


@dataclass(frozen=True, slots=True)
class NoisyTopK:
    """Selects by noisy top-k; `parts` maps the place of a measured count to its epsilon."""

    plan: Plan
    selection: TopK
    k: int
    noise: Noise
    phases: MeasuringPlan
    parts: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: TopK) -> NoisyTopK:
        """Divide the statement's epsilon and predict the error."""
        noise, phases, parts = budgeted(plan, selection)
        words = "noisy max with gap" if selection.argmax else "noisy top-k with gap"
        if selection.lowest:
            words += " of the lowest"
        k = min(selection.k, plan.groups)
        return cls(
            plan, selection, k, noise, phases, parts, quote_of(plan, words, phases, parts, selection.count)
        )

    def run(self, counts: Counts) -> NoisyResult:
        """Select with the first share of epsilon, measure with the second, combine both."""
        ordering = self.plan.counts[self.selection.count]
        found = mechanisms.noisy_top_k(
            counts.n[self.selection.count],
            self.k,
            self.phases.selection_epsilon,
            sensitivity=ordering.bound,
            monotone=ordering.monotone,
            noise=self.noise,
            lowest=self.selection.lowest,
        )
        size = len(found.index)

        def strategy(scale: Fraction) -> str:
            if size < 2:
                return "EACH"
            return measuring.each_or_anchor(
                self.plan,
                self.noise,
                found.scale,
                size,
                resolution=found.resolution,
                measuring_scale=scale,
            )

        def combine(each: mechanisms.Laplace | None, anchor: mechanisms.Anchor | None) -> Combined:
            if size < 2 and each is not None:
                return measuring.plain(self.plan, each)
            measured = each or anchor
            return from_top_k(
                found.gap,
                size,
                scale=found.scale,
                noise=self.noise,
                resolution=found.resolution,
                lowest=self.selection.lowest,
                each=None if each is None else each.value,
                anchor_total=None if anchor is None else anchor.total,
                measuring_scale=None if measured is None else measured.scale,
                measuring_resolution=None if measured is None else measured.resolution,
                confidence=measuring.confidence_of(self.plan),
            )

        estimates, measured = measuring.measure(
            self.plan, counts, found.index, self.parts, self.selection.count, strategy, combine
        )
        gap = np.full(size, np.nan)
        gap[: len(found.gap)] = found.gap
        return NoisyResult(
            found.index, found.charge + measured, estimates, gap, significance(gap, found.scale, self.noise)
        )


def significance(gap: np.ndarray, scale: Fraction, noise: Noise) -> np.ndarray | None:
    """Return the p-values of gaps (NaN where there is no gap); None unless the noise is exponential."""
    if noise != "exponential":
        return None
    values = np.full(len(gap), np.nan)
    there = ~np.isnan(gap)
    if there.any():
        values[there] = p_value(gap[there], scale)
    return values


def budgeted(plan: Plan, selection: TopK) -> tuple[Noise, MeasuringPlan, dict[int, Fraction]]:
    """Divide epsilon between selecting and measuring, and the measuring part among the counts shown."""
    options = plan.options
    noise = NOISE[options.noise or "EXPONENTIAL"]
    ordering = plan.counts[selection.count]
    shown = measuring.wanted(plan, selection.count)
    share = measuring.share_of(plan)
    if not shown:
        share = share or Fraction(0)
    elif share == 0:
        raise plan.query.source.refuse(
            "measure = 0 pays for no count, and a count is selected",
            options.at.get("measure"),
            "leave measure out, or select the keys alone",
        )
    elif len(shown) > 1 and share is None:
        share = Fraction(1, 2)
    phases = choose_measuring(
        min(selection.k, plan.groups),
        plan.epsilon,
        sensitivity=ordering.bound,
        monotone=ordering.monotone,
        noise=noise,
        measure=share,
        strategy=options.measure_strategy or "AUTO",  # type: ignore[arg-type]  # one of the three words
        domain_size=plan.groups,
        grid=mechanisms.usual_grid,
    )
    # In a domain of one group nothing is selected, and all of epsilon measures.
    epsilon = plan.epsilon if plan.domain_size == 1 else phases.measuring_epsilon
    return noise, phases, measuring.divide(plan, shown, epsilon)


def quote_of(
    plan: Plan, words: str, phases: MeasuringPlan, parts: dict[int, Fraction], ordering: int
) -> Quote:
    """Build the quote of a top-k: charge, scale and predicted errors."""
    scale = phases.selection_scale
    confidence = measuring.confidence_of(plan)
    split = "all for selecting"
    predicted = half = None
    if parts:
        how = {"ANCHOR": "one noisy total (ANCHOR)", "EACH": "one noisy count a group (EACH)"}
        split = (
            f"{float(phases.selection_epsilon):g} for selecting, {float(phases.measuring_epsilon):g} "
            f"for measuring {how.get(phases.strategy, '')}"
        )
        predicted, half = measuring.predicted(plan, phases, parts, ordering)
    if plan.domain_size == 1:
        split, scale = "all for measuring", Fraction(0)
    apart = None
    if scale:
        apart = distinguishable_gap(phases.noise, scale, confidence, resolution=phases.resolution)
    return Quote(Charge(plan.epsilon), words, float(scale), split, predicted, half, apart)
