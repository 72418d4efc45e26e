"""Measure several counts with Gaussian noise, of which monotone counts share a part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import counted, positive, whole
from dpsql.kernel.mechanisms.common_unit import bounds_of, common_unit
from dpsql.kernel.mechanisms.gaussian_variance import Changes, least_variances
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result

_PLACES = 30
"""Binary places of a square root that chooses a grid."""
_FINE = 10
"""Binary places that a bound keeps at least where counts are rounded."""
_MOST = 1 << 62
"""Counts are at most this before they are rounded."""


@dataclass(frozen=True, eq=False, slots=True)
class GaussianMeasured(Result["Gaussian"]):
    """Counts with Gaussian noise, float64 in `value`, in counts."""

    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism[GaussianMeasured]):
    """Gaussian noise on each of several counts, and where that has less noise in all, one on all of them.

    It is private at an order of Renyi divergence, and for no epsilon alone: `loss` is a `Gaussian` part.

    Attributes
    ----------
    bounds
        How much one unit can change each count.
    repeats
        How often the bounds repeat: with those of the m counts of one group, the number of groups.
    unit
        Grid steps in the largest change of any count: one of count a is `unit // bounds[a]` steps.
    own, shared
        Variances of the noise of each count, and of that of all counts, in squared grid steps; `shared` is 0
        if there is none.
    places
        Counts are rounded to multiples of 2^`places` first: 0 unless the variance would be beyond its limit.

    Notes
    -----
    Discrete Gaussian noise, P(x) proportional to e^(-x^2/(2 variance)) on whole grid steps. Released are the
    counts, in steps, plus X_i + Z: X_i of variance `own` for each count, Z of variance `shared` for all.
    *Private:* counts that one unit moves by v in whole steps give the same release if X moves by s - v and Z
    by -s, for any whole s. Each noise's Renyi divergence of order a is a (its move)^2/(2 variance) (Canonne,
    Kamath and Steinke 2020), and they are independent, so a times `Changes.rho` is the largest divergence
    over all changes, if the best s is taken for each. Without shared noise only v^2 counts, whatever its
    signs: at most `most` counts change by at most `unit` steps.

    All counts move the same way, so one noise for all hides much of a change: it moves by about half of the
    unit if half of the counts move. The shared part is ours.

    *Grid:* every count is a whole number of the one grid step that the noise has: one of count a is
    unit // bounds[a] steps, so that a change by bounds[a] is at most unit steps. Counts are clamped to 2^60
    grid steps, which preserves bounds and direction. Where counts are rounded, `bounds` are those of the
    rounded ones, in 2^`places` counts, rounded up: what moves by at most so many whole ones moves by no more
    when it is rounded, and in the same direction.
    """

    bounds: tuple[int, ...]
    unit: int
    own: int
    shared: int
    repeats: int = 1
    places: int = 0

    @property
    def size(self) -> int:
        """The number of counts."""
        return len(self.bounds) * self.repeats

    @classmethod
    def plan(
        cls,
        groups: int,
        rho: Number,
        *,
        groups_per_unit: int | None = None,
        sensitivity: Number | Sequence[Number] = 1,
        monotone: bool = True,
        resolution: int | None = None,
    ) -> Gaussian:
        """Plan a measurement of counts that may all be released; nothing is spent if there is none.

        Parameters
        ----------
        groups
            Number of counts.
        rho
            Budget, in zero-concentrated differential privacy.
        groups_per_unit
            The largest number of the counts that a privacy unit can change; None: all of them. Or all of its
            changes together are at most so many bounds.
        sensitivity
            One bound, or one for each count; fewer are repeated, as the bounds of a group's counts for the
            counts of all groups, group by group.
        monotone
            Whether a unit moves all counts in the same direction. Counts that it moves by low to high, low <=
            0 <= high, as sums, are monotone ones of bound high - low, if it can change all of them.
        resolution
            As in `Mechanism`, for the count with the largest bound.

        >>> all_down, any_way = Gaussian.plan(10, "1/2"), Gaussian.plan(10, "1/2", monotone=False)
        >>> all_down.own + all_down.shared < any_way.own
        True
        """
        budget = positive(rho, "rho")
        bounds, repeats = bounds_of(groups, sensitivity)
        most = groups if groups_per_unit is None else min(whole(groups_per_unit, "groups_per_unit"), groups)
        # The standard deviation, over the largest change, of noise that hides the change of one count.
        scale = Fraction(math.isqrt(math.ceil(4**_PLACES / (2 * budget))), 1 << _PLACES)
        places = _rounded_places(bounds, math.ceil(most / (2 * budget)))
        bounds = tuple(-(-each >> places) for each in bounds)
        unit = common_unit(bounds, scale, resolution)
        if not groups:
            return cls(bounds, unit, 0, 0, repeats, loss=PrivacyLoss())
        squares = most * unit * unit
        if places and most < groups:  # as `rounded_squares`, where all changes add up to so many bounds
            monotone, squares = False, squares + (most * most + groups) * (unit // min(bounds)) ** 2
        own, shared = (
            least_variances(Changes(groups, most, unit), budget)
            if monotone
            else (math.ceil(squares / (2 * budget)), 0)
        )
        for variance in (own, *([shared] if shared else [])):
            exact_noise.check_variance(variance)
        return cls(bounds, unit, own, shared, repeats, places, loss=PrivacyLoss.gaussian(budget))

    def step(self, place: int) -> float:
        """Return the grid step of one count."""
        return math.ldexp(1 / (self.unit // self.bounds[place % len(self.bounds)]), self.places)

    @property
    def rounding(self) -> float:
        """How far a count may be from what it is rounded to."""
        return math.ldexp(0.5, self.places) if self.places else 0.0

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: what all changes cost in steps is at most rho; of shared noise, see `Changes`.

        What changes by at most c in each group, and by at most t in all, has squares of at most c t in sum;
        where counts are rounded, see `rounded_squares`.
        """
        found, rho = taken.steps(tuple(self.unit // each for each in self.bounds)), self.loss.rho
        if not found or rho is None:
            return found == []
        ends = [(-(change.low >> self.places), -(-change.high >> self.places)) for change, *_ in found]
        moves = [(low * step, high * step) for (low, high), (_, _, step) in zip(ends, found, strict=True)]
        if self.shared:
            wide = max(low for low, _ in moves) + max(high for _, high in moves)
            worst = Changes(self.size, self.size, self.unit)
            return wide <= self.unit and worst.rho(self.own, self.shared) <= rho
        cost = 0
        for (low, high), (change, total, step) in zip(moves, found, strict=True):
            every = taken.groups * max(low, high) ** 2
            if self.places:
                most = max(low, high) // step
                together = rounded_squares(taken.groups, most, -(-total >> self.places)) * step * step
            else:
                together = change.most * total * step * step
            cost += min(every, together)
        return cost <= 2 * self.own * rho

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> GaussianMeasured:
        """Add the noise to the counts, clamped."""
        array = counted(counts, self.size, trials=True)
        if not self.size:
            return GaussianMeasured(self, array.astype(np.float64))
        steps = self.unit // np.tile(np.array(self.bounds, dtype=np.int64), self.repeats)
        limit = exact_noise.STEP_LIMIT // steps
        if self.places:
            array = (np.minimum(array, _MOST) + (1 << self.places - 1)) >> self.places
        placed = np.clip(array, -limit, limit) * steps
        placed += source.gaussian(self.own, array.shape)
        if self.shared:
            placed += source.gaussian(self.shared, (*array.shape[:-1], 1))
        return GaussianMeasured(self, np.ldexp(placed / steps, self.places))


def rounded_squares(groups: int, most: int, total: int) -> int:
    """Return the largest sum of squares of changes of rounded counts, each at most `most`, in so many groups.

    Before they are rounded, all changes add up to at most `total`. What changes by more than m - 1 may move
    its rounded count by m: so m - 1, over all groups, adds up to less than `total`. Squares are convex: as
    many as can be are `most`, one has what is left, and all others move by 1.

    >>> rounded_squares(4, 1024, 1024), rounded_squares(4, 1024, 2048), rounded_squares(2, 3, 100)
    (1048579, 2097157, 18)
    """
    left = max(total - 1, 0)
    if most <= 1 or not total:
        return groups if total else 0
    full = min(groups, left // (most - 1))
    if full == groups:
        return full * most * most
    rest = left - full * (most - 1) + 1
    return full * most * most + rest * rest + groups - full - 1


def _rounded_places(bounds: Sequence[int], variance: int) -> int:
    """Return to which power of two counts are rounded, so that the variance is within its limit.

    `variance` is the largest one that a noise may have, over the square of the largest change. Where a bound
    is too small for that, nothing is rounded.
    """
    if not bounds or not variance:
        return 0
    most = math.isqrt(exact_noise.LARGEST_VARIANCE // variance).bit_length() - 1
    places = max(bounds).bit_length() - most
    return places if most > 0 and 0 < places <= min(bounds).bit_length() - 1 - _FINE else 0
