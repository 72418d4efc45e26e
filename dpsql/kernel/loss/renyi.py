"""What mechanisms cost at one order of Renyi divergence: exact rationals, never below the true divergence."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpsql.kernel.exact_bounds import exp_bounds, log1p_bounds

DECIMALS = 10**12
"""Divergences are rounded up to 12 decimals, and what is chosen to fit a cost down to them."""

_BITS = 64


@lru_cache(maxsize=1 << 14)
def pure_cost(epsilon: Fraction, order: Fraction) -> Fraction:
    """Return the cost of an epsilon-differentially private mechanism: its divergence, rounded up, or epsilon.

    Notes
    -----
    Every pair of laws within a factor e^epsilon of each other is a post-processing of randomised response
    (Kairouz, Oh and Viswanath 2015). So no Renyi divergence of order a is larger than that of randomised
    response, D = epsilon + ln((1 + e^(-(2a - 1) epsilon))/(1 + e^-epsilon))/(a - 1), which is at most epsilon
    and at most a epsilon^2/2.

    >>> pure_cost(Fraction(1, 10), Fraction(4)), pure_cost(Fraction(1), Fraction(4))
    (Fraction(9798231469, 500000000000), Fraction(447941629823, 500000000000))
    """
    return min(epsilon, _divergence(epsilon, order))


def range_cost(epsilon: Fraction, order: Fraction) -> Fraction:
    """Return the cost of a mechanism whose log-ratios lie in one interval of length epsilon.

    At most a epsilon^2/8 for the order a (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021).

    >>> range_cost(Fraction(1, 10), Fraction(4))
    Fraction(1, 200)
    """
    return min(pure_cost(epsilon, order), order * epsilon * epsilon / 8)


def gaussian_cost(rho: Fraction, order: Fraction) -> Fraction:
    """Return the cost of rho-zero-concentrated differential privacy."""
    return order * rho


def _divergence(epsilon: Fraction, order: Fraction) -> Fraction:
    """Return the least number of 12 decimals that is not below the divergence of randomised response.

    No divergence has finitely many decimals: e^-epsilon is transcendental, and in it the equation of the
    divergence with a rational is algebraic and no identity. So the digits come out.
    """
    over, under = epsilon.numerator, epsilon.denominator
    steps, of = (order - 1).numerator, (order - 1).denominator
    bits = _BITS + steps.bit_length()
    while True:
        near, far = exp_bounds(epsilon, bits), exp_bounds((2 * order - 1) * epsilon, bits)
        least = log1p_bounds(*far, bits)[0] - log1p_bounds(*near, bits)[1]
        # The quotient is below 1, however close to it.
        most = min(log1p_bounds(*far, bits)[1] - log1p_bounds(*near, bits)[0], 0)
        scale = (under * steps) << bits
        first, last = (
            -(-DECIMALS * (((over * steps) << bits) + log * of * under) // scale) for log in (least, most)
        )
        if first == last:
            return Fraction(last, DECIMALS)
        bits *= 2


@lru_cache(maxsize=1024)
def largest_epsilon(cost: Fraction, order: Fraction) -> Fraction:
    """Return the largest epsilon of 12 decimals that costs at most this as a pure mechanism."""
    steps = math.floor(cost * DECIMALS)
    # The cost is at most epsilon and, rounded up, at most order epsilon^2/2.
    low = max(steps, math.isqrt(math.floor(2 * steps * DECIMALS / order)))
    stride = 1
    while _fits(low + stride, cost, order):
        low += stride
        stride *= 2
    high = low + stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(middle, cost, order) else (low, middle)
    return Fraction(low, DECIMALS)


def _fits(steps: int, cost: Fraction, order: Fraction) -> bool:
    return pure_cost.__wrapped__(Fraction(steps, DECIMALS), order) <= cost
