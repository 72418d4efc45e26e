"""What events are about: one label or one number of each output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpsql.audit.outputs import Outputs

__all__ = [
    "Agreement",
    "Average",
    "Column",
    "Finest",
    "Greatest",
    "LabelFeature",
    "Least",
    "NumberFeature",
    "Row",
    "Set",
    "Sides",
    "Times",
    "Value",
    "label_features",
    "number_features",
]

_WIDEST = 12
"""Columns looked at one by one; further ones count as parts of the whole."""

_SMALL = 4
"""Parts of at most this width are looked at as sets, too."""

_FINE = -40
"""Numbers with digits worth less than two to this are in floating point, not on a grid."""

_LOOK = 1 << 12
"""Runs that decide which labels are looked at."""

_MOST_TIMES = 4
"""Labels whose number of occurrences is looked at, in each part."""


class LabelFeature(Protocol):
    """A label of each output."""

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return it as an array whose first axis is the runs."""
        ...

    def words(self, values: tuple[Any, ...]) -> str:
        """Say that it is one of some values."""
        ...


class NumberFeature(Protocol):
    """A number of each output; NaN where there is none."""

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return it for each run."""
        ...

    @property
    def name(self) -> str:
        """What people call it."""
        ...


def _shown(value: object) -> str:
    if isinstance(value, (tuple, np.ndarray)):
        shown = [_shown(item) for item in value]
        return "(" + ", ".join(shown) + ")" if len(shown) > 1 else shown[0]
    if isinstance(value, (int, np.integer)):
        return "none" if value < 0 else str(value)
    return str(value) or "none"


def _is(name: str, values: tuple[Any, ...]) -> str:
    shown = [_shown(value) for value in values]
    return f"{name} is " + (shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1])


def _indexed(name: str, column: int, width: int) -> str:
    return f"{name}[{column}]" if width > 1 else name


@dataclass(frozen=True, slots=True)
class Column:
    """One label of a part."""

    part: str
    width: int
    column: int

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the label of each run."""
        label: NDArray[Any] = outputs.label(self.part, self.width)[:, self.column]
        return label

    def words(self, values: tuple[Any, ...]) -> str:
        """Say that the label is one of some values."""
        return _is(_indexed(self.part, self.column, self.width), values)


@dataclass(frozen=True, slots=True)
class Row:
    """All labels of some parts together."""

    parts: tuple[tuple[str, int], ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the labels of each run, a row a run."""
        return np.concatenate([outputs.label(part, width) for part, width in self.parts], axis=1)

    def words(self, values: tuple[Any, ...]) -> str:
        """Say that the labels are one of some rows."""
        return _is(" and ".join(part for part, _ in self.parts), values)


@dataclass(frozen=True, slots=True)
class Set:
    """The labels of a part whatever their order."""

    part: str
    width: int

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the labels of each run in ascending order, a row a run."""
        return np.sort(outputs.label(self.part, self.width), axis=1)

    def words(self, values: tuple[Any, ...]) -> str:
        """Say that they are one of some sets."""
        return _is(f"{self.part} in any order", values)


@dataclass(frozen=True, slots=True)
class Times:
    """How often a label occurs in a part."""

    part: str
    width: int
    label: Any

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the number of occurrences in each run."""
        times: NDArray[Any] = (outputs.label(self.part, self.width) == self.label).sum(axis=1)
        return times

    def words(self, values: tuple[Any, ...]) -> str:
        """Say that there are so many occurrences."""
        return _is(f"the number of {_shown(self.label)} in {self.part}", values)


@dataclass(frozen=True, slots=True)
class Agreement:
    """In how many places a part agrees with a given row."""

    part: str
    row: tuple[Any, ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the number of places in each run."""
        same: NDArray[Any] = outputs.label(self.part, len(self.row)) == np.asarray(self.row)
        return np.asarray(same.sum(axis=1))

    def words(self, values: tuple[Any, ...]) -> str:
        """Say in how many."""
        return _is(f"the number of places where {self.part} agrees with {_shown(self.row)}", values)


@dataclass(frozen=True, slots=True)
class Sides:
    """In how many places a part's numbers are on one side of given cuts: at or above where `up`, else below."""

    part: str
    cuts: tuple[float, ...]
    up: tuple[bool, ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the number of places in each run."""
        above = outputs.value(self.part, len(self.cuts)) >= np.array(self.cuts)
        return np.asarray((above == np.array(self.up)).sum(axis=1))

    def words(self, values: tuple[Any, ...]) -> str:
        """Say in how many."""
        sides = [f"{'≥' if up else '<'} {cut:g}" for cut, up in zip(self.cuts, self.up, strict=True)]
        return _is(f"the number of places where {self.part} is ({', '.join(sides)})", values)


@dataclass(frozen=True, slots=True)
class Finest:
    """The place of a number's last binary digit: what floating-point arithmetic leaves of its history."""

    part: str
    width: int
    column: int

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return for each run the largest e for which the number is a multiple of 2^e; 1024 for none."""
        value = outputs.value(self.part, self.width)[:, self.column]
        solid = np.isfinite(value) & (value != 0)
        mantissa, exponent = np.frexp(np.where(solid, value, 1.0))
        whole = np.abs(mantissa * 2.0**53).astype(np.int64)
        lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
        return np.where(solid, exponent.astype(np.int64) - 53 + lowest, 1024)

    def words(self, values: tuple[Any, ...]) -> str:
        """Say where the last digit stands."""
        name = f"the last binary digit of {_indexed(self.part, self.column, self.width)}"
        return f"{name} is worth " + _is("", tuple(f"2^{value}" for value in values)).removeprefix(" is ")


@dataclass(frozen=True, slots=True)
class Value:
    """One number of a part."""

    part: str
    width: int
    column: int

    @property
    def name(self) -> str:
        """What people call it."""
        return _indexed(self.part, self.column, self.width)

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the number of each run."""
        return outputs.value(self.part, self.width)[:, self.column]


@dataclass(frozen=True, slots=True)
class Least:
    """The least number of a part."""

    part: str
    width: int

    @property
    def name(self) -> str:
        """What people call it."""
        return f"the least {self.part}"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return it for each run."""
        least: NDArray[np.float64] = np.fmin.reduce(outputs.value(self.part, self.width), axis=1)
        return least


@dataclass(frozen=True, slots=True)
class Greatest:
    """The greatest number of a part."""

    part: str
    width: int

    @property
    def name(self) -> str:
        """What people call it."""
        return f"the greatest {self.part}"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return it for each run."""
        greatest: NDArray[np.float64] = np.fmax.reduce(outputs.value(self.part, self.width), axis=1)
        return greatest


@dataclass(frozen=True, slots=True)
class Average:
    """The average of a part's numbers."""

    part: str
    width: int

    @property
    def name(self) -> str:
        """What people call it."""
        return f"the average {self.part}"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return it for each run."""
        values = outputs.value(self.part, self.width)
        there = ~np.isnan(values)
        count = there.sum(axis=1)
        total = np.where(there, values, 0.0).sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def label_features(first: Outputs, second: Outputs) -> list[LabelFeature]:
    """List the labels of two samples: each alone, a part's together or as a set, how many of each, all."""
    found: list[LabelFeature] = []
    parts = _parts(first.labels, second.labels)
    for part, width in parts:
        if width <= _WIDEST:
            found += [Column(part, width, j) for j in range(width)]
        if width > 1:
            found.append(Row(((part, width),)))
            if width <= _SMALL:
                found.append(Set(part, width))
            sides = [outputs.label(part, width)[:_LOOK] for outputs in (first, second)]
            seen, count = np.unique(np.concatenate(sides), return_counts=True)
            frequent = seen[np.argsort(-count)[:_MOST_TIMES]]
            found += [Times(part, width, label.item()) for label in frequent]
            if width > _SMALL:
                found.append(Agreement(part, _likelier(*sides)))
    if len(parts) > 1:
        found.append(Row(parts))
    for part, width in _parts(first.values, second.values):
        if width > 1:
            found.append(_sides(part, *(outputs.value(part, width)[:_LOOK] for outputs in (first, second))))
        finest = [Finest(part, width, j) for j in range(min(width, 2))]
        # On a grid no digit tells.
        found += [feature for feature in finest if feature.of(first)[:_LOOK].min() < _FINE]
    return found


def number_features(first: Outputs, second: Outputs) -> list[NumberFeature]:
    """List the numbers of two samples: each alone, and a part's least, greatest and average."""
    found: list[NumberFeature] = []
    for part, width in _parts(first.values, second.values):
        found += [Value(part, width, j) for j in range(min(width, _WIDEST))]
        if width > 1:
            found += [Least(part, width), Greatest(part, width), Average(part, width)]
    return found


def _parts(*sides: Mapping[str, NDArray[Any]]) -> tuple[tuple[str, int], ...]:
    """Return the parts of two samples and how wide they are."""
    widths: dict[str, int] = {}
    for side in sides:
        for part, array in side.items():
            widths[part] = max(widths.get(part, 0), array.shape[1])
    return tuple(widths.items())


def _sides(part: str, first: NDArray[np.float64], second: NDArray[np.float64]) -> Sides:
    """Return the sides of the middles that the first sample's numbers are on."""
    halves = []
    for side in (first, second):
        there = np.where(np.isnan(side).all(axis=0), 0.0, side)
        halves.append(np.nanmedian(there, axis=0))
    cuts = tuple(float(cut) for cut in np.round((halves[0] + halves[1]) / 2, 1))
    return Sides(part, cuts, tuple((halves[0] > halves[1]).tolist()))


def _likelier(first: NDArray[Any], second: NDArray[Any]) -> tuple[Any, ...]:
    """Return the row of the labels that are most likelier in the first sample than in the second."""
    row = []
    for a, b in zip(first.T, second.T, strict=True):
        seen, which = np.unique(np.concatenate([a, b]), return_inverse=True)
        here, there = which[: len(a)], which[len(a) :]
        more = np.bincount(here, minlength=len(seen)) - np.bincount(there, minlength=len(seen))
        row.append(seen[np.argmax(more)].item())
    return tuple(row)
