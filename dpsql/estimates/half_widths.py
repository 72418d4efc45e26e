"""Half-widths of intervals: of sums of Laplace noises, and of Gaussian noise of which a part is shared.

The formulas are those of continuous noise; on the grid a half-width needs one step more.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.law import Term, quantiles

_NORMAL_REACH = 9
_NORMAL_POINTS = 600
_HALVINGS = 50
_SUM_HALVINGS = 60


def laplace_stddev(weights: tuple[float, ...]) -> float:
    """Return the standard deviation of a sum of independent Laplace noises of scale 1 with these weights.

    >>> round(laplace_stddev((1.0, 1.0)), 6)
    2.0
    """
    return math.sqrt(2) * math.hypot(*weights)


@lru_cache(maxsize=1024)
def laplace_half_width(weights: tuple[float, ...], confidence: float) -> float:
    """Return the x that the absolute value of such a sum exceeds with probability 1 - confidence.

    >>> round(laplace_half_width((3.0, 0.0), 0.95), 3), round(laplace_half_width((1.0, 1.0), 0.95), 3)
    (8.987, 4.113)
    """
    sizes = sorted(abs(weight) for weight in weights if weight)
    if not sizes:
        return 0.0
    if len(sizes) == 1:
        return -sizes[0] * math.log1p(-confidence)
    terms = tuple(Term(True, size / sizes[-1]) for size in sizes)
    return sizes[-1] * quantiles(terms, (1 - confidence) / 2)[1]


def laplace_half_widths(weights: NDArray[np.float64], confidence: float) -> NDArray[np.float64]:
    """Return `laplace_half_width` of each row of weights, whose absolute values are positive and distinct.

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
    for _ in range(_SUM_HALVINGS):
        middle = (low + high) / 2
        over = (share * np.exp(-middle[:, None] / sizes)).sum(axis=1) > 1 - confidence
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return high


@lru_cache(maxsize=1024)
def gaussian_half_width(variance: float, confidence: float) -> float:
    """Return half the width of an interval of one count, whose error has this variance.

    >>> round(gaussian_half_width(4, 0.95), 2)
    3.92
    """
    low, high = 0.0, float(_NORMAL_REACH)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) > 1 - confidence else (low, middle)
    return math.sqrt(variance) * high


@lru_cache(maxsize=1024)
def gaussian_simultaneous_half_width(counts: int, own: float, shared: float, confidence: float) -> float:
    """Return half the width of intervals that cover all counts at once.

    Errors are X_i + Z, X_i of variance `own` and one Z of variance `shared`. Given Z they are independent.

    >>> round(gaussian_simultaneous_half_width(1, 3, 1, 0.95), 2)
    3.92
    >>> round(gaussian_simultaneous_half_width(10, 4, 0, 0.95), 2)
    5.6
    """
    deviation = math.sqrt(own)
    at = np.linspace(-_NORMAL_REACH, _NORMAL_REACH, _NORMAL_POINTS + 1) if shared else np.zeros(1)
    weight = np.exp(-at * at / 2)
    weight /= weight.sum()
    at *= math.sqrt(shared)

    def covered(width: float) -> float:
        inside = _below((width - at) / deviation) - _below((-width - at) / deviation)
        return float(weight @ inside**counts)

    low, high = 0.0, _NORMAL_REACH * (deviation + math.sqrt(shared)) * math.sqrt(1 + math.log(counts))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if covered(middle) < confidence else (low, middle)
    return high


def _below(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal distribution function."""
    return np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in x.tolist()])
