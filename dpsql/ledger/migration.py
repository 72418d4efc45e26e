"""Brings a ledger of an older version up to date, in one transaction; every charge stays what it is."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from dpsql.kernel.ledger import events, tables
from dpsql.kernel.ledger.schema import new_id, run
from dpsql.kernel.ledger.totals import POLICY, DamagedError, read, read_charge, scope
from dpsql.kernel.loss import Charge, Part, PrivacyLoss, PureDP, Realised, Stream

_ADDED: Final = {
    2: tables.CANCELLED + tables.PROGRESS + tables.PROGRESS_RUNS,
    3: tables.REFINEMENT,
    4: tables.PART,
}
"""What the versions 2 to 4 added to the one before each."""

_NEW_NAMES: Final = """
ALTER TABLE meta RENAME TO setting_before;
DROP TRIGGER progress_while_it_runs;
DROP TRIGGER entry_stays;
DROP TRIGGER entry_ends_once;
ALTER TABLE scope RENAME TO scope_before;
ALTER TABLE failure RENAME TO failure_before;
"""
_OLD_GONE: Final = """
INSERT INTO setting SELECT name, value FROM setting_before;
INSERT INTO failed SELECT analyst, n FROM failure_before;
DROP TABLE setting_before;
DROP TABLE failure_before;
DROP TABLE scope_before;
DROP TABLE entry;
ALTER TABLE entry_now RENAME TO entry;
"""

_KEPT_LADDERS: Final = "ALTER TABLE scope RENAME TO total;\n" + tables.BOUNDS
"""What version 6 changed. The table of totals has another name, so that a process of version 5 that has the
file open can charge nothing: it does not know that ladders count in every scope."""

_COLUMNS: Final = "entry, at, analyst, statement, reading, mechanism, state, release, holder, shared"


def bring_up_to_date(connection: sqlite3.Connection, found: int) -> None:
    """Bring the tables of version `found` up to date; the caller holds the write transaction.

    A process of an older dpsql that has the file open finds neither its tables nor its columns any more, so
    that it can write nothing; what it had reserved stays charged in full.
    """
    if found < 5:
        _bring_to_version_5(connection, found)
    if found < 6:
        run(connection, _KEPT_LADDERS)
    # Version 7 has the tables of version 6. Its events `policy` have the hash of the facts that charges rest
    # on, which the next charge writes: a process of an older version, which writes none, is refused.
    if found < 8:
        run(connection, tables.PARTS)  # all that was charged before counts in every part
    if found < 9:
        run(connection, tables.REPORTS)
    if found < 10:
        run(connection, tables.STREAMS)  # streams of before belong to their processes, and stay so
    run(connection, tables.YEARS)  # all that was charged before counts once for a person, in every year
    if found < 5:
        _write_first_event(connection, found)
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise DamagedError("a row refers to one that is missing")


def _bring_to_version_5(connection: sqlite3.Connection, found: int) -> None:
    """Bring the tables of an older version to those of version 5, but for the first event."""
    for version, added in _ADDED.items():
        if version > found:
            run(connection, added)
    _check_totals(connection)
    run(connection, _NEW_NAMES + tables.META + tables.ENTRY.format(entry="entry_now"))
    totals = tables.TOTAL.format(total="scope")
    run(connection, totals + tables.RESTORED + tables.FAILED + tables.RELEASE_EVENT)
    _copy(connection)
    run(connection, _OLD_GONE + tables.ENTRY_TRIGGERS + tables.PROGRESS_RUNS)


def _check_totals(connection: sqlite3.Connection) -> None:
    """Raise `DamagedError` unless the totals are the sums of the entries."""
    sums = {POLICY: Charge()}
    for analyst, shared, *amounts in connection.execute(
        "SELECT analyst, shared, charged_epsilon, charged_delta FROM entry"
    ):
        for name in (scope(analyst),) if shared else (scope(analyst), POLICY):
            sums[name] = sums.get(name, Charge()) + read_charge(*amounts)
    kept = {name: read_charge(*total) for name, *total in connection.execute("SELECT * FROM scope")}
    if sums != kept:
        raise DamagedError("its totals are not the sums of its entries")


def _copy(connection: sqlite3.Connection) -> None:
    rows = connection.execute(
        f"SELECT {_COLUMNS}, reserved_epsilon, reserved_delta, charged_epsilon, charged_delta FROM entry"
    )
    refined = {
        entry: read(total) for entry, total in connection.execute("SELECT entry, epsilon FROM refinement")
    }
    connection.executemany(
        f"INSERT INTO entry_now ({_COLUMNS}, reserved_loss, charged_loss)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((*row[:-4], *_convert_losses(row[-5], row[-4:], refined.get(row[0]))) for row in rows),
    )
    connection.execute(
        "INSERT INTO scope (name, epsilon, delta) SELECT name, epsilon, delta FROM scope_before"
    )


def _convert_losses(shared: int, amounts: Sequence[object], total: Fraction | None) -> tuple[str, str]:
    """Return the reserved and the charged loss of an entry of an older version, as they are stored.

    `amounts` are the reserved epsilon and delta, and the charged ones. The entry was private with the
    reserved epsilon, and its outcome realised the charged one. Whether it took its questions one by one is
    not known, so it keeps the cost of the reserved epsilon. Of a release that was shared only the realised
    epsilon is known. `total` is that of a release that refined others, together with them: given these, its
    loss was at most twice that.
    """
    reserved, charged = read_charge(*amounts[:2]), read_charge(*amounts[2:])
    if shared:
        whole = PrivacyLoss((Realised(charged.epsilon),) if charged.epsilon else (), charged.delta)
        return str(whole), str(whole)
    most = reserved.epsilon if total is None else 2 * total
    whole = PrivacyLoss(_make_parts(reserved.epsilon, most), reserved.delta)
    return str(whole), str(PrivacyLoss(_make_parts(charged.epsilon, most), charged.delta))


def _make_parts(epsilon: Fraction, most: Fraction) -> tuple[Part, ...]:
    return (Stream(epsilon, most) if epsilon < most else PureDP(epsilon),)


def _write_first_event(connection: sqlite3.Connection, found: int) -> None:
    """Write the first event, with the totals and with the hash of all entries and releases so far."""
    running = [entry for (entry,) in connection.execute("SELECT entry FROM entry WHERE state = 'reserved'")]
    (last,) = connection.execute("SELECT COALESCE(max(entry), 0) FROM entry").fetchone()
    content = {
        "version": found,
        "ledger": new_id(connection),
        "entries": last,
        "running": running,
        "digest": digest_of(connection, last, running),
    }
    event = events.append(connection, "migration", content, events.stored_totals(connection))
    connection.execute("INSERT INTO setting VALUES ('migration', ?)", (str(event.n),))


def digest_of(connection: sqlite3.Connection, last: int, running: Iterable[int]) -> str:
    """Return the SHA-256 of all entries up to `last` and of their releases.

    Entries in `running` count as they were when they had no end.
    """
    found = hashlib.sha256()
    for row in _list_content(connection, last, frozenset(running)):
        found.update(events.canonical(row).encode() + b"\n")
    return found.hexdigest()


def _list_content(connection: sqlite3.Connection, last: int, running: frozenset[int]) -> Iterator[list[Any]]:
    rows = connection.execute(
        "SELECT e.entry, e.at, e.analyst, e.statement, e.reading, e.mechanism, e.reserved_loss, e.shared,"
        " e.holder, e.charged_loss, e.state, r.number, r.at, r.analyst, r.reuse_key, r.payload"
        " FROM entry e LEFT JOIN release r ON r.number = e.release WHERE e.entry <= ? ORDER BY e.entry",
        (last,),
    )
    for *row, payload in rows:
        entry, loss = row[0], row[6]
        if entry in running:
            yield [*row[:9], loss, "reserved"]
        else:
            yield [*row, events.digest(payload)]
    for name in ("part", "refinement"):
        for kept in connection.execute(f"SELECT * FROM {name} WHERE entry <= ? ORDER BY entry", (last,)):
            yield [name, *kept]
