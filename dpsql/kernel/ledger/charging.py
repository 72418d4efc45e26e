"""The life of a charge: reserve, step, then settle, fail or cancel. Each inside one write transaction.

A refinement is a release whose noise depends on that of an earlier one: what both may cost is reserved.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from dpsql.errors import InterfaceError, InternalError, OperationalError
from dpsql.kernel.ledger import events, limits, part_totals, person_totals, renewals, reports
from dpsql.kernel.ledger.budget_errors import budget_error
from dpsql.kernel.ledger.caps import Caps
from dpsql.kernel.ledger.events import Event, RefinementStep, Request, Reservation, Settled
from dpsql.kernel.ledger.renewal_rows import find_last
from dpsql.kernel.ledger.scopes import policy_budget, spend_own, spend_total
from dpsql.kernel.ledger.totals import (
    added_amounts,
    names_of,
    policy_names,
    read,
    read_loss,
    round_up_loss,
    too_wide,
    total_at_order,
    write,
    write_total,
)
from dpsql.kernel.loss import Charge, PrivacyLoss, Stream, is_within
from dpsql.kernel.loss import settle as settle_loss
from dpsql.kernel.unit_parts import PartSet

LASTING: Final = "lasting"
"""Stands for the process that holds an entry, where any process of its analyst may go on with it."""


def reserved_loss(connection: sqlite3.Connection, request: Request) -> PrivacyLoss:
    """Return the largest loss of a release.

    One that refines another has noise that depends on the other's. Together they are as private as the new
    one, which basic composition knows; given the other, the new one's loss may be both their epsilons.
    """
    if request.refines is None:
        return request.reserved
    paid = request.charge.epsilon
    before = paid_before(connection, request.refines.parent)
    return PrivacyLoss((Stream(paid, paid + 2 * before),)) if before else PrivacyLoss.of(paid)


def begin(
    connection: sqlite3.Connection, entry: int, analyst: str, charge: Charge, refines: RefinementStep
) -> None:
    """Record, with its charge, that an entry refines a release, if no other entry does."""
    if connection.execute("SELECT 1 FROM refinement WHERE parent = ?", (refines.parent,)).fetchone():
        raise OperationalError(
            f"release {refines.parent} was refined by another statement; nothing was charged"
        )
    (parent,) = connection.execute(
        "SELECT entry FROM release WHERE number = ?", (refines.parent,)
    ).fetchone() or (0,)
    if parent and parent <= find_last(connection).entry:
        raise OperationalError(
            f"release {refines.parent} was answered before the budget started anew, and a refinement is"
            " priced beside it; nothing was charged: ask the statement again, without REFINE"
        )
    problem = problem_of(connection, analyst, charge.epsilon, refines)
    if problem:
        raise InternalError(f"a refinement {problem}")
    connection.execute(
        "INSERT INTO refinement VALUES (?, ?, ?)", (entry, refines.parent, write(refines.epsilon))
    )


def paid_before(connection: sqlite3.Connection, number: int) -> Fraction:
    """Return the epsilon of a release and of the releases that it refines; 0 if it is not in the ledger."""
    row = connection.execute(
        "SELECT e.entry, e.charged_loss FROM release r JOIN entry e ON e.entry = r.entry WHERE r.number = ?",
        (number,),
    ).fetchone()
    if row is None:
        return Fraction(0)
    before = step_of(connection, row[0])
    return (read_loss(row[1]).epsilon or Fraction(0)) if before is None else before.epsilon


def problem_of(
    connection: sqlite3.Connection, analyst: str, price: Fraction, refines: RefinementStep
) -> str | None:
    """Say why a refinement at this price is not allowed; None: it is."""
    row = connection.execute(
        "SELECT e.entry, e.analyst, e.shared, e.charged_loss FROM release r JOIN entry e"
        " ON e.entry = r.entry WHERE r.number = ?",
        (refines.parent,),
    ).fetchone()
    if row is None or row[1] != analyst or row[2]:
        return "is of a release that is not the analyst's own"
    before = step_of(connection, row[0])
    spent = read_loss(row[3]).epsilon if before is None else before.epsilon
    if spent is None:
        return "is of a release that has no epsilon"
    if price <= 0 or spent + price < refines.epsilon:
        return "costs less than what it adds"
    return None


def step_of(connection: sqlite3.Connection, entry: int) -> RefinementStep | None:
    """Return the entry that a refinement refines, and its epsilon; None if the entry is no refinement."""
    row = connection.execute("SELECT parent, epsilon FROM refinement WHERE entry = ?", (entry,)).fetchone()
    return None if row is None else RefinementStep(row[0], read(row[1]))


_FIXED = ("entry", "at", "analyst", "statement", "reading", "mechanism", "reserved_loss", "shared", "holder")
"""The columns of an entry that never change."""


def reserve(
    connection: sqlite3.Connection,
    caps: Caps,
    analyst: str,
    statement: str,
    requests: Sequence[Request],
    *,
    lasting: bool = False,
) -> Reservation:
    """Charge the maximum of all releases of a statement if every cap allows their sum.

    Else it raises, having written nothing. The releases hold one slot: together they fail at most once. A
    stream is `lasting`: it belongs to no process and holds none; what is asked under it does.
    """
    price = sum((request.charge for request in requests), Charge())
    if not requests or any(request.charge.epsilon <= 0 for request in requests) or price.delta >= 1:
        raise InternalError("a private statement costs an epsilon above 0 and a delta below 1")
    losses = [reserved_loss(connection, request) for request in requests]
    if not all(loss.parts for loss in losses):
        raise InternalError("a private statement has a loss")
    loss = sum(losses, PrivacyLoss())
    caps.check_listed(analyst)
    limits.check(connection, caps.limits, analyst)
    if caps.per_query is not None and price.epsilon > caps.per_query:
        left = policy_budget(connection, caps).remaining
        raise budget_error(price, Charge(caps.per_query, left.delta), "query")
    touches = [_parts_of(connection, request) for request in requests]
    pairs = zip(requests, touches, strict=True)
    persons = [_times_of(connection, caps, request, parts) for request, parts in pairs]
    together: dict[PartSet | None, list[PrivacyLoss]] = {parts: [] for parts in touches}
    for parts, each in zip(touches, losses, strict=True):
        together[parts].append(each)
    runs = reports.check_runs(connection, caps, requests, touches)
    for parts, own in together.items():
        each = sum(own, PrivacyLoss())
        reports.check_kept(connection, caps, each, price, parts, runs)
        spend_own(connection, caps, analyst, each, price=price, parts=parts, entries=own)
        spend_total(connection, caps, each, price, parts, entries=own)
    for times, each, request in zip(persons, losses, requests, strict=True):
        person_totals.spend(connection, caps, each, request.charge, times)
    entries, at = list[int](), now()
    for request, reserved, parts, times in zip(requests, losses, touches, persons, strict=True):
        who = (analyst, statement, request.selection, request.mechanism)
        holder = LASTING if lasting else None
        entries.append(enter(connection, reserved, who, shared=False, at=at, parts=parts, holder=holder))
        person_totals.write_periods(connection, entries[-1], times)
        if request.refines is not None:
            begin(connection, entries[-1], analyst, request.charge, request.refines)
        if request.places > 1:
            place = (entries[-1], entries[0], request.place, request.places)
            connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", place)
        if request.report is not None:
            connection.execute("INSERT INTO report_run VALUES (?, ?)", (entries[-1], request.report))
    if not lasting:
        limits.take_slot(connection, analyst)
    content = {"entries": [entry_content(connection, entry) for entry in entries]}
    events.append(connection, "reserve", content, names_of(connection, analyst))
    members = tuple(zip(entries, losses, strict=True))
    parents = tuple(None if request.refines is None else request.refines.parent for request in requests)
    several = members if len(members) > 1 else ()
    renewed = renewals.describe(connection, caps.renewal, caps.filter)
    return Reservation(entries[0], loss, several, lasting, parents, tuple(touches), renewed)


def _times_of(
    connection: sqlite3.Connection, caps: Caps, request: Request, parts: PartSet | None
) -> tuple[person_totals.Times, ...]:
    """Return in how many periods of each year one person may be among what a release is charged to."""
    if caps.parts is None or not caps.parts.periods or request.of_person:
        return ()
    if request.refines is not None:
        row = connection.execute(
            "SELECT entry FROM release WHERE number = ?", (request.refines.parent,)
        ).fetchone()
        if row is not None and not person_totals.periods_of(connection, row[0]):
            return ()
    return person_totals.periods_by_year(parts, caps.parts.calendar.every)


def _parts_of(connection: sqlite3.Connection, request: Request) -> PartSet | None:
    """Return the parts that a release is charged to: of one that refines another, those of the other.

    One that depends on units of no part is charged to all of them, since an entry has parts or counts in all.
    """
    if request.refines is None:
        return request.parts or None
    row = connection.execute(
        "SELECT entry FROM release WHERE number = ?", (request.refines.parent,)
    ).fetchone()
    return None if row is None else part_totals.touches(connection, row[0])


def settle(
    connection: sqlite3.Connection, reservation: Reservation, settled: Sequence[Settled]
) -> tuple[tuple[int, ...], Event]:
    """Lower a reservation to the realised charges and store the releases.

    It returns the numbers of the releases, and the event that says so.
    """
    at, analyst, mine = _find_reservation(connection, reservation)
    if len(settled) != len(reservation.entries):
        raise InternalError("the releases of a statement are settled together")
    number_of_event = events.newest(connection).n + 1
    names = names_of(connection, analyst)
    numbers, content = [], []
    for (entry, reserved), ended in zip(reservation.entries, settled, strict=True):
        charged = _loss_to_charge(connection, entry, reserved, ended.charge, stream=reservation.stream)
        charged = _lower_totals(
            connection, [*policy_names(connection, entry), *names], reserved, charged, entry
        )
        person_totals.settle(connection, entry, reserved, charged)
        release = (at, analyst, ended.reuse_key, ended.payload, number_of_event)
        number = store(connection, entry, release)
        connection.execute(
            "UPDATE entry SET state = 'settled', charged_loss = ?, release = ? WHERE entry = ?",
            (str(charged), number, entry),
        )
        numbers.append(number)
        content.append(release_content(entry, number, charged, ended.reuse_key, ended.payload))
    limits.release_slot(connection, analyst, mine)
    event = events.append(connection, "settle", {"releases": content}, names)
    return tuple(numbers), event


def release_content(
    entry: int, number: int, charged: PrivacyLoss, reuse_key: str | None, payload: bytes | None
) -> dict[str, Any]:
    """Return what an event says of a release: its entry, its loss, the hash of its payload."""
    return {
        "entry": entry,
        "release": number,
        "charged_loss": str(charged),
        "reuse_key": reuse_key,
        "payload": events.digest(payload),
    }


def _loss_to_charge(
    connection: sqlite3.Connection,
    entry: int,
    reserved: PrivacyLoss,
    realised: Charge | PrivacyLoss,
    *,
    stream: bool,
) -> PrivacyLoss:
    """Return what an entry is charged in the end."""
    epsilon, delta = realised.epsilon, realised.delta
    most = reserved.epsilon
    if delta > reserved.delta or (most is not None and (epsilon is None or epsilon > most)):
        raise InternalError("a statement's realised charge is more than what was reserved for it")
    if connection.execute("SELECT 1 FROM refinement WHERE entry = ?", (entry,)).fetchone():
        return PrivacyLoss(reserved.parts, delta)
    if isinstance(realised, PrivacyLoss):
        if stream:
            raise InternalError("a stream is settled to a charge")
        if not is_within(realised, reserved):
            raise InternalError("a part of a statement's loss is more than what was reserved for it")
        found = realised
    elif epsilon == most:
        found = PrivacyLoss(reserved.parts, delta)
    else:
        found = settle_loss(reserved, PrivacyLoss.of(realised.epsilon, delta), stream=stream)
    return found


def _lower_totals(
    connection: sqlite3.Connection,
    names: Sequence[str],
    reserved: PrivacyLoss,
    charged: PrivacyLoss,
    entry: int,
) -> PrivacyLoss:
    """Lower totals from an entry's reserved loss to the one it is charged; return the latter.

    What was charged to parts that are no more what they were stays as it was reserved.
    """
    before = [total_at_order(connection, name, None) for name in names]
    for total in before:
        if total.order is not None and charged.cost(total.order) > reserved.cost(total.order):
            raise InternalError("a statement's realised cost is more than what was reserved for it")
    if part_totals.written_touches(connection, entry) is not None:
        parts = part_totals.touches(connection, entry)
        if parts is not None:
            part_totals.settle(connection, names, parts, reserved, charged)
        return charged
    after = [total.settle(reserved, charged) for total in before]
    if any(too_wide(total.totals, added_amounts(reserved, charged, total.order)) for total in after):
        charged = round_up_loss(charged)
        after = [total.settle(reserved, charged) for total in before]
    for name, total in zip(names, after, strict=True):
        write_total(connection, name, total)
    return charged


def end(connection: sqlite3.Connection, reservation: Reservation, *, failed: bool) -> None:
    """End a reservation without an answer: it stays charged in full, and counts as failed or cancelled."""
    _, analyst, mine = _find_reservation(connection, reservation)
    state = "failed" if failed else "cancelled"
    for entry, _ in reservation.entries:
        connection.execute("UPDATE entry SET state = ? WHERE entry = ?", (state, entry))
    limits.release_slot(connection, analyst, mine)
    limits.add(connection, state, analyst)
    content = {"entries": [entry for entry, _ in reservation.entries]}
    events.append(connection, "fail" if failed else "cancel", content, names_of(connection, analyst))


def enter(
    connection: sqlite3.Connection,
    loss: PrivacyLoss,
    who: tuple[str, str, str, str],
    *,
    shared: bool,
    at: str,
    parts: PartSet | None = None,
    holder: str | None = None,
) -> int:
    """Write an entry: its reserved loss, and who asked what, when, with what selection and mechanism.

    `parts` are those that it is charged to; None: all. `holder` holds it; None: this process.
    """
    cursor = connection.execute(
        "INSERT INTO entry (at, analyst, statement, reading, mechanism, reserved_loss, charged_loss, state,"
        " shared, holder) VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?)",
        (at, *who, str(loss), str(loss), int(shared), holder or limits.current()),
    )
    if cursor.lastrowid is None:
        raise InternalError("the ledger gave an entry no number")
    part_totals.touch(connection, cursor.lastrowid, parts)
    return cursor.lastrowid


def _find_reservation(connection: sqlite3.Connection, reservation: Reservation) -> tuple[str, str, str]:
    """Return time, analyst and process of a reservation; raise if it has ended, or is only a part of one."""
    found = []
    for entry, loss in reservation.entries:
        row = connection.execute(
            "SELECT reserved_loss, state, at, analyst, holder FROM entry WHERE entry = ?", (entry,)
        ).fetchone()
        if row is None or read_loss(row[0]) != loss:
            raise InternalError("the ledger holds no such reservation")
        if row[1] != "reserved":
            raise InternalError("a reservation was ended twice")
        if row[4] not in (limits.current(), LASTING):
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
    for name, columns, table in (
        ("part", "first, place, places", "part"),
        ("refinement", "parent, epsilon", "refinement"),
        ("report", "report", "report_run"),
    ):
        row = connection.execute(f"SELECT {columns} FROM {table} WHERE entry = ?", (entry,)).fetchone()
        if row is not None:
            found[name] = list(row)
    parts = part_totals.written_touches(connection, entry)
    if parts is not None:
        found["parts"] = [list(ends) for ends in parts.ranges]
    times = person_totals.periods_of(connection, entry)
    if times:
        found["periods"] = [list(each) for each in times]
    return found


def now() -> str:
    """Return the present time as the ledger writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


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
