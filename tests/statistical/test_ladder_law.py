"""The ladder as it is drawn, and what sums lose by a bound that it found, against the best power of two.

Seeds are fixed; with other seeds a test of a law fails with probability 1e-9, and it rejects epsilon x 0.7
and x 1.3. Errors of sums at epsilon 1: a fifth is for the bound, the rest for the noise of the sum, whose
variance is added and not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dpsql.kernel.mechanisms import Ladder, NoiseSource
from dpsql.noise import SeededEntropy
from tests.unit.kernel.mechanisms.test_ladder import law

RUNGS = 41
SHARE = Fraction(1, 5)

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]

CONTRIBUTIONS: dict[str, Draw] = {
    "lognormal revenue": lambda rng, n: np.round(100 * rng.lognormal(5, 1.2, n)),
    "pareto": lambda rng, n: np.round(100 * (1 + rng.pareto(1.5, n))),
    "small counts": lambda rng, n: rng.poisson(3, n).astype(np.float64),
}
"""Contributions of units, in steps."""


@pytest.mark.parametrize("numbers", [[14, 6, 2, 0, 0], [0] * 5, [50, 49, 3, 0, 0]])
def test_the_law_of_a_rung(numbers: list[int]) -> None:
    trials, plan = 50_000, Ladder.plan(len(numbers), "0.5", noise=2)
    found = plan.run(np.tile(numbers, (trials, 1)), NoiseSource(SeededEntropy(1))).rung[:, 0]
    seen = np.bincount(found, minlength=len(numbers))
    for factor in (0.7, 1.0, 1.3):
        scale = float(plan.scale) * 2**plan.resolution / factor
        expected = trials * law(plan.values(np.array(numbers)), scale)
        kept = expected > 5
        score = ((seen - expected)[kept] ** 2 / expected[kept]).sum()
        assert (chi2.sf(score, kept.sum() - 1) > 1e-9) == (factor == 1.0)


def rung_errors(values: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Return the error of a sum, root of its mean square, for the bound of each rung."""
    bound = 2.0 ** np.arange(RUNGS)
    cut = np.array([np.maximum(values - each, 0).sum() for each in bound])
    return np.sqrt(2 * (noise * bound) ** 2 + cut**2)


def sums(name: str, n: int, runs: int, seed: int) -> tuple[float, float, float, float]:
    """Return the errors by the ladder and by the best rung.

    And how often the ladder went too far, and cut more units than it predicts.
    """
    rng = np.random.default_rng(seed)
    plan = Ladder.plan(RUNGS, SHARE, noise=1 / (1 - SHARE))
    found, best, beyond, cut = [], [], [], []
    for repeat in range(10):
        values = CONTRIBUTIONS[name](rng, n)
        numbers = np.array([(values > 2.0**j).sum() for j in range(RUNGS)])
        rung = plan.run(np.tile(numbers, (runs, 1)), NoiseSource(SeededEntropy(seed + repeat))).rung[:, 0]
        found.append((rung_errors(values, float(1 / (1 - SHARE)))[rung] ** 2).mean())
        best.append(rung_errors(values, 1.0).min() ** 2)
        beyond.append((2.0**rung > 4 * values.max()).mean())
        next_numbers = np.append(numbers, 0)
        cut.append((numbers[rung] - next_numbers[rung + 1] > plan.cut(Fraction(95, 100))).mean())
    errors = math.sqrt(np.mean(found)), math.sqrt(np.mean(best))
    return *errors, float(np.mean(beyond)), float(np.mean(cut))


def test_what_is_cut_is_within_the_prediction() -> None:
    for name in CONTRIBUTIONS:
        assert sums(name, 1_000, 2_000, 3)[-1] <= 0.05
    assert 20 < Ladder.plan(RUNGS, SHARE).cut(Fraction(95, 100)) < 25


@pytest.mark.slow
def test_the_ladder_loses_at_most_twice_as_much_as_the_best_power_of_two() -> None:
    ratios = []
    for name in CONTRIBUTIONS:
        for n in (1_000, 10_000, 100_000):
            error, best, beyond, _ = sums(name, n, 20_000, n)
            ratios.append(error / best)
            assert beyond <= 0.005, (name, n)
    assert max(ratios) < 3, ratios
    assert np.exp(np.mean(np.log(ratios))) < 2, ratios
