"""What released numbers are made of: sums of measured values, and functions of such sums; and their sums.

A released number is a sum of measured ones with weights. Numbers of one draw share its law, also if they are
of several groups, so the error of a sum is that of all its measured numbers together (`noise_terms`). What
bounds leave out of the numbers, as far as it is known, adds up on either side of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.noise_laws import Key, Linear, MeasuredNumber, NoiseDraw, Weighted
from dpsql.estimates.noise_terms import FloatArray, half_width, join_terms, stddev
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
    """A number that is the variance of values, or its root, computed as in `moments.Variance`."""

    parts: tuple[Linear, ...]
    """The moments of degree 2, in rows."""
    width: float
    """That of the bounds of the values."""
    sample: bool
    """Whether it is the statistic of a sample."""
    root: bool
    """Whether it is the standard deviation."""

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


@dataclass(frozen=True, slots=True, eq=False)
class NumberNoise:
    """The noise of a released number: its measurement or formula, and standard deviation, one value a row."""

    made: Made | None = None
    """What it is made of; None if that is not known."""
    below: NDArray[np.float64] | None = None
    above: NDArray[np.float64] | None = None
    """By how much its interval is wider than that of its noise, on either side; None: it is not."""
    left_out: NDArray[np.float64] | None = None
    """An estimate of what its bound left out; None: that is not known."""
    bound: float | None = None
    """The bound on each unit in force; None: that is not known, or there is none."""
    most_left_out: float | None = None
    """By how much the truth of all rows together may lie outside the intervals of the noise; None: by all of
    `below` or `above`."""

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


Detail = Literal["below", "above", "left_out"]


def is_measured(noise: NumberNoise) -> bool:
    """Whether a number is a sum of measured ones, each with noise of a known law."""
    return isinstance(noise.made, Linear) and all(
        source.law.kind in ("laplace", "box", "cube", "gaussian")
        for _, each in noise.made.terms
        for source in each.sources
    )


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedNumber:
    """A number of one group of a release."""

    release: int
    """What tells the release from others."""
    noise: NumberNoise
    """What the numbers of its groups are made of."""
    row: int
    """The place of the group."""

    def list_measured(self) -> Iterator[tuple[Key, NoiseDraw, float, float]]:
        """Yield key, noise, weight and value of each measured number of which this one is a sum."""
        terms = self.noise.made.terms if isinstance(self.noise.made, Linear) else ()
        for weight, each in terms:
            source = each.sources[int(each.source[self.row])]
            yield (self.release, each.place, self.row), source, weight, float(each.value[self.row])

    def detail(self, name: Detail) -> float:
        """Return a detail of the number, such as what was left out; NaN if that is not known."""
        found: FloatArray | None = getattr(self.noise, name)
        if found is None:
            return float("nan") if name == "left_out" else 0.0
        return float(found[self.row])


Sum = Sequence[ReleasedNumber]
"""Numbers that are added up; of none the sum is 0, without an error."""


def _weights(numbers: Sum) -> dict[Key, tuple[NoiseDraw, float]]:
    return {key: (source, weight) for key, source, weight, _ in _list_measured(numbers)}


def _detail(numbers: Sum, name: Detail) -> float:
    return float(sum(each.detail(name) for each in numbers))


@dataclass(frozen=True, slots=True, eq=False)
class SumEstimates:
    """One sum for each group, with standard deviation and interval."""

    value: FloatArray
    stddev: FloatArray
    half: FloatArray
    """Half the width of the interval of the noise."""
    below: FloatArray
    above: FloatArray
    """By how much the interval is wider than that on either side."""
    left_out: FloatArray
    """An estimate of what bounds left out; NaN where that is not known."""
    bound: float | None
    """The bound on each unit in force; None if it is not one for all numbers."""

    @classmethod
    def of(cls, sums: Sequence[Sum], confidence: float) -> SumEstimates:
        """Estimate sums of released numbers, with intervals of a level each."""
        terms = [join_terms([_weights(each)]) for each in sums]
        bounds = {number.noise.bound for each in sums for number in each}
        values = (
            sum(weight * value for n in each for *_, weight, value in n.list_measured()) for each in sums
        )
        return cls(
            value=np.array([float(each) for each in values]),
            stddev=np.array([stddev(term) if term.sources else 0.0 for term in terms]),
            half=np.array([half_width(term, confidence) for term in terms]),
            below=np.array([_detail(each, "below") for each in sums]),
            above=np.array([_detail(each, "above") for each in sums]),
            left_out=np.array([_detail(each, "left_out") for each in sums]),
            bound=bounds.pop() if len(bounds) == 1 else None,
        )

    def column(self, kind: str) -> FloatArray:
        """Return a column of the answer: the sums, or an end, deviation or bound by its kind."""
        match kind:
            case "low":
                return self.value - self.half - self.below
            case "high":
                return self.value + self.half + self.above
            case "stddev":
                return self.stddev
            case "left_out":
                return self.left_out
            case "bound":
                return np.full(len(self.value), np.nan if self.bound is None else self.bound)
        return self.value


def noises_of_sums(sums: Sequence[Sequence[Sum]]) -> Noises:
    """Return what each number of an answer is made of; `sums` has for each its sums, one a group.

    That is known where all groups are made alike: of as many measured numbers with the same weights.
    """
    found = [[[*_list_measured(one)] for one in own] for own in sums]
    groups = len(found[0]) if found else 0
    shapes = {tuple(tuple(weight for *_, weight, _ in own[row]) for own in found) for row in range(groups)}
    if len(shapes) != 1:
        return tuple(NumberNoise() for _ in sums)
    places: dict[tuple[Key, ...], int] = {}
    made = []
    for own, numbers in zip(found, sums, strict=True):
        terms = []
        for at in range(len(own[0])):
            keys = tuple(row[at][0] for row in own)
            values = np.array([row[at][3] for row in own])
            sources = tuple(row[at][1] for row in own)
            place = places.setdefault(keys, len(places))
            measured = MeasuredNumber(place, values, sources, np.arange(len(sources)))
            terms.append((own[0][at][2], measured))
        below = np.array([_detail(one, "below") for one in numbers])
        above = np.array([_detail(one, "above") for one in numbers])
        made.append(NumberNoise(Linear(tuple(terms)), below, above))
    return tuple(made)


def _list_measured(numbers: Sum) -> Iterator[tuple[Key, NoiseDraw, float, float]]:
    for each in numbers:
        yield from each.list_measured()
