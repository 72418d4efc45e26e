"""Stability tests, and Top Stable: a set of largest groups of an unknown domain, if it is well separated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss, exact
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Mechanism,
    NoiseSource,
    Result,
    between,
    bound,
    grid_of,
    in_counts,
    positive,
    whole,
)
from dpsql.kernel.mechanisms.sparse_vector_plan import mean_noise
from dpsql.kernel.mechanisms.top_k import NoisyTopK
from dpsql.kernel.mechanisms.unknown_domain import laplace_cutoff, largest_groups, one_sided_cutoff
from dpsql.lazy_dataclass import dataclass

StableNoise = Literal["one-sided", "laplace"]
"""Law of the noise of stability tests; the one-sided one is geometric on the grid."""


@dataclass(frozen=True, slots=True)
class StabilityTests:
    """The public facts of stability tests against one noisy threshold.

    Notes
    -----
    Carvalho et al. (UAI 2020), Algorithm 4; the one-sided noise and the gap are ours. The first test of m
    that passes is released, and paid for. All are always evaluated; the comparison is `>=`.

    *Private:* a query whose answers on D and D' differ has distance 0 on both. Each such test passes
    with probability at most delta/m, for m tests; the cutoff is the least that guarantees this by the
    exact tail on the grid (`tails`; any share is allowed). Otherwise the answer is the same: leave
    all noise as it is, but for the threshold's, which moves by c, and if test i passes, its own,
    which moves by c + d_i - d'_i, from 0 to 2c. What failed still fails; the gap stays. Both move
    upwards, as one-sided noise needs, and which ones shows in the output: the alignment is injective.
    It costs c/threshold_scale, and if a test passes 2c/scale more.
    """

    noise: StableNoise
    """Law of both noises."""
    threshold_epsilon: Fraction
    epsilon: Fraction
    """Charge of the threshold, and of one test that is paid for."""
    delta: Fraction
    """Bound on the probability that any of the tests passes at distance 0."""
    threshold_scale: Fraction
    scale: Fraction
    """Noise scales in counts: c/threshold_epsilon and 2c/epsilon."""
    resolution: int
    """b, for a grid of 2^-b counts."""
    cutoff: int
    """In grid steps: a test passes if distance + noise >= cutoff + the threshold's noise."""

    @classmethod
    def plan(
        cls,
        tests: int,
        epsilon: Number,
        delta: Number,
        *,
        share: Number | None = None,
        noise: StableNoise = "one-sided",
        sensitivity: Number = 1,
        resolution: int | None = None,
        paid: int = 1,
    ) -> Self:
        """Plan a given number of `tests`, of which `paid` are paid for.

        Parameters
        ----------
        tests, paid
            How many; public.
        epsilon, delta
            Budget. Delta is spent in full.
        share
            Part of epsilon for the threshold's noise: .15 by default, .37 with Laplace noise.
        noise
            "one-sided", or "laplace" as in the paper.
        sensitivity
            How much one unit can change a distance: 1 for the distance in units.
        resolution
            As in `Mechanism`.
        """
        if noise not in get_args(StableNoise):
            raise ValueError("noise must be 'one-sided' or 'laplace'")
        budget, moved = positive(epsilon, "epsilon"), bound(sensitivity)
        # .37 is the paper's share; with one-sided noise the share is chosen for a low cutoff.
        usual = Fraction(37, 100) if noise == "laplace" else Fraction(15, 100)
        delta, part = between(delta, "delta"), usual if share is None else between(share, "share")
        first, each = part * budget, (1 - part) * budget / paid
        scales = (moved / first, 2 * moved / each)
        bits = grid_of("exponential", resolution, *scales)
        return cls(noise, first, each, delta, *scales, bits, _cutoff(noise, delta, tests, scales, bits))

    @property
    def law(self) -> Literal["exponential", "laplace"]:
        """The law of the noise by which a source draws it: on a grid, exponential noise is geometric."""
        return "laplace" if self.noise == "laplace" else "exponential"

    @property
    def threshold(self) -> Fraction:
        """What is added to a gap, in counts, for an unbiased estimate of the distance."""
        means = [mean_noise(self.law, scale, self.resolution) for scale in (self.threshold_scale, self.scale)]
        return Fraction(self.cutoff, 1 << self.resolution) + means[0] - means[1]

    def cover(self, most: int, tests: int) -> bool:
        """Whether the charges are for so many tests of distances that one unit changes by so much."""
        scales = (self.threshold_scale, self.scale)
        paid = most <= self.threshold_epsilon * scales[0] and 2 * most <= self.epsilon * scales[1]
        if not (paid and self.delta and self.noise in get_args(StableNoise)):
            return False
        return self.cutoff >= _cutoff(self.noise, self.delta, tests, scales, self.resolution)

    def loss(self, paid: int) -> PrivacyLoss:
        """Return the loss of the threshold and of so many tests that are paid for: of one mechanism.

        The threshold's noise is not released, so neither it nor a test is private by itself.
        """
        return PrivacyLoss.of(self.threshold_epsilon + paid * self.epsilon, self.delta)

    def margins(self, distances: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return the margin of each test in grid steps, for distances of shape (trials, tests).

        A test passes if its margin is not negative. Negative distances are treated as 0.
        """
        steps = exact_noise.place(np.maximum(distances, 0), self.resolution)
        steps -= self.cutoff + source.draw(self.law, self.threshold_scale, self.resolution, (len(steps), 1))
        steps += source.draw(self.law, self.scale, self.resolution, steps.shape)
        return steps


def _cutoff(
    noise: StableNoise, delta: Fraction, tests: int, scales: tuple[Fraction, Fraction], resolution: int
) -> int:
    """Return the least cutoff at which any of so many tests passes at distance 0 with a chance of delta."""
    least = laplace_cutoff if noise == "laplace" else one_sided_cutoff
    return least(delta / max(tests, 1), *(exact_noise.rate(scale, resolution) for scale in scales))


def first_test(steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first test passed along the last axis and its margin; -1 and 0 if there is none.

    >>> first_test(np.array([[-3, 0, 5], [-1, -2, -3]]))
    (array([ 1, -1]), array([0, 0]))
    """
    if steps.shape[-1] == 0:
        return np.full(steps.shape[:-1], -1), np.zeros(steps.shape[:-1], dtype=np.int64)
    passed = steps >= 0
    at: NDArray[np.int64] = np.argmax(passed, axis=-1)
    gap = np.take_along_axis(steps, at[..., None], axis=-1)[..., 0]
    found = passed.any(axis=-1)
    return np.where(found, at, -1), np.where(found, gap, 0)


ORDER_SHARE = Fraction(1, 4)
"""The usual share of epsilon for choosing k groups of a larger stable set."""


@dataclass(frozen=True, eq=False, slots=True)
class StableSet(Result["TopStable"]):
    """The groups released by Top Stable: a set, unless noisy top-k ordered it at a charge."""

    index: NDArray[np.int64]
    """int64, positions of the groups in the counts, at most k. Ascending if noisy top-k did not order them:
    then only the *set* is private. Where positions are in order of the counts, sort the groups by key, or
    shuffle them, before anything is released: the order of the counts reveals more than was charged for."""
    ordered: NDArray[np.int64]
    """How many of them are in order: all or none."""
    stable: NDArray[np.int64]
    """Size of the stable set, which identifies the test that passed; 0 if none did."""
    margin: NDArray[np.float64]
    """Margin of that test, in counts: a multiple of 2^-resolution, not negative; NaN if none passed. margin +
    `plan.lead` estimates the lead of the smallest group of the stable set over the largest one outside, in
    counts; unbiased apart from selection bias."""
    gap: NDArray[np.float64]
    """float64, if noisy top-k ordered the groups: the gap of each to the next one of the stable set. With at
    most k groups in the set, the last of them has none."""


@dataclass(frozen=True, slots=True)
class TopStable(Mechanism[StableSet]):
    """Releases the set of the largest groups of an unknown domain, if it is well separated from the rest.

    For each i from `candidates` down to 1 a test decides whether the i largest groups are well ahead of the
    next one. The first such set is released exactly. The noise does not grow with k.

    Notes
    -----
    Carvalho et al. (UAI 2020), Algorithm 3; the one-sided noise and the margin are ours. The tests are
    those of `FirstStable` on d_i = max(0, h_i - h_(i+1) - c), h the counts in descending order, c
    the sensitivity.

    *Private:* as `FirstStable`, for d_i > 0 means that the i largest groups are the same on every
    neighbour, and h_i - h_(i+1) changes by c at most, up or down. Given the same stable set on both
    sides, it is a public domain for noisy top-k (epsilon_EM of the paper): charges add. Its noise is for
    min(k, candidates - 1) places, and a smaller set has fewer. Empty places are groups of count 0; of a set
    only the real groups are released. A stable set ends where counts differ, so its members do not depend on
    ties or positions. The charge is that of the tests, the threshold's share if
    all failed, and `order_share` of epsilon if noisy top-k ordered two or more groups.
    """

    undeclared = True

    k: int
    candidates: int
    """As given to `plan`."""
    sensitivity: Fraction
    """How much one unit can change a count."""
    tests: StabilityTests
    """The stability tests, one for each size of a set."""
    choice: NoisyTopK | None
    """Noisy top-k among the groups of the stable set, which chooses k of them if there are more, and orders
    them; None for a set without order, and for a choice at random, at no charge."""

    @classmethod
    def plan(
        cls,
        k: int,
        epsilon: Number,
        delta: Number,
        *,
        candidates: int | None = None,
        noise: StableNoise = "one-sided",
        share: Number | None = None,
        order_share: Number | None = None,
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Self:
        """Plan a search for a stable set; the number of groups is private, and does not matter.

        Parameters
        ----------
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
        order_share
            Share of epsilon for noisy top-k inside the stable set: 1/4 with `candidates` > k, else 0. With 0,
            k groups of a larger stable set are chosen at random, and no group has an order.
        sensitivity, resolution
            As in `Mechanism`.
        """
        k, budget, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
        many = k if candidates is None else whole(candidates, "candidates")
        if many < k:
            raise ValueError("candidates must be at least k")
        part, choice = ORDER_SHARE if many > k else Fraction(0), None
        if order_share is not None:
            part = exact(order_share) and between(order_share, "order_share")
        if part and many > 1:
            choice = NoisyTopK.plan(many, k, budget * part, sensitivity=moved, resolution=resolution)
            budget *= 1 - part
        tests = StabilityTests.plan(
            many, budget, delta, share=share, noise=noise, sensitivity=moved, resolution=resolution
        )
        loss = tests.loss(1) + (choice.loss if choice else PrivacyLoss())
        return cls(k, many, moved, tests, choice, loss=loss)

    @property
    def scale(self) -> Fraction:
        """Scale of the noise of each test, in counts."""
        return self.tests.scale

    @property
    def lead(self) -> Fraction:
        """What is added to a margin, in counts, for an unbiased estimate of the lead."""
        return self.tests.threshold + self.sensitivity

    @property
    def reads(self) -> int:
        """How many groups the mechanism reads, those with the largest counts."""
        return self.candidates + 1

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        All counts go one way, by at most c; so far is every test for, and the choice.
        """
        if taken.low or taken.high > self.sensitivity or not self.tests.cover(taken.high, self.candidates):
            return False
        if self.choice is None:
            return self.loss == self.tests.loss(1)
        chosen = (self.choice.groups, self.choice.k) == (self.candidates, self.k)
        return chosen and self.choice.admits(taken) and self.loss == self.tests.loss(1) + self.choice.loss

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run in which no test passed (0), one did (1), and noisy top-k ran (2)."""
        return self.loss if units == 2 else self.tests.loss(units)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> StableSet:
        """Search counts, or the `candidates + 1` largest of them, in any order.

        They must be monotone: one unit moves all counts the same way, each by at most the sensitivity, in any
        number of groups.
        """
        position, kept = largest_groups(counts, self.candidates)
        single, position, kept = position.ndim == 1, np.atleast_2d(position), np.atleast_2d(kept)
        at, steps = first_test(self.tests.margins(leads(kept, self.sensitivity), source))
        stable = np.where(at >= 0, self.candidates - at, 0)
        margin = np.where(at >= 0, in_counts(steps, self.tests.resolution), np.nan)
        real = np.minimum(stable, np.count_nonzero(position >= 0, axis=1))
        index = np.where(np.arange(self.k) < real[:, None], position[:, : self.k], -1)
        gap = np.full((len(index), self.k if self.choice else 0), np.nan)
        units = (at >= 0).astype(np.int64)
        least = 1 if self.choice else self.k
        for many in np.unique(real[real > least]).tolist():
            rows = np.flatnonzero(real == many)
            members = position[rows, :many]
            if self.choice:
                among = kept[0, :many] if single else kept[rows, :many]
                chosen = replace(self.choice, groups=many).run(among, source)
                index[rows, : min(many, self.k)] = np.take_along_axis(
                    members, np.atleast_2d(chosen.index), axis=1
                )
                gap[rows, : min(many - 1, self.k)], units[rows] = chosen.gap, 2
            else:
                index[rows] = members[source.ranks(many, trials=len(rows)) < self.k].reshape(-1, self.k)
        last = np.iinfo(np.int64).max
        ascending = np.sort(np.where(index < 0, last, index), axis=1)
        index = np.where(units[:, None] < 2, np.where(ascending == last, -1, ascending), index)
        ordered = np.where(units == 2, np.minimum(real, self.k), 0)
        if single:
            gaps = gap[0, : min(int(real[0]) - 1, self.k) * (units[0] == 2)]
            shown = (index[0, : int(real[0])], ordered[0], stable[0], margin[0], gaps)
            return StableSet(self, *shown, units=int(units[0]))
        return StableSet(self, index, ordered, stable, margin, gap, units=units)


def leads(kept: NDArray[np.int64], sensitivity: Fraction) -> NDArray[np.int64]:
    """Return the distances to instability of the i largest groups, for i from all down to 1.

    >>> leads(np.array([[9, 5, 5, 0]]), Fraction(1))
    array([[4, 0, 3]])
    """
    ahead: NDArray[np.int64] = kept[:, :-1] - kept[:, 1:] - min(int(sensitivity), exact_noise.STEP_LIMIT)
    return np.maximum(ahead, 0)[:, ::-1]
