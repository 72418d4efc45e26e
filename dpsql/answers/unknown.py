"""Answer top-k over keys without a declared domain by limited domain or Top Stable, at (epsilon, delta)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import mechanisms
from dpsql.analysis import max_candidates
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.table import picked
from dpsql.answers.top_k import NOISE, Noise, significance
from dpsql.estimates import (
    Combined,
    MeasuringPlan,
    choose_measuring,
    distinguishable_gap,
    from_measurements,
    from_top_k,
)
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.analysis import Plan
    from dpsql.engines import Counts
    from dpsql.language import TopK

__all__ = ["LimitedDomain", "TopStable"]

_NOTE = "fewer rows than asked for may come: a key is shown only when no single unit can have put it there"


def _delta(plan: Plan) -> Fraction:
    delta = plan.options.delta
    if delta is None:
        raise plan.query.source.refuse(
            "nobody declared which values the keys can have, so a delta is needed",
            plan.query.tree.args.get("group"),
            "OPTIONS (delta = 1e-6), or the owner declares the keys in [tables.NAME.domain]",
        )
    return delta


def _phases(plan: Plan, selection: TopK, noise: Noise, *, gaps: bool) -> tuple[MeasuringPlan, list[int]]:
    """Divide epsilon between selecting and measuring, as on a public domain."""
    ordering = plan.counts[selection.count]
    shown = measuring.wanted(plan, selection.count)
    share = measuring.share_of(plan)
    if not shown:
        share = share or Fraction(0)
    elif share == 0:
        raise plan.query.source.refuse(
            "measure = 0 pays for no count, and a count is selected",
            plan.options.at.get("measure"),
            "leave it out",
        )
    elif len(shown) > 1 and share is None:
        share = Fraction(1, 2)
    asked = plan.options.measure_strategy or "AUTO"
    phases = choose_measuring(
        selection.k,
        plan.epsilon,
        sensitivity=ordering.bound,
        noise=noise,
        measure=share,
        strategy=asked,  # type: ignore[arg-type]  # one of the three words
        gaps=gaps,
        grid=lambda noise, scale: mechanisms.usual_grid(_drawn(plan, noise), scale),
    )
    return phases, shown


def _drawn(plan: Plan, noise: Noise) -> Noise:
    """Return the law of the noise as drawn; the option GEOMETRIC means one-sided noise on whole counts."""
    return "geometric" if noise == "exponential" and plan.options.noise == "GEOMETRIC" else noise


def _split(phases: MeasuringPlan, parts: dict[int, Fraction]) -> str:
    if not parts:
        return "all for selecting"
    selecting, measured = float(phases.selection_epsilon), float(phases.measuring_epsilon)
    return f"{selecting:g} for selecting, {measured:g} for measuring"


def _descending(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.argsort(-counts, kind="stable")


@dataclass(frozen=True, slots=True)
class LimitedDomain:
    """Selects by limited-domain top-k with gap; the groups are ordered."""

    plan: Plan
    selection: TopK
    phases: MeasuringPlan
    delta: Fraction
    parts: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: TopK) -> LimitedDomain:
        """Divide the statement's epsilon; the delta is always spent in full."""
        if (plan.options.noise or "EXPONENTIAL") == "LAPLACE":
            raise plan.query.source.refuse(
                "the limited domain mechanism supports exponential noise only",
                plan.options.at.get("noise"),
                "leave noise out",
            )
        delta = _delta(plan)
        phases, shown = _phases(plan, selection, "exponential", gaps=True)
        parts = measuring.divide(plan, shown, phases.measuring_epsilon)
        scale = phases.selection_scale
        confidence = measuring.confidence_of(plan)
        split = _split(phases, parts)
        predicted, half = measuring.predicted(plan, phases, parts, selection.count)
        quote = Quote(
            Charge(plan.epsilon, delta),
            "limited-domain top-k with gap",
            float(scale),
            split,
            predicted,
            half,
            distinguishable_gap("exponential", scale, confidence, resolution=phases.resolution),
            (_NOTE,),
        )
        return cls(plan, selection, phases, delta, parts, quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Select among the largest groups, then measure the groups released."""
        ordering = self.plan.counts[self.selection.count]
        order = _descending(counts.n[self.selection.count])
        found = mechanisms.limited_domain(
            counts.n[self.selection.count][order],
            self.selection.k,
            self.phases.selection_epsilon,
            self.delta,
            candidates=max_candidates(self.selection.k, self.plan.options),
            threshold=self.selection.threshold,
            sensitivity=ordering.bound,
            resolution=0 if self.plan.options.noise == "GEOMETRIC" else None,
        )
        index = order[found.index]
        size = len(index)

        def strategy(scale: Fraction) -> str:
            if size < 2:
                return "EACH"
            return measuring.each_or_anchor(
                self.plan,
                "exponential",
                found.scale,
                size,
                resolution=found.resolution,
                measuring_scale=scale,
            )

        def combine(each: mechanisms.Laplace | None, anchor: mechanisms.Anchor | None) -> Combined:
            measured = each or anchor
            if measured is None:
                return from_measurements([], scale=1, confidence=measuring.confidence_of(self.plan))
            if size < 2 and each is not None:
                return measuring.plain(self.plan, each)
            # The last gap ends at a private cutoff, which is treated like the next group.
            return from_top_k(
                found.gap,
                size,
                scale=found.scale,
                resolution=found.resolution,
                each=None if each is None else each.value,
                anchor_total=None if anchor is None else anchor.total,
                measuring_scale=measured.scale,
                measuring_resolution=measured.resolution,
                confidence=measuring.confidence_of(self.plan),
            )

        estimates, charge = measuring.measure(
            self.plan, counts, index, self.parts, self.selection.count, strategy, combine
        )
        return NoisyResult(
            index,
            found.charge + charge,
            estimates,
            found.gap,
            significance(found.gap, found.scale, "exponential"),
        )


@dataclass(frozen=True, slots=True)
class TopStable:
    """Selects an unordered set by Top Stable; its rows are sorted by key."""

    plan: Plan
    selection: TopK
    phases: MeasuringPlan
    delta: Fraction
    parts: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: TopK) -> TopStable:
        """Divide the statement's epsilon; the delta is always spent in full."""
        source, options = plan.query.source, plan.options
        if selection.threshold is not None:
            raise source.refuse(
                "Top Stable does not support a threshold",
                options.at.get("mechanism"),
                "mechanism = LIMITED_DOMAIN",
            )
        for output in plan.outputs:
            if output.kind in ("gap", "p_value", "rank"):
                raise source.refuse(
                    f"{output.name}: Top Stable releases a set without order", options.at.get("mechanism")
                )
        delta = _delta(plan)
        phases, shown = _phases(plan, selection, "exponential", gaps=False)
        parts = measuring.divide(plan, shown, phases.measuring_epsilon)
        found = _stable(plan, selection, np.zeros(0, dtype=np.int64), phases.selection_epsilon, delta)
        split = _split(phases, parts)
        predicted, half = measuring.predicted(plan, phases, parts, selection.count)
        quote = Quote(
            Charge(plan.epsilon, delta),
            "Top Stable",
            float(found.scale),
            split,
            predicted,
            half,
            None,
            (_NOTE,),
        )
        return cls(plan, selection, phases, delta, parts, quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Select the largest stable set, then measure its groups."""
        order = _descending(counts.n[self.selection.count])
        found = _stable(
            self.plan,
            self.selection,
            counts.n[self.selection.count][order],
            self.phases.selection_epsilon,
            self.delta,
        )
        index = order[found.index]
        import pyarrow as pa  # noqa: PLC0415  as the next
        import pyarrow.compute as pc  # noqa: PLC0415  it takes a tenth of a cold start

        # Sorted by key, because the order of the counts was not charged for.
        by = [(name, "ascending") for name in counts.keys.column_names]
        shown = pa.table({name: picked(counts.keys.column(name), index) for name in counts.keys.column_names})
        index = index[pc.sort_indices(shown, sort_keys=by).to_numpy()] if len(index) else index

        def combine(each: mechanisms.Laplace | None, anchor: mechanisms.Anchor | None) -> Combined:
            del anchor
            if each is None:
                return from_measurements([], scale=1, confidence=measuring.confidence_of(self.plan))
            return measuring.plain(self.plan, each)

        estimates, charge = measuring.measure(
            self.plan, counts, index, self.parts, self.selection.count, lambda _: "EACH", combine
        )
        return NoisyResult(index, found.charge + charge, estimates)


def _stable(
    plan: Plan, selection: TopK, counts: NDArray[np.int64], epsilon: Fraction, delta: Fraction
) -> mechanisms.Stable:
    noise = NOISE[plan.options.noise or "EXPONENTIAL"]
    return mechanisms.top_stable(
        counts,
        selection.k,
        epsilon,
        delta,
        candidates=max_candidates(selection.k, plan.options),
        sensitivity=plan.counts[selection.count].bound,
        noise="laplace" if noise == "laplace" else "one-sided",
        resolution=0 if noise == "geometric" else None,
    )
