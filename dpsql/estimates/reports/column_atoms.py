"""The atoms of a column: the finest sets of its values that several axes tell apart, and classes of atoms.

A domain of any size has as many atoms as the sets in use tell apart. Most axes of a column are one of two:
its values, each by itself, or none, where the column is summed over. The sets of all other axes are unions of
classes of atoms. Numbers split accordingly into sums over classes, and deviations within classes, of which
only axes with all values tell something. Rows without a value of the list are a class of their own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.reports.marginals import Axis
from dpsql.estimates.value_sets import AFTER_ALL, BEFORE_ALL, Cut, ValueSet
from dpsql.lazy_dataclass import dataclass

FloatArray = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnAtoms:
    """The finest sets of values that some sets tell apart, within the values that rows may have.

    >>> atoms = ColumnAtoms.of([ValueSet.of_range(0, 10), ValueSet.of_range(5, None)], ValueSet.everything())
    >>> atoms.size, atoms.locate([ValueSet.of_range(0, 5), ValueSet.of_range(3, 5)])[0].sum(axis=1).tolist()
    (4, [1, 0])
    """

    cuts: tuple[Cut, ...]
    """All ends of intervals of the sets; between them lie pieces, and NULL is one more."""
    atom: Ints
    """The atom of each piece; -1: no row has such a value."""
    size: int
    universe: ValueSet

    @classmethod
    def of(cls, sets: Iterable[ValueSet], universe: ValueSet) -> ColumnAtoms:
        """Return the atoms that some sets of values of a column consist of."""
        listed = list(dict.fromkeys(sets))
        cuts = tuple(sorted(_ends(listed)))
        inside = np.flatnonzero(_find_pieces_with_rows(universe, cuts))
        packed = np.packbits(_find_pieces(listed, cuts)[:, inside].T, axis=1)
        _, first, found = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.intp)
        rank[np.argsort(first)] = np.arange(len(first))
        atom: Ints = np.full(len(cuts) + 2, -1, dtype=np.intp)
        atom[inside] = rank[found.ravel()]
        return cls(cuts, atom, len(first), universe)

    def locate(self, rows: Sequence[ValueSet]) -> tuple[Bools, Bools]:
        """Return which atoms each set holds whole, bool[sets, atoms], and which sets cut through an atom."""
        cuts, atom = self.cuts, self.atom
        more = _ends(rows).difference(cuts)
        if more:
            # Pieces are divided at the ends of these sets; a part without a value that rows have is none.
            cuts = tuple(sorted(more.union(cuts)))
            piece = [bisect_left(self.cuts, cut) for cut in cuts]
            atom = np.append(atom[piece], atom[-2:])
            atom[~_find_pieces_with_rows(self.universe, cuts)] = -1
        held = _find_pieces(rows, cuts)
        there = np.flatnonzero(atom >= 0)
        order = there[np.argsort(atom[there], kind="stable")]
        starts = np.searchsorted(atom[order], np.arange(self.size))
        whole = np.logical_and.reduceat(held[:, order], starts, axis=1)
        some = np.logical_or.reduceat(held[:, order], starts, axis=1)
        return whole, np.asarray((whole != some).any(axis=1))


def _ends(sets: Iterable[ValueSet]) -> set[Cut]:
    return {cut for each in sets for cut in each.cuts()} - {BEFORE_ALL, AFTER_ALL}


def _find_pieces(sets: Sequence[ValueSet], cuts: tuple[Cut, ...]) -> Bools:
    """Return which pieces between cuts lie in each set, whose own ends are among the cuts."""
    held = np.zeros((len(sets), len(cuts) + 2), dtype=np.bool_)
    for row, each in enumerate(sets):
        held[row, -1] = each.null
        for low, high in each.intervals:
            start = 0 if low == BEFORE_ALL else bisect_left(cuts, low) + 1
            stop = len(cuts) if high == AFTER_ALL else bisect_left(cuts, high)
            held[row, start : stop + 1] = True
    return held


def _find_pieces_with_rows(universe: ValueSet, cuts: tuple[Cut, ...]) -> Bools:
    """Return which pieces between cuts have a value of a set."""
    ends = [BEFORE_ALL, *cuts, AFTER_ALL]
    found = np.zeros(len(cuts) + 2, dtype=np.bool_)
    found[-1] = universe.null
    for piece, (low, high) in enumerate(pairwise(ends)):
        place = bisect_right(universe.intervals, low, key=lambda interval: interval[1])
        found[piece] = place < len(universe.intervals) and universe.intervals[place][0] < high
    return found


@dataclass(frozen=True, slots=True, eq=False)
class AxisMap:
    """An axis over the atoms of a column: what it says of sums over classes, and within classes."""

    order: Ints | None
    """Of an axis with all values, each by itself, the atom of each row."""
    between: FloatArray
    """float64[kinds, classes]: the weights of the classes' sums in a row of each kind."""
    kind: Ints
    """The kind of each row: rows of a kind differ within classes alone."""
    inside: FloatArray | None = None
    """float64[rows, atoms]: weights of deviations within classes; None: `order` tells, or there are none."""

    @property
    def rows(self) -> int:
        """How many rows the matrix from atoms to sets of the axis has."""
        return len(self.kind)

    def gram(self) -> FloatArray:
        """Return the products of the weights of two classes, summed over rows, float64[classes, classes]."""
        counts = np.bincount(self.kind, minlength=len(self.between)).astype(np.float64)
        return np.asarray((self.between.T * counts) @ self.between)

    def total(self) -> FloatArray:
        """Return the sum over all rows of the weights of the classes, float64[classes]."""
        counts = np.bincount(self.kind, minlength=len(self.between)).astype(np.float64)
        return np.asarray(counts @ self.between)

    def first_rows(self) -> Ints:
        """Return the first row of each kind of rows that are equal."""
        return np.unique(self.kind, return_index=True)[1]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnClasses:
    """The classes of a column's atoms under the axes of several marginals, and each axis over them."""

    atoms: ColumnAtoms
    """The atoms."""
    place: Ints
    """The class of each atom."""
    sizes: FloatArray
    """How many atoms each class has."""
    values: Bools
    """bool[atoms]: the atoms that the axes with all values list."""
    maps: dict[Axis, tuple[AxisMap, Bools]]
    """The axes that were mapped before."""

    @classmethod
    def of(cls, axes: Sequence[Axis], universe: ValueSet) -> ColumnClasses:
        """Return the classes that axes have in common but those with all values."""
        atoms = ColumnAtoms.of((row for axis in axes for row in axis.rows), universe)
        found = [atoms.locate(axis.rows)[0] for axis in axes]
        lists = [np.asarray(rows.any(axis=0)) for rows in found if _order_of(rows) is not None]
        values: Bools = np.zeros(atoms.size, dtype=np.bool_)
        for each in lists:
            values = each if each.sum() > values.sum() else values
        coarse = [rows for rows in found if _order_of(rows, values) is None]
        packed = np.packbits(np.concatenate([values[None], *coarse]).T, axis=1)
        _, place = np.unique(packed, axis=0, return_inverse=True)
        place = place.ravel()
        return cls(atoms, place, np.bincount(place).astype(np.float64), values, {})

    @property
    def size(self) -> int:
        """How many classes of atoms the column has."""
        return len(self.sizes)

    def map_sum(self) -> AxisMap:
        """Return the axis of a marginal that sums over the column."""
        return AxisMap(None, np.ones((1, self.size)), np.zeros(1, dtype=np.intp))

    def map_axis(self, axis: Axis) -> tuple[AxisMap, Bools]:
        """Return an axis over the atoms, and which of its rows cut through an atom."""
        if axis not in self.maps:
            self.maps[axis] = self._map_axis(axis)
        return self.maps[axis]

    def _map_axis(self, axis: Axis) -> tuple[AxisMap, Bools]:
        rows, cut = self.atoms.locate(axis.rows)
        order = None if cut.any() else _order_of(rows, self.values)
        if order is not None:
            listed, kind = np.unique(self.place[order], return_inverse=True)
            return AxisMap(order, np.diag(1 / self.sizes)[listed], kind.ravel()), cut
        sums = np.zeros((len(rows), self.size))
        np.add.at(sums.T, self.place, rows.T.astype(np.float64))
        between = sums / self.sizes
        inside = rows - between[:, self.place]
        within = None if np.abs(inside).max(initial=0) < _NOTHING else inside
        return AxisMap(None, between, np.arange(len(rows)), within), cut

    def center(self, tensor: FloatArray, dimension: int) -> FloatArray:
        """Return deviations from the mean of each class, along a dimension of atoms."""
        moved = np.moveaxis(tensor, dimension, -1)
        sums = np.zeros((*moved.shape[:-1], self.size))
        np.add.at(np.moveaxis(sums, -1, 0), self.place, np.moveaxis(moved, -1, 0))
        return np.moveaxis(moved - (sums / self.sizes)[..., self.place], -1, dimension)

    def inside_rows(self, axis: AxisMap, rows: Ints) -> FloatArray:
        """Return the weights of deviations within classes in some rows, float64[rows, atoms]."""
        if axis.order is None:
            return np.zeros((len(rows), len(self.place))) if axis.inside is None else axis.inside[rows]
        found = np.zeros((len(rows), len(self.place)))
        atoms = axis.order[rows]
        found[np.arange(len(rows)), atoms] = 1.0
        classes = self.place[atoms]
        same = self.place[None, :] == classes[:, None]
        return np.asarray(found - same / self.sizes[classes][:, None])

    def inside_norms(self, axis: AxisMap) -> FloatArray:
        """Return the sum of squares of each row of `inside_rows`."""
        if axis.order is not None:
            return 1 - 1 / self.sizes[self.place[axis.order]]
        return np.zeros(axis.rows) if axis.inside is None else np.square(axis.inside).sum(axis=1)


_NOTHING = 1e-12


def _order_of(rows: Bools, values: Bools | None = None) -> Ints | None:
    """Return the atom of each row where the rows are atoms, each by itself: if given, all of these."""
    if not (rows.sum(axis=1) == 1).all() or rows.sum(axis=0).max() > 1:
        return None
    if values is not None and (rows.any(axis=0) != values).any():
        return None
    return np.asarray(rows.argmax(axis=1), dtype=np.intp)
