"""The filter's promise against the best adversary that has mechanisms with a delta, by enumerated laws.

Each mechanism runs as it is on two groups, on all noise up to a reach. What noise beyond that would release
counts as a breach. An excess grows by at most what is added to an outcome's probability, and falls where the
neighbour's is larger: so the one found is never too small.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, Totals, settle
from dpsql.kernel.mechanisms import Existing, LimitedDomain
from tests.adversary import Action, worst
from tests.given_noise import GivenNoise

STEP = Fraction(1, 32)
"""Of the lattice of log-ratios, which are rounded up."""
TAIL = 1e-4
BREACH = 1 << 20
"""Steps of an outcome that the neighbour does not have."""

Counts = tuple[int, int]
Law = dict[tuple[float, ...], float]
Plan = LimitedDomain | Existing
ONE = LimitedDomain.plan(1, Fraction(1, 2), Fraction(1, 40), candidates=1, resolution=0)
TWO = LimitedDomain.plan(2, Fraction(1), Fraction(1, 40), candidates=2, resolution=0)
FOUND = Existing.plan(Fraction(1, 2), Fraction(1, 40), resolution=0)
PAIRS: list[tuple[Counts, Counts]] = [((0, 0), (1, 0)), ((2, 2), (2, 3)), ((9, 0), (10, 0)), ((5, 5), (6, 6))]
"""Of neighbours; each is taken both ways."""


def noise(ratio: float, reach: int, n: int, *, signed: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return all vectors of n draws of noise, one step less likely by `ratio`, and their probabilities."""
    axis = np.arange(-reach if signed else 0, reach + 1)
    grid = np.array(list(product(axis.tolist(), repeat=n)))
    mass = (1 - ratio) / (1 + ratio if signed else 1) * ratio ** np.abs(grid)
    return grid, mass.prod(axis=1)


def tally(columns: Iterable[NDArray[Any]], mass: NDArray[np.float64], law: Law) -> None:
    """Add the probabilities of equal outputs, whose parts are the columns."""
    rows, inverse = np.unique(np.stack(list(columns), axis=1), axis=0, return_inverse=True)
    for row, found in zip(
        map(tuple, rows.tolist()), np.bincount(inverse.ravel(), mass).tolist(), strict=True
    ):
        law[row] = law.get(row, 0.0) + found


@cache
def limited(plan: LimitedDomain, counts: Counts, further: int) -> Law:
    """{(groups, gaps, whether the cutoff is reached, units): probability}."""
    ratio, n = math.exp(-1 / float(plan.scale)), plan.groups + 1
    steps, mass = noise(ratio, math.ceil(math.log(TAIL / n, ratio)) + further, n, signed=False)
    rows, law = np.tile(counts, (len(mass), 1)), Law()
    orders = list(permutations(range(n)))
    for order in orders:
        done = plan.run(rows, GivenNoise(steps=steps, order=np.tile(order, (len(mass), 1))))
        columns = [*done.index.T, *np.nan_to_num(done.gap, nan=-1).T, done.reached_threshold]
        tally([*columns, np.asarray(done.units)], mass / len(orders), law)
    return law


@cache
def existing(plan: Existing, counts: Counts, further: int) -> Law:
    """{(groups, their noisy numbers): probability}."""
    ratio = math.exp(-1 / float(plan.scale))
    steps, mass = noise(ratio, math.ceil(math.log(TAIL, ratio)) + further, 2, signed=True)
    done = plan.run(np.tile(counts, (len(mass), 1)), GivenNoise(steps=steps, order=steps))
    law = Law()
    tally([*done.index.T, *np.nan_to_num(done.value, nan=-1).T], mass, law)
    return law


def action(first: Law, second: Law, reserved: PrivacyLoss, charged: Callable[[Any], PrivacyLoss]) -> Action:
    """Return a mechanism with the law `first` on the data, and `second`, of more noise, on a neighbour's."""
    merged: dict[tuple[int, PrivacyLoss], float] = {(BREACH, reserved): 1 - sum(first.values())}
    for row, mass in first.items():
        steps = math.ceil(math.log(mass / second[row]) / float(STEP) - 1e-9) if row in second else BREACH
        merged[steps, charged(row)] = merged.get((steps, charged(row)), 0.0) + mass
    return Action(reserved, tuple((mass, steps, loss) for (steps, loss), mass in merged.items()))


def menu(
    *plans: Plan, run: Callable[[Any], Plan] = lambda plan: plan, without_delta: bool = False
) -> list[Action]:
    """Return what an adversary may ask; `run` is what runs where a plan is charged."""
    found = []
    for plan in plans:
        reserved = PrivacyLoss(plan.loss.parts) if without_delta else plan.loss

        def charged(
            row: tuple[float, ...], plan: Plan = plan, reserved: PrivacyLoss = reserved
        ) -> PrivacyLoss:
            if isinstance(plan, Existing):
                return reserved
            return settle(reserved, PrivacyLoss(plan.realised_loss(int(row[-1])).parts, reserved.delta))

        for pair in PAIRS:
            laws = [[law(run(plan), counts, further) for further in (0, 2)] for counts in pair]
            found += [action(laws[i][0], laws[1 - i][1], reserved, charged) for i in (0, 1)]
    return found


def law(plan: Plan, counts: Counts, further: int) -> Law:
    """Return the law of what is released, from all noise up to a reach and `further`."""
    return existing(plan, counts, further) if isinstance(plan, Existing) else limited(plan, counts, further)


def budget(epsilon: str, delta: str) -> Filter:
    """Return a filter with one half of delta for mechanisms."""
    return Filter.of(Charge(Fraction(epsilon), Fraction(delta)), "zcdp")


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.1"), ("3/2", "0.2")])
@pytest.mark.parametrize("plans", [(ONE,), (FOUND,), (ONE, TWO, FOUND)])
@pytest.mark.sampled(7)
def test_no_adversary_breaks_the_promise(plans: Sequence[Plan], epsilon: str, delta: str) -> None:
    scope, most = budget(epsilon, delta), float(Fraction(delta))
    # As many fit as their deltas allow.
    assert scope.more(Totals(), plans[0].loss) == scope.mechanism_delta // plans[0].loss.delta
    found = worst(scope, menu(*plans), 9, STEP)
    assert 0.3 * most < found <= most
    # The adversary is strong enough to tell: an eighth of the epsilon would be broken.
    assert worst(scope, menu(*plans), 9, STEP, Fraction(epsilon) / 8) > most


@pytest.mark.slow  # the menu of two takes seconds
def test_what_a_cutoff_refunds_is_told_by_the_outcome() -> None:
    made = menu(TWO)
    assert len({loss for each in made for _, _, loss in each.outcomes}) > 1
    assert all(loss.delta == TWO.loss.delta for each in made for _, _, loss in each.outcomes)


@pytest.mark.parametrize("plan", [ONE, FOUND])
def test_a_delta_that_is_not_charged_breaks_the_promise(plan: Plan) -> None:
    scope = budget("4", "0.1")  # of the epsilon, eight fit; of the delta, two
    assert worst(scope, menu(plan), 9, STEP) <= 0.1
    assert worst(scope, menu(plan, without_delta=True), 9, STEP) > 0.1


@pytest.mark.parametrize("plan", [ONE, FOUND])
def test_noise_of_half_the_scale_breaks_the_promise(plan: Plan) -> None:
    wrong = menu(plan, run=lambda plan: replace(plan, scale=plan.scale / 2))
    assert worst(budget("1", "0.1"), wrong, 9, STEP) > 0.1


def test_a_cutoff_for_half_the_noise_breaks_the_promise() -> None:
    half = LimitedDomain.plan(1, Fraction(1), Fraction(1, 40), candidates=1, resolution=0)
    wrong = menu(ONE, run=lambda plan: replace(plan, clearance=half.clearance))
    assert worst(budget("1", "0.1"), wrong, 9, STEP) > 0.1
