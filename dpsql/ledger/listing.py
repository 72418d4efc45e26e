"""What the ledger tells of entries, releases and ladders: to the owner, and to an analyst."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any, Final

from dpsql.kernel.ledger import limits, part_totals, reports
from dpsql.kernel.ledger.charging import step_of
from dpsql.kernel.ledger.kept_results import find_number
from dpsql.kernel.ledger.totals import read_loss
from dpsql.kernel.levels import Level
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.unit_parts import PartSet
from dpsql.lazy_dataclass import dataclass

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


@dataclass(frozen=True, slots=True)
class LadderCharge:
    """What was charged for a ladder, for the owner, whether it was measured in the end or not."""

    number: int
    when: datetime
    source: str
    measure: str
    version: str
    statement: str
    loss: PrivacyLoss
    state: str
    """`settled` (it is kept), or `reserved`, `failed` or `cancelled`: charged in full without a result."""


@dataclass(frozen=True, slots=True)
class ReleaseInfo:
    """One line of an analyst's list of releases."""

    number: int
    when: datetime
    analyst: str
    statement: str
    selection: str
    mechanism: str
    charge: PrivacyLoss
    place: int = 1
    """Its place among the releases of its statement, from 1."""
    places: int = 1
    """How many releases its statement has."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """A release that may be refined, and the statement whose count it releases."""

    payload: bytes
    level: Level | None
    """The number that a further release goes on from; None: its noise is not known."""
    epsilon: Fraction | None
    """What this release and those that it refines cost together; None if it refines none."""
    statement: str
    """The text of the statement that released the count first."""
    reuse_key: str | None
    """The key of that statement."""
    first_epsilon: Fraction | None
    """What that statement cost; None if it has no epsilon."""
    shared: bool
    """Whether the release was another analyst's."""
    refined: bool
    """Whether it was refined before, successfully or not."""
    child: int | None
    """The number of the release that refined it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger, for the owner; an analyst is never shown `state`."""

    entry: int
    when: datetime
    analyst: str
    statement: str
    selection: str
    mechanism: str
    reserved: PrivacyLoss
    charged: PrivacyLoss
    state: str
    """`reserved` (running, or ended without a record), `settled`, `failed`, `cancelled`; all but `settled`
    are charged in full."""
    release: int | None
    shared: bool
    """Whether it was another analyst's release, charged to this analyst's own cap only."""


def list_releases(connection: sqlite3.Connection, analyst: str) -> list[ReleaseInfo]:
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


def list_entries(connection: sqlite3.Connection, analyst: str | None, limit: int | None) -> list[Entry]:
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


def find_asked(
    connection: sqlite3.Connection, question: str, statement: str, analyst: str, place: int
) -> list[tuple[str, datetime]]:
    """Return reuse keys and times of the analyst's releases of the same question or statement.

    Keys of the same question begin with `question`. A text is compared for the latest releases only, at the
    same place among the releases of its statement.
    """
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


def find_release_number(connection: sqlite3.Connection, reuse_key: str, analyst: str) -> int | None:
    """Return the number of an analyst's own latest release under a reuse key."""
    row = connection.execute(
        "SELECT number FROM release"
        " WHERE analyst = ? AND reuse_key = ? AND payload IS NOT NULL ORDER BY number DESC LIMIT 1",
        (analyst, reuse_key),
    ).fetchone()
    return None if row is None else int(row[0])


def is_shareable(connection: sqlite3.Connection, reuse_key: str) -> bool:
    """Whether any analyst has a release under a reuse key."""
    row = connection.execute(
        "SELECT 1 FROM release WHERE reuse_key = ? AND payload IS NOT NULL", (reuse_key,)
    ).fetchone()
    return row is not None


def find_lineage(connection: sqlite3.Connection, number: int, analyst: str) -> Lineage | None:
    """Return what is known of one of the analyst's own releases; None if there is no such release."""
    found = find_number(connection, number, analyst)
    if found is None:
        return None
    (entry,) = connection.execute("SELECT entry FROM release WHERE number = ?", (number,)).fetchone()
    before = step_of(connection, entry)
    epsilon, first = None if before is None else before.epsilon, entry
    while before is not None:
        (first,) = connection.execute(
            "SELECT entry FROM release WHERE number = ?", (before.parent,)
        ).fetchone()
        before = step_of(connection, first)
    statement, shared, key, charged = connection.execute(
        "SELECT e.statement, e.shared, r.reuse_key, e.charged_loss"
        " FROM entry e JOIN release r ON r.entry = e.entry WHERE e.entry = ?",
        (first,),
    ).fetchone()
    child = connection.execute(
        "SELECT e.release FROM refinement f JOIN entry e ON e.entry = f.entry WHERE f.parent = ?", (number,)
    ).fetchone()
    return Lineage(
        found.payload,
        found.level,
        epsilon,
        statement,
        key,
        read_loss(charged).epsilon,
        shared=bool(shared),
        refined=child is not None,
        child=None if child is None else child[0],
    )


def list_ladder_charges(connection: sqlite3.Connection) -> list[LadderCharge]:
    """Return all ladders that were charged, the newest last."""
    rows = connection.execute(
        "SELECT number, at, source, measure, version, statement, loss, state FROM bounds ORDER BY number"
    )
    return [
        LadderCharge(
            number, datetime.fromisoformat(at), source, measure, version, statement, read_loss(loss), state
        )
        for number, at, source, measure, version, statement, loss, state in rows
    ]


def count_failures(connection: sqlite3.Connection, analyst: str) -> int:
    """Return how many of an analyst's statements failed, including those whose process may have ended."""
    lost = sum(n for _, n, living in limits.holders_of(connection, analyst) if not living)
    return lost + limits.count_of(connection, "failed", analyst)[0]


@dataclass(frozen=True, slots=True)
class ReportRelease:
    """A release that was made for a report: its number, its place among those of its run, its parts."""

    number: int
    place: int
    """From 1."""
    parts: PartSet | None
    """The parts of units that it was charged to, as they were then; None: all."""
    key: str | None
    """The key of its question, which tells its policy and its data."""


def list_report_releases(connection: sqlite3.Connection, digest: str, analyst: str) -> list[ReportRelease]:
    """Return what was released for the reports of a text, which an analyst has registered."""
    rows = connection.execute(
        "SELECT e.release, ROW_NUMBER() OVER (PARTITION BY COALESCE(p.first, e.entry) ORDER BY p.place),"
        " e.entry, a.reuse_key FROM report_run u"
        " JOIN report r ON r.number = u.report JOIN entry e ON e.entry = u.entry"
        " JOIN release a ON a.number = e.release LEFT JOIN part p ON p.entry = e.entry"
        " WHERE r.digest = ? AND r.analyst = ? AND e.state = 'settled' ORDER BY e.release",
        (digest, analyst),
    ).fetchall()
    return [
        ReportRelease(number, place, part_totals.written_touches(connection, entry), key)
        for number, place, entry, key in rows
    ]


def compare_report(connection: sqlite3.Connection, record: Mapping[str, Any]) -> Iterator[str]:
    """Say whether a report is what it was when it was registered."""
    number = record["report"]["number"]
    if reports.content_of(connection, number) != record["report"]:
        yield f"report {number} is missing or not what it was when it was registered"


def compare_end(connection: sqlite3.Connection, n: int, record: Mapping[str, Any]) -> Iterator[str]:
    """Say whether a report has ended by the event `n`."""
    row = connection.execute("SELECT ended FROM report WHERE number = ?", (record["report"],)).fetchone()
    if row != (n,):
        yield f"report {record['report']} has not ended then"
