"""Number features computed from several numbers of an output, or from the digits of one."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.features.numbers import Value
from dpsql.audit.outputs import Outputs
from dpsql.lazy_dataclass import dataclass

_STEPS = 4096
"""Residues are rounded to 1/4096 of the modulus: division by 3 or 10 is inexact in floating point."""


@dataclass(frozen=True, slots=True)
class Combination:
    """A linear combination of numbers of an output, of any parts.

    Attributes
    ----------
    terms
        The numbers and their weights.
    quantum
        The sum is rounded to a multiple of this power of two, which is far below the spread of the terms.
        Noise that cancels in floating point leaves a residue, which would hide that sums are equal.
    """

    terms: tuple[tuple[float, Value], ...]
    quantum: float

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
    """The greatest of several numbers, each shifted and scaled; at most 0 if all are in an orthant.

    Attributes
    ----------
    sides
        For each number its offset, which is subtracted, and its divisor; a negative divisor turns the side.
    least
        Whether to take the least instead of the greatest.
    """

    sides: tuple[tuple[Value, float, float], ...]
    least: bool = False

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

    value: Value
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
