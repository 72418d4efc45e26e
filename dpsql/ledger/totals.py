"""The totals of the scopes: of the policy, and of each analyst."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from dpsql.ledger.amounts import DamagedError, read_charge, write_charge
from dpsql.privacy import Charge

POLICY: Final = "policy"
"""The scope of everything that is released to anybody."""


def scope(analyst: str) -> str:
    """Return the name of an analyst's own scope."""
    return f"analyst {analyst}"


def group_scope(group: str) -> str:
    """Return the name of a group's scope, for messages: its total is that of its members."""
    return f"group {group}"


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


def set_spent(connection: sqlite3.Connection, name: str, total: Charge) -> None:
    """Write the total of a scope."""
    connection.execute(
        "INSERT INTO scope (name, epsilon, delta) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET epsilon = excluded.epsilon, delta = excluded.delta",
        (name, *write_charge(total)),
    )
