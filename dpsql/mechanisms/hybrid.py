"""Hybrids of noisy top-k and sparse vector: at most k largest groups, all above a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import Noise, bound, counted, kind, positive, whole
from dpsql.mechanisms.grid import draw, grid_of, in_counts, noise_of, placed
from dpsql.mechanisms.sparse_vector import SparseVector, fresh, gaps_of, passed
from dpsql.mechanisms.sparse_vector_plan import sparse_vector_plan
from dpsql.mechanisms.top_k import leaders, select
from dpsql.privacy import Charge, exact

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from dpsql.mechanisms.sparse_vector import Reach
    from dpsql.mechanisms.sparse_vector_plan import SparseVectorPlan
    from dpsql.privacy import Number

__all__ = ["Hybrid", "above", "ahead", "hybrid_sparse_vector", "hybrid_top_k"]


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


def hybrid_sparse_vector(
    counts: ArrayLike,
    threshold: Number,
    k: int,
    epsilon: Number,
    *,
    share: Number | None = None,
    sensitivity: Number = 1,
    monotone: bool = True,
    noise: Noise = "exponential",
    resolution: int | None = None,
    below: bool = False,
    entropy: exact_noise.Entropy | None = None,
) -> SparseVector:
    """Choose at most k largest groups above a threshold, each with its gap over the threshold.

    A sparse vector that takes the groups in the order of their noisy counts. Noisier than
    `hybrid_top_k`, but every gap plus the threshold estimates a count.

    Parameters
    ----------
    counts, threshold, k, below
        As in `hybrid_top_k`.
    epsilon
        Budget for k groups.
    share
        Part of it for the threshold's noise; `best_share` by default.
    sensitivity, monotone, noise, resolution, entropy
        As in `noisy_top_k`.

    Returns
    -------
    SparseVector
        Best first; all in branch 0, and all groups scanned.

    Raises
    ------
    ValueError
        If a public parameter is out of range.

    Notes
    -----
    Dissertation, Algorithm 20. *Private:* the alignment of `adaptive_sparse_vector`. Measured from
    the noisy threshold, what is released keeps its noisy value, and all else keeps it or falls; so
    with the same ranks the order, ties by rank, and the cut at k stay as they are. The charge is
    (share + t/k (1 - share)) epsilon for t groups.

    *Order:* a tie goes to the larger rank of a uniformly random permutation, drawn for the hits alone: which
    they are depends on counts and noise, and a uniform permutation of all groups restricted to them is again
    uniform. So the law does not depend on positions, and the groups may come in any order, even one that
    depends on a privacy unit.
    """
    array = counted(counts)
    plan = sparse_vector_plan(
        len(array),
        threshold,
        k,
        epsilon,
        limit=None,
        branches=1,
        share=share,
        margin=None,
        sensitivity=sensitivity,
        monotone=monotone,
        noise=noise,
        resolution=resolution,
        below=below,
    )
    values = placed(array, plan.bits, negated=below)
    values -= draw(plan.noise, plan.threshold_scale, plan.bits, 1, entropy)
    index, steps = above(
        values, plan, fresh(plan, entropy), lambda hits: exact_noise.ranks(len(hits), entropy=entropy)
    )
    base = np.zeros(len(index), dtype=np.int64)
    return SparseVector(
        index,
        gaps_of(steps, base, plan),
        base,
        len(array),
        plan.threshold_scale,
        plan.scales,
        plan.share,
        plan.bits,
        Charge(plan.spent(len(index))) if len(array) else Charge(),
    )


def above(
    values: NDArray[np.int64],
    plan: SparseVectorPlan,
    reach: Reach,
    ranks: Callable[[NDArray[np.int64]], NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Select the largest values that pass, ties by random ranks; a pure function given noise and ranks.

    Parameters
    ----------
    values
        Count - threshold noise, in grid steps.
    plan, reach
        A plan of one branch, and its noise as in `passed`.
    ranks
        Maps the positions of the hits to distinct ranks; the larger rank wins a tie.

    Returns
    -------
    index, steps
        At most `plan.hits` groups, the largest value + noise first; and that value.
    """
    branch_index, steps = passed(values, plan.cutoffs, reach)
    hits = np.flatnonzero(branch_index >= 0)
    best, _ = select(steps[hits], ranks(hits), plan.hits)
    return hits[best], steps[hits[best]]


def _on_grid(level: Fraction, bits: int) -> int:
    # Twice the limit of counts is beyond every count.
    beyond = 2 * exact_noise.COUNT_LIMIT
    return math.ceil(max(Fraction(-beyond), min(level, Fraction(beyond))) * (1 << bits))
