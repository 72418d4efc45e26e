"""Marginals: sets of numbers that are sums over cells, and the released ones with their noise.

A marginal names some columns. On each of them it has an axis: a list of sets of values. It has one number for
each choice of a set from each axis, which sums over all values of the columns that it does not name. Counts
`GROUP BY` a column, counts under conditions on single columns, periods and running totals are marginals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.noise_laws import NoiseDraw
from dpsql.estimates.value_sets import ValueSet, are_apart
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """The sets of values of one column that a marginal tells apart, with a name for each.

    >>> Axis.of_groups("region", ["north", "south"]).labels
    ('north', 'south')
    """

    column: str
    rows: tuple[ValueSet, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.rows or len(self.rows) != len(self.labels):
            raise ValueError("an axis has at least one set, and a label for each")

    @classmethod
    def of_groups(cls, column: str, values: Iterable[Any]) -> Axis:
        """Return the axis of a key: one set for each value; None stands for NULL."""
        listed = list(values)
        labels = tuple("NULL" if each is None else str(each) for each in listed)
        return cls(column, tuple(ValueSet.of_values([each]) for each in listed), labels)

    @classmethod
    def of_condition(cls, column: str, values: ValueSet, label: str) -> Axis:
        """Return the axis of a condition: its one set of values."""
        return cls(column, (values,), (label,))

    def take(self, places: Sequence[int]) -> Axis:
        """Return the axis with some of its sets of values."""
        rows, labels = tuple(self.rows[i] for i in places), tuple(self.labels[i] for i in places)
        return Axis(self.column, rows, labels)

    def is_apart(self) -> bool:
        """Return whether the axis's sets are disjoint, so that each row counts in at most one number."""
        return are_apart(self.rows)


@dataclass(frozen=True, slots=True)
class Marginal:
    """A set of numbers: one for each choice of a set from each axis; without an axis, the total.

    >>> both = Marginal((Axis.of_groups("region", ["north", "south"]), Axis.of_groups("sex", ["f", "m"])))
    >>> both.shape, both.columns, Marginal.from_data(both.to_data()) == both
    ((2, 2), ('region', 'sex'), True)
    """

    axes: tuple[Axis, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.axes):
            raise ValueError("a marginal has one axis for a column")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose sets the marginal counts."""
        return tuple(axis.column for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many sets each axis of the marginal has."""
        return tuple(len(axis.rows) for axis in self.axes)

    @property
    def size(self) -> int:
        """How many numbers the marginal has: the product of its shape."""
        return math.prod(self.shape)

    def axis(self, column: str) -> Axis | None:
        """Return the axis on a column, if it has one."""
        return next((axis for axis in self.axes if axis.column == column), None)

    def describe(self) -> str:
        """Return the words for the marginal, such as "by region of 2026-W31"."""
        keys = [axis.column for axis in self.axes if len(axis.rows) > 1]
        single = [axis.labels[0] for axis in self.axes if len(axis.rows) == 1]
        by = f"by {', '.join(keys)}" if keys else "the total"
        return f"{by} of {', '.join(single)}" if single else by

    def to_data(self) -> list[dict[str, Any]]:
        """Return the marginal as values of JSON, exactly."""
        return [
            {"column": axis.column, "labels": list(axis.labels), "rows": [row.to_data() for row in axis.rows]}
            for axis in self.axes
        ]

    @classmethod
    def from_data(cls, data: Sequence[Mapping[str, Any]]) -> Marginal:
        """Return the marginal that `to_data` wrote."""
        return cls(tuple(_read_axis(each) for each in data))


def _read_axis(data: Mapping[str, Any]) -> Axis:
    return Axis(data["column"], tuple(map(ValueSet.of_data, data["rows"])), tuple(data["labels"]))


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedMarginal:
    """The numbers of a marginal as they were measured, with the draw of their noise.

    Raises
    ------
    ValueError
        Where the number of values is another than the marginal's.
    """

    release: int
    """The number of the release that showed them."""
    marginal: Marginal
    """What they are sums of."""
    values: NDArray[np.float64]
    """float64 in the marginal's shape or flat: before any shift, cut or rounding."""
    draw: NoiseDraw
    """The draw of the noise. Marginals of one draw have the same `draw.law`."""
    report: str = ""
    """The report that they belong to; one estimate is of one report."""

    def __post_init__(self) -> None:
        if np.size(self.values) != self.marginal.size:
            raise ValueError(f"{self.marginal.size} values expected, {np.size(self.values)} given")

    def tensor(self) -> NDArray[np.float64]:
        """Return the released values as an array of the marginal's shape."""
        return np.asarray(self.values, dtype=np.float64).reshape(self.marginal.shape)
