"""The rows of a result, and PEP 249's types: codes of columns, type objects, constructors of values."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ResultColumn = tuple[str, str, None, None, int | None, int | None, None]
"""name, type_code, display_size, internal_size, precision, scale, null_ok."""


class TypeObject:
    """A family of SQL types: equal to every type code of the family, and to itself.

    >>> STRING == "VARCHAR", NUMBER == "VARCHAR", "DOUBLE" == NUMBER
    (True, False, True)
    """

    def __init__(self, name: str, codes: frozenset[str]) -> None:
        self.name = name
        self.codes = codes

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.codes == other.codes and self.name == other.name
        return isinstance(other, str) and other in self.codes

    # Equal to several unequal codes, so no hash could agree with them all.
    __hash__ = None  # type: ignore[assignment]  # the way Python spells "unhashable"

    def __repr__(self) -> str:
        return self.name


STRING = TypeObject("STRING", frozenset({"VARCHAR", "ENUM", "UUID", "JSON"}))
"""The type object of texts, and of types whose values are texts."""
BINARY = TypeObject("BINARY", frozenset({"BLOB"}))
"""The type object of binary values."""
NUMBER = TypeObject(
    "NUMBER",
    frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"})
    | {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL"},
)
"""The type object of numbers and truth values."""
DATETIME = TypeObject(
    "DATETIME", frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL"})
)
"""The type object of dates, times and intervals."""
ROWID = TypeObject("ROWID", frozenset())
"""dpsql shows no row ids: no column has this type."""

_NAMES = {
    "null": "NULL",
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "halffloat": "FLOAT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "string_view": "VARCHAR",
    "binary": "BLOB",
    "large_binary": "BLOB",
    "binary_view": "BLOB",
    "month_day_nano_interval": "INTERVAL",
}


def describe(schema: pa.Schema) -> tuple[ResultColumn, ...]:
    """Return the columns of a result as PEP 249 defines them: seven fields each, unknown ones None."""
    return tuple((field.name, *_code(field.type), None) for field in schema)


def _code(kind: pa.DataType) -> tuple[str, None, None, int | None, int | None]:
    import pyarrow as pa  # noqa: PLC0415  loaded by the time there is a result, never by `import dpsql`

    types = pa.types
    precision: int | None = None
    scale: int | None = None
    if types.is_decimal(kind):
        # 38 digits without a fraction is how the engine hands out HUGEINT.
        name = "HUGEINT" if (kind.precision, kind.scale) == (38, 0) else "DECIMAL"
        precision, scale = kind.precision, kind.scale
    elif types.is_dictionary(kind):
        name = "ENUM"
    elif types.is_timestamp(kind):
        name = "TIMESTAMP WITH TIME ZONE" if kind.tz else "TIMESTAMP"
    elif types.is_date(kind):
        name = "DATE"
    elif types.is_time(kind):
        name = "TIME"
    elif types.is_struct(kind):
        name = "STRUCT"
    elif types.is_map(kind):
        name = "MAP"
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        name = "LIST"
    elif isinstance(kind, pa.UuidType):
        name = "UUID"
    else:
        name = _NAMES.get(str(kind), str(kind).upper())
    return name, None, None, precision, scale


Date = date
"""Make a date from a year, a month and a day."""
Time = time
"""Make a time of day from hours, minutes and seconds."""
Timestamp = datetime
"""Make a timestamp from a year, a month, a day, hours, minutes and seconds."""
Binary = bytes
"""Make a binary value from bytes or integers."""


def DateFromTicks(ticks: float) -> date:  # noqa: N802  PEP 249 fixes the name
    """Make a date from seconds since the epoch, in local time."""
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:  # noqa: N802  PEP 249 fixes the name
    """Make a time of day from seconds since the epoch, in local time."""
    return datetime.fromtimestamp(ticks).time()  # PEP 249: local and naive, as time.localtime gives it


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802  PEP 249 fixes the name
    """Make a timestamp from seconds since the epoch, in local time."""
    return datetime.fromtimestamp(ticks)


Row = tuple[Any, ...]

_AHEAD = 256
"""How many rows are converted together when they are fetched one at a time."""


class ResultRows:
    """A result and the position up to which it was read. Reading never runs the statement again."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.position = 0
        self._ahead: list[Row] = []
        """Rows from `position` on that are converted already, the next one last."""

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
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

    from dpsql.render.column_values import python_values  # noqa: PLC0415  as late as pyarrow

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
