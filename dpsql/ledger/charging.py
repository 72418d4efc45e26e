"""The life of a charge: reserve, step, then settle, fail or cancel. Each inside one write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dpsql.errors import BudgetExceeded, InterfaceError, InternalError, OperationalError
from dpsql.ledger import events, limits, process_identity, refining
from dpsql.ledger.amounts import (
    moved,
    read_charge,
    read_loss,
    rounded_up,
    shown,
    too_wide,
    write_charge,
    write_loss,
)
from dpsql.ledger.caps import Caps
from dpsql.ledger.events import Event
from dpsql.ledger.records import Request, Reservation, Settled
from dpsql.ledger.totals import POLICY, group_scope, scope, set_spent, spent, spent_together
from dpsql.privacy import Charge

_FIXED = ("entry", "at", "analyst", "statement", "reading", "mechanism", "reserved_loss", "shared", "holder")
"""The columns of an entry that never change."""


def reserve(
    connection: sqlite3.Connection,
    caps: Caps,
    analyst: str,
    statement: str,
    requests: Sequence[Request],
) -> Reservation:
    """Charge the maximum of all releases of a statement if every cap allows their sum.

    Else it raises, having written nothing. The releases hold one slot: together they fail at most once.
    """
    charge = sum((request.charge for request in requests), Charge())
    if not requests or any(request.charge.epsilon <= 0 for request in requests) or charge.delta >= 1:
        raise InternalError("a private statement costs an epsilon above 0 and a delta below 1")
    caps.check_listed(analyst)
    limits.check(connection, caps.limits, analyst)
    if caps.per_query is not None and charge.epsilon > caps.per_query:
        available = Charge(caps.per_query, (caps.total - spent(connection, POLICY)).delta)
        raise _exceeded(charge, available, "query")
    spend_own(connection, caps, analyst, charge)
    _spend(connection, POLICY, charge, caps.total)
    entries: list[int] = []
    for request in requests:
        who = (analyst, statement, request.selection, request.mechanism)
        entries.append(enter(connection, request.charge, who, shared=False))
        if request.refines is not None:
            refining.begin(connection, entries[-1], analyst, request.charge, request.refines)
        if request.places > 1:
            place = (entries[-1], entries[0], request.place, request.places)
            connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", place)
    limits.take_slot(connection, analyst)
    events.append(connection, "reserve", _reserved_content(connection, entries), [scope(analyst)])
    parts = [(entry, request.charge) for entry, request in zip(entries, requests, strict=True)]
    return Reservation(entries[0], charge, tuple(parts) if len(parts) > 1 else ())


def step(connection: sqlite3.Connection, reservation: Reservation, number: int, charge: Charge) -> None:
    """Record what a stream has spent, including the answer that it returns next."""
    if len(reservation.entries) > 1:
        raise InternalError("a stream has one entry")
    _reserved(connection, reservation)
    last, before = progress(connection, reservation.entry)
    if number != last + 1:
        raise InternalError("a stream's steps are written in order, by one user of its reservation")
    if not before.fits(charge) or not charge.fits(reservation.charge):
        raise InternalError("what a stream has spent lies between what it had spent and what is reserved")
    connection.execute(
        "INSERT INTO progress VALUES (?, ?, ?, ?)", (reservation.entry, number, *write_charge(charge))
    )


def progress(connection: sqlite3.Connection, entry: int) -> tuple[int, Charge]:
    """Return the number of a stream's last step, and what it had spent by then."""
    row = connection.execute(
        "SELECT step, epsilon, delta FROM progress WHERE entry = ? ORDER BY step DESC LIMIT 1", (entry,)
    ).fetchone()
    return (row[0], read_charge(*row[1:])) if row is not None else (0, Charge())


def settle(
    connection: sqlite3.Connection,
    reservation: Reservation,
    settled: Sequence[Settled],
) -> tuple[tuple[int, ...], Event]:
    """Lower a reservation to the realised charges and store the releases.

    It returns the numbers of the releases, and the event that says so.
    """
    at, analyst, mine = _reserved(connection, reservation)
    if len(settled) != len(reservation.entries):
        raise InternalError("the releases of a statement are settled together")
    number_of_event = events.newest(connection).n + 1
    numbers, content = [], []
    for (entry, reserved), ended in zip(reservation.entries, settled, strict=True):
        charge = _lowered(connection, entry, analyst, reserved, ended.charge)
        release = (at, analyst, ended.reuse_key, ended.payload, number_of_event)
        number = store(connection, entry, release)
        connection.execute(
            "UPDATE entry SET state = 'settled', charged_loss = ?, release = ? WHERE entry = ?",
            (write_loss(charge), number, entry),
        )
        numbers.append(number)
        content.append(release_content(entry, number, charge, ended.reuse_key, ended.payload))
    limits.release_slot(connection, analyst, mine)
    event = events.append(connection, "settle", {"releases": content}, [scope(analyst)])
    return tuple(numbers), event


def release_content(
    entry: int, number: int, charge: Charge, reuse_key: str | None, payload: bytes | None
) -> dict[str, Any]:
    """Return what an event says of a release: its entry, its charge, the hash of its payload."""
    return {
        "entry": entry,
        "release": number,
        "charged_loss": write_loss(charge),
        "reuse_key": reuse_key,
        "payload": events.digest(payload),
    }


def _lowered(
    connection: sqlite3.Connection, entry: int, analyst: str, reserved: Charge, charge: Charge
) -> Charge:
    """Lower the totals from an entry's reserved charge to its realised one; return what is charged."""
    if not charge.fits(reserved):
        raise InternalError("a statement's realised charge is more than what was reserved for it")
    if not progress(connection, entry)[1].fits(charge):
        raise InternalError("a stream is settled for less than its answers have cost")
    names = (POLICY, scope(analyst))
    before = [spent(connection, name) for name in names]
    after = [moved(total, less=reserved, more=charge) for total in before]
    if any(too_wide(total, charge) for total in after):
        charge = rounded_up(charge, reserved)
        after = [moved(total, less=reserved, more=charge) for total in before]
    for name, total in zip(names, after, strict=True):
        set_spent(connection, name, total)
    return charge


def end(connection: sqlite3.Connection, reservation: Reservation, *, failed: bool) -> None:
    """End a reservation without an answer: it stays charged in full, and counts as failed or cancelled."""
    _, analyst, mine = _reserved(connection, reservation)
    state = "failed" if failed else "cancelled"
    for entry, _ in reservation.entries:
        connection.execute("UPDATE entry SET state = ? WHERE entry = ?", (state, entry))
    limits.release_slot(connection, analyst, mine)
    limits.add(connection, state, analyst)
    content = {"entries": [entry for entry, _ in reservation.entries]}
    events.append(connection, "fail" if failed else "cancel", content, [scope(analyst)])


def spend_own(connection: sqlite3.Connection, caps: Caps, analyst: str, charge: Charge) -> None:
    """Add a charge to an analyst's total, if the analyst's own cap and those of all groups allow it."""
    for name, group in caps.groups_of(analyst):
        before = spent_together(connection, group.members)
        if not (before + charge).fits(group.cap):
            raise _exceeded(charge, group.cap - before, group_scope(name))
    _spend(connection, scope(analyst), charge, caps.of(analyst))


def _spend(connection: sqlite3.Connection, name: str, charge: Charge, cap: Charge | None) -> None:
    """Add a charge to the total of a scope, if its cap allows it."""
    before = spent(connection, name)
    after = before + charge
    if cap is not None and not after.fits(cap):
        raise _exceeded(charge, cap - before, name)
    if too_wide(after, charge):
        raise OperationalError("this epsilon or delta has too many digits: give it as a short decimal")
    set_spent(connection, name, after)


def enter(
    connection: sqlite3.Connection,
    charge: Charge,
    who: tuple[str, str, str, str],
    *,
    shared: bool,
    at: str | None = None,
) -> int:
    """Write an entry: its charge, and who asked what, when, with what selection and mechanism."""
    loss = write_loss(charge)
    when = at or now()
    cursor = connection.execute(
        "INSERT INTO entry (at, analyst, statement, reading, mechanism, reserved_loss, charged_loss, state,"
        " shared, holder) VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?)",
        (when, *who, loss, loss, int(shared), process_identity.current()),
    )
    if cursor.lastrowid is None:
        raise InternalError("the ledger gave an entry no number")
    return cursor.lastrowid


def _reserved(connection: sqlite3.Connection, reservation: Reservation) -> tuple[str, str, str]:
    """Return time, analyst and process of a reservation; raise if it has ended, or is only a part of one."""
    found = []
    for entry, charge in reservation.entries:
        row = connection.execute(
            "SELECT reserved_loss, state, at, analyst, holder FROM entry WHERE entry = ?", (entry,)
        ).fetchone()
        if row is None or read_loss(row[0]) != charge:
            raise InternalError("the ledger holds no such reservation")
        if row[1] != "reserved":
            raise InternalError("a reservation was ended twice")
        if row[4] != process_identity.current():
            raise InterfaceError("a reservation belongs to the process that made it")
        found.append(row[2:])
    together = connection.execute(
        "SELECT entry FROM part WHERE first = (SELECT first FROM part WHERE entry = ?)", (reservation.entry,)
    ).fetchall()
    if together and {entry for entry, _ in reservation.entries} != {entry for (entry,) in together}:
        raise InternalError("the releases of a statement end together")
    at, analyst, holder = found[0]
    return at, analyst, holder


def entry_content(connection: sqlite3.Connection, entry: int) -> dict[str, Any]:
    """Return what an event says of an entry: everything in it that never changes."""
    row = connection.execute(f"SELECT {', '.join(_FIXED)} FROM entry WHERE entry = ?", (entry,)).fetchone()
    found = dict(zip(_FIXED, row, strict=True))
    for name, columns in (("part", "first, place, places"), ("refinement", "parent, epsilon")):
        row = connection.execute(f"SELECT {columns} FROM {name} WHERE entry = ?", (entry,)).fetchone()
        if row is not None:
            found[name] = list(row)
    return found


def now() -> str:
    """Return the present time as the ledger writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _reserved_content(connection: sqlite3.Connection, entries: Sequence[int]) -> dict[str, Any]:
    return {"entries": [entry_content(connection, entry) for entry in entries]}


def store(
    connection: sqlite3.Connection, entry: int, content: tuple[str, str, str | None, bytes | None, int]
) -> int:
    """Store a release: when it was asked for, by whom, its reuse key, its payload, its event's number."""
    cursor = connection.execute(
        "INSERT INTO release (entry, at, analyst, reuse_key, payload, event) VALUES (?, ?, ?, ?, ?, ?)",
        (entry, *content),
    )
    if cursor.lastrowid is None:
        raise InternalError("the ledger gave a release no number")
    return cursor.lastrowid


def _exceeded(requested: Charge, available: Charge, name: str) -> BudgetExceeded:
    """Return the error; the requested amount is rounded up, the available one down."""
    exceeded = "epsilon" if requested.epsilon > available.epsilon else "delta"
    costs = f"the statement costs {exceeded} {shown(getattr(requested, exceeded), up=True)}, but"
    left = shown(getattr(available, exceeded), up=False)
    if name == "query":
        text = f"{costs} one statement may cost at most {left}"
    elif name == POLICY:
        text = f"{costs} only {left} of the budget is left"
    elif name.startswith(group_scope("")):
        text = f"{costs} only {left} of the budget of your {name} is left"
    else:
        text = f"{costs} only {left} of your own budget is left"
    return BudgetExceeded(
        text, (requested.epsilon, requested.delta), (available.epsilon, available.delta), scope=name
    )
