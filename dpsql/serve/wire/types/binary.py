"""Encode whole columns in PostgreSQL's binary format."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.serve.wire.types.convert import converted
from dpsql.serve.wire.types.datetimes import (
    DAY,
    EPOCH_DAYS,
    INFINITE_DAYS,
    INFINITE_MOMENT,
    micros_of,
    whole,
)
from dpsql.serve.wire.types.numerics import numeric_bytes
from dpsql.serve.wire.types.oids import VECTORS, WireType


def binary_cells(values: pa.Array, kind: WireType) -> pa.Array:
    """Return each value's binary form, NULL for NULL, as an array of `pa.binary()`."""
    return _cells(converted(values, kind), kind)


def _cells(values: pa.Array, kind: WireType) -> pa.Array:
    """Return the binary forms of values that are in the type's own Arrow type."""
    if kind.element is not None:
        return _arrays(values, kind.element, vector=kind.oid in VECTORS)
    known = _WRITERS.get(kind.name)
    if known is not None:
        return known(values)
    if kind.length in (2, 4, 8):
        return _numbers(values)
    return values.view(pa.binary()) if pa.types.is_string(values.type) else values.cast(pa.binary())


def _fixed(numbers: NDArray[Any], like: pa.Array) -> pa.Array:
    """Return the bytes of big-endian numbers, NULL where `like` is NULL."""
    width = numbers.dtype.itemsize
    cells = pa.Array.from_buffers(
        pa.binary(width), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    ).cast(pa.binary())
    return pa.compute.if_else(like.is_valid(), cells, None) if like.null_count else cells


def _numbers(values: pa.Array) -> pa.Array:
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    return _fixed(numbers.astype(numbers.dtype.newbyteorder(">")), values)


def _booleans(values: pa.Array) -> pa.Array:
    return _fixed(values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8), values)


def _dates(values: pa.Array) -> pa.Array:
    days = whole(values, pa.int32())
    # -infinity is PostgreSQL's least number, and DuckDB's least but one.
    moved = np.select(
        [days == INFINITE_DAYS, days == -INFINITE_DAYS],
        [INFINITE_DAYS, -INFINITE_DAYS - 1],
        days - EPOCH_DAYS,
    )
    return _fixed(moved.astype(">i4"), values)


def _timestamps(values: pa.Array) -> pa.Array:
    moments = whole(values, pa.int64())
    finite = np.abs(moments) != INFINITE_MOMENT
    moved = np.where(finite, moments, 0) - EPOCH_DAYS * DAY
    least = np.where(moments > 0, INFINITE_MOMENT, -INFINITE_MOMENT - 1)
    return _fixed(np.where(finite, moved, least).astype(">i8"), values)


def _times(values: pa.Array) -> pa.Array:
    return _fixed(whole(values, pa.int64()).astype(">i8"), values)


def _intervals(values: pa.Array) -> pa.Array:
    return pa.array(
        [None if v is None else struct.pack("!qii", micros_of(v[2]), v[1], v[0]) for v in values.to_pylist()],
        pa.binary(),
    )


def _numerics(values: pa.Array) -> pa.Array:
    return pa.array([None if v is None else numeric_bytes(v) for v in values.to_pylist()], pa.binary())


_WRITERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "bool": _booleans,
    "numeric": _numerics,
    "date": _dates,
    "time": _times,
    "timestamp": _timestamps,
    "timestamptz": _timestamps,
    "interval": _intervals,
}


def _arrays(values: pa.ListArray, element: WireType, *, vector: bool) -> pa.Array:
    """Write lists of one dimension; the index of the first element is 1, in the two vector types 0."""
    offsets = values.offsets.to_pylist()
    inner = [
        b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell
        for cell in _cells(values.values, element).to_pylist()
    ]
    nulls = values.values.is_null().to_pylist()

    def array(begin: int, end: int) -> bytes:
        if begin == end and not vector:
            return struct.pack("!iii", 0, 0, element.oid)
        has_null = int(any(nulls[begin:end]))
        head = struct.pack("!iiiii", 1, has_null, element.oid, end - begin, 0 if vector else 1)
        return head + b"".join(inner[begin:end])

    found = [
        array(offsets[i], offsets[i + 1]) if valid else None
        for i, valid in enumerate(values.is_valid().to_pylist())
    ]
    return pa.array(found, pa.binary())
