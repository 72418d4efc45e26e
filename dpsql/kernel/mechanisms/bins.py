"""Release how many units contribute how much: a noisy number of units in each bin of sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import counted, positive
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result


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

    Attributes
    ----------
    ends
        Upper ends of the bins, ascending, in steps: `thresholds` of the largest one, M.

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
        """The number of bins."""
        return len(self.ends) + 1

    def counts(self, contributions: Iterable[int]) -> list[int]:
        """Return the exact numbers of units in the bins, of units that contribute so many steps each."""
        sizes = [size for size in contributions if size > 0]
        beyond = [sum(size > end for size in sizes) for end in self.ends]
        return [before - after for before, after in zip((len(sizes), *beyond), (*beyond, 0), strict=True)]

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: one unit is in one bin."""
        return taken.total <= (self.loss.epsilon or 0) * self.scale

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Binned:
        """Add noise to the exact number of units in each bin, clamped to 2^60."""
        values = exact_noise.place(counted(counts, self.groups, trials=True), self.resolution)
        values += source.draw("laplace", self.scale, self.resolution, values.shape)
        return Binned(self, values)
