"""Samples laid out for counting: labels as small numbers, numbers in bins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.audit.events import Within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.audit.features import LabelFeature, NumberFeature
    from dpsql.audit.outputs import Outputs

__all__ = ["Bins", "LabelCodes", "bin_numbers", "encode_labels", "interval"]

_GROUPS = 24
"""Labels looked at, the most frequent ones."""

_ATOMS = 40
"""Numbers with at most so many values are looked at value by value."""

_SAMPLE = 1 << 13


@dataclass(frozen=True, slots=True)
class LabelCodes:
    """A label feature of both samples as small numbers: a place in `values`, or beyond them."""

    feature: LabelFeature
    values: list[Any]
    sides: tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True, slots=True)
class Bins:
    """A number feature of both samples by bins between edges; the last bin is for none."""

    feature: NumberFeature
    edges: NDArray[np.float64]
    atoms: bool
    sides: tuple[NDArray[np.intp], NDArray[np.intp]]


def interval(bin_: Bins, start: int, end: int) -> Within:
    """Return the condition that a number is in the bins from `start` up to, but not with, `end`."""
    edges = bin_.edges
    low = float(edges[start - 1]) if start else -math.inf
    high = float(edges[end - 1]) if end <= len(edges) else math.inf
    single = bin_.atoms and end == start + 1 and start > 0
    return Within(bin_.feature, low, None if single else high)


def encode_labels(feature: LabelFeature, first: Outputs, second: Outputs) -> LabelCodes:
    """Return a feature's values, the most frequent ones first, and their places in both samples."""
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
    """Return small numbers for the distinct entries, or rows, of an array."""
    if pooled.dtype.kind == "i":
        columns = pooled.reshape(len(pooled), -1)
        low = columns.min(axis=0)
        extent = [int(wide) + 1 for wide in columns.max(axis=0) - low]
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
    """Cut a feature's range at its quantiles, rounded for people, or at its values if they are few."""
    a, b = feature.of(first), feature.of(second)
    sample = np.concatenate([a[:_SAMPLE], b[:_SAMPLE]])
    sample = np.sort(sample[np.isfinite(sample)])
    edges, atoms = np.concatenate([sample[:1], sample[1:][sample[1:] > sample[:-1]]]), True
    if len(edges) > (most if most < _ATOMS // 2 else _ATOMS):
        # Its quantiles.
        edges, atoms = _rounded(sample[np.arange(1, most) * len(sample) // most]), False
    sides = []
    for side in (a, b):
        cell = np.searchsorted(edges, side, side="right")
        sides.append(np.where(np.isnan(side), len(edges) + 1, cell))
    return Bins(feature, edges, atoms, (sides[0], sides[1]))


def _rounded(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to few digits, and add the small whole numbers, where supports tend to end."""
    spread = float(np.max(edges) - np.min(edges)) or 1.0
    digits = 2 - math.floor(math.log10(spread))
    wholes = np.array([value for value in (-1.0, 0.0, 1.0, 2.0) if edges[0] < value < edges[-1]])
    return np.unique(np.concatenate([np.round(edges, digits), wholes]))
