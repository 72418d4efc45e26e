"""Answer top-k and argmax: select the largest groups, and estimate their counts by gaps and measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpsql import mechanisms
from dpsql.analysis import Plan
from dpsql.answers import measuring, unknown
from dpsql.answers.method import Considered, NoisyResult, Quote
from dpsql.engines import Counts
from dpsql.estimates import (
    Combined,
    MeasuringPlan,
    choose_measuring,
    exponential_mechanism_p_value,
    from_top_k,
    p_value,
)
from dpsql.language import TopK
from dpsql.privacy import Charge

Noise = Literal["exponential", "laplace", "geometric"]
NOISE: dict[str, Noise] = {"EXPONENTIAL": "exponential", "LAPLACE": "laplace", "GEOMETRIC": "geometric"}

WithGaps = mechanisms.NoisyTopK | mechanisms.HybridTopK | mechanisms.LimitedDomain
"""Mechanisms whose gaps estimate the counts of several groups."""

Selecting = WithGaps | mechanisms.Exponential | unknown.Unknown

_WITHOUT_GAPS = ("EXPONENTIAL", "TOP_STABLE", "LIMITED_THEN_STABLE")
"""Mechanisms without gaps, or whose gaps would estimate the counts of only some rows."""


@dataclass(frozen=True, slots=True)
class LargestGroups:
    """Selects the largest groups, measures them, and combines measurements with the gaps if there are any.

    `parts` maps the place of a measured count to its epsilon.
    """

    plan: Plan
    selection: TopK
    mechanism: Selecting
    parts: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: TopK) -> LargestGroups:
        """Divide the statement's epsilon between selecting and measuring, and predict the error."""
        shown = measuring.wanted(plan, selection.count)
        asked = plan.options.mechanism
        phases = _phases(plan, selection, shown, gaps=asked not in _WITHOUT_GAPS)
        if plan.domain_size is None:
            name = unknown.choose_unknown(plan, selection, phases.selection_epsilon)
            unknown.check_unknown(plan, selection, name)
            phases = _phases(plan, selection, shown, gaps=name not in _WITHOUT_GAPS)
            mechanism: Selecting = unknown.plan_unknown(plan, selection, phases.selection_epsilon, name)
        else:
            mechanism = _mechanism(plan, selection, plan.domain_size, phases)
        # If there is nothing to select, all of epsilon measures.
        parts = measuring.divide(plan, shown, phases.measuring_epsilon if mechanism.scale else plan.epsilon)
        return cls(plan, selection, mechanism, parts, _quote(plan, selection, mechanism, phases, parts))

    def run(self, counts: Counts) -> NoisyResult:
        """Select with the first share of epsilon, measure with the second, combine both."""
        place = self.selection.count
        found = self.mechanism.run(counts.n[place])
        index, size = found.index, len(found.index)
        if isinstance(found, mechanisms.StableSet | mechanisms.OrderedThenSet):
            index = unknown.released(counts, found)
        threshold = None
        if isinstance(found, mechanisms.Hybrid) and found.reached_threshold:
            threshold = self.selection.threshold
        # The gap of a single group says nothing of its count, unless it ends at the threshold.
        gaps = self.mechanism if isinstance(self.mechanism, WithGaps) else None
        if size == 0 or (size == 1 and threshold is None):
            gaps = None

        def strategy(scale: Fraction) -> str:
            if gaps is None:
                return "EACH"
            return measuring.each_or_anchor(
                self.plan,
                gaps.noise,
                gaps.scale,
                size,
                resolution=gaps.resolution,
                measuring_scale=scale,
                threshold_scale=None if threshold is None else gaps.scale,
            )

        def combine(measured: mechanisms.Measured | None) -> Combined:
            if gaps is None:
                return measuring.plain(self.plan, measured)
            return from_top_k(
                found.gap,
                size,
                scale=gaps.scale,
                noise=gaps.noise,
                resolution=gaps.resolution,
                threshold=threshold,
                lowest=self.selection.lowest,
                confidence=measuring.confidence_of(self.plan),
                **measuring.measurement(measured),
            )

        estimates, measured = measuring.measure(
            self.plan, counts, index, self.parts, place, strategy, combine
        )
        loss = found.loss + measured
        if isinstance(self.mechanism, mechanisms.TopStable):
            return NoisyResult(index, loss, estimates)
        gap = np.full(size, np.nan)
        gap[: len(found.gap)] = found.gap
        return NoisyResult(index, loss, estimates, gap, _p_values(self.mechanism, gap))


def _mechanism(plan: Plan, selection: TopK, groups: int, phases: MeasuringPlan) -> Selecting:
    count, epsilon = plan.counts[selection.count], phases.selection_epsilon
    if plan.options.mechanism == "EXPONENTIAL":
        return mechanisms.Exponential.plan(
            groups,
            epsilon,
            sensitivity=count.bound,
            monotone=count.monotone,
            lowest=selection.lowest,
        )
    if selection.threshold is None:
        return mechanisms.NoisyTopK.plan(
            groups,
            phases.k,
            epsilon,
            sensitivity=count.bound,
            monotone=count.monotone,
            noise=phases.noise,
            lowest=selection.lowest,
        )
    return mechanisms.HybridTopK.plan(
        groups,
        selection.threshold,
        phases.k,
        epsilon,
        sensitivity=count.bound,
        monotone=count.monotone,
        noise=phases.noise,
    )


def _p_values(mechanism: Selecting, gap: NDArray[np.float64]) -> NDArray[np.float64] | None:
    match mechanism:
        case mechanisms.NoisyTopK() | mechanisms.LimitedDomain():
            return _significance(gap, mechanism.scale, mechanism.noise)
        case mechanisms.LimitedThenStable(limited=limited):
            return _significance(gap, limited.scale, limited.noise)
        case mechanisms.Exponential():
            return exponential_mechanism_p_value(gap, mechanism.scale) if mechanism.scale else gap
    return None


def _significance(gap: np.ndarray, scale: Fraction, noise: Noise) -> np.ndarray | None:
    """Return the p-values of gaps (NaN where there is no gap); None unless the noise is exponential."""
    if noise != "exponential":
        return None
    values = np.full(len(gap), np.nan)
    there = ~np.isnan(gap)
    if there.any():
        values[there] = p_value(gap[there], scale)
    return values


def _phases(plan: Plan, selection: TopK, shown: list[int], *, gaps: bool) -> MeasuringPlan:
    """Divide epsilon between selecting, with gaps that help or not, and measuring the counts shown."""
    options, known = plan.options, plan.domain_size is not None
    ordering, law = plan.counts[selection.count], NOISE[options.noise or "EXPONENTIAL"]
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
    return choose_measuring(
        min(selection.k, plan.groups) if known else selection.k,
        plan.epsilon,
        sensitivity=ordering.bound,
        monotone=ordering.monotone,
        noise=law if known else "exponential",
        measure=share,
        strategy="AUTO" if options.mechanism == "EXPONENTIAL" else options.measure_strategy or "AUTO",  # type: ignore[arg-type]  # one of the three words
        gaps=gaps,
        # With a threshold there is one more item, so that all groups are never all that takes part.
        domain_size=plan.domain_size if selection.threshold is None else None,
        # The geometric law is the exponential one on the grid of integers.
        grid=lambda noise, scale: mechanisms.usual_grid(
            "geometric" if noise == "exponential" and law == "geometric" else noise, scale
        ),
    )


def _quote(
    plan: Plan,
    selection: TopK,
    mechanism: Selecting,
    phases: MeasuringPlan,
    parts: dict[int, Fraction],
) -> Quote:
    split = "all for selecting"
    predicted = half = None
    if parts:
        how = {"ANCHOR": "one noisy total (ANCHOR)", "EACH": "one noisy count a group (EACH)"}
        split = (
            f"{float(phases.selection_epsilon):g} for selecting, {float(phases.measuring_epsilon):g} "
            f"for measuring {how.get(phases.strategy, '')}"
        )
        predicted, half = measuring.predicted(plan, phases, parts, selection.count)
    if not mechanism.scale:
        split = "all for measuring"
    match mechanism:
        case mechanisms.Exponential():
            words = "exponential mechanism with gap"
        case mechanisms.HybridTopK():
            words = "hybrid top-k with gap"
        case mechanisms.NoisyTopK():
            words = "noisy max with gap" if selection.argmax else "noisy top-k with gap"
            words += " of the lowest" * selection.lowest
        case mechanisms.LimitedDomain():
            words = "limited-domain top-k with gap"
        case mechanisms.LimitedThenStable():
            words = "limited-domain top-k with gap, then Top Stable"
        case mechanisms.TopStable():
            words = "Top Stable"
    charge = Charge(plan.epsilon, mechanism.loss.charge.delta)
    quote = Quote(
        charge,
        words,
        float(mechanism.scale),
        split,
        predicted,
        half,
        mechanism.distinguishable_gap(measuring.confidence_of(plan)),
    )
    if not isinstance(mechanism, unknown.Unknown):
        return quote
    return replace(quote, notes=unknown.notes(mechanism), outlook=unknown.outlook(mechanism))


def considered_over_unknown(plan: Plan, selection: TopK) -> tuple[Considered, ...]:
    """Return the mechanisms that could answer over keys without a declared domain, in a fixed order."""
    phases = _phases(plan, selection, measuring.wanted(plan, selection.count), gaps=True)

    def quote(named: Plan) -> Quote:
        return LargestGroups.of(named, selection).quote

    return unknown.considered(plan, selection, phases.selection_epsilon, quote)
