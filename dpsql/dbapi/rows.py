"""A result while it is fetched: Arrow data, converted to Python tuples only for the fetched rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.dbapi.typecodes import Column, describe

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
        return list(zip(*(_values(column) for column in part.columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; what Python has not comes as text: nothing fails once it is paid for."""
    import pyarrow as pa  # noqa: PLC0415  loaded by the time there is a result, never by `import dpsql`

    from dpsql.render.values import python_values  # noqa: PLC0415  as late as pyarrow

    values = python_values(column)
    if pa.types.is_decimal(column.type) and (column.type.precision, column.type.scale) == (38, 0):
        # HUGEINT, which Python has as int.
        return [None if value is None else int(value) for value in values]
    return values


def data_frame(table: pa.Table) -> Any:  # noqa: ANN401  pandas has no types
    """Return a table as a pandas DataFrame; a column with values that Python has not is one of objects."""
    import pyarrow as pa  # noqa: PLC0415  as above

    failures = (ValueError, OverflowError, pa.ArrowException)
    if not any(map(_infinite, table.columns)):
        try:
            return table.to_pandas()
        except failures:
            pass
    series: dict[int, list[Any]] = {}
    for place, column in enumerate(table.columns):
        try:
            known = not _infinite(column)
            table.select([place]).to_pandas()
        except failures:
            known = False
        if not known:
            series[place] = _values(column)
            table = table.set_column(place, table.field(place).name, pa.nulls(table.num_rows, pa.string()))
    frame = table.to_pandas()
    for place, found in series.items():
        kind = type(frame.iloc[:, place])
        frame.isetitem(place, kind(found, index=frame.index, dtype=object))
    return frame


def _infinite(column: pa.ChunkedArray) -> bool:
    """Return whether a column of timestamps has an infinite one, which pandas would show as a moment."""
    import pyarrow as pa  # noqa: PLC0415  as above
    import pyarrow.compute as pc  # noqa: PLC0415  as above

    if not pa.types.is_timestamp(column.type):
        return False
    ends = pc.min_max(column.cast(pa.int64())).as_py()
    return any(end is not None and abs(end) >= 2**63 - 1 for end in ends.values())
