"""Cursors: finished results with a position.

The statement of a cursor is answered, and charged, at DECLARE; FETCH and MOVE read the result that is there.
So every cursor can be read backward too, unless it says NO SCROLL. ROLLBACK TO a savepoint closes none.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import pyarrow as pa

from dpsql.errors import ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.serve.catalog.facts import CursorRow
from dpsql.serve.errors import CodedError
from dpsql.serve.wire.command_types import Declare, Fetch
from dpsql.serve.wire.types.rows import Column

MAX_CURSORS = 100
MAX_BYTES = 64 * 2**20
"""Cursors of one connection, and the most that their results may take."""


class CursorError(CodedError, ProgrammingError):
    """A cursor cannot be declared or read.

    Its SQLSTATE is `34000` for no such cursor, `42P03` for a name that is taken, `25P01` outside a
    transaction, `54000` for too many, `55000` for reading backward.
    """


@dataclass(frozen=True, slots=True)
class Fetched:
    """What FETCH or MOVE answers: `table` has the rows in their order, none for MOVE."""

    columns: tuple[Column, ...]
    table: pa.Table
    binary: bool
    tag: str


class _Cursor:
    """One cursor. `position` is the number of the current row, 0 before the first."""

    def __init__(
        self, command: Declare, columns: Sequence[Column], table: pa.Table, *, in_transaction: bool
    ) -> None:
        self.command = command
        self.columns = tuple(columns)
        self.table = table
        self.position = 0
        self.uncommitted = in_transaction
        self.created = datetime.datetime.now(datetime.UTC)

    def read(self, fetch: Fetch) -> range:
        """Move the position; return the numbers of the rows that are read."""
        count, last = fetch.count, self.table.num_rows
        if fetch.direction in ("ABSOLUTE", "RELATIVE"):
            wanted = count or 0
            if fetch.direction == "RELATIVE":
                wanted += self.position
            elif wanted < 0:
                wanted += last + 1
            return self._at(wanted)
        if count == 0:
            return self._at(self.position)
        if fetch.direction == "FORWARD":
            end = last + 1 if count is None else self.position + count
            found = range(self.position + 1, min(end, last) + 1)
            self.position = min(end, last + 1)
            return found
        end = 0 if count is None else self.position - count
        found = range(self.position - 1, max(end, 1) - 1, -1)
        self.position = max(end, 0)
        return found

    def _at(self, row: int) -> range:
        """Move to a row and read it; there is none before the first and behind the last."""
        self.position = max(0, min(row, self.table.num_rows + 1))
        found = 1 <= self.position <= self.table.num_rows
        return range(self.position, self.position + found)


class Cursors:
    """The cursors of one connection."""

    def __init__(self, most: int = MAX_CURSORS, most_bytes: int = MAX_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._open: dict[str, _Cursor] = {}

    @property
    def held(self) -> int:
        """Bytes of the results of all open cursors."""
        return sum(cursor.table.nbytes for cursor in self._open.values())

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
        if len(self._open) >= self._most or self.held > self._most_bytes:
            raise CursorError("too many cursors are open", "54000", "close those that are read")

    def declare(
        self, command: Declare, columns: Sequence[Column], table: pa.Table, *, in_transaction: bool
    ) -> None:
        """Open a cursor over the answer of its statement."""
        self.check(command, in_transaction=in_transaction)
        self._open[command.name] = _Cursor(command, columns, table, in_transaction=in_transaction)

    def fetch(self, command: Fetch) -> Fetched:
        """Read rows, or move without reading."""
        cursor = self._cursor(command.name)
        forward = command.direction == "FORWARD" and command.count != 0
        if cursor.command.scroll is False and not forward:
            raise CursorError("cursor can only scan forward", "55000", "declare it with SCROLL")
        rows = cursor.read(command)
        tag = f"{'MOVE' if command.move else 'FETCH'} {len(rows)}"
        if command.move:
            return Fetched(cursor.columns, cursor.table.slice(0, 0), cursor.command.binary, tag)
        if rows.step == 1:
            found = cursor.table.slice(rows.start - 1 if rows else 0, len(rows))
        else:
            found = cursor.table.take(pa.array([row - 1 for row in rows], pa.int64()))
        return Fetched(cursor.columns, found, cursor.command.binary, tag)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def binary(self, name: str) -> bool:
        """Return whether FETCH answers in binary, whatever format is asked for."""
        return self._cursor(name).command.binary

    def columns(self, name: str) -> tuple[Column, ...]:
        """Return the columns that FETCH answers."""
        return self._cursor(name).columns

    def close(self, name: str | None) -> None:
        """Close a cursor, or all."""
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
        """Return what `pg_cursors` shows."""
        return tuple(
            CursorRow(
                cursor.command.name,
                cursor.command.text,
                cursor.command.hold,
                cursor.command.binary,
                cursor.command.scroll is not False,
                cursor.created,
            )
            for cursor in self._open.values()
        )

    def _cursor(self, name: str) -> _Cursor:
        found = self._open.get(name)
        if found is None:
            raise CursorError(f'cursor "{name}" does not exist', "34000")
        return found
