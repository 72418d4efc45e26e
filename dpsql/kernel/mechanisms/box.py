"""Measure several counts with one noise: box noise for monotone counts, cube noise for any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import counted, positive
from dpsql.kernel.mechanisms.common_unit import bounds_of, common_unit
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result


@dataclass(frozen=True, eq=False, slots=True)
class BoxMeasured(Result["Box"]):
    """Counts with one common noise, float64 in `value`, in counts; its steps are half grid steps."""

    value: NDArray[np.float64]


@lru_cache(maxsize=4096)
def pads(counts: int) -> int:
    """Return the number of pads with the smallest variance for so many counts, about (6 k)^(1/3).

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
class Box(Mechanism[BoxMeasured]):
    """One noise for several counts that a unit moves in the same direction; or (`cube`) in any directions.

    Attributes
    ----------
    bounds
        How much one unit can change each count.
    repeats
        How often the bounds repeat: with those of the m counts of one group, the number of groups.
    unit
        Grid steps in the largest change of any count: one of count a is `unit // bounds[a]` steps.
    rate
        Rate of the noise on a grid step, epsilon / unit.
    pads
        Number of public zeros that are measured with the counts; 0 for a cube.

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
    unit: int
    rate: Fraction
    pads: int
    repeats: int = 1

    @property
    def size(self) -> int:
        """The number of counts."""
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
        """Return the grid step of one count."""
        return 1 / (self.unit // self.bounds[place % len(self.bounds)])

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: in steps, the changes of all counts are within one range of `unit`."""
        found = taken.steps(tuple(self.unit // each for each in self.bounds))
        if found is None or self.rate * self.unit > (self.loss.epsilon or 0):
            return found == []
        low = min((change.low * step for change, _, step in found), default=0)
        high = max((change.high * step for change, _, step in found), default=0)
        return (high - low if self.pads else max(-low, high)) <= self.unit

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> BoxMeasured:
        """Add the noise to the counts, clamped, and take the midrange of the pads as their origin."""
        array = counted(counts, self.size, trials=True)
        rows = np.atleast_2d(array)
        if not self.size:
            return BoxMeasured(self, array.astype(np.float64))
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
        return BoxMeasured(self, value.reshape(array.shape))
