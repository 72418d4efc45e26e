"""What parts of units are: where the policy changes that, what was charged to any part counts in all of them.

A unit was in one of the old parts, so the loss of everything that was charged to these is at most the largest
total of any. That is added to what was charged to all parts, and the new parts begin with nothing of their
own. So it is as well where the owner says that units have moved from one part to another.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any

from dpsql.kernel.facts import Facts
from dpsql.kernel.ledger import events, part_totals
from dpsql.kernel.ledger.scopes import Caps
from dpsql.kernel.ledger.totals import Stored, group_scope, total_at_order, write_total
from dpsql.kernel.loss import Totals

_DECLARED, _TYPE, _FROM = "parts", "parts type", "parts from"
"""The names of settings: what parts are, the type of their column, the last entry before these."""


def adopt(connection: sqlite3.Connection, caps: Caps) -> None:
    """Adopt the parts that the policy declares, or that it declares none."""
    declared = "" if caps.parts is None else caps.parts.declared
    before = _value(connection, _DECLARED)
    if before == declared or (before is None and not declared):
        return
    if before:
        spend_in_all(connection, "the policy's parts are other ones")
    _set(connection, _DECLARED, declared)
    _set(connection, _TYPE, "")


def is_current(connection: sqlite3.Connection, caps: Caps, facts: Facts | None) -> bool:
    """Return whether parts are what a process takes them for, whose policy was read with these caps.

    Where the type of the column has changed, what was charged counts in all parts from now on.
    """
    if caps.parts is None or _value(connection, _DECLARED) != caps.parts.declared:
        return False
    if facts is None or facts.home is None:
        return True
    before = _value(connection, _TYPE)
    if before not in ("", None, facts.home.type):
        spend_in_all(connection, "the column of the parts has another type")
    if before != facts.home.type:
        _set(connection, _TYPE, facts.home.type)
    return True


def spend_in_all(connection: sqlite3.Connection, why: str) -> dict[str, Totals]:
    """Count the largest total of any part in all parts of each scope; return what was added to each."""
    number, added = events.newest(connection).n + 1, dict[str, Any]()
    found = dict[str, Totals]()
    (last,) = connection.execute("SELECT COALESCE(max(entry), 0) FROM entry").fetchone()
    names = part_totals.scopes_with_trees(connection)
    rows = {name: part_totals.row_of_tree(connection, name) for name in names}
    connection.execute(
        "DELETE FROM total WHERE name >= ? AND name < ?", (group_scope(""), group_scope("")[:-1] + "!")
    )
    for name, row in rows.items():
        part_totals.forget_tree(connection, name)
        if row is None or name.startswith(group_scope("")):  # it is added up again when it is needed
            continue
        most = Stored.read(row)
        if most.totals == Totals():
            continue
        before = total_at_order(connection, name, None)
        order = before.order if before.order is not None else most.order
        cost = most.totals.cost if order == most.order else most.totals.epsilon
        if cost is None:
            cost = most.totals.cost
        more = replace(most.totals, cost=cost)
        write_total(connection, name, Stored(before.totals + more, order))
        kept = Stored(more, order).row
        connection.execute(
            "INSERT INTO restored VALUES (?, ?, ?, ?, ?, ?, ?)", (number, name, *kept, kept[0])
        )
        added[name], found[name] = [*kept, kept[0]], more
    _set(connection, _FROM, str(last))
    content = {"why": why, "from": last, "added": added}
    events.append(connection, "parts", content, events.stored_totals(connection))
    return found


def _value(connection: sqlite3.Connection, name: str) -> str | None:
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def _set(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, value))
