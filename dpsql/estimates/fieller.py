"""Intervals of a mean from noisy moments: Fieller's set, with the exact law of Laplace noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.half_widths import laplace_half_widths

FloatArray = NDArray[np.float64]

_POINTS = 2048
_HALVINGS = 50


def mean_interval(
    moments: Sequence[FloatArray], scale: float, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval of each group's mean of x in [0, 1], from its moments as in `moments`.

    Notes
    -----
    For the true mean p, the sum over k of (k/d - p) M_k has no part of the data: it is noise. The interval
    has every p where its absolute value is at most the quantile Q(p) of that noise, so it covers p at the
    level, for any number of rows. Q is convex in p and equal at 0 and 1 (tested), and the sum is linear in p.
    So on each side of the estimate, Q less the sum's absolute value is positive at the estimate and convex:
    if it is negative at the end, it changes its sign once, where bisection finds it; if not, the smallest
    interval with all such p reaches the end. It may be all of [0, 1]. If no such p is in [0, 1], the sum is
    taken as what it would be for the nearest one: a p near an end is covered a little more often.
    """
    parts = len(moments)
    rows = np.asarray(sum(moments), dtype=np.float64)
    rows = np.where(rows > 0, rows, np.nan)
    start = np.clip(first_moment(moments) / rows, 0, 1)

    def near(p: FloatArray, first: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(np.abs(first - p * rows) <= scale * mean_width(parts, confidence, p))

    first = first_moment(moments)
    first = np.where(near(start, first), first, start * rows)
    ends = []
    for side in (0.0, 1.0):
        end = np.full_like(start, side)
        inside, outside = start, end
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            within = near(middle, first)
            inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
        ends.append(np.where(near(end, first), end, inside))
    return ends[0], ends[1]


def first_moment(moments: Sequence[FloatArray]) -> FloatArray:
    """Return the sum of x of each group, with its noise."""
    d = len(moments) - 1
    return np.asarray(sum(k / d * part for k, part in enumerate(moments)), dtype=np.float64)


def mean_width(parts: int, confidence: float, p: FloatArray) -> FloatArray:
    """Return Q(p) for so many moments with noise of scale 1, by interpolation to 1e-6."""
    at, width = _table(parts, confidence)
    return np.interp(p, at, width)


@lru_cache(maxsize=64)
def _table(parts: int, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return points from below 0 to above 1, and Q there; no point makes two weights equal, or one 0."""
    at = (np.arange(-1, _POINTS + 1) + 0.5) / _POINTS
    return at, laplace_half_widths(np.arange(parts) / (parts - 1) - at[:, None], confidence)
