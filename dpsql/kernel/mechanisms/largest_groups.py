"""Take the largest groups of an unknown domain, the only ones that a mechanism reads."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel.mechanisms.arguments import counted
from dpsql.kernel.noise import STEP_LIMIT


def largest_groups(counts: ArrayLike, candidates: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the largest groups, with their counts and the next smaller count.

    The number of groups, and whether they are sorted, is private: it never causes an error. Missing groups
    have count 0. A group of count 0 or less is treated as missing.

    Of equal counts at the cut the first ones are taken. The proofs of the mechanisms hold for any choice: a
    group that is taken on one of two neighbours only has at most the count of the largest group left out,
    plus c. In dpsql's own counts ties are ordered by key, so physical row order has no influence.

    Parameters
    ----------
    counts
        The counts of the groups, in any order; of one run, or of trials (trials, groups).
    candidates
        How many groups to take. Public.

    Returns
    -------
    position, count
        int64, of each run. `candidates` positions in its counts, -1 for missing groups; and `candidates + 1`
        counts in descending order, clamped to 2^60. The last one is the count of the largest group left out.

    >>> largest_groups([7, 0, 9], 3)
    (array([ 2,  0, -1]), array([9, 7, 0, 0]))
    """
    array = counted(counts, trials=True)
    if array.ndim == 2 and array.strides[0] == 0:  # the same counts in each trial are sorted once
        one, its = largest_groups(array[0], candidates)
        return np.broadcast_to(one, (len(array), len(one))), np.broadcast_to(its, (len(array), len(its)))
    order = np.argsort(-np.maximum(array, 0), axis=-1, kind="stable")[..., : candidates + 1]
    kept = np.zeros((*array.shape[:-1], candidates + 1), dtype=np.int64)
    kept[..., : order.shape[-1]] = np.clip(np.take_along_axis(array, order, axis=-1), 0, STEP_LIMIT)
    position = np.full((*array.shape[:-1], candidates), -1, dtype=np.int64)
    position[..., : order.shape[-1]] = order[..., :candidates]
    return np.where(kept[..., :candidates] > 0, position, -1), kept
