"""Peeled top-k: the k largest groups, one round of noisy max with gap after the other over what is left."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import Noise, bound, counted, kind, positive, sparsely_counted, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of
from dpsql.kernel.mechanisms.mechanism import pays_for
from dpsql.kernel.mechanisms.sparse import NoisyOrder, TopK, skipping
from dpsql.kernel.mechanisms.top_k import NoisyTopK
from dpsql.kernel.order import SparseCounts


@dataclass(frozen=True, slots=True)
class PeeledTopK(NoisyOrder["TopK[PeeledTopK]"]):
    """Chooses the k largest groups in rounds: each takes one of what is left, with its lead over the rest.

    A round has fresh noise of scale c/e, e the epsilon of the round (twice that if not monotone). By basic
    composition this is the precision of `NoisyTopK` at the same epsilon. But where Renyi divergences are
    added up, k rounds of e cost less than one mechanism of k e: at one price e is about epsilon/sqrt(k), in
    the place of epsilon/k.

    Notes
    -----
    Selection by rounds is called peeling in Dwork, Su and Zhang, Differentially private false discovery rate
    control (2021). Each round is `NoisyTopK` with k = 1.
    *Private:* round i runs on the groups that the rounds before have not chosen. Which these are was
    released, so round i is one mechanism, fixed by what was released before, on counts that one unit moves as
    it moves all counts: monotone ones stay monotone, with the same sensitivity. Its noise is fresh. So it is
    e-DP given all earlier outputs (proof of `NoisyTopK`), and min(k, n-1) such rounds compose adaptively.
    With n <= k the last group follows from the others.
    *Gaps:* each compares the chosen group with the rest, with the noise of its own round. A p-value
    exp(-gap/scale) is therefore valid in each round as it is for k = 1, given what was chosen before. The
    runner-up of a round is not released and need not be chosen next, so that gaps are no differences of the
    released groups' counts: no estimate combines them.
    *Order:* each round treats all groups alike, so the counts may be in any order.
    """

    sparse = True

    lowest: bool

    @classmethod
    def plan(
        cls,
        groups: int,
        k: int,
        epsilon: Number,
        *,
        sensitivity: Number = 1,
        monotone: bool = True,
        noise: Noise = "exponential",
        resolution: int | None = None,
        lowest: bool = False,
    ) -> PeeledTopK:
        """Plan a choice of the k largest groups of a public domain; free if there is only one.

        `epsilon` is that of all min(k, groups - 1) rounds together, by basic composition: each has an equal
        part. With `lowest`, the k smallest are chosen, and each gap is the distance below the rest.
        """
        k, budget, moved, noise = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity), kind(noise)
        rounds = min(k, groups - 1)
        if rounds < 1:
            return cls(groups, k, noise, Fraction(0), 0, lowest, loss=PrivacyLoss())
        each = budget / rounds
        scale = moved * (1 if monotone else 2) / each
        bits = grid_of(noise, resolution, scale)
        return cls(groups, k, noise, scale, bits, lowest, loss=PrivacyLoss.of(each, times=rounds))

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: only by how much the changes of groups differ counts, in each round."""
        return pays_for(self, taken.span, min(self.k, self.groups - 1))

    def run(self, counts: ArrayLike | SparseCounts, source: NoiseSource = SYSTEM) -> TopK[PeeledTopK]:
        """Choose from counts in any order; groups of sparse ones are named by their positions."""
        if isinstance(counts, SparseCounts):
            return self._run_sparse(sparsely_counted(counts, self.groups), source)
        left = counted(counts, self.groups, trials=True)
        place = np.broadcast_to(np.arange(self.groups), left.shape)
        chosen, gaps = [], []
        for turn in range(min(self.k, self.groups - 1)):
            found = self._round(self.groups - turn).run(left, source)
            chosen.append(np.take_along_axis(place, found.index, axis=-1))
            gaps.append(found.gap)
            left, place = without(left, found.index), without(place, found.index)
        if len(chosen) < self.k:
            chosen.append(place)  # at most one group is left
        none = np.zeros((*left.shape[:-1], 0))
        return TopK(self, np.concatenate(chosen, axis=-1), np.concatenate([none, *gaps], axis=-1))

    def _run_sparse(self, left: SparseCounts, source: NoiseSource) -> TopK[PeeledTopK]:
        if left.values.ndim != 1:
            raise ValueError("sparse counts are of one run")
        taken = np.zeros(0, dtype=np.int64)
        chosen, gaps = [taken], [np.zeros(0)]
        for turn in range(min(self.k, self.groups - 1)):
            found = self._round(self.groups - turn).run(left, source)
            chosen.append(skipping(found.index, taken))
            gaps.append(found.gap)
            left, taken = left.without(int(found.index[0])), np.sort(np.concatenate(chosen))
        if len(taken) < self.k:
            chosen.append(skipping(np.arange(left.size), taken))  # at most one group is left
        return TopK(self, np.concatenate(chosen), np.concatenate(gaps))

    def _round(self, groups: int) -> NoisyTopK:
        """Return noisy max over so many groups that are left."""
        one = PrivacyLoss.of(self.loss.charge.epsilon / min(self.k, self.groups - 1))
        return NoisyTopK(groups, 1, self.noise, self.scale, self.resolution, self.lowest, loss=one)


def without(values: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Remove one entry of each row.

    >>> without(np.array([[5, 6, 7], [8, 9, 10]]), np.array([[0], [2]])).tolist()
    [[6, 7], [8, 9]]
    """
    kept = np.ones(values.shape, dtype=np.bool_)
    np.put_along_axis(kept, place, False, axis=-1)
    return values[kept].reshape(*values.shape[:-1], values.shape[-1] - 1)
