"""Costs at one order: against 80-digit decimals, never on the analyst's side."""

import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.kernel.loss.charge import DECIMALS, gaussian_cost, pure_cost, range_cost

STEP = Fraction(1, DECIMALS)
SLACK = Fraction(1, 10**60)
EPSILONS = st.fractions(min_value=Fraction(1, 10**6), max_value=50, max_denominator=10**6)
ORDERS = st.integers(1, 65535).map(lambda i: 1 + Fraction(i, 64))


def divergence(epsilon: Fraction, order: Fraction) -> Fraction:
    """That of randomised response by its definition, ln(p^a q^(1-a) + q^a p^(1-a))/(a - 1), to 60 digits."""
    with localcontext() as context:
        context.prec = 80
        e, a = (Decimal(x.numerator) / Decimal(x.denominator) for x in (epsilon, order))
        p, q = e.exp() / (1 + e.exp()), 1 / (1 + e.exp())
        both = (p.ln() * a + q.ln() * (1 - a)).exp() + (q.ln() * a + p.ln() * (1 - a)).exp()
        return Fraction(both.ln() / (a - 1))


@pytest.mark.parametrize("n", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_cost_is_never_below_the_divergence_and_at_most_a_step_above(n: int) -> None:
    rng = random.Random(n)
    rounded = 0
    for _ in range(n):
        epsilon = Fraction(round(10 ** rng.uniform(-5, 1.5), 9)).limit_denominator(10**12)
        order = 1 + Fraction(min(65535, int(64 * 10 ** rng.uniform(-1.8, 3))), 64)
        cost, exact = pure_cost(epsilon, order), divergence(epsilon, order)
        assert exact - SLACK <= cost <= epsilon
        assert cost == epsilon or cost < exact + STEP + SLACK
        assert cost <= order * epsilon * epsilon / 2 + STEP
        rounded += cost != epsilon
    assert rounded > n * 0.9


@pytest.mark.parametrize(
    ("epsilon", "order"),
    [
        (Fraction(1, 10**300), Fraction(4)),
        (Fraction(1, 10**12), Fraction(4)),
        (Fraction(10**6), Fraction(4)),
        (Fraction(10**30, 7), 1 + Fraction(1, 64)),
        (Fraction(1, 3 * 10**200), 1 + Fraction(65535, 64)),
    ],
)
def test_costs_at_the_ends(epsilon: Fraction, order: Fraction) -> None:
    assert 0 < pure_cost(epsilon, order) <= epsilon
    assert 0 < range_cost(epsilon, order) <= pure_cost(epsilon, order)


@given(EPSILONS, EPSILONS, ORDERS)
def test_a_mechanism_costs_at_least_what_its_parts_cost(
    one: Fraction, other: Fraction, order: Fraction
) -> None:
    """Two mechanisms are one with the sum of their epsilons; so costs grow, too."""
    both = pure_cost(one + other, order)
    assert both >= pure_cost(one, order) + pure_cost(other, order) - 2 * STEP
    assert both >= max(pure_cost(one, order), pure_cost(other, order))


@given(EPSILONS, ORDERS, ORDERS)
def test_costs_grow_with_the_order(epsilon: Fraction, one: Fraction, other: Fraction) -> None:
    assert pure_cost(epsilon, min(one, other)) <= pure_cost(epsilon, max(one, other))


@given(EPSILONS, ORDERS)
def test_a_selection_costs_a_quarter_at_most(epsilon: Fraction, order: Fraction) -> None:
    cost = range_cost(epsilon, order)
    assert cost == min(pure_cost(epsilon, order), order * epsilon**2 / 8)
    assert gaussian_cost(epsilon**2 / 8, order) >= cost


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), Fraction(3, 2)])
def test_two_outcomes_keep_to_the_cost_of_a_range(epsilon: Fraction) -> None:
    """The worst laws whose log-ratio takes two values that are epsilon apart: below the cost, and near it."""
    order = Fraction(255, 64)
    worst = Fraction(0)
    with localcontext() as context:
        context.prec = 60
        a = Decimal(order.numerator) / Decimal(order.denominator)
        ratio = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
        for step in range(1, 200):
            mass = Decimal(step) / 200  # of the outcome whose probability falls
            high = 1 / (mass / ratio + 1 - mass)
            moment = mass * (high / ratio) ** a + (1 - mass) * high**a
            worst = max(worst, Fraction(moment.ln() / (a - 1)))
    assert worst <= range_cost(epsilon, order) < pure_cost(epsilon, order)
    assert worst > range_cost(epsilon, order) * Fraction(7, 10)
