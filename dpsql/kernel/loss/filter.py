"""The privacy filter: which statements a budget admits, and how much of it is spent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

from dpsql.kernel.loss.charge import Charge
from dpsql.kernel.loss.conversion import OrderLimit, order_limit
from dpsql.kernel.loss.privacy_loss import PrivacyLoss

Accounting = Literal["pure", "zcdp"]
"""How a budget is accounted: epsilons add; or, in addition, costs at one order do."""

_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a scope over everything charged to it, reserved losses of what is running included.

    Attributes
    ----------
    epsilon
        By basic composition; None from the first part on that has no epsilon, whatever is settled later.
    delta
        Of mechanisms.
    cost
        At the scope's order; 0 if it has none.
    """

    epsilon: Fraction | None = _ZERO
    delta: Fraction = _ZERO
    cost: Fraction = _ZERO

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

    Attributes
    ----------
    epsilon, delta
        The budget.
    conversion_delta
        The part of delta that pays for the conversion of costs; mechanisms share the rest. It is fixed in
        advance: what mechanisms leave over may not serve for the conversion.
    order_way
        The order and the limit of costs; None if there is only basic composition.

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
    """

    epsilon: Fraction
    delta: Fraction
    conversion_delta: Fraction
    order_way: OrderLimit | None

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
        """The part of delta that mechanisms share."""
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
