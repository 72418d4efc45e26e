"""Estimate counts that were shown because they are above a threshold; the intervals hold given that.

All is computed on the grid of the noise, in steps. A group of count q is tried at V = q - L, L the noise of
the threshold, with noise N of a branch. If W = V + N reaches the branch's cutoff C, it is a hit, and W is
released.

*Lower end, one-sided noise.* Given L, everything decided before the group was tried, and a hit, W is
max(V, C) plus a fresh geometric number: the law is memoryless. Let m be the least number that it reaches with
probability at most a. If W >= C + m, the lower end is W - (m - 1); otherwise there is none. It is wrong only
where W >= max(V, C) + m, with probability at most a, because q = V + L >= V. So it holds for each group, each
noise of the threshold, and any rule of stopping. Any interval that covers given a hit lacks a lower end for
most hits with W < C + m: every group with V <= C has the same law of W.

*Lower end, Laplace noise, plain sparse vector.* Given a hit alone, P(W >= w) = S(w - q)/S(C - q), S the tail
of the difference N - L. S is log-concave, so the quotient grows with q, and the lower end is the least q for
which it exceeds a. That the group was reached is likelier for high L: fewer groups before it are hits. Given
N - L >= t, L is the lower the larger t is, so this condition only lowers the quotient. With several branches
a high L may also use up the budget earlier: there is no proof, and no lower end.

*Upper end.* q = W + (L - N) if V >= C, and less otherwise: the upper end adds the quantile of L - N. Over all
hits it is confirmed by simulation: groups at one distance are hits less often when L is high.

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

from dpsql.estimates.combined_counts import Combined, combine
from dpsql.estimates.linear_estimates import ErrorModel, GapNoise
from dpsql.estimates.noise_laws import LaplaceNoise, Measurement, Real, positive
from dpsql.estimates.noise_quantiles import check_confidence, count_offset, mean_steps, threshold_gap_offsets

_CONTINUOUS = 2.0**-14
"""Grid step, in scales, at which the law without a grid is evaluated."""
_FARTHEST = 60
"""No lower end is farther below the cutoff than this many scales."""


def from_threshold(
    gap: ArrayLike,
    threshold: Real,
    noise: GapNoise,
    measured: Measurement | None = None,
    *,
    least: ArrayLike = 0.0,
    plain: bool = True,
    below: bool = False,
    confidence: Real = 0.95,
) -> Combined:
    """Estimate the counts that a sparse vector or the hybrid sparse vector found above a threshold.

    The gaps alone suffice; measurements improve the estimates. The interval from gaps alone covers given that
    the group was found. Near the threshold it has no lower end (NaN): the group may lie anywhere below.

    Parameters
    ----------
    gap
        float64[k], in counts: how far each noisy count lies above the noisy threshold.
    threshold
        The public threshold.
    noise
        The noise of the gaps, with the scale of the threshold's noise.
    measured, confidence
        As in `from_top_k`.
    least
        The least gap that each item could have had, as the mechanism's `least_gaps` returns it.
    plain
        Whether the mechanism was the plain sparse vector. No other has lower ends with Laplace noise.
    below
        The groups were found below the threshold, and gaps are distances below it.

    Examples
    --------
    >>> found = from_threshold([70.0, 30.0], 100, GapNoise("exponential", 10, threshold_scale=4))
    >>> found.value, found.low.round(2), found.high.round(2)
    (array([170., 130.]), array([139.11,    nan]), array([185.74, 145.74]))
    """
    gaps, level = np.asarray(gap, dtype=np.float64), float(threshold)
    if below:
        turned = None if measured is None else measured.negate()
        above = from_threshold(gaps, -level, noise, turned, least=least, plain=plain, confidence=confidence)
        return above.negate()
    if not gaps.size:
        return Combined.empty()
    if measured is not None:
        return combine(gaps + level, noise, measured, confidence)
    model, bits = ErrorModel(noise, gaps.size), noise.resolution
    tail = (1 - check_confidence(confidence)) / 2
    # What the sum of gap and threshold may lose as a float.
    lost = 4 * np.spacing(gaps + abs(level))
    past = gaps - np.asarray(least, dtype=np.float64) - lost
    under, over = np.zeros_like(gaps), np.zeros_like(gaps)
    scales, _, group = model.groups()
    assert noise.threshold_scale is not None  # noqa: S101  the model needs it
    for i, scale in enumerate(scales):
        at, both = group == i, (scale, float(noise.threshold_scale))
        over[at] = threshold_gap_offsets(noise.noise, *both, confidence, resolution=bits)[1]
        if noise.noise != "laplace":
            under[at] = _memoryless(past[at], *both, tail, bits)
        elif plain:
            under[at] = _invert_laplace(past[at], *both, tail, bits)
        else:
            under[at] = math.nan
    wide = lost if bits is None else lost + 2.0**-bits
    value = level + gaps
    return Combined(value, model.stddev(), value - under - wide, value + over + wide)


def _memoryless(
    past: NDArray[np.float64], s1: float, s0: float, tail: float, resolution: int | None
) -> NDArray[np.float64]:
    """Return how far the lower end lies below gap + threshold for one-sided noise; NaN: there is none."""
    if resolution is None:
        far = -s1 * math.log(tail)
        return np.where(past >= far, far - s1 + s0, math.nan)
    step = 2.0**-resolution
    m = math.ceil(-math.log(tail) * s1 / step)
    # gap + threshold is W less the mean of N plus that of L.
    centre = step * (mean_steps(step / s1) - mean_steps(step / s0))
    return np.where(_steps(past, step) >= m, (m - 1) * step - centre, math.nan)


def _invert_laplace(
    past: NDArray[np.float64], s1: float, s0: float, tail: float, resolution: int | None
) -> NDArray[np.float64]:
    """Return, for Laplace noise, the farthest count below W that passes the test at level `tail`.

    A count n steps below the cutoff is tested by S(n + t)/S(n), t the steps of W past the cutoff.
    """
    step = _CONTINUOUS * min(s1, s0) if resolution is None else 2.0**-resolution
    t = _steps(past, step)

    def passes(n: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(_tail(n + t, step / s1, step / s0) > tail * _tail(n, step / s1, step / s0))

    kept, farthest = -t, np.full_like(t, math.ceil(_FARTHEST * max(s1, s0) / step))
    open_ended = passes(farthest)
    for _ in range(80):
        middle = np.floor((kept + farthest) / 2)
        inside = passes(middle)
        kept, farthest = np.where(inside, middle, kept), np.where(inside, farthest, middle)
    return np.where(open_ended, math.nan, (t + kept) * step)


def _steps(past: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return whole grid steps; rounding may lose one, but never adds one."""
    return np.floor(past / step + 1e-3)


def _tail(n: NDArray[np.float64], rate: float, other: float) -> NDArray[np.float64]:
    """P(N - L >= n) for discrete Laplace noises, by partial fractions of their characteristic functions."""
    if abs(rate - other) < 1e-5 * rate:  # the limit: the quotient would cancel
        other = rate * (1 + 1e-5)
    v1, v0 = math.sinh(rate / 2) ** 2, math.sinh(other / 2) ** 2
    far = np.where(n > 0, n, 1 - n)
    above = (
        v0 * np.exp(-rate * far) / (1 + math.exp(-rate)) - v1 * np.exp(-other * far) / (1 + math.exp(-other))
    ) / (v0 - v1)
    return np.where(n > 0, above, 1 - above)


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
