"""The totals after each event, added up at every order that events tell of."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

from dpsql.kernel.loss import PrivacyLoss, Totals
from dpsql.ledger.amounts import read
from dpsql.ledger.totals import Stored, amounts, base, restored_cost

_ZERO = Fraction(0)

Restored = tuple[str | None, str, str | None, str | None, str | None]
"""What was restored to a scope, as stored: epsilon, delta, cost, its order, the largest cost."""


class RunningSums:
    """The entries and what was restored so far, with totals of the scopes."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[PrivacyLoss, PrivacyLoss, tuple[str, ...]]] = {}
        self._restored: list[tuple[str, Restored]] = []
        self._totals: dict[tuple[str, Fraction | None], Stored] = {}
        """By scope (the policy's, an analyst's, that of the ladders), and by order."""

    def enter(
        self, entry: Hashable, reserved: PrivacyLoss, charged: PrivacyLoss, names: tuple[str, ...]
    ) -> None:
        """Add an entry or a ladder, which counts in some scopes."""
        self._entries[entry] = reserved, charged, names
        for (name, order), total in self._totals.items():
            if name in names:
                more = amounts(reserved, charged, order)
                self._totals[name, order] = replace(total, totals=total.totals + more)

    def settle(self, entry: int, charged: PrivacyLoss) -> None:
        """Lower an entry to what it is charged."""
        reserved, _, names = self._entries[entry]
        self._entries[entry] = reserved, charged, names
        for (name, order), total in self._totals.items():
            if name in names:
                self._totals[name, order] = total.moved(reserved, charged)

    def restore(self, name: str, row: Restored) -> None:
        """Add what was restored to a scope."""
        self._restored.append((name, row))
        for key in [key for key in self._totals if key[0] == name]:
            del self._totals[key]

    def at(self, name: str, order: str | None) -> Stored:
        """Return the total of a scope at an order."""
        key = base(name), None if order is None else read(order)
        if key not in self._totals:
            self._totals[key] = Stored(self._added_up(*key), key[1])
        return self._totals[key]

    def _added_up(self, whose: str, order: Fraction | None) -> Totals:
        found = Totals()
        for reserved, charged, names in self._entries.values():
            if whose in names:
                found += amounts(reserved, charged, order)
        for name, (epsilon, delta, *costs) in self._restored:
            if name == whose:
                cost = _ZERO if order is None else restored_cost((costs[0], costs[1], costs[2]), order)
                found += Totals(None if epsilon is None else read(epsilon), read(delta), cost)
        return found
