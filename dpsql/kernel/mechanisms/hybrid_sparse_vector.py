"""The hybrid sparse vector: at most k largest groups above a threshold, each with its gap over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms.arguments import Noise, counted
from dpsql.kernel.mechanisms.contenders import ascending
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.kernel.mechanisms.ragged import firsts
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVector, SparseVectorPlan


@dataclass(frozen=True, slots=True)
class HybridSparseVector(SparseVectorPlan):
    """A sparse vector that takes the groups in the order of their noisy counts, the largest first.

    Noisier than `HybridTopK`, but every gap plus the threshold estimates a count.

    Notes
    -----
    Dissertation, Algorithm 20. *Private:* the alignment of `AdaptiveSparseVector`. Measured from
    the noisy threshold, what is released keeps its noisy value, and all else keeps it or falls; so
    with the same ranks the order, ties by rank, and the cut at k stay as they are. The charge is
    (share + t/k (1 - share)) epsilon for t groups.

    *Order:* a tie goes to the larger rank of a uniformly random permutation, drawn for the hits alone: which
    they are depends on counts and noise, and a uniform permutation of all groups restricted to them is again
    uniform. So the law does not depend on positions, and the groups may come in any order, even one that
    depends on a privacy unit. Trials draw one permutation of all their hits, whose restrictions to the hits
    of each trial are independent.
    """

    @classmethod
    def plan(
        cls,
        groups: int,
        threshold: Number,
        k: int,
        epsilon: Number,
        *,
        share: Number | None = None,
        sensitivity: Number = 1,
        threshold_sensitivity: Number | None = None,
        monotone: bool = True,
        noise: Noise = "exponential",
        resolution: int | None = None,
        below: bool = False,
    ) -> Self:
        """Plan a choice of at most k largest groups above a threshold; epsilon pays for k of them.

        Further arguments are as in `AdaptiveSparseVector.plan`.
        """
        return cls._planned(
            groups,
            threshold,
            k,
            epsilon,
            share=share,
            sensitivity=sensitivity,
            threshold_sensitivity=threshold_sensitivity,
            monotone=monotone,
            noise=noise,
            resolution=resolution,
            below=below,
        )

    def least_gaps(self, found: SparseVector) -> NDArray[np.float64]:
        """Return the least gaps; where the cut at k took effect, a hit had to exceed another group too.

        That group is not released. Its gap is at most the least one released, and ties went by rank: so that
        gap plus one grid step is a bound for every hit.
        """
        least = SparseVectorPlan.least_gaps(self, found)
        if self.hits == self.groups:
            return least
        hit = found.index >= 0
        smallest = np.where(hit, found.gap, np.inf).min(axis=-1, keepdims=True, initial=np.inf)
        full = hit.sum(axis=-1, keepdims=True) == self.hits
        return np.where(full, np.maximum(least, smallest + 0.5**self.resolution), least)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> SparseVector:
        """Choose from counts in any order; the largest noisy count is released first."""
        array = counted(counts, self.groups, trials=True)
        rows = np.atleast_2d(array)
        hits = self.passing(rows, self.threshold_noise(len(rows), source), source)
        ranks = source.ranks(len(hits.trial))
        hits = hits.take(ascending(hits.steps, ranks)[::-1])
        hits = hits.take(np.argsort(hits.trial, kind="stable"))
        hits = hits.take(np.arange(len(ranks)) - firsts(hits.trial) < self.hits)
        return self.released(hits, np.bincount(hits.trial, minlength=len(rows)), single=array.ndim == 1)
