"""Lists of different lengths, one a trial: their entries in one array, and the same padded to rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["firsts", "padded"]


def firsts(trial: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each entry where the entries of its trial begin; `trial` is ascending.

    >>> firsts(np.array([0, 0, 3, 3, 3]))
    array([0, 0, 2, 2, 2])
    """
    number = np.bincount(trial)
    return np.repeat(np.cumsum(number) - number, number)


def padded(
    values: NDArray[Any], trial: NDArray[np.int64], slot: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[Any]:
    """Return rows, one a trial, with each value in its slot; elsewhere -1, or NaN among floats.

    >>> padded(np.array([7, 8, 9]), np.array([0, 0, 2]), np.array([0, 1, 0]), (3, 2)).tolist()
    [[7, 8], [-1, -1], [9, -1]]
    """
    rows = np.full(shape, np.nan if values.dtype.kind == "f" else -1, dtype=values.dtype)
    rows[trial, slot] = values
    return rows
