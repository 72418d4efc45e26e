"""What the ledger keeps to be given again: ladders, and releases, each step inside one write transaction.

A kept ladder is charged to everybody before it is measured. A release is given again to the analyst who paid
for it, or to another one, who is charged for it under a cap of their own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from dpsql.errors import BudgetExceeded, InterfaceError, InternalError
from dpsql.kernel.ledger import events, limits, part_totals, person_totals, reports
from dpsql.kernel.ledger.caps import Caps, order_of
from dpsql.kernel.ledger.charging import enter, entry_content, now, release_content, store
from dpsql.kernel.ledger.events import Event, LadderRequest, LadderReservation, StoredLadder, StoredRelease
from dpsql.kernel.ledger.scopes import ScopeBudget, add_loss, all_budgets, scope_words, spend_own
from dpsql.kernel.ledger.totals import BOUNDS, PERSON, DamagedError, names_of, policy_names, read_loss, shown
from dpsql.kernel.levels import split_level
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss

_FIXED: Final = ("number", "at", "source", "measure", "version", "statement", "loss", "holder")
"""The columns of a ladder that never change."""


def reserve(
    connection: sqlite3.Connection, caps: Caps, requests: Sequence[LadderRequest]
) -> tuple[LadderReservation, ...]:
    """Charge ladders to the policy, each analyst and each group, if all their caps allow all of them.

    Else it raises, having written nothing. The loss is the same whatever the result turns out to be, so
    nothing is given back when it is settled.
    """
    for each in requests:
        if not each.loss.epsilon or each.loss.delta:
            raise InternalError("a ladder has a loss of pure differential privacy, above 0")
    loss = sum((each.loss for each in requests), PrivacyLoss())
    if not requests:
        raise InternalError("no ladder is asked for")
    check_room(connection, caps, loss)
    for name in (*policy_names(connection), BOUNDS):
        add_loss(connection, name, order_of(caps.filter), loss, loss)
    at, holder, numbers = now(), limits.current(), list[int]()
    for each in requests:
        cursor = connection.execute(
            "INSERT INTO bounds (at, source, measure, version, statement, loss, holder, state)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved')",
            (at, each.source, each.measure, each.version, each.statement, str(each.loss), holder),
        )
        if cursor.lastrowid is None:
            raise InternalError("the ledger gave a ladder no number")
        numbers.append(cursor.lastrowid)
    content = {"ladders": [content_of(connection, number) for number in numbers]}
    events.append(connection, "bounds", content)
    return tuple(LadderReservation(*each) for each in zip(numbers, requests, strict=True))


def check_room(
    connection: sqlite3.Connection, caps: Caps, loss: PrivacyLoss, *, shown_now: bool = False
) -> None:
    """Raise `BudgetExceeded`, which names them, if scopes do not admit the loss of ladders.

    It is charged to all parts of units, beside what is kept in each for reports. `shown_now`: no charge
    follows in this transaction.
    """
    refusing = [
        budget for budget in all_budgets(connection, caps, shown_now=shown_now) if not budget.admits(loss)
    ]
    if caps.person is not None and not person_totals.has_room(connection, caps, loss):
        borne = person_totals.whole_totals(connection, caps)
        refusing.append(ScopeBudget(PERSON, Filter.of(caps.person), borne))
    if refusing:
        raise _ladder_budget_error(loss.charge, refusing)
    reports.check_kept(connection, caps, loss, loss.charge, None)


def settle(connection: sqlite3.Connection, reservation: LadderReservation, payload: bytes) -> StoredLadder:
    """Keep what was measured; from now on every analyst knows it."""
    asked, when = reservation.request, _check_reservation(connection, reservation)
    if not payload:
        raise InternalError("a ladder that was measured is not empty")
    connection.execute(
        "UPDATE bounds SET state = 'settled', payload = ?, event = ? WHERE number = ?",
        (payload, events.newest(connection).n + 1, reservation.number),
    )
    content = {"ladder": reservation.number, "payload": events.digest(payload)}
    event = events.append(connection, "bounds-settle", content)
    what = asked.source, asked.measure, asked.version, asked.statement, read_loss(str(asked.loss))
    return StoredLadder(reservation.number, when, *what, payload, event)


def fail(connection: sqlite3.Connection, reservation: LadderReservation) -> None:
    """End a reservation without a ladder: it stays charged in full."""
    _check_reservation(connection, reservation)
    connection.execute("UPDATE bounds SET state = 'failed' WHERE number = ?", (reservation.number,))
    events.append(connection, "bounds-fail", {"ladder": reservation.number})


def end_all(connection: sqlite3.Connection) -> list[int]:
    """End all reservations, of any process, without a ladder; return their numbers."""
    rows = connection.execute("SELECT number FROM bounds WHERE state = 'reserved' ORDER BY number").fetchall()
    connection.execute("UPDATE bounds SET state = 'cancelled' WHERE state = 'reserved'")
    return [number for (number,) in rows]


def kept(connection: sqlite3.Connection) -> list[StoredLadder]:
    """Return the ladders that were measured, the newest last."""
    rows = connection.execute(
        "SELECT b.number, b.at, b.source, b.measure, b.version, b.statement, b.loss, b.payload, e.n, e.hash"
        " FROM bounds b LEFT JOIN event e ON e.n = b.event WHERE b.state = 'settled' ORDER BY b.number"
    )
    found = []
    for number, at, source, measure, version, statement, loss, payload, n, digest in rows:
        if n is None:
            raise DamagedError(f"the event of ladder {number} is missing")
        when, what = datetime.fromisoformat(at), (source, measure, version, statement, read_loss(loss))
        found.append(StoredLadder(number, when, *what, payload, Event(n, digest)))
    return found


def content_of(connection: sqlite3.Connection, number: int) -> dict[str, Any] | None:
    """Return what an event says of a ladder: everything in it that never changes; None: there is none."""
    row = connection.execute(f"SELECT {', '.join(_FIXED)} FROM bounds WHERE number = ?", (number,)).fetchone()
    return None if row is None else dict(zip(_FIXED, row, strict=True))


def _check_reservation(connection: sqlite3.Connection, reservation: LadderReservation) -> datetime:
    """Return when a ladder was asked for; raise unless it is one of this process that has not ended."""
    asked = reservation.request
    told = asked.source, asked.measure, asked.version, asked.statement, str(asked.loss)
    row = connection.execute(
        "SELECT source, measure, version, statement, loss, state, holder, at FROM bounds WHERE number = ?",
        (reservation.number,),
    ).fetchone()
    if row is None or row[:5] != told:
        raise InternalError("the ledger holds no such ladder")
    if row[5] != "reserved":
        raise InternalError("a ladder was ended twice")
    if row[6] != limits.current():
        raise InterfaceError("a reservation belongs to the process that made it")
    return datetime.fromisoformat(row[7])


def _ladder_budget_error(asked: Charge, refusing: Sequence[ScopeBudget]) -> BudgetExceeded:
    """Return the error that names all scopes which refuse a ladder; the owner alone reads it."""
    left = [f"{scope_words(each.name)} ({shown(each.remaining.epsilon, up=False)} left)" for each in refusing]
    least = min((each.remaining for each in refusing), key=lambda charge: charge.epsilon)
    return BudgetExceeded(
        f"what all analysts are to know costs epsilon {shown(asked.epsilon, up=True)} of the policy's budget"
        f" and of that of every analyst and group; too little is left of {', '.join(left)}\n"
        "Hint: raise these budgets in the policy, or take these accounts out of it, then ask again",
        (asked.epsilon, asked.delta),
        (least.epsilon, least.delta),
        scope=refusing[0].name,
    )


_EVENT: Final = "COALESCE(r.event, (SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'migration'))"
"""The number of a release's event; of an older release, that of the migration, which has its hash too."""


def find(connection: sqlite3.Connection, reuse_key: str, analyst: str) -> StoredRelease | None:
    """Return an analyst's own latest release under a reuse key."""
    return _find_release(connection, "r.reuse_key = ?", (analyst, reuse_key))


def find_number(connection: sqlite3.Connection, number: int, analyst: str) -> StoredRelease | None:
    """Return one of the analyst's own releases by its number."""
    return _find_release(connection, "r.number = ?", (analyst, number))


def list_until(
    connection: sqlite3.Connection, analyst: str, newest: int
) -> list[tuple[str | None, StoredRelease]]:
    """Return an analyst's own releases up to a number, the oldest first, with their reuse keys."""
    rows = connection.execute(
        f"{_STORED} WHERE r.analyst = ? AND r.number <= ? AND r.payload IS NOT NULL ORDER BY r.number",
        (analyst, newest),
    )
    return [(row[-1], _read_release(*row[:-1])) for row in rows.fetchall()]


_STORED: Final = (
    "SELECT r.number, r.at, r.analyst, r.payload, e.n, e.hash, r.reuse_key FROM release r"
    f" LEFT JOIN event e ON e.n = {_EVENT}"
)


def _find_release(
    connection: sqlite3.Connection, chosen: str, given: tuple[str, str | int]
) -> StoredRelease | None:
    row = connection.execute(
        f"{_STORED} WHERE r.analyst = ? AND {chosen} AND r.payload IS NOT NULL"
        " ORDER BY r.number DESC LIMIT 1",
        given,
    ).fetchone()
    return None if row is None else _read_release(*row[:-1])


def _read_release(
    number: int, at: str, owner: str, payload: bytes, n: int | None, found: str
) -> StoredRelease:
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
        "SELECT e.entry, e.at, e.statement, e.reading, e.mechanism, e.reserved_loss, e.charged_loss,"
        " r.payload FROM release r JOIN entry e ON e.entry = r.entry"
        " WHERE r.reuse_key = ? AND r.payload IS NOT NULL ORDER BY r.number DESC LIMIT 1",
        (reuse_key,),
    ).fetchone()
    if row is None:
        return
    paid, at, statement, selection, mechanism, *losses, payload = row
    reserved, charged = map(read_loss, losses)
    # What was realised may not be shown less dear than it was, nor dearer: the scope takes it as it is.
    parts = part_totals.touches(connection, paid)
    spend_own(connection, caps, analyst, reserved, charged, parts=parts)
    who = (analyst, statement, selection, mechanism)
    entry = enter(connection, reserved, who, shared=True, at=at, parts=parts)
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
