"""Cursors: finished results that are read forward.

The statement of a cursor is answered, and charged, at DECLARE; FETCH and MOVE read the result that is there.
ROLLBACK TO a savepoint closes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import UTC, datetime

import pyarrow as pa

from dpsql.errors import ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.serve.answer import AnswerColumn
from dpsql.serve.catalog.facts import CursorRow
from dpsql.serve.errors import CodedError
from dpsql.serve.wire.command_types import Declare, Fetch
from dpsql.serve.wire.statement import Result

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
    """One cursor."""

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
        self, command: Declare, columns: Sequence[AnswerColumn], table: pa.Table, *, in_transaction: bool
    ) -> None:
        """Open a cursor over the answer of its statement."""
        self.check(command, in_transaction=in_transaction)
        self._open[command.name] = _Cursor(command, tuple(columns), table, in_transaction)

    def fetch(self, command: Fetch) -> Result:
        """Read rows, or move without reading."""
        cursor = self._cursor(command.name)
        rows = cursor.read(command.count)
        if command.move:
            return Result(f"MOVE {rows.num_rows}")
        return Result(f"FETCH {rows.num_rows}", cursor.columns, rows, binary=cursor.command.binary)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def binary(self, name: str) -> bool:
        """Return whether FETCH answers in binary, whatever format is asked for."""
        return self._cursor(name).command.binary

    def columns(self, name: str) -> tuple[AnswerColumn, ...]:
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
                created=cursor.created,
            )
            for cursor in self._open.values()
        )

    def _cursor(self, name: str) -> _Cursor:
        found = self._open.get(name)
        if found is None:
            raise CursorError(f'cursor "{name}" does not exist', "34000")
        return found
