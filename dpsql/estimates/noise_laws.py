"""What a released number is made of: measured values, each with a weight, and the joint law of their noises.

Numbers of one draw share its law: under box noise they are not independent. Two numbers that use one measured
value have its noise in common. From this the error of any expression over released numbers follows (see
`linear_terms`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.lazy_dataclass import dataclass

LawName = Literal["laplace", "box", "cube", "gaussian"]


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """The joint law of the noises of one draw; two draws are independent, also of equal figures.

    Attributes
    ----------
    kind
        Laplace noises are independent. Box noises are R (U_i - V), cube noises R U_i, as in `box`; Gaussian
        ones have a part of their own and one that all share.
    size
        How many numbers were measured together.
    pads
        The public zeros of a box.
    shared
        Of Gaussian noise, the variance of the shared part over that of a number's own.
    """

    kind: LawName
    size: int = 1
    pads: int = 0
    shared: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A draw, and the size of its noise on some numbers.

    Attributes
    ----------
    law
        The draw.
    scale
        The scale of Laplace noise, bound over epsilon of box and cube noise, the standard deviation of a
        number's own Gaussian noise.
    grid
        The step of the grid that the noise is on, in the unit of the number.
    """

    law: Law
    scale: float
    grid: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One measured number of each row of a release.

    Attributes
    ----------
    place
        Its place among the measured numbers: equal places in two numbers are one measured value.
    value
        The noisy values, a row each.
    sources
        The draws that they are from.
    source
        Which of them each row is from.
    """

    place: int
    value: NDArray[np.float64]
    sources: tuple[Source, ...]
    source: NDArray[np.int64]

    @classmethod
    def of(cls, place: int, value: NDArray[np.float64], source: Source) -> Measured:
        """Return the values of one draw."""
        return cls(place, value, (source,), np.zeros(len(value), dtype=np.int64))

    def taken(self, rows: NDArray[np.int64]) -> Measured:
        """Return some rows, in the given order."""
        return replace(self, value=self.value[rows], source=self.source[rows])

    def append(self, other: Measured) -> Measured:
        """Return the rows of this and those of another one, of the same number in other groups."""
        return Measured(
            self.place,
            np.concatenate([self.value, other.value]),
            (*self.sources, *other.sources),
            np.concatenate([self.source, other.source + len(self.sources)]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A number that is a sum of measured values with weights."""

    terms: tuple[tuple[float, Measured], ...]

    @classmethod
    def alone(cls, place: int, value: NDArray[np.float64], source: Source) -> Linear:
        """Return a number that was measured itself."""
        return cls(((1.0, Measured.of(place, value, source)),))

    @property
    def value(self) -> NDArray[np.float64]:
        """The number of each row, as it was measured."""
        return np.asarray(sum(weight * each.value for weight, each in self.terms), dtype=np.float64)

    def scaled(self, factor: float) -> Linear:
        """Return a multiple of the number."""
        return Linear(tuple((weight * factor, each) for weight, each in self.terms))

    def taken(self, rows: NDArray[np.int64]) -> Linear:
        """Return some rows, in the given order."""
        return Linear(tuple((weight, each.taken(rows)) for weight, each in self.terms))

    def append(self, other: Linear) -> Linear | None:
        """Return the rows of both; None if they are not made of the same numbers."""
        pairs = list(zip(self.terms, other.terms, strict=False))
        same = all(w == v and a.place == b.place for (w, a), (v, b) in pairs)
        if not same or len(self.terms) != len(other.terms):
            return None
        return Linear(tuple((weight, each.append(more)) for (weight, each), (_, more) in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """A number that is one sum of measured values over another, cut to an interval."""

    above: Linear
    below: Linear
    low: float
    high: float

    def scaled(self, factor: float) -> Quotient:
        """Return a positive multiple of the number."""
        return Quotient(self.above.scaled(factor), self.below, self.low * factor, self.high * factor)

    def taken(self, rows: NDArray[np.int64]) -> Quotient:
        """Return some rows, in the given order."""
        return replace(self, above=self.above.taken(rows), below=self.below.taken(rows))

    def append(self, other: Linear | Quotient) -> Quotient | None:
        """Return the rows of both; None if they are not made of the same numbers."""
        if not isinstance(other, Quotient):
            return None
        above, below = self.above.append(other.above), self.below.append(other.below)
        return None if above is None or below is None else replace(self, above=above, below=below)


Made = Linear | Quotient
"""What a released number is made of."""


def join_laws(first: Made | None, second: Made | None) -> Made | None:
    """Return the rows of two numbers of different groups; None where what one is made of is not known."""
    if first is None or second is None:
        return None
    if isinstance(first, Quotient):
        return first.append(second)
    return first.append(second) if isinstance(second, Linear) else None


@dataclass(frozen=True, slots=True, eq=False)
class NumberNoise:
    """What is known of a number of a release, one value a row.

    Attributes
    ----------
    made
        What it is made of; None if that is not known.
    below, above
        By how much its interval is wider than that of its noise, on either side; None: it is not.
    left_out
        An estimate of what its bound left out; None: that is not known.
    bound
        The bound on each unit in force; None: that is not known, or there is none.
    """

    made: Made | None = None
    below: NDArray[np.float64] | None = None
    above: NDArray[np.float64] | None = None
    left_out: NDArray[np.float64] | None = None
    bound: float | None = None

    def taken(self, rows: NDArray[np.int64]) -> NumberNoise:
        """Return some rows, in the given order."""
        found = {name: getattr(self, name) for name in NOISE_ARRAYS}
        kept = {name: None if values is None else values[rows] for name, values in found.items()}
        return replace(self, made=None if self.made is None else self.made.taken(rows), **kept)


NOISE_ARRAYS = ("below", "above", "left_out")
"""The attributes of `NumberNoise` that have a value for each row."""

Noises = tuple[NumberNoise, ...]
"""Of the numbers of a release, in their order."""


def take_noises(noises: Noises | None, rows: NDArray[np.int64]) -> Noises | None:
    """Return the laws of the noise for some rows of the release, in the given order."""
    return None if noises is None else tuple(each.taken(rows) for each in noises)
