"""The life of a charge: reserve, step, then settle, fail or cancel. Each inside one write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from dpsql.errors import BudgetExceeded, InterfaceError, InternalError, OperationalError
from dpsql.kernel.loss import Charge, PrivacyLoss, Stream, dominated
from dpsql.kernel.loss import settled as settled_loss
from dpsql.ledger import events, limits, process_identity, refining
from dpsql.ledger.accounts import of_analyst, of_group, of_policy
from dpsql.ledger.amounts import read_charge, read_loss, rounded_up, shown, too_wide, write_charge
from dpsql.ledger.budgets import ScopeBudget
from dpsql.ledger.caps import Caps, order_of
from dpsql.ledger.events import Event
from dpsql.ledger.records import Request, Reservation, Settled
from dpsql.ledger.totals import (
    POLICY,
    Stored,
    amounts,
    at_order,
    group_scope,
    keep_members,
    member,
    names_of,
    put,
    scope,
)

_FIXED = ("entry", "at", "analyst", "statement", "reading", "mechanism", "reserved_loss", "shared", "holder")
"""The columns of an entry that never change."""


def reserve(
    connection: sqlite3.Connection,
    caps: Caps,
    analyst: str,
    statement: str,
    requests: Sequence[Request],
    *,
    stream: bool = False,
) -> Reservation:
    """Charge the maximum of all releases of a statement if every cap allows their sum.

    Else it raises, having written nothing. The releases hold one slot: together they fail at most once.
    """
    price = sum((request.charge for request in requests), Charge())
    if not requests or any(request.charge.epsilon <= 0 for request in requests) or price.delta >= 1:
        raise InternalError("a private statement costs an epsilon above 0 and a delta below 1")
    losses = [_reserved_loss(connection, request) for request in requests]
    if not all(loss.parts for loss in losses):
        raise InternalError("a private statement has a loss")
    loss = sum(losses, PrivacyLoss())
    caps.check_listed(analyst)
    limits.check(connection, caps.limits, analyst)
    if caps.per_query is not None and price.epsilon > caps.per_query:
        left = of_policy(connection, caps).remaining
        raise exceeded(price, Charge(caps.per_query, left.delta), "query")
    spend_own(connection, caps, analyst, loss, price=price)
    _admit(of_policy(connection, caps), loss, price)
    add_charge(connection, POLICY, order_of(caps.filter), loss, loss)
    entries, at = list[int](), now()
    for request, reserved in zip(requests, losses, strict=True):
        who = (analyst, statement, request.selection, request.mechanism)
        entries.append(enter(connection, reserved, who, shared=False, at=at))
        if request.refines is not None:
            refining.begin(connection, entries[-1], analyst, request.charge, request.refines)
        if request.places > 1:
            place = (entries[-1], entries[0], request.place, request.places)
            connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", place)
    limits.take_slot(connection, analyst)
    content = {"entries": [entry_content(connection, entry) for entry in entries]}
    events.append(connection, "reserve", content, names_of(connection, analyst))
    parts = tuple(zip(entries, losses, strict=True))
    return Reservation(entries[0], loss, parts if len(parts) > 1 else (), stream=stream)


def _reserved_loss(connection: sqlite3.Connection, request: Request) -> PrivacyLoss:
    """Return the largest loss of a release.

    One that refines another has noise that depends on the other's. Together they are as private as the new
    one, which basic composition knows; given the other, the new one's loss may be both their epsilons.
    """
    if request.refines is None:
        return request.reserved
    paid = request.charge.epsilon
    before = refining.paid_before(connection, request.refines.parent)
    return PrivacyLoss((Stream(paid, paid + 2 * before),)) if before else PrivacyLoss.of(paid)


def step(connection: sqlite3.Connection, reservation: Reservation, number: int, charge: Charge) -> None:
    """Record what a stream has spent, including the answer that it returns next."""
    if len(reservation.entries) > 1:
        raise InternalError("a stream has one entry")
    _reserved(connection, reservation)
    last, before = progress(connection, reservation.entry)
    if number != last + 1:
        raise InternalError("a stream's steps are written in order, by one user of its reservation")
    if not before.fits(charge) or not charge.fits(reservation.loss.charge):
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
    names = names_of(connection, analyst)
    numbers, content = [], []
    for (entry, reserved), ended in zip(reservation.entries, settled, strict=True):
        charged = _settled(connection, entry, reserved, ended.charge, stream=reservation.stream)
        charged = _lowered(connection, [POLICY, *names], reserved, charged)
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


def _settled(
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
        if not dominated(realised, reserved):
            raise InternalError("a part of a statement's loss is more than what was reserved for it")
        found = realised
    elif epsilon == most:
        found = PrivacyLoss(reserved.parts, delta)
    else:
        found = settled_loss(reserved, PrivacyLoss.of(realised.epsilon, delta), stream=stream)
    if not progress(connection, entry)[1].fits(Charge(found.epsilon or Fraction(0), delta)):
        raise InternalError("a stream is settled for less than its answers have cost")
    return found


def _lowered(
    connection: sqlite3.Connection,
    names: Sequence[str],
    reserved: PrivacyLoss,
    charged: PrivacyLoss,
) -> PrivacyLoss:
    """Lower totals from an entry's reserved loss to the one it is charged; return the latter."""
    before = [at_order(connection, name, None) for name in names]
    for total in before:
        if total.order is not None and charged.cost(total.order) > reserved.cost(total.order):
            raise InternalError("a statement's realised cost is more than what was reserved for it")
    after = [total.moved(reserved, charged) for total in before]
    if any(too_wide(total.totals, amounts(reserved, charged, total.order)) for total in after):
        charged = rounded_up(charged)
        after = [total.moved(reserved, charged) for total in before]
    for name, total in zip(names, after, strict=True):
        put(connection, name, total)
    return charged


def end(connection: sqlite3.Connection, reservation: Reservation, *, failed: bool) -> None:
    """End a reservation without an answer: it stays charged in full, and counts as failed or cancelled."""
    _, analyst, mine = _reserved(connection, reservation)
    state = "failed" if failed else "cancelled"
    for entry, _ in reservation.entries:
        connection.execute("UPDATE entry SET state = ? WHERE entry = ?", (state, entry))
    limits.release_slot(connection, analyst, mine)
    limits.add(connection, state, analyst)
    content = {"entries": [entry for entry, _ in reservation.entries]}
    events.append(connection, "fail" if failed else "cancel", content, names_of(connection, analyst))


def spend_own(
    connection: sqlite3.Connection,
    caps: Caps,
    analyst: str,
    reserved: PrivacyLoss,
    charged: PrivacyLoss | None = None,
    *,
    price: Charge | None = None,
) -> None:
    """Add a loss to an analyst's total, if the analyst's own cap and those of all groups allow it.

    They have to allow the reserved loss also where another one is charged: else an outcome could be told from
    what is refused.
    """
    orders = {scope(analyst): order_of(caps.own_filter(analyst))}
    for name, group in caps.groups_of(analyst):
        order = order_of(caps.filter_of(group.cap))
        if order is not None:
            keep_members(connection, name, group.members, order)
            orders[member(name, analyst)] = order
        _admit(of_group(connection, caps, name, group), reserved, price)
    own = of_analyst(connection, caps, analyst)
    if own is not None:
        _admit(own, reserved, price)
    for name in {*names_of(connection, analyst), *orders}:
        add_charge(connection, name, orders.get(name), reserved, reserved if charged is None else charged)


def _admit(budget: ScopeBudget, loss: PrivacyLoss, price: Charge | None) -> None:
    """Raise `BudgetExceeded` unless a scope admits a loss; without a price it is that of a stored answer."""
    if budget.admits(loss):
        return
    if price is None and loss.epsilon is None:
        raise _gaussian_exceeded(loss, budget.remaining, budget.name)
    asked = loss.charge if price is None else price
    one = PrivacyLoss.of(asked.epsilon, asked.delta)
    other = price is not None and one != loss and budget.admits(one)
    raise exceeded(asked, budget.remaining, budget.name, other=other)


def add_charge(
    connection: sqlite3.Connection,
    name: str,
    order: Fraction | None,
    reserved: PrivacyLoss,
    charged: PrivacyLoss,
) -> None:
    """Add what is not written yet to the total of a scope, at an order or at that of the total."""
    before = at_order(connection, name, order)
    more = amounts(reserved, charged, before.order)
    after = Stored(before.totals + more, before.order)
    if too_wide(after.totals, more):
        raise OperationalError("this epsilon or delta has too many digits: give it as a short decimal")
    put(connection, name, after)


def enter(
    connection: sqlite3.Connection,
    loss: PrivacyLoss,
    who: tuple[str, str, str, str],
    *,
    shared: bool,
    at: str,
) -> int:
    """Write an entry: its reserved loss, and who asked what, when, with what selection and mechanism."""
    cursor = connection.execute(
        "INSERT INTO entry (at, analyst, statement, reading, mechanism, reserved_loss, charged_loss, state,"
        " shared, holder) VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?)",
        (at, *who, str(loss), str(loss), int(shared), process_identity.current()),
    )
    if cursor.lastrowid is None:
        raise InternalError("the ledger gave an entry no number")
    return cursor.lastrowid


def _reserved(connection: sqlite3.Connection, reservation: Reservation) -> tuple[str, str, str]:
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


def _gaussian_exceeded(loss: PrivacyLoss, available: Charge, name: str) -> BudgetExceeded:
    """Return the error for a stored answer with Gaussian noise, which has no epsilon that could be named."""
    whose = f"the budget of your {name}" if name.startswith(group_scope("")) else "your own budget"
    return BudgetExceeded(
        f"the stored answer has Gaussian noise, for which too little is left of {whose}, or it has no delta",
        (available.epsilon, loss.delta),
        (available.epsilon, available.delta),
        scope=name,
    )


def exceeded(requested: Charge, available: Charge, name: str, *, other: bool = False) -> BudgetExceeded:
    """Return the error; the requested amount is rounded up, the available one down.

    `other`: the statement would be admitted if its epsilon were divided among its mechanisms.
    """
    over = (
        "epsilon" if requested.epsilon > available.epsilon or requested.delta <= available.delta else "delta"
    )
    costs = f"the statement costs {over} {shown(getattr(requested, over), up=True)}, but"
    left = shown(getattr(available, over), up=False)
    if name == "query":
        text = f"{costs} one statement may cost at most {left}"
    elif name == POLICY:
        text = f"{costs} only {left} of the budget is left"
    elif name.startswith(group_scope("")):
        text = f"{costs} only {left} of the budget of your {name} is left"
    else:
        text = f"{costs} only {left} of your own budget is left"
    if other:
        text += ", in which it fits only with OPTIONS (layout = BASIC)"
    return BudgetExceeded(
        text, (requested.epsilon, requested.delta), (available.epsilon, available.delta), scope=name
    )
