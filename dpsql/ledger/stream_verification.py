"""Verify the streams of a ledger: their invariants, and the rows of lasting ones against the events."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from dpsql.kernel.ledger import lasting_streams
from dpsql.kernel.ledger.totals import read, read_charge, read_loss
from dpsql.kernel.loss import Charge, PrivacyLoss


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
