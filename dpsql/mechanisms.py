"""Mechanisms by themselves, for research: each in one call, without SQL.

The functions plan for the number of counts they are given and run at once; the result's `plan` is the
mechanism that ran. Statements and the command line never call them. The proofs are those of the kernel's
classes, all of which are here, too.

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
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsql.kernel import mechanisms as kernel_mechanisms
from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms import *  # noqa: F403  all of them, under one name
from dpsql.kernel.mechanisms import (
    AdaptiveSparseVector,
    Box,
    Existing,
    Exponential,
    Extreme,
    FirstStable,
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
    StableAnswers,
    TopK,
    TopStable,
)
from dpsql.kernel.mechanisms.mechanism import (
    Mechanism,
    R,
    bound,
    positive,
)
from dpsql.kernel.noise import Entropy
from dpsql.kernel.public_order import BoundedCounts, OrderedCounts, SparseCounts

__all__ = [
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
) -> Measured[Laplace]:
    """Release each of k counts with Laplace noise of scale k c/epsilon, for counts of sensitivity c."""
    size = max(np.shape(counts)[-1:], default=0)
    epsilon = max(size, 1) * bound(sensitivity) / positive(scale, "scale")
    return release_all(counts, epsilon, sensitivity=sensitivity, **options)


anchor = partial(laplace, total=True)
"""Release the total of given counts with noise of this scale, k c/epsilon for k counts."""
