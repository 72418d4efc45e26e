"""A result while it is fetched: Arrow data, converted to Python tuples only for the fetched rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.dbapi.typecodes import Column, describe
from dpsql.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


Row = tuple[Any, ...]

_AHEAD = 256
"""How many rows are converted together when they are fetched one at a time."""


class Rows:
    """A result and the position up to which it was read. Reading never runs the statement again."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.position = 0
        self._ahead: list[Row] = []
        """Rows from `position` on that are converted already, the next one last."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The result's columns in PEP 249's form."""
        return describe(self.table.schema)

    @property
    def count(self) -> int:
        """Number of rows in all, fetched or not."""
        return int(self.table.num_rows)

    def one(self) -> Row | None:
        """Return the next row, None at the end."""
        if not self._ahead:
            if self.position >= self.count:
                return None
            self._ahead = self._convert(self.position, _AHEAD)[::-1]
        self.position += 1
        return self._ahead.pop()

    def many(self, size: int) -> list[Row]:
        """Return up to `size` rows."""
        self._ahead.clear()
        rows = self._convert(self.position, size)
        self.position += len(rows)
        return rows

    def rest(self) -> pa.Table:
        """Return what was not fetched yet, as Arrow, and count it as fetched."""
        self._ahead.clear()
        table = self.table.slice(self.position)
        self.position = self.count
        return table

    def _convert(self, start: int, size: int) -> list[Row]:
        part = self.table.slice(start, size)
        try:
            return list(zip(*(_values(column) for column in part.columns), strict=True))
        except (ValueError, OverflowError, UnicodeDecodeError):
            # The converter's message quotes the value.
            raise DataError(
                "a value of this result has no Python form (a date beyond year 9999, say); "
                "use fetch_arrow_table() or cast it to VARCHAR"
            ) from None


def _values(column: pa.ChunkedArray) -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415  loaded by the time there is a result, never by `import dpsql`

    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(column.type) and (column.type.precision, column.type.scale) == (38, 0):
        # HUGEINT, which Python has as int.
        return [None if value is None else int(value) for value in values]
    return values
