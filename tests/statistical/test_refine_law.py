"""The law of a count and its refinements as they are drawn, by chi-square on pairs of releases.

Each test draws from a fixed seed. Its false-alarm rate, over seeds, is 1e-9; the same test must reject
releases with 0.9 and 1.1 times the noise, a second one drawn without the first, and one of another count.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from dpsql.kernel.mechanisms import Box, NoiseSource, Refinement
from dpsql.noise import SeededEntropy

ALARM = 1e-9
DRAWS = 300_000
REACH = 60


def joint(before: float, now: float) -> NDArray[np.float64]:
    """Return the probability of (z1, z2), both from -REACH to REACH, by the law of z1 - z2.

    The sum of z2 and an independent variable is z1: by characteristic functions that variable is 0 with a
    probability, else discrete Laplace at the first rate.
    """
    z = np.arange(-REACH, REACH + 1)
    apart = z[:, None] - z[None, :]
    p, q = np.exp(-before), np.exp(-now)
    ratio = ((1 - p) / (1 - q)) ** 2
    spread = ratio * (1 - q / p) * (1 - p * q) / (1 - p * p)
    rest = spread * p ** np.abs(apart) + np.where(apart == 0, ratio * q / p, 0)
    return np.asarray(np.tanh(now / 2) * q ** np.abs(z)[None, :] * rest)


def accepted(law: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    near = (np.abs(first) <= REACH) & (np.abs(second) <= REACH)
    cells = (first[near] + REACH) * (2 * REACH + 1) + second[near] + REACH
    seen, expected = np.bincount(cells, minlength=law.size), law.ravel() * len(first)
    thick = expected >= 20
    rest = len(first) - seen[thick].sum(), len(first) - expected[thick].sum()
    found = chisquare(np.append(seen[thick], rest[0]), np.append(expected[thick], rest[1]))
    return bool(found.pvalue > ALARM)


def steps(*epsilons: Fraction, seed: int) -> list[NDArray[np.int64]]:
    plan = Refinement.plan(1, epsilons, resolution=0)
    run = plan.run(np.zeros((DRAWS, 1), dtype=np.int64), NoiseSource(SeededEntropy(seed)))
    return list(run.value.astype(np.int64).T)


@pytest.mark.parametrize(("before", "now"), [("0.3", "0.7"), ("0.5", "0.52"), ("0.2", "2")])
def test_the_pair_of_releases(before: str, now: str) -> None:
    low, high = Fraction(before), Fraction(now)
    law = joint(float(low), float(high))
    assert law.sum() == pytest.approx(1, abs=1e-4)
    assert accepted(law, *steps(low, high, seed=1))
    first, _ = steps(low, high, seed=2)
    source = NoiseSource(SeededEntropy(3))
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        for less, more in ((low, high * factor), (low * factor, high)):
            if less < more:
                assert not accepted(law, *steps(less, more, seed=4)), (less, more)
    (fresh,) = steps(high, seed=5)
    assert not accepted(law, first, fresh), "independent of the first"
    plan = Refinement.plan(1, [low, high], resolution=0)
    other = plan.again(np.ones((DRAWS, 1), dtype=np.int64), first[:, None], source).value[:, 0]
    assert not accepted(law, first, other.astype(np.int64)), "another count"
    same = plan.again(np.zeros((DRAWS, 1), dtype=np.int64), first[:, None], source).value[:, 0]
    assert accepted(law, first, same.astype(np.int64))


@pytest.mark.parametrize("monotone", [True, False])
def test_the_first_release_may_be_one_count_with_box_or_cube_noise(*, monotone: bool) -> None:
    """Both are discrete Laplace noise on one count, on the grid of the refinement."""
    low, high = Fraction("0.3"), Fraction("0.7")
    box = Box.plan(1, low, monotone=monotone, resolution=0)
    counts = np.zeros((DRAWS, 1), dtype=np.int64)
    first = box.run(counts, NoiseSource(SeededEntropy(8))).value.astype(np.int64)
    plan = Refinement.plan(1, [low, high], resolution=0)
    second = plan.again(counts, first, NoiseSource(SeededEntropy(9))).value.astype(np.int64)
    assert accepted(joint(0.3, 0.7), first[:, 0], second[:, 0])
    assert not accepted(joint(0.33, 0.7), first[:, 0], second[:, 0])


def test_the_last_of_many_levels_with_the_first() -> None:
    """However many levels lie between, the pair of the first and the last has the law of two levels."""
    levels = [Fraction(each) for each in ("0.2", "0.25", "0.6", "0.61", "1.1")]
    drawn = steps(*levels, seed=6)
    assert accepted(joint(0.2, 1.1), drawn[0], drawn[-1])
    assert accepted(joint(0.25, 0.61), drawn[1], drawn[3])
    assert not accepted(joint(0.2, 1.1), drawn[1], drawn[3])
