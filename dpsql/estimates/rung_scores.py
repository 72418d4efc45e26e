"""The scores of bounds that a search compares, from how many units lie just above each bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FULL = 1 << 20
"""The excess score of a unit that exceeds a bound by an eighth of it or more."""


def scores_by_place(
    places: NDArray[np.int64], units: NDArray[np.int64], partial: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Return the scores of `size` bounds, each at least twice the one before; the last one has the score 0.

    `units` are numbers of units that exceed the bound of a place and not the next one, `partial` the sums of
    their scores at it. A unit above the next bound exceeds this one by more than an eighth, so it counts in
    full. The last bound is taken for enough: it is the best where most units exceed all bounds.

    >>> scores_by_place(np.array([1, 0]), np.array([3, 5]), np.array([FULL, 2 * FULL]), 3) // FULL
    array([5, 1, 0])
    """
    numbers, scores = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    np.add.at(numbers, places, units)
    np.add.at(scores, places, partial)
    scores[:-1] += FULL * np.cumsum(numbers[:0:-1])[::-1]
    scores[-1] = 0
    return scores
