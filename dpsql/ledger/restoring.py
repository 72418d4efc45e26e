"""Goes on with a ledger that is older than its mark: what the mark tells is spent in it, too."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction

from dpsql.kernel.loss import Totals
from dpsql.ledger import events, ladders
from dpsql.ledger.events import Total
from dpsql.ledger.mark import Mark
from dpsql.ledger.seen import Seen, begin
from dpsql.ledger.totals import Row, Stored, group_scope, put, restored_cost, stored


def accept(connection: sqlite3.Connection, mark: Mark, holder: str) -> dict[str, Totals]:
    """Count what a mark tells as spent; return what was added to each scope.

    If the ledger is an older copy, the totals become the mark's. If it may have gone on alone, the charges of
    both have to count: the totals become the sum of both, less those of the latest event that both have in
    common for certain. Nothing becomes less than it was. Statements without an end stay charged in full: none
    may be settled any more, since the mark's totals may hold what it was settled to.
    """
    seen = Seen.of(connection)
    running = [entry for (entry,) in connection.execute("SELECT entry FROM entry WHERE state = 'reserved'")]
    connection.execute("UPDATE entry SET state = 'cancelled' WHERE state = 'reserved'")
    connection.execute("DELETE FROM running")
    unmeasured = ladders.end_all(connection)
    common, added = _in_common(connection, seen, mark), dict[str, tuple[Totals, Row]]()
    for name, told in mark.totals.items():
        if name.startswith(group_scope("")):  # added up again when it is needed
            continue
        more = _more(connection, name, told, common.get(name))
        if more is not None:
            added[name] = more.totals, more.row
    n = events.newest(connection).n + 1
    for name, (_, row) in added.items():
        row_of = (n, name, *row, _most(mark.totals[name]))
        connection.execute("INSERT INTO restored VALUES (?, ?, ?, ?, ?, ?, ?)", row_of)
    for name in events.stored_totals(connection):
        if name.startswith(group_scope("")):
            connection.execute("DELETE FROM total WHERE name = ?", (name,))
    content = {
        "mark": {"ledger": mark.ledger, **asdict(mark.event)},
        "ended": running,
        "ladders": unmeasured,
        "added": {name: [*row, _most(mark.totals[name])] for name, (_, row) in added.items()},
    }
    begin(connection, "restored", content, holder)
    return {name: more for name, (more, _) in added.items()}


def _more(connection: sqlite3.Connection, name: str, row: Row, common: Row | None) -> Stored | None:
    """Add to a scope what the mark tells and the ledger does not hold; return that; None: nothing."""
    told, own = Stored.read(row), stored(connection, name)
    own = Stored(Totals(), told.order) if own is None else own
    less = Stored(Totals(), told.order) if common is None else Stored.read(common)
    zero = Fraction(0)
    epsilon = None
    if told.totals.epsilon is not None:
        known = [told.totals.epsilon - (each.totals.epsilon or zero) for each in (less, own)]
        epsilon = max(*known, zero)
    delta = max(*(told.totals.delta - each.totals.delta for each in (less, own)), zero)
    cost = zero
    if own.order is not None and told.order == own.order == less.order:
        cost = max(*(told.totals.cost - each.totals.cost for each in (less, own)), zero)
    elif own.order is not None:
        cost = restored_cost((None, None, _most(row)), own.order)
    more = Totals(epsilon, delta, cost)
    if not (delta or cost) and (epsilon == 0 or (epsilon is None and own.totals.epsilon is None)):
        return None
    put(connection, name, Stored(own.totals + more, own.order))
    return Stored(more, own.order)


def _most(told: Row) -> str | None:
    """Return what all that a mark tells of costs at most, at any order; None: that is not known."""
    return told[0]


def _in_common(connection: sqlite3.Connection, seen: Seen, mark: Mark) -> Mapping[str, Total]:
    """Return totals that both the ledger and the mark are known to hold."""
    if mark.ledger != seen.ledger:
        return {}
    if seen.event.n < mark.event.n and seen.begun[-1:] == mark.begun[-1:] != ():
        # All answers since then were stored under this mark, here and there: it is the mark's own past.
        return seen.totals
    for event in reversed(mark.begun):
        row = connection.execute("SELECT record, hash FROM event WHERE n = ?", (event.n,)).fetchone()
        if row is not None and row[1] == event.hash:
            totals: dict[str, Total] = json.loads(row[0])["totals"]
            return totals
    return {}
