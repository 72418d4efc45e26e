"""The prepared statements of a connection, by name."""

from __future__ import annotations

from datetime import datetime

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.catalog.facts import PreparedRow
from dpsql.serve.wire.errors import WireError
from dpsql.serve.wire.statement import Description, Statement

MOST_STATEMENTS = 1_000
MOST_TEXT = 4 << 20
"""Characters of all prepared statements of a connection together."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared statement; `statement` is None if its text is empty."""

    text: str
    statement: Statement | None
    description: Description
    made: datetime


class PreparedStatements(dict[str, Prepared]):
    """Prepared statements by name; the one without a name is replaced each time."""

    def check(self, name: str, text: str) -> None:
        """Raise if there is no room for another statement, or its name is taken."""
        if not name:
            self.pop("", None)
        elif name in self:
            raise WireError("42P05", f'there is already a prepared statement "{name}"')
        if len(self) >= MOST_STATEMENTS:
            raise WireError("54000", f"a connection has at most {MOST_STATEMENTS:,} prepared statements")
        if sum(len(one.text) for one in self.values()) + len(text) > MOST_TEXT:
            raise WireError("54000", "the prepared statements of the connection are too long together")

    def named(self, name: str) -> Prepared:
        """Return a prepared statement; raise if there is none."""
        if name not in self:
            raise WireError("26000", f'there is no prepared statement "{name}"')
        return self[name]

    def deallocate(self, name: str | None) -> None:
        """Forget a prepared statement, or all of them."""
        if name is None:
            self.clear()
        else:
            self.named(name)
            del self[name]

    def rows(self) -> tuple[PreparedRow, ...]:
        """Return what `pg_prepared_statements` shows: the statements with a name."""
        return tuple(PreparedRow(name, one.text, one.made) for name, one in self.items() if name)
