"""Intervals and errors of counts that a top-k selected and box noise measured, over the mechanisms as run.

Noise is drawn from fixed seeds. With other seeds a bound of z standard errors would be crossed with
probability 2 exp(-z^2/2), below 1e-9 for the 7 used here. The same checks must reject noise, or intervals,
of 0.7 and 1.3 times the scale.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates import BoxNoise, ErrorModel, GapNoise, Measurement, measuring_share, top_k_offsets
from dpsql.estimates.predictions import half_width, shared_noise
from dpsql.kernel.mechanisms import Box, NoiseSource, NoisyTopK
from dpsql.noise import SeededEntropy

SIGMAS = 7.0
LEVEL = Fraction(95, 100)
HALF = Fraction(1, 2)


def released(
    counts: NDArray[np.int64], k: int, runs: int, *, several: int = 1, share: Fraction = HALF
) -> tuple[NoisyTopK, Box, NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Select the k largest and measure `several` counts of each, equal ones, with a share of epsilon 1.

    Return the mechanisms, the true counts (runs, k), the gaps, and the measurements (runs, several k).
    """
    source = NoiseSource(SeededEntropy(17))
    chooser, box = NoisyTopK.plan(len(counts), k, 1 - share), Box.plan(several * k, share)
    true, gap, value = [], [], []
    for _ in range(0, runs, 2_000):
        found = chooser.run(np.broadcast_to(counts, (2_000, len(counts))), source)
        true.append(counts[found.index])
        gap.append(found.gap)
        value.append(box.run(np.tile(true[-1], several), source).value)
    return chooser, box, np.concatenate(true), np.concatenate(gap), np.concatenate(value)


def near(level: float, runs: int) -> float:
    return SIGMAS * math.sqrt(level * (1 - level) / runs)


@pytest.mark.parametrize(("k", "runs"), [(10, 40_000), (25, 16_000)])
@pytest.mark.parametrize("apart", [0, 2, 10_000])
@pytest.mark.sampled(5)
def test_selected_counts_are_covered_whatever_the_ties(k: int, runs: int, apart: int) -> None:
    """95% of all rows and of the first rows, of 100 counts that tie, nearly tie, or are far apart.

    The interval has one grid step more than the law needs, so the coverage may be larger by as much as the
    density makes of it: less than 0.001.
    """
    counts = 10**6 + apart * np.arange(100 if apart < 10_000 else k + 1)
    _, box, true, _, value = released(counts, k, runs)
    width = half_width(box, LEVEL, 0)
    bound = near(0.95, runs) + 0.001

    def covered(stretch: float) -> NDArray[np.float64]:
        return np.asarray((np.abs(value - true) <= stretch * width).mean(axis=0))

    found = covered(1.0)
    assert np.abs(found - 0.95).max() <= bound
    assert 0.945 <= found.mean() <= 0.955
    for wrong in (0.7, 1.3):
        assert (np.abs(covered(wrong) - 0.95) > bound).all()


@pytest.mark.parametrize("several", [1, 2])
def test_simultaneous_intervals_cover_all_rows_at_once(several: int) -> None:
    k, runs = 10, 40_000
    _, box, true, _, value = released(np.full(100, 1_000), k, runs, several=several)
    error = np.abs(value - np.tile(true, several)).max(axis=1)
    width = half_width(box, LEVEL, 0, simultaneous=True)
    bound = near(0.95, runs) + 0.001
    assert abs((error <= width).mean() - 0.95) <= bound
    for wrong in (0.7, 1.3):
        assert abs((error <= wrong * width).mean() - 0.95) > bound


def estimated(
    chooser: NoisyTopK, box: Box, gap: NDArray[np.float64], value: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ErrorModel]:
    """The estimates of many runs, not clamped: the estimate is linear, so its matrices do all at once."""
    k = value.shape[1]
    model = ErrorModel(GapNoise("exponential", chooser.scale, chooser.resolution), k, shared_noise(box, 0))
    of_gap = np.array([top_k_offsets(each, k) for each in np.eye(gap.shape[1])])
    y = gap @ of_gap + top_k_offsets(np.zeros(gap.shape[1]), k, chooser.resolution)
    unit, zero = np.eye(k), np.zeros(k)
    assert isinstance(model.measuring, BoxNoise)
    from_y = np.array([model.estimate(each, Measurement(zero, model.measuring)).value for each in unit])
    from_box = np.array([model.estimate(zero, Measurement(each, model.measuring)).value for each in unit])
    return y @ from_y + value @ from_box, model


@pytest.mark.parametrize(("k", "reduction"), [(2, 0.614), (5, 0.839), (10, 0.898), (25, 0.932), (100, 0.951)])
@pytest.mark.sampled(3)
def test_gaps_and_a_box_cut_the_squared_error_as_predicted(k: int, reduction: float) -> None:
    """Against measuring each of k counts with Laplace noise at half of epsilon, without gaps: 8 k^2."""
    runs = 20_000 if k < 100 else 4_000
    counts = 10**5 * np.arange(k + 1)
    chooser, box, true, gap, value = released(counts, k, runs)
    estimate, model = estimated(chooser, box, gap, value)
    squared = ((estimate - true) ** 2).mean(axis=1) / (8 * k * k)
    bound = SIGMAS * squared.std() / math.sqrt(runs)
    assert abs(squared.mean() - (model.stddev() ** 2).mean() / (8 * k * k)) <= bound
    assert abs(1 - squared.mean() - reduction) <= bound + 0.0005
    for wrong in (0.7, 1.3):
        assert abs(squared.mean() * wrong**2 - (1 - reduction)) > bound + 0.0005


def test_an_estimate_hardly_ever_leaves_the_interval_and_would_not_cover_the_first_of_ties() -> None:
    """Why the interval is that of the measurement, and what it costs to move the estimate into it."""
    for k, first in ((10, 0.92), (25, 0.70)):
        share = measuring_share("BOX", k)
        chooser, box, true, gap, value = released(np.full(100, 1_000), k, 10_000, share=share)
        estimate, model = estimated(chooser, box, gap, value)
        outside = np.abs(estimate - value) > half_width(box, LEVEL, 0)
        assert 0 < outside.mean() < 0.015
        covered = (np.abs(estimate - true) <= 1.96 * model.stddev()).mean(axis=0)[0]
        assert abs(covered - first) <= near(first, 10_000) + 0.005
