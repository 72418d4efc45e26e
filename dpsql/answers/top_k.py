"""Top-k and argmax on a public domain: noisy top-k with gap, then measuring, combined into one estimate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpsql import mechanisms
from dpsql.answers.method import Answer, Terms
from dpsql.charge import Charge
from dpsql.estimates import (
    Combined,
    MeasuringPlan,
    choose_measuring,
    choose_strategy,
    distinguishable_gap,
    from_measurements,
    from_top_k,
    p_value,
    split_measuring,
)

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.engines import Counts
    from dpsql.language import TopK

__all__ = ["NoisyTopK"]

Noise = Literal["exponential", "laplace", "geometric"]


@dataclass(frozen=True, slots=True)
class NoisyTopK:
    """Selects by noisy top-k; `parts` has each measured count's epsilon by its place."""

    plan: Plan
    reading: TopK
    k: int
    noise: Noise
    measuring: MeasuringPlan | None
    parts: dict[int, Fraction]
    terms: Terms

    @classmethod
    def of(cls, plan: Plan, reading: TopK) -> NoisyTopK:
        """Divide the statement's epsilon and predict the error."""
        options = plan.options
        noise: Noise = (options.noise or "EXPONENTIAL").lower()  # type: ignore[assignment]  # NOISES of the options
        ordering = plan.counts[reading.count]
        k = min(reading.k, plan.domain_size)
        wanted = _wanted(plan)
        share = None if options.measure in (None, "AUTO") else Fraction(options.measure)
        if not wanted:
            share = share or Fraction(0)
        elif share == 0:
            raise plan.query.source.refuse(
                "measure = 0 pays for no count, and a count is selected",
                options.at.get("measure"),
                "leave measure out, or select the keys alone",
            )
        elif len(wanted) > 1 and share is None:
            share = Fraction(1, 2)
        measuring = choose_measuring(
            k,
            plan.epsilon,
            sensitivity=ordering.bound,
            monotone=ordering.monotone,
            noise=noise,
            measure=share,
            strategy=options.measure_strategy or "AUTO",  # type: ignore[arg-type]  # one of the three words
            domain_size=plan.domain_size,
        )
        parts = _parts(plan, reading.count, wanted, measuring)
        terms = _terms(plan, reading, k, noise, measuring, parts)
        return cls(plan, reading, k, noise, measuring, parts, terms)

    def run(self, counts: Counts) -> Answer:
        """Select with the first budget, measure with the second, combine."""
        ordering = self.plan.counts[self.reading.count]
        assert self.measuring is not None  # noqa: S101  made by `of`
        found = mechanisms.noisy_top_k(
            counts.n[self.reading.count],
            self.k,
            self.measuring.selection_epsilon,
            sensitivity=ordering.bound,
            monotone=ordering.monotone,
            noise=self.noise,
            lowest=self.reading.lowest,
        )
        charge = found.charge
        size = len(found.index)
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        for place, epsilon in self.parts.items():
            count = self.plan.counts[place]
            exact = counts.n[place][found.index]
            scale = size * Fraction(count.bound) / epsilon
            if (
                place == self.reading.count
                and size > 1
                and self._strategy(scale, found.scale, size) == "ANCHOR"
            ):
                total = mechanisms.anchor(exact, scale, sensitivity=count.bound)
                charge += total.charge
                estimates[place] = self._combine(found, size, anchor=total)
            else:
                each = mechanisms.laplace(exact, scale, sensitivity=count.bound)
                charge += each.charge
                if place == self.reading.count and size > 1:
                    estimates[place] = self._combine(found, size, each=each)
                else:
                    estimates[place] = from_measurements(
                        each.value,
                        scale=each.scale,
                        resolution=each.resolution,
                        confidence=_confidence(self.plan),
                    )
        gap = np.full(size, np.nan)
        gap[: len(found.gap)] = found.gap
        significance = None
        if self.noise == "exponential" and len(found.gap):
            significance = np.full(size, np.nan)
            significance[: len(found.gap)] = p_value(found.gap, found.scale)
        return Answer(found.index, charge, tuple(estimates), gap, significance)

    def _strategy(self, scale: Fraction, selection: Fraction, size: int) -> str:
        asked = self.plan.options.measure_strategy or "AUTO"
        if asked != "AUTO":
            return asked
        return choose_strategy(self.noise, selection, size, measuring_scale=scale)

    def _combine(
        self,
        found: mechanisms.TopK,
        size: int,
        *,
        each: mechanisms.Laplace | None = None,
        anchor: mechanisms.Anchor | None = None,
    ) -> Combined:
        measured = each if each is not None else anchor
        assert measured is not None  # noqa: S101  one of the two is given
        return from_top_k(
            found.gap,
            size,
            scale=found.scale,
            noise=self.noise,
            resolution=found.resolution,
            lowest=self.reading.lowest,
            each=None if each is None else each.value,
            anchor_total=None if anchor is None else anchor.total,
            measuring_scale=measured.scale,
            measuring_resolution=measured.resolution,
            confidence=_confidence(self.plan),
        )


def _confidence(plan: Plan) -> Fraction:
    return plan.options.confidence or Fraction(95, 100)


def _wanted(plan: Plan) -> list[int]:
    """Return the places of the counts that are shown, in any form."""
    return sorted({o.of for o in plan.outputs if o.kind in ("count", "stddev", "low", "high")})


def _parts(plan: Plan, ordering: int, wanted: list[int], measuring: MeasuringPlan) -> dict[int, Fraction]:
    """Divide the measuring epsilon among the distinct counts that are shown; the ordering one comes first."""
    if not wanted or not measuring.measuring_epsilon:
        return {}
    distinct: dict[object, int] = {}
    for place in sorted(wanted, key=lambda p: (p != ordering, p)):
        distinct.setdefault(plan.counts[place], place)
    places = list(distinct.values())
    # A domain of one group leaves nothing to select: everything measures.
    epsilon = plan.epsilon if plan.domain_size == 1 else measuring.measuring_epsilon
    shares = split_measuring(epsilon, [plan.counts[p].bound for p in places])
    return dict(zip(places, shares, strict=True))


def _terms(
    plan: Plan, reading: TopK, k: int, noise: Noise, measuring: MeasuringPlan, parts: dict[int, Fraction]
) -> Terms:
    words = "noisy max with gap" if reading.argmax else "noisy top-k with gap"
    if reading.lowest:
        words = f"{words}, lowest"
    scale = measuring.selection_scale
    split = "all for selecting"
    predicted = half = None
    if parts:
        how = {"ANCHOR": "one noisy total (ANCHOR)", "EACH": "one noisy count a group (EACH)"}
        split = (
            f"{float(measuring.selection_epsilon):g} for selecting, {float(measuring.measuring_epsilon):g} "
            f"for measuring {how.get(measuring.strategy, '')}"
        )
        if len(parts) == 1:
            predicted, half = measuring.predicted_stddev, measuring.half_width(_confidence(plan))
    if plan.domain_size == 1:
        split, scale = "all for measuring", Fraction(0)
    apart = distinguishable_gap(noise, scale, _confidence(plan)) if scale else None
    return Terms(Charge(plan.epsilon), words, float(scale), split, predicted, half, apart)
