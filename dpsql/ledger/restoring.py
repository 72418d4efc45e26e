"""Goes on with a ledger that is older than its mark: what the mark tells is spent in it, too."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict

from dpsql.ledger import events
from dpsql.ledger.amounts import read_charge, write_charge
from dpsql.ledger.events import Total
from dpsql.ledger.mark import Mark
from dpsql.ledger.seen import Seen, begin
from dpsql.ledger.totals import set_spent, spent
from dpsql.privacy import Charge


def accept(connection: sqlite3.Connection, mark: Mark, holder: str) -> dict[str, Charge]:
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
    common = _in_common(connection, seen, mark)
    added = {}
    for name, total in mark.totals.items():
        told, own = _charge(total), spent(connection, name)
        less = _charge(common.get(name))
        more = Charge(
            max(told.epsilon - less.epsilon, told.epsilon - own.epsilon, 0 * own.epsilon),
            max(told.delta - less.delta, told.delta - own.delta, 0 * own.delta),
        )
        if more != Charge():
            added[name] = more
            set_spent(connection, name, own + more)
    n = events.newest(connection).n + 1
    for name, more in added.items():
        connection.execute(
            "INSERT INTO restored (event, scope, epsilon, delta) VALUES (?, ?, ?, ?)",
            (n, name, *write_charge(more)),
        )
    content = {
        "mark": {"ledger": mark.ledger, **asdict(mark.event)},
        "ended": running,
        "added": {name: write_charge(more) for name, more in added.items()},
    }
    begin(connection, "restored", content, holder)
    return added


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


def _charge(total: Total | None) -> Charge:
    return Charge() if total is None else read_charge(*total[:2])
