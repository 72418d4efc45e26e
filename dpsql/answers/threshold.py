"""Above threshold on a public domain: the sparse vector family, whose gaps are free estimates of counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.method import Answer, Terms
from dpsql.answers.top_k import NOISE, Noise
from dpsql.charge import Charge
from dpsql.estimates import Combined, choose_strategy, from_threshold, sparse_vector_error
from dpsql.language import AboveThreshold, TopK

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpsql.analysis import Plan
    from dpsql.engines import Counts

__all__ = ["HybridVector", "SparseVectors"]


@dataclass(frozen=True)
class SparseVectors:
    """Selects by sparse vector with `branches` branches (1: plain); `parts` as in top-k."""

    plan: Plan
    reading: AboveThreshold | TopK
    branches: int
    noise: Noise
    selection: Fraction
    parts: dict[int, Fraction]
    terms: Terms

    @classmethod
    def of(cls, plan: Plan, reading: AboveThreshold | TopK, branches: int = 1) -> Self:
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

    @property
    def _threshold(self) -> Fraction:
        return self.reading.threshold or Fraction(0)

    @property
    def _words(self) -> str:
        return "sparse vector with gap" if self.branches == 1 else "adaptive sparse vector with gap"

    def _select(self, counts: ArrayLike) -> mechanisms.SparseVector:
        count = self.plan.counts[self.reading.count]
        limit = self.reading.limit if isinstance(self.reading, AboveThreshold) else None
        return mechanisms.adaptive_sparse_vector(
            counts,
            self._threshold,
            self.plan.options.base_hits or limit or 1,
            self.selection,
            limit=limit,
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
        threshold = self.selection * empty.share
        rest = self.selection - threshold
        split = f"{float(threshold):.4g} for the threshold, {float(rest):.4g} for the groups"
        if self.parts:
            split += f", {float(self.plan.epsilon - self.selection):.4g} for measuring"
        return Terms(Charge(self.plan.epsilon), self._words, float(base), split, spread, None, apart)

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
                self._threshold,
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


class HybridVector(SparseVectors):
    """The largest groups above a threshold by the hybrid sparse vector (Algorithm 20): best first."""

    @property
    def _words(self) -> str:
        return "hybrid sparse vector with gap"

    def _select(self, counts: ArrayLike) -> mechanisms.SparseVector:
        if not isinstance(self.reading, TopK):
            raise ValueError("a hybrid selects the top k")  # noqa: TRY004  the caller reads ValueError
        count = self.plan.counts[self.reading.count]
        return mechanisms.hybrid_sparse_vector(
            counts,
            self._threshold,
            self.reading.k,
            self.selection,
            share=self.plan.options.threshold_share,
            sensitivity=count.bound,
            monotone=count.monotone,
            noise=self.noise,
        )


_NOTHING = Terms(Charge(), "", 0.0, "", None, None, None)
