"""What a statement's epsilon buys: by which way it is laid out, and how it is divided."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.analysis.epsilon_division import EpsilonDivision, divide_epsilon
from dpsql.kernel.loss import Charge, Filter
from dpsql.kernel.loss.charge import DECIMALS, largest_epsilon, pure_cost, range_cost

POLICY = Filter.of(Charge(Fraction(10), Fraction(1, 10**6)), "zcdp")
BASIC = Filter.of(Charge(Fraction(10), Fraction(1, 10**6)))
ORDER = Fraction(255, 64)
STEP = Fraction(1, DECIMALS)
COSTS = st.fractions(min_value=Fraction(1, 10**9), max_value=20, max_denominator=10**9)
ORDERS = st.integers(1, 65535).map(lambda i: 1 + Fraction(i, 64))


@pytest.mark.parametrize(
    ("epsilon", "way"), [("1/100", "order"), ("367/1000", "order"), ("369/1000", "basic")]
)
def test_small_statements_are_laid_out_by_cost(epsilon: str, way: str) -> None:
    assert divide_epsilon(Fraction(epsilon), POLICY).accounting == way


def test_every_scope_must_have_the_order_way() -> None:
    small = Fraction(1, 10)
    assert divide_epsilon(small, POLICY, POLICY).accounting == "order"
    assert (
        divide_epsilon(small, POLICY, BASIC).accounting == divide_epsilon(small, BASIC).accounting == "basic"
    )
    assert divide_epsilon(small, POLICY, accounting="basic").accounting == "basic"
    assert divide_epsilon(Fraction(5), POLICY, accounting="order").accounting == "order"
    for scopes in ((BASIC,), (POLICY, BASIC)):
        with pytest.raises(ValueError, match="limit of costs"):
            divide_epsilon(small, *scopes, accounting="order")


def test_basic_shares_are_those_of_epsilon() -> None:
    layout = EpsilonDivision(Fraction(3))
    assert layout.pure_epsilon() == layout.cost == 3
    assert (
        layout.pure_epsilon(Fraction(1, 2), 5) == layout.ranged_epsilon(Fraction(1, 2), 5) == Fraction(3, 10)
    )
    assert layout.gaussian_rho() is None


def test_a_single_mechanism_has_the_statements_epsilon() -> None:
    assert divide_epsilon(Fraction(1, 10), POLICY).pure_epsilon() == Fraction(1, 10)


@given(COSTS, ORDERS)
def test_the_largest_epsilon_of_a_cost(cost: Fraction, order: Fraction) -> None:
    epsilon = largest_epsilon(cost, order)
    assert epsilon == 0 or pure_cost(epsilon, order) <= cost
    assert pure_cost(epsilon + STEP, order) > cost
    assert (epsilon * DECIMALS).denominator == 1


@given(
    st.fractions(min_value=Fraction(1, 1000), max_value=10, max_denominator=1000),
    st.fractions(min_value=Fraction(1, 100), max_value=1, max_denominator=100),
    st.integers(1, 100),
)
def test_what_is_divided_fits_and_nearly_fills_its_share(
    epsilon: Fraction, share: Fraction, times: int
) -> None:
    layout = EpsilonDivision(epsilon, ORDER)
    most = share * pure_cost(epsilon, ORDER)
    assert layout.cost == pure_cost(epsilon, ORDER)
    pure, ranged, rho = (
        layout.pure_epsilon(share, times),
        layout.ranged_epsilon(share, times),
        layout.gaussian_rho(share),
    )
    assert rho is not None
    for each, cost in ((pure, pure_cost), (ranged, range_cost)):
        assert times * cost(each, ORDER) <= most
        # A single mechanism has the statement's epsilon, not the largest of the same rounded cost.
        assert share == times == 1 or times * cost(each + 2 * STEP, ORDER) > most
    assert most - ORDER * STEP < ORDER * rho <= most


def test_rounds_and_noise_have_more_of_epsilon_in_the_order_way() -> None:
    """50 rounds get about epsilon/sqrt 50 each, a selection without gaps twice that."""
    layout = divide_epsilon(Fraction(1, 10), POLICY)
    assert float(layout.pure_epsilon(times=50)) == pytest.approx(0.1 / 50**0.5, rel=0.02)
    assert float(layout.ranged_epsilon(times=50)) == pytest.approx(0.2 / 50**0.5, rel=0.02)
    rho = layout.gaussian_rho()
    assert rho is not None
    assert float(rho) == pytest.approx(0.1**2 / 2, rel=0.03)


def test_a_share_too_small_for_twelve_decimals_buys_nothing() -> None:
    layout = EpsilonDivision(Fraction(1, 10**8), ORDER)
    assert layout.gaussian_rho(Fraction(1, 10**3)) == 0
    assert layout.pure_epsilon(Fraction(1, 10**6)) <= Fraction(1, 10**8)
