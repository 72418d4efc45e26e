"""Encode whole columns in PostgreSQL's text format."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from dpsql.serve.wire.types.convert import DECIMALS, converted
from dpsql.serve.wire.types.datetimes import date_texts, interval_texts, time_texts, timestamp_texts
from dpsql.serve.wire.types.floats import float_texts
from dpsql.serve.wire.types.oids import VECTORS, WireType

_QUOTED = frozenset('"\\{}, \t\n\r\v\f')
"""Characters for which an array's element is quoted."""


def text_cells(values: pa.Array, kind: WireType, extra_float_digits: int = 1) -> pa.Array:
    """Return each value's text as UTF-8, NULL for NULL, as an array of `pa.binary()`."""
    return _texts(converted(values, kind), kind, extra_float_digits).view(pa.binary())


def _texts(values: pa.Array, kind: WireType, extra_float_digits: int) -> pa.Array:
    """Return the texts of values that are in the type's own Arrow type."""
    if kind.element is not None:
        inner = _texts(values.values, kind.element, extra_float_digits).to_pylist()
        return _arrays(values, inner, vector=kind.oid in VECTORS)
    if kind.name in ("float4", "float8"):
        return float_texts(values, extra_float_digits)
    known = _WRITERS.get(kind.name)
    if known is not None:
        return known(values)
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def _booleans(values: pa.Array) -> pa.Array:
    return pc.if_else(values, "t", "f")


def _decimals(values: pa.Array) -> pa.Array:
    if 0 <= values.type.scale <= DECIMALS:
        return values.cast(pa.string())
    return pa.array([None if v is None else format(v, "f") for v in values.to_pylist()], pa.string())


def _bytes(values: pa.Array) -> pa.Array:
    return pa.array([None if v is None else f"\\x{v.hex()}" for v in values.to_pylist()], pa.string())


def _uuids(values: pa.Array) -> pa.Array:
    return pa.array([None if v is None else str(uuid.UUID(bytes=v)) for v in values.to_pylist()], pa.string())


_WRITERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "bool": _booleans,
    "numeric": _decimals,
    "bytea": _bytes,
    "uuid": _uuids,
    "date": date_texts,
    "time": time_texts,
    "timestamp": timestamp_texts,
    "timestamptz": timestamp_texts,
    "interval": interval_texts,
}


def _arrays(values: pa.ListArray, inner: list[str | None], *, vector: bool) -> pa.Array:
    """Join the texts of all elements to lists: `{a,b}`, or `a b` for the two vector types."""
    offsets = values.offsets.to_pylist()
    parts = [text or "" for text in inner] if vector else [_element(text) for text in inner]
    glue, begin, end = (" ", "", "") if vector else (",", "{", "}")
    found = [
        begin + glue.join(parts[offsets[i] : offsets[i + 1]]) + end if valid else None
        for i, valid in enumerate(values.is_valid().to_pylist())
    ]
    return pa.array(found, pa.string())


def _element(text: str | None) -> str:
    r"""Write one element of an array, in quotes where it could be read otherwise.

    >>> [_element(text) for text in ("a", "", "null", 'say "hi"', None)]
    ['a', '""', '"null"', '"say \\"hi\\""', 'NULL']
    """
    if text is None:
        return "NULL"
    if text and text.upper() != "NULL" and _QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
