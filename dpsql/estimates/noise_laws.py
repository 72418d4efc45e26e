"""Measured values with the joint law of their noises, sums of them, and variances.

Numbers of one draw share its law: under box noise they are not independent. Two numbers that use one measured
value have its noise in common. From this `noise_terms` computes the error
of any expression over released numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.lazy_dataclass import dataclass

LawName = Literal["laplace", "box", "cube", "gaussian"]

Key = tuple[int, int, int]
"""What names a measured number: its release, its place and its row."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """The joint law of the noises of one draw; two draws are independent, also of equal figures."""

    kind: LawName
    """Laplace noises are independent. Box noises are R (U_i - V), cube noises R U_i, as in `box`; Gaussian
    ones have a part of their own and one that all share."""
    size: int = 1
    """How many numbers were measured together."""
    pads: int = 0
    """The public zeros of a box."""
    shared: float = 0.0
    """Of Gaussian noise, the variance of the shared part over that of a number's own."""


@dataclass(frozen=True, slots=True, eq=False)
class NoiseDraw:
    """A draw, and the size of its noise on some numbers."""

    law: Law
    """The draw."""
    scale: float
    """The scale of Laplace noise, bound over epsilon of box and cube noise, the standard deviation of a
    number's own Gaussian noise."""
    grid: float = 0.0
    """The step of the grid that the noise is on, in the unit of the number."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredNumber:
    """One measured number of each row of a release."""

    place: int
    """Its place among the measured numbers: equal places in two numbers are one measured value."""
    value: NDArray[np.float64]
    """The noisy values, a row each."""
    sources: tuple[NoiseDraw, ...]
    """The draws that they are from."""
    source: NDArray[np.int64]
    """Which of them each row is from."""

    @classmethod
    def of(cls, place: int, value: NDArray[np.float64], source: NoiseDraw) -> MeasuredNumber:
        """Return the noisy values of the number, a row for each group, out of one draw of all noise."""
        return cls(place, value, (source,), np.zeros(len(value), dtype=np.int64))

    def take(self, rows: NDArray[np.int64]) -> MeasuredNumber:
        """Return the number in some of the groups, in the given order."""
        return replace(self, value=self.value[rows], source=self.source[rows])

    def append(self, other: MeasuredNumber) -> MeasuredNumber:
        """Return the rows of this number and the rows of `other`, the same number in other groups."""
        return MeasuredNumber(
            self.place,
            np.concatenate([self.value, other.value]),
            (*self.sources, *other.sources),
            np.concatenate([self.source, other.source + len(self.sources)]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A number that is a sum of measured values with weights."""

    terms: tuple[tuple[float, MeasuredNumber], ...]

    @classmethod
    def alone(cls, place: int, value: NDArray[np.float64], source: NoiseDraw) -> Linear:
        """Return a linear number that is one measured number, unchanged."""
        return cls(((1.0, MeasuredNumber.of(place, value, source)),))

    @property
    def value(self) -> NDArray[np.float64]:
        """The value of the linear number in each group."""
        return np.asarray(sum(weight * each.value for weight, each in self.terms), dtype=np.float64)

    def scale(self, factor: float) -> Linear:
        """Return a multiple of the linear number."""
        return Linear(tuple((weight * factor, each) for weight, each in self.terms))

    def take(self, rows: NDArray[np.int64]) -> Linear:
        """Return the linear number in some of the groups, in the given order."""
        return Linear(tuple((weight, each.take(rows)) for weight, each in self.terms))

    def append(self, other: object) -> Linear | None:
        """Append the groups of another number; None if its measured numbers or weights differ."""
        if not isinstance(other, Linear):
            return None
        pairs = list(zip(self.terms, other.terms, strict=False))
        same = all(w == v and a.place == b.place for (w, a), (v, b) in pairs)
        if not same or len(self.terms) != len(other.terms):
            return None
        return Linear(tuple((weight, each.append(more)) for (weight, each), (_, more) in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """A number that is a sum of many measured values, with other weights in each row: an estimate."""

    value: NDArray[np.float64]
    """The number of each row."""
    names: tuple[tuple[int, int], ...]
    sources: tuple[NoiseDraw, ...]
    """Of each measured value its release and its place there, and the draw of its noise."""
    weights: NDArray[np.float64]
    """float64[rows, measured values]."""

    def scale(self, factor: float) -> Weighted:
        """Return a multiple of the number."""
        return replace(self, value=self.value * factor, weights=self.weights * factor)

    def take(self, rows: NDArray[np.int64]) -> Weighted:
        """Return some rows, in the given order."""
        return replace(self, value=self.value[rows], weights=self.weights[rows])

    def append(self, other: object) -> Weighted | None:
        """Append the rows of another estimate; None if it is made of other measured values."""
        if not isinstance(other, Weighted) or self.names != other.names:
            return None
        value = np.concatenate([self.value, other.value])
        return replace(self, value=value, weights=np.concatenate([self.weights, other.weights]))


Noise = Literal["exponential", "geometric", "laplace"]
"""The noise kinds a mechanism can select with. Geometric is exponential noise on a coarse grid."""

Real = int | float | Fraction
"""A scale as mechanisms report it (exact) or as a user types it."""


def noise_variance(
    noise: Noise, scale: Real, resolution: int | None = None, *, ranked: bool = False
) -> float:
    """Return the variance of noise of this kind and scale, in squared counts.

    Parameters
    ----------
    noise
        "exponential" and "geometric" are one-sided: P(noise >= x) = exp(-x / scale). "laplace" is two-sided.
    scale
        In counts.
    resolution
        The noise is a multiple of 2^-resolution; None for the continuous limit.
    ranked
        Whether ties are broken by random ranks (the top-k family): then each noise carries a uniform
        remainder below the grid too, and the sum is what the floored gaps are made of.

    Examples
    --------
    >>> noise_variance("exponential", 3), round(noise_variance("exponential", 3, 0), 4)
    (9.0, 8.9171)
    >>> round(noise_variance("exponential", 3, 0, ranked=True), 4), noise_variance("laplace", 3)
    (9.0005, 18.0)
    """
    check_noise(noise)
    beta, sides = positive(scale, "scale"), 2 if noise == "laplace" else 1
    if resolution is None:
        return sides * beta * beta
    gamma = 2.0**-resolution
    return gamma * gamma * (sides * _geometric(gamma / beta) + (1 / 12 if ranked else 0.0))


def laplace_variance(scale: Real, resolution: int | None = None) -> float:
    """Return the variance of Laplace noise of this scale, as `noise_variance`.

    >>> round(laplace_variance(3, 0), 4)
    17.8343
    """
    return noise_variance("laplace", scale, resolution)


def _geometric(rate: float) -> float:
    """Return the variance of the geometric law on {0, 1, ..} with P(Y >= m) = exp(-rate m).

    It is at least 1e-130, so that products of variances are not 0 either.
    """
    return math.exp(-min(rate, 300)) / math.expm1(-rate) ** 2


def check_noise(noise: str) -> None:
    """Raise `ValueError` if a kind of noise is not one that measurements have."""
    if noise not in get_args(Noise):
        raise ValueError(f"noise must be one of {', '.join(get_args(Noise))}, not {noise!r}")


def positive(value: Real, name: str) -> float:
    """Return `value` as a float; `ValueError` unless it is positive and finite."""
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite")
    return number


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Independent Laplace noise on each count (EACH), or on their total (ANCHOR)."""

    scale: Real
    """Scale as drawn, in counts."""
    resolution: int | None = None
    """The noise is a multiple of 2^-resolution; None: so fine that it does not matter."""
    total: bool = False
    """The noise is on the total."""

    @property
    def variance(self) -> float:
        """Variance as drawn, of a count or of the total."""
        return laplace_variance(self.scale, self.resolution)


@dataclass(frozen=True, slots=True)
class SharedNoise:
    """One noise on all counts: its two uncorrelated parts, in squared counts."""

    own: float
    """Variance of the part that each count has by itself."""
    shared: float
    """Variance of the part that all counts share."""

    @property
    def variance(self) -> float:
        """Variance of the noise that the measurement of one count adds."""
        return self.own + self.shared


@dataclass(frozen=True, slots=True)
class BoxNoise(SharedNoise):
    """Box or cube noise on all counts (BOX); cube noise shares nothing."""


@dataclass(frozen=True, slots=True)
class GaussianNoise(SharedNoise):
    """Gaussian noise on each count, and where it pays one more on all of them."""


MeasuringNoise = LaplaceNoise | SharedNoise


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Noisy counts, or their noisy total, of the selected groups."""

    value: ArrayLike
    """float64[k]; the total: one number."""
    noise: MeasuringNoise
    half_width: float | None = None
    """Half the width of the interval around each value; None for a total."""
    source: NoiseDraw | None = None
    """The draw of the noise; None: what else it is on is not known."""
    place: int = 0
    """The place of the number among those that were measured."""

    def counts(self) -> NDArray[np.float64]:
        """Return the measured counts as an array, a number for each group."""
        return np.asarray(self.value, dtype=np.float64)

    def mean(self, k: int) -> float:
        """Return the mean of k counts whose total was measured, exactly: the total may have many bits."""
        total = self.value if isinstance(self.value, Real) else float(self.counts().item())
        return float(Fraction(total) / k)

    def negate(self) -> Measurement:
        """Return the measurement of the negated counts."""
        value = -self.value if isinstance(self.value, Real) else -self.counts()
        return Measurement(value, self.noise, self.half_width, self.source, self.place)
