"""Compute counts with standard deviations and intervals from the release of a mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.blue import top_k_offsets
from dpsql.estimates.closed_form import count_offset
from dpsql.estimates.error_model import ErrorModel, Strategy
from dpsql.estimates.intervals import offsets
from dpsql.estimates.variance import Noise, Real, laplace_variance


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """Estimated counts with standard deviations and intervals."""

    value: NDArray[np.float64]
    """float64[k], in counts."""
    stddev: NDArray[np.float64]
    """float64[k], in counts."""
    low: NDArray[np.float64]
    """float64[k]: lower ends of the intervals; they may be below zero. NaN: there is none."""
    high: NDArray[np.float64]
    """float64[k]: upper ends of the intervals."""


def from_top_k(
    gap: ArrayLike,
    k: int,
    *,
    scale: Real,
    noise: Noise = "exponential",
    resolution: int | None = None,
    threshold: Real | None = None,
    lowest: bool = False,
    each: ArrayLike | None = None,
    anchor_total: Real | None = None,
    measuring_scale: Real | None = None,
    measuring_resolution: int | None = None,
    confidence: Real = 0.95,
) -> Combined:
    """Estimate the counts that a noisy top-k with gap selected, from its gaps and the measurements.

    For a hybrid top-k that reached its threshold, pass the public threshold: the last gap is then the gap
    over it, the gaps alone give estimates, and measurements improve them. (The cutoff of the limited domain
    mechanism is private: do not pass it.) If no group was selected, all arrays are empty.

    Parameters
    ----------
    gap, k, scale, noise, resolution
        As the mechanism reports them: k gaps in counts, k - 1 when all groups were selected.
    threshold
        The public threshold that was reached; None for a plain top-k.
    lowest
        The lowest counts were selected, and gaps are upward. Not with a threshold.
    each, anchor_total
        The k noisy counts, or the one noisy total of the k counts.
    measuring_scale, measuring_resolution
        Scale and grid of the measuring noise as drawn.
    confidence
        Level of the intervals.

    Raises
    ------
    ValueError
        For wrong shapes, and when neither a measurement nor a threshold fixes the counts.

    Examples
    --------
    >>> found = from_top_k([40.0, 12.0], 2, scale=4, anchor_total=300, measuring_scale=8)
    >>> found.value, found.low.round(1), found.high.round(1)
    (array([170., 130.]), array([156.9, 116.9]), array([183.1, 143.1]))
    """
    y = np.zeros(0) if k == 0 and not np.size(gap) else top_k_offsets(gap, k, resolution)
    if lowest:  # the mechanism ran on the negated counts
        each = None if each is None else -np.asarray(each, dtype=np.float64)
        anchor_total = None if anchor_total is None else -anchor_total
    if threshold is not None:
        if lowest:
            raise ValueError("the lowest counts have no threshold below them")
        if np.size(gap) != k:
            raise ValueError("above a threshold every selected group has a gap")
        y = y + float(threshold)
    found = combined(
        y,
        each,
        anchor_total,
        confidence,
        noise=noise,
        scale=scale,
        measuring_scale=measuring_scale,
        threshold_scale=None if threshold is None else scale,
        resolution=resolution,
        ranked=True,
        measuring_resolution=measuring_resolution,
    )
    return Combined(-found.value, found.stddev, -found.high, -found.low) if lowest else found


def from_measurements(
    value: ArrayLike, *, scale: Real, resolution: int | None = None, confidence: Real = 0.95
) -> Combined:
    """Return value, standard deviation and interval of counts with Laplace noise and without gaps.

    >>> found = from_measurements([120.0, 7.0], scale=10)
    >>> found.low.round(1), found.high.round(1)
    (array([ 90., -23.]), array([150.,  37.]))
    """
    values = np.asarray(value, dtype=np.float64)
    width = count_offset(scale, confidence, resolution=resolution)
    deviation = np.full(values.shape, math.sqrt(laplace_variance(scale, resolution)))
    return Combined(values.copy(), deviation, values - width, values + width)


def combined(
    y: NDArray[np.float64],
    each: ArrayLike | None,
    anchor_total: Real | None,
    confidence: Real,
    *,
    noise: Noise,
    scale: Real | tuple[Real, ...],
    **law: Any,  # noqa: ANN401  further fields of `ErrorModel`
) -> Combined:
    """Estimate counts from gaps to a reference and measurements, by the error model of both."""
    if not y.size:
        return Combined(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))
    if each is not None and anchor_total is not None:
        raise ValueError("counts are measured EACH or by an ANCHOR, not both")
    strategy: Strategy = "EACH" if each is not None else "ANCHOR" if anchor_total is not None else "NONE"
    model = ErrorModel(noise, scale, y.size, strategy, **law)
    # exact: the total may have more than 53 bits
    mean = None if anchor_total is None else float(Fraction(anchor_total) / model.k)
    found = model.estimate(y, each=each, anchor_mean=mean)
    around = offsets(model, confidence)
    return Combined(found.value, model.stddev(), found.value - around.low, found.value + around.high)
