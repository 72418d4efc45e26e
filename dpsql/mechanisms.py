"""Mechanisms by themselves, for research: each in one call, without SQL.

The functions plan for the number of counts they are given and run at once; the result's `plan` is the
mechanism that ran. Statements and the command line never call them. The proofs are those of the kernel's
classes, all of which are here, too; those of stable queries (exact answers of any type, released if no single
unit could change them) are below, since no statement has any.

Selection: `noisy_top_k`, `noisy_max`, `sparse_vector`, `adaptive_sparse_vector`, `hybrid_top_k`,
`hybrid_sparse_vector`, `exponential`, `joint`; by rounds that are charged one by one `peeled_top_k`,
`gumbel_top_k`, `sparse_vector_by_rounds`; on an unknown domain `limited_domain`, `top_stable`,
`limited_then_stable`. Queries whose answer no single unit could change: `first_stable`, `stable_answers`.
Measuring what was selected: `box` (one noise for all counts), `gaussian` (noise of concentrated privacy),
`laplace` (each count), `anchor` (their total); `release_all` measures all groups.
On a public grid of values: `quantile`, `extreme`. Among powers of two, a bound of contributions: `ladder`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import mechanisms as kernel_mechanisms
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms import *  # noqa: F403  all of them, under one name
from dpsql.kernel.mechanisms import (
    AdaptiveSparseVector,
    Box,
    Existing,
    Exponential,
    Extreme,
    Gaussian,
    GumbelTopK,
    HybridSparseVector,
    HybridTopK,
    Joint,
    Ladder,
    Laplace,
    LimitedDomain,
    LimitedThenStable,
    Measured,
    NoiseSource,
    NoisyTopK,
    PeeledTopK,
    Quantile,
    SparseVectorByRounds,
    TopK,
    TopStable,
)
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Mechanism,
    R,
    Result,
    bound,
    in_counts,
    in_order,
    pad_rows,
    positive,
    whole,
)
from dpsql.kernel.mechanisms.sparse_vector_plan import best_share
from dpsql.kernel.mechanisms.top_stable import StabilityTests, StableNoise, first_test
from dpsql.kernel.noise import Entropy
from dpsql.kernel.public_order import BoundedCounts, OrderedCounts, SparseCounts

__all__ = [
    "FirstStable",
    "StableAnswers",
    "StableQueries",
    "StableQuery",
    "adaptive_sparse_vector",
    "anchor",
    "box",
    "existing_groups",
    "exponential",
    "extreme",
    "first_stable",
    "gaussian",
    "gumbel_top_k",
    "hybrid_sparse_vector",
    "hybrid_top_k",
    "joint",
    "ladder",
    "laplace",
    "limited_domain",
    "limited_then_stable",
    "noisy_max",
    "noisy_top_k",
    "peeled_top_k",
    "quantile",
    "release_all",
    "sparse_vector",
    "sparse_vector_by_rounds",
    "stable_answers",
    "top_stable",
]
__all__ += kernel_mechanisms.__all__


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
        """Whether the noise is enough where one unit moves distances by at most c, up or down."""
        if not self.queries:
            return True
        return self.loss == self.tests.loss(self.paid) and self.tests.cover(taken.most, self.queries)

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run that pays for a given number of tests."""
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
        array = in_order(distances, self.queries, trials=True)
        failed = self.tests.margins(np.atleast_2d(array), source) < 0
        earlier: NDArray[np.int64] = np.cumsum(failed, axis=1) - failed
        tested = earlier < self.failures
        asked, units = tested.sum(axis=1), (tested & failed).sum(axis=1)
        trial, place = np.nonzero(tested & ~failed)
        if array.ndim == 1:
            return StableQueries(self, place, asked[0], units=int(units[0]))
        (index,) = pad_rows(trial, failed.shape, place)
        return StableQueries(self, index, asked, units=units)


def of_any_size(plan: Callable[..., Mechanism[R]]) -> Callable[..., Mechanism[R]]:
    """Return a plan that takes the number of counts and ignores it: it may be private."""

    def function(groups: int, /, *args: Any, **kwargs: Any) -> Mechanism[R]:  # noqa: ANN401  as `plan`
        del groups
        return plan(*args, **kwargs)

    function.__doc__ = plan.__doc__
    return function


def in_one_call(plan: Callable[..., Mechanism[R]]) -> Callable[..., R]:
    """Return the function that plans a mechanism for the counts that it is given, and runs it on them.

    It takes the counts instead of their number and, for tests, `entropy`, the source of random bits.
    """

    def function(counts: Any, /, *args: Any, entropy: Entropy | None = None, **kwargs: Any) -> R:  # noqa: ANN401  as `plan`
        values = counts.values if isinstance(counts, OrderedCounts) else counts
        values = values.upper if isinstance(values, BoundedCounts) else values
        shape = (values.size,) if isinstance(values, SparseCounts) else np.shape(values)
        return plan(shape[-1] if shape else 0, *args, **kwargs).run(counts, NoiseSource(entropy))

    function.__doc__ = plan.__doc__
    return function


noisy_top_k = in_one_call(NoisyTopK.plan)
"""Choose the k largest of given counts; arguments as in `NoisyTopK.plan`, with the counts first."""

adaptive_sparse_vector = in_one_call(AdaptiveSparseVector.plan)
"""Find the groups of given counts above a threshold; arguments as in `AdaptiveSparseVector.plan`."""

box = in_one_call(Box.plan)
"""Release each of given counts with one common noise; arguments as in `Box.plan`, with the counts first."""

existing_groups = in_one_call(of_any_size(Existing.plan))
"""Release the groups with enough units; arguments as in `Existing.plan`, with the numbers of units first."""

exponential = in_one_call(Exponential.plan)
"""Choose one of given counts; arguments as in `Exponential.plan`, with the counts first."""

extreme = in_one_call(Extreme.plan)
"""Choose the cell of one histogram; arguments as in `Extreme.plan`, with the counts first."""

first_stable = in_one_call(FirstStable.plan)
"""Find the first stable query by its distance; arguments as in `FirstStable.plan`, distances first."""

gaussian = in_one_call(Gaussian.plan)
"""Release each of given counts; arguments as in `Gaussian.plan`, with the counts first."""

gumbel_top_k = in_one_call(GumbelTopK.plan)
"""Choose the k largest of given counts; arguments as in `GumbelTopK.plan`, with the counts first."""

hybrid_sparse_vector = in_one_call(HybridSparseVector.plan)
"""Choose the largest of given counts above a threshold; arguments as in `HybridSparseVector.plan`."""

hybrid_top_k = in_one_call(HybridTopK.plan)
"""Choose at most k largest of given counts; arguments as in `HybridTopK.plan`, with the counts first."""

joint = in_one_call(Joint.plan)
"""Choose the k largest of given counts; arguments as in `Joint.plan`, with the counts first."""

ladder = in_one_call(Ladder.plan)
"""Choose a rung by given numbers of units; arguments as in `Ladder.plan`, with the numbers first."""

limited_domain = in_one_call(of_any_size(LimitedDomain.plan))
"""Choose the k largest of given counts; arguments as in `LimitedDomain.plan`, with the counts first."""

limited_then_stable = in_one_call(of_any_size(LimitedThenStable.plan))
"""Choose the k largest of given counts; arguments as in `LimitedThenStable.plan`, with the counts first."""

peeled_top_k = in_one_call(PeeledTopK.plan)
"""Choose the k largest of given counts; arguments as in `PeeledTopK.plan`, with the counts first."""

quantile = in_one_call(Quantile.plan)
"""Choose the quantiles' cells of one histogram; arguments as in `Quantile.plan`, with the counts first."""

sparse_vector = in_one_call(partial(AdaptiveSparseVector.plan, branches=1))
"""Find the first k groups above a threshold: `adaptive_sparse_vector` with one branch."""

sparse_vector_by_rounds = in_one_call(SparseVectorByRounds.plan)
"""Find the first k groups of given counts above a threshold; arguments as in `SparseVectorByRounds.plan`."""

stable_answers = in_one_call(StableAnswers.plan)
"""Find the stable queries of a stream; arguments as in `StableAnswers.plan`, with the distances first."""

top_stable = in_one_call(of_any_size(TopStable.plan))
"""Find the largest groups of given counts; arguments as in `TopStable.plan`, with the counts first."""

release_all = in_one_call(Laplace.plan)
"""Release each of given counts; arguments as in `Laplace.plan`, with the counts first."""


def noisy_max(counts: ArrayLike, epsilon: Number, **options: Any) -> TopK[NoisyTopK]:  # noqa: ANN401  as `noisy_top_k`
    """Choose the largest group, and its gap to the next one: `noisy_top_k` with k = 1."""
    return noisy_top_k(counts, 1, epsilon, **options)


def laplace(
    counts: ArrayLike,
    scale: Number,
    *,
    sensitivity: Number = 1,
    **options: Any,  # noqa: ANN401  as `release_all`
) -> Measured:
    """Release each of k counts with Laplace noise of scale k c/epsilon, for counts of sensitivity c."""
    size = max(np.shape(counts)[-1:], default=0)
    epsilon = max(size, 1) * bound(sensitivity) / positive(scale, "scale")
    return release_all(counts, epsilon, sensitivity=sensitivity, **options)


anchor = partial(laplace, total=True)
"""Release the total of given counts with noise of this scale, k c/epsilon for k counts."""
