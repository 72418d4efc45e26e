"""Intervals around estimates of independent noises: they cover the noise, whose law is public, at a level.

The error of an estimate is a weighted sum of the independent noises of selection and measuring. Its
quantiles are exact where there is a formula (`closed_form`), else the characteristic function of the sum is
inverted (`law`). One-sided noise is skewed, so the two sides may differ; both tails have the same
probability.

Selection by noisy counts causes selection bias, which an interval for the noise does not include. Counts far
apart are covered at the requested level. When counts tie, the first of the list is estimated too high: with
100 equal counts, k = 10 and 95% intervals, exponential noise covers 95% of all ten but 77% (ANCHOR) or 81%
(EACH at one half) of the firsts; Laplace noise 98% or 97% of all and 84% or 90% of the firsts. So counts that
are measured one by one have the interval of their measurement (see `combine`), which is independent of the
selection; that of an anchor is an interval of the noise. A count above a threshold is covered a little less
when it lies at the threshold (94% for query scale 10 and threshold scale 4), and one far below it that passed
by chance is not covered.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.closed_form import check_confidence, count_offset, threshold_gap_offsets
from dpsql.estimates.error_model import ErrorModel
from dpsql.estimates.law import quantiles
from dpsql.estimates.measurement import SharedNoise
from dpsql.estimates.variance import Real
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Offsets:
    """The offsets of intervals: the true counts lie in [estimate - low, estimate + high]."""

    low: NDArray[np.float64]
    """float64[k], in counts."""
    high: NDArray[np.float64]
    """float64[k], in counts."""


def offsets(model: ErrorModel, confidence: Real = 0.95) -> Offsets:
    """Return how far each of the k true counts may lie below and above its estimate by `blue`.

    Cached; the cost grows with the number of distinct scales (branches), squared, and hardly with k.

    Parameters
    ----------
    model
        The noises of the release.
    confidence
        Level, above 0 and at most 1 - 1e-9.

    Examples
    --------
    >>> from dpsql.estimates import GapNoise, LaplaceNoise
    >>> anchor = LaplaceNoise(60, total=True)
    >>> found = offsets(ErrorModel(GapNoise("exponential", 20), 10, anchor))
    >>> found.low.round(1)[:2], found.high.round(1)[:2]
    (array([51.4, 51.4]), array([31.1, 31.1]))
    """
    level, gaps, measuring = check_confidence(confidence), model.gaps, model.measuring
    if isinstance(measuring, SharedNoise):
        raise ValueError("after one noise for all counts the interval is that of the measurement")  # noqa: TRY004  a value
    if model.k == 1 and gaps.threshold_scale is None and measuring is not None:
        # One gap to an unknown count carries no information: the estimate is the measurement.
        width = np.array([count_offset(measuring.scale, level, resolution=measuring.resolution)])
        return Offsets(width, width.copy())
    scales, _, group = model.groups()
    sides = np.array([_sides(model, one, level) for one in range(len(scales))])[group]
    if measuring is None and not gaps.floored:
        return Offsets(sides[:, 0], sides[:, 1])
    # The law is that of continuous noise. Discrete noise on a coarse grid has another variance: scale by it.
    continuous = np.array([sum(term.variance for term in model.terms(g)) for g in range(len(scales))])[group]
    ratio = model.stddev() / np.sqrt(continuous)
    return Offsets(sides[:, 0] * ratio, sides[:, 1] * ratio)


def _sides(model: ErrorModel, group: int, level: float) -> tuple[float, float]:
    gaps = model.gaps
    if model.measuring is None and gaps.threshold_scale is not None:
        grid = None if gaps.floored else gaps.resolution
        scale = model.groups()[0][group]
        return threshold_gap_offsets(gaps.noise, scale, gaps.threshold_scale, level, resolution=grid)
    low, high = quantiles(model.terms(group), (1 - level) / 2)
    return high, -low
