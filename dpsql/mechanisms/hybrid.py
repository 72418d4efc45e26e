"""The hybrid sparse vector: at most k largest groups, all above a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import Noise, counted
from dpsql.mechanisms.grid import draw, placed
from dpsql.mechanisms.sparse_vector import SparseVector, fresh, gaps_of, passed
from dpsql.mechanisms.sparse_vector_plan import sparse_vector_plan
from dpsql.mechanisms.top_k import select
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from dpsql.mechanisms.sparse_vector import Reach
    from dpsql.mechanisms.sparse_vector_plan import SparseVectorPlan
    from dpsql.privacy import Number

__all__ = ["above", "hybrid_sparse_vector"]


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
        As in `HybridTopK.plan`.
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
