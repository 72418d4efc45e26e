"""Divide what a statement's epsilon buys, the epsilon itself or a cost, among its mechanisms.

Basic accounting divides the epsilon. Accounting by order divides what the epsilon costs at one order of Renyi
divergence, where losses of several mechanisms add up to less: each then gets a larger epsilon.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from dpsql.kernel.loss import Filter
from dpsql.kernel.loss.charge import DECIMALS, Charge, largest_epsilon, pure_cost
from dpsql.kernel.loss.privacy_loss import PrivacyLoss
from dpsql.lazy_dataclass import dataclass

Accounting = Literal["basic", "order"]
"""Whether a statement's mechanisms divide its epsilon, or the cost that this epsilon has at one order."""


@dataclass(frozen=True, slots=True)
class EpsilonDivision:
    """How a statement's epsilon is divided: the epsilon itself, or its cost at one order."""

    epsilon: Fraction
    """As the statement says."""
    order: Fraction | None = None
    """The order at which costs are divided; None if the epsilon itself is."""

    @property
    def accounting(self) -> Accounting:
        """The way of division: "basic" divides the epsilon itself, "order" its cost at the order."""
        return "basic" if self.order is None else "order"

    @property
    def cost(self) -> Fraction:
        """The amount that is divided: the cost of the epsilon at `order`, or without one the epsilon."""
        return self.epsilon if self.order is None else pure_cost(self.epsilon, self.order)

    def epsilon_of(self, share: Fraction) -> Fraction:
        """Return the epsilon of a part of the statement that gets this share of the divided amount.

        With the same order, that epsilon is divided in turn.

        >>> [float(EpsilonDivision(Fraction(1), n).epsilon_of(Fraction(1, 4))) for n in (None, Fraction(4))]
        [0.25, 0.37503390948]
        """
        return self.pure_epsilon(share) if share else Fraction(0)

    def find_charge(self, loss: PrivacyLoss) -> Charge:
        """Return the charge of a privacy loss; by cost, the least epsilon that costs as much.

        In the order way it is the least epsilon of 12 decimals that costs as much, and never more than the
        statement's own.
        """
        if self.order is None:
            return loss.charge
        cost = loss.cost(self.order)
        if not cost:
            return Charge(Fraction(0), loss.delta)
        if cost >= self.cost:
            return Charge(self.epsilon, loss.delta)
        found = largest_epsilon(cost, self.order)
        if pure_cost(found, self.order) < cost:
            found += Fraction(1, DECIMALS)
        return Charge(min(found, self.epsilon), loss.delta)

    def pure_epsilon(self, share: Fraction = Fraction(1), times: int = 1) -> Fraction:
        """Return the epsilon of each of a given number of pure mechanisms that cost a share together.

        In the order way it is the largest one of 12 decimals; 0 if there is none. A single mechanism has the
        epsilon of the statement.

        >>> EpsilonDivision(Fraction(1), Fraction(4)).pure_epsilon(times=50)
        Fraction(47768676811, 500000000000)
        """
        if share == times == 1:
            return self.epsilon
        most = share * self.cost / times
        return most if self.order is None else largest_epsilon(most, self.order)

    def ranged_epsilon(self, share: Fraction = Fraction(1), times: int = 1) -> Fraction:
        """Return the epsilon of each of a number of bounded-range selections that cost a share together."""
        most = share * self.cost / times
        if self.order is None:
            return most
        # At most order epsilon^2/8, which alone is enough; or by its cost as a pure mechanism.
        root = math.isqrt(math.floor(8 * most / self.order * DECIMALS**2))
        return max(Fraction(root, DECIMALS), largest_epsilon(most, self.order))

    def gaussian_rho(self, share: Fraction = Fraction(1)) -> Fraction | None:
        """Return the rho of Gaussian noise that costs a share; None if the epsilon itself is divided.

        Rounded down to 12 decimals; 0 if the share is too small.
        """
        if self.order is None:
            return None
        return Fraction(math.floor(share * self.cost / self.order * DECIMALS), DECIMALS)


def divide_epsilon(
    epsilon: Fraction, policy: Filter, *others: Filter, accounting: Accounting | None = None
) -> EpsilonDivision:
    """Return how a statement's epsilon is divided under the policy's scope and other ones.

    It depends on public numbers alone, not on what is spent: costs are divided if the statement's part
    of the limit of costs is less than that of epsilon. `accounting` is what the statement asks for. A scope
    without a limit of costs rules out "order": `ValueError` if that is asked for.
    """
    possible = all(each.order_way is not None for each in (policy, *others))
    if accounting == "order" and not possible:
        raise ValueError("a scope has no limit of costs: it has no delta, or too small a budget")
    limit = policy.order_way
    if accounting == "basic" or limit is None or not possible:
        return EpsilonDivision(epsilon)
    if accounting == "order" or pure_cost(epsilon, limit.order) * policy.epsilon < epsilon * limit.limit:
        return EpsilonDivision(epsilon, limit.order)
    return EpsilonDivision(epsilon)
