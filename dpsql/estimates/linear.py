"""The law of a sum of independent Laplace noises of scale 1 with given weights."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.law import Term, quantiles

_HALVINGS = 60


def stddev(weights: tuple[float, ...]) -> float:
    """Return the standard deviation.

    >>> round(stddev((1.0, 1.0)), 6)
    2.0
    """
    return math.sqrt(2) * math.hypot(*weights)


@lru_cache(maxsize=1024)
def half_width(weights: tuple[float, ...], confidence: float) -> float:
    """Return the x that the sum's absolute value exceeds with probability 1 - confidence.

    >>> round(half_width((3.0, 0.0), 0.95), 3), round(half_width((1.0, 1.0), 0.95), 3)
    (8.987, 4.113)
    """
    sizes = sorted(abs(weight) for weight in weights if weight)
    if not sizes:
        return 0.0
    if len(sizes) == 1:
        return -sizes[0] * math.log1p(-confidence)
    terms = tuple(Term(True, size / sizes[-1]) for size in sizes)
    return sizes[-1] * quantiles(terms, (1 - confidence) / 2)[1]


def half_widths(weights: NDArray[np.float64], confidence: float) -> NDArray[np.float64]:
    """Return the same for each row of weights, whose absolute values must all be positive and distinct.

    P(|sum| > x) is then the sum over i of e^(-x/w_i) times the product over j of w_i^2/(w_i^2 - w_j^2), by
    partial fractions of the characteristic function.
    """
    sizes = np.abs(weights)
    squares = sizes**2
    ratio = squares[:, :, None] - squares[:, None, :]
    diagonal = np.arange(sizes.shape[1])
    ratio[:, diagonal, diagonal] = squares
    share = (squares[:, :, None] / ratio).prod(axis=2)
    low: NDArray[np.float64] = np.zeros(len(sizes))
    high: NDArray[np.float64] = sizes.sum(axis=1) * (1 - math.log1p(-confidence))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        over = (share * np.exp(-middle[:, None] / sizes)).sum(axis=1) > 1 - confidence
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return high
