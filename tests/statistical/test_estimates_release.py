"""What the mechanisms release, combined: the whole way from noise to interval, with a seeded entropy.

With another seed the coverage of an item would be out of its exact binomial bounds with probability 2e-9,
its mean or spread out of 7 standard errors about as rarely.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpsql.estimates import choose_measuring, from_top_k
from dpsql.mechanisms import anchor, laplace, noisy_top_k
from dpsql.noise import SeededEntropy

RUNS = 1_000
COUNTS = np.array([9_000, 70_000, 30_000, 50_000, 1_000, 20_000])


@pytest.mark.parametrize("strategy", ["EACH", "ANCHOR"])
@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
@pytest.mark.parametrize(("k", "lowest"), [(3, True), (6, False)])
def test_releases_are_unbiased_and_covered(strategy, noise, lowest, k) -> None:
    entropy = SeededEntropy(1)
    plan = choose_measuring(k, Fraction(1, 2), noise=noise, strategy=strategy, domain_size=COUNTS.size)
    trials = np.broadcast_to(COUNTS, (RUNS, COUNTS.size)).copy()
    chosen = noisy_top_k(trials, k, plan.selection_epsilon, noise=noise, lowest=lowest, entropy=entropy)
    assert chosen.plan.scale == plan.selection_scale
    true = COUNTS[chosen.index]
    shared = {
        "scale": chosen.plan.scale,
        "noise": noise,
        "resolution": chosen.plan.resolution,
        "lowest": lowest,
    }
    deviations, covered = np.zeros((RUNS, k)), np.zeros((RUNS, k), dtype=bool)
    if strategy == "EACH":
        measured = laplace(true.ravel(), plan.measuring_scale, entropy=entropy)
        values = measured.value.reshape(true.shape)
    for run in range(RUNS):
        if strategy == "EACH":
            release = {"each": values[run]}
        else:
            measured = anchor(true[run], plan.measuring_scale, entropy=entropy)
            release = {"anchor_total": measured.value[0]}
        found = from_top_k(
            chosen.gap[run],
            k,
            **shared,
            **release,
            measuring_scale=measured.plan.scale,
            measuring_resolution=measured.plan.resolution,
        )
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
