"""Compute averages, sums and variances from the noisy moments of one column, with their errors.

The interval of a mean is Fieller's set, with the exact law of Laplace noise.

The moments of degree d of values in [low, high] are d + 1 numbers of rows. With x = (v - low)/(high - low)
and y = 1 - x, a row adds y and x (d = 1), or y^2, 2 x y and x^2 (d = 2): 1 in all. Each moment has
independent Laplace noise of one scale. A formula takes them divided by what one row adds, that is in rows.

Intervals cover the noise. That values were cut to [low, high], and rows weighted down, is not in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.combined_counts import Combined
from dpsql.estimates.noise_quantiles import (
    check_confidence,
    laplace_half_width,
    laplace_half_widths,
    laplace_stddev,
)
from dpsql.estimates.predictions import error_words
from dpsql.lazy_dataclass import dataclass

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
    rows = np.asarray(sum(moments), dtype=np.float64)
    return enclose_ratio(
        first_moment(moments), rows, lambda p: scale * mean_width(len(moments), confidence, p)
    )


def enclose_ratio(
    first: FloatArray, rows: FloatArray, width: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval of each ratio p in [0, 1] of two numbers, as `mean_interval` says.

    `width` returns the convex Q(p), half the width of the interval of `first` - p `rows`, which is noise.
    """
    rows = np.where(rows > 0, rows, np.nan)
    start = np.clip(first / rows, 0, 1)

    def near(p: FloatArray, first: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(np.abs(first - p * rows) <= width(p))

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
    """Return Q(p) for a given number of moments with noise of scale 1, by interpolation to 1e-6."""
    at, width = _table(parts, confidence)
    return np.interp(p, at, width)


@lru_cache(maxsize=64)
def _table(parts: int, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return points from below 0 to above 1, and Q there; no point makes two weights equal, or one 0."""
    at = (np.arange(-1, _POINTS + 1) + 0.5) / _POINTS
    return at, laplace_half_widths(np.arange(parts) / (parts - 1) - at[:, None], confidence)


Moments = Sequence[FloatArray]

_LEAST = 0.5
"""The least noisy number of rows that has an average: what rounds to no row has none."""
_FEWEST_DEVIATIONS = 3
"""Below so many standard deviations of the number of rows, a ratio to it has no standard deviation."""


@dataclass(frozen=True, slots=True)
class RowCount:
    """The number of rows: the sum of the moments."""

    parts: int
    """How many moments there are, d + 1."""

    def estimate(self, moments: Moments, scale: float, confidence: Fraction) -> Combined:
        """Estimate the number of rows of each group; `scale` is that of each moment's noise, in rows."""
        return _linear(moments, (1.0,) * self.parts, scale, confidence)

    def stddev(self, scale: float) -> float:
        """Predict the standard deviation of the estimated number of rows."""
        return scale * laplace_stddev((1.0,) * self.parts)

    def half_width(self, scale: float, confidence: Fraction) -> float:
        """Predict half the width of the interval of a number of rows."""
        return scale * laplace_half_width((1.0,) * self.parts, check_confidence(confidence))

    def describe_prediction(self, scale: float, confidence: Fraction, parts: int) -> str:
        """Write the predicted error, of a number from a given number of moments."""
        del parts
        return error_words(self.stddev(scale), self.half_width(scale, confidence))


@dataclass(frozen=True, slots=True)
class SumOfRows:
    """The sum of the values: low times the number of rows, and what the values exceed it by."""

    low: Fraction
    high: Fraction

    def estimate(self, moments: Moments, scale: float, confidence: Fraction) -> Combined:
        """Estimate the sum of each group; never NaN. `scale` is that of each moment's noise, in rows."""
        return _linear(moments, self._weights(len(moments)), scale, confidence)

    def stddev(self, scale: float, parts: int = 2) -> float:
        """Predict the standard deviation, for a sum from a given number of moments."""
        return scale * laplace_stddev(self._weights(parts))

    def half_width(self, scale: float, confidence: Fraction, parts: int = 2) -> float:
        """Predict half the width of the interval, for a sum from a given number of moments."""
        return scale * laplace_half_width(self._weights(parts), check_confidence(confidence))

    def describe_prediction(self, scale: float, confidence: Fraction, parts: int) -> str:
        """Write the predicted error, of a number from a given number of moments."""
        return error_words(self.stddev(scale, parts), self.half_width(scale, confidence, parts))

    def _weights(self, parts: int) -> tuple[float, ...]:
        """Return the weight of each moment in the sum: the values low to high at equal distances."""
        steps = (Fraction(k, parts - 1) for k in range(parts))
        return tuple(float(self.low + (self.high - self.low) * step) for step in steps)


@dataclass(frozen=True, slots=True)
class Average:
    """The average of the values: NaN where the noisy number of rows rounds to 0."""

    low: Fraction
    high: Fraction

    def estimate(self, moments: Moments, scale: float, confidence: Fraction) -> Combined:
        """Estimate the average of each group; `scale` is that of each moment's noise, in rows.

        The interval is that of `mean_interval`; it may be all of [low, high]. The standard deviation is
        that of the ratio's linear part; NaN where it would not describe the error, for few rows.
        """
        width = float(self.high - self.low)
        rows = _rows(moments)
        x = np.clip(first_moment(moments) / rows, 0, 1)
        squares = sum((k / (len(moments) - 1) - x) ** 2 for k in range(len(moments)))
        error = scale * np.sqrt(2 * squares) / rows
        low, high = mean_interval(moments, scale, check_confidence(confidence))
        ends = (float(self.low) + width * np.where(np.isnan(rows), np.nan, part) for part in (x, low, high))
        value, low, high = ends
        return Combined(value, _blank_uncertain(width * error, rows, scale, len(moments)), low, high)

    def stddev_times_n(self, scale: float, parts: int = 2, share: float = 0.0) -> float:
        """Predict the standard deviation times the number of rows, if they are many.

        `share` is where the average lies between the bounds: the error is largest at 0 and 1, and least
        at 1/2.
        """
        weights = tuple(k / (parts - 1) - share for k in range(parts))
        return float(self.high - self.low) * scale * laplace_stddev(weights)

    def half_width_times_n(
        self, scale: float, confidence: Fraction, parts: int = 2, share: float = 0.0
    ) -> float:
        """Predict half the width of the interval times the number of rows, as `stddev_times_n`."""
        level = check_confidence(confidence)
        return float(self.high - self.low) * scale * float(mean_width(parts, level, np.array([share]))[0])

    def describe_prediction(self, scale: float, confidence: Fraction, parts: int) -> str:
        """Write the predicted error, of a number from a given number of moments; n is the number of rows."""
        width = self.half_width_times_n(scale, confidence, parts)
        return error_words(self.stddev_times_n(scale, parts), width, per_row=True)


@dataclass(frozen=True, slots=True)
class Variance:
    """The statistic VAR_POP of the values of the rows, or VAR_SAMP with `sample`."""

    low: Fraction
    high: Fraction
    sample: bool

    def estimate(self, moments: Moments, scale: float, confidence: Fraction) -> Combined:
        """Estimate the variance of each group from moments of degree 2; the scale is in rows.

        It is NaN where the noisy number of rows rounds to 0, two for a sample.

        Notes
        -----
        With moments a, b, c and n rows it is f = (a c - b^2/4)/n^2 times the width of the bounds squared, cut
        to [0, 1/4]. The interval has the least and the largest f of all moments that are all within a
        distance of the noisy ones, which holds at the level; so it covers at least at the level. Where f is
        positive, it decreases in b. In a, for fixed others, it increases up to a = b + c + b^2/(2c) and
        decreases from there on; likewise in c. So its least value lies at a corner, and its largest on an
        edge.
        """
        a, b, c = moments
        least = 1.5 if self.sample else _LEAST
        rows = _rows(moments, least)
        squared = float(self.high - self.low) ** 2
        f = np.clip((a * c - b * b / 4) / rows**2, 0, 0.25)
        slopes = (c / rows - 2 * f, -b / rows / 2 - 2 * f, a / rows - 2 * f)
        error = scale * np.sqrt(2 * sum(slope**2 for slope in slopes)) / rows
        reach = -scale * np.log(-np.expm1(np.log(check_confidence(confidence)) / 3))
        below, above = ([np.maximum(part + side, 0) for part in moments] for side in (-reach, reach))
        low, high = least_variance(below, above), largest_variance(below, above)
        factor = [np.ones_like(rows)] * 3
        if self.sample:
            ends = (rows, sum(above), np.maximum(sum(below), least))
            factor = [n / (n - 1) for n in ends]
        missing = np.where(np.isnan(rows), np.nan, squared)
        return Combined(
            f * factor[0] * missing,
            _blank_uncertain(squared * error * factor[0], rows, scale, len(moments)),
            np.minimum(low, f) * factor[1] * missing,
            np.maximum(high, f) * factor[2] * missing,
        )

    def stddev_times_n(self, scale: float) -> float:
        """Predict the largest standard deviation times the number of rows, if they are many."""
        return float(self.high - self.low) ** 2 * scale * laplace_stddev((1.0,))

    def describe_prediction(self, scale: float, confidence: Fraction, parts: int) -> str:
        """Write the predicted error; n is the number of rows."""
        del confidence, parts
        return error_words(self.stddev_times_n(scale), per_row=True)


@dataclass(frozen=True, slots=True)
class Deviation:
    """The standard deviation of the values: the square root of `Variance`, and of its interval."""

    low: Fraction
    high: Fraction
    sample: bool

    def estimate(self, moments: Moments, scale: float, confidence: Fraction) -> Combined:
        """Estimate the standard deviation of each group; as `Variance`. The error is NaN where it is 0."""
        found = Variance(self.low, self.high, self.sample).estimate(moments, scale, confidence)
        root = np.sqrt(found.value)
        error = np.divide(found.stddev, 2 * root, out=np.full_like(root, np.nan), where=root > 0)
        return Combined(root, error, np.sqrt(found.low), np.sqrt(found.high))

    def describe_prediction(self, scale: float, confidence: Fraction, parts: int) -> str:
        """Write the predicted error of its square; n is the number of rows."""
        square = Variance(self.low, self.high, self.sample).describe_prediction(scale, confidence, parts)
        return f"its square: {square}"


Formula = RowCount | SumOfRows | Average | Variance | Deviation
"""What is computed from the noisy moments."""


def _linear(moments: Moments, weights: tuple[float, ...], scale: float, confidence: Fraction) -> Combined:
    """Estimate a sum of the moments with these weights."""
    value = np.asarray(sum(w * part for w, part in zip(weights, moments, strict=True)), dtype=np.float64)
    width = scale * laplace_half_width(weights, check_confidence(confidence))
    return Combined(value, np.full_like(value, scale * laplace_stddev(weights)), value - width, value + width)


def _rows(moments: Moments, least: float = _LEAST) -> FloatArray:
    """Return the noisy number of rows, NaN where it is below `least`."""
    rows = np.asarray(sum(moments), dtype=np.float64)
    return np.where(rows < least, np.nan, rows)


def _blank_uncertain(error: FloatArray, rows: FloatArray, scale: float, parts: int) -> FloatArray:
    """Return the errors of ratios to the number of rows, NaN where that is too uncertain."""
    return np.where(rows < _FEWEST_DEVIATIONS * scale * laplace_stddev((1.0,) * parts), np.nan, error)


def least_variance(below: Sequence[FloatArray], above: Sequence[FloatArray]) -> FloatArray:
    """Return the least part variance f of all moments between these, as in `Variance`."""
    b = above[1]
    corners = [_part_variance(a, b, c) for a in (below[0], above[0]) for c in (below[2], above[2])]
    return np.asarray(np.minimum.reduce(corners))


def largest_variance(below: Sequence[FloatArray], above: Sequence[FloatArray]) -> FloatArray:
    """Return the largest part variance f of all moments between these, as in `Variance`."""
    b, found = below[1], []
    for one, other in ((0, 2), (2, 0)):
        for end in (below[one], above[one]):
            best = np.divide(b * b, 2 * end, out=np.full_like(end, np.inf), where=end > 0) + b + end
            found.append(_part_variance(end, b, np.clip(best, below[other], above[other])))
    return np.asarray(np.maximum.reduce(found))


def _part_variance(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    rows = a + b + c
    part = np.divide(a * c - b * b / 4, rows**2, out=np.zeros_like(rows), where=rows > 0)
    return np.clip(part, 0, 0.25)
