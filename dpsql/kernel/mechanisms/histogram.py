"""Draw a cell of a public grid by the rows of all cells: with the exact law, for any number of cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.mechanisms.arguments import counted
from dpsql.kernel.mechanisms.weights import Weights, distinct

MOST_CELLS = 1 << 20
"""Most cells of a grid."""

_LARGEST = 1 << 61


@dataclass(frozen=True, eq=False, slots=True)
class Histograms:
    """The rows of each group in each cell of a grid; cells without rows are left out.

    Attributes
    ----------
    groups
        Number of groups; those without rows have no entry.
    group, cell, number
        int64, an entry each: a group, a cell that has rows of it, and how many. No cell twice in a group.
    """

    groups: int
    group: NDArray[np.int64]
    cell: NDArray[np.int64]
    number: NDArray[np.int64]

    def each(self) -> Iterator[Histogram]:
        """Return the histogram of each group, in order."""
        order = np.lexsort((self.cell, self.group))
        order = order[self.number[order] > 0]
        ends = np.searchsorted(self.group[order], np.arange(self.groups + 1))
        cell, number = self.cell[order], self.number[order]
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            yield Histogram(cell[first:last], number[first:last])


@dataclass(frozen=True, eq=False, slots=True)
class Histogram:
    """The cells with rows in ascending order, and their numbers of rows."""

    cell: NDArray[np.int64]
    number: NDArray[np.int64]

    def capped(self, most: int) -> NDArray[np.int64]:
        """Return the numbers, cut at a public bound: a row more is at most one row more after it."""
        return np.minimum(self.number, most)


def given(counts: Histograms | ArrayLike, cells: int) -> list[tuple[Histogram, NDArray[np.intp]]]:
    """Return each histogram with the rows of the result that it is for.

    An array has a number for every cell, of one run or of trials (trials, cells): each trial is a group.
    """
    if isinstance(counts, Histograms):
        return [(one, np.array([row])) for row, one in enumerate(counts.each())]
    found = []
    for row, trials in distinct(np.atleast_2d(counted(counts, cells, trials=True))):
        cell = np.flatnonzero(row > 0)
        found.append((Histogram(cell, row[cell]), trials))
    return found


def most_rows(cells: int, factor: int) -> int:
    """Return the bound of a cell's rows with which `factor` times all rows stays below 2^61."""
    return _LARGEST // (cells * factor)


@dataclass(frozen=True, eq=False, slots=True)
class Ramps:
    """Candidates in sequences, each of equally spaced distances from the best one.

    Attributes
    ----------
    start, step
        int64: the first candidate of a sequence, and 1 or -1 for the direction of the others.
    length
        int64, the number of its candidates.
    distance, slope
        int64: the distance of the first one, and by how much each is farther than the one before.
    """

    start: NDArray[np.int64]
    step: NDArray[np.int64]
    length: NDArray[np.int64]
    distance: NDArray[np.int64]
    slope: NDArray[np.int64]

    def pick(self, scale: Fraction, size: int, entropy: exact_noise.Entropy) -> NDArray[np.int64]:
        """Draw candidates independently, with probability proportional to e^(-distance/scale), exactly.

        A sequence is cut into pieces in which distances differ by about the scale. A piece is drawn by
        `Weights` as if all of its candidates had its least distance, one of them uniformly, and that is
        accepted with probability e^(-excess/scale), which is that of geometric noise reaching the excess.
        Otherwise all starts again. So each candidate has its probability, however the pieces are cut.
        """
        row, offset, length = self._pieces(scale)
        distance = self.distance[row] + offset * self.slope[row]
        weights = Weights(distance - distance.min(), 1 / scale, copies=length)
        found = np.empty(size, dtype=np.int64)
        open_ = np.arange(size)
        while len(open_):
            piece = weights.pick(len(open_), entropy)
            place = exact_noise.uniform(length[piece], 1, entropy=entropy)[:, 0]
            ramp = row[piece]
            excess = place * self.slope[ramp]
            taken = excess == 0
            more = np.flatnonzero(~taken)
            if len(more):
                taken[more] = exact_noise.geometric(1 / scale, len(more), entropy=entropy) >= excess[more]
            drawn = self.start[ramp] + self.step[ramp] * (offset[piece] + place)
            found[open_[taken]] = drawn[taken]
            open_ = open_[~taken]
        return found

    def _pieces(self, scale: Fraction) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the sequence of each piece, where it begins in it, and its length."""
        flat = self.slope == 0
        width = np.where(flat, self.length, np.maximum(1, int(scale) // np.where(flat, 1, self.slope)))
        # Far from the best candidate, and far from the best of a sequence, hardly any is drawn.
        far = self.distance > self.distance.min() + 64 * int(scale + 1)
        pieces = np.minimum(-(-self.length // width), np.where(far, 1, 64))
        row = np.repeat(np.arange(len(pieces)), pieces)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        offset = nth * width[row]
        last = nth == pieces[row] - 1
        return row, offset, np.where(last, self.length[row] - offset, width[row])


def level(start: NDArray[np.int64], length: NDArray[np.int64], distance: NDArray[np.int64]) -> Ramps:
    """Return sequences of candidates that all have the same distance; empty ones are left out."""
    kept = length > 0
    start, length, distance = start[kept], length[kept], distance[kept]
    return Ramps(start, np.ones_like(start), length, distance, np.zeros_like(start))
