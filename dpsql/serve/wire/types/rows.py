"""Messages of a result: RowDescription, and DataRow for ranges of rows.

Whole columns are encoded at once, and many rows are joined by Arrow, so that no Python runs for a single
value of the usual types.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsql.login.messages import message
from dpsql.serve.answer import AnswerColumn
from dpsql.serve.wire.types.encoding import binary_cells, text_cells
from dpsql.serve.wire.types.oids import ProtocolError, wire_type

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
