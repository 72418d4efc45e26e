"""Stable queries: exact answers of any type, released if no single unit could change them.

No statement has any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import in_order, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, in_counts
from dpsql.kernel.mechanisms.mechanism import Mechanism, R, Result
from dpsql.kernel.mechanisms.ragged import padded
from dpsql.kernel.mechanisms.sparse_vector_plan import best_share
from dpsql.kernel.mechanisms.stable import StabilityTests, StableNoise, first_test
from dpsql.kernel.order import OrderedCounts


@dataclass(frozen=True, slots=True)
class _Stable(Mechanism[R]):
    """Stability tests of a number of queries at public positions."""

    ordered = True

    queries: int
    tests: StabilityTests

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: distances change by at most c, up or down."""
        return self.tests.cover(taken.most)

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
