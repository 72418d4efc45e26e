"""`Ledger`, the interface of this package: exact budgets, durable charges, stored releases."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Self

from dpsql.errors import InterfaceError, ProgrammingError
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, Totals
from dpsql.ledger import charging, checking, events, limits, listing, refining, sharing
from dpsql.ledger.accounts import check_ladders, reorder, standing
from dpsql.ledger.budgets import Budget
from dpsql.ledger.caps import ANYBODY, Caps, GroupCap
from dpsql.ledger.events import Event
from dpsql.ledger.high_water import HighWater
from dpsql.ledger.ladder_methods import LadderMethods
from dpsql.ledger.limits import Limits
from dpsql.ledger.mark_places import MarkPlace, mark_place
from dpsql.ledger.records import (
    Entry,
    Lineage,
    RefinementStep,
    ReleaseInfo,
    Request,
    Reservation,
    Settled,
    StoredRelease,
)
from dpsql.ledger.seen import Seen
from dpsql.ledger.store import Store, storable
from dpsql.policy import Policy

_ENTRIES_PER_CHECKPOINT = 128
_CAPS = "caps"
"""The name under which the caps that the ledger was opened with last are stored."""


class Opening(Enum):
    """What is done with a ledger that is not as its newest event and its mark tell."""

    USE = "use"
    """It is refused."""
    INSPECT = "inspect"
    """It is opened for `Ledger.check`; no event is written."""
    ACCEPT = "accept"
    """If it is older than its mark, or missing, what the mark tells counts as spent in it from now on."""


class Ledger(LadderMethods):
    """A durable record of charges; no crash, race or second process can spend a budget twice.

    A charge begins with `reserve` (durable before any data is read) and ends with `settle` (to the realised
    charge, together with the release, durable before a row is returned). What is not settled stays
    charged in full. One file, one policy; any number of threads and processes, also across `fork`.

    Every failure of the file is an `OperationalError`, and leaves nothing released.
    """

    def __init__(self, store: Store, caps: Caps, mark: HighWater) -> None:
        self._store = store
        self._caps = caps
        self._mark = mark
        self.accepted: Mapping[str, Totals] | None = None
        """What was added to each scope by `Opening.ACCEPT`; None if there was nothing to accept."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        policy_id: str,
        total: Charge,
        per_query: Fraction | None = None,
        analysts: Mapping[str, Charge] = MappingProxyType({}),
        max_failures: int = 3,
        max_failures_total: int | None = None,
        max_cancelled: int | None = None,
        max_cancelled_total: int | None = None,
        groups: Mapping[str, GroupCap] = MappingProxyType({}),
        high_water: str | os.PathLike[str] | bool | None = None,
        filter_of: Callable[[Charge], Filter] = Filter.of,
        opening: Opening = Opening.USE,
    ) -> Self:
        """Open a policy's ledger, making a new one if there is none.

        Parameters
        ----------
        path
            The file; its folder must exist and be writable.
        policy_id
            Which policy it belongs to; another one's ledger is a `PolicyError`.
        total, per_query, analysts
            The caps, as the policy states them now: in all, on one statement's epsilon, per analyst. If any
            analyst is named, others are refused, unless there is a cap for "*". A cap below what the kept
            ladders cost is a `PolicyError`.
        max_failures, max_cancelled
            How many statements of an analyst may fail or be cancelled. What runs counts towards both.
        max_failures_total, max_cancelled_total
            How many of all analysts together; ten times as many if left out.
        groups
            The caps on what several analysts spend together.
        high_water
            The file of its mark, which is to lie elsewhere than the ledger; None stands for one in the user's
            folder for state, False for no mark.
        filter_of
            What a scope with a budget admits; by default, what its epsilon allows by basic composition.
        opening
            What to do if it is not as its newest event and its mark tell.
        """
        most = Limits.of(max_failures, max_failures_total, max_cancelled, max_cancelled_total)
        caps = Caps(total, per_query, dict(analysts), most, dict(groups), filter_of)
        file = Path(path).resolve()
        mark = HighWater(_place(high_water), file)
        lost = mark.lost()
        if opening is not Opening.ACCEPT:
            mark.refuse_missing()
        opened = cls(Store(file, policy_id, trusting=opening is Opening.INSPECT), caps, mark)
        try:
            if opening is Opening.ACCEPT:
                opened.accepted = mark.accept(opened._store, lost)
            if opening is not Opening.INSPECT:
                with opened._store.read() as connection:
                    check_ladders(connection, caps)
                opened._record_caps()
                mark.open(opened._store)
        except BaseException:
            opened.close()
            raise
        return opened

    def _record_caps(self) -> None:
        """Write an event if the caps are not those that the ledger was opened with last."""
        written = events.canonical(self._caps.content)
        if self.recall(_CAPS) != written:
            with self._store.write() as connection:
                connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (_CAPS, written))
                reorder(connection, self._caps)
                content = {"at": charging.now(), "caps": self._caps.content}
                events.append(connection, "policy", content, events.stored_totals(connection))

    @classmethod
    def of(cls, policy: Policy, opening: Opening = Opening.USE) -> Self:
        """Open the ledger that a policy names, with the policy's caps; see `open` for `opening`."""
        budget = policy.budget
        return cls.open(
            budget.ledger,
            policy_id=policy.id,
            total=budget.total,
            per_query=budget.max_epsilon_per_query,
            analysts={name: analyst.charge for name, analyst in policy.analysts.items()},
            max_failures=budget.max_failures,
            max_failures_total=budget.max_failures_total,
            max_cancelled=budget.max_cancelled,
            max_cancelled_total=budget.max_cancelled_total,
            groups={name: GroupCap(group.members, group.charge) for name, group in policy.groups.items()},
            high_water=budget.high_water,
            filter_of=budget.filter_of,
            opening=opening,
        )

    @property
    def messages(self) -> tuple[str, ...]:
        """What whoever has opened it should know, in sentences."""
        new = (f"new ledger {self._store.path}: nothing is spent yet",) if self.is_new else ()
        return (*new, *self._mark.messages)

    @property
    def is_new(self) -> bool:
        """Whether this process has made the file, of which nothing was known before."""
        return self._store.created and not self.accepted

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def reserve(
        self,
        *,
        analyst: str,
        statement: str,
        selection: str,
        mechanism: str,
        charge: Charge,
        refines: RefinementStep | None = None,
    ) -> Reservation:
        """Charge a statement's maximum, as `reserve_all` does for several releases."""
        request = Request(selection, mechanism, charge, refines)
        return self.reserve_all(analyst=analyst, statement=statement, requests=[request])

    def reserve_stream(
        self, *, analyst: str, statement: str, selection: str, mechanism: str, charge: Charge
    ) -> Reservation:
        """Charge the maximum of a stream, which hands answers out before it is settled."""
        request = Request(selection, mechanism, charge)
        reservation = self.reserve_all(analyst=analyst, statement=statement, requests=[request], stream=True)
        with self._store.read() as connection:
            seen = Seen.of(connection)
        self._mark.cover(self._store, seen)
        return reservation

    def reserve_all(
        self,
        *,
        analyst: str,
        statement: str,
        requests: Sequence[Request],
        shared: Sequence[str] = (),
        stream: bool = False,
    ) -> Reservation:
        """Charge the maximum of all releases of a statement; durable when this returns.

        Nothing is written when it raises: every cap allows the sum, or nothing is charged. `refines` of a
        request also records that it refines a release, which is possible once for each. `shared` has the keys
        of other analysts' releases, which become the analyst's own as by `share`. `stream`: the one request
        takes its questions one by one; see `reserve_stream`.

        Raises
        ------
        BudgetExceeded
            The policy's, the analyst's or the statement's cap does not allow it.
        OperationalError
            Too many statements are running, have failed or were cancelled, the release to be refined was
            refined, or the file cannot be written.
        PolicyError
            The policy lists its analysts, and this is none of them.
        """
        name, text = _named(analyst), storable(statement)
        asked = [
            replace(r, selection=storable(r.selection), mechanism=storable(r.mechanism)) for r in requests
        ]
        with self._store.write() as connection:
            self._mark.hold(connection)
            for key in shared:
                sharing.share(connection, self._caps, key, name)
            reservation = charging.reserve(connection, self._caps, name, text, asked, stream=stream)
        if reservation.entry % _ENTRIES_PER_CHECKPOINT == 0:
            self._store.checkpoint()
        return reservation

    def admitted(self, analyst: str) -> str:
        """Return an analyst's name; `PolicyError` if the policy lists others and not this one."""
        name = _named(analyst)
        self._caps.check_listed(name)
        return name

    def step(self, reservation: Reservation, number: int, charge: Charge) -> None:
        """Record what a stream has spent so far; only then may it return the answer that this paid for.

        Steps are numbered from 1 and charges never fall. What is written binds `settle`. A number that
        another user of the reservation has written is an `InternalError`.
        """
        with self._store.write() as connection:
            charging.step(connection, reservation, number, charge)

    def settle(
        self,
        reservation: Reservation,
        charge: Charge | PrivacyLoss,
        *,
        release: bytes | None = None,
        reuse_key: str | None = None,
    ) -> int:
        """Lower the reservation to the realised charge and store the release, as `settle_all` does."""
        return self.settle_all(reservation, [Settled(charge, release, reuse_key)])[0][0]

    def settle_all(
        self, reservation: Reservation, settled: Sequence[Settled]
    ) -> tuple[tuple[int, ...], Event]:
        """Lower each part of a reservation to its realised charge and store the releases, all or none.

        It returns their numbers, and the event that stored them. Only after that may the answer be returned
        to the analyst. A realised charge above the reserved one or below the last step's, or a reservation
        that has ended already, is an `InternalError`; another process's reservation is an `InterfaceError`.
        """
        with self._store.write() as connection:
            self._mark.hold(connection)
            numbers, event = charging.settle(connection, reservation, settled)
            seen = Seen.of(connection)
        self._mark.cover(self._store, seen)
        return numbers, event

    def fail(self, reservation: Reservation) -> None:
        """End a statement that failed: it stays charged in full and counts as one of `max_failures`."""
        with self._store.write() as connection:
            charging.end(connection, reservation, failed=True)

    def cancel(self, reservation: Reservation) -> None:
        """End a statement the analyst cancelled: it stays charged in full, and is one of `max_cancelled`.

        Only for what the analyst alone decided: a statement that ends by itself without an answer tells
        something about the data.
        """
        with self._store.write() as connection:
            charging.end(connection, reservation, failed=False)

    def find(self, reuse_key: str, analyst: str) -> StoredRelease | None:
        """Return the analyst's own latest release under a reuse key, which costs nothing again."""
        name = _named(analyst)
        return self._handed_out(lambda connection: sharing.find(connection, reuse_key, name))

    def _handed_out(self, find: Callable[[sqlite3.Connection], StoredRelease | None]) -> StoredRelease | None:
        """Return a stored release; the mark is made as new as its event before."""
        with self._store.read() as connection:
            found = find(connection)
            seen = None if found is None or self._mark.covers(found.event) else Seen.of(connection)
        if seen is not None:
            self._mark.cover(self._store, seen)
        return found

    def numbers(self, reuse_keys: Sequence[str], analyst: str) -> tuple[int, ...] | None:
        """Return the numbers of the releases that `find` finds; None unless it finds one under each key."""
        name = _named(analyst)
        with self._store.read() as connection:
            found = [sharing.number(connection, key, name) for key in reuse_keys]
        return None if None in found else tuple(number for number in found if number is not None)

    def shareable(self, reuse_key: str) -> bool:
        """Whether any analyst has a release under the key."""
        with self._store.read() as connection:
            return sharing.shareable(connection, reuse_key)

    def share(self, reuse_keys: Iterable[str], analyst: str) -> None:
        """Copy other analysts' releases under the keys to this one, where the policy shares releases.

        They are charged to the analyst's own cap, not to the policy's again. From then on they are the
        analyst's own releases, which `find` returns at no cost.
        Raises `BudgetExceeded` if that cap does not allow all of them; then none is copied.
        """
        with self._store.write() as connection:
            self._mark.hold(connection)
            for key in reuse_keys:
                sharing.share(connection, self._caps, key, _named(analyst))

    def releases(self, analyst: str) -> list[ReleaseInfo]:
        """List an analyst's own releases, oldest first."""
        with self._store.read() as connection:
            return listing.releases(connection, _named(analyst))

    def release(self, number: int, analyst: str) -> StoredRelease:
        """Return one of the analyst's own releases; `ProgrammingError` if there is none."""
        name = _named(analyst)
        found = self._handed_out(lambda connection: sharing.release(connection, number, name))
        if found is None:
            raise ProgrammingError(f"you have no release {number}")
        return found

    def lineage(self, number: int, analyst: str) -> Lineage | None:
        """Return what refining one of the analyst's own releases needs to know; None if there is none."""
        with self._store.read() as connection:
            return refining.lineage(connection, number, _named(analyst))

    def budget(self, analyst: str | None = None) -> Budget:
        """Return what is spent and what is left, of the policy or of an analyst.

        For an analyst with a cap, total and spent are the analyst's own, and what remains is the smallest of
        what this cap, those of the analyst's groups and the policy leave. An analyst without one has the
        policy's.
        """
        caps, name = self._caps, None if analyst is None else _named(analyst)
        with self._store.read() as connection:
            return standing(connection, caps, name)

    def entries(self, analyst: str | None = None, *, limit: int | None = None) -> list[Entry]:
        """List the entries for the owner, newest first; an analyst may not be shown their states."""
        with self._store.read() as connection:
            return listing.entries(connection, None if analyst is None else _named(analyst), limit)

    def failures(self, analyst: str) -> int:
        """Return how many of the analyst's statements count as failed, for the owner."""
        with self._store.read() as connection:
            return limits.failures(connection, _named(analyst))

    def cancelled(self, analyst: str) -> int:
        """Return how many of the analyst's statements were cancelled, for the owner."""
        with self._store.read() as connection:
            return limits.ended(connection, "cancelled", _named(analyst))

    def clear_failures(self, analyst: str | None = None) -> None:
        """Reset the counts of failed and cancelled statements, of an analyst or of all; for the owner."""
        with self._store.write() as connection:
            limits.clear(connection, analyst)
            events.append(connection, "clear-failures", {"at": charging.now(), "analyst": analyst})

    def head(self) -> Event:
        """Return the newest event: as text, the receipt of everything so far."""
        with self._store.read() as connection:
            return events.newest(connection)

    def event(self, n: int) -> Event | None:
        """Return the event of a number; None if there is none."""
        with self._store.read() as connection:
            return events.at(connection, n)

    def vetted(self, source: str, version: str) -> bool:
        """Whether this version of a source was read through its declared types before."""
        return self.recall(f"vetted {source}") == version

    def vet(self, source: str, version: str) -> None:
        """Record that this version of a source was read through its declared types."""
        self.remember(f"vetted {source}", version)

    def recall(self, name: str) -> str | None:
        """Return the value stored under a name; None if there is none."""
        with self._store.read() as connection:
            row = connection.execute("SELECT value FROM setting WHERE name = ?", (storable(name),)).fetchone()
        return None if row is None else str(row[0])

    def remember(self, name: str, value: str) -> None:
        """Store a value under a name, replacing an older one."""
        with self._store.write() as connection:
            connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (storable(name), value))

    def asked(
        self, question: str, statement: str, analyst: str, place: int = 1
    ) -> list[tuple[str, datetime]]:
        """Return reuse keys and times of the analyst's releases of the same question or statement text.

        Keys of the same question begin with `question`; text is compared for recent releases only, at the
        same place among the releases of the statement.
        """
        with self._store.read() as connection:
            return listing.asked(connection, question, storable(statement), _named(analyst), place)

    def check(self) -> list[str]:
        """Verify every invariant; return a sentence for each violation."""
        with self._store.read() as connection:
            found = checking.problems(connection)
        problem = self._mark.problem(self._store)
        return found if problem is None else [*found, problem]

    @property
    def marked(self) -> bool:
        """Whether a mark is kept, so that an older copy of the ledger is noticed."""
        return self._mark.kept


def _place(high_water: str | os.PathLike[str] | bool | None) -> MarkPlace | None:
    """Return where the mark is kept; None: nowhere."""
    if high_water is False:
        return None
    return mark_place(None if high_water is None or high_water is True else Path(high_water).resolve())


def _named(analyst: str) -> str:
    """Return an analyst's name, which must be valid: two names may not become one by escaping."""
    if not isinstance(analyst, str) or not analyst or storable(analyst) != analyst or "\0" in analyst:
        raise InterfaceError("an analyst has a name of printable characters")
    name = str.__str__(analyst)  # a subclass may compare as it likes
    if name == ANYBODY:
        raise InterfaceError('"*" is no name of an analyst: in a policy it stands for all who are not listed')
    return name
