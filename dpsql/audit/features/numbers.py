"""Number features: functions that assign one number of a part to each output."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.outputs import Outputs
from dpsql.lazy_dataclass import dataclass


def times(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the true entries of each row, column by column, because rows are short."""
    total = np.zeros(len(flags), dtype=np.int64)
    for column in flags.T:
        total += column
    return total


def indexed(name: str, column: int, width: int) -> str:
    """Name one column of a part; the only column of a part has the part's name."""
    return f"{name}[{column}]" if width > 1 else name


@dataclass(frozen=True, slots=True)
class Value:
    """One number of a part."""

    part: str
    width: int
    column: int

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        return indexed(self.part, self.column, self.width)

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
        """Name of the number in the description of an event."""
        return f"the least {self.part}"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the number of each run."""
        return reduce(np.fmin, outputs.value(self.part, self.width).T)


@dataclass(frozen=True, slots=True)
class Greatest:
    """The greatest number of a part."""

    part: str
    width: int

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        return f"the greatest {self.part}"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the number of each run."""
        return reduce(np.fmax, outputs.value(self.part, self.width).T)


@dataclass(frozen=True, slots=True)
class Average:
    """The average of a part's numbers."""

    part: str
    width: int

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        return f"the average {self.part}"

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the number of each run."""
        values = outputs.value(self.part, self.width)
        there = ~np.isnan(values)
        count = times(there)
        total = reduce(np.add, np.where(there, values, 0.0).T)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)
