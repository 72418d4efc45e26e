"""Sample groups, or cells of a public grid, with probability proportional to e^(-rate x distance), exactly.

It takes as long for millions of groups, and any number of cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.mechanisms.mechanism import as_counts
from dpsql.lazy_dataclass import dataclass

_BITS = 62
_WORD = 64
_GUARD = 32


class Weights:
    """An exact sampler of groups with probability proportional to e^(-rate x distance).

    Parameters
    ----------
    distance
        int64, one for each group, not empty: its distance below the maximum, in grid steps. Not negative;
        the smallest is 0.
    rate
        Positive rational.
    copies
        int64: how many groups each entry stands for; they are below 2^40 in all. 1 by default.
    ascending
        Whether the distances ascend: then they need not be sorted.
    bits
        Binary places of the weights; for tests.

    Notes
    -----
    Rejection from an envelope of integers. Groups are laid out by layers of equal distance but for
    low bits; each layer has an integer c at least 2^bits e^(-rate d) for all d in it, and each of its
    groups a cell of c integers. The last layer takes everything farther away. A uniformly random
    integer among all cells is that of group i, at place v in its cell; i is picked if v + U lies
    below w = 2^bits e^(-rate d_i), U uniform on [0, 1), else all starts again. So each group's part of
    what is accepted is exactly its w. Only v = floor(w) leaves the answer open; then v and w get 64
    more bits, until they differ: w is irrational, or an integer, or there is nothing to decide
    (d_i = 0, c = w). floor(w) is certified by bounds from both sides. No float takes part.

    A layer spans at most a factor e^(1/4), so nearly every try is accepted; what is farther than the
    last layer takes up less than `groups` / 2^bits of the tries.
    """

    def __init__(
        self,
        distance: NDArray[np.int64],
        rate: Fraction,
        *,
        copies: NDArray[np.int64] | None = None,
        ascending: bool = False,
        bits: int | None = None,
    ) -> None:
        groups = len(distance) if copies is None else int(copies.sum())
        self._distance, self._rate = distance, rate
        # All cells together stay below 2^62.
        self._bits = _BITS - groups.bit_length() if bits is None else bits
        shift, ceilings = _envelope(rate, self._bits)
        self._order: NDArray[np.intp] | None = None
        if ascending:
            ends = np.searchsorted(distance, np.arange(1, len(ceilings)) << shift)
            held = np.diff(np.append(ends, len(distance)), prepend=0)
        else:
            layer = np.minimum(distance >> shift, len(ceilings) - 1).astype(np.uint16)
            self._order = np.argsort(layer, kind="stable")
            held = np.bincount(layer, minlength=len(ceilings))
        self._reach: NDArray[np.int64] | None = None
        if copies is not None:
            self._reach = np.cumsum(copies if self._order is None else copies[self._order])
            last = np.cumsum(held)
            held = np.diff(np.append(0, self._reach)[last], prepend=0)
        self._ceiling, self._first = ceilings, np.cumsum(held) - held
        self._end = np.cumsum(held * ceilings)
        self._start = self._end - held * ceilings
        self._total = int(self._end[-1])
        # floor(w) + 1, or 0 if not computed yet: pages of zeros use no memory until written.
        self._known = np.zeros(len(distance), dtype=np.int64)

    def pick(self, size: int, entropy: exact_noise.Entropy) -> NDArray[np.int64]:
        """Sample `size` groups independently; return their positions."""
        picked = np.empty(size, dtype=np.int64)
        open_ = np.arange(size)
        spare = np.uint64(_WORD - self._total.bit_length())
        while len(open_):
            spot = (entropy.words(len(open_)) >> spare).astype(np.int64)
            inside = np.flatnonzero(spot < self._total)
            group, taken = self._read(spot[inside], entropy)
            picked[open_[inside[taken]]] = group[taken]
            open_ = np.delete(open_, inside[taken])
        return picked

    def _read(
        self, spot: NDArray[np.int64], entropy: exact_noise.Entropy
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the group whose cell contains each integer, and whether the group is accepted."""
        layer = np.searchsorted(self._end, spot, side="right")
        place, rest = np.divmod(spot - self._start[layer], self._ceiling[layer])
        at: NDArray[np.int64] = self._first[layer] + place
        group = at if self._reach is None else np.searchsorted(self._reach, at, side="right")
        if self._order is not None:
            group = self._order[group]
        floor = self._floors(group)
        taken: NDArray[np.bool_] = rest < floor
        for i in np.flatnonzero(rest == floor):
            taken[i] = self._extend(int(self._distance[group[i]]), int(rest[i]), entropy)
        return group, taken

    def _floors(self, group: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return floor(w) of the weight w of each group, cached."""
        new = group[self._known[group] == 0]
        if len(new):
            distances, which = np.unique(self._distance[new], return_inverse=True)
            floors = [_floor(self._rate * int(distance), self._bits) for distance in distances]
            self._known[new] = np.array(floors, dtype=np.int64)[which] + 1
        return self._known[group] - 1

    def _extend(self, distance: int, rest: int, entropy: exact_noise.Entropy) -> bool:
        """Decide whether v + U < w for v = floor(w), with as many random bits as needed."""
        bits = self._bits
        while True:
            bits += _WORD
            rest = rest << _WORD | int(entropy.words(1)[0])
            floor = _floor(self._rate * distance, bits)
            if rest != floor:
                return rest < floor


@lru_cache(maxsize=64)
def _envelope(rate: Fraction, bits: int) -> tuple[int, NDArray[np.int64]]:
    """Return the layers: distance >> shift, and an integer at least 2^bits e^(-rate d) for each."""
    shift = max(0, (rate.denominator // (4 * rate.numerator)).bit_length() - 1)
    width = rate * (1 << shift)
    # 0.7 > ln 2: at the last layer the weight is below one unit.
    layers = -(-7 * bits * width.denominator // (10 * width.numerator)) + 1
    places = bits + _GUARD
    step, above = exact_noise.exp_bounds(width, places)[1], 1 << places
    ceilings = [1 << bits]
    for _ in range(layers):
        above = (above * step >> places) + 1
        ceilings.append((above >> _GUARD) + 1)
    envelope = np.array(ceilings, dtype=np.int64)
    envelope.setflags(write=False)
    return shift, envelope


def _floor(x: Fraction, bits: int) -> int:
    """Compute floor(2^bits e^-x) with certified bounds."""
    if x == 0:
        return 1 << bits
    guard = _GUARD
    while True:
        low, high = exact_noise.exp_bounds(x, bits + guard)
        if low >> guard == (high - 1) >> guard:
            return low >> guard
        guard *= 2


def distinct(values: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], NDArray[np.intp]]]:
    """Return each distinct row with the positions of the rows equal to it."""
    if not len(values):
        return []
    if (values == values[0]).all():
        return [(values[0], np.arange(len(values)))]
    rows, which = np.unique(values, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    cuts = np.searchsorted(which.reshape(-1)[order], np.arange(1, len(rows)))
    return list(zip(rows, np.split(order, cuts), strict=True))


MOST_CELLS = 1 << 20
"""Most cells of a grid."""

_LARGEST = 1 << 61


@dataclass(frozen=True, eq=False, slots=True)
class Histograms:
    """The rows of each group in each cell of a grid; cells without rows are left out."""

    groups: int
    """Number of groups; those without rows have no entry."""
    group: NDArray[np.int64]
    cell: NDArray[np.int64]
    number: NDArray[np.int64]
    """int64, an entry each: a group, a cell that has rows of it, and how many. No cell twice in a group."""

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

    def cut_to(self, most: int) -> NDArray[np.int64]:
        """Return the numbers, cut at a public bound: a row more is at most one row more after it."""
        return np.minimum(self.number, most)


def given(counts: Histograms | ArrayLike, cells: int) -> list[tuple[Histogram, NDArray[np.intp]]]:
    """Return each histogram with the rows of the result that it is for.

    An array has a number for every cell, of one run or of trials (trials, cells): each trial is a group.
    """
    if isinstance(counts, Histograms):
        return [(one, np.array([row])) for row, one in enumerate(counts.each())]
    found = []
    for row, trials in distinct(np.atleast_2d(as_counts(counts, cells, trials=True))):
        cell = np.flatnonzero(row > 0)
        found.append((Histogram(cell, row[cell]), trials))
    return found


def most_rows(cells: int, factor: int) -> int:
    """Return the bound of a cell's rows with which `factor` times all rows stays below 2^61."""
    return _LARGEST // (cells * factor)


@dataclass(frozen=True, eq=False, slots=True)
class Ramps:
    """Candidates in sequences, each of equally spaced distances from the best one."""

    start: NDArray[np.int64]
    step: NDArray[np.int64]
    """int64: the first candidate of a sequence, and 1 or -1 for the direction of the others."""
    length: NDArray[np.int64]
    """int64, the number of its candidates."""
    distance: NDArray[np.int64]
    slope: NDArray[np.int64]
    """int64: the distance of the first one, and by how much each is farther than the one before."""

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
