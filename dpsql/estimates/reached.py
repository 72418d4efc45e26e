"""Estimate numbers of units that are shown because their noisy values reach a threshold.

All is computed on the grid of the noise, in steps. A group of q units is shown if X = q + Z reaches T, Z the
discrete Laplace noise; then X is released. The intervals hold given that the group is shown, for each q.

*Lower end.* Given that it is shown, P(X >= x) = S(x - q)/S(T - q), S the tail of Z. S is log-concave, so the
quotient grows with q, and the lower end is the least q for which it exceeds a, half of what the interval may
miss. For q <= T it is e^(-(x - T)/scale) whatever q is, for the law is memoryless. If that exceeds a, nothing
is said of how far below T the group lies: the lower end is 1, since groups without units are never shown.

*Upper end.* x + w, where P(Z < -w) <= a. It is below q only if Z < -w, and given Z >= T - q this is no more
likely than without that condition: of its probability as much is taken away as of that of all other values.

The intervals of several groups are as independent as their noise, also given which groups are shown: so what
they may miss together is divided among as many as are shown.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.closed_form import check_confidence, count_offset
from dpsql.estimates.combine import Combined
from dpsql.estimates.measurement import LaplaceNoise
from dpsql.estimates.variance import Real, positive


def from_reached(value: ArrayLike, threshold: Real, noise: LaplaceNoise, confidence: Real = 0.95) -> Combined:
    """Estimate the numbers of units of groups whose noisy values reached a public threshold.

    Parameters
    ----------
    value
        float64[k], the noisy numbers of units: multiples of 2^-resolution, at least the threshold.
    threshold
        A multiple of 2^-resolution, at least 1.
    noise
        The discrete Laplace noise, with its resolution.
    confidence
        Level of the intervals, given that the group is shown.

    Examples
    --------
    >>> found = from_reached([15.0, 30.0], 14, LaplaceNoise(1, resolution=0))
    >>> found.low, found.high
    (array([ 1., 27.]), array([18., 33.]))
    """
    if noise.resolution is None or noise.total:
        raise ValueError("the noise is that of each number, on a grid")
    values, level = np.asarray(value, dtype=np.float64), check_confidence(confidence)
    step = 2.0**-noise.resolution
    rate, a = step / positive(noise.scale, "scale"), (1 - level) / 2
    past = np.maximum(np.round((values - float(threshold)) / step), 0)
    low = np.maximum(float(threshold) + step * _least(past, rate, a), 1.0)
    width = count_offset(noise.scale, level, resolution=noise.resolution)
    deviation = np.full(values.shape, math.sqrt(noise.variance))
    return Combined(values.copy(), deviation, low, values + width)


def _least(past: NDArray[np.float64], rate: float, a: float) -> NDArray[np.float64]:
    """Return the lower end in steps above the threshold; minus infinity where every q is possible.

    With y = e^(rate (q - T)) and E = e^(-rate past), the quotient exceeds a if
    E y^2/(1 + r) - a y + a r/(1 + r) > 0, r = e^-rate, which the larger root of y ends from below.
    """
    r, log_e = math.exp(-rate), -rate * past
    inside = log_e <= math.log(a)
    e = np.exp(np.where(inside, log_e, math.log(a)))
    root = np.sqrt(np.maximum(a * a - 4 * a * e * r / (1 + r) ** 2, 0))
    # Of a large number past the threshold e is 0: then y is a (1 + r)/e, whose logarithm is exact.
    steps = (np.log((a + root) * (1 + r) / 2) - np.where(inside, log_e, math.log(a))) / rate
    return np.where(inside, np.ceil(np.minimum(steps, past) - 1e-6), -math.inf)
