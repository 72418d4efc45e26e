"""Stable queries: exact answers of any type, released if no single unit could change them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import between, bound, in_order, positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of, in_counts
from dpsql.kernel.mechanisms.mechanism import Mechanism, R, Result, in_one_call
from dpsql.kernel.mechanisms.ragged import padded
from dpsql.kernel.mechanisms.sparse_vector_plan import best_share, mean_noise
from dpsql.kernel.mechanisms.tails import laplace_cutoff, one_sided_cutoff
from dpsql.kernel.order import OrderedCounts

StableNoise = Literal["one-sided", "laplace"]
"""Law of the noise of stability tests; the one-sided one is geometric on the grid."""


@dataclass(frozen=True, slots=True)
class StabilityTests:
    """The public facts of stability tests against one noisy threshold.

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
    resolution
        b, for a grid of 2^-b counts.
    cutoff
        In grid steps: a test passes if distance + noise >= cutoff + the threshold's noise.
    """

    noise: StableNoise
    threshold_epsilon: Fraction
    epsilon: Fraction
    delta: Fraction
    threshold_scale: Fraction
    scale: Fraction
    resolution: int
    cutoff: int

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
        """Plan so many tests, of which `paid` are paid for; other arguments as in `FirstStable.plan`."""
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
    def threshold(self) -> Fraction:
        """What is added to a gap, in counts, for an unbiased estimate of the distance."""
        law: Literal["exponential", "laplace"] = "laplace" if self.noise == "laplace" else "exponential"
        means = [mean_noise(law, scale, self.resolution) for scale in (self.threshold_scale, self.scale)]
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
        law: Literal["exponential", "laplace"] = "laplace" if self.noise == "laplace" else "exponential"
        steps = exact_noise.place(np.maximum(distances, 0), self.resolution)
        steps -= self.cutoff + source.draw(law, self.threshold_scale, self.resolution, (len(steps), 1))
        steps += source.draw(law, self.scale, self.resolution, steps.shape)
        return steps


def _cutoff(
    noise: StableNoise, delta: Fraction, tests: int, scales: tuple[Fraction, Fraction], resolution: int
) -> int:
    """Return the least cutoff at which any of so many tests passes at distance 0 with a chance of delta."""
    least = laplace_cutoff if noise == "laplace" else one_sided_cutoff
    return least(delta / max(tests, 1), *(exact_noise.rate(scale, resolution) for scale in scales))


@dataclass(frozen=True, slots=True)
class _Stable(Mechanism[R]):
    """Stability tests of a number of queries at public positions."""

    ordered = True

    queries: int
    tests: StabilityTests

    @property
    def paid(self) -> int:
        """How many tests are paid for."""
        return 1

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: distances change by at most c, up or down."""
        if not self.queries:
            return True
        return self.loss == self.tests.loss(self.paid) and self.tests.cover(taken.most, self.queries)

    def realised(self, units: int) -> PrivacyLoss:
        """Return the loss of a run that pays for so many tests."""
        return self.tests.loss(units) if self.queries else self.loss


@dataclass(frozen=True, eq=False, slots=True)
class StableQuery(Result["FirstStable"]):
    """The first query that passed its stability test, if any did.

    Attributes
    ----------
    index
        int64, its position: one, or none. Its exact answer may be released.
    gap
        float64, the excess over the cutoff, in counts: a multiple of 2^-resolution, not negative. Apart from
        selection bias, gap + `plan.tests.threshold` is an unbiased estimate of the distance.
    """

    index: NDArray[np.int64]
    gap: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FirstStable(_Stable[StableQuery]):
    """Finds the first query of a list whose exact answer is safe to release; a test that passes is paid for.

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

    @classmethod
    def plan(
        cls,
        queries: int,
        epsilon: Number,
        delta: Number,
        *,
        share: Number | None = None,
        noise: StableNoise = "one-sided",
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Self:
        """Plan stability tests of a list of queries.

        Parameters
        ----------
        queries
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
        tests = StabilityTests.plan(
            queries,
            epsilon,
            delta,
            share=share,
            noise=noise,
            sensitivity=sensitivity,
            resolution=resolution,
        )
        return cls(queries, tests, loss=tests.loss(1) if queries else PrivacyLoss())

    def run(self, distances: OrderedCounts, source: NoiseSource = SYSTEM) -> StableQuery:
        """Test the queries of a list in public order.

        A query's distance to instability is how many units must be added or removed before one more could
        change its answer; 0 if one could.
        """
        array = in_order(distances, self.queries, trials=True)
        at, steps = first_test(self.tests.margins(np.atleast_2d(array), source))
        passed = at >= 0
        gap = np.where(passed, in_counts(steps, self.tests.resolution), np.nan)
        if array.ndim == 1:
            return StableQuery(self, at[passed], gap[passed], units=int(passed[0]))
        return StableQuery(self, at[:, None], gap[:, None], units=passed.astype(np.int64))


@dataclass(frozen=True, eq=False, slots=True)
class StableQueries(Result["StableAnswers"]):
    """Which queries of a stream passed their stability tests.

    Attributes
    ----------
    index
        int64, positions of the queries that passed, ascending: their exact answers may be released.
    asked
        int64, how many queries of the stream were tested, counted from the first.
    """

    index: NDArray[np.int64]
    asked: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StableAnswers(_Stable[StableQueries]):
    """Answers the stable queries of a stream exactly; only queries that fail the test are paid for.

    Attributes
    ----------
    failures
        The stream stops after this many queries that failed.

    Notes
    -----
    Carvalho et al. (UAI 2020), Algorithm 5, with another charge: the published one,
    sqrt(32 k log(2/delta)) of one threshold, is not proved by its sources.

    *Private:* delta as in `FirstStable`. Otherwise the threshold's noise moves by -c and that of
    each failed test by d_i - d'_i - c, from -2c to 0: what failed still fails by as much, what passed
    passes with room to spare. Passing is free, and failing costs 2c/scale. All noise moves down, so
    it must be symmetric; and the gaps change, so they are not released.
    """

    failures: int

    @property
    def paid(self) -> int:
        """See `_Stable`."""
        return self.failures

    def covers(self, taken: Taken) -> bool:
        """See `_Stable`: the noise of this one must be symmetric."""
        return self.tests.noise == "laplace" and _Stable.covers(self, taken)

    @classmethod
    def plan(
        cls,
        queries: int,
        k: int,
        epsilon: Number,
        delta: Number,
        *,
        share: Number | None = None,
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Self:
        """Plan stability tests of a stream of queries.

        Parameters
        ----------
        k
            Stop after this many queries that failed.
        epsilon, delta
            Budget for k failures. Delta is spent in full.
        share
            Part of epsilon for the threshold's noise; `best_share` for general counts by default.
        queries, sensitivity, resolution
            As in `FirstStable.plan`.
        """
        failures = min(whole(k, "k"), max(queries, 1))
        tests = StabilityTests.plan(
            queries,
            epsilon,
            delta,
            share=best_share(failures, monotone=False) if share is None else share,
            noise="laplace",
            sensitivity=sensitivity,
            resolution=resolution,
            paid=failures,
        )
        return cls(queries, tests, failures, loss=tests.loss(failures) if queries else PrivacyLoss())

    def run(self, distances: OrderedCounts, source: NoiseSource = SYSTEM) -> StableQueries:
        """Test the queries of a stream in public order; distances as in `FirstStable.run`."""
        array = in_order(distances, self.queries, trials=True)
        failed = self.tests.margins(np.atleast_2d(array), source) < 0
        earlier: NDArray[np.int64] = np.cumsum(failed, axis=1) - failed
        tested = earlier < self.failures
        asked, units = tested.sum(axis=1), (tested & failed).sum(axis=1)
        trial, place = np.nonzero(tested & ~failed)
        if array.ndim == 1:
            return StableQueries(self, place, asked[0], units=int(units[0]))
        (index,) = padded(trial, failed.shape, place)
        return StableQueries(self, index, asked, units=units)


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


first_stable = in_one_call(FirstStable.plan)
"""Find the first stable query by its distance; arguments as in `FirstStable.plan`, distances first."""

stable_answers = in_one_call(StableAnswers.plan)
"""Find the stable queries of a stream; arguments as in `StableAnswers.plan`, with the distances first."""
