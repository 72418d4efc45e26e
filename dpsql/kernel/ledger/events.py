"""The events of a ledger, each with a hash of everything before it.

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
from dataclasses import dataclass
from typing import Any

from dpsql.kernel.ledger.amounts import DamagedError
from dpsql.kernel.ledger.totals import BOUNDS, POLICY, Row

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


def chained(before: object, record: object) -> str:
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
    """Write an event, with the totals of the policy, of the ladders and of these scopes after it.

    That of the ladders is in all of them, since it counts in every scope: when the file is opened, it is
    compared with the newest event.
    """
    before = newest(connection)
    known = {name: total for name in (POLICY, BOUNDS, *scopes) if (total := stored_total(connection, name))}
    record = canonical({"event": kind, **content, "totals": known})
    event = Event(before.n + 1, chained(before.hash, record))
    connection.execute("INSERT INTO event VALUES (?, ?, ?)", (event.n, record, event.hash))
    return event


def stored_total(connection: sqlite3.Connection, name: str) -> Row | None:
    """Return the total of a scope as it is stored; None if nothing was charged to it."""
    row: Row | None = connection.execute(
        "SELECT epsilon, delta, cost, alpha FROM total WHERE name = ?", (name,)
    ).fetchone()
    return row


def stored_totals(connection: sqlite3.Connection) -> dict[str, Row]:
    """Return the totals of all scopes as they are stored."""
    rows = connection.execute("SELECT name, epsilon, delta, cost, alpha FROM total ORDER BY name")
    return {name: tuple(total) for name, *total in rows}


def check_newest(connection: sqlite3.Connection) -> None:
    """Raise `DamagedError` unless the newest event's hash and its totals are those of the file."""
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
    if chained(before, record) != found:
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
        yield n, read_record(record), n == last + 1 and chained(before, record) == found
        before, last = found, n
