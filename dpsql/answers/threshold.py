"""Above threshold on a public domain: the sparse vector family, whose gaps are free estimates of counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.method import Answer, Terms
from dpsql.answers.top_k import NOISE, Noise
from dpsql.charge import Charge
from dpsql.estimates import Combined, choose_strategy, from_threshold, sparse_vector_error

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.engines import Counts
    from dpsql.language import AboveThreshold

__all__ = ["SparseVectors"]


@dataclass(frozen=True, slots=True)
class SparseVectors:
    """Selects by sparse vector with `branches` branches (1: plain); `parts` as in top-k."""

    plan: Plan
    reading: AboveThreshold
    branches: int
    noise: Noise
    selection: Fraction
    parts: dict[int, Fraction]
    terms: Terms

    @classmethod
    def of(cls, plan: Plan, reading: AboveThreshold, branches: int) -> SparseVectors:
        """Divide the statement's epsilon; counts come free from the gaps unless `measure` asks for more."""
        shown = measuring.wanted(plan, reading.count)
        others = [p for p in shown if plan.counts[p] != plan.counts[reading.count]]
        share = measuring.share_of(plan)
        if share is None:
            share = Fraction(1, 2) if others else Fraction(0)
        elif share == 0 and others:
            raise plan.query.source.refuse(
                "only the count compared with the threshold is free: measure = 0 pays for no other",
                plan.options.at.get("measure"),
                "leave measure out",
            )
        asked = plan.options.measure not in (None, "AUTO")
        selection = plan.epsilon * (1 - share)
        parts = measuring.divide(plan, shown if asked else others, plan.epsilon - selection)
        noise = NOISE[plan.options.noise or "EXPONENTIAL"]
        made = cls(plan, reading, branches, noise, selection, parts, _NOTHING)
        return cls(plan, reading, branches, noise, selection, parts, made._terms())

    def _base_hits(self) -> int:
        return self.plan.options.base_hits or self.reading.limit or 1

    def _select(self, counts: object) -> mechanisms.SparseVector:
        count = self.plan.counts[self.reading.count]
        return mechanisms.adaptive_sparse_vector(
            counts,  # type: ignore[arg-type]  # int64 array
            self.reading.threshold,
            self._base_hits(),
            self.selection,
            limit=self.reading.limit,
            branches=self.branches,
            share=self.plan.options.threshold_share,
            sensitivity=count.bound,
            monotone=count.monotone,
            noise=self.noise,
        )

    def _terms(self) -> Terms:
        # A run on no data at all has the scales of any run: they depend on public parameters alone.
        empty = self._select([0] * self.plan.groups)
        base = empty.scales[0]
        spread = float(empty.threshold_scale**2 + base**2) ** 0.5 * (2**0.5 if self.noise == "laplace" else 1)
        confidence = measuring.confidence_of(self.plan)
        apart = sparse_vector_error(
            empty.threshold_scale,
            max(empty.scales),
            self.plan.groups,
            branches=self.branches,
            confidence=confidence,
        )
        words = "sparse vector with gap" if self.branches == 1 else "adaptive sparse vector with gap"
        threshold = self.selection * empty.share
        rest = self.selection - threshold
        split = f"{float(threshold):.4g} for the threshold, {float(rest):.4g} for the groups"
        if self.parts:
            split += f", {float(self.plan.epsilon - self.selection):.4g} for measuring"
        return Terms(Charge(self.plan.epsilon), words, float(base), split, spread, None, apart)

    def run(self, counts: Counts) -> Answer:
        """Scan the groups in the domain's order; measure if that was paid for."""
        found = self._select(counts.n[self.reading.count])
        scales = [found.scales[j] for j in found.branch.tolist()]

        def strategy(scale: Fraction) -> str:
            asked = self.plan.options.measure_strategy or "AUTO"
            if asked != "AUTO":
                return asked
            return choose_strategy(
                self.noise,
                found.scales[0],
                len(scales),
                measuring_scale=scale,
                threshold_scale=found.threshold_scale,
            )

        def combine(each: mechanisms.Laplace | None, anchor: mechanisms.Anchor | None) -> Combined:
            measured = each or anchor
            return from_threshold(
                found.gap,
                self.reading.threshold,
                scale=scales,
                threshold_scale=found.threshold_scale,
                noise=self.noise,
                resolution=found.resolution,
                each=None if each is None else each.value,
                anchor_total=None if anchor is None else anchor.total,
                measuring_scale=None if measured is None else measured.scale,
                measuring_resolution=None if measured is None else measured.resolution,
                confidence=measuring.confidence_of(self.plan),
            )

        estimates, charge = measuring.measure(
            self.plan, counts, found.index, self.parts, self.reading.count, strategy, combine
        )
        place = self.reading.count
        if estimates[place] is None:
            estimates = (*estimates[:place], combine(None, None), *estimates[place + 1 :])
        return Answer(found.index, found.charge + charge, estimates, found.gap)


_NOTHING = Terms(Charge(), "", 0.0, "", None, None, None)
