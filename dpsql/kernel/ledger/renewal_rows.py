"""Names and rows of the open renewal of a budget, and what came before it (`renewals` has what they mean)."""

from __future__ import annotations

import json
import sqlite3
from typing import Final, NamedTuple

RENEWAL: Final = "renewal "
"""What stands before the name of the open renewal's scope, which has what was charged since its start."""

LIFETIME: Final = "lifetime"
"""What the policy's scope is called where its budget starts anew: everything that was ever released."""


class Last(NamedTuple):
    """The last entry, ladder and event before the start of a renewal."""

    entry: int = 0
    ladder: int = 0
    event: int = 0


def renewal_setting(connection: sqlite3.Connection) -> str | None:
    """Return what the ledger stores of renewals; None: the budget never started anew."""
    row = connection.execute("SELECT value FROM setting WHERE name = 'renewal'").fetchone()
    return None if row is None else str(row[0])


def find_last(connection: sqlite3.Connection) -> Last:
    """Return what came before the open renewal: it does not count in it."""
    text = renewal_setting(connection)
    return Last() if text is None else Last(*json.loads(text)["last"])


def renewal_total(connection: sqlite3.Connection, entry: int | None = None) -> str | None:
    """Return the scope of the open renewal, if an entry is charged to it; None: a new one."""
    row = connection.execute(
        "SELECT name FROM total WHERE name >= 'renewal ' AND name < 'renewal!'"
    ).fetchone()
    if row is None or (entry is not None and entry <= find_last(connection).entry):
        return None
    return str(row[0])
