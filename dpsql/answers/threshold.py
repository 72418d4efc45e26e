"""Answer a threshold query on a public domain by a sparse vector; its gaps estimate counts at no charge."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.top_k import NOISE, Noise
from dpsql.estimates import Combined, SparseVectorLaw, from_threshold, sparse_vector_error
from dpsql.language import AboveThreshold, TopK
from dpsql.mechanisms.sparse_vector_plan import SparseVectorPlan, sparse_vector_plan
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.engines import Counts

__all__ = ["HybridVector", "SparseVectors"]


_FAR = 60
"""At this many scales above the threshold every group is a hit in the cheapest branch."""
_BELOW = 3
"""Distance below the threshold, in base scales, at which false rows are predicted."""
_FALSE_ROWS = 0.5
"""A note is added if more false rows than this are expected."""
_TOLERANCE = 0.005
"""A note is added if the coverage is below the confidence by more than this."""


@dataclass(frozen=True)
class SparseVectors:
    """Selects by a sparse vector with `branches` branches; `parts` maps a count's place to its epsilon."""

    plan: Plan
    selection: AboveThreshold | TopK
    branches: int
    noise: Noise
    selection_epsilon: Fraction
    parts: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: AboveThreshold | TopK, branches: int = 1) -> Self:
        """Divide the statement's epsilon; gaps estimate the counts unless `measure` requests measurements."""
        shown = measuring.wanted(plan, selection.count)
        others = [p for p in shown if plan.counts[p] != plan.counts[selection.count]]
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
        selection_epsilon = plan.epsilon * (1 - share)
        parts = measuring.divide(plan, shown if asked else others, plan.epsilon - selection_epsilon)
        noise = NOISE[plan.options.noise or "EXPONENTIAL"]
        made = cls(plan, selection, branches, noise, selection_epsilon, parts, _NOTHING)
        return replace(made, quote=made._quote(shown=len(others) < len(shown)))

    @property
    def _threshold(self) -> Fraction:
        return self.selection.threshold or Fraction(0)

    @property
    def _words(self) -> str:
        return "sparse vector with gap" if self.branches == 1 else "adaptive sparse vector with gap"

    @property
    def _limit(self) -> int | None:
        return self.selection.limit if isinstance(self.selection, AboveThreshold) else None

    @property
    def _hits(self) -> int:
        """Number of base hits that the budget pays for."""
        return self.plan.options.base_hits or self._limit or 1

    def _select(self, counts: Counts) -> mechanisms.SparseVector:
        """Run the selection; scan and stop depend on positions, so the counts must be in a public order."""
        count = self.plan.counts[self.selection.count]
        return mechanisms.adaptive_sparse_vector(
            counts.in_order(self.selection.count),
            self._threshold,
            self._hits,
            self.selection_epsilon,
            limit=self._limit,
            branches=self.branches,
            share=self.plan.options.threshold_share,
            sensitivity=count.bound,
            monotone=count.monotone,
            noise=self.noise,
        )

    def _run_plan(self) -> SparseVectorPlan:
        """Compute the plan of the run that `_select` makes, from public parameters alone."""
        count = self.plan.counts[self.selection.count]
        return sparse_vector_plan(
            self.plan.groups,
            self._threshold,
            self._hits,
            self.selection_epsilon,
            limit=self._limit,
            branches=self.branches,
            share=self.plan.options.threshold_share,
            margin=None,
            sensitivity=count.bound,
            monotone=count.monotone,
            noise=self.noise,
            resolution=None,
            below=False,
        )

    def _quote(self, *, shown: bool) -> Quote:
        """Quote a run; `shown`: whether the count compared with the threshold is released."""
        run = self._run_plan()
        law = SparseVectorLaw(
            run.noise,
            run.threshold_scale,
            run.scales,
            tuple(run.cutoffs.tolist()),
            tuple(float(offset) for offset in run.offsets),
            self._threshold,
            run.bits,
            run.hits,
            self.plan.groups,
            1 << (run.branches - 1),
            run.limit,
            float(run.share),
        )
        base = run.scales[-1]
        confidence = measuring.confidence_of(self.plan)
        apart = sparse_vector_error(
            run.threshold_scale,
            max(run.scales),
            self.plan.groups,
            branches=self.branches,
            confidence=confidence,
        )
        threshold = self.selection_epsilon * run.share
        rest = self.selection_epsilon - threshold
        split = f"{float(threshold):.4g} for the threshold, {float(rest):.4g} for the groups"
        if self.parts:
            split += f", {float(self.plan.epsilon - self.selection_epsilon):.4g} for measuring"
        spreads = law.stddevs()
        outlook = self._outlook(law, float(base))
        if shown and self.branches > 1:
            outlook = {"predicted_stddev_least": min(spreads), **outlook}
        return Quote(
            Charge(self.plan.epsilon),
            self._words,
            float(base),
            split,
            max(spreads) if shown else None,
            None,
            apart,
            self._notes(law, float(base), confidence, shown=shown),
            outlook,
        )

    def _outlook(self, law: SparseVectorLaw, base: float) -> dict[str, float]:
        """Predict charge and false rows where all groups lie far above, at, or below the threshold."""
        measured = float(self.plan.epsilon - self.selection_epsilon) if self.parts else 0.0
        selection_epsilon = float(self.selection_epsilon)
        far = law.at(_FAR * float(law.scales[0]) + _FAR * float(law.threshold_scale))
        return {
            "expected_charge_far_above": selection_epsilon * far.charge + measured,
            "expected_charge_at_threshold": selection_epsilon * law.at(0).charge + measured,
            "expected_false_rows": law.at(-_BELOW * base).rows,
        }

    def _notes(
        self, law: SparseVectorLaw, base: float, confidence: Fraction, *, shown: bool
    ) -> tuple[str, ...]:
        """Return notes on limits of the result's accuracy, from public parameters alone."""
        notes = []
        below = law.at(-_BELOW * base, confidence)
        if below.rows > _FALSE_ROWS:
            text = (
                f"groups below the threshold may come out: if all lie {_BELOW * base:.4g} below it, "
                f"{below.rows:.2g} rows are to be expected"
            )
            if shown:
                text += f", with counts {below.bias:.3g} too high on average"
            notes.append(text)
        covered = law.at(0, confidence).coverage
        if shown and covered < confidence - _TOLERANCE:
            notes.append(
                "the intervals are for groups chosen beforehand: given that a group is found, they cover "
                f"{math.floor(100 * covered)}% of counts at the threshold, and fewer below it"
            )
        return tuple(notes)

    def run(self, counts: Counts) -> NoisyResult:
        """Scan the groups in the domain's order; measure them if the quote includes it."""
        found = self._select(counts)
        scales = [found.scales[j] for j in found.branch.tolist()]

        def strategy(scale: Fraction) -> str:
            return measuring.each_or_anchor(
                self.plan,
                self.noise,
                found.scales[0],
                len(scales),
                resolution=found.resolution,
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
            self.plan, counts, found.index, self.parts, self.selection.count, strategy, combine
        )
        place = self.selection.count
        if estimates[place] is None:
            estimates = (*estimates[:place], combine(None, None), *estimates[place + 1 :])
        return NoisyResult(found.index, found.charge + charge, estimates, found.gap)


class HybridVector(SparseVectors):
    """Selects the largest groups above a threshold by the hybrid sparse vector (Algorithm 20), best first."""

    @property
    def _words(self) -> str:
        return "hybrid sparse vector with gap"

    @property
    def _hits(self) -> int:
        if not isinstance(self.selection, TopK):
            raise ValueError("a hybrid selects the top k")  # noqa: TRY004  the caller reads ValueError
        return self.selection.k

    def _select(self, counts: Counts) -> mechanisms.SparseVector:
        """Run the selection; ties are broken by random ranks, so the counts may be in any order."""
        count = self.plan.counts[self.selection.count]
        return mechanisms.hybrid_sparse_vector(
            counts.n[self.selection.count],
            self._threshold,
            self._hits,
            self.selection_epsilon,
            share=self.plan.options.threshold_share,
            sensitivity=count.bound,
            monotone=count.monotone,
            noise=self.noise,
        )


_NOTHING = Quote(Charge(), "", 0.0, "", None, None, None)
