"""What events are about: one label or one number of each output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpsql.audit.features.directions import combinations
from dpsql.audit.features.labels import Agreement, Column, Finest, LowBits, Row, Set, Sides, Times
from dpsql.audit.features.numbers import Average, Greatest, Least, Value
from dpsql.audit.features.residues import residues

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpsql.audit.outputs import Outputs

__all__ = ["LabelFeature", "NumberFeature", "label_features", "number_features", "row_features"]

_WIDEST = 12
"""Columns looked at one by one; further ones count as parts of the whole."""

_SMALL = 4
"""Parts of at most this width are looked at as sets, too."""

_FINE = -40
"""Numbers with digits worth less than two to this are in floating point, not on a grid."""

_LOOK = 1 << 12
"""Runs that decide which labels are looked at."""

_MANY = 24
"""Whole numbers with more than so many values are numbers, besides labels."""

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
    heads, numeric = (first.head(_LOOK), second.head(_LOOK)), _numeric(first, second)
    for part, width in numeric:
        if width > 1:
            found.append(_sides(((part, width),), *heads))
        # On a grid no digit tells.
        floating = [j for j in range(min(width, 2)) if Finest(part, width, j).of(heads[0]).min() < _FINE]
        found += [LowBits(part, width, j) for j in floating]
        found += [Finest(part, width, j) for j in floating]
    if len(numeric) > 1:
        found.append(_sides(numeric, *heads))
    return found


def number_features(first: Outputs, second: Outputs) -> list[NumberFeature]:
    """List the numbers of two samples: each alone, and a part's least, greatest and average."""
    found: list[NumberFeature] = []
    for part, width in _numeric(first, second):
        found += [Value(part, width, j) for j in range(min(width, _WIDEST))]
        if width > 1:
            found += [Least(part, width), Greatest(part, width), Average(part, width)]
    return found


def row_features(first: Outputs, second: Outputs) -> list[NumberFeature]:
    """List what is computed from several numbers of any parts, or from digits, and differs in two samples."""
    columns = [Value(part, width, j) for part, width in _numeric(first, second) for j in range(width)]
    return [*combinations(columns, first, second), *residues(columns[:_WIDEST], first, second)]


def _numeric(first: Outputs, second: Outputs) -> tuple[tuple[str, int], ...]:
    """Return the parts that are numbers, and how wide they are: floats, and whole numbers of many values."""
    found = list(_parts(first.values, second.values))
    for part, width in _parts(first.labels, second.labels):
        sides = [outputs.labels[part][:_LOOK] for outputs in (first, second) if part in outputs.labels]
        if part not in dict(found) and all(side.dtype.kind == "i" for side in sides) and _many(sides):
            found.append((part, width))
    return tuple(found)


def _many(sides: list[NDArray[np.int64]]) -> bool:
    """Whether whole numbers have many values; most labels are told by their range already."""
    if max(int(side.max()) - int(side.min()) for side in sides) < _MANY:
        return False
    return len(np.unique(np.concatenate([side.ravel() for side in sides]))) > _MANY


def _parts(*sides: Mapping[str, NDArray[Any]]) -> tuple[tuple[str, int], ...]:
    """Return the parts of two samples and how wide they are."""
    widths: dict[str, int] = {}
    for side in sides:
        for part, array in side.items():
            widths[part] = max(widths.get(part, 0), array.shape[1])
    return tuple(widths.items())


def _sides(parts: tuple[tuple[str, int], ...], first: Outputs, second: Outputs) -> Sides:
    """Return the sides of the middles that the first sample's numbers are on."""
    halves = []
    for outputs in (first, second):
        side = np.concatenate([outputs.value(part, width) for part, width in parts], axis=1)
        # What is no number is behind all others.
        ordered, count = np.sort(side, axis=0), np.count_nonzero(~np.isnan(side), axis=0)
        middle = ordered[np.maximum(count - 1, 0) // 2, np.arange(side.shape[1])]
        halves.append(np.where(count > 0, middle, 0.0))
    cuts = tuple(float(cut) for cut in np.round((halves[0] + halves[1]) / 2, 1))
    return Sides(parts, cuts, tuple((halves[0] > halves[1]).tolist()))


def _likelier(first: NDArray[Any], second: NDArray[Any]) -> tuple[Any, ...]:
    """Return the row of the labels that are most likelier in the first sample than in the second."""
    row = []
    for a, b in zip(first.T, second.T, strict=True):
        seen, which = np.unique(np.concatenate([a, b]), return_inverse=True)
        here, there = which[: len(a)], which[len(a) :]
        more = np.bincount(here, minlength=len(seen)) - np.bincount(there, minlength=len(seen))
        row.append(seen[np.argmax(more)].item())
    return tuple(row)
