"""Releases that are given again: to the analyst who paid for them, or to another one under the own cap."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Final

from dpsql.kernel.ledger import events
from dpsql.kernel.ledger.amounts import DamagedError, read_loss
from dpsql.kernel.ledger.charging import enter, entry_content, release_content, store
from dpsql.kernel.ledger.events import Event
from dpsql.kernel.ledger.records import StoredRelease
from dpsql.kernel.ledger.scopes import Caps
from dpsql.kernel.ledger.spending import spend_own
from dpsql.kernel.ledger.totals import names_of
from dpsql.kernel.levels import split_level

_EVENT: Final = "COALESCE(r.event, (SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'migration'))"
"""The number of a release's event; of an older release, that of the migration, which has its hash too."""


def find(connection: sqlite3.Connection, reuse_key: str, analyst: str) -> StoredRelease | None:
    """Return an analyst's own latest release under a reuse key."""
    return _stored(connection, "r.reuse_key = ?", (analyst, reuse_key))


def find_number(connection: sqlite3.Connection, number: int, analyst: str) -> StoredRelease | None:
    """Return one of the analyst's own releases by its number."""
    return _stored(connection, "r.number = ?", (analyst, number))


def _stored(
    connection: sqlite3.Connection, chosen: str, given: tuple[str, str | int]
) -> StoredRelease | None:
    row = connection.execute(
        f"SELECT r.number, r.at, r.analyst, r.payload, e.n, e.hash FROM release r"
        f" LEFT JOIN event e ON e.n = {_EVENT} WHERE r.analyst = ? AND {chosen} AND r.payload IS NOT NULL"
        " ORDER BY r.number DESC LIMIT 1",
        given,
    ).fetchone()
    if row is None:
        return None
    number, at, owner, payload, n, found = row
    if n is None:
        raise DamagedError(f"the event of release {number} is missing")
    payload, level = split_level(payload, number)
    return StoredRelease(number, datetime.fromisoformat(at), owner, payload, Event(n, found), level)


def share(connection: sqlite3.Connection, caps: Caps, reuse_key: str, analyst: str) -> None:
    """Copy another analyst's release to `analyst`, charged to that one's own cap, if there is one."""
    caps.check_listed(analyst)
    if find(connection, reuse_key, analyst) is not None:
        return  # paid for already, perhaps a moment ago by another thread
    row = connection.execute(
        "SELECT e.at, e.statement, e.reading, e.mechanism, e.reserved_loss, e.charged_loss, r.payload"
        " FROM release r JOIN entry e ON e.entry = r.entry"
        " WHERE r.reuse_key = ? AND r.payload IS NOT NULL ORDER BY r.number DESC LIMIT 1",
        (reuse_key,),
    ).fetchone()
    if row is None:
        return
    at, statement, selection, mechanism, *losses, payload = row
    reserved, charged = map(read_loss, losses)
    # What was realised may not be shown less dear than it was, nor dearer: the scope takes it as it is.
    spend_own(connection, caps, analyst, reserved, charged)
    who = (analyst, statement, selection, mechanism)
    entry = enter(connection, reserved, who, shared=True, at=at)
    number = store(connection, entry, (at, analyst, reuse_key, payload, events.newest(connection).n + 1))
    connection.execute(
        "UPDATE entry SET state = 'settled', charged_loss = ?, release = ? WHERE entry = ?",
        (str(charged), number, entry),
    )
    content = {
        "entries": [entry_content(connection, entry)],
        "releases": [release_content(entry, number, charged, reuse_key, payload)],
    }
    events.append(connection, "share", content, names_of(connection, analyst))
