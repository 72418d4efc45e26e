"""Top Stable: a set of largest groups of an unknown domain, released if it is well separated."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import between, bound, positive, whole
from dpsql.mechanisms.largest_groups import largest_groups
from dpsql.mechanisms.stable import StabilityTests, first_test, margins, stable_tests
from dpsql.mechanisms.top_k import noisy_top_k
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpsql.mechanisms.stable import StableNoise
    from dpsql.mechanisms.top_k import TopK
    from dpsql.privacy import Number

__all__ = ["Choose", "Stable", "leads", "runs", "top_stable"]

Choose = Literal["top-k", "uniform"]
"""How to choose k groups of a larger stable set."""


@dataclass(frozen=True, eq=False, slots=True)
class Stable:
    """The groups released by Top Stable: a set, unless noisy top-k ordered it at a charge.

    Attributes
    ----------
    index
        int64, positions of the groups in `counts_desc`, at most k. If `chosen` is None they are ascending
        and only the *set* is private: positions are in order of the counts, so sort the groups by key, or
        shuffle them, before anything is released. The order of the positions reveals more than was
        charged for.
    stable
        Size of the stable set, which identifies the test that passed; 0 if none did.
    gap
        Margin of that test, in counts: a multiple of 2^-resolution, not negative. None if no test
        passed.
    threshold
        gap + threshold estimates the lead of the smallest group of the stable set over the largest one
        outside, in counts; unbiased apart from selection bias. Public.
    chosen
        The choice of k groups by noisy top-k, with its own order, gaps and charge; its `index` holds
        positions within the stable set. None if no choice was needed, or it was uniform.
    threshold_scale, scale
        Noise scales in counts: of the tests' common threshold, and of each test.
    resolution
        b, for a grid of 2^-b counts.
    charge
        What was spent in total.
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
    """Release the set of the largest groups of an unknown domain, if it is well separated from the rest.

    For each i from `candidates` down to 1 a test decides whether the i largest groups are well ahead of the
    next one. The first such set is released exactly. The noise does not grow with k.

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
        Size of the largest set tested, at least k; k by default.
    noise
        "one-sided", or "laplace" as in the paper.
    share
        Part of the tests' epsilon for their threshold's noise: .15 by default, .37 with Laplace noise.
    choose
        How to choose k groups if the stable set is larger, which requires `candidates` > k: by noisy
        "top-k" among them, or "uniform", at no charge.
    choosing
        Share of epsilon reserved for noisy top-k, if `candidates` > k.
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
    sides, it is a public domain for noisy top-k. Empty places are groups of count 0; of a set only the
    real groups are released. A stable set ends where counts differ, so its members do not depend on ties or
    positions. The charge is that of the tests, the threshold's share if
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
    """Run the tests `trials` times on the counts of `largest_groups`.

    Returns
    -------
    stable, steps
        Of shape (trials,): the size of the stable set, 0 if no test passes; and the margin of the test,
        in grid steps.
    """
    distances = leads(kept, moved)
    at, steps = first_test(margins(distances, plan, *plan.draw(trials, len(distances), entropy)))
    return np.where(at >= 0, len(distances) - at, 0), steps


def _choice(choose: str) -> Choose:
    for known in get_args(Choose):
        if choose == known:
            return cast("Choose", known)
    raise ValueError("choose must be 'top-k' or 'uniform'")
