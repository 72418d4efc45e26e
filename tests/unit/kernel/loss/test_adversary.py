"""What the filter admits keeps its promise against the best adversary, found by dynamic programming.

Outcomes have losses on a lattice, so that the worst excess of probability over e^epsilon, over all adaptive
choices from a menu, is found exactly but for the rounding of floats.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.kernel.loss import BoundedRange, Charge, Filter, PrivacyLoss, PureDP, Realised, Totals, settle
from tests.adversary import Action, worst

UNIT = Fraction(1, 4)
"""Losses are multiples of this."""


def two(reserved: PrivacyLoss, high: tuple[int, PrivacyLoss], low: tuple[int, PrivacyLoss]) -> Action:
    """Return a mechanism with two outcomes: their probabilities make the mean of exp(-log-ratio) 1."""
    up, down = (math.exp(-step * float(UNIT)) for step, _ in (high, low))
    first = (down - 1) / (down - up)
    return Action(reserved, ((first, *high), (1 - first, *low)))


def response(steps: int) -> Action:
    """Return randomised response."""
    loss = PrivacyLoss.of(steps * UNIT)
    return two(loss, (steps, loss), (-steps, loss))


def rare(hit: int, miss: int) -> Action:
    """Return a mechanism with a cheap outcome and a dear one, of which the smaller one is refunded."""
    loss = PrivacyLoss.of(max(abs(hit), abs(miss)) * UNIT)
    ends = [(step, settle(loss, PrivacyLoss.of(abs(step) * UNIT))) for step in (hit, miss)]
    return two(loss, *sorted(ends, key=lambda end: end[0], reverse=True))


def budget(epsilon: str, delta: str) -> Filter:
    return Filter.of(Charge(Fraction(epsilon), Fraction(delta)), "zcdp", Fraction(delta))


BUDGETS = [("1", "0.1", 0.2), ("2", "0.02", 0.2), ("2", "0.1", 0.2), ("3/2", "0.05", 0.2)]
RESPONSES = [response(1), response(2), response(4)]
REFUNDED = [*RESPONSES, rare(4, -1), rare(1, -4), rare(2, -1), rare(1, -2)]


@pytest.mark.parametrize(("epsilon", "delta", "part"), BUDGETS)
@pytest.mark.parametrize("menu", [RESPONSES, REFUNDED], ids=["responses", "refunded"])
@pytest.mark.sampled(3)
def test_no_adversary_breaks_the_promise(epsilon: str, delta: str, part: float, menu: list[Action]) -> None:
    """The menu has each mechanism with P and Q exchanged, so the other direction is the same."""
    found = worst(budget(epsilon, delta), menu, 9, UNIT)
    assert found <= float(Fraction(delta))
    assert found > part * float(Fraction(delta)) or menu is RESPONSES  # it comes near


def test_a_smaller_epsilon_would_be_broken() -> None:
    """The adversary is strong enough to tell."""
    scope = budget("2", "0.02")
    assert worst(scope, REFUNDED, 9, UNIT, Fraction(3, 2)) > 0.02


def test_costs_of_realised_epsilons_break_the_promise() -> None:
    """A cheap outcome that is likely and whose loss has one sign is paid for by a rare one that is dear.

    The cost of a mechanism with the realised epsilon is no bound: delta is exceeded a thousandfold.
    """
    scope = Filter.of(Charge(Fraction(10), Fraction(1, 10**6)), "zcdp")
    hit, miss = Fraction(13, 10), Fraction(13, 1000)
    reserved = PrivacyLoss.of(hit)
    assert scope.order_way is not None
    order, limit = scope.order_way.order, scope.order_way.limit
    wrong = PureDP(miss).cost(order)
    right = Realised(miss, hit).cost(order)
    assert wrong < right / 20
    assert excess(float(wrong), reserved.cost(order), limit) > 1e-3
    assert excess(float(right), reserved.cost(order), limit) < 1e-6


def excess(cheap: float, dear: Fraction, limit: Fraction) -> float:
    """Return the excess over e^10 of running a mechanism to the end: a hit costs `dear`, else `cheap`."""
    low, high = math.exp(-0.013), math.exp(1.3)
    chance = (1 - low) / (high - low)
    law, found, n = np.array([1.0]), 0.0, 0  # of the number of hits, for paths that go on
    while law.sum() > 1e-12:
        hits = np.arange(len(law))
        ended = (n - hits) * cheap + (hits + 1) * float(dear) > float(limit)
        loss = (n - hits) * 0.013 - hits * 1.3
        found += float((law * ended * -np.expm1(np.minimum(0, 10 - loss))).sum())
        law = np.where(ended, 0, law)
        law = np.append(law * (1 - chance), 0) + np.append(0, law * chance)
        n += 1
    return found


def test_what_mechanisms_leave_of_delta_is_not_the_conversions() -> None:
    """All of delta for the conversion, and again for a mechanism if the loss is low, breaks the promise."""
    scope = Filter.of(Charge(Fraction(10), Fraction(1, 10**6)), "zcdp", Fraction(1, 10**6))
    assert scope.order_way is not None
    rho = float(scope.order_way.limit / scope.order_way.order)
    spread = math.sqrt(2 * rho)
    loss = np.linspace(rho - 12 * spread, rho + 12 * spread, 100_001)
    law = np.exp(-((loss - rho) ** 2) / (4 * rho))
    law /= law.sum()
    alone = np.maximum(0, -np.expm1(10 - loss))
    low = loss < 10
    both = float((law * np.where(low, 1e-6 + (1 - 1e-6) * alone, alone)).sum())
    assert 1.1e-6 < both < 1.3e-6
    assert not scope.admits(Totals(), PrivacyLoss((), Fraction(1, 10**6)))
    half = Filter.of(Charge(Fraction(10), Fraction(1, 10**6)), "zcdp")
    assert half.admits(Totals(), PrivacyLoss((), Fraction(5, 10**7)))
    assert half.order_way is not None
    assert half.order_way.limit < scope.order_way.limit


def test_the_range_of_a_choice_is_not_the_cost_of_its_gap() -> None:
    """Of two groups, sign and gap of noisy max are one Laplace draw, which costs four times as much."""
    scope, epsilon = Filter.of(Charge(Fraction(10), Fraction(1, 10**6)), "zcdp"), Fraction(3, 10)
    assert scope.order_way is not None
    ranged = PrivacyLoss((BoundedRange(epsilon),))
    too_many, enough = (
        int(scope.order_way.limit / loss.cost(scope.order_way.order))
        for loss in (ranged, PrivacyLoss.of(epsilon))
    )
    assert laplace_excess(float(epsilon), too_many) > 1e-3
    assert laplace_excess(float(epsilon), enough) < 1e-6


def laplace_excess(epsilon: float, times: int) -> float:
    """Return at least the excess over e^10 of so many Laplace draws of scale 1/epsilon, 1 apart.

    The log-ratio is rounded down to a grid, and its law convolved.
    """
    steps = 300
    step = epsilon / steps
    law = np.zeros(2 * steps + 1)  # of the log-ratio, from -epsilon to epsilon
    edges = np.arange(2 * steps + 1) / (2 * steps)
    law[:-1] = (np.exp(-epsilon * edges[:-1]) - np.exp(-epsilon * edges[1:]))[::-1] / 2
    law[-1] += 0.5
    law[0] += math.exp(-epsilon) / 2
    size = 1 << (2 * steps * times).bit_length()
    found = np.fft.irfft(np.fft.rfft(law, size) ** times, size)[: 2 * steps * times + 1]
    loss = (np.arange(len(found)) - steps * times) * step
    return float((found * -np.expm1(np.minimum(0, 10 - loss))).sum())
