"""What is spent and left of a budget, of one scope and of all that bind an analyst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import Any

from dpsql.epsilon_division import largest_epsilon
from dpsql.kernel.loss import Accounting, Charge, Filter, Number, PrivacyLoss, Totals, exact
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger.amounts import shown

_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class ScopeBudget:
    """A scope: its name, what it admits, and its total so far."""

    name: str
    filter: Filter
    totals: Totals

    def admits(self, loss: PrivacyLoss) -> bool:
        """Whether a statement with this loss may run."""
        return self.filter.admits(self.totals, loss)

    @property
    def remaining(self) -> Charge:
        """The largest epsilon and the largest delta that a statement may still have."""
        admits, totals = self.filter, self.totals
        left = [_ZERO]
        if totals.epsilon is not None:
            left.append(admits.epsilon - totals.epsilon)
        if admits.order_way is not None and totals.cost < admits.order_way.limit:
            left.append(largest_epsilon(admits.order_way.limit - totals.cost, admits.order_way.order))
        return Charge(max(left), max(admits.mechanism_delta - totals.delta, _ZERO))

    @property
    def spent(self) -> Charge:
        """What is spent: an epsilon that is proven by now, or all of it; and delta.

        Under `zcdp` the part of delta that serves the conversion of costs counts as spent.
        """
        admits, totals = self.filter, self.totals
        epsilon = totals.epsilon
        if admits.conversion_delta:
            epsilon = admits.spent(totals)
        return Charge(admits.epsilon if epsilon is None else epsilon, totals.delta + admits.conversion_delta)


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
