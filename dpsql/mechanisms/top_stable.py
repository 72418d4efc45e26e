"""Top Stable: the largest groups of a domain that nobody knows, as a set, if it is well apart."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np

from dpsql import noise as exact_noise
from dpsql.charge import Charge
from dpsql.mechanisms.arguments import between, bound, positive, whole
from dpsql.mechanisms.largest_groups import largest_groups
from dpsql.mechanisms.stable import StabilityTests, first_test, margins, stable_tests
from dpsql.mechanisms.top_k import noisy_top_k

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpsql.charge import Number
    from dpsql.mechanisms.stable import StableNoise
    from dpsql.mechanisms.top_k import TopK

__all__ = ["Choose", "Stable", "leads", "runs", "top_stable"]

Choose = Literal["top-k", "uniform"]
"""How to choose k groups of a stable set of more."""


@dataclass(frozen=True, eq=False, slots=True)
class Stable:
    """The groups released: a set, unless it was ordered at a price.

    Attributes
    ----------
    index
        int64, positions of the groups in `counts_desc`, at most k. Where `chosen` is None they are
        ascending and only a *set* is private: positions are in order of the counts, so sort the
        groups by key, or shuffle them, before anything is released. The order of the positions
        tells more than was paid for.
    stable
        How many groups the stable set has: the test that passed; 0 if none did.
    gap
        How far that test was passed, in counts: a multiple of 2^-resolution, not negative. None if no
        test was passed.
    threshold
        gap + threshold estimates how far the smallest group of the stable set is ahead of the
        largest one outside, in counts; unbiased but for the selection. Public.
    chosen
        The choice of k groups out of more, with order, gaps and charge of its own; its `index` holds
        places within the stable set. None where nothing was chosen, or uniformly.
    threshold_scale, scale
        Noise scales of the tests, in counts: of their threshold, and of each.
    resolution
        b, for a grid of 2^-b counts.
    charge
        What was spent, all told.
    """

    index: NDArray[np.int64]
    stable: int
    gap: float | None
    threshold: Fraction
    chosen: TopK | None
    threshold_scale: Fraction
    scale: Fraction
    resolution: int
    charge: Charge


def top_stable(
    counts_desc: ArrayLike,
    k: int,
    epsilon: Number,
    delta: Number,
    *,
    candidates: int | None = None,
    noise: StableNoise = "one-sided",
    share: Number | None = None,
    choose: Choose = "top-k",
    choosing: Number = Fraction(1, 4),
    sensitivity: Number = 1,
    resolution: int | None = None,
    entropy: exact_noise.Entropy | None = None,
) -> Stable:
    """Release the set of the largest groups of an unknown domain, if it is well ahead of the rest.

    For each i from `candidates` down to 1 it is tested whether the i largest groups are well ahead of
    the next one; the first such set is released as it is. The noise does not grow with k.

    Parameters
    ----------
    counts_desc
        The `candidates + 1` largest counts, or all of them, largest first; with any order of ties.
        Missing ones count 0. They must be monotone: one unit moves all counts the same way, each by
        at most the sensitivity, in as many groups as it likes.
    k
        Most groups.
    epsilon, delta
        Budget. Delta is spent in full.
    candidates
        How many groups to look at, at least k; k by default.
    noise
        "one-sided", or "laplace" as in the paper.
    share
        Part of the tests' epsilon for their threshold's noise: .15 by default, .37 with Laplace noise.
    choose
        How to get k groups if the stable set has more, which takes `candidates` over k: by noisy
        "top-k" among them, or "uniform", at no cost.
    choosing
        Part of epsilon kept for noisy top-k, if `candidates` is over k.
    sensitivity, resolution, entropy
        As in `noisy_top_k`.

    Raises
    ------
    ValueError
        If a public parameter is out of range. Never because of a count or a draw, nor because there
        are few groups.

    Notes
    -----
    Carvalho et al. (UAI 2020), Algorithm 3; the one-sided noise and the gap are ours. The tests are
    those of `first_stable` on d_i = max(0, h_i - h_(i+1) - c), h the counts in descending order, c
    the sensitivity.

    *Private:* as `first_stable`, for d_i > 0 means that the i largest groups are the same on every
    neighbour, and h_i - h_(i+1) changes by c at most, up or down. Given the same stable set on both
    sides, it is a public domain for noisy top-k. Empty places are groups of count 0; what is
    released of a set is its real groups. A stable set is cut where counts differ, so ties and positions have
    no part in which groups it has. The charge is that of the tests, the threshold's share if
    all failed, and `choosing` of epsilon if noisy top-k chose.
    """
    k, budget, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
    many = k if candidates is None else whole(candidates, "candidates")
    if many < k:
        raise ValueError("candidates must be at least k")
    part = between(choosing, "choosing")
    if _choice(choose) == "uniform" or many == k:
        part = Fraction(0)
    plan = stable_tests(
        many,
        budget * (1 - part),
        delta,
        share=share,
        noise=noise,
        sensitivity=sensitivity,
        resolution=resolution,
    )
    position, kept = largest_groups(counts_desc, many)
    found, steps = (value[0] for value in runs(kept, moved, plan, 1, entropy))
    spent = Charge(plan.threshold_epsilon + (plan.epsilon if found else 0), plan.delta)
    members, chosen = position[:found], None
    if len(members) > k and part:
        chosen = noisy_top_k(
            kept[: len(members)],
            k,
            budget * part,
            sensitivity=sensitivity,
            resolution=resolution,
            entropy=entropy,
        )
        members, spent = members[chosen.index], spent + chosen.charge
    elif len(members) > k:
        members = members[exact_noise.ranks(len(members), entropy=entropy) < k]
    return Stable(
        members,
        int(found),
        float(steps) * 0.5**plan.bits if found else None,
        plan.threshold + moved,
        chosen,
        plan.threshold_scale,
        plan.scale,
        plan.bits,
        spent,
    )


def leads(kept: NDArray[np.int64], moved: Fraction) -> NDArray[np.int64]:
    """Return the distances to instability of the i largest groups, for i from all down to 1.

    >>> leads(np.array([9, 5, 5, 0]), Fraction(1))
    array([4, 0, 3])
    """
    ahead: NDArray[np.int64] = kept[:-1] - kept[1:] - min(int(moved), exact_noise.COUNT_LIMIT)
    return np.maximum(ahead, 0)[::-1]


def runs(
    kept: NDArray[np.int64],
    moved: Fraction,
    plan: StabilityTests,
    trials: int,
    entropy: exact_noise.Entropy | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Run the tests so many times on the counts of `largest_groups`.

    Returns
    -------
    stable, steps
        Of shape (trials,): how many groups the stable set has, 0 if no test is passed; and how far
        it is passed, in grid steps.
    """
    distances = leads(kept, moved)
    at, steps = first_test(margins(distances, plan, *plan.draw(trials, len(distances), entropy)))
    return np.where(at >= 0, len(distances) - at, 0), steps


def _choice(choose: str) -> Choose:
    for known in get_args(Choose):
        if choose == known:
            return cast("Choose", known)
    raise ValueError("choose must be 'top-k' or 'uniform'")
