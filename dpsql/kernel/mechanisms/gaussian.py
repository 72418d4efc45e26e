"""Measure several counts with Gaussian noise, of which monotone counts share a part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpsql.kernel import loss
from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Measured,
    Mechanism,
    NoiseSource,
    as_counts,
    bounds_of,
    common_unit,
    positive,
    whole,
)
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Changes:
    """What one unit can do to counts on a grid.

    All counts move by 0 to `unit` steps, or all by 0 to -unit, and at most `most` of them at all.
    """

    counts: int
    most: int
    unit: int

    def rho(self, own: int, shared: int) -> Fraction:
        """Return the largest rho of a change of counts, for given variances of noise; 0: nothing is shared.

        Notes
        -----
        For a change v of the counts and a whole number s, own noises moved by v_i - s and the shared one by s
        give the same release, at rho(v, s) = sum (v_i - s)^2/(2 own) + s^2/(2 shared): whole moves of
        discrete Gaussians cost exactly as much as continuous ones (Canonne, Kamath and Steinke 2020,
        Theorem 14). So a change costs rho(v), the least one over s, and s is next to
        (sum v_i)/(k + t), t = own/shared, k the number of counts.

        *The worst v is j times the unit, else 0.* If v_i = x lies between, then moving it to `unit` adds at
        least (unit - x)(x + unit - 2 s')/(2 own), s' the best s then, and moving it to 0 at least
        x (2 s'' - x)/(2 own). Both are negative only if s' - s'' > unit/2; but they differ by at most
        unit/(k + t) + 1. `shareable` sees to that.

        *Which j.* For real s the cost is (j - j^2/(k + t)) unit^2/(2 own), largest at (k + t)/2; whole s
        adds at most (k + t)/(8 own). So j is within (k + t)/(2 unit) of that or of `most`.

        Counts that move from low to high, low <= 0 <= high, with high - low = unit and `most` all of them,
        cost no more. The same moves lead to j counts at high and the others at low. Then with u = s - low,
        rho is the least of A(u) + (u + low)^2/(2 shared), where A(u) does not depend on low. Moving low to 0
        adds at least -low (2 u' + low)/(2 shared), moving it to -unit at least
        (unit + low)(unit - low - 2 u'')/(2 shared). Both are negative only if u'' - u' > unit/2, but they
        differ by at most t unit/(k + t) + 1. At both ends it is a change as above.
        """
        if not shared:
            return Fraction(self.most * self.unit * self.unit, 2 * own)
        weight = self.counts * shared + own
        window = weight // (2 * self.unit * shared) + 2
        peak = min(weight // (2 * shared), self.most)
        worst = max(
            self._cost(j, own, shared)
            for j in range(max(1, peak - window), min(self.most, peak + window) + 1)
        )
        return Fraction(worst, 2 * own * shared)

    def _cost(self, j: int, own: int, shared: int) -> int:
        """Return 2 own shared times the least cost over s, for j counts that change."""
        near = j * self.unit * shared // (self.counts * shared + own)
        return min(
            shared * (j * (self.unit - s) ** 2 + (self.counts - j) * s * s) + own * s * s
            for s in (near, near + 1)
        )

    def shareable(self, ratio: float) -> bool:
        """Whether a ratio of own to shared variance allows the proof of `rho`."""
        return self.unit * (0.5 - max(1.0, ratio) / (self.counts + ratio)) >= 1.001


@lru_cache(maxsize=1024)
def least_variances(changes: Changes, rho: Fraction) -> tuple[int, int]:
    """Return variances of own and of shared noise, in squared steps, whose rho is at most this.

    Their sum is about the least. For k counts that may all change it is at most (1 + sqrt k)^2 S/4, with
    S = unit^2/(2 rho) the variance for one count: a quarter of what own noise alone needs, k S. They are
    searched in floating point; what they cost is computed exactly, and they are scaled until that fits.

    >>> [least_variances(Changes(k, k, 1000), Fraction(1, 2)) for k in (1, 4)]
    [(1000000, 0), (1500000, 750000)]
    """
    most = changes.unit**2 / (2 * rho)
    alone = math.ceil(changes.most * most)
    total, ratio = _best_ratio(changes.counts, changes.most)
    if total >= 0.99 * changes.most or not changes.shareable(ratio):
        return alone, 0
    own = math.ceil(Fraction(total / (1 + 1 / ratio)) * most)
    shared = math.ceil(own / Fraction(ratio))
    while (cost := changes.rho(own, shared)) > rho:
        own, shared = math.ceil(own * cost / rho), math.ceil(shared * cost / rho)
    return (own, shared) if own + shared < alone else (alone, 0)


@lru_cache(maxsize=1024)
def _best_ratio(counts: int, most: int) -> tuple[float, float]:
    """Return the least variance of a count, over S, and the ratio of own to shared variance that has it."""

    def total(ratio: float) -> float:
        peak = min((counts + ratio) / 2, most)
        near = (max(1, math.floor(peak)), min(most, math.ceil(peak)))
        return max(j - j * j / (counts + ratio) for j in near) * (1 + 1 / ratio)

    ratio = min((2.0 ** (n / 32) for n in range(-64, 32 * counts.bit_length() + 320)), key=total)
    return total(ratio), ratio


_PLACES = 30
"""Binary places of a square root that chooses a grid."""
_FINE = 10
"""Binary places that a bound keeps at least where counts are rounded."""
_MOST = 1 << 62
"""Counts are at most this before they are rounded."""


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism["Measured[Gaussian]"]):
    """Gaussian noise on each of several counts, and where that has less noise in all, one on all of them.

    It is private at an order of Renyi divergence, and for no epsilon alone: `loss` is a `Gaussian` part.

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

    losses = (loss.Gaussian,)

    bounds: tuple[int, ...]
    """How much one unit can change each count."""
    unit: int
    """Grid steps in the largest change of any count: one of count a is `unit // bounds[a]` steps."""
    own: int
    shared: int
    """Variances of the noise of each count, and of that of all counts, in squared grid steps; `shared` is 0
    if there is none."""
    repeats: int = 1
    """How often the bounds repeat: with those of the m counts of one group, the number of groups."""
    places: int = 0
    """Counts are rounded to multiples of 2^`places` first: 0 unless the variance would be beyond its
    limit."""

    @property
    def size(self) -> int:
        """The number of counts that are measured."""
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
        """Return the step of the grid on which one count is released."""
        return math.ldexp(1 / (self.unit // self.bounds[place % len(self.bounds)]), self.places)

    @property
    def rounding(self) -> float:
        """The greatest distance from a count to what it is rounded to."""
        return math.ldexp(0.5, self.places) if self.places else 0.0

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        What all changes cost in steps is at most rho; of shared noise, see `Changes`.

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

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> Measured[Gaussian]:
        """Add Gaussian noise to the counts; sums that leave 64 bits are clamped."""
        array = as_counts(counts, self.size, trials=True)
        if not self.size:
            return Measured(self, array.astype(np.float64))
        steps = self.unit // np.tile(np.array(self.bounds, dtype=np.int64), self.repeats)
        limit = exact_noise.STEP_LIMIT // steps
        if self.places:
            array = (np.minimum(array, _MOST) + (1 << self.places - 1)) >> self.places
        placed = np.clip(array, -limit, limit) * steps
        placed += source.gaussian(self.own, array.shape)
        if self.shared:
            placed += source.gaussian(self.shared, (*array.shape[:-1], 1))
        return Measured(self, np.ldexp(placed / steps, self.places))


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
