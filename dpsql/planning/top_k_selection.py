"""Answer top-k and argmax: select the largest groups, and estimate their counts by gaps and measurements.

The joint exponential mechanism is used only when it is named; mechanisms that choose round by round divide
the cost of a selection.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.analysis.epsilon_division import EpsilonDivision
from dpsql.estimates import (
    Combined,
    GapNoise,
    Measurement,
    exponential_mechanism_p_value,
    from_measurement,
    from_top_k,
    measuring_share,
    p_value,
)
from dpsql.estimates.predictions import clear_gap
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import GumbelTopK, Joint, PeeledTopK
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.release import Run
from dpsql.language import TopK
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests, unknown_keys
from dpsql.planning.measuring import Measuring
from dpsql.planning.method import NoisyResult, Quote
from dpsql.planning.noise_shares import divide_among
from dpsql.planning.plan_requests import refuse_option


def plan_joint(plan: Plan, selection: TopK, epsilon: Fraction) -> Joint:
    """Plan the mechanism; refuse outputs that it does not have, and an option that would have no effect."""
    options = plan.options
    _refuse_gaps(plan, "the joint exponential mechanism", "NOISY_TOP_K")
    if options.noise not in (None, "GAUSSIAN"):
        raise refuse_option(plan, "noise", "option noise has no meaning for mechanism JOINT", "leave it out")
    ranged = EpsilonDivision(epsilon, plan.epsilon_division.order).ranged_epsilon()
    return Joint.plan(plan.groups, selection.k, ranged, **_moves(plan, selection))


def _refuse_gaps(plan: Plan, words: str, other: str) -> None:
    """Refuse gaps and p-values of a mechanism that has none."""
    for output in plan.outputs:
        if output.kind in ("gap", "p_value"):
            said, at = f"{output.name}: {words} has no gaps", plan.options.at.get("mechanism")
            raise plan.query.source.refuse(said, at, f"mechanism = {other}")


def _moves(plan: Plan, selection: TopK) -> dict[str, Any]:
    """Return how a unit moves the counts by which groups are selected, and which are, as plans take it."""
    sensitivity, monotone = plan.counts[selection.count].difference
    return {"sensitivity": sensitivity, "monotone": monotone, "lowest": selection.lowest}


def plan_rounds(plan: Plan, selection: TopK, groups: int, epsilon: Fraction) -> PeeledTopK | GumbelTopK:
    """Plan a top-k by rounds at the cost of an epsilon; refuse outputs that it does not have."""
    layout = EpsilonDivision(epsilon, plan.epsilon_division.order)
    rounds = max(1, min(selection.k, groups - 1))
    moves, noise = _moves(plan, selection), NOISE[plan.options.noise or "EXPONENTIAL"]
    if plan.options.mechanism == "PEELED_TOP_K":
        total = rounds * layout.pure_epsilon(times=rounds)
        return PeeledTopK.plan(groups, selection.k, total, noise=noise, **moves)
    _refuse_gaps(plan, "Gumbel top-k", "PEELED_TOP_K")
    return GumbelTopK.plan(groups, selection.k, rounds * layout.ranged_epsilon(times=rounds), **moves)


Noise = Literal["exponential", "laplace", "geometric"]
NOISE: dict[str, Noise] = {
    "EXPONENTIAL": "exponential",
    "LAPLACE": "laplace",
    "GEOMETRIC": "geometric",
    "GAUSSIAN": "exponential",  # that of measured counts
}

WithGaps = mechanisms.NoisyTopK | mechanisms.HybridTopK | mechanisms.LimitedDomain
"""Mechanisms whose gaps estimate the counts of several groups."""

ByRounds = mechanisms.PeeledTopK | mechanisms.GumbelTopK
"""Mechanisms whose rounds are charged one by one; they are for statements whose cost is divided."""

OverSparse = mechanisms.NoisyTopK | mechanisms.HybridTopK | mechanisms.PeeledTopK
"""Mechanisms that take the counts of a domain of which only groups with rows are listed."""

Selecting = WithGaps | ByRounds | mechanisms.Exponential | mechanisms.Joint | unknown_keys.Unknown


@dataclass(frozen=True, slots=True)
class LargestGroups:
    """Selects the largest groups, measures them, and combines measurements with the gaps if there are any."""

    plan: Plan
    selection: TopK
    mechanism: Selecting
    measuring: Measuring
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: TopK) -> LargestGroups:
        """Divide the statement's epsilon between selecting and measuring, and predict the error."""
        shown, most = plan_requests.places_to_measure(plan, selection.count), _most(plan, selection)
        share = _share(plan, selection, shown)
        first, second = (plan.epsilon_division.epsilon_of(each) for each in (1 - share, share))
        if plan.domain_size is None:
            mechanism: Selecting = unknown_keys.plan_unknown(plan, selection, first)
        else:
            mechanism = _mechanism(plan, selection, plan.domain_size, first)
        if plan.sparse and isinstance(mechanism, OverSparse) and mechanism.scale:
            mechanisms.check_sparse(mechanism.noise, mechanism.scale, mechanism.resolution)
        # If there is nothing to select, all of epsilon measures.
        second = second if mechanism.scale or not shown else plan.epsilon
        measured = Measuring.of(plan, selection.count, shown, second, most=most)
        return cls(plan, selection, mechanism, measured, _quote(plan, selection, mechanism, measured))

    def run(self, run: Run) -> NoisyResult:
        """Select with the first share of epsilon, measure with the second, combine both."""
        mechanism: Mechanism[Any] = self.mechanism
        selected = run.select(mechanism, self.selection.count)
        found, rows = selected.found, selected.rows
        size, threshold = len(rows), None
        if isinstance(found, mechanisms.Hybrid) and found.reached_threshold:
            threshold = self.selection.threshold
        gaps: NDArray[np.float64] = getattr(found, "gap", np.zeros(0))  # some choose without gaps
        # The gap of a single group says nothing of its count, unless it ends at the threshold.
        noise = None if size == 1 and threshold is None else _gap_noise(self.mechanism)

        def combine(measured: Measurement | None, confidence: Fraction) -> Combined:
            if measured is None:
                return Combined.empty()
            if noise is None:
                return from_measurement(measured)
            return from_top_k(
                gaps,
                size,
                noise,
                measured,
                threshold=threshold,
                lowest=self.selection.lowest,
                confidence=confidence,
            )

        estimates, values = self.measuring.run(run, rows, combine)
        if _is_gapless(self.mechanism):
            return NoisyResult(rows, estimates, values)
        gap = np.full(size, np.nan)
        gap[: len(gaps)] = gaps
        return NoisyResult(rows, estimates, values, gap, _p_values(self.mechanism, gap))


def _most(plan: Plan, selection: TopK) -> int:
    """Return the largest number of groups that can be selected."""
    return selection.k if plan.domain_size is None else min(selection.k, plan.domain_size)


def _is_gapless(mechanism: Selecting) -> bool:
    """Whether a mechanism releases groups alone."""
    if isinstance(mechanism, mechanisms.TopStable):
        return mechanism.choice is None
    return isinstance(mechanism, (mechanisms.Joint, mechanisms.GumbelTopK))


def _gap_noise(mechanism: Selecting) -> GapNoise | None:
    """Return the noise of gaps that estimate counts; None if there are no such gaps."""
    if isinstance(mechanism, mechanisms.TopStable) and mechanism.choice is not None:
        mechanism = mechanism.choice
    if not isinstance(mechanism, WithGaps) or not mechanism.scale:
        return None
    return GapNoise(mechanism.noise, mechanism.scale, mechanism.resolution)


def _mechanism(plan: Plan, selection: TopK, groups: int, epsilon: Fraction) -> Selecting:
    moves, most = _moves(plan, selection), _most(plan, selection)
    noise = NOISE[plan.options.noise or "EXPONENTIAL"]
    if plan.options.mechanism == "JOINT":
        return plan_joint(plan, selection, epsilon)
    if plan.options.mechanism == "EXPONENTIAL":
        return mechanisms.Exponential.plan(groups, epsilon, **moves)
    if plan.options.mechanism in {"GUMBEL_TOP_K", "PEELED_TOP_K"}:
        return plan_rounds(plan, selection, groups, epsilon)
    if selection.threshold is None:
        return mechanisms.NoisyTopK.plan(groups, most, epsilon, noise=noise, **moves)
    del moves["lowest"]  # a threshold has groups above it alone
    return mechanisms.HybridTopK.plan(groups, selection.threshold, most, epsilon, noise=noise, **moves)


def _p_values(mechanism: Selecting, gap: NDArray[np.float64]) -> NDArray[np.float64] | None:
    match mechanism:
        case mechanisms.NoisyTopK() | mechanisms.PeeledTopK() | mechanisms.LimitedDomain():
            return _significance(gap, mechanism.scale, mechanism.noise)
        case mechanisms.LimitedThenStable(limited=limited):
            return _significance(gap, limited.scale, limited.noise)
        case mechanisms.TopStable(choice=mechanisms.NoisyTopK() as choice):
            return _significance(gap, choice.scale, choice.noise)
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


def _share(plan: Plan, selection: TopK, shown: list[int]) -> Fraction:
    """Return the share of epsilon that measures the counts shown."""
    options, known = plan.options, plan.domain_size is not None
    share, strategy = plan_requests.asked_share(plan), plan_requests.strategy_of(plan)
    if strategy == "ANCHOR" and options.mechanism == "JOINT":
        raise ValueError("an ANCHOR needs the gaps of an ordered selection")
    if not shown:
        return share or Fraction(0)
    if share == 0:
        raise refuse_option(
            plan,
            "measure",
            "measure = 0 pays for no count, and a count is selected",
            "leave measure out, or select the keys alone",
        )
    if share is not None:
        return share
    if plan.epsilon_division.order is not None or (strategy == "ANCHOR" and len(shown) > 1):
        return Fraction(1, 2)
    # Numbers with noise of their own have the share of one each: else each of two had half of it.
    numbers = len(divide_among(plan, shown, Fraction(1), _most(plan, selection)))
    share = measuring_share(
        strategy,
        _most(plan, selection),
        monotone=plan.counts[selection.count].monotone
        or plan.counts[selection.count].noise_group is not None,
        noise=NOISE[options.noise or "EXPONENTIAL"] if known else "exponential",
        # With a threshold there is one more item, so that all groups are never all that takes part.
        domain_size=plan.domain_size if selection.threshold is None else None,
    )
    return numbers * share / (numbers * share + 1 - share)


def _quote(plan: Plan, selection: TopK, mechanism: Selecting, second: Measuring) -> Quote:
    split = "all for selecting"
    predicted = half = None
    if second.places:
        noise, most = _gap_noise(mechanism), _most(plan, selection)
        if noise is not None and isinstance(mechanism, mechanisms.HybridTopK) and most == plan.domain_size:
            noise = noise.over_threshold()  # all groups come before it, or it was reached
        first, rest, of = plan.epsilon - second.epsilon, second.epsilon, ""
        if plan.epsilon_division.order is not None:
            share = _share(plan, selection, second.places)
            first, rest, of = 1 - share, share, " of its cost"
        split = f"{float(first):g}{of} for selecting, {float(rest):g} for measuring {second.words}"
        predicted, half = second.predict(most, noise)
    if not mechanism.scale:
        split = "all for measuring"
    match mechanism:
        case mechanisms.Exponential():
            words = "exponential mechanism with gap"
        case mechanisms.HybridTopK():
            words = "hybrid top-k with gap"
        case mechanisms.NoisyTopK():
            words = plan_requests.name_noisy_order(selection)
        case mechanisms.PeeledTopK():
            words = "peeled top-k with gap" + " of the lowest" * selection.lowest
        case mechanisms.GumbelTopK():
            words = "Gumbel top-k" + " of the lowest" * selection.lowest
        case mechanisms.LimitedDomain():
            words = "limited-domain top-k with gap"
        case mechanisms.LimitedThenStable():
            words = "limited-domain top-k with gap, then Top Stable"
        case mechanisms.TopStable():
            words = "Top Stable"
        case mechanisms.Joint():
            words = "joint exponential mechanism" + " of the lowest" * selection.lowest
    charge = Charge(plan.price, mechanism.loss.delta)
    quote = Quote(
        charge,
        words,
        float(mechanism.scale * plan.counts[selection.count].step),
        split,
        predicted,
        half,
        _in_unit(plan, selection, clear_gap(mechanism, plan_requests.confidence_of(plan))),
        errors=second.errors(_most(plan, selection), _gap_noise(mechanism)),
        measured_by=second.measured_by,
        divided=None if plan.epsilon_division.order is None else mechanism.loss + second.loss,
    )
    if not isinstance(mechanism, unknown_keys.Unknown):
        return quote
    return replace(quote, notes=unknown_keys.notes(mechanism), outlook=unknown_keys.outlook(mechanism))


def _in_unit(plan: Plan, selection: TopK, difference: float | None) -> float | None:
    """Return a difference of counts in the unit of the number that orders the groups."""
    return None if difference is None else difference * float(plan.counts[selection.count].step)


def choose_over_unknown(plan: Plan, selection: TopK) -> tuple[str, str]:
    """Return the mechanism that AUTO takes over keys without a declared domain, and why, in a few words."""
    first = plan.epsilon_division.epsilon_of(
        1 - _share(plan, selection, plan_requests.places_to_measure(plan, selection.count))
    )
    return unknown_keys.choose_unknown(plan, selection, first)
