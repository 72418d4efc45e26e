"""The adaptive sparse vector mechanism with gap: the first groups above a threshold, with their gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms.arguments import Noise, in_order, sparsely_counted
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.kernel.mechanisms.ragged import firsts
from dpsql.kernel.mechanisms.sparse_scan import hits_of
from dpsql.kernel.mechanisms.sparse_vector_plan import Hits, SparseVector, SparseVectorPlan
from dpsql.kernel.order import OrderedCounts, SparseCounts

_BLOCK = 1 << 15
"""Counts of a trial that are compared at once, before it is known whether the scan goes on."""


@dataclass(frozen=True, slots=True)
class AdaptiveSparseVector(SparseVectorPlan):
    """Sparse vector with gap: scans groups for those at or above a threshold; clear hits are charged less.

    Each group is tried in several branches, the noisiest and cheapest first. These pass only with a margin;
    the base branch comes last. The scan stops once no base hit is affordable. Budget that is not used is not
    charged, or pays for more hits. With one branch it is the plain sparse vector.

    Notes
    -----
    Free Gap, Algorithm 2; dissertation, Algorithms 16 and 17; more than two branches are ours.
    *Private:* with c the sensitivity and D' a neighbour, leave all noise as it is but

    - monotone counts, D' the smaller: a hit's noise in its branch moves by q_i - q'_i;
    - otherwise: the threshold's noise moves by c, a hit's noise in its branch by c + q_i - q'_i;
    - counts that a unit moves by low to high, low <= 0 <= high: by high if D' has the unit, else by -low, and
      a hit's noise by that plus q_i - q'_i, which is from 0 to high - low. With c = high - low, and the
      larger of high and -low for the threshold, these are the bounds of monotone counts.

    Hits keep their gaps, and what failed fails by as much or more, so the output is the same, and
    with it which noise moves: the alignment is injective. All moves are upwards, as one-sided noise
    needs. The threshold costs c/scale = epsilon_0 at most, a hit in branch j at most c (2c if not
    monotone) over its scale: epsilon_j. Failing costs nothing. Budget, stop and charge depend on the
    hits' branches alone. Ties need no special rule: noise is compared on its grid by `>=`.

    *Order:* the alignment requires the same scan order on D and D': which groups are scanned before the
    stop, and the order in which hits are released, depend on positions. So the order must be public.

    The centres of one-sided noise are public shifts of the threshold.
    """

    ordered = sparse = True

    @classmethod
    def plan(
        cls,
        groups: int,
        threshold: Number,
        k: int,
        epsilon: Number,
        *,
        limit: int | None = None,
        branches: int = 4,
        share: Number | None = None,
        margin: Number | None = None,
        sensitivity: Number = 1,
        threshold_sensitivity: Number | None = None,
        monotone: bool = True,
        noise: Noise = "exponential",
        resolution: int | None = None,
        below: bool = False,
    ) -> Self:
        """Plan a scan for the groups of a public domain above a threshold.

        Parameters
        ----------
        threshold
            Public, any number.
        k
            Base hits: how many hits in the base branch the budget pays for.
        epsilon
            Budget.
        limit
            Most rows. None: as many as the budget pays for.
        branches
            1 is the plain sparse vector, 2 with `margin=2` the papers' adaptive one.
        share
            Part of the budget for the threshold's noise; `best_share` by default.
        margin
            Margin required in the cheaper branches, in standard deviations of their noise; by default
            max(2, ln(n/k)), which keeps false hits rare in long scans.
        threshold_sensitivity
            For monotone counts that a unit moves by `low` to `high`, of which `sensitivity` is the
            difference: the larger of `high` and `-low`. All of `sensitivity` by default.
        below
            Find groups at or below the threshold instead; gaps are then distances below it.
        groups, sensitivity, monotone, noise, resolution
            As in `Mechanism`.
        """
        return cls._planned(
            groups,
            threshold,
            k,
            epsilon,
            limit=limit,
            branches=branches,
            share=share,
            margin=margin,
            sensitivity=sensitivity,
            threshold_sensitivity=threshold_sensitivity,
            monotone=monotone,
            noise=noise,
            resolution=resolution,
            below=below,
        )

    def run(self, counts: OrderedCounts, source: NoiseSource = SYSTEM) -> SparseVector:
        """Scan counts in a public order; hits are released in this order.

        Groups of sparse counts are scanned by their positions in the domain, and named by these.
        """
        trials, single, blocks = self._hits(counts, source)
        spent, number = np.zeros((2, trials), dtype=np.int64)
        found = [Hits.none()]
        for hits in blocks:
            found.append(self._answered(hits, spent, number))
            if not self._affordable(spent, number).any():
                break
        every = Hits(*(np.concatenate(part) for part in zip(*found, strict=True)))
        return self.released(every, spent, single=single)

    def _hits(self, counts: OrderedCounts, source: NoiseSource) -> tuple[int, bool, Iterator[Hits]]:
        """Return the number of trials, whether it is a single run, and what passes, block by block."""
        if isinstance(counts, OrderedCounts) and isinstance(counts.values, SparseCounts):
            listed = sparsely_counted(counts.values, self.groups)
            if listed.values.ndim != 1:
                raise ValueError("sparse counts are of one run")
            return 1, True, hits_of(self, listed, int(self.threshold_noise(1, source)[0, 0]), source)
        array = in_order(counts, self.groups, trials=True)
        rows = np.atleast_2d(array)
        level = self.threshold_noise(len(rows), source)
        return len(rows), array.ndim == 1, self._blocks(rows, level, source)

    def _blocks(
        self, rows: NDArray[np.int64], level: NDArray[np.int64], source: NoiseSource
    ) -> Iterator[Hits]:
        for start in range(0, self.groups, _BLOCK):
            hits = self.passing(rows[:, start : start + _BLOCK], level, source)
            yield hits._replace(place=start + hits.place)

    def _answered(self, hits: Hits, spent: NDArray[np.int64], number: NDArray[np.int64]) -> Hits:
        """Return the next hits that the budget pays for, and add to what each trial has spent and found."""
        cost, first = 1 << (len(self.scales) - 1 - hits.branch), firsts(hits.trial)
        earlier = np.cumsum(cost) - cost
        before = number[hits.trial] + np.arange(len(first)) - first
        answered = self._affordable(spent[hits.trial] + earlier - earlier[first], before)
        hits = hits.take(answered)
        np.add.at(spent, hits.trial, cost[answered])
        np.add.at(number, hits.trial, 1)
        return hits

    def _affordable(self, spent: NDArray[np.int64], hits: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the scan goes on after so many units and hits: a base hit fits, and the limit."""
        goes_on: NDArray[np.bool_] = spent <= (self.hits - 1) << (len(self.scales) - 1)
        return goes_on if self.limit is None else goes_on & (hits < self.limit)
