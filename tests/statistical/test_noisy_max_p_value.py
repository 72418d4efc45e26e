"""exp(-gap/scale) is a p-value: if the chosen group is not the largest, it is small as rarely as it says.

Fixed seeds; false-alarm rate over seeds 1e-9 each.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from dpsql.estimates import p_value
from dpsql.mechanisms import noisy_max, noisy_top_k
from dpsql.noise import SeededEntropy

ALARM = 1e-9
TRIALS = 60_000
LEVELS = np.array([0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.9])


def too_often(p: NDArray[np.float64]) -> bool:
    """Whether p-values fall below some level more often than uniform ones could by chance."""
    hits = np.array([(p <= level).sum() for level in LEVELS])
    return bool((binom.sf(hits - 1, len(p), LEVELS) < ALARM / len(LEVELS)).any())


def uniform(p: NDArray[np.float64]) -> np.bool:
    seen = np.bincount(np.minimum((p * 20).astype(int), 19), minlength=20)
    return chi2.sf(((seen - len(p) / 20) ** 2 / (len(p) / 20)).sum(), 19) > ALARM


def null(counts: Sequence[int], index: NDArray[np.int64], i: int) -> NDArray[np.bool_]:
    """Whether some group outside the first i is really at least as large as the i-th."""
    outside = np.ones((len(index), len(counts)), dtype=bool)
    np.put_along_axis(outside, index[:, :i], False, axis=1)
    best = np.where(outside, counts, np.min(counts) - 1).max(axis=1)
    return best >= np.array(counts)[index[:, i - 1]]


@pytest.mark.parametrize("counts", [[0, 0], [2, 0], [3, 1, 0, 3], [5, 4, 4, 4, 0], [0, 1] * 20])
@pytest.mark.parametrize("options", [{}, {"resolution": 0}, {"monotone": False}])
@pytest.mark.sampled(7)
def test_noisy_max(counts: list[int], options: dict[str, Any]) -> None:
    found = noisy_max(np.tile(counts, (TRIALS, 1)), 1, entropy=SeededEntropy(1), **options)
    wrong = null(counts, found.index, 1)
    assert wrong.sum() > 3000
    assert not too_often(p_value(found.gap[wrong, 0], found.plan.scale))


def test_exact_on_ties_and_only_at_the_scale_in_use() -> None:
    found = noisy_max(np.tile([7, 7], (TRIALS, 1)), 1, entropy=SeededEntropy(2))
    for factor in (0.7, 1, 1.3):
        p = p_value(found.gap[:, 0], found.plan.scale * Fraction(str(factor)))
        assert uniform(p) == (factor == 1)
        assert too_often(p) == (factor < 1)


@pytest.mark.parametrize("i", [1, 2, 3])
def test_every_gap_of_a_top_k(i: int) -> None:
    counts = [4, 3, 3, 3, 1, 0]
    found = noisy_top_k(np.tile(counts, (TRIALS, 1)), 3, 3, entropy=SeededEntropy(3))
    wrong = null(counts, found.index, i)
    assert wrong.sum() > 3000
    assert not too_often(p_value(found.gap[wrong, i - 1], found.plan.scale))
    # Later gaps are the least of i excesses, about a factor i smaller; so much is the test's reach.
    assert too_often(p_value(found.gap[wrong, i - 1], found.plan.scale * Fraction(7, 10 * i)))


def test_laplace_gaps_would_not_do() -> None:
    """Why it is refused: at scale 1/epsilon, two equal groups, p-values are small too often."""
    found = noisy_max(np.tile([7, 7], (TRIALS, 1)), 1, noise="laplace", entropy=SeededEntropy(4))
    assert too_often(p_value(found.gap[:, 0], found.plan.scale))
    with pytest.raises(ValueError):
        p_value(found.gap[:, 0], found.plan.scale, "laplace")
