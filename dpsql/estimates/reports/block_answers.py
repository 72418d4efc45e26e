"""Answers of one system of blocks: the numbers of a wanted marginal, their variances and the noises in them.

A number is a product of weights of the atoms of each column. It is the sum, over the sets of columns on which
its weights differ within classes, of what the block of the set tells. Numbers that differ within classes
alone have errors of one law, so that the noises are found once for each kind of number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.noise_quantiles import NoiseTerm, gaussian_half_width, quantiles
from dpsql.estimates.noise_terms import TermWeights, half_width
from dpsql.estimates.reports.column_atoms import AxisMap, Bools, FloatArray, Ints
from dpsql.estimates.reports.marginal_blocks import BlockSystem, MeasuredMarginal, kron, list_subsets
from dpsql.lazy_dataclass import dataclass

_EXACT = 8
"""Of so many Laplace noises the exact law is used."""
_FIGURES = 5
"""Errors whose weights agree to so many decimals of the standard deviation have one half-width."""
_LEAST = 1e-4
"""A noise with less than this part of the standard deviation is left to the normal one."""


@dataclass(frozen=True, slots=True, eq=False)
class BoxTerm:
    """What one draw of box or cube noise is in several errors."""

    law: Law
    """The law of the draw."""
    weights: FloatArray
    """float64[errors, numbers], of noise of scale 1."""
    variance: FloatArray
    """float64[errors]."""


@dataclass(frozen=True, slots=True, eq=False)
class ErrorTerms:
    """Errors of several estimates, each a sum of independent noises.

    Of each error the eight Laplace noises with the largest weights have their exact law; the rest, and
    Gaussian noise, are one normal noise of their variance. Box noise has its law where most of the variance
    is its own, else it is normal too.
    """

    laplace: FloatArray
    """float64[errors, at most 8]: scales of Laplace noises."""
    normal: FloatArray
    """float64[errors]: the variance of what is normal."""
    boxes: tuple[BoxTerm, ...]
    """The draws of box and cube noise."""
    grid: FloatArray
    """float64[errors]: by how much the grids of the noises can move an error."""

    @classmethod
    def add(cls, terms: Sequence[ErrorTerms]) -> ErrorTerms:
        """Return the errors of the sums of several independent estimates."""
        laplace, rest = keep_largest(np.concatenate([each.laplace for each in terms], axis=1))
        normal = rest + sum(each.normal for each in terms)
        boxes = tuple(box for each in terms for box in each.boxes)
        return cls(laplace, normal, boxes, np.asarray(sum(each.grid for each in terms)))

    @classmethod
    def join(cls, terms: Sequence[ErrorTerms]) -> ErrorTerms:
        """Concatenate the errors of several lists of estimates that share their draws of noise."""
        boxes = tuple(
            BoxTerm(
                same[0].law,
                np.concatenate([box.weights for box in same]),
                np.concatenate([box.variance for box in same]),
            )
            for same in zip(*(each.boxes for each in terms), strict=True)
        )
        joined = [
            np.concatenate([getattr(each, name) for each in terms]) for name in ("laplace", "normal", "grid")
        ]
        return cls(joined[0], joined[1], boxes, joined[2])

    def take(self, errors: Ints) -> ErrorTerms:
        """Return the error terms of some of the numbers."""
        boxes = tuple(BoxTerm(box.law, box.weights[errors], box.variance[errors]) for box in self.boxes)
        return ErrorTerms(self.laplace[errors], self.normal[errors], boxes, self.grid[errors])

    def only(self, there: Bools) -> ErrorTerms:
        """Return the errors with those set to zero where the mask is False."""
        boxes = tuple(
            BoxTerm(box.law, box.weights * there[:, None], box.variance * there) for box in self.boxes
        )
        return ErrorTerms(self.laplace * there[:, None], self.normal * there, boxes, self.grid * there)

    def half_widths(self, level: float) -> FloatArray:
        """Return half the width of an interval around each estimate, float64[errors]."""
        boxed = np.asarray(sum((box.variance for box in self.boxes), np.zeros(len(self.normal))))
        variance = 2 * np.square(self.laplace).sum(axis=1) + self.normal + boxed
        deviation = np.sqrt(variance)
        alike = np.where(deviation > 0, deviation, 1.0)[:, None]
        shape = np.round(np.sort(np.abs(self.laplace) / alike, axis=1), _FIGURES)
        found = np.zeros(len(deviation))
        for error in np.flatnonzero(deviation):
            if boxed[error] > variance[error] / 2:
                found[error] = self._find_half_width(int(error), level)
            else:
                terms = tuple(each for each in shape[error].tolist() if each >= _LEAST)
                found[error] = deviation[error] * _unit_half_width(terms, level)
        return found + self.grid

    def _find_half_width(self, error: int, level: float) -> float:
        """Return the half-width of one error, whose box noise has its own law."""
        sources: list[NoiseDraw] = []
        weights: list[float] = []
        for scale in self.laplace[error].tolist():
            sources.append(NoiseDraw(Law("laplace"), 1.0))
            weights.append(scale)
        sources.append(NoiseDraw(Law("gaussian"), 1.0))
        weights.append(math.sqrt(float(self.normal[error])))
        for box in self.boxes:
            row = box.weights[error]
            there = np.flatnonzero(np.abs(row) > _LEAST * np.abs(row).max(initial=0.0))
            sources.extend([NoiseDraw(box.law, 1.0)] * len(there))
            weights.extend(row[there].tolist())
        return half_width(TermWeights(tuple(sources), np.array([weights])), level)


@lru_cache(maxsize=8192)
def _unit_half_width(scales: tuple[float, ...], level: float) -> float:
    """Return the half-width of an error of variance 1: Laplace noises of these scales and a normal rest."""
    normal = max(0.0, 1 - 2 * math.fsum(each * each for each in scales))
    if not scales:
        return gaussian_half_width(1.0, level)
    if len(scales) == 1 and normal <= _LEAST:
        return -math.log1p(-level) / math.sqrt(2)
    terms = tuple(NoiseTerm(True, each) for each in scales)
    return quantiles(terms, (1 - level) / 2, normal)[1]


def keep_largest(scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest scales of Laplace noises in each row, and the variance of the others.

    >>> kept, rest = keep_largest(np.array([[3.0, 1, 1, 1, 1, 1, 1, 1, 1, 1]]))
    >>> kept.shape, rest.tolist()
    ((1, 8), [4.0])
    """
    sizes = np.abs(scales)
    if sizes.shape[1] <= _EXACT:
        return sizes, np.zeros(len(sizes))
    sizes = np.partition(sizes, sizes.shape[1] - _EXACT, axis=1)
    return sizes[:, -_EXACT:], 2 * np.square(sizes[:, :-_EXACT]).sum(axis=1)


_NUMBERS = 4_000_000
"""Weights that are held at once."""
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class BlockAnswer:
    """The numbers of a marginal, in the order of a system's columns."""

    values: FloatArray
    variances: FloatArray
    """float64[rows of each column]."""
    determined: Bools
    """Whether each number follows from what was released."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What one block adds: its solutions for the kinds of rows of the columns that are summed over."""

    inside: tuple[int, ...]
    others: tuple[int, ...]
    solutions: FloatArray
    """float64[product of the kinds, classes]."""


class AnswerParts:
    """A wanted marginal, given by an axis on each column of a system."""

    def __init__(self, system: BlockSystem, maps: Sequence[AxisMap]) -> None:
        self.system, self.maps = system, tuple(maps)
        self.norms = [c.inside_norms(m) for c, m in zip(system.columns, maps, strict=True)]
        self.kinds = tuple(len(m.between) for m in maps)
        self._parts: list[_Part] = []

    def answer(self) -> BlockAnswer:
        """Compute the numbers of the wanted marginal and their variances, block by block."""
        shape = tuple(axis.rows for axis in self.maps)
        values, variances = np.zeros(shape), np.zeros(shape)
        determined = np.ones(shape, dtype=np.bool_)
        able = [i for i, norms in enumerate(self.norms) if norms.max(initial=0.0) > _NOTHING]
        self._parts = []
        for inside in list_subsets(able):
            block = self.system.block(inside)
            others = tuple(i for i in range(len(self.maps)) if i not in inside)
            norms = self._spread(
                kron([self.norms[i][None] for i in inside])[0], inside, others, np.ones(self._count(others))
            )
            if block is None:
                determined &= norms <= _NOTHING
                continue
            rows = kron([self.maps[i].between for i in others])
            solutions, found = block.solver.solve(rows)
            self._parts.append(_Part(inside, others, solutions))
            ones = np.ones(self._count_rows(inside))
            determined &= (self._spread(ones, inside, others, found.astype(np.float64)) > 0) | (
                norms <= _NOTHING
            )
            variances += norms * self._spread(ones, inside, others, (rows * solutions).sum(axis=1))
            right = block.right @ solutions.T
            for dimension, place in enumerate(inside):
                right = self._weigh(right, dimension, place)
            values += self._arrange(right.reshape(-1, len(solutions)), inside, others)
        return BlockAnswer(values, variances, determined)

    def _count(self, places: Sequence[int]) -> int:
        return math.prod(self.kinds[i] for i in places)

    def _count_rows(self, places: Sequence[int]) -> int:
        return math.prod(self.maps[i].rows for i in places)

    def _weigh(self, tensor: FloatArray, dimension: int, place: int) -> FloatArray:
        """Return sums over deviations, weighed by the rows of a column, along a dimension of its atoms."""
        axis = self.maps[place]
        if axis.order is not None:
            return np.take(tensor, axis.order, axis=dimension)
        weights = self.system.columns[place].inside_rows(axis, np.arange(axis.rows))
        return np.moveaxis(np.tensordot(tensor, weights, (dimension, 1)), -1, dimension)

    def _spread(
        self, rows: FloatArray, inside: Sequence[int], others: Sequence[int], kinds: FloatArray
    ) -> FloatArray:
        """Return products of a number for the rows of some columns and one for the kinds of the others."""
        return self._arrange(np.outer(rows, kinds), inside, others)

    def _arrange(self, matrix: FloatArray, inside: Sequence[int], others: Sequence[int]) -> FloatArray:
        """Return float64[rows of some columns, kinds of the others] as a tensor over all rows."""
        tensor = matrix.reshape([self.maps[i].rows for i in inside] + [self.kinds[i] for i in others])
        for dimension, place in enumerate(others, len(inside)):
            tensor = np.take(tensor, self.maps[place].kind, axis=dimension)
        now = [*inside, *others]
        return tensor.transpose([now.index(i) for i in range(len(self.maps))])

    def error_kind(self) -> Ints:
        """Return for each number of the marginal the index of its error in `errors`."""
        found = np.zeros((1,) * len(self.maps), dtype=np.intp)
        for place, axis in enumerate(self.maps):
            kind = axis.kind.reshape([-1 if i == place else 1 for i in range(len(self.maps))])
            found = found * self.kinds[place] + kind
        return np.broadcast_to(found, tuple(axis.rows for axis in self.maps))

    def errors(self, wanted: Ints) -> ErrorTerms:
        """Return the noises in the errors of some kinds of numbers, after `answer`."""
        step = max(
            1, _NUMBERS // max((each.released.marginal.size for each in self.system.measured), default=1)
        )
        return ErrorTerms.join([self._errors(wanted[i : i + step]) for i in range(0, len(wanted), step)])

    def _errors(self, wanted: Ints) -> ErrorTerms:
        kinds = np.unravel_index(wanted, self.kinds) if self.kinds else ()
        largest, rest = np.zeros((len(wanted), 0)), np.zeros(len(wanted))
        normal, grid = np.zeros(len(wanted)), np.zeros(len(wanted))
        sums: dict[int, FloatArray] = {}
        boxes: dict[int, list[FloatArray]] = {}
        for each, weights in self.weights(kinds):
            draw = self.system.draws[each.draw]
            grid = np.maximum(grid, np.abs(weights).max(axis=1) * each.released.draw.grid / each.scale)
            if draw.law.kind == "laplace":
                largest, more = keep_largest(np.concatenate([largest, weights], axis=1))
                rest = rest + more
            elif draw.law.kind == "gaussian":
                normal = normal + draw.own * np.square(weights).sum(axis=1)
                sums[each.draw] = sums.get(each.draw, 0.0) + weights.sum(axis=1)
            else:
                boxes.setdefault(each.draw, []).append(weights)
        for draw_place, total in sums.items():
            normal = normal + self.system.draws[draw_place].shared * np.square(total)
        terms = []
        for draw_place, parts in boxes.items():
            draw, joined = self.system.draws[draw_place], np.concatenate(parts, axis=1)
            own, total = np.square(joined).sum(axis=1), joined.sum(axis=1)
            terms.append(BoxTerm(draw.law, joined, draw.own * own + draw.shared * np.square(total)))
        return ErrorTerms(largest, rest + normal, tuple(terms), grid)

    def weights(self, kinds: Sequence[Ints]) -> Iterator[tuple[MeasuredMarginal, FloatArray]]:
        """Yield for each release the weights of its noises of scale 1 in errors, float64[errors, numbers].

        `kinds` are the kinds of row of each error on each column.
        """
        columns = self.system.columns
        within = [c.inside_rows(m, m.first_rows()) for c, m in zip(columns, self.maps, strict=True)]
        solved = []
        for part in self._parts:
            place = np.zeros(len(kinds[0]) if kinds else 1, dtype=np.intp)
            for i in part.others:
                place = place * self.kinds[i] + kinds[i]
            solved.append((part, part.solutions[place]))
        shared: dict[int, FloatArray] = {}
        for draw, law in enumerate(self.system.draws):
            if law.shared:
                sums = sum(
                    kron([axis.total()[None] for axis in each.maps])[0] / each.scale
                    for each in self.system.measured
                    if each.draw == draw
                )
                base = next(found for part, found in solved if not part.inside)
                shared[draw] = law.factor * (base @ np.asarray(sums))
        for each in self.system.measured:
            own = self.system.draws[each.draw].own
            total = np.zeros((len(kinds[0]) if kinds else 1, *each.released.marginal.shape))
            for part, found in solved:
                if each.inside.issuperset(part.inside):
                    total += self._weigh_release(each, part, found, within, kinds) / (own * each.scale)
            flat = total.reshape(len(total), -1)
            yield each, flat - shared[each.draw][:, None] if each.draw in shared else flat

    def all_weights(self) -> Iterator[tuple[MeasuredMarginal, FloatArray]]:
        """Yield for each release the weights of its numbers in each wanted number."""
        maps = [AxisMap(m.order, m.between[m.kind], np.arange(m.rows), m.inside) for m in self.maps]
        apart = AnswerParts(self.system, maps)
        apart.answer()
        places = np.unravel_index(np.arange(math.prod(apart.kinds)), apart.kinds) if maps else ()
        for each, weights in apart.weights(places):
            yield each, weights / each.scale

    def _weigh_release(
        self,
        each: MeasuredMarginal,
        part: _Part,
        found: FloatArray,
        within: Sequence[FloatArray],
        kinds: Sequence[Ints],
    ) -> FloatArray:
        """Return A x of one release for the solutions of one block, float64[errors, rows of each axis]."""
        tensor = found.reshape(len(found), *(self.system.columns[i].size for i in part.others))
        named: list[int] = []
        for place in part.others:
            axis = each.maps[place]
            tensor = np.tensordot(tensor, axis.between, (1, 1))
            if place in each.places:
                tensor = np.take(tensor, axis.kind, axis=-1)
                named.append(place)
            else:
                tensor = tensor[..., 0]
        for place in part.inside:
            order = each.maps[place].order
            rows = within[place][kinds[place]][:, order]
            tensor = tensor[..., None] * rows.reshape(len(rows), *[1] * (tensor.ndim - 1), -1)
            named.append(place)
        return tensor.transpose([0, *(1 + named.index(i) for i in each.places)])
