"""Closed formulas of intervals: for a Laplace count, and for a gap over a threshold.

All intervals cover the noise, whose law is public. Offsets are defined as in `intervals`: the true value
lies in [estimate - low, estimate + high].
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.variance import Noise, Real, check_noise, positive

_SLACK = 1e-9  # in grid steps: an exact grid point may come out of floating point a little below itself


def check_confidence(confidence: Real) -> float:
    """Return the level as a float; `ValueError` unless it lies strictly between 0 and 1 - 1e-9."""
    level = float(confidence)
    if not 0 < level <= 1 - 1e-9:
        raise ValueError("confidence must be above 0 and at most 1 - 1e-9")
    return level


def count_offset(scale: Real, confidence: Real = 0.95, *, resolution: int | None = None) -> float:
    """Return the half width, in counts, of the interval of one count with Laplace noise.

    With a `resolution` the noise is discrete Laplace on multiples of 2^-resolution and the width is the
    smallest multiple that covers.

    >>> round(count_offset(10), 3), count_offset(10, resolution=0)
    (29.957, 30.0)
    """
    beta, miss = positive(scale, "scale"), 1 - check_confidence(confidence)
    if resolution is None:
        return -beta * math.log(miss)
    gamma = 2.0**-resolution
    # P(|Z| > m) = 2 r^(m+1) / (1 + r)
    rate = gamma / beta
    steps = math.ceil(-math.log(miss * (1 + math.exp(-rate)) / 2) / rate - 1 - _SLACK)
    return gamma * max(0, steps)


def threshold_gap_cdf(
    t: ArrayLike, noise: Noise, query_scale: Real, threshold_scale: Real, *, resolution: int | None = None
) -> NDArray[np.float64]:
    """Return P(e <= t) for the error e of a gap over a noisy threshold: query noise less threshold noise.

    Both noises centred. Laplace: Lemma 5 of Ding et al., PVLDB 13(3), 2019, with the scales in use (query
    scale 1/eps or 2/eps). Exponential (and geometric without a resolution): with x = t + s1 - s0, s1 the
    query's scale, 1 - s1/(s0+s1) exp(-x/s1) for x >= 0, else s0/(s0+s1) exp(x/s0). With a resolution,
    one-sided noise is geometric on the grid, each centred by its own mean.

    >>> float(threshold_gap_cdf(0, "laplace", 3, 2))
    0.5
    """
    check_noise(noise)
    s1, s0 = positive(query_scale, "query_scale"), positive(threshold_scale, "threshold_scale")
    at = np.asarray(t, dtype=np.float64)
    if noise == "laplace":
        tail = _laplace_tail(np.abs(at), s1, s0)
        return np.where(at < 0, tail, 1 - tail)
    if resolution is None:
        x = at + s1 - s0
        low = s0 / (s0 + s1) * np.exp(np.minimum(x, 0) / s0)
        return np.where(x >= 0, 1 - s1 / (s0 + s1) * np.exp(-np.maximum(x, 0) / s1), low)
    gamma = 2.0**-resolution
    l1, l0 = gamma / s1, gamma / s0
    both = -math.expm1(-l1 - l0)
    d = np.floor(at / gamma + mean_steps(l1) - mean_steps(l0) + _SLACK)
    low = math.expm1(-l1) / -both * np.exp(l0 * np.minimum(d, 0))
    return np.where(d >= 0, 1 + math.expm1(-l0) / both * np.exp(-l1 * (np.maximum(d, 0) + 1)), low)


def threshold_gap_offsets(
    noise: Noise,
    query_scale: Real,
    threshold_scale: Real,
    confidence: Real = 0.95,
    *,
    resolution: int | None = None,
) -> tuple[float, float]:
    """Return the offsets (low, high) of the estimate gap + T of a count; both tails are equal.

    >>> low, high = threshold_gap_offsets("exponential", 10, 4)
    >>> round(low, 2), round(high, 2)
    (27.52, 15.74)
    """
    s1, s0 = positive(query_scale, "query_scale"), positive(threshold_scale, "threshold_scale")
    tail = (1 - check_confidence(confidence)) / 2
    # The negated error has the same law with the scales exchanged.
    return _upper(noise, s1, s0, tail, resolution), _upper(noise, s0, s1, tail, resolution)


def lower_bound_offset(
    noise: Noise,
    query_scale: Real,
    threshold_scale: Real,
    confidence: Real = 0.95,
    *,
    resolution: int | None = None,
) -> float:
    """Return the offset of a lower bound: the count is at least gap + T less this, at the given level.

    >>> round(lower_bound_offset("laplace", 10, 10), 3)
    32.718
    """
    s1, s0 = positive(query_scale, "query_scale"), positive(threshold_scale, "threshold_scale")
    return _upper(noise, s1, s0, 1 - check_confidence(confidence), resolution)


@lru_cache(maxsize=1024)
def _upper(noise: Noise, s1: float, s0: float, tail: float, resolution: int | None) -> float:
    """Return the smallest t with P(e > t) <= tail."""
    check_noise(noise)
    if noise == "laplace":
        return _laplace_upper(s1, s0, tail) if tail <= 0.5 else -_laplace_upper(s1, s0, 1 - tail)
    if resolution is None:
        above = s1 / (s0 + s1)
        x = s1 * math.log(above / tail) if tail <= above else s0 * math.log((1 - tail) * (s0 + s1) / s0)
        return x - s1 + s0
    gamma = 2.0**-resolution
    l1, l0 = gamma / s1, gamma / s0
    both = -math.expm1(-l1 - l0)
    # P(D > d) = (1-r0)/(1-r0 r1) r1^(d+1) for d >= -1; P(D <= d) = (1-r1)/(1-r0 r1) r0^(-d) for d <= 0
    above = -math.expm1(-l0) / both
    if tail < above:
        d = math.ceil(math.log(above / tail) / l1 - _SLACK) - 1
    else:
        d = -math.floor(math.log(-math.expm1(-l1) / both / (1 - tail)) / l0 + _SLACK)
    return gamma * (d - mean_steps(l1) + mean_steps(l0))


def mean_steps(rate: float) -> float:
    """Return the mean of the geometric law on {0, 1, ..} with P(Y >= m) = exp(-rate m)."""
    return math.exp(-rate) / -math.expm1(-rate)


def _laplace_tail(t: NDArray[np.float64], s1: float, s0: float) -> NDArray[np.float64]:
    """Return P(e > t) for t >= 0 and the difference e of two Laplace noises."""
    if abs(s1 - s0) <= 1e-6 * (s1 + s0):  # the limit: the quotient below would cancel
        s = (s1 + s0) / 2
        return np.asarray((2 + t / s) / 4 * np.exp(-t / s))
    return np.asarray((s1 * s1 * np.exp(-t / s1) - s0 * s0 * np.exp(-t / s0)) / (2 * (s1 * s1 - s0 * s0)))


def _laplace_upper(s1: float, s0: float, tail: float) -> float:
    low, high = 0.0, (s1 + s0) * (2 - math.log(tail))
    for _ in range(80):  # halves the bracket to below a double's spacing
        middle = (low + high) / 2
        if float(_laplace_tail(np.asarray(middle), s1, s0)) > tail:
            low = middle
        else:
            high = middle
    return high
