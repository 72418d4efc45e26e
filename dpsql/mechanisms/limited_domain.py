"""The limited domain mechanism: the k largest groups of an unknown domain, in order, with gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import between, bound, positive, whole
from dpsql.mechanisms.grid import draw, grid_of, in_counts
from dpsql.mechanisms.largest_groups import largest_groups
from dpsql.mechanisms.tails import exponential_cutoff
from dpsql.mechanisms.top_k import select
from dpsql.privacy import Charge, exact

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpsql.privacy import Number

__all__ = ["LimitedDomain", "Plan", "before_cutoff", "limited_domain", "limited_domain_plan", "runs"]


@dataclass(frozen=True, eq=False, slots=True)
class LimitedDomain:
    """The groups found by the limited domain mechanism, best first, and the gaps between them.

    Attributes
    ----------
    index
        int64, positions of the groups in `counts_desc`, best first; k or fewer.
    gap
        float64, one a group, in counts: to the next item in the noisy order, which for the last group
        may be the cutoff or a group not released. Floored to the grid; valid for p-values.
    reached_threshold
        Whether the cutoff was placed: fewer than k groups came before it. The value of the cutoff is
        private, so the gaps do not estimate counts. As it is never below `max(threshold, clearance)`, that
        plus the gaps from a group to the cutoff estimates a lower bound of its count.
    clearance
        Difference between the cutoff and the largest group left out, in counts; public.
    candidates
        How many groups took part. One more count was read, that of the largest group left out.
    scale
        Scale of the noise on each count and on the cutoff, in counts.
    resolution
        b: gaps are multiples of 2^-b counts.
    charge
        What was spent: t/k of epsilon for t items placed, the cutoff included; and delta.
    """

    index: NDArray[np.int64]
    gap: NDArray[np.float64]
    reached_threshold: bool
    clearance: Fraction
    candidates: int
    scale: Fraction
    resolution: int
    charge: Charge


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """The public plan of a limited domain run, determined by public parameters alone.

    Attributes
    ----------
    k, candidates, epsilon, delta
        As given.
    scale, bits
        Scale of the noise in counts, and the grid of 2^-bits counts.
    clearance
        Difference between the cutoff and the largest group left out, in grid steps.
    threshold
        Least value of the cutoff, in grid steps.
    """

    k: int
    candidates: int
    epsilon: Fraction
    delta: Fraction
    scale: Fraction
    bits: int
    clearance: int
    threshold: int

    def charge(self, released: int) -> Charge:
        """Return the charge of a run that released so many groups."""
        return Charge(self.epsilon * min(released + 1, self.k) / self.k, self.delta)


def limited_domain(
    counts_desc: ArrayLike,
    k: int,
    epsilon: Number,
    delta: Number,
    *,
    candidates: int | None = None,
    threshold: Number | None = None,
    sensitivity: Number = 1,
    resolution: int | None = None,
    entropy: exact_noise.Entropy | None = None,
) -> LimitedDomain:
    """Choose the k largest groups of an unknown domain, in order, each with its gap to the next.

    Noisy top-k among the largest groups, in which a cutoff is one more item, far above the largest group left
    out. Only the groups before the cutoff are released. So a group of few units is not released, and fewer
    than k groups may be returned.

    Parameters
    ----------
    counts_desc
        The `candidates + 1` largest counts, or all of them, largest first; with any order of ties.
        Missing ones count 0. They must be monotone: one unit moves all counts the same way, each by
        at most the sensitivity, in any number of groups.
    k
        Most groups.
    epsilon, delta
        Budget. Delta is spent in full.
    candidates
        How many groups take part, at least k; 10 k by default. More candidates lower the cutoff as long as
        the counts decrease, and increase the clearance only logarithmically.
    threshold
        Release only groups above this as well; any number, rounded up to the grid.
    sensitivity, resolution, entropy
        As in `noisy_top_k`.

    Returns
    -------
    LimitedDomain
        At most k groups, each with a gap.

    Raises
    ------
    ValueError
        If a public parameter is out of range. Never because of a count or a draw, nor because there
        are few groups.

    Notes
    -----
    Ours, after the Limited Domain procedure that Carvalho et al. (UAI 2020) compare with, and
    Algorithm 19 of the dissertation. With c the sensitivity, noise of scale k c/epsilon, and h the
    count of the largest group left out, the cutoff's count is h + clearance, or the threshold if that is
    higher, with clearance = c + scale ln(candidates/(2 delta)), rounded up with certified arithmetic.

    *Private:* let D' have all counts of D or more, each by at most c; so h <= h' <= h + c, and the
    cutoff moves with them. A candidate on one side only counts at most h + c on D, h' + c on D': it
    comes before the cutoff with probability at most e^(-(clearance - c)/scale)/2, and there are at most
    `candidates` such: delta. Otherwise all groups released are candidates on both sides. Pair the
    candidates that leave with those that come: the former count h..h' on D, the latter h'..h + c on
    D', so each pair moves up, by at most c. That is a monotone instance of noisy top-k, whose
    alignment with the t placed items as winners costs t c/scale = t epsilon/k, in both directions.
    Empty places are groups of count 0 like any other; the first of them before the cutoff counts as
    placed and ends the release.
    """
    plan = limited_domain_plan(
        k,
        epsilon,
        delta,
        candidates=candidates,
        threshold=threshold,
        sensitivity=sensitivity,
        resolution=resolution,
    )
    position, kept = largest_groups(counts_desc, plan.candidates)
    index, gaps, released = (part[0] for part in runs(kept, len(position), plan, 1, entropy))
    return LimitedDomain(
        position[index[:released]],
        in_counts(gaps[:released], plan.bits),
        bool(released < plan.k and index[released] == plan.candidates),
        Fraction(plan.clearance, 1 << plan.bits),
        plan.candidates,
        plan.scale,
        plan.bits,
        plan.charge(int(released)),
    )


def limited_domain_plan(
    k: int,
    epsilon: Number,
    delta: Number,
    *,
    candidates: int | None = None,
    threshold: Number | None = None,
    sensitivity: Number = 1,
    resolution: int | None = None,
) -> Plan:
    """Check the public parameters of `limited_domain` and compute its plan."""
    k, epsilon, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
    delta = between(delta, "delta")
    many = 10 * k if candidates is None else whole(candidates, "candidates")
    if many < k:
        raise ValueError("candidates must be at least k")
    scale = k * moved / epsilon
    bits = grid_of("exponential", resolution, scale)
    clearance = (int(moved) << bits) + exponential_cutoff(delta / many, exact_noise.rate(scale, bits))
    if clearance > exact_noise.LARGEST:
        raise ValueError("the noise's scale is too large for so small a delta")
    # Twice the limit of counts is beyond every count.
    beyond = Fraction(2 * exact_noise.COUNT_LIMIT)
    level = Fraction(0) if threshold is None else max(Fraction(0), min(exact(threshold), beyond))
    return Plan(k, many, epsilon, delta, scale, bits, clearance, math.ceil(level * (1 << bits)))


def runs(
    kept: NDArray[np.int64],
    groups: int,
    plan: Plan,
    trials: int,
    entropy: exact_noise.Entropy | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Run `trials` times on the counts of `largest_groups`, `groups` of them real; see `before_cutoff`."""
    values = exact_noise.place(kept, plan.bits)
    values[-1] = max(int(values[-1]) + plan.clearance, plan.threshold)
    shape = (trials, len(values))
    noisy = values + draw("exponential", plan.scale, plan.bits, shape, entropy)
    ranks = exact_noise.ranks(len(values), trials=trials, entropy=entropy)
    return before_cutoff(noisy, ranks, plan.k, groups)


def before_cutoff(
    values: NDArray[np.int64], ranks: NDArray[np.int64], k: int, groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Order the items and stop at the cutoff or at an empty place; a pure function given the noise.

    Parameters
    ----------
    values
        Noisy values in grid steps, shape (..., n + 1): n candidates, then the cutoff.
    ranks
        A permutation for each row; the larger rank wins a tie.
    k
        How many items to place, at most n.
    groups
        The candidates from this one on are empty places.

    Returns
    -------
    index, gap, released
        The k items placed, their gaps to the next, of shape (..., k); and how many of them, from the
        left, are released.

    >>> before_cutoff(np.array([9, 5, 0, 7]), np.arange(4), 3, 2)
    (array([0, 3, 1]), array([1, 2, 4]), array(1))
    """
    index, gap = select(values, ranks, k)
    released: NDArray[np.int64] = np.asarray((np.cumsum(index >= groups, axis=-1) == 0).sum(axis=-1))
    return index, gap, released
