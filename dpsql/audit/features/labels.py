"""Label features: functions that assign a label to each output."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.features.numbers import indexed, times
from dpsql.audit.outputs import Outputs
from dpsql.lazy_dataclass import dataclass


def _show(value: object) -> str:
    if isinstance(value, (tuple, np.ndarray)):
        shown = [_show(item) for item in value]
        return "(" + ", ".join(shown) + ")" if len(shown) > 1 else shown[0]
    if isinstance(value, (int, np.integer)):
        return "none" if value < 0 else str(value)
    return str(value) or "none"


def _is(name: str, values: tuple[Any, ...]) -> str:
    shown = [_show(value) for value in values]
    return f"{name} is " + (shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1])


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
        """Describe in words that the label is one of some values."""
        return _is(indexed(self.part, self.column, self.width), values)


@dataclass(frozen=True, slots=True)
class Row:
    """All labels of some parts, as one row."""

    parts: tuple[tuple[str, int], ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the labels of each run, one row for each run."""
        return np.concatenate([outputs.label(part, width) for part, width in self.parts], axis=1)

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words that the labels are one of some rows."""
        return _is(" and ".join(part for part, _ in self.parts), values)


@dataclass(frozen=True, slots=True)
class Set:
    """The labels of a part without their order."""

    part: str
    width: int

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the labels of each run in ascending order, one row for each run."""
        return np.sort(outputs.label(self.part, self.width), axis=1)

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words that the labels are one of some sets."""
        return _is(f"{self.part} in any order", values)


@dataclass(frozen=True, slots=True)
class Times:
    """The number of occurrences of a label in a part."""

    part: str
    width: int
    label: Any

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the number of occurrences in each run."""
        return times(outputs.label(self.part, self.width) == self.label)

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words that the label occurs one of some numbers of times."""
        return _is(f"the number of {_show(self.label)} in {self.part}", values)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The number of places in which a part agrees with a given row."""

    part: str
    row: tuple[Any, ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the number of places in each run."""
        return times(outputs.label(self.part, len(self.row)) == np.asarray(self.row))

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words how many places there are."""
        return _is(f"the number of places where {self.part} agrees with {_show(self.row)}", values)


@dataclass(frozen=True, slots=True)
class Sides:
    """The number of places where parts are on given sides of cuts: at or above if `up`, else below."""

    parts: tuple[tuple[str, int], ...]
    cuts: tuple[float, ...]
    up: tuple[bool, ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the number of places in each run."""
        values = [outputs.value(part, width) for part, width in self.parts]
        above = np.concatenate(values, axis=1) >= np.array(self.cuts)
        return times(above == np.array(self.up))

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words how many places there are."""
        sides = [f"{'≥' if up else '<'} {cut:g}" for cut, up in zip(self.cuts, self.up, strict=True)]
        name = " and ".join(part for part, _ in self.parts)
        return _is(f"the number of places where {name} is ({', '.join(sides)})", values)


@dataclass(frozen=True, slots=True)
class Finest:
    """The position of a number's last binary digit, which reveals how floating point computed it."""

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
        """Describe in words the value of the last digit."""
        name = f"the last binary digit of {indexed(self.part, self.column, self.width)}"
        return f"{name} is worth " + _is("", tuple(f"2^{value}" for value in values)).removeprefix(" is ")


@dataclass(frozen=True, slots=True)
class LowBits:
    """The last four bits of a number's floating-point representation, far below any noise."""

    part: str
    width: int
    column: int

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the bits of each run as a whole number."""
        value = np.ascontiguousarray(outputs.value(self.part, self.width)[:, self.column])
        return np.asarray(value.view(np.int64) & 15)

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words the values of the bits."""
        return _is(f"the last four bits of {indexed(self.part, self.column, self.width)}", values)
