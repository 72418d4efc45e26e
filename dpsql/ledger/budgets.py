"""What is spent and left of a budget, of one scope and of all that bind an analyst, and how that is shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpsql.kernel.ledger.amounts import shown
from dpsql.kernel.ledger.scopes import Caps, ScopeBudget, analyst_budget, group_budget, policy_budget
from dpsql.kernel.loss import Accounting, Charge, Filter, Number, PrivacyLoss, Totals, exact
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent in all, what is spent, and what is left. All exact; shown rounded.

    >>> Budget(Charge(Fraction(1)), Charge(Fraction(1, 3)), Charge(Fraction(2, 3)))
    <Budget: epsilon 0.333334 of 1 spent, 0.666666 left>

    `remaining` has the largest epsilon that one statement may still have; with `zcdp`, many small statements
    may have more together, see `more`.
    """

    total: Charge
    spent: Charge
    remaining: Charge
    scopes: tuple[ScopeBudget, ...] = field(default=(), repr=False, compare=False)
    """Those that bind, the one that is shown first."""

    def __repr__(self) -> str:
        amounts = {
            name: [getattr(each, name) for each in (self.total, self.spent, self.remaining)]
            for name in ("epsilon", "delta")
        }
        parts = [
            f"{name} {shown(spent, up=True)} of {shown(total, up=False)} spent, {shown(left, up=False)} left"
            for name, (total, spent, left) in amounts.items()
            if total
        ]
        return f"<Budget: {'; '.join(parts)}>"

    @classmethod
    def of(cls, *scopes: ScopeBudget) -> Budget:
        """Return the budget of the first of some scopes; what is left is the least that they leave."""
        first, left = scopes[0], [each.remaining for each in scopes]
        smallest = Charge(min(each.epsilon for each in left), min(each.delta for each in left))
        return cls(Charge(first.filter.epsilon, first.filter.delta), first.spent, smallest, scopes)

    @property
    def accounting(self) -> Accounting:
        """How statements add up: `pure` or `zcdp`."""
        return "zcdp" if self.scopes and self.scopes[0].filter.conversion_delta else "pure"

    @property
    def alpha(self) -> Fraction | None:
        """The order at which costs add up; None if only epsilons do."""
        way = self.scopes[0].filter.order_way if self.scopes else None
        return None if way is None else way.order

    @property
    def limit(self) -> Fraction | None:
        """What costs may add up to; None if only epsilons add up."""
        way = self.scopes[0].filter.order_way if self.scopes else None
        return None if way is None else way.limit

    @property
    def cost(self) -> Fraction | None:
        """The sum of costs so far; None if only epsilons add up."""
        return self.scopes[0].totals.cost if self.alpha is not None else None

    @property
    def facts(self) -> dict[str, Any]:
        """The exact amounts of the scope that is shown first, and what all scopes leave, as JSON has them."""
        first = self.scopes[0]
        admits, totals = first.filter, first.totals
        return {
            **{name: getattr(self, name).fractions for name in ("total", "spent", "remaining")},
            "accounting": self.accounting,
            "conversion_delta": str(admits.conversion_delta),
            "name": first.name,
            "epsilons": None if totals.epsilon is None else str(totals.epsilon),
            "deltas": str(totals.delta),
            "costs": str(totals.cost),
        }

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Budget:
        """Read `facts`; of other scopes than the first only what they leave is known."""
        total, spent, remaining = (
            Charge(Fraction(facts[name]["epsilon"]), Fraction(facts[name]["delta"]))
            for name in ("total", "spent", "remaining")
        )
        if "accounting" not in facts:  # of an older server
            return cls(total, spent, remaining)
        admits = Filter.of(total, facts["accounting"], Fraction(facts["conversion_delta"]))
        epsilon = None if facts["epsilons"] is None else Fraction(facts["epsilons"])
        totals = Totals(epsilon, Fraction(facts["deltas"]), Fraction(facts["costs"]))
        return cls(total, spent, remaining, (ScopeBudget(facts["name"], admits, totals),))

    def more(self, epsilon: Number | PrivacyLoss) -> int:
        """Return how many further statements of an epsilon, or of a loss, every scope admits.

        Of a server's budget, what other scopes than one's own admit is known for the next statement only.
        """
        loss = epsilon if isinstance(epsilon, PrivacyLoss) else PrivacyLoss.of(exact(epsilon))
        if not loss.parts:
            raise ValueError("an epsilon above 0 is needed")
        if loss.epsilon is not None and len(loss.parts) == 1 and loss.epsilon > self.remaining.epsilon:
            return 0
        if not self.scopes:  # of an older server, which adds epsilons
            return 0 if loss.epsilon is None else self.remaining.epsilon // loss.epsilon
        found = [each.filter.more(each.totals, loss) for each in self.scopes]
        return min(n for n in found if n is not None)


def budget_of(connection: sqlite3.Connection, caps: Caps, analyst: str | None) -> Budget:
    """Return what is spent and left of the policy, or of all scopes that bind an analyst."""
    whole = policy_budget(connection, caps)
    if analyst is None:
        return Budget.of(whole)
    groups = [group_budget(connection, caps, *named) for named in caps.groups_of(analyst)]
    own = analyst_budget(connection, caps, analyst)
    return Budget.of(whole, *groups) if own is None else Budget.of(own, *groups, whole)


LIKE = Fraction(1, 10)
"""The epsilon of the statements that are counted, if the policy has no default."""


def rows_of(budget: Budget, like: Fraction | None = None) -> list[tuple[str, str, str, str]]:
    """Return the rows of a budget with `zcdp`: name, total, spent, left.

    `like` is the epsilon of the statements that are counted.
    """
    each = LIKE if like is None else like
    first = budget.scopes[0]
    admits, totals = first.filter, first.totals
    price = _up(each)

    def more(number: int | None) -> str:
        return f"{number} more of {price}"

    loss, zero = PrivacyLoss.of(each), Fraction(0)
    basic = replace(admits, order_way=None).more(totals, loss)
    sums = "none" if totals.epsilon is None else _up(totals.epsilon)
    delta = f"{_up(admits.conversion_delta)} conversion"
    delta += f", {_up(totals.delta)} unknown domains"
    rows = [
        ("epsilon", _down(admits.epsilon), _up(budget.spent.epsilon), more(budget.more(each))),
        ("delta", _down(admits.delta), delta, _down(budget.remaining.delta)),
        ("basic way", _down(admits.epsilon), sums, more(basic)),
    ]
    way = admits.order_way
    if way is not None:
        number = replace(admits, epsilon=zero).more(replace(totals, epsilon=None), loss)
        left = f"{more(number)} (alpha {_down(way.order)})"
        rows.append(("order way", _down(way.limit), _up(totals.cost), left))
    return rows


def _down(amount: Fraction) -> str:
    return _short(shown(amount, up=False))


def _up(amount: Fraction) -> str:
    return _short(shown(amount, up=True))


def _short(text: str) -> str:
    """Write a small number with its exponent.

    >>> _short("0.000001"), _short("0.0195196")
    ('1e-6', '0.0195196')
    """
    return f"{Decimal(text).normalize():e}" if text.startswith("0.0000") else text
