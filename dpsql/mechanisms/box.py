"""Measure several counts with one noise: box noise for monotone counts, cube noise for any."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.box import (
    box_half_width,
    cube_half_width,
    cube_variance,
    difference_half_width,
    own_variance,
    pads,
    reference_variance,
    simultaneous_half_width,
)
from dpsql.estimates.closed_form import check_confidence
from dpsql.estimates.measurement import BoxNoise
from dpsql.kernel import noise as exact_noise
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.lazy_dataclass import dataclass
from dpsql.mechanisms.arguments import counted, positive
from dpsql.mechanisms.audited import AuditCase
from dpsql.mechanisms.common_unit import bounds_of, common_unit
from dpsql.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.mechanisms.mechanism import Mechanism, Result, in_one_call


@dataclass(frozen=True, eq=False, slots=True)
class BoxMeasured(Result["Box"]):
    """Counts with one common noise, float64 in `value`, in counts; its steps are half grid steps."""

    value: NDArray[np.float64]


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

        >>> round(Box.plan(10, 1).stddev(0), 2), round(Box.plan(10, 1, monotone=False).stddev(0), 2)
        (4.77, 6.63)
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

    def noise(self, place: int) -> BoxNoise:
        """Return the variances of the noise of one count, and of what it shares with counts of its bound."""
        squared = self.in_counts(place, 1) ** 2
        if not self.pads:
            return BoxNoise(cube_variance(self.size) * squared, 0.0)
        own, shared = own_variance(self.size + self.pads), reference_variance(self.size, self.pads)
        return BoxNoise(own * squared, shared * squared)

    def stddev(self, place: int) -> float:
        """Predict the standard deviation of one count."""
        return math.sqrt(self.noise(place).variance)

    def difference_stddev(self, place: int) -> float:
        """Predict the standard deviation of a count of two that have one bound, less the other; for a box."""
        return math.sqrt(2 * self.noise(place).own)

    def half_width(self, place: int, confidence: Fraction, *, simultaneous: bool = False) -> float:
        """Predict half the width of the interval of one count, or of that of all counts at once."""
        level = check_confidence(confidence)
        if not self.pads:
            width = cube_half_width(self.size, level, simultaneous=simultaneous)
        elif simultaneous:
            width = simultaneous_half_width(self.size, self.pads, level)
        else:
            width = box_half_width(self.size, self.pads, level)
        return self.in_counts(place, width) + self.step(place)

    def difference_half_width(self, place: int, confidence: Fraction) -> float:
        """Predict half the width of the interval of the difference of two counts that have one bound."""
        width = difference_half_width(self.size + self.pads, float(confidence))
        return self.in_counts(place, width if self.pads else 2 * width) + self.step(place)

    def step(self, place: int) -> float:
        """Return the grid step of one count."""
        return 1 / (self.unit // self.bounds[place % len(self.bounds)])

    def in_counts(self, place: int, width: float) -> float:
        """Convert a length in units of bound over epsilon."""
        return width * self.step(place) / float(self.rate)

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


box = in_one_call(Box.plan)
"""Release each of given counts with one common noise; arguments as in `Box.plan`, with the counts first."""

AUDITED = (
    AuditCase("box", "all of k counts with one noise, uniform in a box of random side", Box.plan, "monotone"),
    AuditCase(
        "box, unequal bounds",
        "two counts, of which a unit changes the first by 2 and the second by 3",
        lambda groups, **options: Box.plan(groups, sensitivity=((2, 3) * groups)[:groups], **options),
        inputs=lambda _: [
            ("both above", (1, 1), (3, 4)),
            ("the first above", (1, 1), (3, 1)),
            ("both below", (3, 4), (1, 1)),
        ],
    ),
    AuditCase(
        "cube",
        "all of k counts that a unit moves in any directions, with one noise",
        lambda groups, **options: Box.plan(groups, monotone=False, **options),
    ),
)
"""How it is audited."""
