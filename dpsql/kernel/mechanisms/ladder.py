"""Choose a bound of contributions among powers of two, and release how many units contribute how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import BoundedRange, Number, PrivacyLoss, PureDP
from dpsql.kernel.mechanisms.exponential import GumbelTopK
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Mechanism,
    NoiseSource,
    Result,
    as_counts,
    bound,
    grid_of,
    positive,
    whole,
)
from dpsql.kernel.mechanisms.noisy_order import NoisyOrder
from dpsql.lazy_dataclass import dataclass

_LEAST, _LEAST_RANGED = Fraction(5, 2), Fraction(7, 2)
"""What a rung costs at least, times epsilon, by the law of the noise."""
_ROOT = Fraction(141_421_356, 10**8)
"""The square root of 2: a public factor, whose last digits do not matter."""

_BEFORE = 5
"""So many rungs before one decide what it costs, where costs are capped."""

VALUES_SHARE = Fraction(1, 5)
"""The part of the price of a ladder that is for what its column has beyond bounds."""

FULL = 1 << 20
"""What a unit counts that exceeds a bound by an eighth of it or more, where bounds are compared by scores."""


def excess_score(contribution: int, rung: int) -> int:
    """Return how much one unit adds to the score of a rung: floor(2^20 min((c - B)+/(B/8), 1)), for c >= 0.

    It is from 0 to `FULL` at every rung B; a unit that is cut by little counts little. At B = 0 every unit
    with c > 0 counts in full.

    >>> [excess_score(c, 64) for c in (64, 65, 72, 1000)], excess_score(3, 0)
    ([0, 131072, 1048576, 1048576], 1048576)
    """
    beyond = max(contribution - rung, 0)
    if 8 * beyond >= rung:
        return FULL if beyond else 0
    return 8 * FULL * beyond // rung


def excess_scores(contributions: Iterable[int], rungs: Sequence[int]) -> list[int]:
    """Return the excess scores of all rungs, of units with these contributions: the sums over the units."""
    units = list(contributions)
    return [sum(excess_score(unit, rung) for unit in units) for rung in rungs]


@dataclass(frozen=True, eq=False, slots=True)
class Rung(Result["Ladder"]):
    """The rung chosen, int64 of shape (1,), or (trials, 1): j for a bound of 2^j."""

    rung: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ladder(NoisyOrder[Rung]):
    """Chooses a bound 2^j at which few units are cut and noise in proportion to the bound is small.

    Attributes
    ----------
    groups
        Number of rungs: j is from 0 to below it.
    penalty
        What each rung costs more than the one before, in units.
    enough
        How many units may exceed a bound at no cost.
    one_in
        No more than one in so many of those that exceed the first bound may.
    sensitivity
        How much one unit counts at a rung at most: 1 for numbers of units, `FULL` for excess scores.
    ranged
        Whether the noise is that of the exponential mechanism, so that the range of the loss is bounded.
    capped
        Whether a rung costs nothing where enough units exceed those before it, and five penalties at most.

    Notes
    -----
    With N_j the number of units whose contribution exceeds 2^j, it is noisy max with exponential noise on
    -(max(N_j - min(enough, N_0/one_in), 0) + penalty j), with public numbers rounded to the grid. *Private:*
    one unit more moves every N_j by 0 or 1, and what is subtracted by some m from 0 to 1, which is one number
    for all of them: so all values by -(1 - m) to m. The choice depends on differences of values alone: m
    less, they all move one way by at most 1, and `NoisyTopK` with k = 1 has the loss 1/scale = epsilon. With
    the sums of `excess_score` for N_j, one unit more moves each by 0 to `FULL`, and so m: noise and public
    numbers are `FULL` times as large.

    *The penalty.* With less than ln 4/epsilon a rung, the noise of the choice would often win on rungs that
    no unit needs, and the expected variance of what is measured would grow with their number: a rung costs
    5/(2 epsilon). The choice is then k rungs beyond the best one with a chance of the order e^(-5k/2), while
    the variance grows as 4^k: the sum of the products is less than 1.5, however many rungs there are. So
    rungs that nobody needs, up to 2^83, cost nothing.

    *Enough.* Measured with noise of standard deviation s times the bound B in each of several groups, sums
    with the error s B + cut(B)/2 (half of what is cut is given back) have the least one at the bound that 2 s
    units exceed, as -cut'(B) = N(B): a little more of it loses as much by noise as it gains by cutting less.
    So 2 s units may exceed it, less what a rung costs, and of sums no more than a quarter of all: where noise
    outweighs what most units have, cutting them would err less, and no interval would say it. (A cost of s a
    rung instead would choose the first rung where all units exceed many of them.)

    *Ranged.* The choice of one rung by `GumbelTopK`, on the same numbers: they are monotone, and its range is
    bounded by epsilon. Where costs are added up, epsilon is about twice that of exponential noise, and a
    part of that pays for a larger least penalty: 7/(2 epsilon), with which the sum above is 1.14.

    *Capped.* Where values are far above the first of many rungs, what all rungs below cost is more than the
    number of units. With n_j = N_j - min(enough, N_0/one_in), a rung then costs the mean of
    min(max(S - n_i, 0), S) over the five rungs i before it (0 for those before the first), S = 5 penalty: so
    nothing where S units exceed these, and a penalty for each of the first five that nobody needs. *Private:*
    as above n_j moves by -m to 1 - m, all by one m; max(n_j, 0) does, and the mean moves by m - 1 to m, so
    values by -1 to 1, and noise and penalty are twice as large. Dividing by five rounds down whole numbers,
    which moves none by more than its whole bound. A rung beyond those five is chosen with the chance
    e^(-25/2) each, less than .0004 for all 85 together.
    """

    losses = (PureDP, BoundedRange)

    penalty: Fraction
    sensitivity: int = 1
    ranged: bool = False
    enough: Fraction = Fraction(0)
    one_in: int = 1
    capped: bool = False

    @classmethod
    def plan(
        cls,
        rungs: int,
        epsilon: Number,
        *,
        noise: Number = 0,
        one_in: int = 1,
        sensitivity: int = 1,
        ranged: bool = False,
        capped: bool = False,
    ) -> Ladder:
        """Plan a choice among a given number of rungs; free if there is only one.

        `noise` is the scale of the Laplace noise that the sums get, as a multiple of the bound; 0: what is
        measured is not known, and no unit may exceed a bound at no cost. `ranged`: with Gumbel noise.

        >>> found = Ladder.plan(41, "0.2", noise=25)
        >>> float(found.penalty), round(float(found.enough), 1)
        (12.5, 45.7)
        """
        budget, moved = positive(epsilon, "epsilon"), bound(sensitivity)
        costs = (1 + capped) * (_LEAST_RANGED if ranged else _LEAST) / budget
        enough = max(2 * (_ROOT * positive(noise, "noise") - costs) if noise else Fraction(0), Fraction(0))
        public = costs, int(moved), ranged, enough, whole(one_in, "one_in"), capped
        if whole(rungs, "rungs") < 2:
            return cls(rungs, 1, "exponential", Fraction(0), 0, *public, loss=PrivacyLoss())
        scale = moved / budget
        scale *= 1 + capped
        bits = grid_of("exponential", None, scale)
        loss = PrivacyLoss((BoundedRange(budget),)) if ranged else PrivacyLoss.of(budget)
        return cls(rungs, 1, "exponential", scale, bits, *public, loss=loss)

    def cut(self, confidence: Fraction) -> float:
        """Predict the greatest number of units that the chosen bound cuts and twice that bound would not.

        Where it is more by t, the noise of the rung exceeded that of the next one by t, which has the
        probability e^(-t/scale)/2; with Gumbel noise, 1/(1 + e^(t/scale)). By excess scores, units that are
        cut by less than an eighth of the bound count as the part of a unit that their score is.
        """
        scale, public = float(self.scale / self.sensitivity), float(self.penalty + self.enough)
        if self.ranged:
            return public + scale * max(0.0, math.log(confidence / (1 - confidence)))
        return public + scale * max(0.0, -math.log(2 * (1 - confidence)))

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        Scores go one way, by at most the sensitivity; a range needs its own noise.
        """
        if not self.scale:
            return self.groups < 2
        if not self.ranged and any(isinstance(part, BoundedRange) for part in self.loss.parts):
            return False
        return (1 + self.capped) * taken.span <= (self.loss.epsilon or 0) * self.scale

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Rung:
        """Choose a rung by how many units exceed each rung's bound, or by the rungs' scores."""
        array = as_counts(counts, self.groups, trials=True)
        if not self.scale:
            return Rung(self, np.zeros((*array.shape[:-1], 1), dtype=np.int64))
        values = self.values(array)
        if self.ranged:
            # The values are in grid steps already.
            chosen = GumbelTopK(
                self.groups, 1, self.scale * (1 << self.resolution), 0, lowest=False, loss=self.loss
            )
            return Rung(self, chosen.run(values, source).index)
        return Rung(self, self.order(values, source)[0])

    def values(self, exceeding: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what the noise is added to, in grid steps."""
        each, limit = self.sensitivity * (1 << self.resolution), exact_noise.STEP_LIMIT
        placed = exact_noise.place(exceeding, self.resolution)
        above = placed - np.minimum(min(round(each * self.enough), limit), placed[..., :1] // self.one_in)
        if not self.capped:
            costs = [min(round(each * self.penalty * j), limit) for j in range(self.groups)]
            return -(np.maximum(above, 0) + np.array(costs, dtype=np.int64))
        enough = min(round(_BEFORE * each * self.penalty), limit >> 3)
        few, before = np.clip(enough - above, 0, enough), np.zeros_like(above)
        for back in range(1, min(_BEFORE + 1, self.groups)):
            before[..., back:] += few[..., :-back]
        return -(np.maximum(above, 0) + before // _BEFORE)


def ladder_loss(epsilon: Fraction, *, beyond: bool = False) -> PrivacyLoss:
    """Return the loss of a kept ladder: half of epsilon for its size (`Ladder`), half for its `Bins`.

    With `beyond`, a fifth of epsilon (`VALUES_SHARE`) pays for what the values of units have beyond the
    declared bounds, and the ladder is paid from the other four fifths.
    """
    if not beyond:
        return PrivacyLoss.of(epsilon / 2, times=2)
    return ladder_loss((1 - VALUES_SHARE) * epsilon) + PrivacyLoss.of(VALUES_SHARE * epsilon)


LIMIT = 1 << 60
"""Where sums are cut, as all counted sums are."""


@dataclass(frozen=True, eq=False, slots=True)
class RungBins:
    """Figures of all units that exceed equally many bounds; each bound is at least twice the one before."""

    exceeded: NDArray[np.int64]
    """How many bounds the units of a row exceed. Each number occurs once, or not at all."""
    units: NDArray[np.int64]
    """How many units there are."""
    partial: NDArray[np.int64]
    """The sum of their scores at the last bound that they exceed (`excess_score`)."""
    totals: NDArray[np.int64] | None = None
    """The sum of what they have, with its sign; None: it is not known, nor are the next."""
    beyond: NDArray[np.int64] | None = None
    """The sum of how far they are beyond the last bound that they exceed, if that is at most `LIMIT`."""
    negative: NDArray[np.int64] | None = None
    """How many of them have less than 0; None: no unit can."""
    net: NDArray[np.int64] | None = None
    """As `beyond`, of each unit with the sign of what it has; None: no unit can have less than 0."""

    def scores(self, size: int) -> NDArray[np.int64]:
        """Return the scores of `size` bounds. The last one has the score 0.

        A unit above the next bound exceeds this one by more than an eighth, so it counts in full. The last
        bound is taken for enough: it is the best where most units exceed all bounds.

        >>> RungBins(*np.array([[2, 1], [3, 5], [FULL, 2 * FULL]])).scores(3) // FULL
        array([5, 1, 0])
        """
        numbers, scores = np.zeros(size + 1, dtype=np.int64), np.zeros(size + 1, dtype=np.int64)
        np.add.at(numbers, self.exceeded, self.units)
        np.add.at(scores, self.exceeded, self.partial)
        scores[1:-1] += FULL * np.cumsum(numbers[:1:-1])[::-1]
        scores[-1] = 0
        return scores[1:]

    def clipped(self, bounds: Sequence[int], place: int, *, step: int = 1, fine: int | None = None) -> int:
        """Return the sum over units of their values, each cut to -B .. B, where B is one of the bounds.

        It is in steps that divide B, and rounded down. With `fine`, `totals` of a row have steps, too: the
        last bound that its units exceed divided by `fine`, at least 1; they are rounded to whole steps.

        *Bounded:* a unit is in one row, whatever the others are. If it exceeds B, it moves the sum by B, else
        by what it has, and no cut of a sum to `LIMIT` makes that more. Where the row has a step of its own,
        the next bound is a whole number of them, at most B, and no less than what the unit has: rounded to
        whole steps, the sum moves by no more than that. So it is with the steps of the result.
        """
        return max(-LIMIT, min(self._clipped(bounds, place, fine) // step, LIMIT))

    def lead(self, bounds: Sequence[int], place: int, *, fine: int | None = None) -> int:
        """Return twice the excess over a bound B less what B leaves, both with the signs of the units.

        It is the sum over units of 2 e - a, where a is what a unit has, cut to -B .. B, and a + e the same,
        cut to -2B .. 2B. `fine` is as for `clipped`.

        *Bounded:* a unit that does not exceed B moves it by a alone, at most B. One that does moves the sum
        of a by exactly B, and that of e by at most B in the same direction, so 2 e - a by at most B. No cut
        of a sum to `LIMIT` changes that: in rows beyond B the sum of a is a number of units times B, and a
        cut makes a move of e less, and does not turn it. The rest is as for `clipped` and `excess`.
        """
        return 2 * self._excess(bounds, place, 1, self.net) - self._clipped(bounds, place, fine)

    def _clipped(self, bounds: Sequence[int], place: int, fine: int | None) -> int:
        if self.totals is None:
            raise ValueError("what units have is not known")
        total, bound = 0, bounds[place]
        negative = np.zeros_like(self.units) if self.negative is None else self.negative
        figures = (self.exceeded, self.units, self.totals, negative)
        for exceeded, units, own, below in zip(*(each.tolist() for each in figures), strict=True):
            size = max(bounds[exceeded - 1] // fine, 1) if exceeded and fine else 1
            total += bound * (units - 2 * below) if exceeded > place else size * own
        return total

    def excess(self, bounds: Sequence[int], place: int, *, times: int = 1) -> int:
        """Return the sum over units of how far they are beyond a bound B, each cut at `times` B.

        `times` is 2^k - 1 where there are k larger bounds than B, each twice the one before, the largest of
        them at most `LIMIT`.

        *Bounded:* a unit is in one row, whatever the others are. It moves the sum by 0 to `times` B, never
        down: each row adds a sum over its units of numbers from 0 on, and one that the query cuts to `LIMIT`
        moves by no more.
        """
        return self._excess(bounds, place, times, None)

    def _excess(self, bounds: Sequence[int], place: int, times: int, net: NDArray[np.int64] | None) -> int:
        """Return the sum of excesses, with signs if `net` is given."""
        if self.beyond is None or (times + 1) * bounds[place] > LIMIT:
            raise ValueError("how far units are beyond bounds is not known")
        total, bound = 0, bounds[place]
        last = bounds.index((times + 1) * bound)
        signs, own = self.units, self.beyond
        if net is not None and self.negative is not None:
            signs, own = self.units - 2 * self.negative, net
        rows = zip(self.exceeded.tolist(), signs.tolist(), own.tolist(), strict=True)
        for exceeded, units, beyond in rows:
            if exceeded > last:
                total += times * bound * units
            elif exceeded > place:
                total += beyond + (bounds[exceeded - 1] - bound) * units
        return total


def thresholds(most: int) -> tuple[int, ...]:
    """Return the upper ends of the bins up to M: the whole numbers floor(M/2^(i/2)), ascending, without 0.

    A bin holds the sizes above the end of the one before, the first those above 0. Those of M are among those
    of 2M, so numbers of units by the ends of a larger M can be added up.

    >>> thresholds(16)
    (1, 2, 4, 5, 8, 11, 16)
    """
    if type(most) is not int or most < 1:
        raise ValueError("the largest size of a bin is a whole number, at least 1")
    found, square = [], most**2
    while square:
        found.append(math.isqrt(square))
        square >>= 1
    return tuple(sorted(set(found)))


@dataclass(frozen=True, eq=False, slots=True)
class Binned(Result["Bins"]):
    """The noisy number of units in each bin, int64: by size, those beyond all thresholds last."""

    number: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bins(Mechanism[Binned]):
    """Two-sided geometric noise on the number of units in each bin of sizes.

    Notes
    -----
    Bin i holds the units whose size, a whole number of steps, is above the end before it, the first those
    above 0, and at most its own end; the last bin holds all above M. Noise on whole numbers with P(z)
    proportional to e^(-epsilon |z|) is added to each number. *Private:* the ends depend on M alone, which is
    public or was released before. So a unit is in one bin at most, and one unit more moves one number by 1:
    the probability of any output changes by at most a factor e^epsilon. Where M was released with a loss of
    its own, the losses add up.
    """

    ends: tuple[int, ...]
    """Upper ends of the bins, ascending, in steps: `thresholds` of the largest one, M."""
    scale: Fraction
    resolution: int

    @classmethod
    def plan(cls, most: int, epsilon: Number) -> Bins:
        """Plan the bins up to a public size M, in steps.

        >>> plan = Bins.plan(16, "0.25")
        >>> plan.ends, plan.scale, plan.groups
        ((1, 2, 4, 5, 8, 11, 16), Fraction(4, 1), 8)
        """
        budget, ends = positive(epsilon, "epsilon"), thresholds(most)
        scale = 1 / budget
        return cls(ends, scale, grid_of("geometric", None, scale), loss=PrivacyLoss.of(budget))

    @property
    def groups(self) -> int:
        """The number of bins, each of units with similar contributions."""
        return len(self.ends) + 1

    def counts(self, contributions: Iterable[int]) -> list[int]:
        """Return the exact numbers of units in the bins, of units that contribute so many steps each."""
        sizes = [size for size in contributions if size > 0]
        beyond = [sum(size > end for size in sizes) for end in self.ends]
        return [before - after for before, after in zip((len(sizes), *beyond), (*beyond, 0), strict=True)]

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        One unit is in one bin.
        """
        return taken.total <= (self.loss.epsilon or 0) * self.scale

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Binned:
        """Add noise to the exact number of units in each bin, clamped to 2^60."""
        values = exact_noise.place(as_counts(counts, self.groups, trials=True), self.resolution)
        values += source.draw("laplace", self.scale, self.resolution, values.shape)
        return Binned(self, values)
