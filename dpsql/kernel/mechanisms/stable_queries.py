"""Stable queries: exact answers that no single unit could change; the first of a list, or those of a stream.

The distances that they test are those of `kernel.stable_questions`.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.check_stream import ChargedByMiss
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Mechanism,
    NoiseSource,
    R,
    Result,
    in_counts,
    in_order,
    pad_rows,
    whole,
)
from dpsql.kernel.mechanisms.sparse_vector_plan import best_share
from dpsql.kernel.mechanisms.top_stable import StabilityTests, StableNoise, first_test
from dpsql.kernel.public_order import OrderedCounts
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Stable(Mechanism[R]):
    """Stability tests of a number of queries at public positions: a base."""

    ordered = True

    queries: int
    tests: StabilityTests

    @property
    def paid(self) -> int:
        """How many tests are paid for."""
        return 1

    @property
    def misses(self) -> int:
        """How many tests are paid for, for `StableStream`."""
        return self.paid

    def covers(self, taken: Taken) -> bool:
        """Whether the noise is enough where one unit moves distances by at most c, up or down."""
        if not self.queries:
            return True
        return self.loss == self.tests.loss(self.paid) and self.tests.cover(taken.most, self.queries)

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run that pays for a given number of tests."""
        return self.tests.loss(units) if self.queries else self.loss


@dataclass(frozen=True, eq=False, slots=True)
class StableQuery(Result["FirstStable"]):
    """The first query that passed its stability test, if any did."""

    index: NDArray[np.int64]
    """int64, its position: one, or none. Its exact answer may be released."""
    gap: NDArray[np.float64]
    """float64, the excess over the cutoff, in counts: a multiple of 2^-resolution, not negative. Apart from
    selection bias, gap + `plan.tests.threshold` is an unbiased estimate of the distance."""


@dataclass(frozen=True, slots=True)
class FirstStable(_Stable[StableQuery]):
    """Finds the first query of a list whose exact answer is safe to release; a test that passes is paid for.

    Notes
    -----
    *Private:* as `StabilityTests` says.
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
            queries, epsilon, delta, share=share, noise=noise, sensitivity=sensitivity, resolution=resolution
        )
        return cls(queries, tests, loss=tests.loss(1) if queries else PrivacyLoss())

    def run(self, distances: OrderedCounts, source: NoiseSource = SYSTEM) -> StableQuery:
        """Test the queries of a list in public order.

        A query's distance to instability is how many units must be added or removed before one more could
        change its answer; 0 if one could.
        """
        array = in_order(distances, self.queries)
        at, steps = first_test(self.tests.margins(np.atleast_2d(array), source))
        passed = at >= 0
        gap = np.where(passed, in_counts(steps, self.tests.resolution), np.nan)
        if array.ndim == 1:
            return StableQuery(self, at[passed], gap[passed], units=int(passed[0]))
        return StableQuery(self, at[:, None], gap[:, None], units=passed.astype(np.int64))


@dataclass(frozen=True, eq=False, slots=True)
class StableQueries(Result["StableAnswers"]):
    """Which queries of a stream passed their stability tests."""

    index: NDArray[np.int64]
    """int64, positions of the queries that passed, ascending: their exact answers may be released."""
    asked: NDArray[np.int64]
    """int64, how many queries of the stream were tested, counted from the first."""


@dataclass(frozen=True, slots=True)
class StableAnswers(_Stable[StableQueries]):
    """Answers the stable queries of a stream exactly; only queries that fail the test are paid for.

    `StableStream` runs it interactively.

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
    """The stream stops after this many queries that failed."""

    @property
    def paid(self) -> int:
        """How many tests are paid for: those that may fail."""
        return self.failures

    def covers(self, taken: Taken) -> bool:
        """Whether the noise is enough where distances may move up and down: it must be symmetric, too."""
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
        array = in_order(distances, self.queries)
        failed = self.tests.margins(np.atleast_2d(array), source) < 0
        earlier: NDArray[np.int64] = np.cumsum(failed, axis=1) - failed
        tested = earlier < self.failures
        asked, units = tested.sum(axis=1), (tested & failed).sum(axis=1)
        trial, place = np.nonzero(tested & ~failed)
        if array.ndim == 1:
            return StableQueries(self, place, asked[0], units=int(units[0]))
        (index,) = pad_rows(trial, failed.shape, place)
        return StableQueries(self, index, asked, units=units)


class _Tests:
    """The state of one stream: the threshold's noise, and how many tests were paid for."""

    def __init__(self, plan: FirstStable | StableAnswers, threshold: NoiseSource) -> None:
        tests = plan.tests
        self.level = int(threshold.draw(tests.law, tests.threshold_scale, tests.resolution, 1)[0])
        self.used = np.zeros(1, dtype=np.int64)


class StableStream(ChargedByMiss):
    """Tests queries one after the other: those of a list up to the first stable one, or those of a stream.

    Of a list, the test that passes is paid for; of a stream those that fail.

    Parameters
    ----------
    plan
        States the proof, and what the stream costs.
    source
        Of noise; for tests.
    threshold
        Of the threshold's noise; None: `source`. One that outlives a process is drawn the same each time.
    used, asked
        How many tests were paid for before, and how many queries were asked.
    """

    plan: FirstStable | StableAnswers
    _checks: _Tests

    def __init__(
        self,
        plan: FirstStable | StableAnswers,
        source: NoiseSource = SYSTEM,
        *,
        threshold: NoiseSource | None = None,
        used: int = 0,
        asked: int = 0,
    ) -> None:
        self.plan, self._source, self.asked = plan, source, asked
        self._checks = _Tests(plan, threshold or source)
        self._checks.used += used
        self._asked = asked > 0
        self._alone = threading.Lock()

    @property
    def threshold_steps(self) -> int:
        """The noise of the threshold, in grid steps: private, and shown to nobody."""
        return self._checks.level

    def test(self, distance: Fraction) -> bool:
        """Return whether the answer of a query may be released, given its distance, which is private.

        It is in units of what one unit of the data moves it, and is rounded down to the grid. That moves by
        at most the sensitivity, a whole number of grid steps, since rounding down commutes with whole shifts.

        Raises
        ------
        RuntimeError
            If all tests that are paid for are used up, or as many queries were asked as delta is for.
        """
        tests = self.plan.tests
        with self._alone:
            if self.exhausted or self.asked >= self.plan.queries:
                raise RuntimeError("the stream is used up: nothing more is answered")
            self._asked, self.asked = True, self.asked + 1
            steps = max(0, min(math.floor(distance * (1 << tests.resolution)), exact_noise.STEP_LIMIT))
            (noise,) = self._source.draw(tests.law, tests.scale, tests.resolution, 1)
            passed = steps + int(noise) - self._checks.level >= tests.cutoff
            self._checks.used += passed == isinstance(self.plan, FirstStable)
        return passed
