"""The law of a gap over a noisy threshold, with which quantiles and simulations are compared."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates import Noise
from dpsql.estimates.noise_laws import Real, check_noise, positive
from dpsql.estimates.noise_quantiles import _SLACK, _laplace_tail, mean_steps


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
