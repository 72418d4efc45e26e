"""Gumbel top-k: the k largest groups in order, by k rounds of the exponential mechanism, without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import BoundedRange, Number, PrivacyLoss, PureDP
from dpsql.kernel.mechanisms.arguments import bound, counted, positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of, placed
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result, pays_for
from dpsql.kernel.mechanisms.weights import Weights, distinct


@dataclass(frozen=True, eq=False, slots=True)
class GumbelChoice(Result["GumbelTopK"]):
    """The groups chosen, best first: int64 positions in the counts, min(k, n) of them."""

    index: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GumbelTopK(Mechanism[GumbelChoice]):
    """Chooses k groups one by one, each with probability proportional to e^(count/scale) of those left.

    This is the law of the k largest of counts + Gumbel noise of this scale, in order. There are no gaps and
    no p-values. The scale is c/e, or 2 c/e if not monotone, for rounds of epsilon e: by basic composition
    that of `PeeledTopK`. But if the range of a mechanism is bounded by e, which one with a gap has not, its
    Renyi divergence of order alpha is at most alpha e^2/8, in the place of about alpha e^2/2 for any that is
    e-DP. So where these are added up, e may be twice as large.

    Notes
    -----
    Durfee and Rogers, Practical differentially private top-k selection with pay-what-you-get composition
    (2019); the sampling is ours.
    *Private:* let D' be a neighbour, x_i = q_i/scale, and W the sum of e^(x_i) over what is left. A round
    chooses i with probability e^(x_i)/W, so the log-ratio of its laws on D and D' is
    (x_i - x'_i) - (ln W - ln W'). The second difference does not depend on i.

    - Monotone counts: x_i - x'_i is from 0 to c/scale = e for all i, or from -e to 0 for all.
    - General counts: it is from -c/scale to c/scale, 2 c/scale = e apart.
    - Counts that one unit moves by low to high: from low/scale to high/scale, or the negatives.

    So all log-ratios of a round, over all groups, lie in an interval of length e: its range is bounded by e.
    ln W is a soft maximum, and moves by no more than the x_i do; so no log-ratio exceeds e either way, and
    a round is e-DP. The groups left are fixed by what was released before, and a unit moves their counts as
    it moves all; so min(k, n-1) rounds compose adaptively. With n <= k the last group follows from the
    others.
    *Released:* the index alone. A gap of a round would tell more than a range of e allows: see `Exponential`.
    *Exact:* `Weights` samples with integers and certified bounds alone. What was chosen has no cell in the
    next round.
    *Order:* the law of a round depends on counts and not on positions.
    """

    losses = (PureDP, BoundedRange)

    groups: int
    k: int
    scale: Fraction
    resolution: int
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
        resolution: int | None = None,
        lowest: bool = False,
    ) -> GumbelTopK:
        """Plan a choice of the k largest groups of a public domain, or smallest; free if there is only one.

        `epsilon` is that of all min(k, groups - 1) rounds together, by basic composition: each has an equal
        part.
        """
        k, budget, moved = whole(k, "k"), positive(epsilon, "epsilon"), bound(sensitivity)
        rounds = min(k, groups - 1)
        if rounds < 1:
            return cls(groups, k, Fraction(0), 0, lowest, loss=PrivacyLoss())
        each = budget / rounds
        scale = moved * (1 if monotone else 2) / each
        bits = grid_of("exponential", resolution, scale)
        return cls(groups, k, scale, bits, lowest, loss=PrivacyLoss((BoundedRange(each, rounds),)))

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: only by how much the changes of groups differ counts, in each round."""
        return pays_for(self, taken.span, min(self.k, self.groups - 1))

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> GumbelChoice:
        """Choose from counts in any order."""
        array = counted(counts, self.groups, trials=True)
        if not self.scale:
            return GumbelChoice(self, np.zeros(array.shape, dtype=np.int64))
        rate, entropy = exact_noise.rate(self.scale, self.resolution), source.bits
        values = placed(array, self.resolution, negated=self.lowest).reshape(-1, self.groups)
        index = np.empty((len(values), min(self.k, self.groups)), dtype=np.int64)
        for row, trials in distinct(values):
            index[trials] = _chosen(row, self.k, len(trials), rate, entropy)
        return GumbelChoice(self, index.reshape(*array.shape[:-1], index.shape[1]))


def _chosen(
    values: NDArray[np.int64], k: int, size: int, rate: Fraction, entropy: exact_noise.Entropy
) -> NDArray[np.int64]:
    """Choose k of the same counts, in grid steps, `size` times; an array (size, min(k, n)).

    Runs that have chosen the same groups, in whatever order, share the weights of what is left.
    """
    order = np.argsort(-values, kind="stable")
    distance = values[order[0]] - values[order]
    found = np.empty((size, min(k, len(values))), dtype=np.int64)
    alike: dict[tuple[int, ...], NDArray[np.intp]] = {(): np.arange(size)}
    for turn in range(found.shape[1]):
        parts: dict[tuple[int, ...], list[NDArray[np.intp]]] = {}
        for taken, trials in alike.items():
            left = np.delete(distance, taken)
            left -= left[0]
            place = np.zeros(len(trials), dtype=np.int64)
            if len(left) > 1:
                place = Weights(left, rate, ascending=True).pick(len(trials), entropy)
            for before in taken:
                place += place >= before
            found[trials, turn] = place
            for one in np.unique(place).tolist():
                parts.setdefault(tuple(sorted((*taken, one))), []).append(trials[place == one])
        alike = {taken: np.concatenate(part) for taken, part in parts.items()}
    return order[found]
