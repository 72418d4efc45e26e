"""Convert a column to the one Arrow type in which its type on the wire is encoded."""

from __future__ import annotations

import datetime
import json
import math
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa

from dpsql.errors import InternalError
from dpsql.serve.wire.types.oids import WireType, nested

DECIMALS = 6
"""Up to so many decimal places Arrow never writes a decimal with an exponent."""


def converted(values: pa.Array, kind: WireType) -> pa.Array:
    """Return the values in `kind.arrow`; decimals keep their scale, and lists become `pa.list_`."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    given = values.type
    if pa.types.is_null(given):
        return pa.nulls(len(values), kind.arrow)
    if kind.element is not None:
        return _lists(_split(values) if pa.types.is_string(given) else values, kind.element)
    if given == kind.arrow:
        return values
    if nested(given):
        texts = [
            None if v is None else json.dumps(_plain(v, given), ensure_ascii=False)
            for v in values.to_pylist()
        ]
        return pa.array(texts, pa.string())
    if pa.types.is_decimal(kind.arrow):
        return values.cast(pa.decimal128(20, 0)) if pa.types.is_integer(given) else values
    if kind.name == "uuid":
        return values.storage if isinstance(values, pa.ExtensionArray) else _uuids(values)
    if pa.types.is_time(given) or pa.types.is_timestamp(given):
        return _micros(values, kind.arrow)
    try:
        return values.cast(kind.arrow)
    except pa.ArrowInvalid:
        raise InternalError(f"a column has a value that type {kind.name} cannot hold") from None


def _lists(values: pa.Array, element: WireType) -> pa.Array:
    """Convert the elements of lists; a NULL list of a fixed size has elements, which are left out."""
    if pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    offsets = values.offsets.to_numpy().astype(np.int64)
    inner = converted(values.values.slice(offsets[0], offsets[-1] - offsets[0]), element)
    moved = pa.array(offsets - offsets[0], pa.int32())
    return pa.ListArray.from_arrays(moved, inner, mask=values.is_null() if values.null_count else None)


def _split(values: pa.Array) -> pa.Array:
    """Split the texts of a vector type, `1 2`, into numbers."""
    rows = [None if v is None else [int(part) for part in v.split()] for v in values.to_pylist()]
    return pa.array(rows, pa.list_(pa.int64()))


def _micros(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return times in microseconds; the rest of nanoseconds is left off."""
    unit = values.type.unit
    count = values.view(pa.int32() if pa.types.is_time32(values.type) else pa.int64()).cast(pa.int64())
    numbers = count.fill_null(0).to_numpy()
    scaled = numbers // 1000 if unit == "ns" else numbers * {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
    return pa.array(scaled, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False)).view(kind)


def _uuids(values: pa.Array) -> pa.Array:
    return pa.array([None if v is None else uuid.UUID(v).bytes for v in values.to_pylist()], pa.binary(16))


def _plain(value: object, kind: pa.DataType) -> object:
    """Return a value of a structure, map or nested list in the types that JSON has."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {name: _plain(part, kind.field(name).type) for name, part in value.items()}
        case list() if pa.types.is_map(kind):
            return {str(key): _plain(part, kind.item_type) for key, part in value}
        case list():
            return [_plain(part, kind.value_type) for part in value]
        case bytes():
            return value.hex()
        case Decimal():
            return format(value, "f")
        case datetime.datetime():
            return value.isoformat(" ")
        case _:
            return str(value)
