"""Events, sets of outputs whose probabilities are compared, and all those that two samples are searched for.

Features of two samples are small integers: labels become codes, numbers become bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.feature_selection import (
    LabelFeature,
    NumberFeature,
    label_features,
    number_features,
    row_features,
)
from dpsql.audit.runs import Outputs
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
    """The condition that a run of the mechanism charged a given epsilon."""

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
class OutputEvent:
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


_GROUPS = 24
"""Number of distinct labels kept, the most frequent ones."""

_ATOMS = 40
"""A number feature with at most this many distinct values gets one bin for each value."""

_SAMPLE = 1 << 13


@dataclass(frozen=True, slots=True)
class LabelCodes:
    """A label feature of both samples as indices into `values`; len(values) stands for all other labels."""

    feature: LabelFeature
    values: list[Any]
    sides: tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True, slots=True)
class NumberBins:
    """A number feature of both samples as bin indices; the last bin holds missing numbers."""

    feature: NumberFeature
    edges: NDArray[np.float64]
    atoms: bool
    sides: tuple[NDArray[np.intp], NDArray[np.intp]]


def interval_condition(bin_: NumberBins, start: int, end: int) -> Within:
    """Return the condition that a number is in the bins from `start` to `end`, `end` excluded."""
    edges = bin_.edges
    low = float(edges[start - 1]) if start else -math.inf
    high = float(edges[end - 1]) if end <= len(edges) else math.inf
    single = bin_.atoms and end == start + 1 and start > 0
    return Within(bin_.feature, low, None if single else high)


def encode_labels(feature: LabelFeature, first: Outputs, second: Outputs) -> LabelCodes:
    """Encode the labels of both samples as indices into the list of the most frequent labels."""
    a, b = feature.of(first), feature.of(second)
    pooled = np.concatenate([a, b])
    codes = _number_values(pooled)
    count = np.bincount(codes)
    frequent = np.argsort(-count, kind="stable")[:_GROUPS]
    where = np.empty(len(count), dtype=np.intp)
    where[codes] = np.arange(len(codes))
    place = np.full(len(count), len(frequent), dtype=np.intp)
    place[frequent] = np.arange(len(frequent))
    values = [pooled[where[code]] for code in frequent]
    shown = [tuple(value.tolist()) if value.ndim else value.item() for value in values]
    placed = place[codes]
    return LabelCodes(feature, shown, (placed[: len(a)], placed[len(a) :]))


def _number_values(pooled: NDArray[Any]) -> NDArray[np.intp]:
    """Return a small integer for each entry, or row, of an array: equal ones get the same integer."""
    if pooled.dtype.kind == "i":
        columns = pooled.reshape(len(pooled), -1)
        # Column by column, because rows are short.
        low = [int(column.min()) for column in columns.T]
        extent = [int(column.max()) - least + 1 for column, least in zip(columns.T, low, strict=True)]
        if math.prod(extent) < 1 << 62:
            code = np.zeros(len(columns), dtype=np.int64)
            for j, wide in enumerate(extent):
                code = code * wide + (columns[:, j] - low[j])
            if math.prod(extent) <= 1 << 16:
                seen = np.flatnonzero(np.bincount(code))
                number = np.zeros(int(seen[-1]) + 1, dtype=np.intp)
                number[seen] = np.arange(len(seen))
                return number[code]
            pooled = code
    axis = 0 if pooled.ndim == 2 else None
    return np.unique(pooled, axis=axis, return_inverse=True)[1].reshape(-1)


def bin_numbers(feature: NumberFeature, first: Outputs, second: Outputs, most: int) -> NumberBins:
    """Divide the range of a feature into bins: at its rounded quantiles, or at its values if they are few."""
    a, b = feature.of(first), feature.of(second)
    sample = np.concatenate([a[:_SAMPLE], b[:_SAMPLE]])
    sample = np.sort(sample[np.isfinite(sample)])
    edges, atoms = np.concatenate([sample[:1], sample[1:][sample[1:] > sample[:-1]]]), True
    if len(edges) > (most if most < _ATOMS // 2 else _ATOMS):
        edges, atoms = _round_edges(sample[np.arange(1, most) * len(sample) // most]), False
    sides = []
    for side in (a, b):
        # For so few edges, this is faster than a binary search.
        cell = np.zeros(len(side), dtype=np.int8)
        for edge in edges:
            cell += side >= edge
        cell[np.isnan(side)] = len(edges) + 1
        sides.append(cell.astype(np.intp))
    return NumberBins(feature, edges, atoms, (sides[0], sides[1]))


def _round_edges(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round edges to few digits, and add small integers, where supports often end."""
    spread = float(np.max(edges) - np.min(edges)) or 1.0
    digits = 2 - math.floor(math.log10(spread))
    wholes = np.array([value for value in (-1.0, 0.0, 1.0, 2.0) if edges[0] < value < edges[-1]])
    return np.unique(np.concatenate([np.round(edges, digits), wholes]))


_UNION = 6
"""Most labels in one event, for events must stay readable."""

_BINS = 28
_QUICK_BINS = 12
_CONTEXTS = 8
_QUICK_CONTEXTS = 3
_ROW_CONTEXTS = 1
"""Label contexts of numbers computed from several: there are many, and most are informative alone."""

_LEVELS = 6
_QUICK = 1 << 12
"""Samples up to this size are discretized more coarsely."""

_SEEN = 24
"""Labels that occurred less often in both samples together are ignored."""


@dataclass(frozen=True, eq=False, slots=True)
class EventFamily:
    """A family of similar events: the frequency of each in the two samples, and how to build one.

    `c1` and `c2` have a row for each claim of `claims`.
    """

    c1: NDArray[np.int64]
    c2: NDArray[np.int64]
    claims: NDArray[np.float64]
    event: Callable[[int, int], tuple[int, tuple[Condition, ...]]]
    """Maps row and column to the index of the event's claim and its conditions."""


class EventSpace:
    """All events that two samples are searched for, in families.

    The search space is that of the dissertation (section 4.3.3) and more: values of each label, of all
    labels together, how often one occurs; sets of such values; intervals of each number, of their least,
    greatest and average, of linear combinations of numbers of any parts, and of residues; and pairings of a
    label with an interval. Where runs charge different
    amounts, events are looked for among runs of equal charge, each against its own claim.
    """

    def __init__(self, first: Outputs, second: Outputs, epsilon: float) -> None:
        quick = first.trials <= _QUICK
        self._trials = first.trials
        self.claims, self._level = _find_charges(first, second, epsilon)
        self._groups = [encode_labels(feature, first, second) for feature in label_features(first, second)]
        numbers = number_features(first, second)
        most = _QUICK_BINS if quick else _BINS
        self._bins = [bin_numbers(number, first, second, most) for number in numbers]
        self._row_bins = [bin_numbers(number, first, second, most) for number in row_features(first, second)]
        count = _QUICK_CONTEXTS if quick else _CONTEXTS
        self._contexts: list[LabelCodes | None] = [None, *self._groups[::-1][:count]]

    def families(self) -> Iterator[EventFamily]:
        """Yield all events, family by family."""
        if len(self.claims) > 1:
            c1, c2 = (counts.reshape(-1, 1) for counts in self._counts(None, None, 1))
            yield EventFamily(c1, c2, self.claims, lambda row, _: (row, ()))
        yield from self._labels()
        for bin_ in self._bins:
            yield from self._intervals(bin_, self._contexts)
        for bin_ in self._row_bins:
            yield from self._intervals(bin_, self._contexts[: 1 + _ROW_CONTEXTS])

    def _labels(self) -> Iterator[EventFamily]:
        """Yield the events on single labels of each feature, and on sets of labels."""
        if not self._groups:
            return
        wide = max(len(group.values) for group in self._groups)
        # By sample, feature, charge and label; where a feature has fewer labels, there is nothing to count.
        alone = np.zeros((2, len(self._groups), len(self.claims), wide), dtype=np.int64)
        none = np.ones((len(self._groups), 1, wide), dtype=np.bool_)
        for place, group in enumerate(self._groups):
            size = len(group.values)
            none[place, :, :size] = False
            for side, counts in enumerate(self._counts(group, None, 1)):
                # Layout: the labels of one charge, then all other labels of that charge.
                alone[side, place, :, :size] = counts.reshape(-1, size + 1)[:, :size]
        ratio = np.log((alone[1] + 0.5) / (alone[0] + 0.5))
        sets = []
        for sign in (1, -1):
            order = np.argsort(np.where(none, np.inf, sign * ratio), axis=-1)[..., :_UNION]
            sets.append((order, np.cumsum(np.take_along_axis(alone, order[None], axis=-1), axis=-1)))
        for place, group in enumerate(self._groups):
            for order, sums in sets:
                yield EventFamily(
                    sums[0, place], sums[1, place], self.claims, _set_events(group, order[place])
                )
            single = alone[:, place, :, : len(group.values)]
            yield EventFamily(single[0], single[1], self.claims, _label_events(group))

    def _intervals(self, bin_: NumberBins, contexts: list[LabelCodes | None]) -> Iterator[EventFamily]:
        """Yield the events on intervals of a number, alone and combined with each label of each context."""
        width = len(bin_.edges) + 2
        start, end = _list_intervals(width)
        counts, rows = [], []
        for context in contexts:
            size = 1 if context is None else len(context.values) + 1
            # Of each charge and label, how many are in each bin; the last bin is for none.
            found = np.stack(self._counts(context, bin_, width)).reshape(2, -1, width)[:, :, :-1]
            row = np.arange(found.shape[1])
            seen = found.sum(axis=(0, 2)) >= _SEEN
            row = row[seen & ((row % size < size - 1) | (context is None))]
            counts.append(found[:, row])
            rows.append(row)
        together = np.concatenate(counts, axis=1)
        running = np.zeros((*together.shape[:2], width), dtype=np.int64)
        np.cumsum(together, axis=2, out=running[:, :, 1:])
        sums = running[:, :, end] - running[:, :, start]
        begin = 0
        for context, row in zip(contexts, rows, strict=True):
            mine = sums[:, begin : begin + len(row)]
            begin += len(row)
            size = 1 if context is None else len(context.values) + 1
            yield EventFamily(
                mine[0], mine[1], self.claims[row // size], _interval_events(bin_, context, row, size)
            )

    def _counts(
        self, group: LabelCodes | None, bin_: NumberBins | None, width: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count each sample's runs by charge, label and bin."""
        labels = 1 if group is None else len(group.values) + 1
        counts = []
        for side in (0, 1):
            cell = self._level[side]
            if group is not None:
                cell = group.sides[side] if cell is None else cell * labels + group.sides[side]
            if bin_ is not None:
                cell = bin_.sides[side] if cell is None else cell * width + bin_.sides[side]
            size = len(self.claims) * labels * width
            if cell is None:
                counts.append(np.full(1, self._trials))
            else:
                # Runs of an ignored charge have indices beyond `size` and are cut off.
                counts.append(np.bincount(cell, minlength=size)[:size])
        return counts[0], counts[1]


def _set_events(group: LabelCodes, order: NDArray[np.intp]) -> Callable[[int, int], tuple[int, Any]]:
    """Return the function that builds the event of a set of labels."""
    return lambda row, column: (
        row,
        (Labelled(group.feature, tuple(group.values[i] for i in order[row, : column + 1])),),
    )


def _label_events(group: LabelCodes) -> Callable[[int, int], tuple[int, Any]]:
    """Return the function that builds the event of a single label."""
    return lambda row, column: (row, (Labelled(group.feature, (group.values[column],)),))


def _interval_events(
    bin_: NumberBins, context: LabelCodes | None, rows: NDArray[np.intp], size: int
) -> Callable[[int, int], tuple[int, Any]]:
    """Return the function that builds events of intervals; `rows` are indices of charge and label."""

    def event(row: int, pair: int) -> tuple[int, Any]:
        start, end = _list_intervals(len(bin_.edges) + 2)
        level, label = divmod(int(rows[row]), size)
        within = interval_condition(bin_, int(start[pair]), int(end[pair]))
        if context is None:
            return level, (within,)
        return level, (Labelled(context.feature, (context.values[label],)), within)

    return event


@lru_cache(maxsize=64)
def _list_intervals(width: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """List the first and last edges of all intervals of `width` bins."""
    return np.triu_indices(width, 1)


def _find_charges(
    first: Outputs, second: Outputs, epsilon: float
) -> tuple[NDArray[np.float64], tuple[NDArray[np.intp] | None, NDArray[np.intp] | None]]:
    """Return the most frequent charges, and the index of each run's charge among them."""
    if first.epsilon is None or second.epsilon is None:
        return np.array([epsilon]), (None, None)
    charges = [np.round(outputs.epsilon, 9) for outputs in (first, second) if outputs.epsilon is not None]
    seen, count = np.unique(np.concatenate(charges), return_counts=True)
    if len(seen) == 1:
        return seen, (None, None)
    kept = np.sort(seen[np.argsort(-count, kind="stable")[:_LEVELS]])
    places = []
    for charge in charges:
        place = np.minimum(np.searchsorted(kept, charge), len(kept) - 1)
        places.append(np.where(kept[place] == charge, place, len(kept)))
    return kept, (places[0], places[1])
