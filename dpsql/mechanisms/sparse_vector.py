"""The adaptive sparse vector mechanism with gap: the first groups above a threshold, with their gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import Noise, in_order
from dpsql.mechanisms.grid import draw, draw_reaching, in_counts, placed
from dpsql.mechanisms.sparse_vector_plan import SparseVectorPlan, sparse_vector_plan
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from dpsql.order import OrderedCounts
    from dpsql.privacy import Number

    Reach = Callable[[int, NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]

__all__ = [
    "Runs",
    "SparseVector",
    "adaptive_sparse_vector",
    "affordable",
    "fresh",
    "gaps_of",
    "passed",
    "sparse_vector",
    "sparse_vector_runs",
]

_BLOCK = 1 << 15
_MISS = np.array([-1])


@dataclass(frozen=True, eq=False, slots=True)
class SparseVector:
    """The groups found above the threshold, in the order of the scan.

    Attributes
    ----------
    index
        int64, positions of the hits in `counts`.
    gap
        float64, in counts: how far each hit is above the noisy threshold; never negative. Apart from
        selection bias, gap plus threshold is an unbiased estimate of the count.
    branch
        int64, the branch j in which each hit passed; its charge is base/2^j. 0 is the base branch.
    scanned
        How many groups were answered, hits or not.
    threshold_scale
        Scale of the threshold's noise, in counts; shared by all gaps.
    scales
        Scale of the noise on a count by branch: `scales[j]`.
    share
        Part of the budget that paid for the threshold.
    resolution
        b, for noise on a grid of 2^-b counts.
    charge
        What was spent: `share` of epsilon, and the charge of each hit.
    """

    index: NDArray[np.int64]
    gap: NDArray[np.float64]
    branch: NDArray[np.int64]
    scanned: int
    threshold_scale: Fraction
    scales: tuple[Fraction, ...]
    share: Fraction
    resolution: int
    charge: Charge


def adaptive_sparse_vector(
    counts: OrderedCounts,
    threshold: Number,
    k: int,
    epsilon: Number,
    *,
    limit: int | None = None,
    branches: int = 4,
    share: Number | None = None,
    margin: Number | None = None,
    sensitivity: Number = 1,
    monotone: bool = True,
    noise: Noise = "exponential",
    resolution: int | None = None,
    below: bool = False,
    entropy: exact_noise.Entropy | None = None,
) -> SparseVector:
    """Find the groups at or above a threshold; groups far above it are charged less.

    Each group is tried in several branches, the noisiest and cheapest first. These pass only with a margin;
    the base branch comes last. Budget that is not used is not charged, or pays for more hits.

    Parameters
    ----------
    counts
        One count a group of a public domain, in a public order: see `in_public_order`.
    threshold
        Public, any number.
    k
        Base hits: how many hits in the base branch the budget pays for.
    epsilon
        Budget.
    limit
        Most rows. None: as many as the budget pays for.
    branches
        1 is the plain sparse vector, 2 with `margin=2` the papers' adaptive one.
    share
        Part of the budget for the threshold's noise; `best_share` by default.
    margin
        Margin required in the cheaper branches, in standard deviations of their noise; by default
        max(2, ln(n/k)), which keeps false hits rare in long scans.
    sensitivity, monotone, noise, resolution, entropy
        As in `noisy_top_k`.
    below
        Find groups at or below the threshold instead; gaps are then distances below it.

    Raises
    ------
    ValueError
        If a public parameter is out of range. Never because of a count or a draw.

    Notes
    -----
    Free Gap, Algorithm 2; dissertation, Algorithms 16 and 17; more than two branches are ours.
    *Private:* with c the sensitivity and D' a neighbour, leave all noise as it is but

    - monotone counts, D' the smaller: a hit's noise in its branch moves by q_i - q'_i;
    - otherwise: the threshold's noise moves by c, a hit's noise in its branch by c + q_i - q'_i.

    Hits keep their gaps, and what failed fails by as much or more, so the output is the same, and
    with it which noise moves: the alignment is injective. All moves are upwards, as one-sided noise
    needs. The threshold costs c/scale = epsilon_0 at most, a hit in branch j at most c (2c if not
    monotone) over its scale: epsilon_j. Failing costs nothing. Budget, stop and charge depend on the
    hits' branches alone. Ties need no special rule: noise is compared on its grid by `>=`.

    *Order:* the alignment requires the same scan order on D and D': which groups are scanned before the
    stop, and the order in which hits are released, depend on positions. So the order must be public.

    The centres of one-sided noise are public shifts of the threshold.
    """
    array = in_order(counts)
    plan = sparse_vector_plan(
        len(array),
        threshold,
        k,
        epsilon,
        limit=limit,
        branches=branches,
        share=share,
        margin=margin,
        sensitivity=sensitivity,
        monotone=monotone,
        noise=noise,
        resolution=resolution,
        below=below,
    )
    level = draw(plan.noise, plan.threshold_scale, plan.bits, 1, entropy)
    found: list[NDArray[np.int64]] = []
    spent = rows = 0
    scanned = len(array)
    for start in range(0, len(array), _BLOCK):
        values = placed(array[start : start + _BLOCK], plan.bits, negated=below) - level
        branch_index, steps = passed(values, plan.cutoffs, fresh(plan, entropy))
        hits = np.flatnonzero(branch_index >= 0)
        hits = hits[affordable(branch_index[hits], plan, spent=spent, rows=rows)]
        found.append(np.stack([start + hits, branch_index[hits], steps[hits]]))
        spent, rows = spent + int((1 << branch_index[hits]).sum()), rows + len(hits)
        if not affordable(_MISS, plan, spent=spent, rows=rows)[0]:
            scanned = start + int(hits[-1]) + 1
            break
    index, branch_index, steps = np.concatenate(found, axis=1) if found else np.zeros((3, 0), dtype=np.int64)
    return SparseVector(
        index,
        gaps_of(steps, branch_index, plan),
        plan.branches - 1 - branch_index,
        scanned,
        plan.threshold_scale,
        plan.scales[::-1],
        plan.share,
        plan.bits,
        Charge(plan.spent(spent)) if len(array) else Charge(),
    )


def sparse_vector(
    counts: OrderedCounts,
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
    """Find the first k groups at or above a threshold, with their gaps: one branch, k rows.

    Dissertation, Algorithm 17. Parameters, errors and proof as in `adaptive_sparse_vector`.
    """
    return adaptive_sparse_vector(
        counts,
        threshold,
        k,
        epsilon,
        branches=1,
        share=share,
        sensitivity=sensitivity,
        monotone=monotone,
        noise=noise,
        resolution=resolution,
        below=below,
        entropy=entropy,
    )


@dataclass(frozen=True, eq=False, slots=True)
class Runs:
    """Results of independent runs over rows of counts, for audits and evaluations.

    Attributes
    ----------
    branch
        int64 (trials, n): j where a group was a hit in branch j, -1 where it was no hit, -2 after the end
        of the scan.
    gap
        float64 (trials, n), NaN where there was no hit.
    epsilon
        The charge of each run, as a tuple of exact numbers.
    """

    branch: NDArray[np.int64]
    gap: NDArray[np.float64]
    epsilon: tuple[Fraction, ...]


def sparse_vector_runs(
    counts: OrderedCounts,
    threshold: Number,
    k: int,
    epsilon: Number,
    *,
    limit: int | None = None,
    branches: int = 1,
    share: Number | None = None,
    margin: Number | None = None,
    sensitivity: Number = 1,
    monotone: bool = True,
    noise: Noise = "exponential",
    resolution: int | None = None,
    below: bool = False,
    entropy: exact_noise.Entropy | None = None,
) -> Runs:
    """Run `adaptive_sparse_vector` once on each row of `counts`, shape (trials, n).

    Each run costs its full charge; other parameters as there.
    """
    array = in_order(counts, trials=True)
    if array.ndim != 2:
        raise ValueError("counts must have two dimensions: (trials, groups)")
    plan = sparse_vector_plan(
        array.shape[1],
        threshold,
        k,
        epsilon,
        limit=limit,
        branches=branches,
        share=share,
        margin=margin,
        sensitivity=sensitivity,
        monotone=monotone,
        noise=noise,
        resolution=resolution,
        below=below,
    )
    values = placed(array, plan.bits, negated=below)
    values -= draw(plan.noise, plan.threshold_scale, plan.bits, (len(array), 1), entropy)
    branch_index, steps = passed(values, plan.cutoffs, fresh(plan, entropy))
    answered = affordable(branch_index, plan)
    hit = answered & (branch_index >= 0)
    gap = np.full(array.shape, np.nan)
    gap[hit] = gaps_of(steps[hit], branch_index[hit], plan)
    units = np.where(hit, 1 << np.maximum(branch_index, 0), 0).sum(axis=1)
    branch = np.where(answered, np.where(hit, plan.branches - 1 - branch_index, -1), -2)
    return Runs(branch, gap, tuple(plan.spent(spent) for spent in units.tolist()))


def passed(
    values: NDArray[np.int64], cutoffs: NDArray[np.int64], reach: Reach
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each group the first branch it passes, and its value there; pure given the noise.

    Parameters
    ----------
    values
        Count - threshold noise, in grid steps, of any shape.
    cutoffs
        A group passes a branch if value + noise is at least this; cheapest branch first.
    reach
        The noise: `reach(place, need)` returns the positions where the noise of the branch at this index is
        at least `need`, and the noise there.

    Returns
    -------
    branch_index, steps
        Index of the first branch passed, or -1; and value + noise there. Same shape as `values`.
    """
    flat = values.ravel()
    branch_index, steps = np.full(flat.shape, -1, dtype=np.int64), np.zeros_like(flat)
    for place in range(len(cutoffs) - 1, -1, -1):
        where, noise = reach(place, cutoffs[place] - flat)
        branch_index[where] = place
        steps[where] = flat[where] + noise
    return branch_index.reshape(values.shape), steps.reshape(values.shape)


def affordable(
    branch_index: NDArray[np.int64], plan: SparseVectorPlan, *, spent: int = 0, rows: int = 0
) -> NDArray[np.bool_]:
    """Return for each group whether it is still answered: the stopping rule of a run; a pure function.

    A group is answered if, before it, a base hit still fits the budget and the limit is not reached.

    Parameters
    ----------
    branch_index
        As returned by `passed`, shape (..., n); groups that are no hit may be left out.
    plan
        The run's plan.
    spent, rows
        Units and hits before the first of these groups.
    """
    hit = branch_index >= 0
    cost = np.where(hit, 1 << np.maximum(branch_index, 0), 0)
    before = spent + np.cumsum(cost, axis=-1) - cost
    answered: NDArray[np.bool_] = before <= (plan.hits - 1) << (plan.branches - 1)
    if plan.limit is not None:
        answered &= rows + np.cumsum(hit, axis=-1) - hit < plan.limit
    return answered


def fresh(plan: SparseVectorPlan, entropy: exact_noise.Entropy | None) -> Reach:
    """Return the `reach` argument of `passed` that draws the noise of a plan."""

    def reach(place: int, need: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return draw_reaching(plan.noise, plan.scales[place], plan.bits, need, entropy)

    return reach


def gaps_of(
    steps: NDArray[np.int64], branch_index: NDArray[np.int64], plan: SparseVectorPlan
) -> NDArray[np.float64]:
    """Convert the released values of hits to gaps over the threshold, in counts."""
    # A gap of 0 on the grid may come out as -1e-16 by rounding its two parts.
    offsets = np.array([float(offset) for offset in plan.offsets])
    gaps: NDArray[np.float64] = np.maximum(in_counts(steps, plan.bits) + offsets[branch_index], 0.0)
    return gaps
