"""Estimates of hits over a threshold: their values, and ends whose error is enumerated on coarse grids."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates import GapNoise, Noise, from_threshold, threshold_gap_offsets
from dpsql.kernel.mechanisms import AdaptiveSparseVector, HybridSparseVector
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVector

LEVELS = (0.5, 0.8, 0.95, 0.99)


def law(noise: Noise, rate: float, most: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return noise values in grid steps and their probabilities."""
    values = np.arange(-most if noise == "laplace" else 0, most + 1)
    weight = np.exp(-rate * np.abs(values))
    return values, weight / weight.sum()


def missed_low(
    noise: Noise, count: int, cutoff: int, scales: tuple[float, float], level: float, reach: float = 0.0
) -> float:
    """Return the probability that the lower end exceeds the count, given a hit, on whole counts.

    The noise of the threshold is averaged over; `reach` tilts it by e^(reach L), as earlier groups do.
    """
    s0, s1 = scales
    levels, weight = law(noise, 1 / s0, 150)
    noises, chance = law(noise, 1 / s1, 150)
    noisy = count - levels[:, None] + noises
    joint = (weight * np.exp(reach * np.minimum(levels, 60)))[:, None] * chance
    hit = noisy >= cutoff
    centre = 0.0 if noise == "laplace" else 1 / math.expm1(1 / s0) - 1 / math.expm1(1 / s1)
    seen = np.unique(noisy[hit])
    found = from_threshold(
        seen + centre,
        0,
        GapNoise(noise, s1, 0, s0),
        least=cutoff + centre,
        confidence=level,
    )
    low = found.low[np.searchsorted(seen, noisy[hit])]
    assert np.all(np.diff(found.low[~np.isnan(found.low)]) >= 0)
    # One whole step is added for rounding; the bound holds without it.
    return float(joint[hit][low + 1 > count + 1e-6].sum() / joint[hit].sum())


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("scales", [(4.0, 3.0), (2.0, 6.0), (3.0, 3.0)])
@pytest.mark.sampled(5)
def test_the_lower_end_is_too_high_as_often_as_promised_at_most(
    noise: Noise, scales: tuple[float, float]
) -> None:
    """Enumerated for counts on both sides of the cutoff, and for a threshold tilted by earlier groups."""
    worst = dict.fromkeys(LEVELS, 0.0)
    for level in LEVELS:
        for count in (-60, -12, -3, -1, 0, 1, 2, 5, 11, 30):
            for reach in (0.0, 0.1):
                missed = missed_low(noise, count, 0, scales, level, reach)
                assert missed <= (1 - level) / 2 * (1 + 1e-9), (level, count, reach)
                worst[level] = max(worst[level], missed)
    # No level has more room than one step of a grid this coarse leaves.
    assert all(missed >= 0.5 * math.exp(-1 / scales[1]) * (1 - level) / 2 for level, missed in worst.items())


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_an_interval_for_the_noise_alone_fails_below_the_threshold(noise: Noise) -> None:
    """The enumeration rejects it: a group 12 below is always estimated too high when it is a hit."""
    low, _ = threshold_gap_offsets(noise, 3.0, 4.0, 0.5, resolution=0)
    assert low < 12
    assert missed_low(noise, -12, 0, (4.0, 3.0), 0.5) <= 0.25


def test_far_hits_have_two_ends_and_near_ones_an_upper_one() -> None:
    found = from_threshold([70.0, 29.9, 30.0], 100, GapNoise("exponential", 10, threshold_scale=4))
    np.testing.assert_allclose(found.value, [170, 129.9, 130])
    np.testing.assert_allclose(found.stddev, math.sqrt(116))
    far = 10 * math.log(40) - 10 + 4
    np.testing.assert_allclose(found.low, [170 - far, np.nan, np.nan])
    high = threshold_gap_offsets("exponential", 10, 4)[1]
    np.testing.assert_allclose(found.high - found.value, high)
    # A margin moves the point from which there is a lower end.
    again = from_threshold([70.0, 66.8], 100, GapNoise("exponential", 10, threshold_scale=4), least=30)
    np.testing.assert_array_equal(np.isnan(again.low), [False, True])


@pytest.mark.parametrize("scale", [1e-2, 1e-3, 1e-6])
def test_a_scale_far_below_a_grid_step(scale: float) -> None:
    """The noise is then 0, up to e^-100: a hit has its gap, and an interval of one step each side."""
    noise = GapNoise("exponential", scale, 0, threshold_scale=scale / 2)
    found = from_threshold([7.0], 100, noise)
    assert (found.low[0], found.value[0], found.high[0]) == pytest.approx((106, 107, 108), abs=1e-9)


def test_each_branch_has_its_own_scale() -> None:
    gap, scales = [300.0, 80.0], [8.0, 4.0]
    found = from_threshold(gap, 100, GapNoise("exponential", tuple(scales), threshold_scale=2))
    np.testing.assert_allclose(found.stddev, np.sqrt([68, 20]))
    for i, scale in enumerate(scales):
        alone = from_threshold([gap[i]], 100, GapNoise("exponential", scale, threshold_scale=2))
        assert (found.low[i], found.high[i]) == (alone.low[0], alone.high[0])


def test_hits_below_a_threshold_are_mirrored() -> None:
    above = from_threshold([70.0, 20.0], -100, GapNoise("exponential", 10, threshold_scale=4))
    below = from_threshold([70.0, 20.0], 100, GapNoise("exponential", 10, threshold_scale=4), below=True)
    np.testing.assert_array_equal(below.value, -above.value)
    np.testing.assert_array_equal([below.low, below.high], [-above.high, -above.low])


@pytest.mark.parametrize("resolution", [None, 8])
def test_laplace_hits_have_lower_ends_by_the_plain_sparse_vector_alone(resolution: int | None) -> None:
    """With equal scales S(x) = (2 + x/s)/4 e^(-x/s), and far below the test's quotient has a limit."""
    s, tail, gap = 10.0, 0.025, 45.0
    found = from_threshold([gap, 36.0], 100, GapNoise("laplace", s, resolution, s))
    below = gap - (found.value[0] - found.low[0]) + (0 if resolution is None else 2.0**-resolution)
    n = -below / s  # how far the lower end is below the cutoff, in scales
    assert n > 0
    quotient = (2 + n + gap / s) / (2 + n) * math.exp(-gap / s)
    assert quotient == pytest.approx(tail, rel=2e-3)
    assert np.isnan(found.low[1])
    ladder = from_threshold([gap], 100, GapNoise("laplace", s, threshold_scale=s), plain=False)
    assert np.isnan(ladder.low[0])
    assert ladder.high[0] == pytest.approx(found.high[0], abs=0.02)


def test_the_least_gap_is_where_the_branch_passes() -> None:
    for noise in ("exponential", "geometric", "laplace"):
        plan = AdaptiveSparseVector.plan(50, "5.25", 3, 1, branches=3, noise=noise)
        branch = np.array([0, 1, 2])
        least = plan.least_gaps(SparseVector(plan, branch, np.zeros(3), branch, units=7))
        step = 0.5**plan.resolution
        wanted = [0.0, *(max(2.0, math.log(50 / 3)) * float(d) for d in deviations(plan)[1:])]
        assert np.all(least >= np.array(wanted) - 1e-9)
        assert np.all(least < np.array(wanted) + step + 1e-9)


def deviations(plan: AdaptiveSparseVector) -> list[float]:
    step = 0.5**plan.resolution
    one_sided = [step / (2 * math.sinh(step / float(s) / 2)) for s in plan.scales]
    return [d * (math.sqrt(2) if plan.noise == "laplace" else 1) for d in one_sided]


def test_a_cut_to_the_largest_hits_raises_the_least_gap() -> None:
    plan = HybridSparseVector.plan(50, 100, 3, 1)
    none = np.zeros(3, dtype=np.int64)
    full = SparseVector(plan, none, np.array([90.0, 80.0, 70.0]), none, units=3)
    assert plan.least_gaps(full).tolist() == [70 + 0.5**plan.resolution] * 3
    fewer = SparseVector(plan, none[:2], np.array([90.0, 80.0]), none[:2], units=2)
    assert (plan.least_gaps(fewer) < 0.5**plan.resolution).all()


def test_a_float_that_cannot_hold_the_gap_widens_the_interval() -> None:
    huge = 2.0**55
    found = from_threshold([400.0], huge, GapNoise("exponential", 10, 8, 4))
    assert found.value[0] - found.low[0] >= 10 * math.log(40) - 6 + 4 * np.spacing(huge) - 8
    assert found.high[0] > found.value[0]
