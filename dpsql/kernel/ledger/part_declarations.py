"""What parts of units are: where the policy changes that, what was charged to any part counts in all of them.

A unit was in one of the old parts, so the loss of everything that was charged to these is at most the largest
total of any. That is added to what was charged to all parts, and the new parts begin with nothing of their
own. So it is as well where the owner says that units have moved from one part to another. The cost is kept
at the order of the scope; at another one it is added up from the entries (`totals.find_restored_cost`).

What one person bears is added up by the old periods before these are forgotten; what is known as totals alone
is borne as often as a year can have the shortest periods that were ever declared.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpsql.kernel.facts import Facts
from dpsql.kernel.ledger import events, part_totals, person_totals
from dpsql.kernel.ledger.caps import Caps, numbered_values
from dpsql.kernel.ledger.totals import PERSON, Stored, group_scope, total_at_order, write_total
from dpsql.kernel.loss import Totals

_DECLARED, _TYPE, _FROM = "parts", "parts type", "parts from"
"""The names of settings: what parts are, the type of their column, the last entry before these."""


def adopt(connection: sqlite3.Connection, caps: Caps) -> None:
    """Adopt the parts that the policy declares, or that it declares none."""
    declared = "" if caps.parts is None else caps.parts.declared
    before = read_setting(connection, _DECLARED)
    if before == declared or (before is None and not declared):
        return
    if before:
        spend_in_all(connection, "the policy's parts are other ones")
    _set(connection, _DECLARED, declared)
    _set(connection, _TYPE, "")
    person_totals.note_length(connection, caps)


def is_current(connection: sqlite3.Connection, caps: Caps, facts: Facts | None) -> bool:
    """Return whether parts are what a process takes them for, whose policy was read with these caps.

    Where the type of the column has changed, what was charged counts in all parts from now on.
    """
    if caps.parts is None or read_setting(connection, _DECLARED) != caps.parts.declared:
        return False
    if facts is None or facts.home is None:
        return True
    if facts.home.values != numbered_values(connection, caps.parts.declared)[: len(facts.home.values)]:
        return False
    before = read_setting(connection, _TYPE)
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
    totals = {name: total_at_order(connection, name, None) for name in _list_scopes(connection)}
    largest = {
        name: part_totals.largest(connection, [(name, total.order)]).totals for name, total in totals.items()
    }
    connection.execute(
        "DELETE FROM total WHERE name >= ? AND name < ?", (group_scope(""), group_scope("")[:-1] + "!")
    )
    for name in part_totals.scopes_with_trees(connection):
        part_totals.forget_tree(connection, name)
    for name, before in totals.items():
        more = largest[name]
        if more == Totals():
            continue
        if before.order is None:
            more = replace(more, cost=Fraction(0))
        write_total(connection, name, Stored(before.totals + more, before.order))
        kept = [*Stored(more, before.order).row, None]
        connection.execute("INSERT INTO restored VALUES (?, ?, ?, ?, ?, ?, ?)", (number, name, *kept))
        added[name], found[name] = kept, more
    _set(connection, _FROM, str(last))
    content = {"why": why, "from": last, "added": added}
    events.append(connection, "parts", content, events.stored_totals(connection))
    return found


def _list_scopes(connection: sqlite3.Connection) -> list[str]:
    """Return the scopes with totals by parts, but for those of groups: these are added up when needed.

    What a person bears is one of them, kept or not.
    """
    names = part_totals.scopes_with_trees(connection)
    if PERSON not in names and connection.execute("SELECT 1 FROM periods LIMIT 1").fetchone():
        names.append(PERSON)
    return [name for name in names if not name.startswith(group_scope(""))]


def read_setting(connection: sqlite3.Connection, name: str) -> str | None:
    """Return the value stored under a name; None if there is none."""
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def _set(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, value))
