"""Choose a bound of contributions among powers of two, by how many units exceed each, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import BoundedRange, Number, PrivacyLoss, PureDP
from dpsql.kernel.mechanisms.arguments import bound, counted, positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource, grid_of
from dpsql.kernel.mechanisms.gumbel import GumbelTopK
from dpsql.kernel.mechanisms.mechanism import Result
from dpsql.kernel.mechanisms.sparse import NoisyOrder

_LEAST, _LEAST_RANGED = Fraction(5, 2), Fraction(7, 2)
"""What a rung costs at least, times epsilon, by the law of the noise."""
_ROOT = Fraction(141_421_356, 10**8)
"""The square root of 2: a public factor, whose last digits do not matter."""

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
    sensitivity
        How much one unit counts at a rung at most: 1 for numbers of units, `FULL` for excess scores.
    ranged
        Whether the noise is that of the exponential mechanism, so that the range of the loss is bounded.

    Notes
    -----
    With N_j the number of units whose contribution exceeds 2^j, it is noisy max with exponential noise on
    -(N_j + penalty j), the penalties public and rounded to the grid. *Private:* one unit more moves every N_j
    by 0 or 1, so these counts all move the same way, by at most 1, and `NoisyTopK` with k = 1 has the loss
    1/scale = epsilon. With the sums of `excess_score` for N_j, one unit more moves each by 0 to `FULL`, all
    the same way: noise and penalties are `FULL` times as large, and the loss is the same.

    *The penalty.* Measured with noise of standard deviation s times the bound, sums have the least error near
    the bound that s units exceed: a little more of it loses as much by noise as it gains by cutting less. One
    rung doubles the bound; so it costs s. With less than ln 4/epsilon a rung, the noise of the choice
    would often win on rungs that no unit needs, and the expected variance of what is measured would grow with
    their number: so a rung costs at least 5/(2 epsilon). The choice is then k rungs beyond the best one with
    a chance of the order e^(-5k/2), while the variance grows as 4^k: the sum of the products is less than
    1.5, however many rungs there are. So rungs that nobody needs, up to 2^83, cost nothing.

    *Ranged.* The choice of one rung by `GumbelTopK`, on the same numbers: they are monotone, and its range is
    bounded by epsilon. Where costs are added up, epsilon is about twice that of exponential noise, and a
    part of that pays for a larger least penalty: 7/(2 epsilon), with which the sum above is 1.14.
    """

    losses = (PureDP, BoundedRange)

    penalty: Fraction
    sensitivity: int = 1
    ranged: bool = False

    @classmethod
    def plan(
        cls, rungs: int, epsilon: Number, *, noise: Number = 0, sensitivity: int = 1, ranged: bool = False
    ) -> Ladder:
        """Plan a choice among so many rungs; free if there is only one.

        `noise` is the scale of the Laplace noise that the sums get, as a multiple of the bound; 0: what is
        measured is not known, and a rung costs the least that it may. `ranged`: with Gumbel noise.

        >>> float(Ladder.plan(41, "0.2", noise="1.25").penalty)
        12.5
        """
        budget, moved = positive(epsilon, "epsilon"), bound(sensitivity)
        least = (_LEAST_RANGED if ranged else _LEAST) / budget
        costs = max(_ROOT * positive(noise, "noise") if noise else Fraction(0), least)
        if whole(rungs, "rungs") < 2:
            return cls(rungs, 1, "exponential", Fraction(0), 0, costs, int(moved), ranged, loss=PrivacyLoss())
        scale = moved / budget
        bits = grid_of("exponential", None, scale)
        loss = PrivacyLoss((BoundedRange(budget),)) if ranged else PrivacyLoss.of(budget)
        return cls(rungs, 1, "exponential", scale, bits, costs, int(moved), ranged, loss=loss)

    def cut(self, confidence: Fraction) -> float:
        """Predict how many units are cut at most, of those that twice the bound would not cut.

        Where it is more by t, the noise of the rung exceeded that of the next one by t, which has the
        probability e^(-t/scale)/2; with Gumbel noise, 1/(1 + e^(t/scale)). By excess scores, units that are
        cut by less than an eighth of the bound count as the part of a unit that their score is.
        """
        scale = float(self.scale / self.sensitivity)
        if self.ranged:
            return float(self.penalty) + scale * max(0.0, math.log(confidence / (1 - confidence)))
        return float(self.penalty) + scale * max(0.0, -math.log(2 * (1 - confidence)))

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: scores go one way, by at most the sensitivity; a range needs its own noise."""
        if not self.scale:
            return self.groups < 2
        if not self.ranged and any(isinstance(part, BoundedRange) for part in self.loss.parts):
            return False
        return taken.span <= (self.loss.epsilon or 0) * self.scale

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Rung:
        """Choose by the numbers of units that exceed the bounds of the rungs, or by the scores of these."""
        array = counted(counts, self.groups, trials=True)
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
        each = self.penalty * self.sensitivity * (1 << self.resolution)
        costs = [round(each * j) for j in range(self.groups)]
        limit = exact_noise.STEP_LIMIT
        return -(exact_noise.place(exceeding, self.resolution) + np.minimum(costs, limit).astype(np.int64))
