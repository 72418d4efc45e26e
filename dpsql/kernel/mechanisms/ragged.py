"""Pad lists of different lengths, one a trial, to the rows of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def firsts(trial: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each entry where the entries of its trial begin; `trial` is ascending.

    >>> firsts(np.array([0, 0, 3, 3, 3]))
    array([0, 0, 2, 2, 2])
    """
    number = np.bincount(trial)
    return np.repeat(np.cumsum(number) - number, number)


def padded(trial: NDArray[np.int64], shape: tuple[int, int], *parts: NDArray[Any]) -> list[NDArray[Any]]:
    """Return each part in rows, one a trial, filled up with -1, or NaN among floats; `trial` is ascending.

    >>> padded(np.array([0, 0, 2]), (3, 2), np.array([7, 8, 9]))[0].tolist()
    [[7, 8], [-1, -1], [9, -1]]
    """
    slot, found = np.arange(len(trial)) - firsts(trial), []
    for part in parts:
        rows = np.full(shape, np.nan if part.dtype.kind == "f" else -1, dtype=part.dtype)
        rows[trial, slot] = part
        found.append(rows)
    return found
