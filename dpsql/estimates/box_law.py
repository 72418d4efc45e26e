"""The law of box and cube noise: pads, variances and intervals, in units of bound over epsilon.

An error of a count is R (U - V): R the side of the box, Gamma(k + m + 1) for k counts and m pads, U uniform
on [0, 1), V the midrange of m further uniform values, all independent. For a cube, V is 1/2 and R is
Gamma(k + 1) on a side of 2 R. The formulas are those of continuous noise; on the grid a half-width needs one
step more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Points = NDArray[np.float64]
_POINTS = 400
_REACH = 10


def box_variance(counts: int, pads: int) -> float:
    """Return the variance of one count, under box noise for `counts` counts, in (bound/epsilon)^2.

    >>> box_variance(1, 1), box_variance(4, 1), round(box_variance(10, 2), 1)
    (2.0, 7.0, 22.8)
    """
    return own_variance(counts + pads) + reference_variance(counts, pads)


def reference_variance(counts: int, pads: int) -> float:
    """Return the variance of the pads' midrange, which is the covariance of any two counts."""
    return 6 * own_variance(counts + pads) / ((pads + 1) * (pads + 2))


def own_variance(dimension: int) -> float:
    """Return the variance of one coordinate of the noise in a box of a given dimension."""
    return (dimension + 1) * (dimension + 2) / 12


def cube_variance(counts: int) -> float:
    """Return the variance of one count, under cube noise for `counts` counts, in (bound/epsilon)^2.

    >>> cube_variance(1), cube_variance(2)
    (2.0, 4.0)
    """
    return (counts + 1) * (counts + 2) / 3


@lru_cache(maxsize=1024)
def box_half_width(counts: int, pads: int, confidence: float) -> float:
    """Return half the width of an interval of one count under box noise, in bound/epsilon.

    >>> round(box_half_width(1, 1, 0.95), 2), round(box_half_width(10, 2, 0.95), 1)
    (3.0, 9.4)
    """
    side, weight = _sides(counts + pads)
    m = pads

    def beyond(width: float) -> float:
        s = np.minimum(width / side, 1.0)
        near = 1 - 2 * s + 2**m * np.minimum(s, 0.5) ** (m + 1) / (m + 1)
        far = 2**m * (1 - s) ** (m + 1) / (m + 1)
        return float(weight @ np.where(s <= 0.5, near, far))

    return _find_width(beyond, 1 - confidence, float(side[-1]))


@lru_cache(maxsize=1024)
def simultaneous_half_width(counts: int, pads: int, confidence: float) -> float:
    """Return half the width of intervals that cover all counts at once, in bound/epsilon.

    >>> round(simultaneous_half_width(1, 1, 0.95), 2), round(simultaneous_half_width(10, 2, 0.95), 1)
    (3.0, 12.7)
    """
    if counts == 1:
        return box_half_width(counts, pads, confidence)
    side, weight = _sides(counts + pads)
    side, weight = side[::4], weight[::4] / weight[::4].sum()

    def beyond(width: float) -> float:
        # The midrange is at v with the distribution (2 v)^pads up to 1/2, and symmetric. A count is covered
        # with probability v + s up to `near`, and with that of `widest` further inside.
        s = np.minimum(width / side, 1.0)
        near, widest = np.minimum(s, 1 - s), np.minimum(2 * s, 1.0)
        inside = (1 - (2 * near) ** pads) * widest**counts
        # The integral of (v + s)^counts v^(pads - 1) from 0 to `near`, by parts.
        integral = s ** (counts + pads)
        for i in range(pads):
            power = counts + pads - i
            integral = (near**i * widest**power - max(i, 1) * integral) / power
        return float(1 - weight @ (inside + pads * 2.0**pads * integral))

    return _find_width(beyond, 1 - confidence, float(side[-1]))


@lru_cache(maxsize=1024)
def cube_half_width(counts: int, confidence: float, *, simultaneous: bool = False) -> float:
    """Return half the width of an interval of one count, or of all at once, under cube noise.

    >>> round(cube_half_width(1, 0.95), 2)
    3.0
    """
    reach, weight = _sides(counts)
    power = counts if simultaneous else 1

    def beyond(width: float) -> float:
        return float(1 - weight @ np.minimum(1.0, width / reach) ** power)

    return _find_width(beyond, 1 - confidence, float(reach[-1]))


@lru_cache(maxsize=1024)
def difference_half_width(dimension: int, confidence: float) -> float:
    """Return half the width of an interval of the difference of two counts, in bound/epsilon.

    `dimension` is the number of counts and pads. The error is R (U - U'), which is beyond s R with
    probability (1 - s)^2. Under cube noise, whose side is 2 R, it is twice as large.

    >>> round(difference_half_width(11, 0.9), 1)
    8.4
    """
    side, weight = _sides(dimension)

    def beyond(width: float) -> float:
        return float(weight @ (1 - np.minimum(width / side, 1.0)) ** 2)

    return _find_width(beyond, 1 - confidence, float(side[-1]))


@lru_cache(maxsize=1024)
def pair_half_width(counts: int, pads: int, confidence: float) -> float:
    """Return half the width of an interval of the sum of two of the counts, in bound/epsilon.

    Under box noise its error is R (U + U' - 2 V), under cube noise (no pads) R (U + U' - 1) on a side of 2 R.
    That of their difference is less under box noise, and has the same law under cube noise.

    >>> round(pair_half_width(2, 1, 0.95), 2), round(pair_half_width(2, 0, 0.95), 2)
    (6.55, 5.99)
    """
    side, weight = _sides(counts + pads)
    if not pads:

        def outside(width: float) -> float:
            return float(weight @ np.square(1 - np.minimum(width / side / 2, 1.0)))

        return _find_width(outside, 1 - confidence, 2 * float(side[-1]))
    side, weight = side[::4], weight[::4] / weight[::4].sum()

    # Twice the midrange is x with the distribution x^pads up to 1, and symmetric.
    def half_squares(root: _Points, low: _Points, high: _Points) -> _Points:
        """Return the integral of (x - root)^2 / 2 over a range of x."""
        squares, sums, mass = (
            pads * (high ** (pads + power) - low ** (pads + power)) / (pads + power) for power in (2, 1, 0)
        )
        return (squares - 2 * root * sums + root**2 * mass) / 2

    def beyond(width: float) -> float:
        s = np.minimum(width / side, 2.0)
        none, one = np.zeros_like(s), np.ones_like(s)
        bend, end = np.maximum(1 - s, none), np.minimum(2 - s, one)
        above = bend**pads - half_squares(-s, none, bend) + half_squares(2 - s, bend, end)
        below = half_squares(s, np.minimum(s, one), one)
        return float(weight @ (above + below))

    return _find_width(beyond, 1 - confidence, 2 * float(side[-1]))


def _sides(dimension: int) -> tuple[_Points, NDArray[Any]]:
    """Return points of Gamma(dimension + 1) with their probabilities."""
    shape = dimension + 1
    reach = _REACH * math.sqrt(shape)
    high = shape + reach + 20
    low = max(shape - reach, high / (64 * _POINTS))
    points = np.linspace(low, high, 4 * _POINTS)
    log = dimension * np.log(points) - points
    weight = np.exp(log - log.max())
    return points, weight / weight.sum()


_LEAST = 1e-9
"""What is less than this part of a tail counts as much: its logarithm is finite."""


def _find_width(beyond: Callable[[float], float], tail: float, high: float) -> float:
    """Return the width below `high` beyond which the probability is `tail`: never less, and hardly more.

    By false position (Illinois) on the logarithm of the probability, which is nearly straight.
    """
    tail = max(tail, 1e-300)  # a confidence next to 1 is 1 as a number

    def excess(width: float) -> float:
        return math.log(max(beyond(width) / tail, _LEAST))

    low, below, above, side = 0.0, excess(0.0), min(excess(high), 0.0), 0
    for _ in range(120):
        if high - low <= 1e-9 * high:
            break
        middle = (low * above - high * below) / (above - below)
        found = excess(middle)
        if abs(found) <= 1e-12:
            return middle
        if found > 0:
            low, below, above, side = middle, found, above / 2 if side > 0 else above, 1
        else:
            high, above, below, side = middle, found, below / 2 if side < 0 else below, -1
    return high
