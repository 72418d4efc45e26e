"""Converts Arrow columns to Python values, also where Python has no such value, and a value to text."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpsql.render.figures import number

if TYPE_CHECKING:
    import pyarrow as pa


def values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values, as text where Python has no such value (a date beyond year 9999)."""
    import pyarrow as pa

    try:
        found: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        found = _texts(column)
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in found]
    return found


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    import pyarrow as pa

    zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
    plain = column.cast(pa.timestamp(column.type.unit)) if zoned else column
    try:
        texts: list[str | None] = plain.cast(pa.string()).to_pylist()
    except (ValueError, pa.ArrowException):
        # Nested types have no cast: their scalars' own text is all there is.
        return [None if not scalar.is_valid else "(not shown)" for scalar in column]
    return [None if each is None else f"{each}+00" for each in texts] if zoned else texts


def text(value: object) -> str:
    """Write one value that is not NULL; the text "NULL" is quoted, to distinguish it from NULL."""
    if isinstance(value, str):
        return "'NULL'" if value == "NULL" else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        instant = value.utcoffset() == datetime.timedelta(0)
        return f"{value.replace(tzinfo=None).isoformat(' ')}+00" if instant else value.isoformat(" ")
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02X}" for byte in value)
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=text, ensure_ascii=False)
    return str(value)
