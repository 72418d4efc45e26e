"""The ladder: the loss on all small neighbours, by the closed form of noisy max; penalties; limits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_softmax

from dpsql.kernel.loss import BoundedRange
from dpsql.kernel.mechanisms import FULL, Ladder, NoiseSource
from dpsql.mechanisms import ladder
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


@pytest.mark.parametrize(("epsilon", "noise"), [("0.2", 0), (1, 0), (3, "0.1"), (1, 2), (1, "2.3")])
@pytest.mark.parametrize("one_in", [1, 2, 4])
@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.sampled(7, rest="longer")
def test_no_unit_moves_a_rung_by_more_than_epsilon(
    epsilon: int | str, noise: int | str, one_in: int, *, capped: bool
) -> None:
    """All numbers of at most 4 units with contributions of all sizes, and one unit more above any rungs."""
    plan = Ladder.plan(RUNGS, epsilon, noise=noise, one_in=one_in, capped=capped)
    loss = {1.0: 0.0, 0.5: 0.0}
    law_of = cache(lambda values, scale: law(np.array(values), scale))
    for units in range(6 if plan.enough else 5):
        for sizes in itertools.combinations_with_replacement(range(RUNGS + 1), units):
            numbers = np.array([sum(size > j for size in sizes) for j in range(RUNGS)])
            for above in itertools.product((0, 1), repeat=RUNGS):
                more = numbers + np.array(above)
                values = [plan.values(each) for each in (numbers, more)]
                for factor, most in loss.items():
                    scale = factor * float(plan.scale) * 2**plan.resolution
                    first, second = (law_of(tuple(v - v.max()), scale) for v in values)
                    loss[factor] = max(most, float(np.abs(np.log(first / second)).max()))
    claim = float(Fraction(epsilon))
    assert 0.7 * claim < loss[1.0] <= claim * (1 + 1e-6)
    assert loss[0.5] > claim


def test_a_rung_costs_what_the_choice_needs() -> None:
    assert Ladder.plan(5, Fraction(1, 5)).penalty == Fraction(25, 2)
    assert Ladder.plan(5, 1, noise=100).penalty == Fraction(5, 2)
    plan = Ladder.plan(5, 2)
    steps = plan.values(np.array([9, 3, 0, 0, 0]))
    wanted = [-9, -3 - 1.25, -2.5, -3.75, -5]
    assert steps.tolist() == [each * 2**plan.resolution for each in wanted]


def test_as_many_units_as_the_noise_outweighs_exceed_a_bound_at_no_cost() -> None:
    """With noise of s bounds in each group, 2 s units are lost in it, less what a rung costs."""
    plan = Ladder.plan(5, 1, noise=100, one_in=4)
    assert plan.enough == pytest.approx(2 * (100 * math.sqrt(2) - 2.5))
    steps = plan.values(np.array([2000, 280, 277, 5, 0])) / 2**plan.resolution
    free = float(plan.enough)
    assert steps == pytest.approx([free - 2000, free - 280 - 2.5, -5, -7.5, -10], rel=1e-4)
    steps = plan.values(np.array([400, 280, 100, 5, 0])) / 2**plan.resolution
    assert steps == pytest.approx([-300, -180 - 2.5, -5, -7.5, -10], rel=1e-4)


@pytest.mark.parametrize("ranged", [False, True])
def test_a_bound_that_all_units_exceed_is_not_chosen(*, ranged: bool) -> None:
    """All 4,000 units have more than 64 rows, and noise for 365 groups is that of 516 units.

    A rung costs at most 35, seven of them less than the 2,700 units that are too many at the first ones: in
    none of 2,000 runs does the noise of the choice, whose scale is 12.5, outweigh the rest (once in e^190).
    """
    sizes = np.full(4_000, 80)
    numbers = [int((sizes > 1 << j).sum()) for j in range(10)]
    plan = Ladder.plan(10, "0.1", noise=365, one_in=4, ranged=ranged)
    chosen = plan.run([numbers] * 2_000, NoiseSource(SeededEntropy(5))).rung[:, 0]
    assert chosen.min() == 7


def test_the_range_of_a_ranged_ladder_is_epsilon() -> None:
    """On all numbers of at most 4 units the log-ratios of two neighbours lie in an interval of epsilon."""
    claim = 1.0
    plan = Ladder.plan(RUNGS, 1, ranged=True)
    assert plan.loss.parts == (BoundedRange(Fraction(1)),)
    assert plan.penalty == Fraction(7, 2)
    scale, widest = float(plan.scale) * 2**plan.resolution, 0.0
    for units in range(5):
        for sizes in itertools.combinations_with_replacement(range(RUNGS + 1), units):
            numbers = np.array([sum(size > j for size in sizes) for j in range(RUNGS)])
            for size in range(RUNGS + 1):
                more = numbers + (size > np.arange(RUNGS))
                logs = [log_softmax(plan.values(each) / scale) for each in (numbers, more)]
                ratios = logs[0] - logs[1]
                assert np.abs(ratios).max() <= claim * (1 + 1e-6)
                widest = max(widest, float(np.ptp(ratios)))
    assert 0.99 * claim < widest <= claim * (1 + 1e-6)


def test_a_ranged_ladder_has_the_law_of_the_exponential_mechanism() -> None:
    """Of 20,000 runs each rung is chosen as often as its weight says, to 5 standard deviations."""
    plan, numbers = Ladder.plan(RUNGS, "0.5", sensitivity=FULL, ranged=True), [9 * FULL, 4 * FULL, FULL, 0]
    chosen = plan.run([numbers] * 20_000, NoiseSource(SeededEntropy(4))).rung[:, 0]
    wanted = np.exp(log_softmax(plan.values(np.array(numbers)) / (float(plan.scale) * 2**plan.resolution)))
    found = np.bincount(chosen, minlength=RUNGS) / 20_000
    assert (np.abs(found - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 20_000)).all()


def long_law(values: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """Return the law of noisy max over any number of rungs, by quadrature over the own noise of each."""
    noise = (np.arange(3_000) + 0.5) * 1e-2
    gaps = (values[:, None] - values[None, :]) / scale
    chance = np.empty(len(values))
    for j in range(len(values)):
        others = np.delete(gaps[j], j)
        below = -np.expm1(-np.maximum(noise[:, None] + others[None, :], 0))
        chance[j] = (np.exp(-noise) * below.prod(axis=1)).sum() * 1e-2
    return chance


def test_the_law_of_many_rungs_is_that_of_few() -> None:
    plan = Ladder.plan(RUNGS, 1)
    values = plan.values(np.array([3, 2, 0, 0]))
    scale = float(plan.scale) * 2**plan.resolution
    assert long_law(values, scale) == pytest.approx(law(values, scale), abs=1e-4)


@pytest.mark.parametrize("epsilon", ["0.05", 1, 20])
@pytest.mark.sampled(3)
def test_a_ladder_to_2_to_the_83_is_as_private_and_goes_too_far_as_seldom(epsilon: int | str) -> None:
    """One unit moves the law of 85 rungs by at most epsilon; more rungs do not add to the noise of a sum.

    The rung that few units need is the fifth; the variance is 4 to the power of the rungs beyond.
    """
    claim, variance = float(Fraction(epsilon)), {}
    for rungs in (41, 85):
        plan = Ladder.plan(rungs, epsilon)
        scale = float(plan.scale) * 2**plan.resolution
        numbers = np.where(np.arange(rungs) < 5, 100_000, 0)
        found = long_law(plan.values(numbers), scale)
        variance[rungs] = float((found * 4.0 ** np.minimum(np.arange(rungs) - 5, 40)).sum())
        for size in (0, 3, 5, 6, 40, rungs):
            more = long_law(plan.values(numbers + (np.arange(rungs) < size)), scale)
            kept = np.minimum(found, more) > 1e-9
            assert np.abs(np.log(found[kept] / more[kept])).max() <= claim + 1e-3
    assert variance[85] == pytest.approx(variance[41], rel=1e-6)
    assert variance[85] < 1.3


@pytest.mark.parametrize("ranged", [False, True])
def test_no_unit_moves_a_rung_of_capped_costs_by_more_than_epsilon(*, ranged: bool) -> None:
    """All numbers of few, some or many units above each of 9 rungs, and one unit more above the first ones.

    The noise of a ladder whose costs are not capped, half as much, would not be enough.
    """
    plan, claim = Ladder.plan(9, 1, capped=True, ranged=ranged), 1.0
    scale, worst = float(plan.scale) * 2**plan.resolution, 0.0
    for numbers in itertools.combinations_with_replacement((60, 26, 24, 9, 0), 9):
        values = plan.values(np.array(numbers))
        for size in (1, 5, 9):
            moved = (plan.values(np.array(numbers) + (np.arange(9) < size)) - values) / scale
            worst = max(worst, float(np.ptp(moved)))
            assert np.abs(moved).max() <= claim / 2 + 1e-9
    assert worst == pytest.approx(claim)


def test_a_bound_far_above_the_first_of_many_rungs_is_found() -> None:
    """Of 3,000 units with 2.6 million, in steps of 2^-20, at the epsilon of one of three searches at .5.

    A cost of each rung below is more than all units are: without a cap the first rung is chosen.
    """
    epsilon, source = Fraction(1, 30), NoiseSource(SeededEntropy(8))
    numbers = [[3_000] * 40 + [2_930, 2_033] + [0] * 43] * 4_000
    assert (Ladder.plan(85, epsilon).run(numbers, source).rung < 9).mean() > 0.99
    capped = Ladder.plan(85, epsilon, capped=True)
    chosen = capped.run(numbers, source).rung
    assert (abs(chosen - 42) <= 2).mean() > 0.998
    assert capped.penalty == 2 * Ladder.plan(85, epsilon).penalty
    steps = capped.values(np.array(numbers[0])) / 2**capped.resolution
    assert steps[:41] == pytest.approx([-3_000] * 40 + [-2_930])
    assert steps[42:48] == pytest.approx([0, -150, -300, -450, -600, -750])
    assert steps[48:] == pytest.approx(-750)


def test_one_rung_is_free() -> None:
    found = ladder([7], 1)
    assert found.rung.tolist() == [0]
    assert found.charge.epsilon == 0


@pytest.mark.parametrize("epsilon", ["1e-9", 1, "1e9", "1e300"])
@pytest.mark.parametrize("ranged", [False, True])
@pytest.mark.parametrize("capped", [False, True])
def test_any_numbers_any_budget(epsilon: int | str, *, ranged: bool, capped: bool) -> None:
    last = np.iinfo(np.int64).max
    source = NoiseSource(SeededEntropy(1))
    for numbers in ([last] * 41, [0] * 41, [-last] * 41, [last] * 20 + [0] * 21):
        plan = Ladder.plan(41, epsilon, noise=1, ranged=ranged, capped=capped)
        found = plan.run([numbers] * 3, source).rung
        assert ((found >= 0) & (found < 41)).all()
        if Fraction(epsilon) >= 1 and numbers[0] == last and numbers[-1] == 0:
            assert (found >= 20).all()


@pytest.mark.parametrize(("rungs", "epsilon", "noise"), [(0, 1, 0), (3, 0, 0), (3, "1e-20", 0), (3, 1, -1)])
def test_refusals(rungs: int, epsilon: int | str, noise: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        Ladder.plan(rungs, epsilon, noise=noise)
