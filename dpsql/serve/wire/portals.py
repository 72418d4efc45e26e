"""What a connection keeps by name: prepared statements, portals and cursors.

Prepared statements and portals: their decoded bytes are counted in the connection's account.

Cursors: they are finished results that are read forward. The statement of a cursor is answered, and charged,
at DECLARE; FETCH and MOVE read the result that is there. ROLLBACK TO a savepoint closes none.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import ClassVar, TypeVar

import pyarrow as pa

from dpsql.errors import ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.serve.answers import AnswerColumn
from dpsql.serve.catalog import CursorRow, PreparedRow
from dpsql.serve.limits import COLUMN, MOST_COLUMNS, CodedError, MemoryAccount, size_of
from dpsql.serve.wire.command_words import Declare, Fetch
from dpsql.serve.wire.messages import WireError
from dpsql.serve.wire.results import Description, ResultRows, SentStatement, WireResult

MOST_HELD = 64 << 20
"""Bytes of the results of all portals of a connection together that have rows to send."""


_One = TypeVar("_One", "Prepared", "Portal")


class KeptByName(MutableMapping[str, _One]):
    """Things by name; raises `LimitExceeded`, and keeps nothing new, where the account has no room."""

    what: ClassVar[str]
    most: ClassVar[int]
    most_bytes: ClassVar[int]
    """Bytes of all of them together, as they are decoded."""
    too_long: ClassVar[str]
    """What is said where they would be more."""
    taken: ClassVar[str]
    missing: ClassVar[str]
    """The SQLSTATEs of a name that is taken, and of one that nothing has."""

    def __init__(self, account: MemoryAccount | None = None) -> None:
        self._account = account or MemoryAccount()
        self._found: dict[str, tuple[_One, int]] = {}
        self.size = 0
        """The bytes of all of them."""

    def check_room(self, size: int) -> None:
        """Raise if there is no room for a given number of bytes more."""
        if self.size + size > self.most_bytes:
            raise WireError(self.too_long, "54000")

    def check_name(self, name: str) -> None:
        """Raise if the name is taken or there are too many; forget what has no name."""
        if not name:
            self.pop("", None)
        elif name in self:
            raise WireError(f'there is already a {self.what} "{name}"', self.taken)
        if len(self) >= self.most:
            raise WireError(f"a connection has at most {self.most:,} {self.what}s", "54000")

    def find(self, name: str) -> _One:
        """Return the statement or portal that is kept under a name; raise `WireError` if there is none."""
        if name not in self:
            raise WireError(f'there is no {self.what} "{name}"', self.missing)
        return self[name]

    def __getitem__(self, name: str) -> _One:
        return self._found[name][0]

    def __setitem__(self, name: str, one: _One) -> None:
        self.pop(name, None)
        size = one.size + size_of(name)
        self._account.take(size)
        self._found[name] = one, size
        self.size += size

    def __delitem__(self, name: str) -> None:
        _, size = self._found.pop(name)
        self._account.give(size)
        self.size -= size

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@dataclass(slots=True)
class Prepared:
    """A prepared statement; `statement` is None if its text is empty."""

    text: str
    statement: SentStatement | None
    description: Description
    made: datetime
    form: object = None
    """What the columns depended on when they were described last (`WireSession.form`)."""

    @property
    def size(self) -> int:
        """Bytes that the statement and its description take."""
        described = self.description
        names = sum(size_of(column.name) for column in described.columns)
        # The statement without its blanks is another copy of the text.
        return 2 * size_of(self.text) + names + COLUMN * (len(described.columns) + len(described.parameters))


class PreparedStatements(KeptByName[Prepared]):
    """Prepared statements by name; the one without a name is replaced each time."""

    what, most, most_bytes = "prepared statement", 1_000, 4 << 20
    too_long = "the prepared statements of the connection are too long together"
    taken, missing = "42P05", "26000"

    def check(self, name: str, text: str) -> None:
        """Raise if there is no room for another statement, or its name is taken."""
        self.check_name(name)
        self.check_room(2 * size_of(text) + size_of(name))

    def keep(self, name: str, one: Prepared) -> None:
        """Take in a statement that `check` had room for, if there is room for its description, too."""
        if len(one.description.columns) > MOST_COLUMNS:
            raise WireError(f"a prepared statement has at most {MOST_COLUMNS:,} columns", "54011")
        self.check_room(one.size + size_of(name))
        self[name] = one

    def deallocate(self, name: str | None) -> None:
        """Forget a prepared statement, or all of them."""
        if name is None:
            self.clear()
        else:
            self.find(name)
            del self[name]

    def rows(self) -> tuple[PreparedRow, ...]:
        """Return what `pg_prepared_statements` shows: the statements with a name."""
        return tuple(PreparedRow(name, one.text, one.made) for name, one in self.items() if name)


@dataclass(slots=True)
class Portal:
    """A statement with its parameters, which is run once and gives its rows in parts."""

    prepared: Prepared
    parameters: tuple[object, ...]
    size: int
    """Bytes of the parameters, as they are decoded."""
    codes: tuple[int, ...]
    """The formats of the columns as the client gave them: none, one for all, or one each."""
    result: WireResult | None = None
    """What it gave; without a table when all rows were sent."""
    rows: ResultRows | None = None
    """The rows, while some are left."""


class Portals(KeptByName[Portal]):
    """Portals by name; the one without a name is replaced each time."""

    what, most, most_bytes = "portal", 100, 8 << 20
    too_long = "the parameters of the portals are too long together"
    taken, missing = "42P03", "34000"

    def check(self, name: str, size: int) -> None:
        """Raise if there is no room for another portal with parameters of this size, or its name is taken."""
        self.check_name(name)
        self.check_room(size)

    def keep(self, name: str, portal: Portal) -> None:
        """Take in a portal that `check` had room for, if there is room for its decoded parameters."""
        self.check_room(portal.size)
        self[name] = portal

    @property
    def held_bytes(self) -> int:
        """Bytes of the results that have rows to send."""
        if not self._found:  # asked of all connections at each statement
            return 0
        tables = (portal.result.table for portal in self.values() if portal.result is not None)
        return sum(table.nbytes for table in tables if table is not None)

    def check_held(self, name: str) -> None:
        """Raise if the portals hold too many rows, and let go of those of the one that was read last."""
        if self.held_bytes > MOST_HELD:
            del self[name]
            raise WireError(
                "the portals of the connection hold too many rows", "54000", "read or close the others first"
            )


MAX_CURSORS = 100
MAX_BYTES = 64 * 2**20
"""Cursors of one connection, and the most that their results may take."""


class CursorError(CodedError, ProgrammingError):
    """A cursor cannot be declared or read.

    Its SQLSTATE is `34000` for no such cursor, `42P03` for a name that is taken, `25P01` outside a
    transaction, `54000` for too many.
    """


@dataclass(slots=True)
class _Cursor:
    """A cursor of a session: its query, and how far its rows were fetched."""

    command: Declare
    columns: tuple[AnswerColumn, ...]
    table: pa.Table
    uncommitted: bool
    """Whether the transaction that declared it is still open."""
    position: int = 0
    """How many rows were read."""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    def read(self, count: int | None) -> pa.Table:
        """Return the next rows, all that are left if `count` is None."""
        found = self.table.slice(self.position, count)
        self.position += found.num_rows
        return found


class Cursors:
    """The cursors of one connection."""

    def __init__(self, most: int = MAX_CURSORS, most_bytes: int = MAX_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._open: dict[str, _Cursor] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of the results of all open cursors."""
        return sum(cursor.table.nbytes for cursor in self._open.values()) if self._open else 0

    def check(self, command: Declare, *, in_transaction: bool) -> None:
        """Raise if a cursor cannot be declared; to be asked before its statement is charged."""
        if not (in_transaction or command.hold):
            raise CursorError(
                "DECLARE CURSOR can only be used in transaction blocks",
                "25P01",
                "begin a transaction, or declare the cursor WITH HOLD",
            )
        if command.name in self._open:
            raise CursorError(
                f'cursor "{command.name}" already exists', "42P03", "close it, or choose a name"
            )
        if len(self._open) >= self._most or self.held_bytes > self._most_bytes:
            raise CursorError("too many cursors are open", "54000", "close those that are read")

    def declare(
        self, command: Declare, columns: Sequence[AnswerColumn], table: pa.Table, *, in_transaction: bool
    ) -> None:
        """Open a cursor over the answer of its statement."""
        self.check(command, in_transaction=in_transaction)
        self._open[command.name] = _Cursor(command, tuple(columns), table, in_transaction)

    def fetch(self, command: Fetch) -> WireResult:
        """Read rows, or move without reading."""
        cursor = self._cursor(command.name)
        rows = cursor.read(command.count)
        if command.move:
            return WireResult(f"MOVE {rows.num_rows}")
        return WireResult(f"FETCH {rows.num_rows}", cursor.columns, rows, binary=cursor.command.binary)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def is_binary(self, name: str) -> bool:
        """Return whether FETCH answers in binary, whatever format is asked for."""
        return self._cursor(name).command.binary

    def columns(self, name: str) -> tuple[AnswerColumn, ...]:
        """Return the columns that FETCH answers."""
        return self._cursor(name).columns

    def close(self, name: str | None) -> None:
        """Close the cursor of a name, or all if it is None."""
        if name is None:
            self._open.clear()
        else:
            self._cursor(name)
            del self._open[name]

    def end_transaction(self, *, committed: bool) -> None:
        """Close the cursors without HOLD, and after a rollback also those that the transaction declared."""
        for name, cursor in list(self._open.items()):
            if not cursor.command.hold or (cursor.uncommitted and not committed):
                del self._open[name]
            cursor.uncommitted = False

    def rows(self) -> tuple[CursorRow, ...]:
        """Return the rows that the view `pg_cursors` shows of the session's cursors."""
        return tuple(
            CursorRow(
                cursor.command.name,
                cursor.command.text,
                cursor.command.hold,
                cursor.command.binary,
                created=cursor.created,
            )
            for cursor in self._open.values()
        )

    def _cursor(self, name: str) -> _Cursor:
        found = self._open.get(name)
        if found is None:
            raise CursorError(f'cursor "{name}" does not exist', "34000")
        return found
