"""Lists of entries and releases, for the owner and for an analyst."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Final

from dpsql.ledger.amounts import read_loss
from dpsql.ledger.records import Entry, ReleaseInfo

_LATELY: Final = 1000
"""How many of the latest releases are searched for a statement's text, which has no index."""


_CLASSES: Final = {
    "TopK": "top-k",
    "AboveThreshold": "above threshold",
    "AllGroups": "all groups",
    "Scalar": "count",
    "TopPerPartition": "top-k of each partition",
}
"""What older versions wrote as the selection, and the words that releases use."""


def releases(connection: sqlite3.Connection, analyst: str) -> list[ReleaseInfo]:
    """List an analyst's own releases, oldest first."""
    rows = connection.execute(
        "SELECT r.number, r.at, r.analyst, e.statement, e.reading, e.mechanism, e.charged_loss,"
        " COALESCE(p.place, 1), COALESCE(p.places, 1)"
        " FROM release r JOIN entry e ON e.entry = r.entry LEFT JOIN part p ON p.entry = e.entry"
        " WHERE r.analyst = ? ORDER BY r.number",
        (analyst,),
    )
    return [
        ReleaseInfo(
            number,
            datetime.fromisoformat(at),
            who,
            text,
            _CLASSES.get(kind, kind),
            how,
            read_loss(loss),
            place,
            places,
        )
        for number, at, who, text, kind, how, loss, place, places in rows
    ]


def entries(connection: sqlite3.Connection, analyst: str | None, limit: int | None) -> list[Entry]:
    """List the entries, of an analyst or of all, newest first."""
    where, given = ("", ()) if analyst is None else (" WHERE analyst = ?", (analyst,))
    rows = connection.execute(
        "SELECT entry, at, analyst, statement, reading, mechanism, reserved_loss, charged_loss,"
        f" state, release, shared FROM entry{where} ORDER BY entry DESC LIMIT ?",
        (*given, -1 if limit is None else max(0, limit)),
    )
    return [
        Entry(
            number,
            datetime.fromisoformat(at),
            who,
            text,
            _CLASSES.get(kind, kind),
            how,
            read_loss(reserved),
            read_loss(charged),
            state,
            release,
            bool(shared),
        )
        for number, at, who, text, kind, how, reserved, charged, state, release, shared in rows
    ]


def asked(
    connection: sqlite3.Connection, question: str, statement: str, analyst: str, place: int
) -> list[tuple[str, datetime]]:
    """Return keys and times of the analyst's releases of the same question or statement; see `Ledger`."""
    same_question = connection.execute(
        "SELECT reuse_key, at FROM release WHERE analyst = ? AND reuse_key >= ? AND reuse_key < ?"
        " ORDER BY number DESC LIMIT 1",
        (analyst, question, question + "g"),  # a key goes on with hexadecimal digits
    ).fetchall()
    same_text = connection.execute(
        "SELECT r.reuse_key, r.at FROM release r JOIN entry e ON e.entry = r.entry"
        " LEFT JOIN part p ON p.entry = e.entry"
        " WHERE r.number > (SELECT max(number) FROM release) - ? AND r.analyst = ?"
        " AND r.reuse_key IS NOT NULL AND e.statement = ? AND COALESCE(p.place, 1) = ?"
        " ORDER BY r.number DESC LIMIT 4",
        (_LATELY, analyst, statement, place),
    ).fetchall()
    return [(key, datetime.fromisoformat(at)) for key, at in same_question + same_text]
