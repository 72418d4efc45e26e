"""Certified cutoffs: the least number of grid steps that noise reaches with at most a given probability."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpsql.kernel.noise import LARGEST, exp_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    Bounds = Callable[[int], tuple[int, int, int, int]]


# Every tail below is a rational function, not a constant, of e^-g for some rational g, and e^-g is
# transcendental: a tail never equals the rational chance, so enough digits always decide.

_PLACES = 128


@lru_cache(maxsize=256)
def exponential_cutoff(chance: Fraction, rate: Fraction) -> int:
    """Return the least m with P(X >= Z + m) <= chance, X and Z exponential of this rate per step.

    X and Z are continuous. The probability is e^(-rate m)/2.

    Raises
    ------
    ValueError
        If the answer is over 2^61, which depends on the public arguments alone. The other cutoffs raise
        it too.

    >>> exponential_cutoff(Fraction(1, 100), Fraction(1, 10))  # 10 ln 50 = 39.1
    40
    """

    def bounds(m: int, places: int) -> tuple[int, int, int, int]:
        low, high = _power(rate * m, places)
        return low, high, 2 << places, 2 << places

    return _least(chance, bounds)


@lru_cache(maxsize=256)
def symmetric_cutoff(chance: Fraction, rate: Fraction) -> int:
    """Return the least m >= 0 with P(Z >= m) <= chance, Z discrete Laplace of this rate per step.

    The probability is r^m/(1 + r), r = e^-rate.

    >>> symmetric_cutoff(Fraction(1, 10**6), Fraction(1))  # ln 731,059 = 13.5
    14
    """

    def bounds(m: int, places: int) -> tuple[int, int, int, int]:
        one = 1 << places
        low, high = _power(rate * m, places)
        r, r_up = _power(rate, places)
        return low, high, one + r, one + r_up

    return _least(chance, bounds)


@lru_cache(maxsize=256)
def one_sided_cutoff(chance: Fraction, threshold_rate: Fraction, rate: Fraction) -> int:
    """Return the least m with P(Y - Y0 >= m) <= chance, Y and Y0 geometric, Y0 of `threshold_rate`.

    The chance is r^m (1 - r0)/(1 - r0 r) with r = e^-rate, r0 = e^-threshold_rate.
    """

    def bounds(m: int, places: int) -> tuple[int, int, int, int]:
        one = 1 << places
        low, high = _power(rate * m, places)
        low_0, high_0 = _power(threshold_rate, places)
        low_both, high_both = _power(threshold_rate + rate, places)
        return low * (one - high_0), high * (one - low_0), one * (one - high_both), one * (one - low_both)

    return _least(chance, bounds)


@lru_cache(maxsize=256)
def laplace_cutoff(chance: Fraction, threshold_rate: Fraction, rate: Fraction) -> int:
    """Return the least m with P(Z - Z0 >= m) <= chance, Z and Z0 discrete Laplace, Z0 of `threshold_rate`.

    With a > b for e^-rate and e^-threshold_rate in either order, the chance is
    ((1-b)^2 a^(m+1)/(1+a) - (1-a)^2 b^(m+1)/(1+b)) / ((a-b)(1-ab)), by partial fractions of the
    generating function; the limit for a = b is a^m (m(1-a^2) + 1 + a + 2a^2)/(1+a)^3. On a fine grid
    these are the continuous tails of Free Gap, Lemma 3 (appendix A.3 of the journal version).
    """
    slow, fast = sorted((threshold_rate, rate))

    def equal(m: int, places: int) -> tuple[int, int, int, int]:
        one = 1 << places
        low, high = _power(rate * m, places)
        a, a_up = _power(rate, places)
        least = m * (one * one - a_up * a_up) + one * one + a * one + 2 * a * a
        most = m * (one * one - a * a) + one * one + a_up * one + 2 * a_up * a_up
        return low * least, high * most, (one + a) ** 3, (one + a_up) ** 3

    def bounds(m: int, places: int) -> tuple[int, int, int, int]:
        one = 1 << places
        (a, a_up), (b, b_up) = _power(slow, places), _power(fast, places)
        am, am_up = _power(slow * (m + 1), places)
        bm, bm_up = _power(fast * (m + 1), places)
        ab, ab_up = _power(slow + fast, places)
        return (
            (one - b_up) ** 2 * am * (one + b) - (one - a) ** 2 * bm_up * (one + a_up),
            (one - b) ** 2 * am_up * (one + b_up) - (one - a_up) ** 2 * bm * (one + a),
            (a - b_up) * (one - ab_up) * (one + a) * (one + b),
            (a_up - b) * (one - ab) * (one + a_up) * (one + b_up),
        )

    return _least(chance, equal if slow == fast else bounds)


def _power(exponent: Fraction, places: int) -> tuple[int, int]:
    """Return integer bounds of 2^places e^-exponent, between 0 and 2^places."""
    one = 1 << places
    if exponent == 0:
        return one, one
    low, high = exp_bounds(exponent, places)
    return low, min(high, one)


def _least(chance: Fraction, bounds: Callable[[int, int], tuple[int, int, int, int]]) -> int:
    """Find the least m >= 0 whose tail, which decreases in m, is at most `chance`."""

    def met(m: int) -> bool:
        places = _PLACES
        while True:
            low, high, under, over = bounds(m, places)
            # low/over < tail < high/under, as soon as `under` is positive.
            if under > 0 and high * chance.denominator <= chance.numerator * under:
                return True
            if under > 0 and low * chance.denominator > chance.numerator * over:
                return False
            places *= 2

    if met(0):
        return 0
    under, over = 0, 1
    while not met(over):
        under, over = over, 2 * over
        if over > LARGEST:
            raise ValueError("the noise's scale is too large for so small a delta")
    while over - under > 1:
        middle = (under + over) // 2
        if met(middle):
            over = middle
        else:
            under = middle
    return over
