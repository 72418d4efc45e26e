"""Intervals of groups that are shown because their noisy numbers of units reach a threshold, enumerated."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates import LaplaceNoise, Measurement, from_measurement, from_reached
from dpsql.estimates.predictions import half_width
from dpsql.kernel.mechanisms import Existing, Laplace

CASES = [(1.0, 0, 14.0), (2.5, 2, 20.25), (7.0, 6, 60.0), (0.25, 0, 3.0), (40.0, 4, 400.0)]
"""Scale, resolution and threshold."""


def missed(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    value: NDArray[np.float64],
    case: tuple[float, int, float],
) -> tuple[float, float]:
    """Return how often the lower and the upper end are beyond the true number at most, if it is shown.

    `value` are the noisy numbers for which these are the ends; numbers from 1 to far above the threshold are
    tried.
    """
    scale, bits, threshold = case
    r = math.exp(-(2.0**-bits) / scale)
    tails = [(0.0, 0.0)]
    for q in np.unique(np.linspace(1, threshold + 20 * scale, 60).round()):
        steps = np.abs((value - q) * 2.0**bits)
        chance = (1 - r) / (1 + r) * r**steps
        n = (threshold - q) * 2**bits
        shown = r**n / (1 + r) if n > 0 else 1 - r ** (1 - n) / (1 + r)
        tails.append((chance[low > q].sum() / shown, chance[high < q].sum() / shown))
    return max(tail for tail, _ in tails), max(tail for _, tail in tails)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 1 - 1e-6])
def test_each_end_is_missed_as_often_as_it_may_be_given_that_the_group_is_shown(
    case: tuple[float, int, float], level: float
) -> None:
    scale, bits, threshold = case
    value = threshold + np.arange(round((45 * scale - math.log(1 - level) * scale) * 2**bits)) / 2**bits
    found = from_reached(value, threshold, LaplaceNoise(scale, bits), level)
    below, above = missed(found.low, found.high, value, case)
    tail = (1 - level) / 2
    assert max(below, above) <= tail * (1 + 1e-6)
    coarse = 1 - math.exp(-(2.0**-bits) / scale)
    assert below >= tail * (1 - coarse) * 0.95, "it is as narrow as the grid allows"
    assert (np.diff(found.low) >= 0).all()
    assert (found.low >= 1).all()
    assert (found.low <= found.value).all()


@pytest.mark.parametrize("case", CASES)
def test_an_interval_of_the_noise_alone_never_covers_a_group_from_below(
    case: tuple[float, int, float],
) -> None:
    """The test rejects the interval that does not know that the group is shown, and a lower threshold."""
    scale, bits, threshold = case
    value = threshold + np.arange(round(45 * scale * 2**bits)) / 2**bits
    law = LaplaceNoise(scale, bits)
    alone = from_measurement(
        Measurement(value, law, half_width(Laplace.plan(1, 1 / Fraction(scale)), Fraction(95, 100)))
    )
    assert missed(alone.low, alone.high, value, case)[0] > 0.9
    wrong = from_reached(value, threshold - max(2 * scale, 1), law)
    assert missed(wrong.low, wrong.high, value, case)[0] > 0.05


def test_near_the_threshold_the_interval_reaches_down_to_one() -> None:
    existing = Existing.plan(1, Fraction(1, 10**6))
    threshold, law = float(existing.threshold), LaplaceNoise(existing.scale, existing.resolution)
    near = threshold + np.array([0.0, 1.0, 3.5, 4.0, 20.0])
    found = from_reached(near, threshold, law)
    assert found.low[:3].tolist() == [1.0, 1.0, 1.0], "less than ln 40 scales above it"
    assert found.low[3] > threshold - 4
    plain = half_width(Laplace.plan(1, 1), Fraction(95, 100))
    assert found.low[4] == pytest.approx(near[4] - math.log(20), abs=0.01)
    assert (found.high - near).tolist() == pytest.approx([plain] * 5)


def test_other_noise_is_refused() -> None:
    for law in (LaplaceNoise(1), LaplaceNoise(1, 0, total=True)):
        with pytest.raises(ValueError, match="on a grid"):
            from_reached([20.0], 14, law)
    assert not from_reached(np.zeros(0), 14, LaplaceNoise(1, 0)).low.size
