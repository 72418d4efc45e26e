"""The life of a charge: reserve, step, then settle, fail or cancel. Each inside one write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction

from dpsql.errors import BudgetExceeded, InterfaceError, InternalError, OperationalError, PolicyError
from dpsql.ledger import limits, process_identity, refining
from dpsql.ledger.amounts import DamagedError, moved, read_charge, rounded_up, shown, too_wide, write_charge
from dpsql.ledger.limits import Limits
from dpsql.ledger.records import Request, Reservation, Settled, StoredRelease
from dpsql.privacy import Charge

POLICY = "policy"
ANYBODY = "*"
"""Stands for every analyst whom the policy does not name."""


@dataclass(frozen=True, slots=True)
class GroupCap:
    """The cap on what several analysts spend together."""

    members: tuple[str, ...]
    cap: Charge


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps of the policy: on the total, on each analyst, on groups of analysts, on one statement."""

    total: Charge
    per_query: Fraction | None
    analysts: Mapping[str, Charge]
    """Cap by name; `*` is that of each analyst not named. If there is any cap, other analysts are refused."""
    limits: Limits
    groups: Mapping[str, GroupCap] = field(default_factory=dict)

    def groups_of(self, analyst: str) -> list[tuple[str, GroupCap]]:
        """Return the groups that an analyst belongs to, by name."""
        return [(name, group) for name, group in self.groups.items() if analyst in group.members]

    def of(self, analyst: str) -> Charge | None:
        """Return an analyst's own cap; None if there is none."""
        return self.analysts.get(analyst, self.analysts.get(ANYBODY))

    def check_listed(self, analyst: str) -> None:
        """Refuse an analyst whom the policy does not list, if it lists any. Names are compared exactly."""
        if self.analysts and self.of(analyst) is None:
            raise PolicyError(
                f"the policy lists its analysts, and {analyst!r} is none of them",
                hint="give a name that it lists (analyst=..., --analyst NAME); for everybody else the owner"
                ' writes [analysts."*"]',
            )


def group_scope(group: str) -> str:
    """Return the name of a group's scope, for messages: its total is that of its members."""
    return f"group {group}"


def scope(analyst: str) -> str:
    """Return the name of an analyst's own scope."""
    return f"analyst {analyst}"


def spent(connection: sqlite3.Connection, name: str) -> Charge:
    """Return the total charge of a scope: of the policy, or of one analyst."""
    row = connection.execute("SELECT epsilon, delta FROM scope WHERE name = ?", (name,)).fetchone()
    if row is not None:
        return read_charge(*row)
    if name == POLICY:  # written when the ledger was made, and never deleted
        raise DamagedError("the policy's total is missing")
    return Charge()


def spent_together(connection: sqlite3.Connection, analysts: Sequence[str]) -> Charge:
    """Return the total charge of several analysts.

    It is added up at each charge, so that it is right at once when the policy changes who belongs to a group.
    """
    return sum((spent(connection, scope(analyst)) for analyst in analysts), Charge())


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
    _spend_own(connection, caps, analyst, charge)
    _spend(connection, POLICY, charge, caps.total)
    entries: list[int] = []
    for request in requests:
        who = (analyst, statement, request.selection, request.mechanism)
        entries.append(_enter(connection, request.charge, who, shared=False))
        if request.refines is not None:
            refining.begin(connection, entries[-1], analyst, request.charge, request.refines)
        if request.places > 1:
            place = (entries[-1], entries[0], request.place, request.places)
            connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", place)
    limits.take_slot(connection, analyst)
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
) -> tuple[int, ...]:
    """Lower a reservation to the realised charges and store the releases; return their numbers."""
    at, analyst, mine = _reserved(connection, reservation)
    if len(settled) != len(reservation.entries):
        raise InternalError("the releases of a statement are settled together")
    numbers = []
    for (entry, reserved), ended in zip(reservation.entries, settled, strict=True):
        charge = _lowered(connection, entry, analyst, reserved, ended.charge)
        number = _store(connection, entry, (at, analyst, ended.reuse_key, ended.payload))
        connection.execute(
            "UPDATE entry SET state = 'settled', charged_epsilon = ?, charged_delta = ?, release = ?"
            " WHERE entry = ?",
            (*write_charge(charge), number, entry),
        )
        numbers.append(number)
    limits.release_slot(connection, analyst, mine)
    return tuple(numbers)


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
        _set_spent(connection, name, total)
    return charge


def end(connection: sqlite3.Connection, reservation: Reservation, *, failed: bool) -> None:
    """End a reservation without an answer: it stays charged in full, and counts as failed or cancelled."""
    _, analyst, mine = _reserved(connection, reservation)
    state = "failed" if failed else "cancelled"
    for entry, _ in reservation.entries:
        connection.execute("UPDATE entry SET state = ? WHERE entry = ?", (state, entry))
    limits.release_slot(connection, analyst, mine)
    limits.add(connection, "failure" if failed else "cancelled", analyst)


def find(connection: sqlite3.Connection, reuse_key: str, analyst: str) -> StoredRelease | None:
    """Return an analyst's own latest release under a reuse key."""
    row = connection.execute(
        "SELECT number, at, payload FROM release"
        " WHERE analyst = ? AND reuse_key = ? AND payload IS NOT NULL ORDER BY number DESC LIMIT 1",
        (analyst, reuse_key),
    ).fetchone()
    return StoredRelease(row[0], datetime.fromisoformat(row[1]), analyst, row[2]) if row else None


def number(connection: sqlite3.Connection, reuse_key: str, analyst: str) -> int | None:
    """Return the number of an analyst's own latest release under a reuse key."""
    row = connection.execute(
        "SELECT number FROM release"
        " WHERE analyst = ? AND reuse_key = ? AND payload IS NOT NULL ORDER BY number DESC LIMIT 1",
        (analyst, reuse_key),
    ).fetchone()
    return None if row is None else int(row[0])


def shareable(connection: sqlite3.Connection, reuse_key: str) -> bool:
    """Whether any analyst has a release under a reuse key."""
    row = connection.execute(
        "SELECT 1 FROM release WHERE reuse_key = ? AND payload IS NOT NULL", (reuse_key,)
    ).fetchone()
    return row is not None


def share(connection: sqlite3.Connection, caps: Caps, reuse_key: str, analyst: str) -> None:
    """Copy another analyst's release to `analyst`, charged to that one's own cap, if there is one."""
    caps.check_listed(analyst)
    if find(connection, reuse_key, analyst) is not None:
        return  # paid for already, perhaps a moment ago by another thread
    row = connection.execute(
        "SELECT e.at, e.statement, e.reading, e.mechanism, e.charged_epsilon, e.charged_delta, r.payload"
        " FROM release r JOIN entry e ON e.entry = r.entry"
        " WHERE r.reuse_key = ? AND r.payload IS NOT NULL ORDER BY r.number DESC LIMIT 1",
        (reuse_key,),
    ).fetchone()
    if row is None:
        return
    at, statement, selection, mechanism, epsilon, delta, payload = row
    charge = read_charge(epsilon, delta)
    _spend_own(connection, caps, analyst, charge)
    who = (analyst, statement, selection, mechanism)
    entry = _enter(connection, charge, who, shared=True, at=at)
    number = _store(connection, entry, (at, analyst, reuse_key, payload))
    connection.execute("UPDATE entry SET state = 'settled', release = ? WHERE entry = ?", (number, entry))


def _spend_own(connection: sqlite3.Connection, caps: Caps, analyst: str, charge: Charge) -> None:
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
    _set_spent(connection, name, after)


def _set_spent(connection: sqlite3.Connection, name: str, total: Charge) -> None:
    connection.execute(
        "INSERT INTO scope VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET epsilon = excluded.epsilon, delta = excluded.delta",
        (name, *write_charge(total)),
    )


def _enter(
    connection: sqlite3.Connection,
    charge: Charge,
    who: tuple[str, str, str, str],
    *,
    shared: bool,
    at: str | None = None,
) -> int:
    amounts = write_charge(charge)
    when = at or datetime.now(UTC).isoformat(timespec="seconds")
    cursor = connection.execute(
        "INSERT INTO entry (at, analyst, statement, reading, mechanism, reserved_epsilon, reserved_delta,"
        " charged_epsilon, charged_delta, state, shared, holder)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?)",
        (when, *who, *amounts, *amounts, int(shared), process_identity.current()),
    )
    if cursor.lastrowid is None:
        raise InternalError("the ledger gave an entry no number")
    return cursor.lastrowid


def _reserved(connection: sqlite3.Connection, reservation: Reservation) -> tuple[str, str, str]:
    """Return time, analyst and process of a reservation; raise if it has ended, or is only a part of one."""
    found = []
    for entry, charge in reservation.entries:
        row = connection.execute(
            "SELECT reserved_epsilon, reserved_delta, state, at, analyst, holder FROM entry WHERE entry = ?",
            (entry,),
        ).fetchone()
        if row is None or write_charge(charge) != row[:2]:
            raise InternalError("the ledger holds no such reservation")
        if row[2] != "reserved":
            raise InternalError("a reservation was ended twice")
        if row[5] != process_identity.current():
            raise InterfaceError("a reservation belongs to the process that made it")
        found.append(row[3:])
    together = connection.execute(
        "SELECT entry FROM part WHERE first = (SELECT first FROM part WHERE entry = ?)", (reservation.entry,)
    ).fetchall()
    if together and {entry for entry, _ in reservation.entries} != {entry for (entry,) in together}:
        raise InternalError("the releases of a statement end together")
    at, analyst, holder = found[0]
    return at, analyst, holder


def _store(
    connection: sqlite3.Connection, entry: int, content: tuple[str, str, str | None, bytes | None]
) -> int:
    """Store a release, given when it was asked for, by whom, its reuse key and its payload."""
    cursor = connection.execute(
        "INSERT INTO release (entry, at, analyst, reuse_key, payload) VALUES (?, ?, ?, ?, ?)",
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
