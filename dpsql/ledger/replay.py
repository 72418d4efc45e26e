"""What the events of a ledger add up to: the totals after each, and the rows that streams should have."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpsql.kernel.ledger import lasting_streams
from dpsql.kernel.ledger.renewal_rows import RENEWAL, Last
from dpsql.kernel.ledger.totals import (
    POLICY,
    Stored,
    added_amounts,
    base,
    find_restored_cost,
    read,
    read_charge,
    read_loss,
)
from dpsql.kernel.loss import Charge, PrivacyLoss, Totals


def list_wrong_streams(connection: sqlite3.Connection) -> Iterator[str]:
    """Return a sentence for each stream that is charged less than its checks, or whose misses fall."""
    rows = connection.execute(
        "SELECT s.entry, s.misses, s.first, s.each, s.options, e.state, e.holder, e.reserved_loss,"
        " e.charged_loss FROM stream s JOIN entry e ON e.entry = s.entry ORDER BY s.entry"
    ).fetchall()
    for entry, misses, first, each, options, state, holder, reserved, charged in rows:
        asked = connection.execute(
            "SELECT step, used, state FROM asked WHERE entry = ? ORDER BY step", (entry,)
        ).fetchall()
        used = [number for _, number, _ in asked]
        if [step for step, *_ in asked] != [*range(1, len(asked) + 1)] or used != sorted(used):
            yield f"the checks of the stream of entry {entry} are not in order"
        most = used[-1] if used else 0
        cost = read(first) + most * read(each) if asked else 0
        known = json.loads(options)
        whole = Charge(read(first) + misses * read(each), Fraction(known.get("delta", 0)))
        if most > misses or len(asked) > known.get("questions", len(asked)):
            yield f"the stream of entry {entry} was asked more than is paid for"
        if PrivacyLoss.of(whole.epsilon, whole.delta) != read_loss(reserved) or holder != "lasting":
            yield f"the stream of entry {entry} is not what was charged for it"
        found = read_loss(charged)
        if (found.epsilon or 0) < cost or (asked and found.delta < whole.delta):
            yield f"the stream of entry {entry} is charged less than its checks have cost"
        if any(each == "begun" for *_, each in asked) and state != "reserved":
            yield f"the stream of entry {entry} has ended, and a check of it has not"


def list_wrong_steps(connection: sqlite3.Connection) -> Iterator[str]:
    """Return a sentence for each stream of a process whose recorded loss falls, or is above its charge."""
    rows = connection.execute(
        "SELECT p.entry, p.step, e.charged_loss, p.epsilon, p.delta"
        " FROM progress p JOIN entry e ON e.entry = p.entry ORDER BY p.entry, p.step"
    )
    last: tuple[int, int, Charge] = (0, 0, Charge())
    for entry, step, loss, *amounts in rows:
        spent, charged = read_charge(*amounts), read_loss(loss)
        before = last[1:] if last[0] == entry else (0, Charge())
        if step != before[0] + 1 or not before[1].fits(spent):
            yield f"the steps of entry {entry} are not in order"
        if not spent.fits(Charge(charged.epsilon or Fraction(0), charged.delta)):
            yield f"entry {entry} is charged less than its steps have spent"
        last = (entry, step, spent)


class StreamReplay:
    """What the rows of streams should be after the events so far."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._streams = self._ended = 0

    def compare_opened(self, record: Mapping[str, Any]) -> Iterator[str]:
        """Compare what an event says of how a stream was opened with its row."""
        self._streams += 1
        found = lasting_streams.opened_content(self._connection, record["entry"]) or {}
        if any(found.get(name) != value for name, value in record.items() if name not in _OF_ANY_EVENT):
            yield f"the stream of entry {record['entry']} is not what it was when it was opened"

    def compare_check(self, record: Mapping[str, Any]) -> Iterator[str]:
        """Compare what an event says of a check that has ended with its row."""
        self._ended += 1
        found = lasting_streams.check_content(self._connection, record["entry"], record["step"])
        if any(found.get(name) != value for name, value in record.items() if name not in _OF_ANY_EVENT):
            yield f"check {record['step']} of entry {record['entry']} is not what it was when it ended"

    def compare_cancelled(self, record: Mapping[str, Any]) -> Iterator[str]:
        """Compare the checks that had not ended when a ledger was restored with their rows."""
        for entry, step in record.get("checks", []):
            self._ended += 1
            if lasting_streams.check_content(self._connection, entry, step).get("state") != "cancelled":
                yield f"check {step} of entry {entry} has not cancelled"

    def compare_rest(self) -> Iterator[str]:
        """Compare the numbers of rows."""
        (streams,) = self._connection.execute("SELECT COUNT(*) FROM stream").fetchone()
        (ended,) = self._connection.execute("SELECT COUNT(*) FROM asked WHERE state <> 'begun'").fetchone()
        if (streams, ended) != (self._streams, self._ended):
            yield "the streams and their checks are not those of the events"


_OF_ANY_EVENT = ("event", "totals")


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
