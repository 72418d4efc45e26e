"""Hits of the sparse vector family, through the shipped code: intervals given the hit, and predictions.

Situations are those in which an interval for the noise fails: ties at the threshold, groups below it, a
budget that ends early. Coverage may be .005 below its level, and in addition five standard errors of the runs
(a run is one observation: its hits share the threshold's noise): for fresh seeds a comparison fails once in
3e6. With the seed stated, 5,000 runs keep within the .005 alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates import GapNoise, from_threshold, threshold_gap_offsets
from dpsql.kernel.mechanisms import AdaptiveSparseVector, HybridSparseVector, Noise, NoiseSource
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVector
from dpsql.kernel.public_order import in_public_order
from dpsql.noise import SeededEntropy
from dpsql.planning.threshold_selection import law_of_run

N, THRESHOLD, K = 50, 500, 5
LEVELS = (0.8, 0.95, 0.99)
NOISES: tuple[Noise, ...] = ("exponential", "laplace", "geometric")
BETWEEN = [round(440 + 120 * i / 49) for i in range(N)]
SITUATIONS = {
    "clear": [2000] * 20 + [0] * 30,
    "all 20 above": [520] * N,
    "all at it": [500] * N,
    "all 30 below": [470] * N,
    "one at it, rest 0": [0] * 24 + [500] + [0] * 25,
    "mixed -60..60": BETWEEN,
    "mixed, shuffled": np.random.default_rng(0).permutation(BETWEEN).tolist(),
}
Plan = AdaptiveSparseVector | HybridSparseVector


def made(kind: str, noise: Noise) -> Plan:
    if kind == "hybrid":
        return HybridSparseVector.plan(N, THRESHOLD, K, 1, noise=noise)
    limit, branches = (K if "LIMIT" in kind else None), (1 if kind == "plain" else 4)
    return AdaptiveSparseVector.plan(N, THRESHOLD, K, 1, limit=limit, branches=branches, noise=noise)


KINDS = ("ladder, LIMIT", "ladder, base hits", "plain", "hybrid")


def run(plan: Plan, counts: list[int], runs: int, seed: int) -> SparseVector:
    rows = np.tile(np.array(counts), (runs, 1))
    source = NoiseSource(SeededEntropy(seed))
    if isinstance(plan, AdaptiveSparseVector):
        return plan.run(in_public_order(rows), source)
    return plan.run(rows, source)


class Covered(NamedTuple):
    share: float
    error: float
    """Standard error of the share, from the runs."""


def share_of(inside: NDArray[np.bool_], hit: NDArray[np.bool_]) -> Covered:
    """Return the share of the hits that are covered."""
    total = hit.sum()
    share = float(inside[hit].sum() / total)
    off = ((inside & hit).sum(axis=1) - share * hit.sum(axis=1)).astype(np.float64)
    return Covered(share, float(np.sqrt((off**2).sum()) / total))


def covered(found: SparseVector, counts: list[int], level: float, *, margins: bool = True) -> Covered:
    """Return the coverage given the hit; without `margins`, of intervals without those of branches."""
    plan = found.plan
    hit = found.index >= 0
    least = plan.least_gaps(found)[hit] if margins else 0.0
    scales = tuple(plan.scales[j] for j in found.branch[hit].tolist())
    ends = from_threshold(
        found.gap[hit],
        THRESHOLD,
        GapNoise(plan.noise, scales, plan.resolution, plan.threshold_scale),
        least=least,
        plain=plan.ordered and len(plan.scales) == 1,
        confidence=level,
    )
    truth = np.array(counts)[found.index[hit]]
    inside = np.zeros(hit.shape, dtype=bool)
    inside[hit] = ~(truth < ends.low) & (truth <= ends.high)
    return share_of(inside, hit)


def covered_for_noise(found: SparseVector, counts: list[int], level: float) -> Covered:
    """Return the coverage of the interval for the noise alone, without regard to selection."""
    plan, hit = found.plan, found.index >= 0
    sides = np.array(
        [
            threshold_gap_offsets(plan.noise, s, plan.threshold_scale, level, resolution=plan.resolution)
            for s in plan.scales
        ]
    )[found.branch]
    error = found.gap + THRESHOLD - np.array(counts)[found.index]
    return share_of((error <= sides[..., 0]) & (-error <= sides[..., 1]), hit)


def check(kind: str, noise: Noise, runs: int) -> None:
    plan = made(kind, noise)
    for name, counts in SITUATIONS.items():
        found = run(plan, counts, runs, 7)
        for level in LEVELS:
            share, error = covered(found, counts, level)
            assert share >= level - 0.005 - 5 * error, (name, level, share)
            if runs >= 5000:
                assert share >= level - 0.005, (name, level, share)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_intervals_cover_given_the_hit(kind: str) -> None:
    check(kind, "exponential", 1000)
    check(kind, "laplace", 300)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_given_the_hit_in_many_runs(kind: str, noise: Noise) -> None:
    check(kind, noise, 5000)


def test_wrong_intervals_are_rejected() -> None:
    """Those for the noise alone, those of a lower level, and those that ignore the margins of branches."""
    plan, counts = made("ladder, LIMIT", "exponential"), SITUATIONS["all at it"]
    found = run(plan, counts, 1000, 7)
    for level in LEVELS:
        wrong = covered_for_noise(found, counts, level)
        assert wrong.share < level - 0.005 - 5 * wrong.error
    for level in LEVELS[:2]:
        wrong = covered(found, counts, level, margins=False)
        assert wrong.share < level - 0.005 - 5 * wrong.error
    plain = run(made("plain", "exponential"), BETWEEN, 5000, 7)
    for level in LEVELS[1:]:
        wrong = covered_for_noise(plain, BETWEEN, level)
        assert wrong.share < level - 0.005 - 5 * wrong.error
    counts = SITUATIONS["clear"]
    found = run(plan, counts, 1000, 7)
    wrong = covered(found, counts, 0.9)
    assert wrong.share < 0.945 - 5 * wrong.error


def predicted(kind: str, noise: Noise, runs: int) -> None:
    """Compare rows, charge, cost and deviation with a simulation; 10%, and what few hits make uncertain."""
    plan = made(kind, noise)
    law = law_of_run(plan, Fraction(THRESHOLD))
    for distance in (-30, 0, 20, 1500):
        found, told = run(plan, [THRESHOLD + distance] * N, runs, 11), law.at(distance)
        hit = found.index >= 0
        near = 0.1 + 5 / math.sqrt(hit.sum())
        assert hit.sum() / runs == pytest.approx(told.rows, rel=near), distance
        charges = [float(plan.realised_loss(u).charge.epsilon) for u in np.asarray(found.units).tolist()]
        assert np.mean(charges) == pytest.approx(told.charge, rel=0.1), distance
        assert (0.5 ** found.branch[hit]).mean() == pytest.approx(told.cost, rel=near), distance
        if plan.ordered:
            assert (found.gap[hit] - distance).std() == pytest.approx(told.stddev, rel=near), distance


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_what_happens(kind: str) -> None:
    predicted(kind, "exponential", 1000)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_what_happens_in_many_runs(kind: str, noise: Noise) -> None:
    predicted(kind, noise, 5000)
