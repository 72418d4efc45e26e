"""Certified thresholds, against decimal arithmetic of 80 digits and against plain sums."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms.unknown_domain import exponential_cutoff, laplace_cutoff, one_sided_cutoff

CHANCES = [
    Fraction(9, 10),
    Fraction(1, 2),
    Fraction(1, 3),
    Fraction(1, 100),
    Fraction(1, 10**9),
    Fraction(1, 10**40),
]
RATES = [Fraction(3), Fraction(1, 7), Fraction(1, 2000), Fraction(7, 10**5)]


def e(exponent: Fraction) -> Decimal:
    return (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()


def exponential_tail(m: int, rate: Fraction) -> Decimal:
    return e(rate * m) / 2


def one_sided_tail(m: int, threshold_rate: Fraction, rate: Fraction) -> Decimal:
    return e(rate * m) * (1 - e(threshold_rate)) / (1 - e(threshold_rate + rate))


def laplace_tail(m: int, threshold_rate: Fraction, rate: Fraction) -> Decimal:
    a, b = e(rate), e(threshold_rate)
    if a == b:
        return a**m * (m * (1 - a * a) + 1 + a + 2 * a * a) / (1 + a) ** 3
    first, second = (1 - b) ** 2 * a ** (m + 1) / (1 + a), (1 - a) ** 2 * b ** (m + 1) / (1 + b)
    return (first - second) / ((a - b) * (1 - a * b))


def is_least(m: int, chance: Fraction, tail: Callable[..., Decimal], *rates: Fraction) -> bool:
    with localcontext() as context:
        context.prec = 80
        limit = Decimal(chance.numerator) / Decimal(chance.denominator)
        return tail(m, *rates) <= limit and (m == 0 or tail(m - 1, *rates) > limit)


@pytest.mark.parametrize("chance", CHANCES)
def test_the_least_that_holds(chance: Fraction) -> None:
    for rate in RATES:
        assert is_least(exponential_cutoff(chance, rate), chance, exponential_tail, rate)
    for pair in product(RATES, RATES):
        assert is_least(one_sided_cutoff(chance, *pair), chance, one_sided_tail, *pair)
        assert is_least(laplace_cutoff(chance, *pair), chance, laplace_tail, *pair)


@pytest.mark.parametrize("difference", [Fraction(1, 10**4), Fraction(1, 10**12), Fraction(1, 10**25)])
def test_nearly_equal_scales(difference: Fraction) -> None:
    """The closed form cancels there; the answer is that of equal scales, or a little less."""
    rate = RATES[2]
    for chance in CHANCES:
        equal, near = (
            laplace_cutoff(chance, rate, rate),
            laplace_cutoff(chance, rate * (1 + difference), rate),
        )
        assert equal * (1 - difference) - 1 <= near <= equal


@pytest.mark.parametrize("rates", [(0.9, 0.4), (0.4, 0.9), (0.5, 0.5)])
def test_the_tails_are_those_of_the_noise(rates: tuple[float, float]) -> None:
    """Sums over the law itself, for both noises."""
    threshold_r, r = np.exp(-np.array(rates))
    steps = np.arange(-120, 121)
    for laplace in (False, True):

        def law(ratio: float, laplace: bool = laplace) -> NDArray[np.float64]:
            mass = ratio ** np.abs(steps) * ((1 - ratio) / (1 + ratio) if laplace else 1 - ratio)
            return np.where(laplace | (steps >= 0), mass, 0)

        joint = law(threshold_r)[:, None] * law(r)[None, :]
        for m in range(12):
            summed = joint[steps[None, :] - steps[:, None] >= m].sum()
            with localcontext() as context:
                context.prec = 40
                exact = [Fraction(rate) for rate in rates]
                tail = float((laplace_tail if laplace else one_sided_tail)(m, *exact))
            assert summed == pytest.approx(tail, rel=1e-9)


def test_continuous_limit() -> None:
    """On fine grids: (2c/epsilon) ln(...) for one-sided noise, a little below; [FG] Lemma 3 for Laplace."""
    chance, fine = Fraction(1, 10**6), 2**20
    slow, fast = Fraction(3, 100 * fine), Fraction(17, 100 * fine)
    m = one_sided_cutoff(chance, slow, fast)
    continuous = float(np.log(10**6 * 3 / 20) / 0.17) * fine
    assert continuous < m < continuous + 5
    t = laplace_cutoff(chance, slow, fast) / fine
    tail = (0.17**2 * np.exp(-0.03 * t) - 0.03**2 * np.exp(-0.17 * t)) / (2 * (0.17**2 - 0.03**2))
    assert tail == pytest.approx(1e-6, rel=1e-4)


def test_an_absurd_delta_is_refused() -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: exponential_cutoff(Fraction(1, 10**999), Fraction(1, 2**50)),
        lambda: one_sided_cutoff(Fraction(1, 10**999), Fraction(1, 2**50), Fraction(1, 2**50)),
        lambda: laplace_cutoff(Fraction(1, 10**999), Fraction(1, 2**50), Fraction(1, 2**50)),
    )
    for call in calls:
        with pytest.raises(ValueError, match="delta"):
            call()
