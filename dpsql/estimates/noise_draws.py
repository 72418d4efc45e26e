"""Draws of the noises of measured numbers: 20,000 or more of a public law, the same in every process.

They read no data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dpsql.estimates.noise_laws import Key, Law, NoiseDraw

FloatArray = NDArray[np.float64]
DRAWS = 20_000
"""Draws of a law for the quantile of a linear term, where that leaves enough of them beyond it."""
MOST_DRAWS = 160_000
LEAST_TAIL = 20
"""Draws beyond a quantile that must be there at least."""
ALONE = 32
"""Of more coordinates than these, those with the least weight are drawn as one normal number."""
_SEED = 20_231_207


def count_draws(tail: float) -> int:
    """Return how many draws leave enough of them in a tail of this probability; 0 if these are too many.

    >>> count_draws(0.05), count_draws(0.0005), count_draws(1e-6)
    (20000, 40000, 0)
    """
    draws = DRAWS
    while tail * draws < LEAST_TAIL and draws <= MOST_DRAWS:
        draws *= 2
    return draws if draws <= MOST_DRAWS else 0


class NoiseSample:
    """Draws of the noises of measured numbers: one sample for all that is computed of them.

    What is computed of very many numbers would be drawn anew for each value, at a cost that grows with the
    cube of how many they are.
    """

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._laws: dict[int, int] = {}

    def errors(self, term: Mapping[Key, tuple[NoiseDraw, float]], draws: int) -> FloatArray:
        """Return draws of the error of one term."""
        own: dict[int, tuple[Law, FloatArray, float]] = {}
        for key, (source, weight) in term.items():
            law, scaled = source.law, weight * source.scale
            stream = self._laws.setdefault(0 if law.kind == "laplace" else id(law), len(self._laws))
            place = self._numbers.setdefault(key, len(self._numbers))
            _, drawn, whole = own.get(stream, (law, np.zeros(draws), 0.0))
            own[stream] = law, drawn + scaled * _draw(law.kind, draws, 4, place), whole + scaled
        total = np.zeros(draws)
        for stream, (law, drawn, whole) in own.items():
            total += _share(law, drawn[None], np.array([whole]), draws, stream)[0]
        return total


def draw_errors(law: Law, weights: FloatArray, whole: FloatArray, draws: int, stream: int) -> FloatArray:
    """Return draws of sums with these weights, [terms, numbers]; `whole` are what shared parts weigh."""
    order = np.argsort(-np.abs(weights).max(axis=0), kind="stable")
    first, rest = weights[:, order[:ALONE]], weights[:, order[ALONE:]]
    own = first @ _draw_own(law.kind, draws, stream)[: first.shape[1]]
    if rest.shape[1]:
        normal = _normal(draws, stream, len(rest))
        own = own + _root(rest @ rest.T * _OWN_VARIANCE[law.kind]) @ normal
    return _share(law, own, whole, draws, stream)


def _share(law: Law, own: FloatArray, whole: FloatArray, draws: int, stream: int) -> FloatArray:
    """Return draws of sums, of their own parts and of what their numbers share."""
    if law.kind == "laplace":
        return np.asarray(own)
    if law.kind == "gaussian":
        return np.asarray(own + np.outer(whole * math.sqrt(law.shared), _normal(draws, stream, 1, 1)[0]))
    side, middle = _box(law.size + law.pads, law.pads, draws, stream)
    if law.kind == "cube":
        return np.asarray(2 * side * own)
    return np.asarray(side * (own - np.outer(whole, middle)))


_OWN_VARIANCE = {"laplace": 2.0, "gaussian": 1.0, "box": 1 / 12, "cube": 1 / 12}
"""Of the own part of a number of weight 1; in a box before it is multiplied by its side."""


def _root(covariance: FloatArray) -> FloatArray:
    """Return a matrix whose product with its transpose is the covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))


def _generator(*place: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([_SEED, *place]))


@lru_cache(maxsize=6)
def _draw_own(kind: str, draws: int, stream: int) -> FloatArray:
    """Return draws of the own parts of the numbers of a draw: uniform ones centred at 0."""
    return _draw(kind, (ALONE, draws), 1, stream)


def _draw(kind: str, size: int | tuple[int, int], *place: int) -> FloatArray:
    made = _generator(*place)
    if kind == "laplace":
        return made.laplace(size=size)
    if kind == "gaussian":
        return made.normal(size=size)
    return made.random(size) - 0.5


@lru_cache(maxsize=16)
def _normal(draws: int, stream: int, rows: int, use: int = 0) -> FloatArray:
    return _generator(2, stream, use).normal(size=(rows, draws))


@lru_cache(maxsize=64)
def _box(dimension: int, pads: int, draws: int, stream: int) -> tuple[FloatArray, FloatArray]:
    """Return draws of the side of a box, and of the midrange of its pads less 1/2."""
    made = _generator(3, stream, dimension, pads)
    side = made.gamma(dimension + 1, size=draws)
    if not pads:
        return side, np.zeros(draws)
    uniform = made.random((2, draws))
    # The largest of m uniform numbers, and the least of the others, which are uniform below it.
    largest = uniform[0] ** (1 / pads)
    least = largest if pads == 1 else largest * (1 - uniform[1] ** (1 / (pads - 1)))
    return side, (largest + least) / 2 - 0.5
