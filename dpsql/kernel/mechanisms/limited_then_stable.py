"""Limited domain, then Top Stable: groups in order, then a set of further ones at the epsilon left."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import between, bound, counted, positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.kernel.mechanisms.limited_domain import LimitedDomain
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result
from dpsql.kernel.mechanisms.top_stable import TopStable

LEAST = Fraction(1, 4)
"""Share of epsilon below which the second mechanism does not run."""


@dataclass(frozen=True, eq=False, slots=True)
class OrderedThenSet(Result["LimitedThenStable"]):
    """The groups of both mechanisms: first those in order, then a set.

    Attributes
    ----------
    index
        int64, positions of the groups in the counts; k or fewer. After the first `ordered` they ascend, and
        only their *set* is private: as in `StableSet`, sort them by key before anything is released.
    gap
        float64, one a group: as in `LimitedTopK` for those in order, NaN for those of the set.
    ordered
        How many groups are in order.
    """

    index: NDArray[np.int64]
    gap: NDArray[np.float64]
    ordered: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LimitedThenStable(Mechanism[OrderedThenSet]):
    """The limited domain mechanism, then Top Stable on the groups not released, at the epsilon not spent.

    Attributes
    ----------
    limited
        The first mechanism. It may spend all of epsilon, and half of delta.
    resolution
        b of the grid of Top Stable's noise, the same whatever the first mechanism spends.

    Notes
    -----
    Ours. Limited domain that places u of k items charges u epsilon/k: u - 1 groups and what ended the
    release, or k groups. If at least a quarter of epsilon is left, Top Stable looks for at most k - (u - 1)
    further groups, with what is left of epsilon and the other half of delta.

    *Private:* which groups the first mechanism released, and u, are released, and nothing else of the first
    run has an influence on the second: its noise is fresh, and its plan depends on u alone. Fix a first
    output. The groups that it does not name are again the groups of an unknown domain: on neighbours their
    counts all move the same way, each by at most c. Of them the k + 1 - (u - 1) largest are among the
    `candidates + 1` largest of all, as `candidates` is at least k. So given that output, Top Stable is
    (r, delta/2)-private for the rest r = epsilon - u epsilon/k.

    Both together: let A, B be the parts of the first law P within e^(u epsilon/k) times the one on the
    neighbour, and beyond it; B has at most delta/2 in total. Likewise A', B' for the second law given a
    first output, at e^r. P P' = A A' + A B' + B P'; the first part is within e^epsilon times the law on the
    neighbour, the others have at most delta/2 each. With what Top Stable realises in the place of r, the same
    holds for the realised charge. A run without the second mechanism spends half of delta only.
    """

    undeclared = True

    k: int
    limited: LimitedDomain
    sensitivity: Fraction
    resolution: int

    @classmethod
    def plan(
        cls,
        k: int,
        epsilon: Number,
        delta: Number,
        *,
        candidates: int | None = None,
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Self:
        """Plan a choice of the k largest groups; the number of groups is private, and does not matter.

        Parameters
        ----------
        k
            Most groups, at least 2: with k = 1 the first mechanism always spends everything.
        epsilon, delta
            Budget of both mechanisms together.
        candidates, sensitivity, resolution
            As in `LimitedDomain.plan`.
        """
        k, budget, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
        if k < 2:
            raise ValueError("k must be at least 2")
        half = between(delta, "delta") / 2
        limited = LimitedDomain.plan(
            k, budget, half, candidates=candidates, sensitivity=moved, resolution=resolution
        )
        bits = TopStable.plan(k, budget, half, sensitivity=moved, resolution=resolution).tests.resolution
        # No plan that `further` makes has more tests or less epsilon: if this one is in range, all are.
        TopStable.plan(k, budget * LEAST, half, sensitivity=moved, resolution=bits)
        return cls(k, limited, moved, bits, loss=PrivacyLoss.of(budget, 2 * half))

    @property
    def scale(self) -> Fraction:
        """Scale of the first mechanism's noise, in counts."""
        return self.limited.scale

    def further(self, units: int) -> TopStable | None:
        """Return Top Stable as it runs after limited domain placed so many items; None: it does not run."""
        spent, most = self.limited.realised(units).charge, self.loss.charge
        left = most.epsilon - spent.epsilon
        if left < most.epsilon * LEAST:
            return None
        return TopStable.plan(
            self.k - (units - 1),
            left,
            most.delta - spent.delta,
            sensitivity=self.sensitivity,
            resolution=self.resolution,
        )

    @property
    def reads(self) -> int:
        """See `Mechanism`."""
        return self.limited.reads

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: that of both mechanisms."""
        return taken.most <= self.sensitivity and self.limited.covers(taken)

    def realised(self, units: int) -> PrivacyLoss:
        """Return the loss of a run: twice the items that were placed, and 1 more if a set was stable."""
        placed, found = divmod(units, 2)
        further, spent = self.further(placed), self.limited.realised(placed)
        return spent if further is None else spent + further.realised(found)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> OrderedThenSet:
        """Choose from counts, or the `candidates + 1` largest of them, in any order.

        They must be monotone: one unit moves all counts the same way, each by at most the sensitivity, in any
        number of groups.
        """
        array = counted(counts, trials=True)
        first = self.limited.run(array, source)
        rows, placed = np.atleast_2d(array), np.atleast_1d(first.units)
        released, free = np.atleast_2d(first.index), np.atleast_2d(first.gap)
        index, gap = np.full((len(rows), self.k), -1), np.full((len(rows), self.k), np.nan)
        index[:, : released.shape[1]], gap[:, : free.shape[1]] = released, free
        ordered, units = (index >= 0).sum(axis=1), 2 * placed
        for many in np.unique(placed).tolist():
            if (further := self.further(many)) is None:
                continue
            trials = np.flatnonzero(placed == many)  # of each of them the same number is in order
            rest = rows[trials]
            rest[np.arange(len(trials))[:, None], index[trials, : many - 1]] = 0  # as if missing
            found = further.run(rest, source)
            index[trials, many - 1 :] = found.index
            units[trials] += np.asarray(found.units)
        if array.ndim == 1:
            size = int((index >= 0).sum())
            return OrderedThenSet(self, index[0, :size], gap[0, :size], ordered[0], units=int(units[0]))
        return OrderedThenSet(self, index, gap, ordered, units=units)
