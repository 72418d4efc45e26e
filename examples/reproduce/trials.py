"""The product's mechanisms, many independent runs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql import mechanisms
from dpsql.estimates import GapNoise, Strategy, measuring_share
from dpsql.kernel.noise import Entropy
from dpsql.kernel.public_order import in_public_order

__all__ = [
    "Affine",
    "Halves",
    "TopKRuns",
    "affine",
    "blocks",
    "charges",
    "measured",
    "threshold_runs",
    "top_k_runs",
    "totals",
]

_CELLS = 4_000_000
"""Most counts with noise that are held at once."""

_WIDE = 3000


@dataclass(frozen=True, slots=True)
class Halves:
    """A top-k that measures by EACH or ANCHOR: the epsilon that selects, and the scale that measures."""

    k: int
    noise: mechanisms.Noise
    selecting: Fraction
    scale: Fraction
    share: Fraction

    @classmethod
    def of(
        cls, strategy: Strategy, k: int, epsilon: Fraction, noise: mechanisms.Noise, groups: int | None = None
    ) -> Halves:
        """Divide epsilon at the product's share."""
        share = measuring_share(strategy, k, noise=noise, domain_size=groups)
        return cls(k, noise, epsilon * (1 - share), k / (epsilon * share), share)


@dataclass(frozen=True, slots=True)
class TopKRuns:
    """Runs of noisy top-k: `index` int64 (trials, k), `gap` float64 (trials, k), noise, one run's charge."""

    index: NDArray[np.int64]
    gap: NDArray[np.float64]
    scale: Fraction
    noise: GapNoise
    epsilon: Fraction


def blocks(trials: int, groups: int) -> Iterator[int]:
    """Cut trials into blocks that fit the memory."""
    size = max(1, _CELLS // groups)
    for start in range(0, trials, size):
        yield min(size, trials - start)


def top_k_runs(
    counts: NDArray[np.int64],
    k: int,
    epsilon: Fraction,
    trials: int,
    entropy: Entropy,
    noise: mechanisms.Noise = "exponential",
) -> TopKRuns:
    """Run noisy top-k so many times on the same counts."""
    plan = mechanisms.NoisyTopK.plan(len(counts), k, epsilon, noise=noise)
    source = mechanisms.NoiseSource(entropy)
    if len(counts) > _WIDE:
        # Over many groups single runs are faster: they complete noise only where it can matter.
        found = [plan.run(counts, source) for _ in range(trials)]
        index, gap = np.stack([r.index for r in found]), np.stack([r.gap for r in found])
    else:
        found = [
            plan.run(np.broadcast_to(counts, (size, len(counts))), source)
            for size in blocks(trials, len(counts))
        ]
        index, gap = np.concatenate([r.index for r in found]), np.concatenate([r.gap for r in found])
    return TopKRuns(
        index, gap, plan.scale, GapNoise(plan.noise, plan.scale, plan.resolution), plan.loss.charge.epsilon
    )


def threshold_runs(
    counts: NDArray[np.int64],
    thresholds: NDArray[np.int64],
    k: int,
    epsilon: Fraction,
    entropy: Entropy,
    **options: object,
) -> Iterator[tuple[NDArray[np.int64], mechanisms.SparseVector]]:
    """Run the sparse vector family once for each threshold; yield them in blocks with their runs.

    A threshold is public: to subtract it from the counts and compare with 0 is the same.
    """
    start = 0
    for size in blocks(len(thresholds), len(counts)):
        part = thresholds[start : start + size]
        start += size
        below = counts[None, :] - part[:, None]
        plan = mechanisms.AdaptiveSparseVector.plan(len(counts), 0, k, epsilon, **options)  # type: ignore[arg-type]
        yield part, plan.run(in_public_order(below), mechanisms.NoiseSource(entropy))


def charges(runs: mechanisms.SparseVector) -> list[Fraction]:
    """Return the epsilon that each run spent."""
    return [runs.plan.realised_loss(int(units)).charge.epsilon for units in np.atleast_1d(runs.units)]


def measured(exact: NDArray[np.int64], scale: Fraction, entropy: Entropy) -> tuple[NDArray[np.float64], int]:
    """Measure every count of every trial; return them in the shape they came, and the grid."""
    found = mechanisms.laplace(exact, scale, entropy=entropy)
    return found.value, found.plan.resolution


def totals(exact: NDArray[np.int64], scale: Fraction, entropy: Entropy) -> tuple[NDArray[np.float64], int]:
    """Measure the total of each trial, as an ANCHOR does."""
    found = mechanisms.anchor(exact, scale, entropy=entropy)
    return found.value[:, 0], found.plan.resolution


@dataclass(frozen=True, slots=True)
class Affine:
    """An affine function of vectors."""

    matrix: NDArray[np.float64]
    constant: NDArray[np.float64]

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply it to every row."""
        result: NDArray[np.float64] = rows @ self.matrix + self.constant
        return result


def affine(estimate: Callable[[NDArray[np.float64]], NDArray[np.float64]], size: int) -> Affine:
    """Learn the product's estimate from its values at zero and at the unit vectors.

    The best *linear* unbiased estimate is affine in what was released, so thousands of trials take one
    product of matrices.
    """
    constant = estimate(np.zeros(size))
    return Affine(np.stack([estimate(row) - constant for row in np.eye(size)]), constant)
