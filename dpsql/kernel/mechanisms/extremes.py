"""Values near the largest and the smallest, which several units reach, on a public grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import BoundedRange, Number, PrivacyLoss
from dpsql.kernel.mechanisms.arguments import positive, whole
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.kernel.mechanisms.histogram import (
    MOST_CELLS,
    Histogram,
    Histograms,
    Ramps,
    given,
    level,
    most_rows,
)
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result

_BEYOND = 20
"""The cell is beyond the largest value of all units with a probability of at most 1 in this."""


@dataclass(frozen=True, eq=False, slots=True)
class Extremes(Result["Extreme"]):
    """The cells chosen, int64: one, of shape (1,), or a row with one a group."""

    cell: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extreme(Mechanism[Extremes]):
    """Chooses a cell of a public grid that about `units` units reach: near the largest value of a group.

    Each unit counts once in a group, in the cell of its own largest value; with `lowest`, of its smallest.

    Attributes
    ----------
    cells
        Number of cells of the grid.
    scale
        In units: 2 m/epsilon, m the number of groups that one unit may be in.
    units
        How many units are to reach the cell.
    lowest
        Whether the smallest value is asked for.

    Notes
    -----
    Let n(>=g) be the units whose largest cell is g or above, and n(>g) those above. The distance of a cell is
    how far `units` lies outside of the two, d(g) = max(0, n(>g) - units, units - n(>=g)), and its probability
    is proportional to e^(-d/scale). Of many units with one largest value, that value is best, even if far
    more units have it. *Private:* a unit more moves both numbers by 0 or 1, the distance by at most 1, up or
    down, and so a probability by a factor of at most e^(2/scale); it is in at most m groups, and the factors
    multiply to at most e^(2 m/scale) = e^epsilon. The change of the sum of a group's probabilities is the
    same for all cells, so all log-ratios lie in an interval of length epsilon: the range is bounded by it. A
    cell's units are cut at a public bound, at least 2^41, so that integers do not overflow.

    *Beyond the largest value* d(g) is `units`. With at least so many units some cell has a distance of 0, and
    all cells beyond have at most `cells` e^(-units/scale) of its probability together. `units` is the least
    number for which this is at most 1/20.

    *Order:* the law depends on the grid, which is public, and on which group is which.
    """

    cells: int
    scale: Fraction
    units: int
    lowest: bool

    @classmethod
    def plan(cls, cells: int, epsilon: Number, *, lowest: bool = False, groups_per_unit: int = 1) -> Extreme:
        """Plan the choice of a cell for each of a public number of groups.

        >>> Extreme.plan(1 << 16, 1).units
        29
        """
        budget, m = positive(epsilon, "epsilon"), whole(groups_per_unit, "groups_per_unit")
        if whole(cells, "cells") > MOST_CELLS:
            raise ValueError("a grid has at most 2^20 cells")
        scale = 2 * m / budget
        exact_noise.rate(scale, 0)
        units = max(1, math.ceil(float(scale) * math.log(_BEYOND * cells)))
        return cls(cells, scale, units, lowest, loss=PrivacyLoss((BoundedRange(budget),)))

    def most_units(self, confidence: Fraction) -> float:
        """Predict how many units reach the cell at most; at least 1 does, except in one run of 20."""
        return self.units + float(self.scale) * math.log(self.cells / (1 - confidence))

    def covers(self, taken: Taken) -> bool:
        """See `Mechanism`: a unit is in one cell of each of m groups."""
        units = taken.low == 0 and taken.high <= 1
        return units and 2 * taken.total <= (self.loss.epsilon or 0) * self.scale

    def run(self, counts: Histograms | ArrayLike, source: NoiseSource = SYSTEM) -> Extremes:
        """Choose a cell for each group, or for an array with a number of units for every cell."""
        histograms = given(counts, self.cells)
        cell = np.zeros((sum(len(rows) for _, rows in histograms), 1), dtype=np.int64)
        for histogram, which in histograms:
            ramps = near_reach(histogram, self.units, self.cells, lowest=self.lowest)
            cell[which, 0] = ramps.pick(self.scale, len(which), source.bits)
        one = not isinstance(counts, Histograms) and np.ndim(counts) == 1
        return Extremes(self, cell[0] if one else cell)


def near_reach(histogram: Histogram, units: int, cells: int, *, lowest: bool) -> Ramps:
    """Return the distances of all cells from being reached by so many units, as in `Extreme`."""
    number, cell = histogram.capped(most_rows(cells, 1)), histogram.cell
    reach = np.append(0, np.cumsum(number)) if lowest else np.append(np.cumsum(number[::-1])[::-1], 0)
    beyond, up_to = np.minimum(reach[:-1], reach[1:]), np.maximum(reach[:-1], reach[1:])
    inside = np.maximum(0, np.maximum(beyond - units, units - up_to))
    start = np.append(0, cell + 1)
    gaps = np.append(cell, cells) - start
    return level(
        np.concatenate([cell, start]),
        np.concatenate([np.ones_like(cell), gaps]),
        np.concatenate([inside, np.abs(reach - units)]),
    )
