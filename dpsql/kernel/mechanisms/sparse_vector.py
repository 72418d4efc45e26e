"""The sparse vector mechanisms with gap: adaptive, by rounds, and hybrid, which has the largest groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Noise,
    NoiseSource,
    as_bounded_counts,
    as_counts,
    as_sparse_counts,
    firsts,
    in_order,
    whole,
)
from dpsql.kernel.mechanisms.noisy_order import ascending
from dpsql.kernel.mechanisms.sparse_vector_plan import Hits, SparseVector, SparseVectorPlan, hits_of
from dpsql.kernel.public_order import BoundedCounts, OrderedCounts, SparseCounts
from dpsql.lazy_dataclass import dataclass

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
            found.append(self._answer(hits, spent, number))
            if not self._affordable(spent, number).any():
                break
        every = Hits(*(np.concatenate(part) for part in zip(*found, strict=True)))
        return self.make_result(every, spent, single=single)

    def _hits(self, counts: OrderedCounts, source: NoiseSource) -> tuple[int, bool, Iterator[Hits]]:
        """Return the number of trials, whether it is a single run, and what passes, block by block."""
        if isinstance(counts, OrderedCounts) and isinstance(counts.values, SparseCounts):
            listed = as_sparse_counts(counts.values, self.groups)
            if listed.values.ndim != 1:
                raise ValueError("sparse counts are of one run")
            return 1, True, hits_of(self, listed, int(self.threshold_noise(1, source)[0, 0]), source)
        if isinstance(counts, OrderedCounts) and isinstance(counts.values, BoundedCounts):
            known = as_bounded_counts(counts.values, self.groups)
            if self.bounded:
                most = ((self.hits - 1) << (len(self.scales) - 1)) + 1
                first = 3 * (min(most, self.limit or most) + 1) // 2
                at = int(self.threshold_noise(1, source)[0, 0])
                return 1, True, self.bounded_hits(known, at, first, source)
            counts = OrderedCounts(known.complete())
        array = in_order(counts, self.groups)
        rows = np.atleast_2d(array)
        level = self.threshold_noise(len(rows), source)
        return len(rows), array.ndim == 1, self._blocks(rows, level, source)

    def _blocks(
        self, rows: NDArray[np.int64], level: NDArray[np.int64], source: NoiseSource
    ) -> Iterator[Hits]:
        for start in range(0, self.groups, _BLOCK):
            hits = self.passing(rows[:, start : start + _BLOCK], level, source)
            yield hits._replace(place=start + hits.place)

    def _answer(self, hits: Hits, spent: NDArray[np.int64], number: NDArray[np.int64]) -> Hits:
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


_ROUND_BLOCK = 1 << 12
"""Counts of a trial that are compared at once, before it is known whether the round goes on."""


@dataclass(frozen=True, slots=True)
class SparseVectorByRounds(SparseVectorPlan):
    """Finds the first k groups at or above a threshold, each in a round with its own noisy threshold.

    A round scans what the one before left, up to the first hit, with fresh noise of the threshold and of
    each group. All rounds have the same epsilon e. A run with t hits is charged t + 1 rounds; or t, if t = k
    or the last hit is the last group.

    Attributes
    ----------
    hits
        The most rounds, and hits: k, or the number of groups if that is smaller.
    share
        The part of a round's epsilon that pays for its threshold's noise.

    Notes
    -----
    Each round is the plain sparse vector with one hit (dissertation, Algorithm 17); that rounds which did not
    run are not charged is ours.
    *Private:* a round runs on the counts after the last hit. Its position was released, so the round is one
    mechanism, fixed by what was released before, on counts that a unit moves as it moves all. Its noise is
    fresh, so it is e-DP given all earlier outputs: the proof of `AdaptiveSparseVector`, with one branch and
    one hit. Let there be k rounds, of which those after the run's end release nothing. They compose
    adaptively to k e. A round that releases nothing whatever the counts are has loss 0, and which ones these
    are is told by the released positions: so the loss of an output is at most e for each round that ran, and
    the charge bounds it both ways.
    *Order:* as for `AdaptiveSparseVector`, the scan order must be public.

    The variance of a gap is 8 (c/e)^2 with exponential noise on monotone counts, whatever k is. That of one
    threshold for all hits is (1 + k^(2/3))^3 (c/epsilon)^2, which is less by basic composition, where e is
    epsilon/k; where k rounds of e cost as much as one of e sqrt(k), rounds have 8 k against it.
    """

    ordered = True

    @property
    def bounded(self) -> bool:
        """Whether bounds are enough: all groups that are scanned are counted."""
        return False

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
        """Plan a scan for the first k groups of a public domain above a threshold.

        `epsilon` is that of all min(k, groups) rounds together, by basic composition: each has an equal part.
        `share` is the part of each that pays for its threshold, `best_share` of one hit by default. Other
        arguments as in `AdaptiveSparseVector.plan`.
        """
        return cls._planned(
            groups,
            threshold,
            1,
            epsilon,
            rounds=min(whole(k, "k"), max(groups, 1)),
            share=share,
            sensitivity=sensitivity,
            threshold_sensitivity=threshold_sensitivity,
            monotone=monotone,
            noise=noise,
            resolution=resolution,
            below=below,
        )

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run of a given number of rounds."""
        return PrivacyLoss.of(self.loss.charge.epsilon / self.hits, times=units)

    def run(self, counts: OrderedCounts, source: NoiseSource = SYSTEM) -> SparseVector:
        """Scan counts in a public order; hits are released in this order."""
        array = in_order(counts, self.groups)
        rows = np.atleast_2d(array)
        trials, found = len(rows), [Hits.none()]
        after, begun = np.zeros((2, trials), dtype=np.int64)
        level = np.zeros((trials, 1), dtype=np.int64)
        starts = running = np.full(trials, self.groups > 0)
        for start in range(0, self.groups, _ROUND_BLOCK):
            if not running.any():
                break
            part, scanning = rows[:, start : start + _ROUND_BLOCK], running
            while scanning.any():
                if starts.any():
                    begun += starts
                    level[starts] = self.threshold_noise(trials, source)[starts]
                first = max(int(after[scanning].min()) - start, 0)
                hits = self.passing(part[:, first:], level, source)
                hits = hits._replace(place=hits.place + first + start)
                hits = hits.take(scanning[hits.trial] & (hits.place >= after[hits.trial]))
                hits = hits.take(np.diff(hits.trial, prepend=-1) > 0)
                found.append(hits)
                after[hits.trial] = hits.place + 1
                # A round begins only where a group is left to scan.
                hit = np.bincount(hits.trial, minlength=trials) > 0
                starts = hit & (begun < self.hits) & (after < self.groups)
                running = running & (starts | ~hit)
                scanning = starts & (after < start + part.shape[1])
        every = Hits(*(np.concatenate(column) for column in zip(*found, strict=True)))
        return self.make_result(every, begun, single=array.ndim == 1)


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

    def run(self, counts: ArrayLike | BoundedCounts, source: NoiseSource = SYSTEM) -> SparseVector:
        """Choose from counts in any order; the largest noisy count is released first."""
        if isinstance(counts, BoundedCounts):
            known = as_bounded_counts(counts, self.groups)
            if self.bounded:
                level = int(self.threshold_noise(1, source)[0, 0])
                first, _ = self.bounded_hits(known, level, self.groups, source)
                return self._largest(first, 1, source, single=True)
            counts = known.complete()
        array = as_counts(counts, self.groups, trials=True)
        rows = np.atleast_2d(array)
        hits = self.passing(rows, self.threshold_noise(len(rows), source), source)
        return self._largest(hits, len(rows), source, single=array.ndim == 1)

    def _largest(self, hits: Hits, trials: int, source: NoiseSource, *, single: bool) -> SparseVector:
        """Return the result of the largest hits of each trial, of equal ones those of the larger rank."""
        ranks = source.ranks(len(hits.trial))
        hits = hits.take(ascending(hits.steps, ranks)[::-1])
        hits = hits.take(np.argsort(hits.trial, kind="stable"))
        hits = hits.take(np.arange(len(ranks)) - firsts(hits.trial) < self.hits)
        return self.make_result(hits, np.bincount(hits.trial, minlength=trials), single=single)
