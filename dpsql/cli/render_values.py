"""A column's values as Python's, also those that Python cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["values"]


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

    try:
        texts: list[str | None] = column.cast(pa.string()).to_pylist()
    except (ValueError, pa.ArrowException):
        # Nested types have no cast: their scalars' own text is all there is.
        return [None if not scalar.is_valid else "(not shown)" for scalar in column]
    return texts
