"""Draw random ranks, which break ties."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.noise.entropy import Entropy, SystemEntropy


def ranks(n: int, *, trials: int | None = None, entropy: Entropy | None = None) -> NDArray[np.int64]:
    """Draw a uniformly random permutation of 0..n-1, exactly; the larger rank wins a tie.

    Every position gets a stream of random bits, extended until all are distinct, and the positions are sorted
    by them. By symmetry every order is equally likely.

    Parameters
    ----------
    n
        Number of items.
    trials
        If given, so many independent permutations, as rows.
    entropy
        For tests; the operating system's generator otherwise.

    Returns
    -------
    numpy.ndarray
        int64, of shape (n,) or (trials, n).
    """
    source = entropy or SystemEntropy()
    rows = 1 if trials is None else trials
    columns: list[NDArray[np.uint64]] = []
    tied = True
    while tied:
        columns.append(source.words(rows * n).reshape(rows, n))
        order = np.lexsort(columns[::-1], axis=-1) if len(columns) > 1 else np.argsort(columns[0], axis=-1)
        ordered = [np.take_along_axis(column, order, axis=-1) for column in columns]
        tied = bool(np.logical_and.reduce([column[:, 1:] == column[:, :-1] for column in ordered]).any())
    return order[0] if trials is None else order
