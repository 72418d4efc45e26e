"""Release the groups of an unknown domain that have enough units, with their noisy numbers of units."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import between, counted, positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of, in_counts
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result
from dpsql.kernel.mechanisms.ragged import padded
from dpsql.kernel.mechanisms.tails import symmetric_cutoff


@dataclass(frozen=True, eq=False, slots=True)
class ExistingGroups(Result["Existing"]):
    """The groups that reached the threshold.

    Attributes
    ----------
    index
        int64, their positions in the counts, ascending. Positions of an unknown domain are private: what may
        be released is the set of the groups.
    value
        float64, their noisy numbers of units.
    """

    index: NDArray[np.int64]
    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Existing(Mechanism[ExistingGroups]):
    """Noisy numbers of units of all groups that have any, of which those that reach a threshold are released.

    Attributes
    ----------
    groups_per_unit
        m, in how many groups one unit is at most.
    cutoff
        The threshold is this many grid steps above one unit.

    Notes
    -----
    Korolova et al. (2009). Discrete Laplace noise of scale m/epsilon; the threshold is 1 + cutoff, with the
    least cutoff whose exact tail P(Z >= cutoff) is at most delta/m (`tails`): about
    (m/epsilon) ln(m/(2 delta)).

    *Private:* let D' have one unit more. It is in at most m groups. Those that it is alone in have no unit on
    D, where they are never released, and one on D': each is released with probability at most delta/m, any of
    them with at most delta. In the other groups numbers change by 1 in at most m, so that any release of
    these has a probability that changes by a factor of at most e^(m/scale) = e^epsilon. With p <= delta for
    that event, a set of releases has probability P on D and at least (1 - p) P/e^epsilon on D', so P is at
    most e^epsilon P' + delta; and P' is at most e^epsilon P + delta. Noise of each group is independent of
    where it stands among them.
    """

    undeclared = True

    groups_per_unit: int
    scale: Fraction
    resolution: int
    cutoff: int

    @classmethod
    def plan(
        cls, epsilon: Number, delta: Number, *, groups_per_unit: int = 1, resolution: int | None = None
    ) -> Self:
        """Plan a release of all groups with enough units. Delta is spent in full.

        >>> float(round(Existing.plan(1, "1e-6").threshold, 1))
        14.1
        """
        budget, m = positive(epsilon, "epsilon"), whole(groups_per_unit, "groups_per_unit")
        chance, scale = between(delta, "delta"), m / budget
        bits = grid_of("laplace", resolution, scale)
        cutoff = symmetric_cutoff(chance / m, exact_noise.rate(scale, bits))
        return cls(m, scale, bits, cutoff, loss=PrivacyLoss.of(budget, chance))

    @property
    def threshold(self) -> Fraction:
        """The least noisy number of units of a group that is released."""
        return 1 + Fraction(self.cutoff, 1 << self.resolution)

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: the numbers are those of units, each of which is in at most m groups."""
        m = self.groups_per_unit
        units = taken.low == 0 and taken.high <= 1 and taken.total <= m
        return units and m <= (self.loss.epsilon or 0) * self.scale

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> ExistingGroups:
        """Add noise to the clamped numbers of units; groups without units are never released."""
        array = counted(counts, np.shape(counts)[-1], trials=True)
        rows = np.atleast_2d(array)
        steps = exact_noise.place(rows, self.resolution)
        steps += source.draw("laplace", self.scale, self.resolution, rows.shape)
        least = self.cutoff + (1 << self.resolution)
        trial, place = np.nonzero((rows > 0) & (steps >= least))
        value = in_counts(steps[trial, place], self.resolution)
        if array.ndim == 1:
            return ExistingGroups(self, place, value)
        index, values = padded(trial, rows.shape, place, value)
        return ExistingGroups(self, index, values)
