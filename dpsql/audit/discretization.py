"""Discretize features of two samples: labels become small integers, numbers become bins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.events import Within
from dpsql.audit.features import LabelFeature, NumberFeature
from dpsql.audit.outputs import Outputs
from dpsql.lazy_dataclass import dataclass

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
class Bins:
    """A number feature of both samples as bin indices; the last bin holds missing numbers."""

    feature: NumberFeature
    edges: NDArray[np.float64]
    atoms: bool
    sides: tuple[NDArray[np.intp], NDArray[np.intp]]


def interval(bin_: Bins, start: int, end: int) -> Within:
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
    codes = _dense(pooled)
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


def _dense(pooled: NDArray[Any]) -> NDArray[np.intp]:
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


def bin_numbers(feature: NumberFeature, first: Outputs, second: Outputs, most: int) -> Bins:
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
    return Bins(feature, edges, atoms, (sides[0], sides[1]))


def _round_edges(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round edges to few digits, and add small integers, where supports often end."""
    spread = float(np.max(edges) - np.min(edges)) or 1.0
    digits = 2 - math.floor(math.log10(spread))
    wholes = np.array([value for value in (-1.0, 0.0, 1.0, 2.0) if edges[0] < value < edges[-1]])
    return np.unique(np.concatenate([np.round(edges, digits), wholes]))
