"""The laws of noise drawn by skips, and of top-k over a domain of 10^9 groups, by chi-square.

Every test draws from a fixed seed. Its false-alarm rate, over seeds, is 1e-9; the same test must reject noise
of 0.7 and 1.3 times the scale.
"""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dpsql.kernel import noise
from dpsql.kernel.mechanisms import NoiseSource, NoisyTopK, SparseCounts
from dpsql.kernel.noise import Band
from dpsql.noise import SeededEntropy

ALARM = 1e-9
TRIALS = 2_000_000
SCALES = [Fraction(7, 10), Fraction(1), Fraction(13, 10)]
DOMAIN = 10**9


def p_value(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """Chi-square of cell counts that have a known expectation each, with one cell for all others."""
    assert expected.min() >= 5
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("high", [None, 900])
def test_noise_drawn_by_skips(high: int | None, two_sided: bool) -> None:
    """Where it is, how much there is and what it is: cells of places by cells of values, and all below."""
    rate, low = Fraction(1, 100), 500
    ends = np.array([500, 560, 640, 760, 10**9 if high is None else high])
    reach = np.exp(-float(rate) * ends) / (1 + np.exp(-float(rate)) if two_sided else 1)
    reach[-1] = 0 if high is None else reach[-1]
    cells = np.repeat(-np.diff(reach) / (1 - reach[-1]) * TRIALS / 5, 5).reshape(4, 5)
    expected = np.append(cells.ravel(), TRIALS - cells.sum())
    for scale in SCALES:
        band = Band(rate / scale, low, high, two_sided)
        where, drawn = noise.reaching(band, TRIALS, entropy=SeededEntropy(5))
        row = np.searchsorted(ends, drawn, side="right") - 1
        seen = np.bincount(row * 5 + where * 5 // TRIALS, minlength=20)
        seen = np.append(seen, TRIALS - len(where))
        assert (p_value(seen, expected) > ALARM) == (scale == 1), scale


def indices(plan: NoisyTopK, counts: SparseCounts, runs: int) -> NDArray[np.int64]:
    """Return the group that each of so many runs chose."""
    source = NoiseSource(SeededEntropy(8))
    return np.array([plan.run(counts, source).index[0] for _ in range(runs)])


def test_any_empty_group_may_win() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    found = indices(NoisyTopK.plan(DOMAIN, 1, 1), SparseCounts(nothing, nothing, DOMAIN), 1000)
    assert p_value(np.bincount(found * 10 // DOMAIN, minlength=10), np.full(10, 100.0)) > ALARM


def test_a_count_near_the_largest_noise_of_all_empty_groups() -> None:
    """The largest of N noises is below x with probability (1 - e^(-x/scale))^N; 22 wins every other time."""
    counts = SparseCounts(np.array([22]), np.array([777]), DOMAIN)
    grid = np.arange(0, 400, 1 / 64)
    below = np.exp(-np.exp(np.log(DOMAIN) - grid))
    wins = float(np.trapezoid(np.exp(-np.maximum(grid - 22, 0)) * np.gradient(below, grid), grid))
    expected = np.array([wins, 1 - wins]) * 600
    for scale in SCALES:
        won = int((indices(NoisyTopK.plan(DOMAIN, 1, 1 / scale), counts, 600) == 777).sum())
        assert (p_value(np.array([won, 600 - won]), expected) > ALARM) == (scale == 1), (scale, won)
