"""Measure counts with Laplace noise: each count, or their total."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import bound, counted, positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of, in_counts
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result

_HALF = 31
"""Bits of the lower halves of numbers, of which 2^31 have a sum below 2^63, and of the upper halves."""


@dataclass(frozen=True, eq=False, slots=True)
class Measured(Result["Laplace"]):
    """Counts with independent Laplace noise, float64 in `value`; or their noisy total, of shape (1,)."""

    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Laplace(Mechanism[Measured]):
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
        """See `Mechanism`: m changes of c each, for m mechanisms of c/scale each; or one of all together."""
        part = next(iter(self.loss.parts), None)
        if part is None or part.epsilon is None:
            return not taken.total
        each = part.epsilon * self.scale
        return taken.total <= part.times * each and (part.times == 1 or taken.most <= each)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Measured:
        """Add noise to each count, clamped to 2^60 grid steps, or to their sum."""
        array = counted(counts, self.groups, trials=True)
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
