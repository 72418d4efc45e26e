"""The sparse vector by rounds: a fresh noisy threshold after each hit, and no charge for rounds not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import Noise, in_order, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.kernel.mechanisms.sparse_vector_plan import Hits, SparseVector, SparseVectorPlan
from dpsql.kernel.order import OrderedCounts

_BLOCK = 1 << 12
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

    def realised(self, units: int) -> PrivacyLoss:
        """Return the loss of a run of so many rounds."""
        return PrivacyLoss.of(self.loss.charge.epsilon / self.hits, times=units)

    def run(self, counts: OrderedCounts, source: NoiseSource = SYSTEM) -> SparseVector:
        """Scan counts in a public order; hits are released in this order."""
        array = in_order(counts, self.groups, trials=True)
        rows = np.atleast_2d(array)
        trials, found = len(rows), [Hits.none()]
        after, begun = np.zeros((2, trials), dtype=np.int64)
        level = np.zeros((trials, 1), dtype=np.int64)
        starts = running = np.full(trials, self.groups > 0)
        for start in range(0, self.groups, _BLOCK):
            if not running.any():
                break
            part, scanning = rows[:, start : start + _BLOCK], running
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
        return self.released(every, begun, single=array.ndim == 1)
