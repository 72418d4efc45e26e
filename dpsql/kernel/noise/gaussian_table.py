"""The inverse-CDF table of the upper digits of discrete Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpsql.kernel.exact_bounds import exp_bounds
from dpsql.kernel.noise.inverse import WORD, InverseCDF, guided


@dataclass(frozen=True, eq=False, slots=True)
class GaussianTable(InverseCDF):
    """The law on {0, .., size} with weights e^(-unit h^2) for h < size, and one weight for all beyond.

    The last weight is that of a geometric envelope, e^(-unit size^2)/(1 - e^-rate) with rate = 2 unit size:
    (size + i)^2 is at least size^2 + 2 size i. All F_j are irrational, as non-constant rational functions of
    the transcendental e^-unit.
    """

    unit: Fraction
    size: int

    @property
    def rate(self) -> Fraction:
        """The rate of the envelope."""
        return 2 * self.unit * self.size

    def digits(self, j: int, bits: int) -> int:
        """Compute floor(2^bits F_j) with certified bounds."""
        return _certified(self.unit, self.size, bits)[j - 1]


@lru_cache(maxsize=32)
def gaussian_table(unit: Fraction, size: int) -> GaussianTable:
    """Return the cached table of a law."""
    return GaussianTable(*guided(list(_certified(unit, size, WORD))), unit, size)


@lru_cache(maxsize=8)
def _certified(unit: Fraction, size: int, bits: int) -> tuple[int, ...]:
    """Compute floor(2^bits F_j) for j = 1..size, with more digits until every truncation is certified."""
    # The last weight and the errors of the products before it together take some more bits.
    places = 2 * bits + (2 * size).bit_length() + 2 * int(unit * size * size)
    while True:
        sums, total = _sums(unit, size, places)
        low = tuple((least << bits) // total[1] for least, _ in sums)
        high = tuple(-(-(most << bits) // total[0]) - 1 for _, most in sums)
        if low == high:
            return low
        places *= 2


def _sums(unit: Fraction, size: int, places: int) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Bound 2^places times the sums of the first 1..size weights, and that of all weights, strictly."""
    one = 1 << places
    ratio, square = exp_bounds(unit, places), exp_bounds(2 * unit, places)
    weight, so_far, sums = (one, one), (0, 0), []
    for _ in range(size):
        # e^(-unit h^2), then times e^(-unit (2h + 1)), which is e^(-2 unit) times the one before.
        so_far = (so_far[0] + weight[0], so_far[1] + weight[1] + 1)
        sums.append(so_far)
        weight = _product(weight, ratio, places)
        ratio = _product(ratio, square, places)
    envelope = exp_bounds(2 * unit * size, places)
    tail = ((weight[0] << places) // (one - envelope[0]), -(-(weight[1] << places) // (one - envelope[1])))
    return sums, (so_far[0] + tail[0], so_far[1] + tail[1])


def _product(one: tuple[int, int], other: tuple[int, int], places: int) -> tuple[int, int]:
    return one[0] * other[0] >> places, (one[1] * other[1] >> places) + 1
