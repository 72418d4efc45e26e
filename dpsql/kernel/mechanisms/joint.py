"""The joint exponential mechanism for top-k: draws the whole sequence of k groups at once, without gaps."""

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
    pays_for,
    positive,
    to_steps,
    whole,
)
from dpsql.kernel.mechanisms.weights import distinct
from dpsql.lazy_dataclass import dataclass

_BITS = 60
_WORD = 64
_DIGITS = 128
_ENDLESS = 1 << 62
_SPARE = 1.5
"""The envelope is at most this many times the mass, so that two thirds of the tries are accepted."""


class Levels:
    """An exact sampler of a level V >= 0 with P(V = v) proportional to e^(-rate v) N(v).

    N(v) is the number of sequences of k different groups of which the i-th is at most v below the i-th
    largest count: the product over i = 0..k-1 of n_i(v) - i, n_i(v) the number of groups that are.

    Parameters
    ----------
    depth
        int64, ascending: the distance of each count below the largest. The smallest is 0.
    k
        Length of a sequence; at most the number of groups.
    rate
        Positive rational.

    Attributes
    ----------
    start, width, last
        int64: the first level of each block, its number of levels (the last block has no end), and the level
        where N is largest in it.
    ceiling, floor
        int64, certified: ceiling >= 2^b mass >= floor for one b, mass the sum of e^(-rate v) N(last) over
        the block's levels v, times 1 - e^(-rate).

    Notes
    -----
    Rejection from an envelope of integers. Each block has `ceiling` places. A block is picked by a random
    integer among all places; it is the r-th of its block. The block is accepted if r + U < 2^b mass, U
    uniform on [0, 1): with r alone if r < floor, otherwise with more bits of U until certified bounds of the
    mass decide. So each block is accepted in proportion to its mass. Within it v has the geometric law
    restricted to the block, and is accepted with probability N(v)/N(last): each factor of N(last) that is
    larger than that of N(v) is the bound of a uniform integer, which must be below the factor of N(v).
    Otherwise all starts again. The product is proportional to e^(-rate v) N(v), whatever the blocks are.
    Floating point chooses where blocks begin, and nothing else.
    """

    def __init__(self, depth: NDArray[np.int64], k: int, rate: Fraction) -> None:
        self._depth, self._k, self._rate = depth, k, rate
        self.start = self._cuts(float(min(rate, Fraction(1 << 64))))
        self.width = np.append(np.diff(self.start), _ENDLESS)
        self.last = np.append(self.start[1:] - 1, self.start[-1])
        bounds = [self._bounds(block, _DIGITS) for block in range(len(self.start))]
        top = max(high.bit_length() - places for _, high, places in bounds)
        # All places together stay below 2^62.
        self._scale = _BITS - len(bounds).bit_length() - top
        cuts = [(low >> places - self._scale, high >> places - self._scale) for low, high, places in bounds]
        self.floor = np.array([low for low, _ in cuts], dtype=np.int64)
        self.ceiling = np.array([high + 1 for _, high in cuts], dtype=np.int64)

    def choices(self, level: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, for each level v, the k factors n_i(v) - i of N(v)."""
        within = self._depth[: self._k] + level[:, None]
        return np.searchsorted(self._depth, within, side="right") - np.arange(self._k)

    def pick(self, size: int, entropy: exact_noise.Entropy) -> NDArray[np.int64]:
        """Sample `size` levels independently; they saturate at 2^61, far above the largest count."""
        level = np.empty(size, dtype=np.int64)
        end = np.cumsum(self.ceiling)
        spare = np.uint64(_WORD - int(end[-1]).bit_length())
        open_ = np.arange(size)
        while len(open_):
            place = (entropy.words(len(open_)) >> spare).astype(np.int64)
            inside = np.flatnonzero(place < end[-1])
            block = np.searchsorted(end, place[inside], side="right")
            rest = place[inside] - end[block] + self.ceiling[block]
            taken = rest < self.floor[block]
            for i in np.flatnonzero(~taken):
                taken[i] = self._extend(int(block[i]), int(rest[i]), entropy)
            inside, block = inside[taken], block[taken]
            drawn = exact_noise.geometric(self._rate, len(block), entropy=entropy) % self.width[block]
            drawn = np.minimum(drawn + self.start[block], exact_noise.LARGEST)
            kept = self._kept(drawn, self.last[block], entropy)
            level[open_[inside[kept]]] = drawn[kept]
            open_ = np.delete(open_, inside[kept])
        return level

    def _kept(
        self, level: NDArray[np.int64], last: NDArray[np.int64], entropy: exact_noise.Entropy
    ) -> NDArray[np.bool_]:
        """Accept each level with probability N(level)/N(last)."""
        kept = np.ones(len(level), dtype=np.bool_)
        some, most = self.choices(level), self.choices(last)
        row, place = np.nonzero(some < most)
        drawn = exact_noise.uniform(most[row, place], 1, entropy=entropy)[:, 0]
        kept[row[drawn >= some[row, place]]] = False
        return kept

    def _extend(self, block: int, rest: int, entropy: exact_noise.Entropy) -> bool:
        """Decide whether r + U is below the block's mass, with as many random bits as needed."""
        more = 0
        while True:
            more += _WORD
            rest = rest << _WORD | int(entropy.words(1)[0])
            low, high, places = self._bounds(block, _DIGITS + more)
            cut = places - self._scale - more
            if rest < low >> cut:
                return True
            if rest > high >> cut:
                return False

    def _bounds(self, block: int, digits: int) -> tuple[int, int, int]:
        """Return low, high and places with low <= 2^places mass <= high, to a given number of digits."""
        start, width = int(self.start[block]), int(self.width[block])
        low, high, places = 1 << digits, 1 << digits, digits
        if start:
            low, high, places = exact_noise.scaled_exp_bounds(self._rate * start, digits)
        if width != _ENDLESS:
            # 1 - e^(-rate width) is above 2^-51: so many places leave more digits than the other factor has.
            under, over = exact_noise.exp_bounds(self._rate * width, 2 * digits)
            one = 1 << 2 * digits
            low, high, places = low * (one - over), high * (one - under), places + 2 * digits
        number = math.prod(self.choices(self.last[block : block + 1])[0].tolist())
        return low * number, high * number, places

    def _cuts(self, rate: float) -> NDArray[np.int64]:
        """Choose where blocks begin: halve blocks until their masses are near those at their first levels.

        Floating point is safe here: the law does not depend on the result.
        """
        span = int(self._depth[-1])
        tail = self._log(np.array([span]))[0] - rate * span
        if not span:
            return np.zeros(1, dtype=np.int64)
        start, width = np.array([0]), np.array([span])
        least, most = self._log(start), self._log(start + width - 1)
        while True:
            mass = np.log(-np.expm1(-rate * width)) - rate * start
            top = max(tail, (mass + most).max())
            upper, lower = np.exp(mass + most - top), np.exp(mass + least - top)
            excess = np.where(width > 1, upper - lower, 0)
            rest = np.exp(tail - top)
            if upper.sum() + rest <= _SPARE * (lower.sum() + rest) or not excess.any():
                return np.append(start, span)
            cut = np.flatnonzero(2 * len(excess) * excess >= excess.sum())
            half = width[cut] // 2
            middle = start[cut] + half
            before, after = self._log(middle - 1), self._log(middle)
            start = np.insert(start, cut + 1, middle)
            width = np.insert(width, cut + 1, width[cut] - half)
            least = np.insert(least, cut + 1, after)
            most = np.insert(most, cut, before)
            width[cut + np.arange(len(cut))] = half

    def _log(self, level: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logarithm of the number of sequences of each level, approximately."""
        found: NDArray[np.float64] = np.log(self.choices(level)).sum(axis=1)
        return found


_CELLS = 1 << 22


@dataclass(frozen=True, slots=True)
class Joint(Mechanism["Chosen[Joint]"]):
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
        """Return whether `loss` holds for counts that one unit changes so far.

        What matters is only by how much the changes of groups differ.
        """
        return pays_for(self, 2 * taken.span)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Chosen[Joint]:
        """Choose a sequence of k groups by the joint exponential mechanism; counts in any order."""
        array = as_counts(counts, self.groups, trials=True)
        values = to_steps(array, 0, negated=self.lowest).reshape(math.prod(array.shape[:-1]), self.groups)
        index = np.zeros((len(values), self.k), dtype=np.int64)
        if self.scale:
            for row, trials in distinct(values):
                index[trials] = self._runs(row, len(trials), source.bits)
        return Chosen(self, index.reshape(*array.shape[:-1], self.k))

    def _runs(self, counts: NDArray[np.int64], size: int, entropy: exact_noise.Entropy) -> NDArray[np.int64]:
        """Run the mechanism `size` times on the same counts."""
        order = np.argsort(-counts)
        sorted_ = counts[order]
        levels = Levels(sorted_[0] - sorted_, self.k, 1 / self.scale)
        index = np.empty((size, self.k), dtype=np.int64)
        at_once = _CELLS // self.groups + 1
        for start in range(0, size, at_once):
            part = index[start : start + at_once]
            choices = levels.choices(levels.pick(len(part), entropy))
            places = exact_noise.uniform(choices.ravel(), 1, entropy=entropy).reshape(choices.shape)
            part[:] = order[exchange_entries(places + np.arange(self.k))]
        return index


def exchange_entries(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first entries of 0, 1, 2, .. after entry i is exchanged with that at places[:, i], in turn.

    >>> exchange_entries(np.array([[3, 3, 2]]))
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
