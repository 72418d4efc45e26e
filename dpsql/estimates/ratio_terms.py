"""Intervals of a ratio of two noisy terms, by Fieller's set: of every p with |X - p Y| within its quantile.

For the true ratio p, X - p Y has no part of the data: it is noise, and what bounds left out. So the set
covers p at the level, for any law of the noise. If Y may be 0, the set has no end: there is no interval.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.linear_terms import DRAWS, FloatArray, TermWeights, errors
from dpsql.lazy_dataclass import dataclass

_ANGLES = 65
_HALVINGS = 45
_KEPT = 512
"""Tables of quantiles that are kept in a process."""
_TABLES: dict[object, tuple[float, float, NDArray[np.float64]]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """What may be beyond the noise, of numbers with weights in both terms.

    Attributes
    ----------
    weights
        float64[2, numbers].
    below, above
        By how much the truth of each number may lie below and above the interval of its noise.
    """

    weights: FloatArray
    below: FloatArray
    above: FloatArray

    def of(self, *factors: float) -> tuple[float, float]:
        """Return by how much the sum of the terms with these factors may lie below and above."""
        weights = np.asarray(factors) @ self.weights
        up, down = np.maximum(weights, 0), np.maximum(-weights, 0)
        return float(up @ self.below + down @ self.above), float(up @ self.above + down @ self.below)


@dataclass(frozen=True, slots=True, eq=False)
class RatioIntervals:
    """Finds intervals of ratios; terms of equal weights share a table of quantiles."""

    confidence: float

    def find(self, x: float, y: float, terms: TermWeights, sides: Sides | None) -> tuple[float, float] | None:
        """Return the ends of the interval of x/y; None if it has no end.

        Notes
        -----
        With p = tan t, the condition is one on the angle t: |x cos t - y sin t| is at most the quantile of
        that sum of the noises, which is periodic in t and is kept for 65 angles. In scaled terms the
        quantile is convex in p, and the other side is linear: on each side of x/y the condition ends once.
        """
        if not y:
            return None
        wide, high, table = self._table(terms)
        if not high:
            return None
        wide = wide or abs(x) or 1.0
        grid = np.linspace(-math.pi / 2, math.pi / 2, _ANGLES)

        def within(angle: float) -> bool:
            cos, sin = math.cos(angle) / wide, math.sin(angle) / high
            quantile = float(np.interp(angle, grid, table))
            below, above = (0.0, 0.0) if sides is None else sides.of(cos, -sin)
            distance = x * cos - y * sin
            return distance - quantile - below <= 0 <= distance + quantile + above

        if within(math.pi / 2):
            return None
        start = math.atan((x / wide) / (y / high))
        ends = []
        for side in (-math.pi / 2, math.pi / 2):
            inside, outside = start, side
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                inside, outside = (middle, outside) if within(middle) else (inside, middle)
            ends.append(math.tan(outside) * wide / high)
        return ends[0], ends[1]

    def _table(self, terms: TermWeights) -> tuple[float, float, FloatArray]:
        laws = tuple(
            (law.kind, law.size, law.pads, law.shared, weights.round(9).tobytes())
            for law, weights, _ in terms.by_law().values()
        )
        key = (self.confidence, laws)
        found = _TABLES.get(key)
        if found is None:
            if len(_TABLES) >= _KEPT:
                _TABLES.clear()
            found = _TABLES[key] = self._make_table(terms)
        return found

    def _make_table(self, terms: TermWeights) -> tuple[float, float, FloatArray]:
        drawn = errors(terms, DRAWS)
        wide, high = drawn.std(axis=1).tolist()
        one = drawn[0] / wide if wide else drawn[0]
        other = drawn[1] / high if high else drawn[1]
        angles = np.linspace(-math.pi / 2, math.pi / 2, _ANGLES)
        table = [
            float(np.quantile(np.abs(math.cos(angle) * one - math.sin(angle) * other), self.confidence))
            for angle in angles
        ]
        return wide, high, np.array(table)
