"""`RunningSums`: the totals of a ledger after each of its events, added up from what the events tell."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

from dpsql.kernel.ledger.renewal_rows import RENEWAL, Last
from dpsql.kernel.ledger.totals import (
    POLICY,
    Stored,
    added_amounts,
    base,
    find_restored_cost,
    read,
)
from dpsql.kernel.loss import PrivacyLoss, Totals

Restored = tuple[int, str | None, str]
"""What an event added to a scope: its number, epsilon and delta as stored."""


class RunningSums:
    """The totals after each event: the entries and what was restored so far, with totals of the scopes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._entries: dict[Hashable, tuple[PrivacyLoss, PrivacyLoss, tuple[str, ...]]] = {}
        self._restored: list[tuple[str, Restored]] = []
        self._totals: dict[tuple[str, Fraction | None], Stored] = {}
        """By scope (the policy's, an analyst's, that of the ladders), and by order."""
        self._last = Last()
        """What came before the open renewal."""

    def renew(self, last: Last) -> None:
        """Let the open renewal have what came after some entry, ladder and event."""
        self._last = last
        for key in [key for key in self._totals if key[0] == RENEWAL]:
            del self._totals[key]

    def _counts(self, whose: str, entry: Hashable, names: tuple[str, ...]) -> bool:
        """Return whether an entry or a ladder counts in a scope: in the renewal if it is later."""
        if whose != RENEWAL or POLICY not in names:
            return whose in names
        if isinstance(entry, tuple):
            return bool(entry[1] > self._last.ladder)
        return isinstance(entry, int) and entry > self._last.entry

    def enter(
        self, entry: Hashable, reserved: PrivacyLoss, charged: PrivacyLoss, names: tuple[str, ...]
    ) -> None:
        """Add an entry or a ladder, which counts in some scopes."""
        self._entries[entry] = reserved, charged, names
        for (name, order), total in self._totals.items():
            if self._counts(name, entry, names):
                more = added_amounts(reserved, charged, order)
                self._totals[name, order] = replace(total, totals=total.totals + more)

    def settle(self, entry: int, charged: PrivacyLoss) -> None:
        """Lower an entry to what it is charged."""
        reserved, _, names = self._entries[entry]
        self._entries[entry] = reserved, charged, names
        for (name, order), total in self._totals.items():
            if self._counts(name, entry, names):
                self._totals[name, order] = total.settle(reserved, charged)

    def restore(self, name: str, row: Restored) -> None:
        """Add what was restored to a scope."""
        self._restored.append((name, row))
        for key in [key for key in self._totals if key[0] in (name, RENEWAL)]:
            del self._totals[key]

    def at(self, name: str, order: str | None) -> Stored:
        """Return the total of a scope at an order."""
        whose = RENEWAL if name.startswith(RENEWAL) else base(name)
        key = whose, None if order is None else read(order)
        if key not in self._totals:
            self._totals[key] = Stored(self._add_up(*key), key[1])
        return self._totals[key]

    def _add_up(self, whose: str, order: Fraction | None) -> Totals:
        found = Totals()
        for entry, (reserved, charged, names) in self._entries.items():
            if self._counts(whose, entry, names):
                found += added_amounts(reserved, charged, order)
        for name, (event, epsilon, delta) in self._restored:
            if name == whose or (whose == RENEWAL and name == POLICY and event > self._last.event):
                cost = find_restored_cost(self._connection, event, name, order)
                found += Totals(None if epsilon is None else read(epsilon), read(delta), cost)
        return found
