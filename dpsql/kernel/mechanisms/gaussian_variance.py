"""The variances of Gaussian noise of which a part is shared, and what it costs, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Changes:
    """What one unit can do to counts on a grid.

    All counts move by 0 to `unit` steps, or all by 0 to -unit, and at most `most` of them at all.
    """

    counts: int
    most: int
    unit: int

    def rho(self, own: int, shared: int) -> Fraction:
        """Return the largest rho of a change, for noises of these variances; 0: nothing is shared.

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
