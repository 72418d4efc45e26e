"""Hybrids of noisy top-k and sparse vector: at most k largest groups, all above a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import Noise, bound, counted, kind, positive, whole
from dpsql.mechanisms.grid import grid_of, in_counts, noise_of, placed
from dpsql.mechanisms.top_k import leaders, select
from dpsql.privacy import Charge, exact

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpsql.privacy import Number

__all__ = ["Hybrid", "ahead", "hybrid_top_k"]


@dataclass(frozen=True, eq=False, slots=True)
class Hybrid:
    """The largest groups whose noisy counts exceed the threshold's, best first, with the gaps between them.

    Attributes
    ----------
    index
        int64, positions of the groups in `counts`.
    gap
        float64, one a group, in counts: to the next one; the last group's is to the threshold if that
        was reached, else to the best group not released. Floored to the grid.
    reached_threshold
        Whether the threshold is the next item. If so, sums of gaps plus the threshold estimate the
        counts, and no further group has a noisy count above it.
    rest
        Gap of the threshold to the best group not released; None if it was not determined.
    scale
        Scale of the noise on each count, and on the threshold.
    resolution
        b: gaps are multiples of 2^-b counts.
    charge
        What was spent: t/k of epsilon for t items placed, the threshold included.
    """

    index: NDArray[np.int64]
    gap: NDArray[np.float64]
    reached_threshold: bool
    rest: float | None
    scale: Fraction
    resolution: int
    charge: Charge


def hybrid_top_k(
    counts: ArrayLike,
    threshold: Number,
    k: int,
    epsilon: Number,
    *,
    sensitivity: Number = 1,
    monotone: bool = True,
    noise: Noise = "exponential",
    resolution: int | None = None,
    below: bool = False,
    entropy: exact_noise.Entropy | None = None,
) -> Hybrid:
    """Choose at most k largest groups above a threshold; only the groups found are charged.

    Noisy top-k in which the threshold is one more item, with noise of the same law. The groups before it in
    the noisy order are released.

    Parameters
    ----------
    counts
        One count a group of a public domain.
    threshold
        Public, any number; rounded up to the grid.
    k
        Most groups.
    epsilon
        Budget for k of them.
    sensitivity, monotone, noise, resolution, entropy
        As in `noisy_top_k`.
    below
        Choose the smallest groups at or below the threshold instead.

    Raises
    ------
    ValueError
        If a public parameter is out of range.

    Notes
    -----
    Dissertation, Algorithm 19. *Private:* the alignment of `noisy_top_k` with the t placed items as
    winners; the threshold's own count never moves, which both directions of monotone counts allow.
    t noises move, or t - 1 and the best loser, each by c/scale = epsilon/k at most (2c/scale if not
    monotone). With k >= n the scale is that for k = n: the last of n + 1 places is determined by the others.

    *Order:* as in `noisy_top_k`, the law does not depend on positions.
    """
    array, noise = counted(counts), kind(noise)
    wanted, budget, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
    level = -exact(threshold) if below else exact(threshold)
    paid = min(wanted, len(array))
    if paid == 0:
        return Hybrid(np.zeros(0, dtype=np.int64), np.zeros(0), True, None, Fraction(0), 0, Charge())
    scale = paid * moved * (1 if monotone else 2) / budget
    bits = grid_of(noise, resolution, scale)
    values = np.empty(len(array) + 1, dtype=np.int64)
    values[0] = _on_grid(level, bits)
    values[1:] = placed(array, bits, negated=below)
    near, noisy = leaders(values, paid, *noise_of(noise, scale, bits, entropy))
    chosen, gaps = select(noisy, exact_noise.ranks(len(near), entropy=entropy), paid)
    index, gap, rest = ahead(near[chosen], gaps)
    spent = Charge(budget * (len(index) + (rest is not None)) / paid)
    return Hybrid(
        index,
        in_counts(gap, bits),
        rest is not None or len(index) == len(array),
        None if rest is None else rest * 0.5**bits,
        scale,
        bits,
        spent,
    )


def ahead(
    items: NDArray[np.int64], gaps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int | None]:
    """Truncate an order of items at item 0, the threshold; a pure function.

    Parameters
    ----------
    items, gaps
        The items chosen, best first, and the gap of each to the next, as `select` gives them.

    Returns
    -------
    index, gap, rest
        The groups before item 0, counted from 0; their gaps; and item 0's own gap, None if item 0
        is not among the chosen.

    >>> ahead(np.array([4, 2, 0, 1]), np.array([9, 8, 7, 6]))
    (array([3, 1]), array([9, 8]), 7)
    """
    place = np.flatnonzero(items == 0)
    if len(place) == 0:
        return items - 1, gaps, None
    end = int(place[0])
    return items[:end] - 1, gaps[:end], int(gaps[end])


def _on_grid(level: Fraction, bits: int) -> int:
    # Twice the limit of counts is beyond every count.
    beyond = 2 * exact_noise.COUNT_LIMIT
    return math.ceil(max(Fraction(-beyond), min(level, Fraction(beyond))) * (1 << bits))
