"""What released numbers are made of: sums of measured values, and functions of such sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.noise_laws import Linear, Weighted
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """A number that is one sum of measured values over another, cut to an interval."""

    above: Linear | Weighted
    below: Linear | Weighted
    low: float
    high: float

    @property
    def parts(self) -> tuple[Linear | Weighted, ...]:
        """The sums that the quotient is computed from."""
        return self.above, self.below

    def compute(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the quotients for other values of its sums; NaN where the divisor is not above 0."""
        above, below = parts
        return np.asarray(np.clip(above / np.where(below > 0, below, np.nan), self.low, self.high))

    def scale(self, factor: float) -> Quotient:
        """Return a positive multiple of the quotient."""
        return Quotient(self.above.scale(factor), self.below, self.low * factor, self.high * factor)

    def take(self, rows: NDArray[np.int64]) -> Quotient:
        """Return the quotient in some of the groups, in the given order."""
        return replace(self, above=self.above.take(rows), below=self.below.take(rows))

    def append(self, other: Made) -> Quotient | None:
        """Append the groups of another quotient; None if its measured numbers or weights differ."""
        if not isinstance(other, Quotient):
            return None
        above, below = self.above.append(other.above), self.below.append(other.below)
        return None if above is None or below is None else replace(self, above=above, below=below)


@dataclass(frozen=True, slots=True, eq=False)
class Dispersion:
    """A number that is the variance of values, or its root, computed as in `moments.Variance`.

    Attributes
    ----------
    parts
        The moments of degree 2, in rows.
    width
        That of the bounds of the values.
    sample
        Whether it is the statistic of a sample.
    root
        Whether it is the standard deviation.
    """

    parts: tuple[Linear, ...]
    width: float
    sample: bool
    root: bool

    def compute(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the statistics for other moments; NaN where the rows are too few."""
        a, b, c = parts
        least = 1.0 if self.sample else 0.0
        rows = np.where(a + b + c > least, a + b + c, np.nan)
        variance = np.clip((a * c - b * b / 4) / rows**2, 0, 0.25) * (rows / (rows - least)) * self.width**2
        return np.asarray(np.sqrt(variance) if self.root else variance)

    def scale(self, factor: float) -> Dispersion:
        """Return a positive multiple of the statistic."""
        return replace(self, width=self.width * (factor if self.root else math.sqrt(factor)))

    def take(self, rows: NDArray[np.int64]) -> Dispersion:
        """Return the statistic in some of the groups, in the given order."""
        return replace(self, parts=tuple(each.take(rows) for each in self.parts))

    def append(self, other: Made) -> Dispersion | None:
        """Append the groups of another statistic; None if its measured numbers or weights differ."""
        if not isinstance(other, Dispersion):
            return None
        joined = [one.append(more) for one, more in zip(self.parts, other.parts, strict=True)]
        parts = tuple(each for each in joined if each is not None)
        return replace(self, parts=parts) if len(parts) == len(joined) else None


Made = Linear | Quotient | Dispersion | Weighted
"""What a released number is made of."""


def join_laws(first: Made | None, second: Made | None) -> Made | None:
    """Append a number's other groups to its first ones; None where either's noise is unknown."""
    return None if first is None or second is None else first.append(second)


@dataclass(frozen=True, slots=True, eq=False)
class NumberNoise:
    """The noise of a released number: its measurement or formula, and standard deviation, one value a row.

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
    most_left_out
        By how much the truth of all rows together may lie outside the intervals of the noise; None: by all of
        `below` or `above`.
    """

    made: Made | None = None
    below: NDArray[np.float64] | None = None
    above: NDArray[np.float64] | None = None
    left_out: NDArray[np.float64] | None = None
    bound: float | None = None
    most_left_out: float | None = None

    def take(self, rows: NDArray[np.int64]) -> NumberNoise:
        """Return the noise of the number in some of the groups, in the given order."""
        found = {name: getattr(self, name) for name in NOISE_ARRAYS}
        kept = {name: None if values is None else values[rows] for name, values in found.items()}
        return replace(self, made=None if self.made is None else self.made.take(rows), **kept)


NOISE_ARRAYS = ("below", "above", "left_out")
"""The attributes of `NumberNoise` that have a value for each row."""
NOISE_FIGURES = ("bound", "most_left_out")
"""Those that are one number."""

Noises = tuple[NumberNoise, ...]
"""Of the numbers of a release, in their order."""


def take_noises(noises: Noises | None, rows: NDArray[np.int64]) -> Noises | None:
    """Return the laws of the noise for some rows of the release, in the given order."""
    return None if noises is None else tuple(each.take(rows) for each in noises)
