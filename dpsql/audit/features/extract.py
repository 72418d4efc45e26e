"""List the features of two samples: labels and numbers of each output that events are conditions on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.features.directions import choose_residues, combinations
from dpsql.audit.features.labels import Agreement, Column, Finest, LowBits, Row, Set, Sides, Times
from dpsql.audit.features.numbers import Average, Greatest, Least, Value
from dpsql.audit.outputs import Outputs

_WIDEST = 12
"""Most columns of a part that get a feature each; further ones enter only features of the whole part."""

_SMALL = 4
"""Parts of at most this width get a feature for the set of their labels, too."""

_FINE = -40
"""Numbers with binary digits below 2 to this exponent are in floating point, not on a grid."""

_LOOK = 1 << 12
"""Runs used to choose the features."""

_MANY = 24
"""Integers with more distinct values than this are numbers as well as labels."""

_MOST_TIMES = 4
"""Number of labels in each part whose number of occurrences is a feature."""


class LabelFeature(Protocol):
    """A function that assigns a label to each output."""

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the labels as an array whose first axis is the runs."""
        ...

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words the condition that the label is one of some values."""
        ...


class NumberFeature(Protocol):
    """A function that assigns a number to each output; NaN where there is none."""

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the number of each run."""
        ...

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        ...


def label_features(first: Outputs, second: Outputs) -> list[LabelFeature]:
    """List the label features of two samples: single labels, rows, sets, numbers of occurrences."""
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
        # On a grid the last digits carry no information.
        floating = [j for j in range(min(width, 2)) if Finest(part, width, j).of(heads[0]).min() < _FINE]
        found += [LowBits(part, width, j) for j in floating]
        found += [Finest(part, width, j) for j in floating]
    if len(numeric) > 1:
        found.append(_sides(numeric, *heads))
    return found


def number_features(first: Outputs, second: Outputs) -> list[NumberFeature]:
    """List the number features of two samples: each number, and the least, greatest, average of a part."""
    found: list[NumberFeature] = []
    for part, width in _numeric(first, second):
        found += [Value(part, width, j) for j in range(min(width, _WIDEST))]
        if width > 1:
            found += [Least(part, width), Greatest(part, width), Average(part, width)]
    return found


def row_features(first: Outputs, second: Outputs) -> list[NumberFeature]:
    """List the features computed from several numbers, or from digits, that differ in two samples."""
    columns = [Value(part, width, j) for part, width in _numeric(first, second) for j in range(width)]
    return [*combinations(columns, first, second), *choose_residues(columns[:_WIDEST], first, second)]


def _numeric(first: Outputs, second: Outputs) -> tuple[tuple[str, int], ...]:
    """Return the numeric parts with their widths: floats, and integers with many values."""
    found = list(_parts(first.values, second.values))
    for part, width in _parts(first.labels, second.labels):
        sides = [outputs.labels[part][:_LOOK] for outputs in (first, second) if part in outputs.labels]
        if part not in dict(found) and all(side.dtype.kind == "i" for side in sides) and _many(sides):
            found.append((part, width))
    return tuple(found)


def _many(sides: list[NDArray[np.int64]]) -> bool:
    """Return whether integers have many values; for most labels their range decides."""
    if max(int(side.max()) - int(side.min()) for side in sides) < _MANY:
        return False
    return len(np.unique(np.concatenate([side.ravel() for side in sides]))) > _MANY


def _parts(*sides: Mapping[str, NDArray[Any]]) -> tuple[tuple[str, int], ...]:
    """Return the parts of two samples with their widths."""
    widths: dict[str, int] = {}
    for side in sides:
        for part, array in side.items():
            widths[part] = max(widths.get(part, 0), array.shape[1])
    return tuple(widths.items())


def _sides(parts: tuple[tuple[str, int], ...], first: Outputs, second: Outputs) -> Sides:
    """Build the feature that counts numbers on the first sample's side of the midpoints of medians."""
    halves = []
    for outputs in (first, second):
        side = np.concatenate([outputs.value(part, width) for part, width in parts], axis=1)
        # NaN is sorted last.
        ordered, count = np.sort(side, axis=0), np.count_nonzero(~np.isnan(side), axis=0)
        middle = ordered[np.maximum(count - 1, 0) // 2, np.arange(side.shape[1])]
        halves.append(np.where(count > 0, middle, 0.0))
    cuts = tuple(float(cut) for cut in np.round((halves[0] + halves[1]) / 2, 1))
    return Sides(parts, cuts, tuple((halves[0] > halves[1]).tolist()))


def _likelier(first: NDArray[Any], second: NDArray[Any]) -> tuple[Any, ...]:
    """Return for each column the label whose frequency in the first sample exceeds the second's most."""
    row = []
    for a, b in zip(first.T, second.T, strict=True):
        seen, which = np.unique(np.concatenate([a, b]), return_inverse=True)
        here, there = which[: len(a)], which[len(a) :]
        more = np.bincount(here, minlength=len(seen)) - np.bincount(there, minlength=len(seen))
        row.append(seen[np.argmax(more)].item())
    return tuple(row)
