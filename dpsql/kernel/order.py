"""Counts in a public order, and counts of large domains: what mechanisms take beside arrays of counts.

A mechanism whose output depends on the positions of counts takes `OrderedCounts`.

It (the sparse vector scans its groups and stops) is private only if the groups come in an
order that no privacy unit can change. The order in which an engine returns groups is not: it follows from
where rows lie. So the order is part of the type: `OrderedCounts` comes from `Counts.in_order`, which sorts
the groups by the public values that the analysis names, or from `in_public_order`, by which the caller of a
mechanism states it for numbers of his own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False, slots=True)
class OrderedCounts:
    """Integers at public positions: each position names a group or a query, whatever the data are."""

    values: ArrayLike | SparseCounts

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
    """The counts of a public domain of `size` groups: those listed, and 0 for every other group.

    Attributes
    ----------
    values
        int64 counts of the listed groups; of shape (trials, n), independent trials.
    positions
        int64, their positions in the domain, ascending. The domain and its order are public; which groups are
        listed is private.
    """

    values: NDArray[np.int64]
    positions: NDArray[np.int64]
    size: int

    def __repr__(self) -> str:
        return "SparseCounts(...)"  # as above

    def dense(self) -> NDArray[np.int64]:
        """Return the counts of all groups."""
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
