"""Noisy top-k on tiny instances: every output's probability on neighbours, against e^charge.

The probabilities are those of the mechanism that ships, run on all noise up to a reach and
all orders of ties. Noise has P(Y >= m) = r^m per grid step, so with a scale of `paid` counts a unit
of epsilon is r^-paid: no exponential is rounded. What lies beyond the reach bounds the error.
"""

from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import Noise, NoisyTopK
from dpsql.kernel.mechanisms.noisy_order import select
from dpsql.mechanisms import noisy_top_k
from tests.given_noise import GivenNoise

R = 0.25
REACH = {"exponential": 16, "laplace": 10}
WIDTH = 64
"""Gaps are below this."""


@cache
def noise_of(n: int, noise: Noise, r: float, reach: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All noise vectors up to the reach, and their probabilities."""
    low = 0 if noise == "exponential" else -reach
    steps = np.array(list(product(range(low, reach), repeat=n)))
    one = 1 - r if noise == "exponential" else (1 - r) / (1 + r)
    return steps, one**n * r ** np.abs(steps).sum(axis=1)


@cache
def outputs(
    counts: tuple[int, ...],
    k: int,
    noise: Noise,
    rule: str = "random",
    *,
    r: float = R,
    reach: int | None = None,
) -> NDArray[np.float64]:
    """Probability of each output, indexed by its code, when counts in grid steps get noise.

    Rule "random": as the product has it, averaged over all orders of ties. Rule "fixed": ties by
    position, and plain gaps.
    """
    n = len(counts)
    steps, weight = noise_of(n, noise, r, reach or REACH[noise])
    values = steps + np.array(counts)
    orders = list(permutations(range(n))) if rule == "random" else [tuple(range(n))[::-1]]
    total = np.zeros(n ** min(k, n) * WIDTH ** min(k, n - 1))
    plan = NoisyTopK.plan(n, k, 1, noise=noise, resolution=0)
    for order in orders:
        ranks = np.tile(np.array(order), (len(values), 1))
        done = plan.run(np.tile(counts, (len(steps), 1)), GivenNoise(steps=steps, order=ranks))
        index, gap = done.index, done.gap.astype(np.int64)
        if rule == "fixed":
            everything = select(values, ranks, n)[0]
            ordered = np.take_along_axis(values, everything, axis=1)
            gap = (ordered[:, :-1] - ordered[:, 1:])[:, : gap.shape[1]]
        code = np.zeros(len(values), dtype=np.int64)
        for column in index.T:
            code = code * n + column
        for column in gap.T:
            code = code * WIDTH + column
        total += np.bincount(code, weights=weight / len(orders), minlength=len(total))
    return total


def worst(first: NDArray[np.float64], second: NDArray[np.float64], n: int, noise: Noise) -> float:
    """The largest log-ratio, in base 1/R, over outputs that the cut tail cannot blur."""
    beyond = 2 * n * R ** REACH[noise]
    seen = first > 1e-4
    return np.log(((first - beyond)[seen] / (second + beyond)[seen]).max()) / -np.log(R)


BASES = [(0, 0), (0, 1), (0, 0, 0), (0, 1, 1), (1, 0, 2)]
SHAPES = [(noise, k) for noise in ("exponential", "laplace") for k in (1, 2, 3)]


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("noise", "k"), SHAPES)
@pytest.mark.sampled(5)
def test_no_output_tells_more_than_the_charge(noise: Noise, k: int, monotone: bool) -> None:
    tight = 0.0
    # Tables of laplace noise are large; two bases of three groups are enough for its larger moves.
    for base in BASES if monotone or noise == "exponential" else BASES[:3]:
        n = len(base)
        said = noisy_top_k(base, k, 1, noise=noise, monotone=monotone)
        # r is e^(-1/scale), so e^charge is r^(-charge x scale), both as the product states them.
        allowed = float(said.charge.epsilon * said.plan.scale)
        here = outputs(base, k, noise)
        assert here.sum() == pytest.approx(1, abs=n * R ** (REACH[noise] - 1))
        for move in product([0, 1] if monotone else [-1, 0, 1], repeat=n):
            there = outputs(tuple(np.add(base, move).tolist()), k, noise)
            ratio = max(worst(here, there, n, noise), worst(there, here, n, noise))
            assert ratio <= allowed + 1e-6
            tight = max(tight, ratio / allowed)
    # Laplace keeps a little in hand: floor and uniform remainder smooth its peak.
    assert tight > (0.99 if noise == "exponential" else 0.85)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_finer_grids_and_larger_sensitivity(noise: Noise) -> None:
    """Two grid steps a count, and counts that move by up to two."""
    base = (0, 1, 1)
    here = outputs(tuple(2 * q for q in base), 1, noise)
    for move in product([0, 1, 2], repeat=3):
        there = outputs(tuple(2 * (q + d) for q, d in zip(base, move, strict=True)), 1, noise)
        allowed = 2 * float(noisy_top_k(base, 1, 1, noise=noise, sensitivity=2).plan.scale)
        assert worst(here, there, 3, noise) <= allowed + 1e-6
        assert worst(there, here, 3, noise) <= allowed + 1e-6


@pytest.mark.parametrize(("low", "high"), [(0, 4), (-1, 4), (-4, 4), (2, 4)])
def test_moves_within_a_range_lose_its_width_and_no_more(low: int, high: int) -> None:
    """Sums that one unit more moves by low to high, and by 0 where it has no part: r is e^(-1/scale)."""
    width, tight = max(high, 0) - min(low, 0), 0.0
    said = noisy_top_k((0, 0), 1, 1, sensitivity=width)
    assert said.charge.epsilon * said.plan.scale == width
    for base in [(0, 0), (0, 3), (0, 2, 1)]:
        n = len(base)
        here = outputs(base, 1, "exponential")
        for move in product({0, low, high}, repeat=n):
            there = outputs(tuple(np.add(base, move).tolist()), 1, "exponential")
            ratio = max(worst(here, there, n, "exponential"), worst(there, here, n, "exponential"))
            assert ratio <= width + 1e-4
            tight = max(tight, ratio)
    # With the sensitivity of the larger end alone, or with half of the general scale, it would be over.
    assert tight > 0.99 * width


class TestWhatIsNotPrivate:
    """What the design avoids: each shows as a ratio over e^charge in the same enumeration."""

    def test_a_fixed_order_of_ties(self) -> None:
        """(second item, gap 0): e^(2 epsilon)."""
        for counts, mass in (((0, 1, 1), 4 / 21), ((0, 0, 0), 1 / 21)):
            fixed = outputs(counts, 1, "exponential", "fixed", r=0.5, reach=32)
            assert fixed[1 * WIDTH] == pytest.approx(mass)
        first, second = (outputs(q, 1, "exponential", "fixed") for q in ((0, 1, 1), (0, 0, 0)))
        assert worst(first, second, 3, "exponential") > 1.9

    def test_general_counts_taken_for_monotone(self) -> None:
        first, second = outputs((0, 1, 0), 1, "exponential"), outputs((1, 0, 1), 1, "exponential")
        ratios = [worst(first, second, 3, "exponential"), worst(second, first, 3, "exponential")]
        assert max(ratios) > 1.5

    def test_noise_added_before_negating(self) -> None:
        """The least of counts plus one-sided noise, n = 3: e^(2 epsilon)."""
        steps, weight = noise_of(3, "exponential", R, REACH["exponential"])

        def last_is_least(counts: tuple[int, ...]) -> float:
            values = steps + np.array(counts)
            return weight[(values[:, 2] < values[:, 0]) & (values[:, 2] < values[:, 1])].sum()

        ratio = last_is_least((1, 1, 0)) / last_is_least((0, 0, 0))
        assert np.log(ratio) / -np.log(R) > 1.9
