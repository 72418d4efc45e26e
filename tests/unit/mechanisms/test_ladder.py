"""The ladder: the loss on all small neighbours, by the closed form of noisy max; penalties; limits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.mechanisms import Ladder, NoiseSource, ladder
from dpsql.noise import SeededEntropy

RUNGS = 4


def law(values: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """Return the law of noisy max with exponential noise: by inclusion and exclusion of the others."""
    below = np.exp((values - values.max()) / scale)
    chance = np.zeros(len(values))
    for j, own in enumerate(below):
        others = np.delete(below, j)
        for size in range(len(values)):
            for some in itertools.combinations(others, size):
                chance[j] += own * (-1) ** size * math.prod(some) / (size + 1)
    assert chance.sum() == pytest.approx(1)
    return chance


@pytest.mark.parametrize(("epsilon", "noise"), [("0.2", 0), (1, 0), (3, "0.1"), (1, 4)])
def test_no_unit_moves_a_rung_by_more_than_epsilon(epsilon: int | str, noise: int | str) -> None:
    """All numbers of at most 4 units with contributions of all sizes, and one unit more of any size."""
    plan = Ladder.plan(RUNGS, epsilon, noise=noise)
    loss = {1.0: 0.0, 0.5: 0.0}
    for units in range(5):
        for sizes in itertools.combinations_with_replacement(range(RUNGS + 1), units):
            numbers = np.array([sum(size > j for size in sizes) for j in range(RUNGS)])
            for size in range(RUNGS + 1):
                more = numbers + (size > np.arange(RUNGS))
                for factor, most in loss.items():
                    scale = factor * float(plan.scale) * 2**plan.resolution
                    first, second = (law(plan.values(each), scale) for each in (numbers, more))
                    loss[factor] = max(most, float(np.abs(np.log(first / second)).max()))
    claim = float(Fraction(epsilon))
    assert 0.7 * claim < loss[1.0] <= claim * (1 + 1e-6)
    assert loss[0.5] > claim


def test_a_rung_costs_what_doubling_the_noise_does_but_not_less_than_the_choice_needs() -> None:
    assert Ladder.plan(5, Fraction(1, 5)).penalty == Fraction(25, 2)
    assert Ladder.plan(5, 1, noise=100).penalty == pytest.approx(100 * math.sqrt(2))
    plan = Ladder.plan(5, 2)
    steps = plan.values(np.array([9, 3, 0, 0, 0]))
    wanted = [-9, -3 - 1.25, -2.5, -3.75, -5]
    assert steps.tolist() == [each * 2**plan.resolution for each in wanted]


def test_one_rung_is_free() -> None:
    found = ladder([7], 1)
    assert found.rung.tolist() == [0]
    assert found.charge.epsilon == 0


@pytest.mark.parametrize("epsilon", ["1e-9", 1, "1e9", "1e300"])
def test_any_numbers_any_budget(epsilon: int | str) -> None:
    last = np.iinfo(np.int64).max
    source = NoiseSource(SeededEntropy(1))
    for numbers in ([last] * 41, [0] * 41, [-last] * 41, [last] * 20 + [0] * 21):
        plan = Ladder.plan(41, epsilon, noise=1)
        found = plan.run([numbers] * 3, source).rung
        assert ((found >= 0) & (found < 41)).all()
        if Fraction(epsilon) >= 1 and numbers[0] == last and numbers[-1] == 0:
            assert (found >= 20).all()


@pytest.mark.parametrize(("rungs", "epsilon", "noise"), [(0, 1, 0), (3, 0, 0), (3, "1e-20", 0), (3, 1, -1)])
def test_refusals(rungs: int, epsilon: int | str, noise: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        Ladder.plan(rungs, epsilon, noise=noise)
