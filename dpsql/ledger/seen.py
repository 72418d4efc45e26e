"""A ledger as one transaction sees it, and which mark was kept while its newest events were written."""

from __future__ import annotations

import json
import sqlite3
from functools import lru_cache
from typing import Any, Final

from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import events
from dpsql.ledger.amounts import DamagedError
from dpsql.ledger.events import Event, Total

OFF: Final = "off"
"""Stands for the identifier of a mark where none is kept."""
_KEPT: Final = "mark"
"""The setting with the identifier of the mark, and the events after which it was another one."""
_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class Seen:
    """A ledger: its identifier, its newest event, the mark that was kept, and all totals."""

    ledger: str
    event: Event
    holder: str
    """The identifier of the mark that is kept; empty if none was ever kept, nor done without."""
    begun: tuple[Event, ...]
    """The latest events after which it was another mark than before."""
    totals: dict[str, Total]

    @classmethod
    def of(cls, connection: sqlite3.Connection) -> Seen:
        """Read a ledger."""
        holder, begun = _kept(connection)
        return cls(
            identifier(connection), events.newest(connection), holder, begun, events.stored_totals(connection)
        )


def identifier(connection: sqlite3.Connection) -> str:
    """Return the random identifier of a ledger."""
    row = connection.execute("SELECT value FROM setting WHERE name = 'ledger'").fetchone()
    if row is None or not isinstance(row[0], str) or not row[0].isalnum():
        raise DamagedError("it has no identifier")
    return row[0]


def hold(connection: sqlite3.Connection, holder: str) -> None:
    """Write an event if another mark than before is kept from now on.

    So two copies of a ledger that went on under different marks differ in such an event.
    """
    if (_kept(connection)[0] or OFF) != holder:
        begin(connection, "mark", {"holder": holder}, holder)


def begin(connection: sqlite3.Connection, kind: str, content: dict[str, Any], holder: str) -> Event:
    """Write an event with the totals of all scopes, after which the mark with an identifier is kept."""
    _, begun = _kept(connection)
    event = events.append(connection, kind, content, events.stored_totals(connection))
    kept = [[each.n, each.hash] for each in (*begun, event)[-_MOST:]]
    value = events.canonical({"holder": holder, "begun": kept})
    connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (_KEPT, value))
    return event


def _kept(connection: sqlite3.Connection) -> tuple[str, tuple[Event, ...]]:
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (_KEPT,)).fetchone()
    return ("", ()) if row is None else _parsed(row[0])


@lru_cache(maxsize=16)
def _parsed(text: str) -> tuple[str, tuple[Event, ...]]:
    try:
        kept = json.loads(text)
        return str(kept["holder"]), tuple(Event(int(n), str(found)) for n, found in kept["begun"])
    except (ValueError, KeyError, TypeError):
        raise DamagedError("its setting of the mark is unreadable") from None
