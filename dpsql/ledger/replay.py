"""Compares the tables of a ledger with its events, one after the other, for the owner's check."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from dpsql.kernel.ledger import events, ladders
from dpsql.kernel.ledger.amounts import DamagedError, read, read_loss
from dpsql.kernel.ledger.charging import entry_content, release_content
from dpsql.kernel.ledger.totals import BOUNDS, POLICY, Stored, added_amounts, base, restored_cost, scope
from dpsql.kernel.loss import PrivacyLoss, Totals
from dpsql.ledger.migration import digest_of

_ZERO: Final = Fraction(0)

_Record = Mapping[str, Any]

_Restored = tuple[str | None, str, str | None, str | None, str | None]
"""What was restored to a scope, as stored: epsilon, delta, cost, its order, the largest cost."""


def problems(connection: sqlite3.Connection) -> Iterator[str]:
    """Return a sentence for each event that was changed, and for each row that no event tells of."""
    replay = _Replay(connection)
    last = 0
    for n, record, follows in events.chain(connection):
        if not follows:
            yield f"event {n} is not what it was when it was written, or one before it is missing"
        yield from replay.compare(n, record)
        last = n
    if not last:
        yield "there are no events"
    yield from replay.left()


class _RunningSums:
    """The totals after each event: the entries and what was restored so far, with totals of the scopes."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[PrivacyLoss, PrivacyLoss, tuple[str, ...]]] = {}
        self._restored: list[tuple[str, _Restored]] = []
        self._totals: dict[tuple[str, Fraction | None], Stored] = {}
        """By scope (the policy's, an analyst's, that of the ladders), and by order."""

    def enter(
        self, entry: Hashable, reserved: PrivacyLoss, charged: PrivacyLoss, names: tuple[str, ...]
    ) -> None:
        """Add an entry or a ladder, which counts in some scopes."""
        self._entries[entry] = reserved, charged, names
        for (name, order), total in self._totals.items():
            if name in names:
                more = added_amounts(reserved, charged, order)
                self._totals[name, order] = replace(total, totals=total.totals + more)

    def settle(self, entry: int, charged: PrivacyLoss) -> None:
        """Lower an entry to what it is charged."""
        reserved, _, names = self._entries[entry]
        self._entries[entry] = reserved, charged, names
        for (name, order), total in self._totals.items():
            if name in names:
                self._totals[name, order] = total.moved(reserved, charged)

    def restore(self, name: str, row: _Restored) -> None:
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
                found += added_amounts(reserved, charged, order)
        for name, (epsilon, delta, *costs) in self._restored:
            if name == whose:
                cost = _ZERO if order is None else restored_cost((costs[0], costs[1], costs[2]), order)
                found += Totals(None if epsilon is None else read(epsilon), read(delta), cost)
        return found


class _Replay:
    """What the tables should hold after the events so far."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sums = _RunningSums()
        self._running: dict[int, PrivacyLoss] = {}
        """The entries without an end, and what they have reserved."""
        self._measuring: set[int] = set()
        """The ladders without an end."""
        self._entries = self._releases = self._ladders = self._n = 0
        self._last: Mapping[str, Any] = {}
        self._facts: str | None = None
        """The hash of the facts that the newest event `policy` tells of."""
        self._rules: dict[str, Callable[[_Record], Iterator[str]]] = {
            "migration": self._migration,
            "policy": self._policy,
            "reserve": self._entered,
            "share": self._shared,
            "settle": self._settled,
            "fail": self._ended("failed"),
            "cancel": self._ended("cancelled"),
            "restored": self._restored,
            "bounds": self._ladders_reserved,
            "bounds-settle": self._ladder_settled,
            "bounds-fail": lambda record: self._ladders_ended("failed", [record["ladder"]]),
        }

    def compare(self, n: int, record: _Record) -> Iterator[str]:
        """Compare what an event says with the tables, and its totals with the sums."""
        try:
            self._n = n
            rule = self._rules.get(record["event"])
            if rule is not None:
                yield from (f"event {n}: {text}" for text in rule(record))
            self._last = record["totals"]
            for name, total in self._last.items():
                if Stored.read(tuple(total)) != self._sums.at(name, total[3]):
                    yield f"event {n}: the total of {name} is not the sum of the events"
        except (KeyError, TypeError, ValueError, DamagedError):
            yield f"event {n} cannot be read"

    def left(self) -> Iterator[str]:
        """Compare what is left at the end."""
        for name, total in self._last.items():
            if events.stored_total(self._connection, name) != tuple(total):
                yield f"the total of {name} is not the one that the newest event tells of"
        rows = self._connection.execute("SELECT entry FROM entry WHERE state = 'reserved'")
        if {entry for (entry,) in rows} != self._running.keys():
            yield "the entries that have not ended are not those of the events"
        rows = self._connection.execute("SELECT number FROM bounds WHERE state = 'reserved'")
        if {number for (number,) in rows} != self._measuring:
            yield "the ladders that have not ended are not those of the events"
        row = self._connection.execute("SELECT value FROM setting WHERE name = 'facts'").fetchone()
        if (row[0] if row is not None else "") != (self._facts or ""):
            yield "the facts are not those of the newest event that tells of the policy"
        numbers = {"entry": self._entries, "release": self._releases, "bounds": self._ladders}
        for table, number in numbers.items():
            (found,) = self._connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
            if found != number:
                yield f"the table {table} has {found} rows, and the events tell of {number}"

    def _policy(self, record: _Record) -> Iterator[str]:
        self._facts = record.get("facts")
        if self._facts is not None and re.fullmatch("[0-9a-f]{64}", self._facts) is None:
            yield "the hash of the facts is none"

    def _migration(self, record: _Record) -> Iterator[str]:
        connection, last = self._connection, record["entries"]
        if digest_of(connection, last, record["running"]) != record["digest"]:
            yield "the entries and releases from before the migration are not what they were"
        running = set(record["running"])
        rows = connection.execute(
            "SELECT entry, analyst, shared, reserved_loss, charged_loss FROM entry WHERE entry <= ?", (last,)
        )
        for entry, analyst, shared, reserved, charged in rows:
            self._entries += 1
            if entry in running:
                self._running[entry] = read_loss(reserved)
            else:
                self._releases += connection.execute(
                    "SELECT COUNT(*) FROM release WHERE entry = ?", (entry,)
                ).fetchone()[0]
            loss = read_loss(reserved if entry in running else charged)
            self._sums.enter(entry, read_loss(reserved), loss, _names(analyst, shared))

    def _entered(self, record: _Record) -> Iterator[str]:
        for content in record["entries"]:
            entry, loss = content["entry"], read_loss(content["reserved_loss"])
            found = self._connection.execute("SELECT 1 FROM entry WHERE entry = ?", (entry,)).fetchone()
            if found is None:
                yield f"entry {entry} is missing"
            elif entry_content(self._connection, entry) != content:
                yield f"entry {entry} is not what it was when it was reserved"
            self._entries += 1
            self._running[entry] = loss
            self._sums.enter(entry, loss, loss, _names(content["analyst"], content["shared"]))

    def _shared(self, record: _Record) -> Iterator[str]:
        yield from self._entered(record)
        yield from self._settled(record)

    def _settled(self, record: _Record) -> Iterator[str]:
        for content in record["releases"]:
            entry, loss = content["entry"], read_loss(content["charged_loss"])
            row = self._connection.execute(
                "SELECT e.state, e.charged_loss, e.at = r.at AND e.analyst = r.analyst AND r.event = ?,"
                " r.number, r.reuse_key, r.payload FROM entry e JOIN release r ON r.number = e.release"
                " WHERE e.entry = ?",
                (self._n, entry),
            ).fetchone()
            if row is None:
                yield f"the release of entry {entry} is missing"
                continue
            state, charged, same, number, key, payload = row
            found = release_content(entry, number, read_loss(charged), key, payload)
            if state != "settled" or not same or found != content:
                yield f"entry {entry} or its release is not what it was when it was settled"
            self._releases += 1
            del self._running[entry]
            self._sums.settle(entry, loss)

    def _restored(self, record: _Record) -> Iterator[str]:
        yield from self._ended("cancelled")({"entries": record["ended"]})
        yield from self._ladders_ended("cancelled", record.get("ladders", []))
        rows = self._connection.execute(
            "SELECT scope, epsilon, delta, cost, alpha, most FROM restored WHERE event = ?", (self._n,)
        ).fetchall()
        if {name: amounts for name, *amounts in rows} != record["added"]:
            yield "what was added to the totals is not what it was"
        for name, amounts in record["added"].items():
            self._sums.restore(name, tuple(amounts))

    def _ladders_reserved(self, record: _Record) -> Iterator[str]:
        for content in record["ladders"]:
            number, loss = content["number"], read_loss(content["loss"])
            if ladders.content_of(self._connection, number) != content:
                yield f"ladder {number} is missing or not what it was when it was reserved"
            self._ladders += 1
            self._measuring.add(number)
            self._sums.enter(("ladder", number), loss, loss, (BOUNDS, POLICY))

    def _ladder_settled(self, record: _Record) -> Iterator[str]:
        number = record["ladder"]
        row = self._connection.execute(
            "SELECT payload FROM bounds WHERE number = ? AND state = 'settled' AND event = ?",
            (number, self._n),
        ).fetchone()
        if row is None or events.digest(row[0]) != record["payload"]:
            yield f"ladder {number} is missing or not what it was when it was settled"
        self._measuring.remove(number)

    def _ladders_ended(self, state: str, numbers: Iterable[int]) -> Iterator[str]:
        for number in numbers:
            row = self._connection.execute("SELECT state FROM bounds WHERE number = ?", (number,)).fetchone()
            if row != (state,):
                yield f"ladder {number} has not {state}"
            self._measuring.remove(number)

    def _ended(self, state: str) -> Callable[[_Record], Iterator[str]]:
        def compare(record: _Record) -> Iterator[str]:
            for entry in record["entries"]:
                del self._running[entry]
                row = self._connection.execute("SELECT state FROM entry WHERE entry = ?", (entry,)).fetchone()
                if row != (state,):
                    yield f"entry {entry} has not {state}"

        return compare


def _names(analyst: str, shared: int) -> tuple[str, ...]:
    return (scope(analyst),) if shared else (scope(analyst), POLICY)
