"""The prepared statements of a connection, by name."""

from __future__ import annotations

from datetime import datetime

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.catalog.facts import PreparedRow
from dpsql.serve.limits import COLUMN, MOST_COLUMNS, size_of
from dpsql.serve.wire.errors import WireError
from dpsql.serve.wire.kept import Kept
from dpsql.serve.wire.statement import Description, Statement

MOST_STATEMENTS = 1_000


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared statement; `statement` is None if its text is empty."""

    text: str
    statement: Statement | None
    description: Description
    made: datetime

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        described = self.description
        names = sum(size_of(column.name) for column in described.columns)
        # The statement without its blanks is another copy of the text.
        return 2 * size_of(self.text) + names + COLUMN * (len(described.columns) + len(described.parameters))


class PreparedStatements(Kept[Prepared]):
    """Prepared statements by name; the one without a name is replaced each time."""

    most = 4 << 20
    """Bytes of all of them together: texts, names, and descriptions of columns."""
    too_long = "the prepared statements of the connection are too long together"

    def check(self, name: str, text: str) -> None:
        """Raise if there is no room for another statement, or its name is taken."""
        if not name:
            self.pop("", None)
        elif name in self:
            raise WireError("42P05", f'there is already a prepared statement "{name}"')
        if len(self) >= MOST_STATEMENTS:
            raise WireError("54000", f"a connection has at most {MOST_STATEMENTS:,} prepared statements")
        self.check_room(2 * size_of(text) + size_of(name))

    def keep(self, name: str, one: Prepared) -> None:
        """Take in a statement that `check` had room for, if there is room for its description, too."""
        if len(one.description.columns) > MOST_COLUMNS:
            raise WireError("54011", f"a prepared statement has at most {MOST_COLUMNS:,} columns")
        self.check_room(one.size + size_of(name))
        self[name] = one

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
