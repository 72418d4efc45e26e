"""Stable queries: exact answers of any type, released if no single unit could change them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import between, bound, in_order, positive, whole
from dpsql.mechanisms.grid import draw, grid_of
from dpsql.mechanisms.sparse_vector_plan import best_share
from dpsql.mechanisms.tails import laplace_cutoff, one_sided_cutoff
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.order import OrderedCounts
    from dpsql.privacy import Number

__all__ = [
    "FirstStable",
    "StabilityTests",
    "StableAnswers",
    "StableNoise",
    "first_stable",
    "first_test",
    "margins",
    "stable_answers",
    "stable_tests",
    "until_unstable",
]

StableNoise = Literal["one-sided", "laplace"]
"""Law of the noise of stability tests; the one-sided one is geometric on the grid."""


@dataclass(frozen=True, eq=False, slots=True)
class FirstStable:
    """The first query that passed its stability test.

    Attributes
    ----------
    query
        Position of the query, None if no query passed. Its exact answer may be released.
    gap
        Excess over the cutoff, in counts: a multiple of 2^-resolution, not negative; None without a query.
    threshold
        Apart from selection bias, gap + threshold is an unbiased estimate of the distance. Public.
    threshold_scale, scale
        Noise scales in counts, of the threshold and of each test.
    resolution
        b, for a grid of 2^-b counts.
    charge
        What was spent: all of it if a query passed, else the threshold's share; and delta.
    """

    query: int | None
    gap: float | None
    threshold: Fraction
    threshold_scale: Fraction
    scale: Fraction
    resolution: int
    charge: Charge


@dataclass(frozen=True, eq=False, slots=True)
class StableAnswers:
    """Which queries of a stream passed their stability tests.

    Attributes
    ----------
    index
        int64, positions of the queries that passed, ascending: their exact answers may be released.
    asked
        How many queries of the stream were tested, counted from the first.
    threshold_scale, scale
        Noise scales in counts, of the threshold and of each test.
    resolution
        b, for a grid of 2^-b counts.
    charge
        What was spent: the threshold's share, the charge of each query that failed, and delta.
    """

    index: NDArray[np.int64]
    asked: int
    threshold_scale: Fraction
    scale: Fraction
    resolution: int
    charge: Charge


@dataclass(frozen=True, eq=False, slots=True)
class StabilityTests:
    """The public plan of stability tests against one noisy threshold.

    Attributes
    ----------
    noise
        Law of both noises.
    threshold_epsilon, epsilon
        Charge of the threshold, and of one test that is paid for.
    delta
        Bound on the probability that any of the tests passes at distance 0.
    threshold_scale, scale
        Noise scales in counts: c/threshold_epsilon and 2c/epsilon.
    bits
        The grid: 2^-bits counts.
    cutoff
        In grid steps: a test passes if distance + noise >= cutoff + the threshold's noise.
    """

    noise: StableNoise
    threshold_epsilon: Fraction
    epsilon: Fraction
    delta: Fraction
    threshold_scale: Fraction
    scale: Fraction
    bits: int
    cutoff: int

    @property
    def threshold(self) -> Fraction:
        """What is added to a gap, in counts, for an unbiased estimate of the distance."""
        raised = Fraction(self.cutoff, 1 << self.bits)
        if self.noise == "laplace":
            return raised
        means = [_mean(scale, self.bits) for scale in (self.threshold_scale, self.scale)]
        return raised + means[0] - means[1]

    def draw(
        self, trials: int, tests: int, entropy: exact_noise.Entropy | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw the noise of the threshold, shape (trials, 1), and of the tests, shape (trials, tests)."""
        law: Literal["exponential", "laplace"] = "laplace" if self.noise == "laplace" else "exponential"
        return (
            draw(law, self.threshold_scale, self.bits, (trials, 1), entropy),
            draw(law, self.scale, self.bits, (trials, tests), entropy),
        )


def first_stable(
    distances: OrderedCounts,
    epsilon: Number,
    delta: Number,
    *,
    share: Number | None = None,
    noise: StableNoise = "one-sided",
    sensitivity: Number = 1,
    resolution: int | None = None,
    entropy: exact_noise.Entropy | None = None,
) -> FirstStable:
    """Find the first query of a list whose exact answer is safe to release.

    Parameters
    ----------
    distances
        For each query its distance to instability: how many units must be added or removed before one
        more could change the answer; 0 if one could. The number of queries and the position of each are
        public: `in_public_order`.
    epsilon, delta
        Budget. Delta is spent in full.
    share
        Part of epsilon for the threshold's noise: .15 by default, .37 with Laplace noise.
    noise
        "one-sided", or "laplace" as in the paper.
    sensitivity
        How much one unit can change a distance: 1 for the distance in units.
    resolution, entropy
        As in `noisy_top_k`.

    Raises
    ------
    ValueError
        If a public parameter is out of range.

    Notes
    -----
    Carvalho et al. (UAI 2020), Algorithm 4; the one-sided noise and the gap are ours. All tests are
    always evaluated; the comparison is `>=`.

    *Private:* a query whose answers on D and D' differ has distance 0 on both. Each such test passes
    with probability at most delta/m, for m tests; the cutoff is the least that guarantees this by the
    exact tail on the grid (`tails`; any share is allowed). Otherwise the answer is the same: leave
    all noise as it is, but for the threshold's, which moves by c, and if test i passes, its own,
    which moves by c + d_i - d'_i, from 0 to 2c. What failed still fails; the gap stays. Both move
    upwards, as one-sided noise needs, and which ones shows in the output: the alignment is injective.
    It costs c/threshold_scale, and if a test passes 2c/scale more.
    """
    values = in_order(distances)
    plan = stable_tests(
        max(len(values), 1),
        epsilon,
        delta,
        share=share,
        noise=noise,
        sensitivity=sensitivity,
        resolution=resolution,
    )
    at, steps = (part[0] for part in first_test(margins(values, plan, *plan.draw(1, len(values), entropy))))
    spent = plan.threshold_epsilon + (plan.epsilon if at >= 0 else 0)
    return FirstStable(
        int(at) if at >= 0 else None,
        float(steps) * 0.5**plan.bits if at >= 0 else None,
        plan.threshold,
        plan.threshold_scale,
        plan.scale,
        plan.bits,
        Charge(spent, plan.delta) if len(values) else Charge(),
    )


def stable_answers(
    distances: OrderedCounts,
    k: int,
    epsilon: Number,
    delta: Number,
    *,
    share: Number | None = None,
    sensitivity: Number = 1,
    resolution: int | None = None,
    entropy: exact_noise.Entropy | None = None,
) -> StableAnswers:
    """Answer the stable queries of a stream exactly; only queries that fail the test are charged.

    Parameters
    ----------
    distances
        As in `first_stable`, in the order of the stream.
    k
        Stop after this many queries that failed.
    epsilon, delta
        Budget for k failures. Delta is spent in full.
    share
        Part of epsilon for the threshold's noise; `best_share` for general counts by default.
    sensitivity, resolution, entropy
        As in `first_stable`.

    Raises
    ------
    ValueError
        If a public parameter is out of range.

    Notes
    -----
    Carvalho et al. (UAI 2020), Algorithm 5, with another charge: the published one,
    sqrt(32 k log(2/delta)) of one threshold, is not proved by its sources.

    *Private:* delta as in `first_stable`. Otherwise the threshold's noise moves by -c and that of
    each failed test by d_i - d'_i - c, from -2c to 0: what failed still fails by as much, what passed
    passes with room to spare. Passing is free, and failing costs 2c/scale. All noise moves down, so
    it must be symmetric; and the gaps change, so they are not released.
    """
    values = in_order(distances)
    misses = min(whole(k, "k"), max(len(values), 1))
    plan = stable_tests(
        max(len(values), 1),
        epsilon,
        delta,
        share=best_share(misses, monotone=False) if share is None else share,
        noise="laplace",
        sensitivity=sensitivity,
        resolution=resolution,
        paid=misses,
    )
    steps = margins(values, plan, *plan.draw(1, len(values), entropy))[0]
    index, asked = until_unstable(steps, misses)
    spent = plan.threshold_epsilon + (asked - len(index)) * plan.epsilon
    return StableAnswers(
        index,
        asked,
        plan.threshold_scale,
        plan.scale,
        plan.bits,
        Charge(spent, plan.delta) if len(values) else Charge(),
    )


def stable_tests(
    tests: int,
    epsilon: Number,
    delta: Number,
    *,
    share: Number | None,
    noise: StableNoise,
    sensitivity: Number,
    resolution: int | None,
    paid: int = 1,
) -> StabilityTests:
    """Compute the plan of `tests` stability tests, of which `paid` are paid for; checks the parameters."""
    budget, moved, noise = positive(epsilon, "epsilon"), bound(sensitivity), _kind(noise)
    # .37 is the paper's share; with one-sided noise the share is chosen for a low cutoff.
    usual = Fraction(37, 100) if noise == "laplace" else Fraction(15, 100)
    delta, part = between(delta, "delta"), usual if share is None else between(share, "share")
    threshold_epsilon, each = part * budget, (1 - part) * budget / paid
    threshold_scale, scale = moved / threshold_epsilon, 2 * moved / each
    bits = grid_of("exponential", resolution, threshold_scale, scale)
    placed = laplace_cutoff if noise == "laplace" else one_sided_cutoff
    cutoff = placed(delta / tests, exact_noise.rate(threshold_scale, bits), exact_noise.rate(scale, bits))
    return StabilityTests(noise, threshold_epsilon, each, delta, threshold_scale, scale, bits, cutoff)


def margins(
    distances: NDArray[np.int64],
    plan: StabilityTests,
    threshold_noise: NDArray[np.int64],
    noise: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the margin of each test in grid steps; a pure function given the noise.

    A test passes if its margin is not negative. Negative distances are treated as 0.
    """
    steps: NDArray[np.int64] = exact_noise.place(np.maximum(distances, 0), plan.bits) + noise
    steps -= plan.cutoff + threshold_noise
    return steps


def first_test(steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first test passed along the last axis and its margin; -1 and 0 if there is none.

    >>> first_test(np.array([[-3, 0, 5], [-1, -2, -3]]))
    (array([ 1, -1]), array([0, 0]))
    """
    passed = steps >= 0
    if steps.shape[-1] == 0:
        return np.full(steps.shape[:-1], -1), np.zeros(steps.shape[:-1], dtype=np.int64)
    at: NDArray[np.int64] = np.argmax(passed, axis=-1)
    gap = np.take_along_axis(steps, at[..., None], axis=-1)[..., 0]
    found = passed.any(axis=-1)
    return np.where(found, at, -1), np.where(found, gap, 0)


def until_unstable(steps: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], int]:
    """Return the tests passed before the k-th failure, and the number of tests made; a pure function.

    >>> until_unstable(np.array([4, -1, 0, -2, 9]), 2)
    (array([0, 2]), 4)
    """
    failed = np.flatnonzero(steps < 0)
    asked = int(failed[k - 1]) + 1 if len(failed) >= k else len(steps)
    return np.flatnonzero(steps[:asked] >= 0), asked


def _kind(noise: str) -> StableNoise:
    for known in get_args(StableNoise):
        if noise == known:
            return cast("StableNoise", known)
    raise ValueError("noise must be 'one-sided' or 'laplace'")


def _mean(scale: Fraction, bits: int) -> Fraction:
    """Return the mean of geometric noise in counts, r/(1 - r) steps; a float suffices, as it is public."""
    return Fraction(1 / np.expm1(min(float(exact_noise.rate(scale, bits)), 500.0))) / (1 << bits)
