"""Exact privacy accounting: the loss of mechanisms, what is charged for it, and what a budget admits.

A budget of (epsilon, delta)-differential privacy is converted to a limit on costs at one order.

`PrivacyLoss` (``privacy_loss``, ``composing``) is the loss of a mechanism or statement: parts and a delta.

* It is made by `PrivacyLoss.of(epsilon, delta, times=n)`, `.gaussian(rho)`, or of the parts `PureDP`,
  `BoundedRange` and `Gaussian`. Losses are added with `+` and multiplied by `.repeated(n)`; `largest_loss`
  is at least each of several.
* `.charge` is basic composition (`Charge`; `InternalError` if there is Gaussian noise: `.epsilon` is None
  then), `.cost(order)` what is added at one order of Renyi divergence.
* `str(loss)` is its canonical text, such as `pure 1/10 x 5 + gauss 1/200 + delta 1/1000000`;
  `PrivacyLoss.parse` reads it back.
* `settle(reserved, realised)` is what is charged for a mechanism that has run. The cost of a realised
  loss itself is not valid. Losses of mechanisms are settled one by one, then added.
* `is_within(charged, reserved)`: whether each part of a loss is within the parts of another.

`Filter` is a budget of one scope (the policy, an analyst), `Totals` the sums kept for it:

* `Filter.of(budget, accounting, conversion_delta)` has the constants `.order_way` (`.order`, `.limit`).
* `filter.amounts(loss)` is what a loss adds to the scope's `Totals`, which have `+` and `-`.
* `filter.admits(totals, loss)`, with totals that hold the reserved loss of all that runs.
* `filter.spent(totals)` is the odometer, `filter.more(totals, loss)` how many like this are left.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Self

from dpsql.kernel.exact_bounds import log_bounds
from dpsql.kernel.loss.charge import Charge, Number, exact
from dpsql.kernel.loss.composing import is_within, largest_loss, settle
from dpsql.kernel.loss.privacy_loss import BoundedRange, Gaussian, Part, PrivacyLoss, PureDP, Realised, Stream
from dpsql.lazy_dataclass import dataclass

PARTS = 64
"""Orders are multiples of 1/64."""

_MOST = 65535
_BITS = 160
_PLACES = 10**30


@dataclass(frozen=True, slots=True)
class OrderLimit:
    """The order at which a budget limits costs, the limit, and what its odometer adds to a cost."""

    order: Fraction
    """Above 1, a multiple of 1/64."""
    limit: Fraction
    """Costs may add up to this; rounded down to 30 decimals."""
    margin: Fraction
    """But for the delta of the conversion, the loss is at any moment at most the cost plus this; rounded up
    to 12 decimals."""


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


Accounting = Literal["pure", "zcdp"]
"""How a budget is accounted: epsilons add; or, in addition, costs at one order do."""

_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a scope over everything charged to it, reserved losses of what is running included."""

    epsilon: Fraction | None = _ZERO
    """By basic composition; None from the first part on that has no epsilon, whatever is settled later."""
    delta: Fraction = _ZERO
    """Of mechanisms."""
    cost: Fraction = _ZERO
    """At the scope's order; 0 if it has none."""

    def __post_init__(self) -> None:
        negative = self.delta.numerator < 0 or self.cost.numerator < 0
        if negative or (self.epsilon is not None and self.epsilon.numerator < 0):
            raise ValueError("a total cannot be negative")

    def __add__(self, other: Totals) -> Totals:
        epsilon = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        return Totals(epsilon, self.delta + other.delta, self.cost + other.cost)

    def __sub__(self, other: Totals) -> Totals:
        """Take back what was added; `ValueError` if more is taken than there is."""
        if other.epsilon is None and self.epsilon is not None:
            raise ValueError("what has no epsilon is no part of a sum of epsilons")
        epsilon = None if self.epsilon is None or other.epsilon is None else self.epsilon - other.epsilon
        return Totals(epsilon, self.delta - other.delta, self.cost - other.cost)


@dataclass(frozen=True, slots=True)
class Filter:
    """A budget of (epsilon, delta)-differential privacy for everything released, and its constants.

    What is released until a statement is refused is (epsilon, delta)-private, whatever an analyst or a
    coalition asks depending on the answers. It is not said that the privacy loss itself is at most epsilon
    but for a chance of delta.

    Notes
    -----
    *Private.* Let P, Q be the laws of everything released on neighbours, L their log-ratio, b = order - 1,
    c the sum of costs, and G the event that no mechanism's delta has come to pass: not G has probability at
    most the delta of mechanisms. 1_G exp(b (L - c)) is a nonnegative supermartingale from 1 on: a mechanism's
    cost is at least its divergence, or is settled as in `Realised`, and may depend on the past. For any set
    S of releases, P(S) - e^epsilon Q(S) <= P(not G) + E_P[1_G (1 - e^(epsilon - L))_+]. Paths that end with
    the sum of epsilons within the budget add nothing, as L <= epsilon there. The others have c <= C, the
    limit, as the last statement was admitted by one of both sums with all before it, and settling only lowers
    them. With a the order, (1 - e^-x)_+ <= e^(b x) (1/a) (1 - 1/a)^(a-1) for all x, so they add at most
    e^(b (C - epsilon)) (1/a) (1 - 1/a)^(a-1), which is at most the conversion's delta by the choice of C.
    Each sum must hold every statement.

    The order is a constant of the budget. Were it chosen by what was asked, out of k, then paths that end
    within the limit of one order would add to those of another, up to k times the delta of the conversion.
    """

    epsilon: Fraction
    delta: Fraction
    """The budget."""
    conversion_delta: Fraction
    """The part of delta that pays for the conversion of costs; mechanisms share the rest. It is fixed in
    advance: what mechanisms leave over may not serve for the conversion."""
    order_way: OrderLimit | None
    """The order and the limit of costs; None if there is only basic composition."""

    @classmethod
    def of(
        cls, budget: Charge, accounting: Accounting = "pure", conversion_delta: Fraction | None = None
    ) -> Self:
        """Return the filter of a budget.

        `conversion_delta` is half of delta by default. A budget without delta has basic composition only.

        >>> found = Filter.of(Charge(Fraction(10), Fraction(1, 10**6)), "zcdp")
        >>> found.more(Totals(), PrivacyLoss.of(Fraction(1, 10)))
        301
        """
        if accounting == "pure" or not budget.delta:
            return cls(budget.epsilon, budget.delta, _ZERO, None)
        part = budget.delta / 2 if conversion_delta is None else conversion_delta
        if not 0 < part <= budget.delta:
            raise ValueError("conversion_delta must be above 0 and at most delta")
        return cls(budget.epsilon, budget.delta, part, order_limit(budget.epsilon, part))

    @property
    def mechanism_delta(self) -> Fraction:
        """The part of delta that the mechanisms of statements share."""
        return self.delta - self.conversion_delta

    def amounts(self, loss: PrivacyLoss) -> Totals:
        """Return what a loss adds to the totals of this scope."""
        cost = _ZERO if self.order_way is None else loss.cost(self.order_way.order)
        return Totals(loss.epsilon, loss.delta, cost)

    def admits(self, totals: Totals, loss: PrivacyLoss) -> bool:
        """Whether a statement may run: deltas fit, and so do either the epsilons or the costs."""
        after = totals + self.amounts(loss)
        if after.delta > self.mechanism_delta:
            return False
        if after.epsilon is not None and after.epsilon <= self.epsilon:
            return True
        return self.order_way is not None and after.cost <= self.order_way.limit

    def more(self, totals: Totals, loss: PrivacyLoss) -> int | None:
        """Return how many statements of the same loss are still admitted; None: any number."""
        each = self.amounts(loss)
        known = None if totals.epsilon is None or each.epsilon is None else totals.epsilon
        ways = [0 if known is None else _fitting(self.epsilon - known, each.epsilon or _ZERO)]
        if self.order_way is not None:
            ways.append(_fitting(self.order_way.limit - totals.cost, each.cost))
        found = [None if None in ways else max(way for way in ways if way is not None)]
        found.append(_fitting(self.mechanism_delta - totals.delta, each.delta))
        return min((n for n in found if n is not None), default=None)

    def spent(self, totals: Totals) -> Fraction | None:
        """Return the epsilon that is spent by now; None if no epsilon below the budget's is proven.

        But for a chance of delta, the privacy loss is at most that at all moments at once (Ville's
        inequality).
        """
        known = [] if totals.epsilon is None else [totals.epsilon]
        if self.order_way is not None:
            known.append(totals.cost + self.order_way.margin)
        least = min(known, default=self.epsilon)
        return least if least < self.epsilon else None


def _fitting(left: Fraction, each: Fraction) -> int | None:
    """Return how often an amount fits in what is left; None: any number of times."""
    if left < 0:
        return 0
    return left // each if each else None
