"""What `Ledger` does with kept ladders, which belong to no analyst and are charged to all of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpsql.kernel.loss import PrivacyLoss
from dpsql.ledger import ladders
from dpsql.ledger.accounts import all_of
from dpsql.ledger.budgets import ScopeBudget
from dpsql.ledger.caps import Caps
from dpsql.ledger.high_water import HighWater
from dpsql.ledger.records import LadderCharge, LadderRequest, LadderReservation, StoredLadder
from dpsql.ledger.seen import Seen
from dpsql.ledger.store import Store, storable


class LadderMethods:
    """Charges, keeps and returns ladders.

    A ladder is released to every analyst, those who come later included, so it is charged to the policy's
    budget and counts in the scope of every analyst and every group: their totals are what was asked there and
    all ladders. So an analyst who comes later, or under another name, begins with all ladders spent.
    """

    _store: Store
    _caps: Caps
    _mark: HighWater

    def reserve_ladders(self, requests: Sequence[LadderRequest]) -> tuple[LadderReservation, ...]:
        """Charge ladders before any data is read; durable when this returns.

        Nothing is written when it raises: all scopes admit all of the ladders, or nothing is charged. Each is
        then ended by `settle_ladder` or `fail_ladder`. What is not settled stays charged in full. It holds no
        slot of those that may fail, and the cap on one statement does not bind it: the owner asks.

        Raises
        ------
        BudgetExceeded
            The budget of the policy, of an analyst (listed, not seen yet, or known to the ledger) or of a
            group does not allow it; the message names all that do not.
        """
        asked = [
            replace(
                each,
                source=storable(each.source),
                measure=storable(each.measure),
                version=storable(each.version),
                statement=storable(each.statement),
            )
            for each in requests
        ]
        with self._store.write() as connection:
            self._mark.hold(connection)
            return ladders.reserve(connection, self._caps, asked)

    def check_ladders(self, loss: PrivacyLoss) -> None:
        """Raise `BudgetExceeded`, as `reserve_ladders` would, if ladders of this loss together do not fit."""
        with self._store.read() as connection:
            ladders.check_room(connection, self._caps, loss)

    def ladder_scopes(self) -> list[ScopeBudget]:
        """Return the budgets in which a ladder counts: of the policy, of analysts and of groups."""
        with self._store.read() as connection:
            return all_of(connection, self._caps)

    def settle_ladder(self, reservation: LadderReservation, payload: bytes) -> StoredLadder:
        """Keep a ladder that was measured; only after that may it be shown or used."""
        with self._store.write() as connection:
            self._mark.hold(connection)
            found = ladders.settle(connection, reservation, payload)
            seen = Seen.of(connection)
        self._mark.cover(self._store, seen)
        return found

    def fail_ladder(self, reservation: LadderReservation) -> None:
        """End a ladder that was not measured: it stays charged in full."""
        with self._store.write() as connection:
            ladders.fail(connection, reservation)

    def ladders(self) -> list[StoredLadder]:
        """Return all ladders that are kept, the newest last."""
        return self._shown(ladders.kept)

    def newest_ladder(self) -> int:
        """Return the number of the newest ladder that is kept; 0 if there is none."""
        with self._store.read() as connection:
            row = connection.execute("SELECT max(number) FROM bounds WHERE state = 'settled'").fetchone()
        return int(row[0] or 0)

    def ladder_charges(self) -> list[LadderCharge]:
        """Return what was charged for ladders, with or without a result, for the owner; newest last."""
        with self._store.read() as connection:
            return ladders.charges(connection)

    def _shown(self, find: Callable[[sqlite3.Connection], list[StoredLadder]]) -> list[StoredLadder]:
        """Return ladders; the mark is made as new as their events before."""
        with self._store.read() as connection:
            found = find(connection)
            seen = Seen.of(connection) if any(not self._mark.covers(each.event) for each in found) else None
        if seen is not None:
            self._mark.cover(self._store, seen)
        return found
