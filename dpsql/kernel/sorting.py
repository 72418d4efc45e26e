"""Sort groups by public values, here and not in an engine, whose order of rows is no proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    Term = tuple["pa.ChunkedArray | NDArray[np.int64]", bool]


def sorted_rows(size: int, terms: Sequence[Term]) -> NDArray[np.int64] | None:
    """Return the positions of `size` rows in the order of columns, each ascending or descending (True).

    Returns None if two rows are equal in all columns: then the columns give no order.
    """
    by = [ranks(column, descending=descending) for column, descending in terms]
    if not by:
        return np.zeros(size, dtype=np.int64) if size <= 1 else None
    order = np.lexsort(by[::-1])
    if size > 1 and np.all([rank[order[1:]] == rank[order[:-1]] for rank in by], axis=0).any():
        return None
    return np.asarray(order, dtype=np.int64)


def sorted_cells(
    size: int, terms: Sequence[Term], cells: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of rows by group and cell, and where in that order each group begins.

    Groups are rows that are equal in all terms; without terms, all rows are one group.
    """
    by = [ranks(column, descending=descending) for column, descending in terms]
    order = np.asarray(np.lexsort([cells, *by[::-1]]), dtype=np.int64)
    if not by:
        return order, np.zeros(1, dtype=np.int64)
    first = np.ones(size, dtype=np.bool_)
    first[1:] = np.any([rank[order[1:]] != rank[order[:-1]] for rank in by], axis=0)
    return order, np.flatnonzero(first)


def ranks(column: pa.ChunkedArray | NDArray[np.int64], *, descending: bool = False) -> NDArray[np.int64]:
    """Return numbers that are ordered as the values: texts by their bytes, an ENUM as it was declared.

    NULL is the last in either direction, as in SQL of DuckDB.
    """
    if isinstance(column, np.ndarray):
        return -column if descending else column
    found = _ranks(column)
    if not descending:
        return found
    return np.where(_nulls(column), 1, -found)


def _nulls(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return which values are NULL."""
    if not column.null_count:
        return np.zeros(len(column), dtype=np.bool_)
    import pyarrow as pa  # noqa: PLC0415  as below
    import pyarrow.compute as pc  # noqa: PLC0415

    return np.from_dlpack(pc.cast(pc.is_null(column).combine_chunks(), pa.uint8())).astype(np.bool_)


def _ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    import pyarrow as pa  # noqa: PLC0415  loaded where keys are sorted

    if len(column) <= _FEW and _is_plain(column.type):
        return _ranks_of_few(column.to_pylist())
    # It takes longer to load than most answers.
    import pyarrow.compute as pc  # noqa: PLC0415

    if pa.types.is_dictionary(column.type):
        if any(not chunk.dictionary.equals(column.chunk(0).dictionary) for chunk in column.chunks):
            raise ValueError("an ENUM has one list of values")
        last = len(column.chunk(0).dictionary) if column.num_chunks else 0
        codes = [
            np.from_dlpack(pc.fill_null(pc.cast(chunk.indices, pa.int64()), last)) for chunk in column.chunks
        ]
        return np.concatenate(codes, dtype=np.int64) if codes else np.zeros(0, dtype=np.int64)
    return np.from_dlpack(pc.rank(column, tiebreaker="dense")).astype(np.int64)


_FEW = 1000
"""Of how many values the ranks are found without Arrow's functions."""


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether Python has all values of a type, in Arrow's order; texts by code points, no dates."""
    import pyarrow as pa  # noqa: PLC0415  as above

    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(texts or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _ranks_of_few(values: list[Any]) -> NDArray[np.int64]:
    places = {value: place for place, value in enumerate(sorted({*values} - {None}), 1)}
    places[None] = len(places) + 1
    return np.fromiter((places[value] for value in values), dtype=np.int64, count=len(values))
