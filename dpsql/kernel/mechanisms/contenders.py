"""Find the largest of many noisy counts, with noise completed only where it matters, and break their ties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 15
BELOW_ALL = -(1 << 62)
"""Less than every noisy count, in grid steps."""


def leaders(
    values: NDArray[np.int64],
    k: int,
    some: Callable[[int], NDArray[np.int64]],
    reaching: Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add noise in grid steps; return the positions that reach the (k+1)-th largest sum, and their sums.

    Noise is drawn in blocks: `some(n)` returns n draws. After the first block it is completed only where it
    can reach the (k+1)-th largest sum until then, which never decreases when groups are added:
    `reaching(need)` returns the positions where draws are at least `need`, and those draws. Positions ascend.
    """
    first = np.arange(min(len(values), _BLOCK))
    found, least = [(first, values[:_BLOCK] + some(len(first)))], BELOW_ALL
    kept, new = 0, len(first)
    for start in range(_BLOCK, len(values), _BLOCK):
        # Merge only if there are more new groups than kept ones, so that ties do not repeat the work.
        if new > kept + _BLOCK // 32:
            found = [_merged(found, k)]
            kept, new = len(found[0][1]), 0
            least = int(found[0][1].min()) if kept > k else BELOW_ALL
        part = values[start : start + _BLOCK]
        where, noise = reaching(least - part)
        found.append((start + where, part[where] + noise))
        new += len(where)
    return _merged(found, k)


def _merged(
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    index, noisy = (np.concatenate(column) for column in zip(*found, strict=True))
    kept = contenders(noisy, k)
    return index[kept], noisy[kept]


def contenders(values: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the positions, ascending, of the values that reach the (k+1)-th largest one.

    >>> contenders(np.array([5, 1, 7, 5, 2]), 1)
    array([0, 2, 3])
    """
    last = len(values) - k - 1
    return np.flatnonzero(values >= np.partition(values, last)[last]) if last > 0 else np.arange(len(values))


def select(
    values: NDArray[np.int64], ranks: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose the k largest noisy values, in grid steps, and their gaps; a pure function of shape (..., n).

    The larger rank wins a tie. A gap is the difference to the next value, less one grid step if the winner's
    rank is the smaller: the floor of the continuous gap. With n <= k there are n - 1 gaps.

    >>> select(np.array([3, 5, 5]), np.array([2, 1, 0]), 2)
    (array([1, 2]), array([0, 1]))
    """
    order = ascending(values, ranks)[..., : -k - 2 : -1]
    value = np.take_along_axis(values, order, axis=-1)
    rank = np.take_along_axis(ranks, order, axis=-1)
    gap = value[..., :-1] - value[..., 1:] - (rank[..., :-1] < rank[..., 1:])
    return order[..., :k], gap


def ascending(values: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort places by value, and by rank among equal values; ranks are at least 0 and below 2^30."""
    bits = int(ranks.max(initial=0)).bit_length()
    limit = 1 << (62 - bits)
    if -limit < values.min(initial=0) and values.max(initial=0) < limit:
        return np.argsort(values << bits | ranks, axis=-1)
    return np.lexsort((ranks, values), axis=-1)
