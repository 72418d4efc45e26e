"""Encode whole columns in PostgreSQL's text and binary formats, and join them to RowDescription and DataRow.

A column is first converted to the one Arrow type in which its type on the wire is encoded. Whole columns are
encoded at once, and many rows are joined by Arrow, so that no Python runs for a single value of the usual
types.
"""

from __future__ import annotations

import datetime
import json
import math
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsql.errors import InternalError
from dpsql.login import message
from dpsql.serve.answers import AnswerColumn
from dpsql.serve.wire.types import VECTORS, ProtocolError, WireType, is_nested, wire_type
from dpsql.serve.wire.types.number_texts import (
    DAY,
    EPOCH_DAYS,
    INFINITE_DAYS,
    INFINITE_MOMENT,
    date_texts,
    float_texts,
    interval_texts,
    micros_of,
    numeric_bytes,
    time_texts,
    timestamp_texts,
    to_int64,
)

DECIMALS = 6
"""Up to so many decimal places Arrow never writes a decimal with an exponent."""


def convert(values: pa.Array, kind: WireType) -> pa.Array:
    """Return the values in `kind.arrow`; decimals keep their scale, and lists become `pa.list_`."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    given = values.type
    if pa.types.is_null(given):
        return pa.nulls(len(values), kind.arrow)
    if kind.element is not None:
        return _convert_lists(_split_vectors(values) if pa.types.is_string(given) else values, kind.element)
    if given == kind.arrow:
        return values
    if is_nested(given):
        return _map_values(
            values, lambda v: json.dumps(_to_json_value(v, given), ensure_ascii=False), pa.string()
        )
    if pa.types.is_decimal(kind.arrow):
        return values.cast(pa.decimal128(20, 0)) if pa.types.is_integer(given) else values
    if kind.name == "uuid":
        return (
            values.storage
            if isinstance(values, pa.ExtensionArray)
            else _map_values(values, lambda v: uuid.UUID(v).bytes, pa.binary(16))
        )
    if pa.types.is_time(given) or pa.types.is_timestamp(given):
        return _to_microseconds(values, kind.arrow)
    try:
        return values.cast(kind.arrow)
    except pa.ArrowInvalid:
        raise InternalError(f"a column has a value that type {kind.name} cannot hold") from None


def _map_values(values: pa.Array, write: Callable[[Any], object], kind: pa.DataType) -> pa.Array:
    """Return what a function makes of each value, NULL for NULL."""
    return pa.array([None if v is None else write(v) for v in values.to_pylist()], kind)


def _convert_lists(values: pa.Array, element: WireType) -> pa.Array:
    """Convert the elements of lists; a NULL list of a fixed size has elements, which are left out."""
    if pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    offsets = values.offsets.to_numpy().astype(np.int64)
    inner = convert(values.values.slice(offsets[0], offsets[-1] - offsets[0]), element)
    moved = pa.array(offsets - offsets[0], pa.int32())
    return pa.ListArray.from_arrays(moved, inner, mask=values.is_null() if values.null_count else None)


def _split_vectors(values: pa.Array) -> pa.Array:
    """Split the texts of a vector type, `1 2`, into numbers."""
    return _map_values(values, lambda v: [int(part) for part in v.split()], pa.list_(pa.int64()))


def _to_microseconds(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return times in microseconds; the rest of nanoseconds is left off."""
    unit = values.type.unit
    count = values.view(pa.int32() if pa.types.is_time32(values.type) else pa.int64()).cast(pa.int64())
    numbers = count.fill_null(0).to_numpy()
    scaled = numbers // 1000 if unit == "ns" else numbers * {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
    return pa.array(scaled, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False)).view(kind)


def _to_json_value(value: object, kind: pa.DataType) -> object:
    """Return a value of a structure, map or nested list in the types that JSON has."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {name: _to_json_value(part, kind.field(name).type) for name, part in value.items()}
        case list() if pa.types.is_map(kind):
            return {str(key): _to_json_value(part, kind.item_type) for key, part in value}
        case list():
            return [_to_json_value(part, kind.value_type) for part in value]
        case bytes():
            return value.hex()
        case Decimal():
            return format(value, "f")
        case datetime.datetime():
            return value.isoformat(" ")
        case _:
            return str(value)


# Text.

_QUOTED = frozenset('"\\{}, \t\n\r\v\f')
"""Characters for which an array's element is quoted."""


def text_cells(values: pa.Array, kind: WireType, extra_float_digits: int = 1) -> pa.Array:
    """Return each value's text as UTF-8, NULL for NULL, as an array of `pa.binary()`."""
    return _encode_texts(convert(values, kind), kind, extra_float_digits).view(pa.binary())


def _encode_texts(values: pa.Array, kind: WireType, extra_float_digits: int) -> pa.Array:
    """Return the texts of values that are in the type's own Arrow type."""
    if kind.element is not None:
        inner = _encode_texts(values.values, kind.element, extra_float_digits).to_pylist()
        return _text_arrays(values, inner, vector=kind.oid in VECTORS)
    if kind.name in ("float4", "float8"):
        return float_texts(values, extra_float_digits)
    known = _TEXT_WRITERS.get(kind.name)
    if known is not None:
        return known(values)
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def _decimal_texts(values: pa.Array) -> pa.Array:
    if 0 <= values.type.scale <= DECIMALS:
        return values.cast(pa.string())
    return _map_values(values, lambda v: format(v, "f"), pa.string())


_TEXT_WRITERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "bool": lambda values: pc.if_else(values, "t", "f"),
    "numeric": _decimal_texts,
    "bytea": lambda values: _map_values(values, lambda v: f"\\x{v.hex()}", pa.string()),
    "uuid": lambda values: _map_values(values, lambda v: str(uuid.UUID(bytes=v)), pa.string()),
    "date": date_texts,
    "time": time_texts,
    "timestamp": timestamp_texts,
    "timestamptz": timestamp_texts,
    "interval": interval_texts,
}


def _text_arrays(values: pa.ListArray, inner: list[str | None], *, vector: bool) -> pa.Array:
    """Join the texts of all elements to lists: `{a,b}`, or `a b` for the two vector types."""
    offsets = values.offsets.to_pylist()
    parts = [text or "" for text in inner] if vector else [_quote_element(text) for text in inner]
    glue, begin, end = (" ", "", "") if vector else (",", "{", "}")
    found = [
        begin + glue.join(parts[offsets[i] : offsets[i + 1]]) + end if valid else None
        for i, valid in enumerate(values.is_valid().to_pylist())
    ]
    return pa.array(found, pa.string())


def _quote_element(text: str | None) -> str:
    r"""Write one element of an array, in quotes where it could be read otherwise.

    >>> [_quote_element(text) for text in ("a", "", "null", 'say "hi"', None)]
    ['a', '""', '"null"', '"say \\"hi\\""', 'NULL']
    """
    if text is None:
        return "NULL"
    if text and text.upper() != "NULL" and _QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# Binary.


def binary_cells(values: pa.Array, kind: WireType) -> pa.Array:
    """Return each value's binary form, NULL for NULL, as an array of `pa.binary()`."""
    return _encode_bytes(convert(values, kind), kind)


def _encode_bytes(values: pa.Array, kind: WireType) -> pa.Array:
    """Return the binary forms of values that are in the type's own Arrow type."""
    if kind.element is not None:
        return _binary_arrays(values, kind.element, vector=kind.oid in VECTORS)
    known = _BINARY_WRITERS.get(kind.name)
    if known is not None:
        return known(values)
    if kind.length in (2, 4, 8):
        return _encode_numbers(values)
    return values.view(pa.binary()) if pa.types.is_string(values.type) else values.cast(pa.binary())


def _big_endian_cells(numbers: NDArray[Any], like: pa.Array) -> pa.Array:
    """Return the bytes of big-endian numbers, NULL where `like` is NULL."""
    width = numbers.dtype.itemsize
    cells = pa.Array.from_buffers(
        pa.binary(width), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    ).cast(pa.binary())
    return pc.if_else(like.is_valid(), cells, None) if like.null_count else cells


def _encode_numbers(values: pa.Array) -> pa.Array:
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    return _big_endian_cells(numbers.astype(numbers.dtype.newbyteorder(">")), values)


def _encode_dates(values: pa.Array) -> pa.Array:
    days = to_int64(values, pa.int32())
    # -infinity is PostgreSQL's least number, and DuckDB's least but one.
    moved = np.select(
        [days == INFINITE_DAYS, days == -INFINITE_DAYS],
        [INFINITE_DAYS, -INFINITE_DAYS - 1],
        days - EPOCH_DAYS,
    )
    return _big_endian_cells(moved.astype(">i4"), values)


def _encode_timestamps(values: pa.Array) -> pa.Array:
    moments = to_int64(values, pa.int64())
    finite = np.abs(moments) != INFINITE_MOMENT
    moved = np.where(finite, moments, 0) - EPOCH_DAYS * DAY
    least = np.where(moments > 0, INFINITE_MOMENT, -INFINITE_MOMENT - 1)
    return _big_endian_cells(np.where(finite, moved, least).astype(">i8"), values)


def _encode_intervals(values: pa.Array) -> pa.Array:
    return _map_values(values, lambda v: struct.pack("!qii", micros_of(v[2]), v[1], v[0]), pa.binary())


_BINARY_WRITERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "bool": lambda values: _encode_numbers(values.cast(pa.uint8())),
    "numeric": lambda values: _map_values(values, numeric_bytes, pa.binary()),
    "date": _encode_dates,
    "time": lambda values: _encode_numbers(values.view(pa.int64())),
    "timestamp": _encode_timestamps,
    "timestamptz": _encode_timestamps,
    "interval": _encode_intervals,
}


def _binary_arrays(values: pa.ListArray, element: WireType, *, vector: bool) -> pa.Array:
    """Encode arrays in binary, of one dimension; the first index is 1, in `int2vector` and `oidvector` 0."""
    offsets = values.offsets.to_pylist()
    inner = [
        b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell
        for cell in _encode_bytes(values.values, element).to_pylist()
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


_NULL = b"\xff\xff\xff\xff"
"""In the place of a length: -1."""
_FEW = 50
"""Up to so many rows are joined in Python, which is faster than to begin with Arrow."""


def format_codes(codes: Sequence[int], count: int) -> tuple[int, ...]:
    """Return one format code (0 text, 1 binary) a column from Bind's list: none, one for all, or all.

    >>> format_codes([], 2), format_codes([1], 2), format_codes([0, 1], 2)
    ((0, 0), (1, 1), (0, 1))
    """
    if any(code not in (0, 1) for code in codes):
        raise ProtocolError("a format code is neither 0 (text) nor 1 (binary)")
    if len(codes) not in (0, 1, count):
        raise ProtocolError(f"{len(codes)} format codes are given for {count} values")
    if len(codes) == count:
        return tuple(codes)
    return tuple(codes or (0,)) * count


def row_description(columns: Sequence[AnswerColumn], codes: Sequence[int]) -> bytes:
    """Return the message RowDescription. The columns belong to no table and have no type modifier."""
    fields = [struct.pack("!h", len(columns))]
    for column, code in zip(columns, codes, strict=True):
        kind = wire_type(column.type, column.oid)
        name = column.name.encode().replace(b"\x00", b"?")
        fields.append(name + struct.pack("!xihihih", 0, 0, kind.oid, kind.length, -1, code))
    return message(b"T", *fields)


class RowEncoder:
    """The rows of one result in the formats that the client chose."""

    def __init__(
        self,
        columns: Sequence[AnswerColumn],
        table: pa.Table,
        codes: Sequence[int],
        *,
        extra_float_digits: int = 1,
    ) -> None:
        self._kinds = [wire_type(column.type, column.oid) for column in columns]
        self._table = table
        self._codes = tuple(codes)
        self._extra_float_digits = extra_float_digits

    def rows(self, start: int, stop: int) -> bytes:
        """Return the DataRow messages of these rows, one behind the other; none beyond the last row."""
        part = self._table.slice(start, max(0, stop - start))
        head = struct.pack("!h", len(self._kinds))
        cells = self.cells(part)
        if part.num_rows <= _FEW:
            return _join_few(cells, part.num_rows, head)
        return join_messages(b"D", join_cells(cells, part.num_rows, head))

    def cells(self, part: pa.Table) -> list[pa.Array]:
        """Return the values of some rows, encoded, one array of bytes a column."""
        return [
            binary_cells(whole_column(values), kind)
            if code
            else text_cells(whole_column(values), kind, self._extra_float_digits)
            for values, kind, code in zip(part.columns, self._kinds, self._codes, strict=True)
        ]


def whole_column(values: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if values.num_chunks == 1:
        return values.chunk(0)
    found = values.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def join_cells(cells: Sequence[pa.Array], count: int, head: bytes) -> pa.Array:
    """Return each row's bytes: `head`, and the length and bytes of every cell, -1 for NULL."""
    parts: list[pa.Array] = []
    for column in cells:
        parts += [_big_endian(pc.binary_length(column)), pc.fill_null(column, b"")]
    first = pa.repeat(pa.scalar(head, pa.binary()), count)
    return pc.binary_join_element_wise(first, *parts, pa.scalar(b"", pa.binary()))


def _join_few(cells: Sequence[pa.Array], count: int, head: bytes) -> bytes:
    """Return the DataRow messages of a few rows: what `join_messages` of `join_cells` returns."""
    columns = [column.to_pylist() for column in cells]
    parts: list[bytes] = []
    for i in range(count):
        row = [head]
        for column in columns:
            cell = column[i]
            row += (_NULL,) if cell is None else (len(cell).to_bytes(4, "big"), cell)
        body = b"".join(row)
        parts += (b"D", (len(body) + 4).to_bytes(4, "big"), body)
    return b"".join(parts)


def join_messages(kind: bytes, bodies: pa.Array) -> bytes:
    """Return messages of one type, each with its length, one behind the other."""
    if not len(bodies):
        return b""
    sizes = pc.add(pc.binary_length(bodies), 4)
    every = pc.binary_join_element_wise(
        pa.scalar(kind, pa.binary()), _big_endian(sizes), bodies, pa.scalar(b"", pa.binary())
    )
    # The values of an array of bytes lie one behind the other.
    begin, end = np.frombuffer(every.buffers()[1], np.int32)[[every.offset, every.offset + len(every)]]
    return bytes(memoryview(every.buffers()[2])[begin:end])


def _big_endian(sizes: pa.Array) -> pa.Array:
    """Return lengths as four bytes each; -1 for NULL."""
    numbers = sizes.fill_null(-1).to_numpy().astype(">i4")
    return pa.Array.from_buffers(pa.binary(4), len(numbers), [None, pa.py_buffer(numbers)]).cast(pa.binary())
