"""The errors of sums of measured numbers with weights, and intervals of ratios of them.

Laplace noise has an exact law of its sums (`linear`), Gaussian noise a closed one. The sum of box noises is
R (sum of w_i U_i - V sum of w_i): its law is that of 20,000 draws of R, U and V, which are the same in every
process. They are draws of a public law, and read no data.

For the true ratio p, X - p Y has no part of the data: it is noise, and what bounds left out. So the set
covers p at the level, for any law of the noise. If Y may be 0, the set has no end: there is no interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.box_law import box_half_width, cube_half_width
from dpsql.estimates.noise_laws import Law, Linear, NoiseDraw, Weighted
from dpsql.estimates.noise_quantiles import NoiseTerm, count_offset, gaussian_half_width, quantiles
from dpsql.lazy_dataclass import dataclass

FloatArray = NDArray[np.float64]

DRAWS = 20_000
"""Draws of a law for the quantile of a linear term, where that leaves enough of them beyond it."""
MOST_DRAWS = 160_000
LEAST_TAIL = 20
"""Draws beyond a quantile that must be there at least."""
_ALONE = 32
"""Of more coordinates than these, those with the least weight are drawn as one normal number."""
_SEED = 20_231_207
_MANY = 48
"""Of more different weights than these, near ones are taken as equal."""
_NEAR = 0.02

Key = tuple[int, int, int]
"""What names a measured number: its release, its place and its row."""


@dataclass(frozen=True, slots=True, eq=False)
class TermWeights:
    """The weights of measured numbers in one or several terms, over the draws that they are from.

    Attributes
    ----------
    sources
        The draw of each measured number.
    weights
        float64[terms, numbers].
    """

    sources: tuple[NoiseDraw, ...]
    weights: FloatArray

    @property
    def terms(self) -> int:
        """How many independent noises the weights are for."""
        return len(self.weights)

    def combine(self, *factors: float) -> TermWeights:
        """Return one term: the sum of the terms, each multiplied by its factor."""
        return TermWeights(self.sources, np.asarray([factors]) @ self.weights)

    def by_law(self) -> dict[int, tuple[Law, FloatArray, FloatArray]]:
        """Return for each draw its law, and the weights times the scales and the grid steps."""
        found: dict[int, list[int]] = {}
        for place, source in enumerate(self.sources):
            key = 0 if source.law.kind == "laplace" else id(source.law)
            found.setdefault(key, []).append(place)
        scale = np.array([source.scale for source in self.sources])
        grid = np.array([source.grid for source in self.sources])
        return {
            key: (
                self.sources[places[0]].law,
                self.weights[:, places] * scale[places],
                self.weights[:, places] * grid[places],
            )
            for key, places in found.items()
        }


def stddev(term: TermWeights) -> float:
    """Return the standard deviation of one independent noise."""
    return math.sqrt(float(_covariance(term)[0, 0]))


def half_width(term: TermWeights, confidence: float) -> float:
    """Return the x that the error of one term exceeds in absolute value with probability 1 - confidence."""
    (weights,) = term.weights
    there = np.flatnonzero(weights)
    if not len(there):
        return 0.0
    if len(there) == 1:
        return abs(float(weights[there[0]])) * _alone(term.sources[there[0]], confidence)
    laws = TermWeights(tuple(term.sources[i] for i in there), weights[None, there]).by_law()
    kinds = {law.kind for law, _, _ in laws.values()}
    if kinds == {"laplace"}:
        return _laplace(next(iter(laws.values()))[1][0], confidence)
    if kinds == {"gaussian"}:
        grid = max(float(np.abs(steps).max()) for _, _, steps in laws.values())
        variance = sum(_variance(law, scaled)[0, 0] for law, scaled, _ in laws.values())
        return gaussian_half_width(float(variance), confidence) + grid
    pattern = tuple(
        (law.kind, law.size, law.pads, law.shared, tuple(np.sort(np.abs(w[0])).tolist()), float(w.sum()))
        for law, w, _ in laws.values()
    )
    grid = max(float(np.abs(steps).max()) for _, _, steps in laws.values())
    largest: float = max(part[4][-1] for part in pattern)
    scaled = tuple(
        (*part[:4], tuple(round(w / largest, 6) for w in part[4]), round(part[5] / largest, 6))
        for part in pattern
    )
    return _draw_half_width(scaled, confidence) * largest + grid


@lru_cache(maxsize=4096)
def _draw_half_width(
    pattern: tuple[tuple[str, int, int, float, tuple[float, ...], float], ...], confidence: float
) -> float:
    """Return the half-width of a term whose weights are these, in absolute value, with their sums.

    The own noises are symmetric, so that signs matter for what a draw shares alone.
    """
    draws = count_draws(1 - confidence) or MOST_DRAWS
    total = np.zeros(draws)
    for stream, (kind, size, pads, shared, weights, whole) in enumerate(pattern):
        law = Law(kind, size, pads, shared)  # type: ignore[arg-type]  # a kind of a law
        total += _errors(law, np.array([weights]), np.array([whole]), draws, stream)[0]
    return float(np.quantile(np.abs(total), confidence))


def count_draws(tail: float) -> int:
    """Return how many draws leave enough of them in a tail of this probability; 0 if these are too many.

    >>> count_draws(0.05), count_draws(0.0005), count_draws(1e-6)
    (20000, 40000, 0)
    """
    draws = DRAWS
    while tail * draws < LEAST_TAIL and draws <= MOST_DRAWS:
        draws *= 2
    return draws if draws <= MOST_DRAWS else 0


def errors(terms: TermWeights, draws: int) -> FloatArray:
    """Return draws of the errors of several terms together, float64[terms, draws]."""
    total = np.zeros((terms.terms, draws))
    for stream, (law, weights, _) in enumerate(terms.by_law().values()):
        total += _errors(law, weights, weights.sum(axis=1), draws, stream)
    return total


def _errors(law: Law, weights: FloatArray, whole: FloatArray, draws: int, stream: int) -> FloatArray:
    """Return draws of sums with these weights, [terms, numbers]; `whole` are what shared parts weigh."""
    order = np.argsort(-np.abs(weights).max(axis=0), kind="stable")
    first, rest = weights[:, order[:_ALONE]], weights[:, order[_ALONE:]]
    own = first @ _draw_own(law.kind, draws, stream)[: first.shape[1]]
    if rest.shape[1]:
        normal = _normal(draws, stream, len(rest))
        own = own + _root(rest @ rest.T * _OWN_VARIANCE[law.kind]) @ normal
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
    made = _generator(1, stream)
    if kind == "laplace":
        return made.laplace(size=(_ALONE, draws))
    if kind == "gaussian":
        return made.normal(size=(_ALONE, draws))
    return made.random((_ALONE, draws)) - 0.5


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


def _alone(source: NoiseDraw, confidence: float) -> float:
    """Return the half-width of one measured number, as the number itself has it."""
    law = source.law
    if law.kind == "laplace":
        resolution = None if source.grid <= 0 else round(-math.log2(source.grid))
        return count_offset(source.scale, confidence, resolution=resolution)
    if law.kind == "gaussian":
        return gaussian_half_width(source.scale**2 * (1 + law.shared), confidence) + source.grid
    if law.kind == "cube":
        return cube_half_width(law.size, confidence) * source.scale + source.grid
    return box_half_width(law.size, law.pads, confidence) * source.scale + source.grid


def _laplace(scales: FloatArray, confidence: float) -> float:
    """Return the half-width of a sum of independent Laplace noises of these scales."""
    sizes = np.sort(np.abs(scales))
    largest = float(sizes[-1])
    rounded = np.round(sizes / largest, 9)
    values, counts = np.unique(rounded, return_counts=True)
    if len(values) > _MANY:
        values, counts = _merge_sizes(rounded)
    terms = tuple(
        NoiseTerm(True, value, count)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True)
        if value
    )
    return largest * quantiles(terms, (1 - confidence) / 2)[1]


def _merge_sizes(sizes: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the sizes with near ones made equal, such that the variance stays."""
    classes = np.round(np.log(np.maximum(sizes, 1e-4)) / _NEAR).astype(np.int64)
    _, place, counts = np.unique(classes, return_inverse=True, return_counts=True)
    squares = np.bincount(place, weights=sizes**2)
    return np.sqrt(squares / counts), counts


def _covariance(terms: TermWeights) -> FloatArray:
    found = np.zeros((terms.terms, terms.terms))
    for law, weights, _ in terms.by_law().values():
        found += _variance(law, weights)
    return found


def _variance(law: Law, weights: FloatArray) -> FloatArray:
    """Return the covariance of terms with these weights, times scales, under one draw."""
    own, whole = weights @ weights.T, weights.sum(axis=1)
    if law.kind == "laplace":
        return np.asarray(2 * own)
    if law.kind == "gaussian":
        return np.asarray(own + law.shared * np.outer(whole, whole))
    dimension = law.size + law.pads
    squared = (dimension + 1) * (dimension + 2)
    if law.kind == "cube":
        return np.asarray(squared / 3 * own)
    shared = squared / (2 * (law.pads + 1) * (law.pads + 2))
    return np.asarray(squared / 12 * own + shared * np.outer(whole, whole))


def add_weights(
    numbers: Iterable[tuple[int, Linear | Weighted, int, float]],
) -> dict[Key, tuple[NoiseDraw, float]]:
    """Return the weights of measured numbers in a sum: of releases, numbers, their rows and weights."""
    own: dict[Key, tuple[NoiseDraw, float]] = {}
    estimates: dict[int, tuple[Weighted, list[int], list[float]]] = {}

    def add(key: Key, source: NoiseDraw, weight: float) -> None:
        own[key] = (source, own[key][1] + weight if key in own else weight)

    for release, made, at, weight in numbers:
        if isinstance(made, Weighted):
            _, rows, weights = estimates.setdefault(id(made), (made, [], []))
            rows.append(at)
            weights.append(weight)
            continue
        for factor, each in made.terms:
            add((release, each.place, at), each.sources[int(each.source[at])], weight * factor)
    for made, rows, weights in estimates.values():
        total = np.asarray(weights) @ made.weights[rows]
        for i in np.flatnonzero(total).tolist():
            release, place = made.names[i]
            add((-1 - release, place, 0), made.sources[i], float(total[i]))
    return own


def join_terms(terms: Sequence[dict[Key, tuple[NoiseDraw, float]]]) -> TermWeights:
    """Return the weights of several terms as one matrix, a column for each independent noise."""
    keys: dict[Key, int] = {}
    sources: list[NoiseDraw] = []
    for term in terms:
        for key, (source, _) in term.items():
            if key not in keys:
                keys[key] = len(sources)
                sources.append(source)
    weights = np.zeros((len(terms), len(sources)))
    for row, term in enumerate(terms):
        for key, (_, weight) in term.items():
            weights[row, keys[key]] = weight
    return TermWeights(tuple(sources), weights)


_ANGLES = 65
_HALVINGS = 45
_KEPT = 512
"""Tables of quantiles that are kept in a process."""
_TABLES: dict[object, tuple[float, float, NDArray[np.float64]]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class CutSides:
    """What may be beyond the noise, of numbers with weights in both terms.

    Attributes
    ----------
    weights
        float64[2, numbers].
    below, above
        By how much the truth of each number may lie below and above the interval of its noise.
    together
        Places of numbers, and how far these may lie outside together; each place is in one of them at most.
    """

    weights: FloatArray
    below: FloatArray
    above: FloatArray
    together: Sequence[tuple[NDArray[np.int64], float]] = ()

    def of(self, *factors: float) -> tuple[float, float]:
        """Return how far a weighted sum of the terms may lie below and above, beyond its noise."""
        weights = np.asarray(factors) @ self.weights
        up, size = weights > 0, np.abs(weights)
        down = self._farthest(size, np.where(up, self.below, self.above))
        return down, self._farthest(size, np.where(up, self.above, self.below))

    def _farthest(self, size: FloatArray, each: FloatArray) -> float:
        """Return how far a sum moves at most if each number moves by at most `each`, and 1 of it by `size`.

        Where there is a limit on some of them together, those that count most are moved first.
        """
        if not self.together:
            return float(size @ each)
        each = each.copy()
        for places, most in self.together:
            first = places[np.argsort(-size[places], kind="stable")]
            before = np.cumsum(each[first]) - each[first]
            each[first] = np.clip(most - before, 0, each[first])
        return float(size @ each)


@dataclass(frozen=True, slots=True, eq=False)
class RatioIntervals:
    """Finds intervals of ratios; terms of equal weights share a table of quantiles."""

    confidence: float

    def find(
        self, x: float, y: float, terms: TermWeights, sides: CutSides | None
    ) -> tuple[float, float] | None:
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
        drawn = errors(terms, count_draws(1 - self.confidence) or MOST_DRAWS)
        wide, high = drawn.std(axis=1).tolist()
        one = drawn[0] / wide if wide else drawn[0]
        other = drawn[1] / high if high else drawn[1]
        angles = np.linspace(-math.pi / 2, math.pi / 2, _ANGLES)
        table = [
            float(np.quantile(np.abs(math.cos(angle) * one - math.sin(angle) * other), self.confidence))
            for angle in angles
        ]
        return wide, high, np.array(table)
