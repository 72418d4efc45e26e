"""Intervals and errors of counts with Gaussian noise, alone and with the gaps of a top-k, over runs.

Noise is drawn from fixed seeds. With other seeds a bound of z standard errors would be crossed with
probability 2 exp(-z^2/2), below 1e-9 for the 7 used here. The same checks must reject intervals of 0.9 and
1.1 times the width, or errors of 0.9 and 1.1 times the size.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates import ErrorModel, GapNoise, GaussianNoise, Measurement, from_top_k, top_k_offsets
from dpsql.estimates.predictions import difference_half_width, half_width, shared_noise, stddev
from dpsql.kernel.mechanisms import Gaussian, NoiseSource, NoisyTopK
from dpsql.noise import SeededEntropy

SIGMAS = 7.0
LEVEL = Fraction(95, 100)
WRONG = (0.9, 1.1)


def near(level: float, runs: int) -> float:
    return SIGMAS * math.sqrt(level * (1 - level) / runs)


def errors(plan: Gaussian, runs: int, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    value = plan.run(np.broadcast_to(counts, (runs, len(counts))), NoiseSource(SeededEntropy(19))).value
    return np.asarray(value - counts)


@pytest.mark.parametrize(
    ("k", "options"),
    [
        (1, {}),
        (2, {}),
        (10, {}),
        (50, {}),
        (10, {"monotone": False}),
        (10, {"sensitivity": 40}),
        (7, {"resolution": 0}),
    ],
)
def test_intervals_of_each_count_of_all_at_once_and_of_differences(k: int, options: dict[str, int]) -> None:
    runs = 40_000
    plan = Gaussian.plan(k, Fraction(1, 200), **options)  # type: ignore[arg-type]  # as they are listed
    error = errors(plan, runs, 1000 * np.arange(k))
    # A width is a step too large, and with it the coverage.
    bound = near(0.95, runs) + 0.2 * plan.step(0) / stddev(plan, 0)
    cases = [(np.abs(error[:, 0]), half_width(plan, LEVEL, 0))]
    if k > 1:
        cases += [
            (np.abs(error).max(axis=1), half_width(plan, LEVEL, 0, simultaneous=True)),
            (np.abs(error[:, 0] - error[:, 1]), difference_half_width(plan, LEVEL, 0)),
        ]
    for size, width in cases:
        assert abs((size <= width).mean() - 0.95) <= bound
        assert (size <= width).mean() >= 0.945
        for wrong in WRONG:
            assert abs((size <= wrong * width).mean() - 0.95) > bound


@pytest.mark.parametrize("k", [2, 10, 50])
def test_what_counts_share_is_their_covariance(k: int) -> None:
    runs = 40_000
    plan = Gaussian.plan(k, Fraction(1, 200))
    error, noise = errors(plan, runs, np.zeros(k, dtype=np.int64)), shared_noise(plan, 0)
    found = np.cov(error.T)
    bound = SIGMAS * noise.variance * math.sqrt(2 / runs)
    assert np.abs(np.diag(found) - noise.variance).max() <= bound
    assert np.abs(found - noise.shared - np.eye(k) * noise.own).max() <= bound
    assert noise.shared * 0.9 > bound


@pytest.mark.parametrize("k", [2, 10, 25])
def test_gaps_cut_the_squared_error_as_predicted(k: int) -> None:
    """The estimate is linear, so its matrices do all runs at once."""
    runs, source = 20_000, NoiseSource(SeededEntropy(23))
    counts = 10**5 * np.arange(k + 1)
    chooser, plan = NoisyTopK.plan(k + 1, k, 1), Gaussian.plan(k, Fraction(1, 8 * k))
    found = chooser.run(np.broadcast_to(counts, (runs, k + 1)), source)
    true = counts[found.index]
    value = plan.run(true, source).value
    model = ErrorModel(GapNoise("exponential", chooser.scale, chooser.resolution), k, shared_noise(plan, 0))
    of_gap = np.array([top_k_offsets(each, k) for each in np.eye(k)])
    y = found.gap @ of_gap + top_k_offsets(np.zeros(k), k, chooser.resolution)
    zero, noise = np.zeros(k), shared_noise(plan, 0)
    from_y = np.array([model.estimate(each, Measurement(zero, noise)).value for each in np.eye(k)])
    from_value = np.array([model.estimate(zero, Measurement(each, noise)).value for each in np.eye(k)])
    squared = ((y @ from_y + value @ from_value - true) ** 2).mean(axis=1)
    bound = SIGMAS * squared.std() / math.sqrt(runs)
    predicted = float((model.stddev() ** 2).mean())
    assert abs(squared.mean() - predicted) <= bound
    assert predicted < noise.variance
    for wrong in WRONG:
        assert abs(squared.mean() * wrong**2 - predicted) > bound


def test_selected_counts_are_covered_whatever_the_ties() -> None:
    """The noise is drawn after the selection: 95% of all rows and of the first, of 100 equal counts."""
    k, runs, source = 10, 40_000, NoiseSource(SeededEntropy(29))
    counts = np.full(100, 1_000)
    plan = Gaussian.plan(k, Fraction(1, 8))
    true = np.full((runs, k), 1_000)
    value = plan.run(true, source).value
    width = half_width(plan, LEVEL, 0)
    covered = (np.abs(value - true) <= width).mean(axis=0)
    assert np.abs(covered - 0.95).max() <= near(0.95, runs) + 0.001
    chooser = NoisyTopK.plan(100, k, 1)
    found = chooser.run(counts, source)
    measured = Measurement(value[0], shared_noise(plan, 0), width)
    noise = GapNoise("exponential", chooser.scale, chooser.resolution)
    estimate = from_top_k(found.gap, k, noise, measured, confidence=LEVEL)
    assert isinstance(measured.noise, GaussianNoise)
    assert estimate.low.tolist() == (value[0] - width).tolist()
    assert (estimate.value >= estimate.low).all()
    assert (estimate.value <= estimate.high).all()
    assert (estimate.stddev < stddev(plan, 0)).all()
