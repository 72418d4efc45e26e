"""The law of guess and check, against numpy's noise of the scales it names.

Fixed seeds; false-alarm rate over seeds 1e-9 each, and 0.7 and 1.3 of each scale are rejected.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, chi2_contingency

from dpsql.kernel.mechanisms import GuessAndCheck, Noise, NoiseSource
from dpsql.noise import SeededEntropy

ALARM = 1e-9
RUNS = 3_500
TOLERANCE, GUESS, COUNTS = 9, 3, (10, -8)
"""Off by 7 and by 11, with noise of 5 to 10."""


def runs(noise: Noise) -> tuple[GuessAndCheck, NDArray[np.float64]]:
    """Two checks of each run, one miss to spend: hit or not, gap, error of the answer."""
    source, rows = NoiseSource(SeededEntropy(1)), []
    for _ in range(RUNS):
        oracle = GuessAndCheck(TOLERANCE, "0.8", 1, noise=noise, source=source)
        for which, count in enumerate(COUNTS):
            said = oracle.check(count, GUESS)
            if not said.hit:
                assert said.gap is not None
                rows.append((which, float(said.gap), float(said.value) - count))
                break
        else:
            rows.append((2, -1.0, 0.0))
    return oracle, np.array(rows)


def ideal(
    oracle: GuessAndCheck, noise: str, factors: tuple[float, ...], seed: int = 2
) -> NDArray[np.float64]:
    """The same with inexact noise, its scales multiplied by the factors."""
    rng, size = np.random.default_rng(seed), 200_000
    scales = [float(s) for s in (oracle.plan.threshold_scale, oracle.plan.scale, oracle.plan.answer_scale)]
    scales = [s * f for s, f in zip(scales, factors, strict=True)]

    def centred(scale: float) -> NDArray[np.float64]:
        if noise == "laplace":
            return rng.laplace(0, scale, size)
        if noise == "geometric":
            return rng.geometric(-np.expm1(-1 / scale), size) - 1 - 1 / np.expm1(1 / scale)
        return rng.exponential(scale, size) - scale

    level = TOLERANCE + centred(scales[0])
    over = [abs(count - GUESS) + centred(scales[1]) - level for count in COUNTS]
    which = np.where(over[0] >= 0, 0, np.where(over[1] >= 0, 1, 2))
    gap = np.where(which == 0, over[0], np.where(which == 1, over[1], -1.0))
    answer = rng.laplace(0, scales[2], size)
    if noise == "geometric":
        answer = centred(scales[2]) - centred(scales[2])
    return np.stack([which, gap, np.where(which == 2, 0, answer)], axis=1)


def same_law(first: NDArray[np.float64], second: NDArray[np.float64], column: int) -> np.bool:
    """Two-sample chi-square on which check missed and, in cells, what was said then."""
    edges = np.quantile(second[:, column], np.arange(1, 12) / 12) + 1e-3
    both = [12 * x[:, 0].astype(int) + np.searchsorted(edges, x[:, column]) for x in (first, second)]
    table = np.array([np.bincount(x, minlength=36) for x in both])
    thin = table[0] + table[1] < 100
    table = np.hstack([table[:, ~thin], table[:, thin].sum(axis=1, keepdims=True)])
    return chi2_contingency(table[:, table.sum(axis=0) > 0], correction=False).pvalue > ALARM


@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
@pytest.mark.sampled(3)
def test_law(noise: Noise) -> None:
    oracle, seen = runs(noise)
    assert same_law(seen, ideal(oracle, noise, (1, 1, 1)), 1)
    assert same_law(seen, ideal(oracle, noise, (1, 1, 1)), 2)
    for factor in (0.7, 1.3):
        assert not same_law(seen, ideal(oracle, noise, (factor, factor, 1)), 1)
        assert not same_law(seen, ideal(oracle, noise, (1, 1, factor)), 2)
    # The query scale of monotone counts would be half as large.
    assert not same_law(seen, ideal(oracle, noise, (1, 0.5, 1)), 1)


def test_each_check_has_noise_of_its_own() -> None:
    """Two checks of one run, given its threshold: independent. One count asked again is a new draw."""
    source, table = NoiseSource(SeededEntropy(5)), np.zeros((2, 2))
    for _ in range(1500):
        # Nearly no noise on the threshold: its share is all but a hundredth.
        oracle = GuessAndCheck(8, 60, 2, share="0.99", source=source)
        first, second = (int(oracle.check(10, 0).hit) for _ in range(2))
        table[first, second] += 1
    assert table.min() > 100
    total = table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    assert chi2.sf(((table - expected) ** 2 / expected).sum(), 1) > ALARM
