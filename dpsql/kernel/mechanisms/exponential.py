"""The exponential mechanism with gap, and Gumbel top-k: its k rounds, without gaps."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import BoundedRange, Number, PrivacyLoss, PureDP
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Chosen,
    Mechanism,
    NoiseSource,
    as_counts,
    bound,
    grid_of,
    in_counts,
    pays_for,
    positive,
    to_steps,
    whole,
)
from dpsql.kernel.mechanisms.noisy_order import TopK
from dpsql.kernel.mechanisms.weights import Weights, distinct
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Exponential(Mechanism["TopK[Exponential]"]):
    """Chooses one group with probability proportional to e^(count/scale), and its gap at no extra charge.

    The gap is the noisy lead of the chosen group over all others combined, never negative; the p-value is a
    function of gap / scale. The scale is c/epsilon, or twice that if not monotone: the number of counts for
    one unit of log-odds.

    Notes
    -----
    Dissertation, Algorithm 21; monotone counts at double strength and the sampling are ours. With
    x_i = q_i/scale, w_i = e^(x_i), the chosen s has probability w_s/sum(w). Its gap in log-odds is
    logistic with location theta = x_s - ln W, W the sum of the other weights, conditioned on being
    positive: P(gap >= x) = (w_s + W)/(w_s + e^x W).

    *Private:* s and gap x together have density e^(theta-x)/(1 + e^(theta-x))^2, the logarithm of which
    moves by no more than theta does. Monotone counts: x_s and ln W both move by 0 to c/scale the same
    way, so theta by at most c/scale = epsilon. General counts: each by at most c/scale either way, so
    theta by at most 2 c/scale = epsilon. Counts that move by low to high: x_s and ln W both move by
    low/scale to high/scale, so theta by at most (high - low)/scale. Flooring the gap is post-processing. If
    there is only one group, the choice is public: no charge.

    *Exact:* the index by `Weights`, integers and certified bounds alone; the gap by `gap_steps` from
    more such picks and exact geometric noise. Counts are cut off at 2^60 grid steps.

    *Order:* both laws depend on the chosen count and on the multiset of the others, not on positions.
    """

    groups: int
    scale: Fraction
    resolution: int
    lowest: bool

    @classmethod
    def plan(
        cls,
        groups: int,
        epsilon: Number,
        *,
        sensitivity: Number = 1,
        monotone: bool = True,
        resolution: int | None = None,
        lowest: bool = False,
    ) -> Exponential:
        """Plan the choice of one group of a public domain.

        With `lowest`, small counts are preferred, and the gap is the distance below the others.
        """
        budget, moved = positive(epsilon, "epsilon"), bound(sensitivity)
        if groups < 2:
            return cls(groups, Fraction(0), 0, lowest, loss=PrivacyLoss())
        scale = moved * (1 if monotone else 2) / budget
        bits = grid_of("exponential", resolution, scale)
        return cls(groups, scale, bits, lowest, loss=PrivacyLoss.of(budget))

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        What matters is only by how much the changes of groups differ.
        """
        return pays_for(self, taken.span)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> TopK[Exponential]:
        """Choose groups at random: larger counts have exponentially more weight."""
        array = as_counts(counts, self.groups, trials=True)
        if not self.scale:
            index = np.zeros(array.shape, dtype=np.int64)
            return TopK(self, index, np.zeros((*array.shape[:-1], 0)))
        rate, entropy = exact_noise.rate(self.scale, self.resolution), source.bits
        values = to_steps(array, self.resolution, negated=self.lowest).reshape(-1, self.groups)
        index, steps = np.empty((2, len(values)), dtype=np.int64)
        for row, trials in distinct(values):
            index[trials], steps[trials] = _runs(row, len(trials), rate, entropy)
        shape = (*array.shape[:-1], 1)
        gap = in_counts(steps, self.resolution).reshape(shape)
        return TopK(self, index.reshape(shape), gap)


def gap_steps(
    weights: Weights, group: int, anchor: int, size: int, rate: Fraction, entropy: exact_noise.Entropy
) -> NDArray[np.int64]:
    """Draw exact gaps of the chosen group, floored to the grid; P(gap >= j) is as in `Exponential`.

    `weights` are those of the counts with the chosen one lowered by `anchor` grid steps, any number from 0
    up: the law does not depend on it; drawing is fastest near the location theta. `rate` is the log-odds of a
    grid step. Gaps are in grid steps, and saturate at 2^61.

    Notes
    -----
    Ours. Let p be the probability that the lowered group is picked, r = e^-rate. In a series of
    picks, the first run of picks of the group alone has k picks with probability (1-p) p^(k-1) given
    that it comes first, so of k geometric draws, one a pick, the largest reaches i with probability

        1 - sum (1-p) p^(k-1) (1-r^i)^k = r^i/(1 - p (1-r^i)) = r^i (a + W)/(a r^i + W),

    p = a/(a + W): this is P(gap >= anchor + i | gap >= anchor) of a floored logistic of location
    theta, for a = w_s r^anchor. The group comes first with probability a/(a + W) = P(logistic >= anchor).
    Likewise with the others first, 1-p for p, downwards from the anchor. So such a signed maximum is
    a logistic, floored; it is drawn until not negative (the loop of Algorithm 21). With the anchor at
    0 the condition says that the group comes first, and is not left to chance.
    """
    steps = np.empty(size, dtype=np.int64)
    open_ = np.arange(size)
    while len(open_):
        ahead = weights.pick(len(open_), entropy) == group if anchor else np.ones(len(open_), dtype=np.bool_)
        most = exact_noise.geometric(rate, len(open_), entropy=entropy)
        running = np.arange(len(open_))
        while len(running):
            running = running[(weights.pick(len(running), entropy) == group) == ahead[running]]
            more = exact_noise.geometric(rate, len(running), entropy=entropy)
            most[running] = np.maximum(most[running], more)
        drawn = np.where(ahead, anchor + most, anchor - 1 - most)
        done = drawn >= 0
        steps[open_[done]] = drawn[done]
        open_ = open_[~done]
    # Draws saturate too: cut off here, the result is a function of the unsaturated one.
    return np.minimum(steps, exact_noise.LARGEST)


def anchor_of(distance: NDArray[np.int64], group: int, rate: Fraction) -> int:
    """Estimate the location theta in grid steps, at most the distance to the second group; 0 if small.

    Floating point is safe here: the law of the gap does not depend on the result.
    """
    if distance[group]:
        return 0
    others = np.delete(distance, group)
    second = int(others.min())
    step = float(min(rate, Fraction(1 << 64)))
    others -= second
    below = math.log(np.exp(-step * others).sum())
    # Whole numbers: `second` has more digits than a float, and each step too few multiplies the tries.
    return max(0, second - round(below / step)) if step * second - below > 1 else 0


def _runs(
    values: NDArray[np.int64], size: int, rate: Fraction, entropy: exact_noise.Entropy
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Run `size` times on the same counts; return the indices and the gaps in grid steps."""
    distance = values.max() - values
    weights = Weights(distance, rate)
    index = weights.pick(size, entropy)
    steps = np.empty(size, dtype=np.int64)
    for group in np.unique(index).tolist():
        mine = np.flatnonzero(index == group)
        anchor = anchor_of(distance, group, rate)
        lowered = weights
        if anchor:
            below = distance - anchor
            below[group] = 0
            lowered = Weights(below, rate)
        steps[mine] = gap_steps(lowered, group, anchor, len(mine), rate, entropy)
    return index, steps


@dataclass(frozen=True, slots=True)
class GumbelTopK(Mechanism["Chosen[GumbelTopK]"]):
    """Chooses k groups one by one, of those left each with probability proportional to e^(count/scale).

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
        """Return whether `loss` holds for counts that one unit changes so far.

        What matters is only by how much the changes of groups differ, in each round.
        """
        return pays_for(self, taken.span, min(self.k, self.groups - 1))

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Chosen[GumbelTopK]:
        """Choose the groups with the largest counts plus Gumbel noise; counts in any order."""
        array = as_counts(counts, self.groups, trials=True)
        if not self.scale:
            return Chosen(self, np.zeros(array.shape, dtype=np.int64))
        rate, entropy = exact_noise.rate(self.scale, self.resolution), source.bits
        values = to_steps(array, self.resolution, negated=self.lowest).reshape(-1, self.groups)
        index = np.empty((len(values), min(self.k, self.groups)), dtype=np.int64)
        for row, trials in distinct(values):
            index[trials] = _chosen(row, self.k, len(trials), rate, entropy)
        return Chosen(self, index.reshape(*array.shape[:-1], index.shape[1]))


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
