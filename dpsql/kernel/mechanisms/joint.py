"""The joint exponential mechanism for top-k: draws the whole sequence of k groups at once, without gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import BoundedRange, Number, PrivacyLoss, PureDP
from dpsql.kernel.mechanisms.arguments import bound, counted, positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of, placed
from dpsql.kernel.mechanisms.joint_level import Levels
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result, pays_for
from dpsql.kernel.mechanisms.weights import distinct

_CELLS = 1 << 22


@dataclass(frozen=True, eq=False, slots=True)
class JointTopK(Result["Joint"]):
    """The groups of the sequence that was drawn: int64 positions in the counts, min(k, n) of them."""

    index: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Joint(Mechanism[JointTopK]):
    """Draws a sequence of k groups with probability proportional to e^(-loss/scale).

    The loss of a sequence is the largest difference between the i-th largest count and the count of its i-th
    group, over all i. The scale is 2 c/epsilon, or 4 c/epsilon if not monotone: the number of counts for one
    unit of log-odds. There are no gaps and no p-values. The error grows with ln(n choose k), not with k.

    Notes
    -----
    Gillenwater, Joseph, Munoz and Ribero Diaz, A joint exponential mechanism for differentially private
    top-k (2022); the sampling is ours.

    *Private:* one unit moves every count by 0 to c in one direction, and so the i-th largest count likewise.
    Both terms of a difference move the same way, so each difference and thus the loss of a sequence moves by
    at most c. So it does if both terms move by low to high, high - low = c. If counts are not monotone, each
    term moves by at most c either way and the loss by at most 2 c. In a probability e^(-loss/scale) / sum,
    numerator and sum each change by at most a factor e^(epsilon/2), the sum by the same for all
    sequences: so the range of the log-ratios is bounded by epsilon. With scale c/epsilon the claim is false
    from k = 2 on, also for monotone counts.

    *Exact:* a level V is drawn by `Levels`, with P(V = v) proportional to e^(-v/scale) N(v), N(v) the number
    of sequences of loss at most v. Then one of these sequences is drawn uniformly. So a sequence has the
    probability sum over v >= loss of e^(-v/scale), up to a factor: e^(-loss/scale). The i-th group of a
    sequence of loss at most v is one of the n_i(v) groups of which the count is at least the i-th largest
    less v. These sets contain each other in the order of i, and are the first n_i(v) groups in descending
    order. So the i-th group has n_i(v) - i + 1 choices whatever the earlier ones are. N(v) is the product,
    and to exchange entry i with a uniform one of the places i to n_i(v), for i = 1..k, draws uniformly.
    Counts are cut off at 2^60.

    *Order:* the law of a sequence depends on the counts of its groups and on the multiset of all counts, not
    on positions: the sets above contain all groups of equal count or none of them.
    """

    losses = (PureDP, BoundedRange)

    groups: int
    k: int
    scale: Fraction
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
        lowest: bool = False,
    ) -> Joint:
        """Plan a choice of the k largest groups of a public domain, or the smallest with `lowest`.

        It is free if there is only one group.
        """
        k, budget, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
        if groups < 2:
            return cls(groups, min(k, groups), Fraction(0), lowest, loss=PrivacyLoss())
        scale = moved * (2 if monotone else 4) / budget
        grid_of("geometric", 0, scale)
        return cls(groups, min(k, groups), scale, lowest, loss=PrivacyLoss((BoundedRange(budget),)))

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: only by how much the changes of groups differ counts."""
        return pays_for(self, 2 * taken.span)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> JointTopK:
        """Choose from counts in any order."""
        array = counted(counts, self.groups, trials=True)
        values = placed(array, 0, negated=self.lowest).reshape(math.prod(array.shape[:-1]), self.groups)
        index = np.zeros((len(values), self.k), dtype=np.int64)
        if self.scale:
            for row, trials in distinct(values):
                index[trials] = self._runs(row, len(trials), source.bits)
        return JointTopK(self, index.reshape(*array.shape[:-1], self.k))

    def _runs(self, counts: NDArray[np.int64], size: int, entropy: exact_noise.Entropy) -> NDArray[np.int64]:
        """Run `size` times on the same counts."""
        order = np.argsort(-counts)
        sorted_ = counts[order]
        levels = Levels(sorted_[0] - sorted_, self.k, 1 / self.scale)
        index = np.empty((size, self.k), dtype=np.int64)
        at_once = _CELLS // self.groups + 1
        for start in range(0, size, at_once):
            part = index[start : start + at_once]
            choices = levels.choices(levels.pick(len(part), entropy))
            places = exact_noise.uniform(choices.ravel(), 1, entropy=entropy).reshape(choices.shape)
            part[:] = order[exchanged(places + np.arange(self.k))]
        return index


def exchanged(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first entries of 0, 1, 2, .. after entry i is exchanged with that at places[:, i], in turn.

    >>> exchanged(np.array([[3, 3, 2]]))
    array([[3, 0, 2]])
    """
    trials, k = places.shape
    entries = np.tile(np.arange(max(k, int(places.max(initial=0)) + 1)), (trials, 1))
    row = np.arange(trials)
    for i in range(k):
        at = places[:, i]
        taken = entries[row, at]
        entries[row, at] = entries[:, i]
        entries[:, i] = taken
    return entries[:, :k]
