"""Events: sets of outputs whose probabilities on two adjacent inputs are compared."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.features import LabelFeature, NumberFeature
from dpsql.audit.outputs import Outputs
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Labelled:
    """The condition that a label is one of some values."""

    feature: LabelFeature
    values: tuple[Any, ...]

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Return for each run whether the condition holds."""
        label = self.feature.of(outputs)
        found = np.zeros(outputs.trials, dtype=np.bool_)
        for value in self.values:
            same = label == np.asarray(value)
            found |= reduce(np.logical_and, same.T) if same.ndim == 2 else same
        return found

    def words(self) -> str:
        """Describe the condition in words."""
        return self.feature.words(self.values)


@dataclass(frozen=True, slots=True)
class Within:
    """The condition that a number is in [low, high), or equal to `low` if `high` is None."""

    feature: NumberFeature
    low: float
    high: float | None

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Return for each run whether the condition holds."""
        value = self.feature.of(outputs)
        if self.high is None:
            return np.asarray(value == self.low)
        with np.errstate(invalid="ignore"):
            return np.asarray((value >= self.low) & (value < self.high))

    def words(self) -> str:
        """Describe the condition in words."""
        name = self.feature.name
        if self.high is None:
            return f"{name} = {self.low:g}"
        if math.isinf(self.low) and math.isinf(self.high):
            return f"there is {name}"
        if math.isinf(self.low):
            return f"{name} < {self.high:g}"
        if math.isinf(self.high):
            return f"{name} ≥ {self.low:g}"
        return f"{self.low:g} ≤ {name} < {self.high:g}"


@dataclass(frozen=True, slots=True)
class Charged:
    """The condition that the run charged this epsilon."""

    epsilon: float

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Return for each run whether the condition holds."""
        if outputs.epsilon is None:
            return np.zeros(outputs.trials, dtype=np.bool_)
        return np.asarray(np.abs(outputs.epsilon - self.epsilon) < 1e-9)

    def words(self) -> str:
        """Describe the condition in words."""
        return f"epsilon {self.epsilon:g} is charged"


Condition = Labelled | Within | Charged
"""One condition of an event on an output."""


@dataclass(frozen=True, slots=True)
class Event:
    """The event that all conditions hold; without conditions, the event of any output."""

    conditions: tuple[Condition, ...] = ()

    def count(self, outputs: Outputs) -> int:
        """Count the runs in which the event happened."""
        found = np.ones(outputs.trials, dtype=np.bool_)
        for condition in self.conditions:
            found &= condition.holds(outputs)
        return int(np.count_nonzero(found))

    def words(self) -> str:
        """Describe the event in words."""
        return " and ".join(condition.words() for condition in self.conditions) or "any output"
