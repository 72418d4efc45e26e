"""The law of Gaussian noise of which a part is shared: half-widths of intervals.

The formulas are those of continuous noise; on the grid a half-width needs one step more.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_REACH = 9
_POINTS = 600
_HALVINGS = 50


@lru_cache(maxsize=1024)
def gaussian_half_width(variance: float, confidence: float) -> float:
    """Return half the width of an interval of one count, whose error has this variance.

    >>> round(gaussian_half_width(4, 0.95), 2)
    3.92
    """
    low, high = 0.0, float(_REACH)
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
    at = np.linspace(-_REACH, _REACH, _POINTS + 1) if shared else np.zeros(1)
    weight = np.exp(-at * at / 2)
    weight /= weight.sum()
    at *= math.sqrt(shared)

    def covered(width: float) -> float:
        inside = _below((width - at) / deviation) - _below((-width - at) / deviation)
        return float(weight @ inside**counts)

    low, high = 0.0, _REACH * (deviation + math.sqrt(shared)) * math.sqrt(1 + math.log(counts))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if covered(middle) < confidence else (low, middle)
    return high


def _below(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal distribution function."""
    return np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in x.tolist()])
