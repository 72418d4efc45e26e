"""The errors of sums of measured numbers with weights, and intervals of ratios of them.

Laplace noise has an exact law of its sums (`linear`), Gaussian noise a closed one. The sum of box noises is
R (sum of w_i U_i - V sum of w_i): its law is that of draws of R, U and V (`noise_draws`).

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
from dpsql.estimates.noise_laws import Key, Law, Linear, NoiseDraw, Weighted
from dpsql.estimates.noise_quantiles import NoiseTerm, count_offset, gaussian_half_width, quantiles
from dpsql.lazy_dataclass import dataclass

FloatArray = NDArray[np.float64]

_MANY = 48
"""Of more different weights than these, near ones are taken as equal."""
_NEAR = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class TermWeights:
    """The weights of measured numbers in one or several terms, over the draws that they are from."""

    sources: tuple[NoiseDraw, ...]
    """The draw of each measured number."""
    weights: FloatArray
    """float64[terms, numbers]."""

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
    from dpsql.estimates.noise_draws import MOST_DRAWS, count_draws, draw_errors  # noqa: PLC0415  few need draws

    draws = count_draws(1 - confidence) or MOST_DRAWS
    total = np.zeros(draws)
    for stream, (kind, size, pads, shared, weights, whole) in enumerate(pattern):
        law = Law(kind, size, pads, shared)  # type: ignore[arg-type]  # a kind of a law
        total += draw_errors(law, np.array([weights]), np.array([whole]), draws, stream)[0]
    return float(np.quantile(np.abs(total), confidence))


def errors(terms: TermWeights, draws: int) -> FloatArray:
    """Return draws of the errors of several terms together, float64[terms, draws]."""
    from dpsql.estimates.noise_draws import draw_errors  # noqa: PLC0415  as above

    total = np.zeros((terms.terms, draws))
    for stream, (law, weights, _) in enumerate(terms.by_law().values()):
        total += draw_errors(law, weights, weights.sum(axis=1), draws, stream)
    return total


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


_ANGLES = np.linspace(-math.pi / 2, math.pi / 2, 65)
_HALVINGS = 45
_KEPT = 32
"""Pairs of terms of which the draws are kept in a process."""


class _DrawnPair:
    """Draws of two terms, and the quantiles of their sums at some angles, each found when it is needed."""

    def __init__(self, terms: TermWeights, confidence: float) -> None:
        from dpsql.estimates.noise_draws import MOST_DRAWS, count_draws  # noqa: PLC0415  as above

        drawn = errors(terms, count_draws(1 - confidence) or MOST_DRAWS)
        self.wide, self.high = (float(each.std()) for each in drawn)
        self._one = drawn[0] / self.wide if self.wide else drawn[0]
        self._other = drawn[1] / self.high if self.high else drawn[1]
        self._confidence = confidence
        self._found: dict[int, float] = {}

    def quantile(self, angle: float) -> float:
        """Return a quantile at an angle from those at the nearest two of 65 angles."""
        place = min(int(np.searchsorted(_ANGLES, angle, "right")) - 1, len(_ANGLES) - 2)
        ends = [self._quantile_at(place), self._quantile_at(place + 1)]
        return float(np.interp(angle, _ANGLES[place : place + 2], ends))

    def _quantile_at(self, place: int) -> float:
        found = self._found.get(place)
        if found is None:
            cos, sin = math.cos(_ANGLES[place]), math.sin(_ANGLES[place])
            found = float(np.quantile(np.abs(cos * self._one - sin * self._other), self._confidence))
            self._found[place] = found
        return found


_PAIRS: dict[object, _DrawnPair] = {}


@dataclass(frozen=True, slots=True, eq=False)
class CutSides:
    """What may be beyond the noise, of numbers with weights in both terms."""

    weights: FloatArray
    """float64[2, numbers]."""
    below: FloatArray
    above: FloatArray
    """By how much the truth of each number may lie below and above the interval of its noise."""
    together: Sequence[tuple[NDArray[np.int64], float]] = ()
    """Places of numbers, and how far these may lie outside together; each place is in one of them at most."""

    def of(self, *factors: float) -> tuple[float, float]:
        """Return how far a weighted sum of the terms may lie below and above, beyond its noise."""
        weights = np.asarray(factors) @ self.weights
        size, both = np.abs(weights), np.array((self.below, self.above))
        each = np.where(weights > 0, both, both[::-1])
        for places, most in self.together:  # those that count most are moved first
            first = places[np.argsort(-size[places], kind="stable")]
            alone = each[:, first]
            before = np.cumsum(alone, axis=1) - alone
            each[:, first] = np.minimum(np.maximum(most - before, 0), alone)
        return float(size @ each[0]), float(size @ each[1])


@dataclass(frozen=True, slots=True, eq=False)
class RatioIntervals:
    """Finds intervals of ratios; terms of equal weights share their draws."""

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
        drawn = self._draw(terms)
        wide, high = drawn.wide, drawn.high
        if not high:
            return None
        wide = wide or abs(x) or 1.0

        def within(angle: float) -> bool:
            cos, sin = math.cos(angle) / wide, math.sin(angle) / high
            quantile = drawn.quantile(angle)
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

    def _draw(self, terms: TermWeights) -> _DrawnPair:
        laws = tuple(
            (law.kind, law.size, law.pads, law.shared, weights.round(9).tobytes())
            for law, weights, _ in terms.by_law().values()
        )
        key = (self.confidence, laws)
        found = _PAIRS.get(key)
        if found is None:
            if len(_PAIRS) >= _KEPT:
                _PAIRS.clear()
            found = _PAIRS[key] = _DrawnPair(terms, self.confidence)
        return found
