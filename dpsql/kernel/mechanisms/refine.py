"""Release a count again with less noise, given its first release, at the price of the last release alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss, Stream
from dpsql.kernel.mechanisms.arguments import bound, counted, positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of, in_counts
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result


@dataclass(frozen=True, eq=False, slots=True)
class Refined(Result["Refinement"]):
    """Counts with Laplace noise at each level, float64 in `value`: all counts of one level after another."""

    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Refinement(Mechanism[Refined]):
    """Counts with Laplace noise at increasing epsilons; all levels together cost the last epsilon.

    One privacy unit changes one of the counts.

    Attributes
    ----------
    groups
        Number of counts.
    scales
        Scale of the noise at each level, bound / epsilon, decreasing.
    resolution
        b: all levels are on the grid of 2^-b counts.

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
    scales: tuple[Fraction, ...]
    resolution: int

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
        """See `Mechanism`: one unit changes one of the counts, by at most the bound."""
        return taken.total <= (self.loss.epsilon or 0) * self.scales[-1]

    @property
    def further(self) -> PrivacyLoss:
        """The loss of the last level by itself, where those before it are paid.

        The log-ratio of both values' laws given the first one is only known to be within the sum of both
        epsilons, so it costs so much at an order; where epsilons add, it is their difference.
        """
        last = self.loss.charge.epsilon
        paid = last * self.scales[-1] / self.scales[-2]
        return PrivacyLoss((Stream(last - paid, last + paid),))

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Refined:
        """Release each count at every level."""
        placed = exact_noise.place(counted(counts, self.groups, trials=True), self.resolution)
        noise = source.draw("laplace", self.scales[0], self.resolution, placed.shape)
        levels = [placed + noise]
        for level in range(1, len(self.scales)):
            noise = self._less(noise, level, source)
            levels.append(placed + noise)
        return Refined(self, in_counts(np.concatenate(levels, axis=-1), self.resolution))

    def again(self, counts: ArrayLike, released: ArrayLike, source: NoiseSource = SYSTEM) -> Refined:
        """Release each count at the last level alone, given its release at the level before, in grid steps.

        The counts must be those that were released.
        """
        placed = exact_noise.place(counted(counts, self.groups, trials=True), self.resolution)
        noise = np.asarray(released, dtype=np.int64) - placed
        less = self._less(noise, len(self.scales) - 1, source)
        return Refined(self, in_counts(placed + less, self.resolution))

    def _less(self, noise: NDArray[np.int64], level: int, source: NoiseSource) -> NDArray[np.int64]:
        """Draw the noise of a level, in grid steps, given that of the level before."""
        before, now = self.scales[level - 1], self.scales[level]
        common = source.draw("exponential", before / 2, self.resolution, noise.shape)
        pair = np.stack([np.maximum(noise, 0), np.maximum(-noise, 0)]) + common
        fresh = source.draw("exponential", 1 / (1 / now - 1 / before), self.resolution, pair.shape)
        above, below = np.minimum(pair, fresh)
        less: NDArray[np.int64] = above - below
        return less
