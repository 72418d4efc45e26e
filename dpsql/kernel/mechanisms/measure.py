"""Measure counts: each or their total with Laplace noise, again with less, several with one box noise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss, Stream
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Measured,
    Mechanism,
    NoiseSource,
    as_counts,
    bound,
    bounds_of,
    common_unit,
    grid_of,
    in_counts,
    positive,
    whole,
)
from dpsql.lazy_dataclass import dataclass

_HALF = 31
"""Bits of the lower halves of numbers, of which 2^31 have a sum below 2^63, and of the upper halves."""


@dataclass(frozen=True, slots=True)
class Laplace(Mechanism["Measured[Laplace]"]):
    """Laplace noise on each of several counts, or (`total`) on their sum, which is called an anchor.

    With the gaps between the counts, the anchor determines each of them.

    Notes
    -----
    Discrete Laplace noise of scale m c/epsilon on the grid: P(z) proportional to e^(-|z|/scale). *Private:*
    neighbouring databases differ in at most m counts, by at most c each, whole numbers of steps; so the
    probability of any output by at most a factor e^(m c/scale), the product of the factors e^(change/scale)
    of the counts, and the sum by at most m c. These are m mechanisms of c/scale each. Where counts change by
    at most C in sum, however it is divided, m is 1 and c is C: one mechanism. Where they change by at most c
    each, however many do, and at most m c in sum, they cost no more than m mechanisms at any order a: with
    r = e^(-1/scale) and q = r^(2a-1), the mean of exp((a-1) L), L the log-ratio of noise moved by d steps, is
    (1-r)/(1+r) times r^(-(a-1)d) (1/(1-r) + q/(1-q)) + r^(ad) (1/(1-r) - 1/(1-q)), both with a coefficient
    above 0. So its logarithm is convex in d, and 0 for d = 0: d costs at most d/c of what c costs. The
    values have the positions of their counts: the order of release must be public, or itself be released.
    """

    groups: int
    scale: Fraction
    resolution: int
    total: bool

    @classmethod
    def plan(
        cls,
        groups: int,
        epsilon: Number,
        *,
        groups_per_unit: int | None = None,
        sensitivity: Number = 1,
        resolution: int | None = None,
        total: bool = False,
    ) -> Laplace:
        """Plan a measurement of counts that may all be released; nothing is spent if there is none.

        `groups_per_unit` is m, the largest number of the counts that a privacy unit can change, by at most
        the sensitivity each; None: all of them.

        >>> Laplace.plan(3, 1, groups_per_unit=2).scale
        Fraction(2, 1)
        """
        budget, moved = positive(epsilon, "epsilon"), bound(sensitivity)
        m = groups if groups_per_unit is None else min(whole(groups_per_unit, "groups_per_unit"), groups)
        if total and m < 1:
            raise ValueError("a total needs at least one count")
        scale = max(m, 1) * moved / budget
        loss = PrivacyLoss.of(budget) if total else PrivacyLoss.of(moved / scale, times=m)
        return cls(groups, scale, grid_of("laplace", resolution, scale), total, loss=loss)

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        There are m changes of c each, for m mechanisms of c/scale each; or one of all together.
        """
        part = next(iter(self.loss.parts), None)
        if part is None or part.epsilon is None:
            return not taken.total
        each = part.epsilon * self.scale
        return taken.total <= part.times * each and (part.times == 1 or taken.most <= each)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Measured[Laplace]:
        """Add noise to each count, clamped to 2^60 grid steps, or to their sum."""
        array = as_counts(counts, self.groups, trials=True)
        values = exact_noise.place(array, self.resolution)
        if self.total:
            noise = source.draw("laplace", self.scale, self.resolution, (*array.shape[:-1], 1))
            total = _exact_sum(np.concatenate([values, noise], axis=-1)).astype(np.float64)
            return Measured(self, in_counts(total, self.resolution))
        values += source.draw("laplace", self.scale, self.resolution, array.shape)
        return Measured(self, in_counts(values, self.resolution))


def _exact_sum(values: NDArray[np.int64]) -> NDArray[np.object_]:
    """Return the sums of the last axis as Python integers, which may pass 2^63."""
    high = (values >> _HALF).sum(axis=-1, keepdims=True).astype(object)
    low = (values & ((1 << _HALF) - 1)).sum(axis=-1, keepdims=True).astype(object)
    total: NDArray[np.object_] = high * (1 << _HALF) + low
    return total


@dataclass(frozen=True, slots=True)
class Refinement(Mechanism["Measured[Refinement]"]):
    """Counts with Laplace noise at increasing epsilons; all levels together cost the last epsilon.

    One privacy unit changes one of the counts.

    Notes
    -----
    In grid steps, noise at rate l is the difference of two independent geometric variables at rate l:
    P(G >= m) = e^(-l m). Given the noise z1 at rate l1, the noise z2 at rate l2 > l1 is drawn in two steps:

    1. Two geometric variables at rate l1 whose difference is z1: (z1 + M, M) if z1 >= 0, else (M, M - z1).
       The probability of a pair (g, h) is proportional to e^(-l1 (g + h)), so M is geometric at rate 2 l1.
    2. Each of them, g, is replaced by min(g, G) with a fresh G, geometric at rate l2 - l1. The noise z2 is
       the difference of the two minima.

    *Law:* the minimum is at least m with probability e^(-l1 m) e^(-(l2 - l1) m), so z2 is discrete Laplace
    noise at rate l2. P(min = a, g = a) is proportional to e^(-l2 a), and P(min = a, g = a + v) for v > 0 to
    e^(-l2 a) e^(-l1 v) (1 - e^(-(l2 - l1))). These are products: g - min(g, G) does not depend on min(g, G),
    so z1 - z2 does not depend on z2.
    *Private:* the first release q + z1 is the second, q + z2, plus z1 - z2, which depends neither on the
    second nor on the count q. So both together cost what the second alone costs. The noise of each further
    level is drawn from that of the level before, so the same holds for all levels. *This needs the same q at
    every level:* the noise of a release is known only as its difference from q.
    *Grid:* a count is 2^b steps, one unit moves it by at most bound 2^b steps, and the rate is
    1 / (scale 2^b). This holds for any b; on a coarse grid the variance is slightly smaller.
    Koufogiannis, Han and Pappas (2016) for continuous noise. The law is theirs on the grid, the sampler ours.
    """

    groups: int
    """Number of counts."""
    scales: tuple[Fraction, ...]
    """Scale of the noise at each level, bound / epsilon, decreasing."""
    resolution: int
    """b: all levels are on the grid of 2^-b counts."""

    @classmethod
    def plan(
        cls,
        groups: int,
        epsilons: Sequence[Number],
        *,
        sensitivity: Number = 1,
        resolution: int | None = None,
    ) -> Refinement:
        """Plan releases at these epsilons, which must increase; `resolution` is chosen by the last.

        >>> float(Refinement.plan(1, ["0.1", "0.5", 1]).loss.charge.epsilon)
        1.0
        """
        budgets, moved = [positive(each, "epsilon") for each in epsilons], bound(sensitivity)
        steps = [more - less for less, more in itertools.pairwise(budgets)]
        if not budgets or min(steps, default=1) <= 0:
            raise ValueError("the epsilons of the levels must increase")
        scales = tuple(moved / budget for budget in budgets)
        bits = grid_of("laplace", resolution, *scales)
        for rate in (2 * budgets[0], *steps):
            exact_noise.rate(moved / rate, bits)
        return cls(whole(groups, "groups"), scales, bits, loss=PrivacyLoss.of(budgets[-1]))

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        One unit changes one of the counts, by at most the bound.
        """
        return taken.total <= (self.loss.epsilon or 0) * self.scales[-1]

    @property
    def further(self) -> PrivacyLoss:
        """The loss of the last level by itself, where the levels before it are paid.

        The log-ratio of both values' laws given the first one is only known to be within the sum of both
        epsilons, so it costs so much at an order; where epsilons add, it is their difference.
        """
        last = self.loss.charge.epsilon
        paid = last * self.scales[-1] / self.scales[-2]
        return PrivacyLoss((Stream(last - paid, last + paid),))

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Measured[Refinement]:
        """Release each count at every level of precision."""
        placed = exact_noise.place(as_counts(counts, self.groups, trials=True), self.resolution)
        noise = source.draw("laplace", self.scales[0], self.resolution, placed.shape)
        levels = [placed + noise]
        for level in range(1, len(self.scales)):
            noise = self._less(noise, level, source)
            levels.append(placed + noise)
        return Measured(self, in_counts(np.concatenate(levels, axis=-1), self.resolution))

    def again(
        self, counts: ArrayLike, released: ArrayLike, source: NoiseSource = SYSTEM
    ) -> Measured[Refinement]:
        """Release each count at the last level alone, given its release at the level before, in grid steps.

        The counts must be those that were released.
        """
        placed = exact_noise.place(as_counts(counts, self.groups, trials=True), self.resolution)
        noise = np.asarray(released, dtype=np.int64) - placed
        less = self._less(noise, len(self.scales) - 1, source)
        return Measured(self, in_counts(placed + less, self.resolution))

    def _less(self, noise: NDArray[np.int64], level: int, source: NoiseSource) -> NDArray[np.int64]:
        """Draw the noise of a level, in grid steps, given that of the level before."""
        before, now = self.scales[level - 1], self.scales[level]
        common = source.draw("exponential", before / 2, self.resolution, noise.shape)
        pair = np.stack([np.maximum(noise, 0), np.maximum(-noise, 0)]) + common
        fresh = source.draw("exponential", 1 / (1 / now - 1 / before), self.resolution, pair.shape)
        above, below = np.minimum(pair, fresh)
        less: NDArray[np.int64] = above - below
        return less


@lru_cache(maxsize=4096)
def pads(counts: int) -> int:
    """Return the number of pads with the smallest variance for a given number of counts, about (6 k)^(1/3).

    The variance is that of `estimates.box.box_variance`, times 12: how exact it is matters to no proof.

    >>> [pads(k) for k in (1, 4, 5, 10, 25, 100, 942)]
    [1, 1, 2, 2, 4, 7, 16]
    """

    def variance(m: int) -> Fraction:
        own = (counts + m + 1) * (counts + m + 2)
        return own + Fraction(6 * own, (m + 1) * (m + 2))

    guess = max(1, round((6 * counts) ** (1 / 3)))
    return min(range(max(1, guess - 8), guess + 9), key=variance)


@dataclass(frozen=True, slots=True)
class Box(Mechanism["Measured[Box]"]):
    """One noise for several counts that a unit moves in the same direction; or (`cube`) in any directions.

    Notes
    -----
    *Box.* The counts on the grid and m zeros, K numbers in all, get noise Y with P(y) proportional to
    e^(-rate max(y)) on whole numbers from 0 on. Released are the counts less the midrange of the noisy zeros,
    which a common shift of all numbers does not change. *Private:* a release leaves the shift t open, so
    its probability is proportional to the sum over t >= 0 of e^(-rate (range(w - q) + t)), that is to
    e^(-rate range(w - q)), range = max - min over all K, with a constant that does not depend on q. Range
    is a seminorm. One unit changes the counts by d in [0, unit]^k or in [-unit, 0]^k steps and the zeros
    not at all, and range((d, 0)) <= unit. So it is with d in [low, high]^k for one bound high - low, if
    low <= 0 <= high. So no probability changes by more than a factor e^(rate unit) = e^epsilon.
    Hardt and Talwar (2010) on the hull of what a unit can do; the pads are ours.

    *Cube.* Noise with P(z) proportional to e^(-rate max|z|); one unit changes the counts by d in
    [-unit, unit]^k, and max|d| <= unit.

    *Grid:* every count is a whole number of the one grid step that the noise has: one of count a is
    unit // bounds[a] steps, so that a change by bounds[a] is at most unit steps. Nothing is lost by the
    division where unit is a multiple of every bound. Counts are clamped to 2^60 grid steps, which preserves
    bounds and direction.
    """

    bounds: tuple[int, ...]
    """How much one unit can change each count."""
    unit: int
    """Grid steps in the largest change of any count: one of count a is `unit // bounds[a]` steps."""
    rate: Fraction
    """Rate of the noise on a grid step, epsilon / unit."""
    pads: int
    """Number of public zeros that are measured with the counts; 0 for a cube."""
    repeats: int = 1
    """How often the bounds repeat: with those of the m counts of one group, the number of groups."""

    @property
    def size(self) -> int:
        """The number of counts that are measured."""
        return len(self.bounds) * self.repeats

    @classmethod
    def plan(
        cls,
        groups: int,
        epsilon: Number,
        *,
        sensitivity: Number | Sequence[Number] = 1,
        monotone: bool = True,
        resolution: int | None = None,
    ) -> Box:
        """Plan a measurement of counts that may all be released; nothing is spent if there is none.

        `sensitivity` is one bound, or one for each count; fewer are repeated, as the bounds of a group's
        counts for the counts of all groups, group by group. Counts that one unit may move in different
        directions (`monotone=False`), as differences of counts, get cube noise.

        >>> Box.plan(10, 1).pads, Box.plan(10, 1, monotone=False).pads
        (2, 0)
        """
        budget = positive(epsilon, "epsilon")
        bounds, repeats = bounds_of(groups, sensitivity)
        unit = common_unit(bounds, 1 / budget, resolution)
        made = cls(
            bounds,
            unit,
            budget / unit,
            pads(groups) if monotone else 0,
            repeats,
            loss=PrivacyLoss.of(budget) if groups else PrivacyLoss(),
        )
        if groups:
            check = exact_noise.check_box if monotone else exact_noise.check_cube
            check(made.rate, groups + made.pads)
        return made

    def step(self, place: int) -> float:
        """Return the step of the grid on which one count is released."""
        return 1 / (self.unit // self.bounds[place % len(self.bounds)])

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        In steps, the changes of all counts are within one range of `unit`.
        """
        found = taken.steps(tuple(self.unit // each for each in self.bounds))
        if found is None or self.rate * self.unit > (self.loss.epsilon or 0):
            return found == []
        low = min((change.low * step for change, _, step in found), default=0)
        high = max((change.high * step for change, _, step in found), default=0)
        return (high - low if self.pads else max(-low, high)) <= self.unit

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Measured[Box]:
        """Add the noise to the counts, clamped, and take the midrange of the pads as their origin."""
        array = as_counts(counts, self.size, trials=True)
        rows = np.atleast_2d(array)
        if not self.size:
            return Measured(self, array.astype(np.float64))
        bounds = np.tile(np.array(self.bounds, dtype=np.int64), self.repeats)
        steps = self.unit // bounds
        limit = exact_noise.STEP_LIMIT // steps
        placed = np.clip(rows, -limit, limit) * steps
        if self.pads:
            noise = source.box(self.rate, self.size + self.pads, len(rows))
            ends = noise[:, self.size :]
            placed = 2 * (placed + noise[:, : self.size]) - (ends.max(1) + ends.min(1))[:, None]
        else:
            placed = 2 * (placed + source.cube(self.rate, self.size, len(rows)))
        value = placed / (2 * steps)
        return Measured(self, value.reshape(array.shape))
