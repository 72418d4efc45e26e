"""Groups in their public order: counts in it, of large domains, or known from above; how groups are sorted.

A mechanism whose output depends on the positions of counts (the sparse vector scans its groups and stops) is
private only if the groups come in an order that no privacy unit can change. The order in which an engine
returns groups is not: it follows from where rows lie. So the order is part of the type: `OrderedCounts` comes
from `counts.Exact.counts_in_order`, which sorts the groups by the public values that the analysis names, or
from `in_public_order`, by which the caller of a mechanism states it for numbers of his own. Groups are sorted
here and not in an engine, whose order of rows is no proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa


@dataclass(frozen=True, eq=False, slots=True)
class OrderedCounts:
    """Integers at public positions: each position names a group or a query, whatever the data are."""

    values: ArrayLike | SparseCounts | BoundedCounts

    def __repr__(self) -> str:
        return "OrderedCounts(...)"  # they are exact: no message shows them


def in_public_order(values: ArrayLike) -> OrderedCounts:
    """State that the positions of these numbers are public: fixed before any private row is read.

    >>> in_public_order([3, 0, 7])
    OrderedCounts(...)
    """
    return OrderedCounts(values)


@dataclass(frozen=True, eq=False, slots=True)
class SparseCounts:
    """The counts of a public domain of `size` groups: those listed, and 0 for every other group."""

    values: NDArray[np.int64]
    """int64 counts of the listed groups; of shape (trials, n), independent trials."""
    positions: NDArray[np.int64]
    """int64, their positions in the domain, ascending. The domain and its order are public; which groups are
    listed is private."""
    size: int

    def __repr__(self) -> str:
        return "SparseCounts(...)"  # as above

    def dense(self) -> NDArray[np.int64]:
        """Return the counts of all groups, 0 where a group has no rows."""
        every = np.zeros((*self.values.shape[:-1], self.size), dtype=np.int64)
        every[..., self.positions] = self.values
        return every

    def without(self, position: int) -> SparseCounts:
        """Return the counts of the other groups of a single trial; those behind it move up by one."""
        kept = self.positions != position
        positions = self.positions[kept]
        return SparseCounts(self.values[kept], positions - (positions > position), self.size - 1)

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of the groups at some positions."""
        place = np.searchsorted(self.positions, positions)
        there = place < len(self.positions)
        there[there] = self.positions[place[there]] == positions[there]
        found = np.zeros(len(positions), dtype=np.int64)
        found[there] = self.values[place[there]]
        return found


@dataclass(frozen=True, eq=False, slots=True)
class BoundedCounts:
    """Counts of all groups of a domain that are known from above, and exactly where one asks for them."""

    upper: NDArray[np.int64]
    """int64, one a group: at least its count; of shape (trials, n), independent trials."""
    exact: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Returns the counts of the groups at some positions; of trials, at those in the flat array. What it is
    asked for is private: it follows from the numbers and from noise."""
    likely: NDArray[np.int64]
    """int64, one a group: what its count may be expected to be. It decides on the work alone."""

    def __repr__(self) -> str:
        return "BoundedCounts(...)"  # as above

    def complete(self) -> NDArray[np.int64]:
        """Return the exact counts of all groups; those not counted yet are counted now."""
        return self.exact(np.arange(self.upper.size)).reshape(self.upper.shape)

    def take(self, positions: NDArray[np.int64]) -> BoundedCounts:
        """Return the counts of some groups of a single run, in this order."""
        own = self.upper[positions], self.likely[positions]
        return BoundedCounts(own[0], lambda some: self.exact(positions[some]), own[1])


if TYPE_CHECKING:
    Term = tuple["pa.ChunkedArray | NDArray[np.int64]", bool]


def sort_rows(size: int, terms: Sequence[Term]) -> NDArray[np.int64] | None:
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


def sort_cells(
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
    """Return for each value of an array whether it is NULL."""
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
