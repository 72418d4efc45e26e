"""Columns of keys in Arrow: some of their rows, and nothing that an engine left in memory behind a NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_FEW = 1000
"""Of no more rows slices are put together, which load nothing; `take` loads all of pyarrow.compute."""


def pick_rows(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.Array:
    """Return some rows of a key.

    No two chunks are put together whole: texts of more than 2 GiB do not fit into one array, and how long
    all of them are together depends on private rows.
    """
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

    if len(rows) <= _FEW:
        # Slices of single rows keep the keys in Arrow; they are never converted to Python objects.
        parts = [chunk for row in rows.tolist() for chunk in column.slice(row, 1).chunks]
        return as_one_array(pa.chunked_array(parts, column.type))
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum([len(chunk) for chunk in column.chunks])
    cuts = np.searchsorted(rows[order], ends)
    parts, start = [], 0
    for chunk, end, cut in zip(column.chunks, ends.tolist(), cuts.tolist(), strict=True):
        if cut > start:
            parts.append(chunk.take(_arrow(rows[order[start:cut]] - (end - len(chunk)))))
        start = cut
    return pa.concat_arrays(parts).take(_arrow(np.argsort(order)))


def _arrow(values: NDArray[np.int64]) -> pa.Array:
    """Convert an array to Arrow; `pa.array` would import pandas where it is installed."""
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, with zeros behind each NULL."""
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

    return clear_nulls(pa.concat_arrays(column.chunks) if column.num_chunks else column.combine_chunks())


def clear_nulls(array: pa.Array) -> pa.Array:
    """Return an array with zeros behind each NULL: what an engine left in memory there may be private."""
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

    if not array.null_count or pa.types.is_null(array.type):
        return array
    if array.null_count > _FEW:  # `take` writes zeros there, too
        return array.take(_arrow(np.arange(len(array))))
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], dtype=np.uint8), bitorder="little")
    parts, start = [], 0
    for null in np.flatnonzero(bits[array.offset :][: len(array)] == 0).tolist():
        parts += [array.slice(start, null - start), pa.nulls(1, array.type)]
        start = null + 1
    return pa.concat_arrays([*parts, array.slice(start)])
