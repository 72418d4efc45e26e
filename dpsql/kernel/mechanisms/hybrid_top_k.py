"""Hybrid top-k: at most k largest groups, all above a threshold that is one more item of noisy top-k."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss, exact
from dpsql.kernel.mechanisms.arguments import Noise, bound, counted, kind, positive, sparsely_counted, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of, in_counts, placed
from dpsql.kernel.mechanisms.mechanism import Result
from dpsql.kernel.mechanisms.sparse import NoisyOrder
from dpsql.kernel.order import SparseCounts


@dataclass(frozen=True, eq=False, slots=True)
class Hybrid(Result["HybridTopK"]):
    """The largest groups whose noisy counts exceed the threshold's, best first, with the gaps between them.

    Attributes
    ----------
    index
        int64, positions of the groups in the counts.
    gap
        float64, one a group, in counts: to the next one; the last group's is to the threshold if that
        was reached, else to the best group not released. Floored to the grid.
    reached_threshold
        Whether the threshold is the next item. If so, sums of gaps plus the threshold estimate the
        counts, and no further group has a noisy count above it.
    rest
        Gap of the threshold to the best group not released; NaN if it was not determined.
    """

    index: NDArray[np.int64]
    gap: NDArray[np.float64]
    reached_threshold: NDArray[np.bool_]
    rest: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HybridTopK(NoisyOrder[Hybrid]):
    """Noisy top-k in which a threshold takes part: only the groups before it are released and charged.

    The threshold is one more item, with noise of the same law.

    Attributes
    ----------
    k
        Most groups, and most items that are placed; as given, but not above the number of groups.
    level
        The threshold in grid steps, rounded up; negated if groups below it are chosen.

    Notes
    -----
    Dissertation, Algorithm 19. *Private:* the alignment of `NoisyTopK` with the t placed items as
    winners; the threshold's own count never moves, which both directions of monotone counts allow.
    t noises move, or t - 1 and the best loser, each by c/scale = epsilon/k at most (2c/scale if not
    monotone). With k >= n the scale is that for k = n: the last of n + 1 places is determined by the others.
    The charge is t/k of epsilon for t items placed, the threshold included.

    Counts that move by low to high are monotone with c = high - low: the threshold moves by 0, which
    low <= 0 <= high allows, like a group without a part of the unit.

    *Order:* as in `NoisyTopK`, the law does not depend on positions.
    """

    sparse = True

    level: int
    below: bool

    @classmethod
    def plan(
        cls,
        groups: int,
        threshold: Number,
        k: int,
        epsilon: Number,
        *,
        sensitivity: Number = 1,
        monotone: bool = True,
        noise: Noise = "exponential",
        resolution: int | None = None,
        below: bool = False,
    ) -> HybridTopK:
        """Plan a choice of at most k largest groups above a public threshold; epsilon pays for k of them.

        With `below`, the smallest groups at or below the threshold are chosen.
        """
        k, budget, moved, noise = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity), kind(noise)
        level, paid = exact(threshold), min(k, groups)
        if paid == 0:
            return cls(groups, 0, noise, Fraction(0), 0, 0, below, loss=PrivacyLoss())
        scale = paid * moved * (1 if monotone else 2) / budget
        bits = grid_of(noise, resolution, scale)
        # Twice the limit of counts is beyond every count.
        beyond, steps = 2 * exact_noise.STEP_LIMIT, math.ceil((-level if below else level) * (1 << bits))
        steps = max(-beyond, min(steps, beyond))
        return cls(groups, paid, noise, scale, bits, steps, below, loss=PrivacyLoss.of(budget))

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: of each of k items the noise moves by the range of the changes, 0 among them."""
        return self.k * taken.span <= (self.loss.epsilon or 0) * self.scale

    def realised(self, units: int) -> PrivacyLoss:
        """Return the loss of a run that placed so many items."""
        if not self.k:
            return PrivacyLoss()
        return PrivacyLoss.of(self.loss.charge.epsilon * units / self.k)

    def run(self, counts: ArrayLike | SparseCounts, source: NoiseSource = SYSTEM) -> Hybrid:
        """Choose from counts in any order; groups of sparse ones are named by their positions."""
        if isinstance(counts, SparseCounts):
            listed = sparsely_counted(counts, self.groups)
            return self._chosen(listed.values, listed.positions, source)
        return self._chosen(counted(counts, self.groups, trials=True), None, source)

    def _chosen(
        self, array: NDArray[np.int64], positions: NDArray[np.int64] | None, source: NoiseSource
    ) -> Hybrid:
        """Choose from the counts of all groups, or of those at some positions where the others are empty."""
        shape = array.shape[:-1]
        if not self.k:
            index, gap = np.zeros((*shape, 0), dtype=np.int64), np.zeros((*shape, 0))
            return Hybrid(self, index, gap, np.ones(shape, dtype=np.bool_), np.full(shape, np.nan))
        values = np.empty((*shape, array.shape[-1] + 1), dtype=np.int64)
        values[..., 0] = self.level
        values[..., 1:] = placed(array, self.resolution, negated=self.below)
        taking_part: NDArray[np.int64] | SparseCounts = values
        if positions is not None:
            taking_part = SparseCounts(values, np.concatenate([[0], positions + 1]), self.groups + 1)
        items, steps = self.order(taking_part, source)
        gaps = in_counts(steps, self.resolution)
        before = np.cumsum(items == 0, axis=-1) == 0
        released = before.sum(axis=-1)
        threshold_placed = released < self.k
        index, gap = np.where(before, items - 1, -1), np.where(before, gaps, np.nan)
        return Hybrid(
            self,
            index if shape else index[before],
            gap if shape else gap[before],
            threshold_placed | (released == self.groups),
            np.where(threshold_placed, np.where(items == 0, gaps, 0).sum(axis=-1), np.nan),
            units=released + threshold_placed,
        )
