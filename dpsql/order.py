"""Counts in a public order: the input of mechanisms whose output depends on the positions of counts.

Such a mechanism (the sparse vector scans its groups and stops) is private only if the groups come in an
order that no privacy unit can change. The order in which an engine returns groups is not: it follows from
where rows lie. So the order is part of the type: `OrderedCounts` comes from `Counts.in_order`, which sorts
the groups by the public values that the analysis names, or from `in_public_order`, by which the caller of a
mechanism states it for numbers of his own.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class OrderedCounts:
    """Integers at public positions: each position names a group or a query, whatever the data are."""

    values: ArrayLike

    def __repr__(self) -> str:
        return "OrderedCounts(...)"  # they are exact: no message shows them


def in_public_order(values: ArrayLike) -> OrderedCounts:
    """State that the positions of these numbers are public: fixed before any private row is read.

    >>> in_public_order([3, 0, 7])
    OrderedCounts(...)
    """
    return OrderedCounts(values)
