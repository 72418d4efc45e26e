"""Answer a threshold query on a public domain by a sparse vector; its gaps estimate counts at no charge."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.analysis import Plan
from dpsql.analysis.epsilon_division import EpsilonDivision
from dpsql.estimates import (
    Combined,
    GapNoise,
    Measurement,
    SparseVectorLaw,
    from_measurement,
    from_threshold,
    with_noun,
)
from dpsql.estimates.predictions import clear_gap
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVectorPlan
from dpsql.kernel.release import Run
from dpsql.language import AboveThreshold, TopK
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests
from dpsql.planning.measuring import Measuring
from dpsql.planning.method import AtDistance, NoisyResult, Quote
from dpsql.planning.plan_requests import refuse_option
from dpsql.planning.top_k_selection import NOISE

_FAR = 60
"""At this many scales above the threshold every group is a hit in the cheapest branch."""
_BELOW = 3
"""Distance below the threshold, in base scales, at which false rows are predicted."""
_FALSE_ROWS = 0.5
"""A note is added if more false rows than this are expected."""
_DISTANCES = {"3_scales_below": -_BELOW, "at_threshold": 0, "3_scales_above": 3, "30_scales_above": 30}
"""Distances in base scales for which EXPLAIN predicts rows, errors and charges."""


Scanning = mechanisms.AdaptiveSparseVector | mechanisms.HybridSparseVector | mechanisms.SparseVectorByRounds


@dataclass(frozen=True, slots=True)
class SparseVectors:
    """Selects groups above a threshold by a sparse vector, and measures them if requested."""

    plan: Plan
    selection: AboveThreshold | TopK
    mechanism: Scanning
    measuring: Measuring
    quote: Quote

    @classmethod
    def of(
        cls, plan: Plan, selection: AboveThreshold | TopK, *, branches: int = 1, rounds: bool = False
    ) -> SparseVectors:
        """Divide the statement's epsilon; gaps estimate the counts unless `measure` requests measurements.

        With `rounds`, each hit has a threshold of its own.
        """
        if plan.counts[selection.count].noise_group is not None:
            raise ValueError("a sparse vector compares counts, not sums")
        shown = plan_requests.places_to_measure(plan, selection.count)
        others = [p for p in shown if plan.equal[p] != plan.equal[selection.count]]
        share = plan_requests.asked_share(plan)
        if share is None:
            share = Fraction(1, 2) if others else Fraction(0)
        elif share == 0 and others:
            raise refuse_option(
                plan,
                "measure",
                "only the count compared with the threshold is free: measure = 0 pays for no other",
                "leave measure out",
            )
        asked = plan.options.measure not in (None, "AUTO")
        selecting, measured = (plan.epsilon_division.epsilon_of(each) for each in (1 - share, share))
        mechanism = _mechanism(plan, selection, selecting, branches, rounds=rounds)
        limit = selection.limit if isinstance(selection, AboveThreshold) else selection.k
        most = min(limit or plan.groups, plan.groups)
        places = shown if asked else others
        second = Measuring.of(plan, selection.count, places, measured, most=most)
        quote = _quote(second, selection, mechanism, most, shown=len(others) < len(shown))
        return cls(plan, selection, mechanism, second, quote)

    def run(self, run: Run) -> NoisyResult:
        """Select the groups; measure them if the quote includes it."""
        mechanism, place = self.mechanism, self.selection.count
        selected = run.select(mechanism, place)
        found, rows = selected.found, selected.rows
        noise = _gaps(mechanism, tuple(mechanism.scales[j] for j in found.branch.tolist()))
        least, plain = mechanism.least_gaps(found), mechanism.ordered and len(mechanism.scales) == 1

        def combine(measured: Measurement | None, confidence: Fraction) -> Combined:
            level = self.selection.threshold or 0
            if measured is not None and isinstance(mechanism, mechanisms.SparseVectorByRounds):
                return from_measurement(measured)  # the gaps have no common threshold
            return from_threshold(
                found.gap, level, noise, measured, least=least, plain=plain, confidence=confidence
            )

        estimates, values = self.measuring.run(run, rows, combine)
        if estimates[place] is None:
            # What all rows may miss together is divided among the most that there can be: how many are
            # found depends on the noise of each.
            both = combine(None, plan_requests.level_at_once(self.plan, self._most))
            alone = combine(None, plan_requests.confidence_of(self.plan)).at_once(both)
            estimates = (*estimates[:place], alone, *estimates[place + 1 :])
        released = estimates[place]
        assert released is not None  # noqa: S101  it was combined above, measured or not
        doubtful = int((~(released.low >= float(self.selection.threshold or 0))).sum())
        notes = (f"{doubtful} of {len(found.gap)} rows may lie below the threshold",) if doubtful else ()
        answer = NoisyResult(rows, estimates, values, found.gap, notes=notes)
        return self._sort(answer, released)

    @property
    def _most(self) -> int:
        """The greatest number of groups that the search can find."""
        limit = self.selection.limit if isinstance(self.selection, AboveThreshold) else self.selection.k
        return min(limit or self.plan.groups, self.plan.groups)

    def _sort(self, answer: NoisyResult, compared: Combined) -> NoisyResult:
        """Sort rows by the count that was compared, the largest first, unless the statement orders them.

        It follows from what is released, so it costs nothing.
        """
        if not isinstance(self.selection, AboveThreshold) or self.selection.order:
            return answer
        order = np.argsort(-compared.value, kind="stable")
        counts = tuple(each and each.take(order) for each in answer.counts)
        values = {key: each.take(order) for key, each in answer.values.items()}
        gap = None if answer.gap is None else answer.gap[order]
        return replace(answer, rows=answer.rows.take(order), counts=counts, values=values, gap=gap)


def _mechanism(
    plan: Plan, selection: AboveThreshold | TopK, epsilon: Fraction, branches: int, *, rounds: bool
) -> Scanning:
    count, threshold = plan.counts[selection.count], selection.threshold or 0
    options: dict[str, Any] = {
        "share": plan.options.threshold_share,
        "sensitivity": count.bound,
        "monotone": count.monotone,
        "noise": NOISE[plan.options.noise or "EXPONENTIAL"],
    }
    if isinstance(selection, TopK):
        return mechanisms.HybridSparseVector.plan(plan.groups, threshold, selection.k, epsilon, **options)
    hits = plan.options.base_hits or selection.limit or 1
    if rounds:
        k = min(selection.limit or hits, plan.groups)
        each = EpsilonDivision(epsilon, plan.epsilon_division.order).pure_epsilon(times=k)
        return mechanisms.SparseVectorByRounds.plan(plan.groups, threshold, k, k * each, **options)
    return mechanisms.AdaptiveSparseVector.plan(
        plan.groups, threshold, hits, epsilon, limit=selection.limit, branches=branches, **options
    )


def _gaps(mechanism: SparseVectorPlan, scale: Fraction | tuple[Fraction, ...]) -> GapNoise:
    return GapNoise(mechanism.noise, scale, mechanism.resolution, mechanism.threshold_scale)


def law_of_run(mechanism: SparseVectorPlan, threshold: Fraction) -> SparseVectorLaw:
    """Return the law of a run of a planned mechanism."""
    return SparseVectorLaw(
        mechanism.noise,
        mechanism.threshold_scale,
        mechanism.scales[::-1],
        mechanism.cutoffs[::-1],
        tuple(float(offset) for offset in mechanism.offsets[::-1]),
        threshold,
        mechanism.resolution,
        mechanism.hits,
        mechanism.groups,
        1 << (len(mechanism.scales) - 1),
        mechanism.limit,
        float(mechanism.share),
        isinstance(mechanism, mechanisms.SparseVectorByRounds),
    )


def _quote(
    second: Measuring, selection: AboveThreshold | TopK, mechanism: Scanning, most: int, *, shown: bool
) -> Quote:
    """Quote a run that measures at most `most` rows; `shown`: the compared count is released."""
    plan, selecting = second.plan, mechanism.loss.charge.epsilon
    law, branches = law_of_run(mechanism, selection.threshold or Fraction(0)), len(mechanism.scales)
    base, confidence = float(mechanism.scales[0]), plan_requests.confidence_of(plan)
    words = "hybrid sparse vector with gap"
    gaps = None if law.rounds else _gaps
    if law.rounds:
        words = "sparse vector by rounds with gap"
    elif mechanism.ordered:
        words = "sparse vector with gap" if branches == 1 else "adaptive sparse vector with gap"
    measured = second.epsilon if second.places else Fraction(0)
    threshold = selecting * mechanism.share
    split = f"{float(threshold):.4g} for the threshold, {float(selecting - threshold):.4g} for the groups"
    if measured:
        split += f", {float(measured):.4g} for measuring"
    if plan.epsilon_division.order is not None:
        share = plan_requests.asked_share(plan)
        rest = Fraction(1, 2) if share is None else share
        split = f"{float(1 - rest):g} of its cost for selecting, {float(rest):g} for measuring"
        split = split if measured else "all for selecting"
    spreads, below, width = law.stddevs()[::-1], law.at(-_BELOW * base), None
    alone = shown and not (second.places and plan.counts[second.places[0]] == plan.counts[selection.count])
    outlook = _outlook(law, mechanism, float(selecting), float(measured), alone=alone)
    outlook["expected_false_rows"] = below.rows
    if second.places and not alone:
        predicted = [second.predict(most, gaps and gaps(mechanism, scale)) for scale in mechanism.scales]
        spreads, width = [each[0] or 0.0 for each in predicted], predicted[0][1]
    if shown and branches > 1:
        outlook["predicted_stddev"] = (spreads[0], spreads[-1])
    notes: tuple[str, ...] = ()
    if below.rows > _FALSE_ROWS:
        text = (
            f"groups below the threshold may come out: if all lie {_BELOW * base:.4g} below it, "
            f"{with_noun(f'{below.rows:.2g}', 'row', 'are')} to be expected"
        )
        if alone and mechanism.ordered:
            text += f", with counts {below.bias:.3g} too high on average"
        notes = (text,)
    return Quote(
        Charge(plan.price),
        words,
        base,
        split,
        max(spreads) if shown else None,
        width,
        clear_gap(mechanism, confidence),
        notes,
        second.errors(most, None),
        second.measured_by,
        outlook,
        None if plan.epsilon_division.order is None else mechanism.loss + second.loss,
    )


def _outlook(
    law: SparseVectorLaw, mechanism: SparseVectorPlan, selecting: float, measured: float, *, alone: bool
) -> dict[str, float | tuple[float, float] | AtDistance]:
    """Predict rows and charges by the distance of the groups; and deviations if gaps `alone` estimate."""
    base = float(mechanism.scales[0])
    far, near = law.at(_FAR * (float(law.scales[0]) + float(law.threshold_scale))), law.at(0)
    found: dict[str, float | tuple[float, float] | AtDistance] = {
        "expected_charge": (selecting * far.charge + measured, selecting * near.charge + measured)
    }
    for name, scales in _DISTANCES.items():
        at = law.at(scales * base)
        # The largest of the hits have another law, which depends on how many there are.
        spread = at.stddev if at.hit and alone and mechanism.ordered else None
        found[name] = AtDistance(scales * base, at.rows, at.hit, spread, at.cost if at.hit else None)
    return found
