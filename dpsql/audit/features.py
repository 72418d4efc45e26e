"""Features of an output: functions that assign it a label or a number, which events are conditions on."""

from __future__ import annotations

from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.runs import Outputs
from dpsql.lazy_dataclass import dataclass


def count_true(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the true entries of each row, column by column, because rows are short."""
    total = np.zeros(len(flags), dtype=np.int64)
    for column in flags.T:
        total += column
    return total


def column_name(name: str, column: int, width: int) -> str:
    """Name one column of a part; the only column of a part has the part's name."""
    return f"{name}[{column}]" if width > 1 else name


@dataclass(frozen=True, slots=True)
class NumberValue:
    """One number of a part of the output."""

    part: str
    width: int
    column: int

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        return column_name(self.part, self.column, self.width)

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the number of each run."""
        return outputs.value(self.part, self.width)[:, self.column]


Which = Literal["least", "greatest", "average"]
"""Which number of a part."""


@dataclass(frozen=True, slots=True)
class PartValue:
    """The least or the greatest number of a part, or the average of its numbers."""

    part: str
    width: int
    which: Which

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        return f"the {self.which} {self.part}"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the number of each run."""
        values = outputs.value(self.part, self.width)
        if self.which != "average":
            return reduce(np.fmin if self.which == "least" else np.fmax, values.T)
        there = ~np.isnan(values)
        count = count_true(there)
        total = reduce(np.add, np.where(there, values, 0.0).T)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _show_label(value: object) -> str:
    if isinstance(value, (tuple, np.ndarray)):
        shown = [_show_label(item) for item in value]
        return "(" + ", ".join(shown) + ")" if len(shown) > 1 else shown[0]
    if isinstance(value, (int, np.integer)):
        return "none" if value < 0 else str(value)
    return str(value) or "none"


def _say_is(name: str, values: tuple[Any, ...]) -> str:
    shown = [_show_label(value) for value in values]
    return f"{name} is " + (shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1])


@dataclass(frozen=True, slots=True)
class ColumnLabel:
    """One label of a part of the output."""

    part: str
    width: int
    column: int

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the label of each run."""
        label: NDArray[Any] = outputs.label(self.part, self.width)[:, self.column]
        return label

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words that the label is one of some values."""
        return _say_is(column_name(self.part, self.column, self.width), values)


@dataclass(frozen=True, slots=True)
class RowLabel:
    """All labels of some parts, as one row."""

    parts: tuple[tuple[str, int], ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the labels of each run, one row for each run."""
        return np.concatenate([outputs.label(part, width) for part, width in self.parts], axis=1)

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words that the labels are one of some rows."""
        return _say_is(" and ".join(part for part, _ in self.parts), values)


@dataclass(frozen=True, slots=True)
class SetLabel:
    """The labels of a part without their order."""

    part: str
    width: int

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the labels of each run in ascending order, one row for each run."""
        return np.sort(outputs.label(self.part, self.width), axis=1)

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words that the labels are one of some sets."""
        return _say_is(f"{self.part} in any order", values)


@dataclass(frozen=True, slots=True)
class TimesLabel:
    """The number of occurrences of a label in a part."""

    part: str
    width: int
    label: Any

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Count for each run how often the label occurs in the part."""
        return count_true(outputs.label(self.part, self.width) == self.label)

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words that the label occurs one of some numbers of times."""
        return _say_is(f"the number of {_show_label(self.label)} in {self.part}", values)


@dataclass(frozen=True, slots=True)
class AgreementLabel:
    """The number of places in which a part agrees with a given row."""

    part: str
    row: tuple[Any, ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Count for each run the places in which the part agrees with the given row."""
        return count_true(outputs.label(self.part, len(self.row)) == np.asarray(self.row))

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe that the number of agreeing places is one of some values."""
        return _say_is(f"the number of places where {self.part} agrees with {_show_label(self.row)}", values)


@dataclass(frozen=True, slots=True)
class SidesLabel:
    """The number of places where parts are on given sides of cuts: at or above if `up`, else below."""

    parts: tuple[tuple[str, int], ...]
    cuts: tuple[float, ...]
    up: tuple[bool, ...]

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Count for each run the places whose numbers are on the given sides of their cuts."""
        values = [outputs.value(part, width) for part, width in self.parts]
        above = np.concatenate(values, axis=1) >= np.array(self.cuts)
        return count_true(above == np.array(self.up))

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe that the number of places on the given sides is one of some values."""
        sides = [f"{'≥' if up else '<'} {cut:g}" for cut, up in zip(self.cuts, self.up, strict=True)]
        name = " and ".join(part for part, _ in self.parts)
        return _say_is(f"the number of places where {name} is ({', '.join(sides)})", values)


@dataclass(frozen=True, slots=True)
class LastDigitLabel:
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
        name = f"the last binary digit of {column_name(self.part, self.column, self.width)}"
        return f"{name} is worth " + _say_is("", tuple(f"2^{value}" for value in values)).removeprefix(" is ")


@dataclass(frozen=True, slots=True)
class LowBitsLabel:
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
        return _say_is(f"the last four bits of {column_name(self.part, self.column, self.width)}", values)


_STEPS = 4096
"""Residues are rounded to 1/4096 of the modulus: division by 3 or 10 is inexact in floating point."""


@dataclass(frozen=True, slots=True)
class Combination:
    """A linear combination of numbers of an output, of any parts."""

    terms: tuple[tuple[float, NumberValue], ...]
    """The numbers and their weights."""
    quantum: float
    """The sum is rounded to a multiple of this power of two, which is far below the spread of the terms.
    Noise that cancels in floating point leaves a residue, which would hide that sums are equal."""

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        said = ""
        for weight, value in self.terms:
            sign = ("-" if weight < 0 else "") if not said else (" - " if weight < 0 else " + ")
            size = "" if abs(weight) == 1 else f"{abs(weight):g} "
            said += sign + size + value.name
        return said

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the combination for each run; NaN where a term is missing."""
        with np.errstate(invalid="ignore", over="ignore"):
            total = reduce(np.add, (weight * value.of(outputs) for weight, value in self.terms))
            return np.asarray(np.rint(total / self.quantum) * self.quantum)


@dataclass(frozen=True, slots=True)
class Corner:
    """The greatest of several numbers, each shifted and scaled; at most 0 if all are in an orthant."""

    sides: tuple[tuple[NumberValue, float, float], ...]
    """For each number its offset, which is subtracted, and its divisor; a negative divisor turns the side."""
    least: bool = False
    """Whether to take the least instead of the greatest."""

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        said = []
        for value, middle, unit in self.sides:
            shifted = f"{value.name} - {middle:g}" if unit > 0 else f"{middle:g} - {value.name}"
            said.append(shifted if abs(unit) == 1 else f"({shifted})/{abs(unit):g}")
        return f"the {'least' if self.least else 'greatest'} of ({', '.join(said)})"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the greatest, or least, for each run among the numbers that are present."""
        turned = [(value.of(outputs) - middle) / unit for value, middle, unit in self.sides]
        return reduce(np.fmin if self.least else np.fmax, turned)


@dataclass(frozen=True, slots=True)
class Residue:
    """The remainder of a number on division by a modulus, which may be far below the noise."""

    value: NumberValue
    modulus: float

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        return f"({self.value.name} mod {self.modulus:g})/{self.modulus:g}"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the residue for each run, as a fraction of the modulus."""
        with np.errstate(invalid="ignore", over="ignore"):
            part = self.value.of(outputs) / self.modulus
            return np.asarray(np.rint((part - np.floor(part)) * _STEPS) % _STEPS / _STEPS)
