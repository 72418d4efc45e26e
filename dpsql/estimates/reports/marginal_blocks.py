"""Least squares over the cells of several columns by blocks, one for each set of columns: no cell is listed.

Of each column, cells are sums over classes of atoms, or deviations within classes (see `column_atoms`). For
a set s of columns let u_s be the part of the cells that deviates on the columns of s and is summed over
classes on all others. A marginal that has all atoms of the columns of s tells u_s with a Kronecker product of
small matrices on the other columns, alike for each deviation; every other marginal tells nothing of it. So
the normal equations fall apart into one small system for each s, with one right side for each deviation:

    M_s = sum of (1/a) (gram of A_1) x (gram of A_2) x ..,   over the columns outside of s.

Noise that numbers of a draw share, with covariance a I + b 11', has the inverse (I - b/(a + b K) 11')/a for K
numbers. Deviations add up to 0, so that its second part changes M_s for the empty set alone.

M_s is singular where nobody measured enough. Its pseudo-inverse on its row space comes from the inverse of
M_s + delta, by residuals; a row outside of the row space keeps its residual, by which it is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from dpsql.estimates.box_law import cube_variance, own_variance, reference_variance
from dpsql.estimates.noise_laws import Law
from dpsql.estimates.reports.column_atoms import AxisMap, Bools, ColumnClasses, FloatArray, Ints
from dpsql.estimates.reports.marginals import ReleasedMarginal
from dpsql.lazy_dataclass import dataclass

_DELTA = 1e-11
_ROUNDS = 12
_EXACT = 1e-14
TOLERANCE = 1e-7
"""A row of which more than this part is outside of the row space is not determined: where a cell that it
takes in was not measured, that part is not small."""


def find_variances(law: Law) -> tuple[float, float]:
    """Return the variance of a number's own noise and of what all numbers of a draw share, at scale 1.

    >>> find_variances(Law("laplace")), find_variances(Law("gaussian", 3, 0, 0.5))
    ((2.0, 0.0), (1.0, 0.5))
    """
    match law.kind:
        case "laplace":
            return 2.0, 0.0
        case "gaussian":
            return 1.0, law.shared
        case "cube":
            return cube_variance(law.size), 0.0
        case "box":
            return own_variance(law.size + law.pads), reference_variance(law.size, law.pads)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredMarginal:
    """A released marginal over the atoms of a system's columns, in units of its noise's scale."""

    released: ReleasedMarginal
    """What was released."""
    maps: tuple[AxisMap, ...]
    """Its axis on each of the columns; of one that it does not name, the sum."""
    places: tuple[int, ...]
    """For each of its own axes, the column."""
    inside: frozenset[int]
    """The columns of which it tells deviations within classes."""
    draw: int
    """The place of its draw among those of the system."""

    @property
    def scale(self) -> float:
        """The scale of the noise of each number of the marginal."""
        return self.released.draw.scale


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """The noise of one draw at scale 1: covariance own I + shared 11' over a given number of numbers."""

    law: Law
    own: float
    shared: float
    numbers: int

    @property
    def factor(self) -> float:
        """What the inverse covariance has of 11', with a negative sign."""
        return self.shared / (self.own * (self.own + self.shared * self.numbers))


def list_draws(releases: Sequence[ReleasedMarginal]) -> tuple[list[Draw], list[int]]:
    """Return the draws of released marginals, and for each marginal the place of its draw."""
    found: dict[int, list[ReleasedMarginal]] = {}
    for each in releases:
        found.setdefault(id(each.draw.law), []).append(each)
    place = {key: i for i, key in enumerate(found)}
    draws = []
    for members in found.values():
        law = members[0].draw.law
        draws.append(Draw(law, *find_variances(law), sum(each.marginal.size for each in members)))
    return draws, [place[id(each.draw.law)] for each in releases]


def _multiply_grams(grams: Sequence[FloatArray]) -> tuple[Ints, FloatArray]:
    """Return the rows of a Kronecker product that are not 0, and the product of these rows and columns."""
    place: Ints = np.zeros(1, dtype=np.intp)
    parts = []
    for gram in grams:
        there = np.flatnonzero(np.diag(gram))
        place = (place[:, None] * len(gram) + there).ravel()
        parts.append(gram[np.ix_(there, there)])
    return place, kron(parts)


def kron(factors: Sequence[FloatArray]) -> FloatArray:
    """Return the Kronecker product of matrices; of none, 1."""
    found: FloatArray = np.ones((1, 1))
    for factor in factors:
        found = np.asarray(np.kron(found, factor), dtype=np.float64)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    """Solves a positive semidefinite system for rows of its row space.

    >>> rows, determined = Solver.of(np.array([[2.0, 2.0], [2.0, 2.0]])).solve(np.array([[1.0, 1], [1, 0]]))
    >>> rows[0].round(3).tolist(), determined.tolist()
    ([0.25, 0.25], [True, False])
    """

    scaled: FloatArray
    inverse: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray) -> Solver:
        """Return what solves least squares with a matrix, which is factored once."""
        diagonal = np.diag(matrix)
        there = diagonal[diagonal > 0]
        scale = np.sqrt(np.where(diagonal > 0, diagonal, there.min() if len(there) else 1.0))
        scaled = matrix / np.outer(scale, scale)
        size = len(matrix)
        delta = _DELTA * max(1.0, float(np.abs(scaled).sum(axis=1).max()))
        inverse = np.linalg.inv(scaled + delta * np.eye(size))
        return cls(scaled, inverse, scale)

    def solve(self, rows: FloatArray) -> tuple[FloatArray, Bools]:
        """Return for each row g an x with x M = g, float64[rows, size], and whether there is one."""
        wanted = rows / self.scale
        size = np.abs(wanted).max(axis=1, initial=0.0)
        found = np.zeros_like(wanted)
        left = wanted
        error = size
        for _ in range(_ROUNDS):
            more = found + left @ self.inverse
            rest = wanted - more @ self.scaled
            worse = np.abs(rest).max(axis=1, initial=0.0)
            better = worse < error
            if not better.any():
                break
            found = np.where(better[:, None], more, found)
            left = np.where(better[:, None], rest, left)
            done = (worse >= error / 2) | (worse <= _EXACT * size)
            error = np.minimum(error, worse)
            if done.all():
                break
        return found / self.scale, error <= TOLERANCE * size


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The normal equations of the deviations on one set of columns."""

    inside: tuple[int, ...]
    """The columns of the set, in order."""
    solver: Solver
    """Solves M_s."""
    right: FloatArray
    """float64[atoms of each column of the set .., product of the classes of the others]: A' V^-1 y."""


class BlockSystem:
    """The normal equations of some released marginals; a block is made when it is first asked for."""

    def __init__(self, releases: Sequence[ReleasedMarginal], columns: dict[str, ColumnClasses]) -> None:
        self.names = tuple(columns)
        self.columns = tuple(columns.values())
        self.draws, places = list_draws(releases)
        self.measured = [self._measure(each, draw) for each, draw in zip(releases, places, strict=True)]
        self._blocks: dict[tuple[int, ...], Block | None] = {}

    def _measure(self, released: ReleasedMarginal, draw: int) -> MeasuredMarginal:
        maps = [column.map_sum() for column in self.columns]
        places, inside = [], set()
        for axis in released.marginal.axes:
            place = self.names.index(axis.column)
            places.append(place)
            maps[place], _ = self.columns[place].map_axis(axis)
            if maps[place].order is not None and self.columns[place].size < self.columns[place].atoms.size:
                inside.add(place)
        return MeasuredMarginal(released, tuple(maps), tuple(places), frozenset(inside), draw)

    def unknowns(self) -> int:
        """Return the number of unknowns in all blocks of which some release tells."""
        sets = {part for each in self.measured for part in list_subsets(sorted(each.inside))}
        return sum(self._deviations(part) * self._sums(part) for part in sets)

    def _deviations(self, inside: Sequence[int]) -> int:
        return math.prod(self.columns[i].atoms.size - self.columns[i].size for i in inside)

    def _sums(self, inside: Sequence[int]) -> int:
        return math.prod(column.size for i, column in enumerate(self.columns) if i not in inside)

    def largest_system(self) -> int:
        """Return the size of the largest matrix that is inverted."""
        return self._sums(())

    def block(self, inside: tuple[int, ...]) -> Block | None:
        """Return the equations of the deviations on some columns; None if no release tells of them."""
        if inside not in self._blocks:
            members = [each for each in self.measured if each.inside.issuperset(inside)]
            self._blocks[inside] = self._make_block(inside, members) if members else None
        return self._blocks[inside]

    def _make_block(self, inside: tuple[int, ...], members: Sequence[MeasuredMarginal]) -> Block:
        others = [i for i in range(len(self.columns)) if i not in inside]
        size = self._sums(inside)
        matrix = np.zeros((size, size))
        right = np.zeros((*(self.columns[i].atoms.size for i in inside), size))
        sums = np.zeros((len(self.draws), size))
        values = np.zeros(len(self.draws))
        for each in members:
            own = self.draws[each.draw].own
            place, gram = _multiply_grams([each.maps[i].gram() for i in others])
            matrix[np.ix_(place, place)] += gram / (own * each.scale**2)
            right += self._project(each, inside, others) / own
            if not inside and self.draws[each.draw].shared:
                sums[each.draw] += kron([each.maps[i].total()[None] for i in others])[0] / each.scale
                values[each.draw] += float(each.released.tensor().sum()) / each.scale
        for draw, row, value in zip(self.draws, sums, values, strict=True):
            if not inside and draw.shared:
                matrix -= draw.factor * np.outer(row, row)
                right -= draw.factor * value * row
        return Block(inside, Solver.of(matrix), right)

    def _project(self, each: MeasuredMarginal, inside: tuple[int, ...], others: Sequence[int]) -> FloatArray:
        """Return A' y of one release: deviations on some columns, weighed sums over classes on the others."""
        tensor = each.released.tensor() / each.scale**2
        for dimension, place in enumerate(each.places):
            axis, column = each.maps[place], self.columns[place]
            if place in inside:
                ordered = np.zeros((column.atoms.size, *np.delete(tensor.shape, dimension)))
                ordered[axis.order] = np.moveaxis(tensor, dimension, 0)
                tensor = column.center(np.moveaxis(ordered, 0, dimension), dimension)
            else:
                weights = axis.between[axis.kind]
                tensor = np.moveaxis(np.tensordot(tensor, weights, (dimension, 0)), -1, dimension)
        return self._arrange(tensor, each.places, inside, others)

    def _arrange(
        self, tensor: FloatArray, places: Sequence[int], inside: tuple[int, ...], others: Sequence[int]
    ) -> FloatArray:
        """Return a tensor over some columns as one over all: those inside first, the others as one."""
        missing = [i for i in range(len(self.columns)) if i not in places]
        tensor = tensor.reshape(tensor.shape + (1,) * len(missing))
        for dimension, place in enumerate(missing, tensor.ndim - len(missing)):
            tensor = np.repeat(tensor, self.columns[place].size, axis=dimension)
        now = [*places, *missing]
        tensor = tensor.transpose([now.index(i) for i in (*inside, *others)])
        return tensor.reshape((*tensor.shape[: len(inside)], -1))


def list_subsets(members: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the subsets of some columns, the empty one first."""
    for size in range(len(members) + 1):
        yield from combinations(members, size)
