"""Draw exact noise that is uniform in a box or a cube of random size, in arrays."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.noise.entropy import Entropy, SystemEntropy, uniform
from dpsql.kernel.noise.exact import positive_rational
from dpsql.kernel.noise.geometric import geometric

_LARGEST_SUM = 1 << 56
_LARGEST_SCALE = 1 << 50
"""That of the distances between arrivals, which are geometric."""


def box(
    rate: Fraction | int, dimension: int, trials: int, *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw noise with P(y) proportional to e^(-rate max(y)) on vectors of whole numbers from 0 on.

    A side N is drawn by `box_side`, then independent uniform whole numbers below N. The law follows from
    P(y) = sum over n > max(y) of C e^(-rate n) n^dimension n^(-dimension).

    Parameters
    ----------
    rate
        Positive rational.
    dimension
        Length of the vectors.
    trials
        Number of independent vectors.
    entropy
        For tests; the operating system's generator otherwise.

    Returns
    -------
    numpy.ndarray
        int64, of shape (trials, dimension).

    Raises
    ------
    ValueError
        As `box_side`.
    """
    source = entropy or SystemEntropy()
    return uniform(box_side(rate, dimension, trials, entropy=source), dimension, entropy=source)


def cube(
    rate: Fraction | int, dimension: int, trials: int, *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw noise with P(z) proportional to e^(-rate max|z|) on vectors of whole numbers.

    An odd side 2 M + 1 has a weight of e^(-rate M) (2 M + 1)^dimension; given it, the coordinates are
    independent and uniform on {-M, .., M}. Parameters, result and errors as in `box`.
    """
    source = entropy or SystemEntropy()
    half = positive_rational(rate, "rate") / 2
    side = np.zeros(trials, dtype=np.int64)
    open_ = np.arange(trials)
    while len(open_):
        side[open_] = box_side(half, dimension, len(open_), entropy=source)
        open_ = open_[side[open_] % 2 == 0]
    return uniform(side, dimension, entropy=source) - side[:, None] // 2


def box_side(
    rate: Fraction | int, dimension: int, trials: int, *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw N from 1 on with P(N = n) proportional to e^(-rate n) n^dimension, exactly.

    Parameters as in `box`. The result is int64, of shape (trials,).

    Raises
    ------
    ValueError
        If the dimension is not positive, or the sums below could come near 2^62: both depend on public
        parameters alone.

    Notes
    -----
    Let K be the dimension. In a Poisson process, "exactly K arrivals in [0, n) and at least one in
    [n, n + 1)" has probability (rate n)^K e^(-rate n) / K! (1 - e^(-rate)), which is the law wanted. Arrivals
    are drawn on a lattice of L cells a unit of time, L the least power of two with K rate / L at most 1/8.
    Distances between arrivals are geometric, and p and p' are the cells of arrivals K and K + 1. A draw is
    rejected if p and p' are in one unit of time. A weakly increasing sequence of K cells below n L, kept with
    probability 1 / product(s!) over the sizes s of its runs of equal cells, counts (n L)^K / K! in total. Its
    weight is (1 - e^(-rate/L))^K e^(-rate p/L), and that of p' in the unit n given p < n L is
    e^(-rate (n L - p)/L) (1 - e^(-rate)). The product does not depend on the sequence. So the law is exact
    on the lattice, whatever L is.
    """
    rate = positive_rational(rate, "rate")
    cells = check_box(rate, dimension)
    source = entropy or SystemEntropy()
    side = np.zeros(trials, dtype=np.int64)
    open_ = np.arange(trials)
    while len(open_):
        distances = geometric(rate / cells, (len(open_), dimension + 1), entropy=source)
        last = distances[:, :-1].sum(axis=1)
        side[open_] = (last + distances[:, -1]) // cells
        kept = (side[open_] != last // cells) & _ties_kept(distances[:, 1:-1] == 0, source)
        open_ = open_[~kept]
    return side


def check_box(rate: Fraction, dimension: int) -> int:
    """Return the lattice cells a unit of time for `box_side`, or raise its errors."""
    if dimension < 1:
        raise ValueError("the dimension must be positive")
    cells = 1
    while dimension * rate * 8 > cells:
        cells *= 2
    if dimension * cells / rate > _LARGEST_SUM or cells / rate > _LARGEST_SCALE:
        raise ValueError("the noise's scale is too large for so many counts")
    return cells


def check_cube(rate: Fraction, dimension: int) -> None:
    """Raise the errors of `cube`, which draws a side at half of the rate."""
    check_box(rate / 2, dimension)


def _ties_kept(equal: NDArray[np.bool_], source: Entropy) -> NDArray[np.bool_]:
    """Keep each row with probability 1 / product(s!) over its runs of s - 1 equal distances."""
    kept = np.ones(len(equal), dtype=bool)
    row, place = np.nonzero(equal)
    if len(row):
        begins = np.ones(len(row), dtype=bool)
        begins[1:] = (row[1:] != row[:-1]) | (place[1:] != place[:-1] + 1)
        index = np.arange(len(row))
        # The t-th equal distance of a run keeps the row with probability 1 / (t + 1).
        nth = index - np.maximum.accumulate(np.where(begins, index, 0)) + 1
        kept[row[uniform(nth + 1, 1, entropy=source)[:, 0] != 0]] = False
    return kept
