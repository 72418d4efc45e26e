"""Noisy max with exponential noise is permute-and-flip: both laws, exactly, on tiny instances."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from dpsql.kernel.mechanisms.noisy_order import select
from dpsql.mechanisms import exponential, noisy_max

R = Fraction(1, 4)
"""e^-(grid step over scale): with a scale of one step, one step of count is a factor R."""
REACH = 16


def permute_and_flip(counts: tuple[int, ...]) -> list[Fraction]:
    """In a uniformly random order, each group's coin shows heads with R^(distance from the largest); the
    first to show heads is chosen."""
    orders = list(permutations(range(len(counts))))
    chosen = [Fraction(0)] * len(counts)
    for order in orders:
        reached = Fraction(1, len(orders))
        for i in order:
            heads = R ** (max(counts) - counts[i])
            chosen[i] += reached * heads
            reached *= 1 - heads
    return chosen


def noisy_max_law(counts: tuple[int, ...], *, one_sided: bool = True) -> list[Fraction]:
    """The product's `select` over all noise below the reach and all orders of ties, in rationals."""
    n = len(counts)
    low = 0 if one_sided else -REACH
    noise = np.array(list(product(range(low, REACH), repeat=n)), dtype=np.int64)
    chosen = [Fraction(0)] * n
    orders = list(permutations(range(n)))
    for order in orders:
        index, _ = select(noise + np.array(counts), np.tile(order, (len(noise), 1)), 1)
        for i in range(n):
            size = np.bincount(np.abs(noise[index[:, 0] == i]).sum(axis=1))
            one = 1 - R if one_sided else (1 - R) / (1 + R)
            chosen[i] += one**n / len(orders) * sum(int(c) * R**m for m, c in enumerate(size))
    return chosen


@pytest.mark.parametrize("counts", [(0, 0), (0, 1), (3, 0), (0, 0, 0), (2, 2, 1), (0, 1, 3), (1, 0, 1)])
def test_identical_to_permute_and_flip(counts: tuple[int, ...]) -> None:
    here, there = noisy_max_law(counts), permute_and_flip(counts)
    assert sum(there) == 1
    # What the reach cuts off is the whole of the difference.
    cut = len(counts) * R**REACH
    assert sum(here) >= 1 - cut
    assert all(abs(a - b) <= cut for a, b in zip(here, there, strict=True))


def test_laplace_noise_is_not() -> None:
    """The comparison can tell: with two-sided noise, or other weights, the laws differ."""
    apart = zip(noisy_max_law((0, 2), one_sided=False), permute_and_flip((0, 2)), strict=True)
    assert max(abs(a - b) for a, b in apart) > Fraction(1, 100)
    other = zip(noisy_max_law((0, 2)), permute_and_flip((0, 3)), strict=True)
    assert max(abs(a - b) for a, b in other) > Fraction(1, 100)


def test_scales() -> None:
    """Permute-and-flip's coins: e^(-epsilon d/c) for monotone counts, e^(-epsilon d/(2c)) for general."""
    assert noisy_max([1, 2, 3], "0.7", sensitivity=3).plan.scale == Fraction(30, 7)
    assert noisy_max([1, 2, 3], "0.7", sensitivity=3, monotone=False).plan.scale == Fraction(60, 7)
    # One and the same e^(-d/scale) as the exponential mechanism's weights, at the same charge.
    for monotone in (True, False):
        one, other = (f([1, 2], 2, monotone=monotone) for f in (noisy_max, exponential))
        assert (one.plan.scale, one.charge) == (other.plan.scale, other.charge)
