"""Convert a budget of (epsilon, delta)-differential privacy to a limit on costs at one order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpsql.kernel.exact_bounds import log_bounds

PARTS = 64
"""Orders are multiples of 1/64."""

_MOST = 65535
_BITS = 160
_PLACES = 10**30


@dataclass(frozen=True, slots=True)
class OrderLimit:
    """The order at which a budget limits costs, the limit, and what its odometer adds to a cost.

    Attributes
    ----------
    order
        Above 1, a multiple of 1/64.
    limit
        Costs may add up to this; rounded down to 30 decimals.
    margin
        But for the delta of the conversion, the loss is at any moment at most the cost plus this;
        rounded up to 12 decimals.
    """

    order: Fraction
    limit: Fraction
    margin: Fraction


@lru_cache(maxsize=256)
def order_limit(epsilon: Fraction, delta: Fraction) -> OrderLimit | None:
    """Return the order with the largest limit relative to it; None if no order has a limit above 0.

    Notes
    -----
    With a the order, costs up to C = epsilon - fee allow no event an excess of more than delta, where
    fee = (ln(1/delta) + (a - 1) ln(1 - 1/a) - ln a)/(a - 1) (Canonne, Kamath and Steinke 2020,
    Proposition 12). The order is searched in floating point, as each is valid; of those near the best one
    the best is taken by the certified limits, so that it is the same on every machine.

    >>> found = order_limit(Fraction(10), Fraction(5, 10**7))
    >>> float(found.order), round(float(found.limit), 3)
    (3.984375, 5.891)
    """
    log = math.log(delta.denominator) - math.log(delta.numerator)

    def gain(step: int) -> float:
        less = step / PARTS
        order = 1 + less
        fee = (log - math.log(order)) / less - math.log1p(1 / less)
        return (float(epsilon) - fee) / order

    coarse = sorted({math.ceil(1.02**n) for n in range(561)} - {0})
    best = max((step for step in coarse if step <= _MOST), key=gain)
    best = max(range(max(1, best - best // 20 - 2), min(_MOST, best + best // 20 + 2) + 1), key=gain)
    near = [step for step in range(best - 2, best + 3) if 1 <= step <= _MOST]
    limits = {1 + Fraction(step, PARTS): _limit(epsilon, delta, 1 + Fraction(step, PARTS)) for step in near}
    order = max(limits, key=lambda each: limits[each] / each)
    if limits[order] <= 0:
        return None
    high = -log_bounds(delta, _BITS)[0]
    margin = Fraction(math.ceil(Fraction(high, 1 << _BITS) / (order - 1) * 10**12), 10**12)
    return OrderLimit(order, limits[order], margin)


def approximate_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon such that rho-zero-concentrated privacy is (epsilon, delta)-differentially private.

    It is the cost rho a of an order a, plus the fee of the conversion there, at the best of the orders that
    are multiples of 1/64, rounded up to 4 decimals.

    >>> float(approximate_epsilon(Fraction(1, 200), Fraction(1, 10**6)))
    0.43
    """
    log = math.log(delta.denominator) - math.log(delta.numerator)

    def total(step: int) -> float:
        less = step / PARTS
        return float(rho) * (1 + less) + (log - math.log(1 + less)) / less + math.log1p(-1 / (1 + less))

    steps = sorted({math.ceil(1.02**n) for n in range(561)})
    order = 1 + Fraction(min((step for step in steps if 1 <= step <= _MOST), key=total), PARTS)
    found = rho * order - _limit(Fraction(0), delta, order)
    return Fraction(max(0, math.ceil(found * 10**4)), 10**4)


def _limit(epsilon: Fraction, delta: Fraction, order: Fraction) -> Fraction:
    """Return epsilon less the fee of an order, rounded down to 30 decimals."""
    unit = 1 << _BITS
    # Each logarithm at the end that makes the fee larger.
    fee = Fraction(-log_bounds(delta, _BITS)[0] - log_bounds(order, _BITS)[0], unit) / (order - 1)
    fee += Fraction(log_bounds(1 - 1 / order, _BITS)[1], unit)
    return Fraction(math.floor((epsilon - fee) * _PLACES), _PLACES)
