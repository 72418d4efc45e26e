"""What the mechanisms release, combined: the whole way from noise to interval, with a seeded entropy.

With another seed the coverage of an item would be out of its exact binomial bounds with probability 2e-9,
its mean or spread out of 7 standard errors about as rarely.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpsql.estimates import GapNoise, LaplaceNoise, Measurement, Noise, from_top_k
from dpsql.estimates.predictions import half_width, shared_noise
from dpsql.mechanisms import anchor, box, laplace, noisy_top_k
from dpsql.noise import SeededEntropy

RUNS = 1_000
COUNTS = np.array([9_000, 70_000, 30_000, 50_000, 1_000, 20_000])


@pytest.mark.parametrize("strategy", ["BOX", "CUBE", "EACH", "ANCHOR"])
@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
@pytest.mark.parametrize(("k", "lowest"), [(3, True), (6, False)])
@pytest.mark.sampled(7)
def test_releases_are_unbiased_and_covered(strategy: str, noise: Noise, lowest: bool, k: int) -> None:
    entropy, epsilon = SeededEntropy(1), Fraction(1, 4)
    trials = np.broadcast_to(COUNTS, (RUNS, COUNTS.size)).copy()
    chosen = noisy_top_k(trials, k, epsilon, noise=noise, lowest=lowest, entropy=entropy)
    true = COUNTS[chosen.index]
    gaps = GapNoise(noise, chosen.plan.scale, chosen.plan.resolution)
    released: list[Measurement]
    if strategy in ("BOX", "CUBE"):
        boxes = box(true, epsilon, monotone=strategy == "BOX", entropy=entropy)
        law, width = shared_noise(boxes.plan, 0), half_width(boxes.plan, Fraction(95, 100), 0)
        released = [Measurement(value, law, width) for value in boxes.value]
    elif strategy == "EACH":
        measured = laplace(true.ravel(), k / epsilon, entropy=entropy)
        each = LaplaceNoise(measured.plan.scale, measured.plan.resolution)
        released = [Measurement(value, each) for value in measured.value.reshape(true.shape)]
    else:
        measured = anchor(true, k / epsilon, entropy=entropy)
        total = LaplaceNoise(measured.plan.scale, measured.plan.resolution, total=True)
        released = [Measurement(float(value), total) for value in measured.value[:, 0]]
    deviations, covered = np.zeros((RUNS, k)), np.zeros((RUNS, k), dtype=bool)
    for run in range(RUNS):
        found = from_top_k(chosen.gap[run], k, gaps, released[run], lowest=lowest)
        deviations[run] = (found.value - true[run]) / found.stddev
        covered[run] = (found.low <= true[run]) & (true[run] <= found.high)
    assert np.abs(deviations.mean(axis=0)).max() <= 7 / math.sqrt(RUNS)
    squared = (deviations**2).mean(axis=1)
    near = 7 * squared.std() / math.sqrt(RUNS)
    assert abs(squared.mean() - 1) <= near
    for wrong in (0.7, 1.3):
        assert abs(squared.mean() / wrong**2 - 1) > near
    least, most = stats.binom.ppf(1e-9, RUNS, 0.95), stats.binom.isf(1e-9, RUNS, 0.95)
    assert least <= covered.sum(axis=0).min()
    assert covered.sum(axis=0).max() <= most
