"""The errors of estimates as sums of independent noises, and the half-widths of intervals that cover them.

Of each error the eight Laplace noises with the largest weights have their exact law; the rest, and Gaussian
noise, are one normal noise of their variance. Box noise has its law where most of the variance is its own,
else it is normal too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.noise_quantiles import NoiseTerm, gaussian_half_width, quantiles
from dpsql.estimates.noise_terms import TermWeights, half_width
from dpsql.estimates.reports.column_atoms import Bools, FloatArray, Ints
from dpsql.lazy_dataclass import dataclass

_EXACT = 8
"""Of so many Laplace noises the exact law is used."""
_FIGURES = 5
"""Errors whose weights agree to so many decimals of the standard deviation have one half-width."""
_LEAST = 1e-4
"""A noise with less than this part of the standard deviation is left to the normal one."""


@dataclass(frozen=True, slots=True, eq=False)
class BoxTerm:
    """What one draw of box or cube noise is in several errors.

    Attributes
    ----------
    law
        The law of the draw.
    weights
        float64[errors, numbers], of noise of scale 1.
    variance
        float64[errors].
    """

    law: Law
    weights: FloatArray
    variance: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ErrorTerms:
    """Errors of several estimates, each a sum of independent noises.

    Attributes
    ----------
    laplace
        float64[errors, at most 8]: scales of Laplace noises.
    normal
        float64[errors]: the variance of what is normal.
    boxes
        The draws of box and cube noise.
    grid
        float64[errors]: by how much the grids of the noises can move an error.
    """

    laplace: FloatArray
    normal: FloatArray
    boxes: tuple[BoxTerm, ...]
    grid: FloatArray

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
                found[error] = self._boxed(int(error), level)
            else:
                terms = tuple(each for each in shape[error].tolist() if each >= _LEAST)
                found[error] = deviation[error] * _unit_half_width(terms, level)
        return found + self.grid

    def _boxed(self, error: int, level: float) -> float:
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
