"""What is charged for a realised loss is enough: the mean of exp(lambda (L - charge)) is at most 1."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import PureDP, Realised

Floats = NDArray[np.float64]


def divergence(e: Floats, order: Floats) -> Floats:
    """Return the Renyi divergence of randomised response."""
    up = np.logaddexp(0, -(2 * order - 1) * e) - np.logaddexp(0, -e)
    return np.minimum(e, e + up / (order - 1))


def log_mean(high: Floats, low: Floats, charges: tuple[Floats, Floats], order: Floats) -> Floats:
    """Return ln E[exp(lambda (L - charge))] of laws with two log-ratios, high > 0 > low.

    All laws with log-ratios in an interval are mixtures of these: the mean of exp(-L) is 1.
    """
    chance = np.expm1(-low) / (np.exp(-low) - np.exp(-high))
    ends = [
        np.log(p) + (order - 1) * (loss - charge)
        for p, loss, charge in zip((chance, 1 - chance), (high, low), charges, strict=True)
    ]
    return np.logaddexp(*ends)


def pairs(n: int) -> tuple[Floats, ...]:
    draw = np.random.default_rng(19)
    e = 4 * draw.random(n) ** 2 + 1e-3
    order = 1 + np.exp(draw.uniform(np.log(1 / 64), np.log(1000), n))
    high, low = e * draw.random((2, n))
    extreme = draw.random((2, n)) < 0.4
    return e, order, np.where(extreme[0], e, high) + 1e-9, -np.where(extreme[1], e, low) - 1e-9


@pytest.mark.parametrize("slack", [0.0, 0.3])
def test_the_charge_is_enough_for_all_extreme_pairs(slack: float) -> None:
    """`slack`: the realised epsilon is above the log-ratio."""
    e, order, high, low = pairs(200_000)
    cost = divergence(e, order) + 1e-12
    charges = tuple(np.minimum(np.minimum(np.abs(loss) * (1 + slack), e), cost) for loss in (high, low))
    assert log_mean(high, low, (charges[0], charges[1]), order).max() <= 1e-6


def test_the_cost_of_the_realised_epsilon_is_not_enough() -> None:
    e, order, high, low = pairs(20_000)
    high_cost, low_cost = (divergence(np.abs(loss), order) for loss in (high, low))
    found = log_mean(high, low, (high_cost, low_cost), order)
    assert found.max() > 0.01
    assert (found > 1e-6).mean() > 0.1
    del e


def test_the_parts_have_these_charges() -> None:
    for e, realised, order in ((1, "1/4", 4), (2, "1/10", "3/2"), ("1/2", "2/5", 9)):
        reserved, epsilon, alpha = Fraction(e), Fraction(realised), Fraction(order)
        cost = float(divergence(np.array(float(reserved)), np.array(float(alpha))))
        assert float(PureDP(reserved).cost(alpha)) == pytest.approx(cost, abs=2e-12)
        assert float(Realised(epsilon, reserved).cost(alpha)) == pytest.approx(
            min(cost, float(epsilon)), abs=2e-12
        )
