"""How units are divided into parts, and the numbers of listed values: none is ever given to two values.

All numbers without a value are one part, *outside*, which is charged for all of them. So the part of a value
that is listed later begins with what was charged to the units that have it, when they were *outside*. A value
that is listed no more keeps its number and its part.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from dpsql.errors import InternalError
from dpsql.kernel.ledger import events
from dpsql.kernel.unit_parts import Calendar, ListedValues, Numbering, PartSet, WholeNumbers
from dpsql.lazy_dataclass import dataclass

_VALUES = "parts values "
"""What stands before a declaration of parts, in the name of the setting with its values."""

MOST_VALUES = 10_000
"""So many values have a number; all others are *outside*."""


@dataclass(frozen=True, slots=True)
class PartBudgets:
    """The budgets of the parts of a kind of units: what was asked of one part is not spent in another one."""

    kind: str
    periods_as: Calendar | None
    """How periods are numbered; None: each value of a column is a part."""
    declared: str
    """What the policy declares, as text: where it changes, parts are other ones."""
    periods: bool = False
    """Whether a unit is what one did in one period, which is its part."""
    column: str = ""
    """The column whose values are the parts, if they are no periods."""

    @property
    def calendar(self) -> Calendar:
        """How periods are numbered, which parts are."""
        if self.periods_as is None:
            raise InternalError("parts are no periods")
        return self.periods_as

    def number_in(self, connection: sqlite3.Connection) -> Numbering:
        """Return how parts are numbered: listed values as the ledger has them, else whole numbers."""
        if self.periods_as is not None:
            return self.periods_as
        listed = numbered_values(connection, self.declared)
        whole = all(type(value) is int for value, _ in listed)  # older ledgers have numbers of them
        return WholeNumbers() if whole else ListedValues(listed)

    def words(self, connection: sqlite3.Connection, parts: PartSet) -> str:
        """Name parts, with the period or the column before them: `week 2026-W48`."""
        named = self.number_in(connection).words(parts)
        if self.periods_as is None:
            return f"{self.column} {named}"
        return f"{self.periods_as.every} {named}" if named[:1].isdigit() else named


def numbered_values(connection: sqlite3.Connection, declared: str) -> tuple[tuple[str | bool, int], ...]:
    """Return the values with a number: all that were ever listed while the declaration was this one."""
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (_VALUES + declared,)).fetchone()
    listed = json.loads(row[0]) if row else []
    return tuple((value, number) for number, value in enumerate(listed))


def number_values(connection: sqlite3.Connection, declared: str, values: Iterable[str | bool]) -> None:
    """Give numbers to the values that have none."""
    before = [value for value, _ in numbered_values(connection, declared)]
    listed = list(dict.fromkeys((*before, *values)))[:MOST_VALUES]
    if listed != before:
        row = _VALUES + declared, events.canonical(listed)
        connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", row)
