"""What a mechanism sees of an unknown domain: the counts of a few largest groups, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpsql.mechanisms.arguments import counted
from dpsql.noise import COUNT_LIMIT

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["largest_groups"]


def largest_groups(counts: ArrayLike, candidates: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Take the largest groups, and one count more.

    How many groups there are, and whether they come sorted, is private: nothing is refused for it,
    and what is missing counts 0. So does a group of count 0 or less: it might as well be missing.

    Of equal counts at the cut those in front are taken. The proofs of the mechanisms hold whichever they are:
    a group that is taken on one side only counts at most what the largest group left out does, and c more.
    dpsql's own counts come with equal ones ordered by key, so that where rows lie has no part in it.

    Parameters
    ----------
    counts
        The groups' counts, largest first; sorted here if they are not.
    candidates
        How many groups to take; public.

    Returns
    -------
    position, count
        int64, positions of the candidates in `counts`, at most as many as asked for; and
        `candidates + 1` counts in descending order, cut off at 2^40, filled up with zeros. The last
        is that of the largest group left out.

    >>> largest_groups([7, 0, 9], 3)
    (array([2, 0]), array([9, 7, 0, 0]))
    """
    array = counted(counts)
    order = np.argsort(-np.maximum(array, 0), kind="stable")[: candidates + 1].astype(np.int64, copy=False)
    kept = np.zeros(candidates + 1, dtype=np.int64)
    kept[: len(order)] = np.clip(array[order], 0, COUNT_LIMIT)
    return order[: np.count_nonzero(kept[:candidates])], kept
