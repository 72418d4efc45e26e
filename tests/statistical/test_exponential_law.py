"""The law of the exponential mechanism with gap, against its closed form.

Fixed seeds; each test's false-alarm rate over seeds is 1e-9, and it must reject epsilon x 0.7 and x 1.3
and the constants of monotone and general counts swapped.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from dpsql.estimates import exponential_mechanism_p_value
from dpsql.kernel.mechanisms.exponential import gap_steps
from dpsql.kernel.mechanisms.weights import Weights
from dpsql.mechanisms import exponential
from dpsql.noise import SeededEntropy

ALARM = 1e-9
TRIALS = 60_000
CELLS = 10


def chi_square(seen: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """p-value, cells with little expected in them put together."""
    thin = expected < 20
    seen = np.append(seen[~thin], seen[thin].sum())
    expected = np.append(expected[~thin], expected[thin].sum())
    keep = expected > 0
    if seen[~keep].sum():
        return 0.0
    return chi2.sf(((seen - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1)


def tail(
    own: float | NDArray[np.float64], others: float | NDArray[np.float64], x: float | NDArray[np.float64]
) -> float | NDArray[np.float64]:
    """P(chosen, gap in log-odds >= x)."""
    return own / (own + np.exp(x) * others)


def expected(counts: Sequence[int], scale: float, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of each (index, cell of the gap in counts), as the closed form has it."""
    weight = np.exp((np.array(counts) - max(counts)) / scale)
    others = np.array([np.delete(weight, i).sum() for i in range(len(weight))])
    above = np.array([tail(weight, others, edge / scale) for edge in edges] + [np.zeros(len(weight))])
    return (above[:-1] - above[1:]).T


CASES = [
    ([3, 5, 5, 4], 1, {"resolution": 0}, 1),
    ([3, 5, 5, 4], 1, {}, 1),
    ([2, 9, 3], 1, {"resolution": 1}, 1),
    ([2, 9, 3], 1, {}, 1),
    ([9, 0], 1, {"monotone": False}, 0.5),
    ([0, 4, 7, 3, -6], "0.9", {"monotone": False, "sensitivity": 3}, 0.15),
    ([0, -4, -7, -3], "0.5", {"lowest": True, "sensitivity": 2}, 0.25),
    ([0, 40], "0.1", {"resolution": 2}, 0.1),
]


@pytest.mark.parametrize(("counts", "epsilon", "options", "strength"), CASES)
@pytest.mark.sampled(3)
def test_law(counts: list[int], epsilon: int | str, options: dict[str, Any], strength: float) -> None:
    """Strength: what multiplies a count in the weight's exponent, by hand."""
    found = exponential(np.tile(counts, (TRIALS, 1)), epsilon, entropy=SeededEntropy(1), **options)
    signed = [-q for q in counts] if options.get("lowest") else counts
    # Quantiles of the gap, on the grid: floored gaps compare with them as unfloored ones would.
    step = 2.0**-found.plan.resolution
    edges = np.unique(np.round(np.quantile(found.gap, np.arange(CELLS) / CELLS) / step) * step)
    edges[0] = 0
    cell = np.searchsorted(edges, found.gap[:, 0], side="right") - 1
    seen = np.bincount(found.index[:, 0] * len(edges) + cell, minlength=len(counts) * len(edges))
    for factor in (0.5, 0.7, 1, 1.3, 2):
        mass = expected(signed, 1 / (strength * factor), edges).ravel() * TRIALS
        assert (chi_square(seen, mass) > ALARM) == (factor == 1), factor


@pytest.mark.parametrize("anchor", [0, 2, 5, 10, 16])
@pytest.mark.sampled(3)
def test_the_gap_does_not_depend_on_the_anchor(anchor: int) -> None:
    """Location 4.9 in log-odds, half a unit a grid step: anchors at 0, before, near and past it."""
    rate, distance = Fraction(1, 2), np.array([12, 0, 15, 13])
    lowered = distance.copy()
    lowered[1] += anchor
    steps = gap_steps(
        Weights(lowered - lowered.min(), rate), 1, anchor, TRIALS // 6, rate, SeededEntropy(4 + anchor)
    )
    others = np.exp(-np.array([12, 15, 13]) / 2).sum()
    seen = np.bincount(np.minimum(steps, 29), minlength=30)
    for shift, true in ((0, True), (0.3, False), (-0.3, False)):
        own = np.exp(shift)
        above = np.append(tail(own, others, np.arange(30) / 2) / tail(own, others, 0), 0)
        assert (chi_square(seen, -np.diff(above) * len(steps)) > ALARM) == true


@pytest.mark.slow
def test_many_groups() -> None:
    """Thousands of groups in many layers, and a far tail of small ones that together weigh much."""
    rng = np.random.default_rng(0)
    counts = np.concatenate([rng.integers(0, 40, 3000), [45, 45, 50]])
    rng.shuffle(counts)
    found = exponential(np.tile(counts, (20_000, 1)), "0.3", resolution=0, entropy=SeededEntropy(7))
    seen = np.bincount(counts[found.index[:, 0]], minlength=51)
    for factor in (0.7, 1, 1.3):
        mass = np.bincount(counts, weights=np.exp(0.3 * factor * (counts - 50.0)), minlength=51)
        assert (chi_square(seen, mass / mass.sum() * 20_000) > ALARM) == (factor == 1)
    # Groups of one layer are told apart by their place alone.
    for value in (36, 39):
        members = np.flatnonzero(counts == value)
        picked = found.index[:, 0][np.isin(found.index[:, 0], members)]
        each = np.bincount(np.searchsorted(members, picked), minlength=len(members))
        assert chi_square(each, np.full(len(members), each.mean())) > ALARM


@pytest.mark.slow
def test_a_million_groups_one_at_a_time() -> None:
    """Single runs on large inputs: the largest groups hold half of the mass, the flat rest the other."""
    counts = np.zeros(10**6, dtype=np.int64)
    counts[:10] = 14
    runs = [exponential(counts, 1, entropy=SeededEntropy(100 + i)) for i in range(400)]
    top = sum(int(run.index[0] < 10) for run in runs)
    share = 10 * np.exp(14) / (10 * np.exp(14) + 10**6 - 10)
    assert ALARM < binom.cdf(top, 400, share) < 1 - ALARM
    assert min(binom.sf(top, 400, share / 1.4), binom.cdf(top, 400, min(share * 1.15, 1))) < 1e-3


class TestPValue:
    """2/(1 + e^(gap/scale)), if the chosen group is not the largest."""

    def exceeds(self, p: NDArray[np.float64]) -> bool:
        """Whether p-values fall below some level too often to be chance."""
        levels = np.array([0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.9])
        hits = np.array([(p <= level).sum() for level in levels])
        return bool((binom.sf(hits - 1, len(p), levels) < ALARM / len(levels)).any())

    @pytest.mark.parametrize("counts", [[0, 0], [3, 0, 1], [2, 2, 2, 0], [0, 1] * 20])
    def test_valid(self, counts: list[int]) -> None:
        found = exponential(np.tile(counts, (TRIALS, 1)), 1, entropy=SeededEntropy(11))
        index, gap = found.index[:, 0], found.gap[:, 0]
        largest = np.array([max(np.delete(counts, i)) for i in range(len(counts))])
        null = largest[index] >= np.array(counts)[index]
        assert null.sum() > 5000
        assert not self.exceeds(exponential_mechanism_p_value(gap[null], found.plan.scale))

    def test_exact_for_two_equal_groups(self) -> None:
        found = exponential(np.tile([4, 4], (TRIALS, 1)), 1, entropy=SeededEntropy(12))
        for factor in (0.7, 1, 1.3):
            p = exponential_mechanism_p_value(found.gap[:, 0], found.plan.scale * Fraction(str(factor)))
            seen = np.bincount(np.minimum((p * 20).astype(int), 19), minlength=20)
            assert (chi_square(seen, np.full(20, TRIALS / 20)) > ALARM) == (factor == 1)
            assert self.exceeds(p) == (factor < 1)
