"""The charges: durable before data is read, within every cap, final, and chained by hashes; one SQLite file.

`ChargeLedger` is what a statement calls before and after it reads data: charges that no crash, race or second
process can spend twice, and what they paid for.

====================  ===========================================================================
``charging``          the life of a charge, inside one transaction: reserve, settle, fail, cancel
``scopes``            what each scope of a policy has spent and admits; a loss is added to all
``caps``              the caps of a policy, and those of the policy with which the ledger was opened last;
                      the numbers of parts of units
``totals``            the totals of the scopes, and exact amounts as text
``part_totals``       those of parts of units; ``part_declarations`` what a changed policy does to them
``person_totals``     what one person bears, by years, where units are of one period each
``renewals``          when the budget starts anew, and what is promised then; ``renewal_rows``: its rows
``limits``            how many statements may fail or be cancelled, and the slots of those that run; whether
                      the process that holds a reservation is still alive
``reports``           registered reports, and what is kept of each part's budget for them
``lasting_streams``   streams of checks that outlive processes: opened, checked and closed;
                      ``streams_of_ledger`` is what a session calls
``kept_results``      kept ladders, and stored releases: found again by their analyst, or shared
``budget_errors``     the errors of a budget of which too little is left
``events``            everything that changed, in a chain of hashes; the types that pass in and out
``store``             a process's connection: transactions, waiting, threads, forks, errors
``tables``            the tables of the file, and the triggers by which it only grows
``schema``            the file: its creation and recognition
====================  ===========================================================================
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Self

from dpsql.errors import InterfaceError, ProgrammingError
from dpsql.kernel.facts import Facts
from dpsql.kernel.ledger import charging, events, kept_results, limits, part_declarations, reports
from dpsql.kernel.ledger.caps import ANYBODY, Caps, LastCaps
from dpsql.kernel.ledger.events import (
    Event,
    LadderRequest,
    LadderReservation,
    RefinementStep,
    Request,
    Reservation,
    Settled,
    StoredLadder,
    StoredRelease,
)
from dpsql.kernel.ledger.renewals import CAPS, adopt_renewals, start_renewal
from dpsql.kernel.ledger.reports import StoredReport
from dpsql.kernel.ledger.scopes import check_ladders, reorder
from dpsql.kernel.ledger.store import RollbackGuard, Store, storable
from dpsql.kernel.ledger.streams_of_ledger import StreamsOfLedger
from dpsql.kernel.loss import Charge, PrivacyLoss, Totals
from dpsql.kernel.unit_parts import PartSet

_ENTRIES_PER_CHECKPOINT: Final = 128
_FACTS: Final = "facts"
"""The name under which the hash of the facts is stored that the newest event `policy` tells of."""


class ChargeLedger:
    """A durable record of charges; no crash, race or second process can spend a budget twice.

    A charge begins with `reserve` (durable before any data is read) and ends with `settle` (to the realised
    charge, together with the release, durable before a row is returned). What is not settled stays
    charged in full. One file, one policy; any number of threads and processes, also across `fork`.

    A ladder is released to every analyst, those who come later included, so it is charged to the policy's
    budget and counts in the scope of every analyst and every group: their totals are what was asked there and
    all ladders. So an analyst who comes later, or under another name, begins with all ladders spent.

    Every failure of the file is an `OperationalError`, and leaves nothing released.
    """

    def __init__(self, store: Store, caps: Caps, guard: RollbackGuard) -> None:
        """Use an open file under the caps of its policy; `adopt_caps` comes before the first charge."""
        self._store = store
        self._caps = caps
        self._limits = LastCaps(caps)
        self._guard = guard
        self.streams = StreamsOfLedger(store, self._limits, guard, self._adopt_facts)
        """The streams of checks that outlive processes."""

    def close(self) -> None:
        """Close the ledger's file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def adopt_caps(self) -> None:
        """Write an event if the caps are not those that the ledger was opened with last.

        Raises `PolicyError` if one of them is less than what the kept ladders cost.
        """
        with self._store.read() as connection:
            check_ladders(connection, self._caps)
        written = events.canonical(self._caps.content)
        if self.recall(CAPS) != written:
            with self._store.write() as connection:
                connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (CAPS, written))
                part_declarations.adopt(connection, self._caps)
                adopt_renewals(connection, self._caps.renewal, self._caps.filter)
                reorder(connection, self._caps)
                self._tell_policy(connection, None, events.stored_totals(connection))

    def _tell_policy(
        self, connection: sqlite3.Connection, facts: str | None, scopes: Iterable[str] = ()
    ) -> None:
        """Write an event with the caps and the hash of the facts; None: none were read with these caps."""
        connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (_FACTS, facts or ""))
        content = {"at": charging.now(), "caps": self._caps.content, "facts": facts}
        events.append(connection, "policy", content, scopes)

    def _adopt_facts(self, connection: sqlite3.Connection, facts: Facts | None) -> None:
        """Start the budget anew if it is time; write an event if a charge rests on other facts than before.

        Charges of sessions whose data have other columns, or of programs that read the policy in another way,
        are told apart by that; None: who charges rests on no facts.
        """
        start_renewal(connection, self._caps.renewal, self._caps.filter, self.streams.close_all)
        if facts is not None and part_declarations.read_setting(connection, _FACTS) != facts.digest:
            self._tell_policy(connection, facts.digest)

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

    def reserve_all(
        self,
        *,
        analyst: str,
        statement: str,
        requests: Sequence[Request],
        shared: Sequence[str] = (),
        facts: Facts | None = None,
    ) -> Reservation:
        """Charge the maximum of all releases of a statement; durable when this returns.

        Nothing is written when it raises: every cap allows the sum, or nothing is charged. `refines` of a
        request also records that it refines a release, which is possible once for each. `shared` has the keys
        of other analysts' releases, which become the analyst's own as by `share`. `facts` are those on which
        its proofs rest: the newest event `policy` before the charge has their hash.

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
        name, text = name_of(analyst), storable(statement)
        asked = [
            replace(r, selection=storable(r.selection), mechanism=storable(r.mechanism)) for r in requests
        ]
        with self._store.write() as connection:
            self._guard.hold(connection)
            self._adopt_facts(connection, facts)
            if any(each.parts for each in asked) and not part_declarations.is_current(
                connection, self._caps, facts
            ):
                asked = [replace(each, parts=None) for each in asked]
            caps = self._limits.find(connection)
            for key in shared:
                kept_results.share(connection, caps, key, name)
            reservation = charging.reserve(connection, caps, name, text, asked)
        if reservation.entry % _ENTRIES_PER_CHECKPOINT == 0:
            self._store.checkpoint()
        return reservation

    def check_analyst(self, analyst: str) -> str:
        """Return an analyst's name; `PolicyError` if the policy lists others and not this one."""
        name = name_of(analyst)
        self._caps.check_listed(name)
        return name

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
        to the analyst. A realised charge above the reserved one, or a reservation that has ended already, is
        an `InternalError`; another process's reservation is an `InterfaceError`.
        """
        with self._store.write() as connection:
            self._guard.hold(connection)
            numbers, event = charging.settle(connection, reservation, settled)
        self._guard.cover(self._store, event)
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

    def clear_failures(self, analyst: str | None = None) -> None:
        """Reset the counts of failed and cancelled statements, of an analyst or of all; for the owner."""
        with self._store.write() as connection:
            limits.clear(connection, analyst)
            events.append(connection, "clear-failures", {"at": charging.now(), "analyst": analyst})

    def find(self, reuse_key: str, analyst: str) -> StoredRelease | None:
        """Return the analyst's own latest release under a reuse key, which costs nothing again."""
        name = name_of(analyst)
        return self._find_covered(lambda connection: kept_results.find(connection, reuse_key, name))

    def release(self, number: int, analyst: str) -> StoredRelease:
        """Return one of the analyst's own releases; `ProgrammingError` if there is none."""
        name = name_of(analyst)
        found = self._find_covered(lambda connection: kept_results.find_number(connection, number, name))
        if found is None:
            raise ProgrammingError(f"you have no release {number}")
        return found

    def list_until(self, analyst: str, newest: int | None = None) -> list[tuple[str | None, StoredRelease]]:
        """Return an analyst's own releases, perhaps up to a number, oldest first, with their reuse keys."""
        with self._store.read() as connection:
            found = kept_results.list_until(connection, name_of(analyst), newest or 1 << 62)
        if found:
            self._guard.cover(self._store, max((each.event for _, each in found), key=lambda event: event.n))
        return found

    def _find_covered(
        self, find: Callable[[sqlite3.Connection], StoredRelease | None]
    ) -> StoredRelease | None:
        """Return a stored release, of whose event the guard knows."""
        with self._store.read() as connection:
            found = find(connection)
        if found is not None:
            self._guard.cover(self._store, found.event)
        return found

    def share(self, reuse_keys: Iterable[str], analyst: str) -> None:
        """Copy other analysts' releases under the keys to this one, where the policy shares releases.

        They are charged to the analyst's own cap, not to the policy's again. From then on they are the
        analyst's own releases, which `find` returns at no cost.
        Raises `BudgetExceeded` if that cap does not allow all of them; then none is copied.
        """
        with self._store.write() as connection:
            self._guard.hold(connection)
            caps = self._limits.find(connection)
            for key in reuse_keys:
                kept_results.share(connection, caps, key, name_of(analyst))

    def reserve_ladders(
        self, requests: Sequence[LadderRequest], facts: Facts | None = None
    ) -> tuple[LadderReservation, ...]:
        """Charge ladders before any data is read; durable when this returns.

        Nothing is written when it raises: all scopes admit all of the ladders, or nothing is charged. Each is
        then ended by `settle_ladder` or `fail_ladder`. What is not settled stays charged in full. It holds no
        slot of those that may fail, and the cap on one statement does not bind it: the owner asks. `facts` as
        in `reserve_all`.

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
            self._guard.hold(connection)
            self._adopt_facts(connection, facts)
            return kept_results.reserve(connection, self._limits.find(connection), asked)

    def check_ladders(self, loss: PrivacyLoss) -> None:
        """Raise `BudgetExceeded`, as `reserve_ladders` would, if ladders of this loss together do not fit."""
        with self._store.read() as connection:
            kept_results.check_room(connection, self._limits.find(connection), loss, shown_now=True)

    def settle_ladder(self, reservation: LadderReservation, payload: bytes) -> StoredLadder:
        """Keep a ladder that was measured; only after that may it be shown or used."""
        with self._store.write() as connection:
            self._guard.hold(connection)
            found = kept_results.settle(connection, reservation, payload)
        self._guard.cover(self._store, found.event)
        return found

    def fail_ladder(self, reservation: LadderReservation) -> None:
        """End a ladder that was not measured: it stays charged in full."""
        with self._store.write() as connection:
            kept_results.fail(connection, reservation)

    def ladders(self) -> list[StoredLadder]:
        """Return all ladders that are kept, the newest last."""
        with self._store.read() as connection:
            found = kept_results.kept(connection)
        if found:
            self._guard.cover(self._store, max((each.event for each in found), key=lambda event: event.n))
        return found

    def spend_in_all_parts(self) -> dict[str, Totals]:
        """Count the largest total of any part in all parts: units have moved, as the owner says.

        It returns what was added to each scope.
        """
        with self._store.write() as connection:
            self._guard.hold(connection)
            found = part_declarations.spend_in_all(connection, "units have moved")
            event = events.newest(connection)
        self._guard.cover(self._store, event)
        return found

    def register_report(self, report: StoredReport, blocks: Sequence[StoredReport] = ()) -> StoredReport:
        """Register a report before its first answer; the same one again is the one that is there.

        `blocks` are reports of its blocks of parts, which are measured and charged on their own: all are
        registered, or none. Raises `ProgrammingError` if another one has its name.
        """
        at = charging.now()
        with self._store.write() as connection:
            self._guard.hold(connection)
            caps = self._limits.find(connection)
            caps.check_listed(name_of(report.analyst))
            found = [
                reports.register(connection, caps, replace(each, analyst=name_of(each.analyst), at=at))
                for each in (report, *blocks)
            ]
            event = events.newest(connection)
        self._guard.cover(self._store, event)
        return found[0]

    def end_report(self, name: str) -> None:
        """End a report with those of its blocks: nothing is kept for it any more."""
        with self._store.write() as connection:
            reports.end(connection, name, charging.now())

    def reports(self) -> list[tuple[StoredReport, PartSet]]:
        """Return the reports that have not ended, with the parts that each has measured, or measures now."""
        with self._store.read() as connection:
            return [
                (each, reports.parts_of(connection, each.number, measured=True))
                for each in reports.active(connection)
            ]

    def head(self) -> Event:
        """Return the newest event: as text, the receipt of everything so far."""
        with self._store.read() as connection:
            return events.newest(connection)

    def recall(self, name: str) -> str | None:
        """Return the value stored under a name; None if there is none."""
        with self._store.read() as connection:
            return part_declarations.read_setting(connection, storable(name))

    def remember(self, name: str, value: str) -> None:
        """Store a value under a name, replacing an older one."""
        with self._store.write() as connection:
            connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (storable(name), value))


def name_of(analyst: str) -> str:
    """Return an analyst's name, which must be valid: two names may not become one by escaping."""
    if not isinstance(analyst, str) or not analyst or storable(analyst) != analyst or "\0" in analyst:
        raise InterfaceError("an analyst has a name of printable characters")
    name = str.__str__(analyst)  # a subclass may compare as it likes
    if name == ANYBODY:
        raise InterfaceError('"*" is no name of an analyst: in a policy it stands for all who are not listed')
    return name
