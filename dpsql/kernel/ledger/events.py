"""What passes in and out of the ledger, and its events, each with a hash of everything before it.

Requests, reservations, stored releases and ladders are the types that are asked and returned.

An event is one change: what was reserved, settled, failed, cancelled or shared, or which limits of the
policy changed. Its record is JSON in one canonical form, with the totals of the scopes after it. The hash
has no key: it shows accidents, edits by hand and rows that were cut out, but whoever can write the file can
also compute a new chain.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any

from dpsql.kernel.ledger.part_totals import BY_PARTS, row_of_tree, scopes_with_trees
from dpsql.kernel.ledger.totals import BOUNDS, PERSON, DamagedError, Row, policy_names
from dpsql.kernel.levels import Level
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.unit_parts import PartSet
from dpsql.lazy_dataclass import dataclass

_BEGINNING = "0" * 64
"""Stands for the hash before the first event."""


@dataclass(frozen=True, slots=True)
class Event:
    """The number and the hash of an event.

    As text it is a receipt: whoever keeps one can show that the ledger had that event.

    >>> str(Event(12, "9f" * 32))
    '12-9f9f9f9f9f9f9f9f'
    """

    n: int
    hash: str

    def __str__(self) -> str:
        return f"{self.n}-{self.hash[:16]}"


def digest(payload: bytes | None) -> str | None:
    """Return the SHA-256 of a payload, in hexadecimal digits."""
    return None if payload is None else hashlib.sha256(payload).hexdigest()


def canonical(content: object) -> str:
    """Return the only JSON text of a value: keys sorted, no blanks, nothing but ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def chain_hash(before: object, record: object) -> str:
    """Return the hash of a record behind an event with the hash `before`."""
    if not isinstance(before, str) or not isinstance(record, str):
        raise DamagedError("an event is no text")
    return hashlib.sha256((before + record).encode()).hexdigest()


def newest(connection: sqlite3.Connection) -> Event:
    """Return the newest event; number 0 if there is none."""
    row = connection.execute("SELECT n, hash FROM event ORDER BY n DESC LIMIT 1").fetchone()
    return Event(0, _BEGINNING) if row is None else Event(*row)


def at(connection: sqlite3.Connection, n: int) -> Event | None:
    """Return the event of a number, if there is one."""
    row = connection.execute("SELECT n, hash FROM event WHERE n = ?", (n,)).fetchone()
    return None if row is None else Event(*row)


def append(
    connection: sqlite3.Connection, kind: str, content: Mapping[str, Any], scopes: Iterable[str] = ()
) -> Event:
    """Write an event, with the totals of the policy and its renewal, of the ladders and of these scopes.

    That of the ladders is in all of them, since it counts in every scope: when the file is opened, it is
    compared with the newest event.
    """
    before = newest(connection)
    names = [*dict.fromkeys((*policy_names(connection), BOUNDS, PERSON, *scopes))]
    names += [f"{BY_PARTS}{name}" for name in names if not name.startswith(BY_PARTS)]
    known = {name: total for name in names if (total := stored_total(connection, name))}
    record = canonical({"event": kind, **content, "totals": known})
    event = Event(before.n + 1, chain_hash(before.hash, record))
    connection.execute("INSERT INTO event VALUES (?, ?, ?)", (event.n, record, event.hash))
    return event


def stored_total(connection: sqlite3.Connection, name: str) -> Row | None:
    """Return the total of a scope as it is stored; None if nothing was charged to it.

    A name behind `BY_PARTS` is that of its largest totals by parts.
    """
    if name.startswith(BY_PARTS):
        return row_of_tree(connection, name.removeprefix(BY_PARTS))
    row: Row | None = connection.execute(
        "SELECT epsilon, delta, cost, alpha FROM total WHERE name = ?", (name,)
    ).fetchone()
    return row


def stored_totals(connection: sqlite3.Connection) -> dict[str, Row]:
    """Return the totals of all scopes as the ledger stores them."""
    rows = connection.execute("SELECT name, epsilon, delta, cost, alpha FROM total ORDER BY name")
    found: dict[str, Row] = {name: tuple(total) for name, *total in rows}
    for name in scopes_with_trees(connection):
        total = row_of_tree(connection, name)
        if total is not None:
            found[f"{BY_PARTS}{name}"] = total
    return found


def check_newest(connection: sqlite3.Connection) -> None:
    """Raise `DamagedError` unless the newest event's hash and totals agree with the file."""
    connection.execute("BEGIN")  # all of it is one state of the file
    try:
        _check_newest(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _check_newest(connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT n, record, hash FROM event ORDER BY n DESC LIMIT 2").fetchall()
    if not rows or (len(rows) == 1) != (rows[0][0] == 1):
        raise DamagedError("its last events are missing")
    n, record, found = rows[0]
    before = rows[1][2] if len(rows) == 2 else _BEGINNING
    if chain_hash(before, record) != found:
        raise DamagedError(f"event {n} is not what it was when it was written")
    for name, total in read_record(record)["totals"].items():
        if stored_total(connection, name) != tuple(total):
            raise DamagedError(f"its totals are not those of event {n}")


def read_record(record: str) -> dict[str, Any]:
    """Read the record of an event; `DamagedError` for what `append` does not write."""
    try:
        content = json.loads(record)
    except (ValueError, TypeError):
        raise DamagedError("an event is no JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("totals"), dict) or "event" not in content:
        raise DamagedError("an event is incomplete")
    return content


def chain(connection: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any], bool]]:
    """Yield number and record of all events in order, and whether number and hash follow the one before."""
    before, last = _BEGINNING, 0
    for n, record, found in connection.execute("SELECT n, record, hash FROM event ORDER BY n"):
        yield n, read_record(record), n == last + 1 and chain_hash(before, record) == found
        before, last = found, n


@dataclass(frozen=True, slots=True)
class RefinementStep:
    """The record that a count is released again: after which release, and what all its releases cost."""

    parent: int
    epsilon: Fraction


@dataclass(frozen=True, slots=True)
class Request:
    """A release that a statement asks for: its selection, its mechanism, its price."""

    selection: str
    mechanism: str
    charge: Charge
    """The price by which it is known: the largest epsilon of a statement, and its delta."""
    refines: RefinementStep | None = None
    place: int = 1
    """Its place among the releases of the statement, from 1."""
    places: int = 1
    """How many releases the statement has; some may be stored, and are not asked for."""
    loss: PrivacyLoss | None = None
    """The largest loss that is to be reserved; None: that of one pure mechanism at this price."""
    parts: PartSet | None = None
    """The parts of units on which it depends; None: all."""
    of_person: bool = False
    """Whether its unit is a person, though other tables have units of one period each."""
    report: int | None = None
    """The number of the registered report for which it is: that charges each part once."""

    @property
    def reserved(self) -> PrivacyLoss:
        """The largest privacy loss that the request may have."""
        return PrivacyLoss.of(self.charge.epsilon, self.charge.delta) if self.loss is None else self.loss


@dataclass(frozen=True, slots=True)
class Settled:
    """How a release ended: its realised loss, its stored form, the key under which it is found again."""

    charge: Charge | PrivacyLoss
    """A `PrivacyLoss` is charged as it is: its mechanisms are settled. A `Charge` is the realised one of a
    single pure mechanism."""
    payload: bytes | None = None
    reuse_key: str | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Permission to run one statement, whose largest charge is durable already."""

    entry: int
    """The entry of its first release."""
    loss: PrivacyLoss
    """The largest loss of all its releases together."""
    parts: tuple[tuple[int, PrivacyLoss], ...] = ()
    """Entry and largest loss of each release; empty: there is one."""
    stream: bool = False
    """Whether it takes its questions one by one."""
    parents: tuple[int | None, ...] = (None,)
    """The release that each release refines; None: none."""
    touches: tuple[PartSet | None, ...] = (None,)
    """The parts that each release is charged to; None: all."""
    renewed: str = ""
    """What a guarantee says of how often the budget has started anew; empty: it does not."""

    @property
    def entries(self) -> tuple[tuple[int, PrivacyLoss], ...]:
        """The entry in the ledger and the largest loss of each release of the reservation."""
        return self.parts or ((self.entry, self.loss),)


@dataclass(frozen=True, slots=True)
class LadderRequest:
    """A ladder that is to be measured and kept: of which measure of a unit, of which data, at which loss."""

    source: str
    """The table."""
    measure: str
    """What is measured of a unit, as text: it finds the ladder again, letter by letter."""
    version: str
    """The fingerprint of the data's version."""
    statement: str
    """The command that asks for it, for the owner."""
    loss: PrivacyLoss
    """Its loss, which is charged in full: one of pure differential privacy."""


@dataclass(frozen=True, slots=True)
class LadderReservation:
    """Permission to measure one ladder, whose loss is charged durably already."""

    number: int
    """The number of the ladder: ladders have a sequence of their own, from 1."""
    request: LadderRequest


@dataclass(frozen=True, slots=True)
class StoredLadder:
    """A ladder that was measured: released to every analyst, and kept for all later statements."""

    number: int
    when: datetime
    source: str
    measure: str
    version: str
    statement: str
    loss: PrivacyLoss
    payload: bytes
    event: Event
    """The event that stored it."""


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A stored answer, which the same analyst gets again at no cost."""

    number: int
    when: datetime
    """When it was asked for, in UTC; not when it was answered, which would tell the run time."""
    analyst: str
    payload: bytes
    event: Event
    """The event that stored it; of a release older than the events, that of the migration."""
    level: Level | None = None
    """The number that a further release may go on from."""
