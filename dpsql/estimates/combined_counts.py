"""Counts with standard deviations, intervals and p-values, computed from the release of a mechanism.

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

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.linear_estimates import ErrorModel, GapNoise, top_k_offsets
from dpsql.estimates.noise_laws import Linear, Measurement, Noise, Real, SharedNoise, check_noise, positive
from dpsql.estimates.noise_quantiles import check_confidence, count_offset, quantiles, threshold_gap_offsets
from dpsql.estimates.number_noises import Made
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
    if measuring is None and not gaps.is_floored:
        return Offsets(sides[:, 0], sides[:, 1])
    # The law is that of continuous noise. Discrete noise on a coarse grid has another variance: scale by it.
    continuous = np.array([sum(term.variance for term in model.terms(g)) for g in range(len(scales))])[group]
    ratio = model.stddev() / np.sqrt(continuous)
    return Offsets(sides[:, 0] * ratio, sides[:, 1] * ratio)


def _sides(model: ErrorModel, group: int, level: float) -> tuple[float, float]:
    gaps = model.gaps
    if model.measuring is None and gaps.threshold_scale is not None:
        grid = None if gaps.is_floored else gaps.resolution
        scale = model.groups()[0][group]
        return threshold_gap_offsets(gaps.noise, scale, gaps.threshold_scale, level, resolution=grid)
    low, high = quantiles(model.terms(group), (1 - level) / 2)
    return high, -low


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
    together: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    """Lower and upper ends of intervals that hold for all numbers of a release at once, whichever of them are
    looked at because of their noise; None: they are not known."""
    made: Made | None = None
    """What the numbers are made of; None: that is not known, and so is the error of what is computed."""

    @classmethod
    def empty(cls) -> Combined:
        """Return the estimates of no counts."""
        return cls(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))

    def negate(self) -> Combined:
        """Return the estimates of the counts with the other sign: of -n for each count n."""
        turned = None if self.together is None else (-self.together[1], -self.together[0])
        made = self.made.scale(-1.0) if isinstance(self.made, Linear) else None
        return Combined(-self.value, self.stddev, -self.high, -self.low, turned, made)

    def take(self, rows: NDArray[np.int64]) -> Combined:
        """Return the estimates of some of the counts, in the given order."""
        ends = None if self.together is None else (self.together[0][rows], self.together[1][rows])
        made = None if self.made is None else self.made.take(rows)
        return Combined(self.value[rows], self.stddev[rows], self.low[rows], self.high[rows], ends, made)

    def scale(self, step: float) -> Combined:
        """Return the estimates multiplied by `step`, the size of a count in another unit."""
        ends = None if self.together is None else (self.together[0] * step, self.together[1] * step)
        made = None if self.made is None else self.made.scale(step)
        return Combined(self.value * step, self.stddev * step, self.low * step, self.high * step, ends, made)

    def within(self, low: float, high: float) -> Combined:
        """Return the estimates and the ends of intervals cut to a range that the truth lies in."""
        ends = None
        if self.together is not None:
            ends = (np.clip(self.together[0], low, high), np.clip(self.together[1], low, high))
        value, least, most = (np.clip(part, low, high) for part in (self.value, self.low, self.high))
        return Combined(value, self.stddev, least, most, ends, self.made)

    def at_once(self, wider: Combined) -> Combined:
        """Return the estimates with the wider of two intervals each, which all hold at once.

        They contain those of one number: each end is the farther one.
        """
        # An end that is missing (NaN) in either is missing.
        return replace(self, together=(np.minimum(self.low, wider.low), np.maximum(self.high, wider.high)))


def from_top_k(
    gap: ArrayLike,
    k: int,
    noise: GapNoise,
    measured: Measurement | None = None,
    *,
    threshold: Real | None = None,
    lowest: bool = False,
    confidence: Real = 0.95,
) -> Combined:
    """Estimate the counts that a noisy top-k with gap selected, from its gaps and the measurements.

    For a hybrid top-k that reached its threshold, pass the public threshold: the last gap is then the gap
    over it, the gaps alone give estimates, and measurements improve them. (The cutoff of the limited domain
    mechanism is private: do not pass it.) If no group was selected, all arrays are empty.

    Parameters
    ----------
    gap, k
        As the mechanism reports them: k gaps in counts, k - 1 when all groups were selected.
    noise
        The noise of the gaps, as the mechanism reports it; leave out its threshold.
    measured
        What was measured of the k counts.
    threshold
        The public threshold that was reached; None for a plain top-k.
    lowest
        The lowest counts were selected, and gaps are upward. Not with a threshold.
    confidence
        Level of the intervals; those of one noise for all counts have the half-width of the measurement.

    Raises
    ------
    ValueError
        For wrong shapes, and when neither a measurement nor a threshold fixes the counts.

    Examples
    --------
    >>> from dpsql.estimates import LaplaceNoise
    >>> total = Measurement(300, LaplaceNoise(8, total=True))
    >>> found = from_top_k([40.0, 12.0], 2, GapNoise("exponential", 4), total)
    >>> found.value, found.low.round(1), found.high.round(1)
    (array([170., 130.]), array([156.9, 116.9]), array([183.1, 143.1]))
    """
    if k == 0 and not np.size(gap):
        return Combined.empty()
    y = top_k_offsets(gap, k, noise.resolution)
    if lowest:  # the mechanism ran on the negated counts
        if threshold is not None:
            raise ValueError("the lowest counts have no threshold below them")
        turned = None if measured is None else measured.negate()
        return combine(y, noise, turned, confidence).negate()
    if threshold is None:
        return combine(y, noise, measured, confidence)
    if np.size(gap) != k:
        raise ValueError("above a threshold every selected group has a gap")
    return combine(y + float(threshold), noise.over_threshold(), measured, confidence)


def from_measurement(measured: Measurement) -> Combined:
    """Return counts that are known by their measurement alone, with standard deviations and intervals.

    >>> from dpsql.estimates import LaplaceNoise
    >>> found = from_measurement(Measurement([120.0, 7.0], LaplaceNoise(10), half_width=30))
    >>> found.low, found.high
    (array([ 90., -23.]), array([150.,  37.]))
    """
    if measured.half_width is None:
        raise ValueError("a total determines no count")
    value = measured.counts()
    deviation = np.full(value.shape, math.sqrt(measured.noise.variance))
    made = None
    if measured.source is not None:
        made = Linear.alone(measured.place, value.copy(), measured.source)
    low, high = value - measured.half_width, value + measured.half_width
    return Combined(value.copy(), deviation, low, high, made=made)


def combine(
    y: NDArray[np.float64], noise: GapNoise, measured: Measurement | None, confidence: Real = 0.95
) -> Combined:
    """Estimate counts from what the gaps say of them, `y` as in `blue`, and from their measurement.

    The noise of counts is drawn after the selection and is independent of it, so the interval around the
    measurement covers at its level whatever was selected, ties included. One around the estimate would not:
    selecting favours groups whose noise was large. So the interval is the measurement's where it has one, and
    the estimate is moved into it.
    """
    model = ErrorModel(noise, y.size, None if measured is None else measured.noise)
    found = model.estimate(y, measured)
    value, deviation = found.value, model.deviation(found)
    if measured is not None and (measured.half_width is not None or isinstance(measured.noise, SharedNoise)):
        alone = from_measurement(measured)
        return replace(alone, value=np.clip(value, alone.low, alone.high), stddev=deviation)
    around = offsets(model, confidence)
    return Combined(value, deviation, value - around.low, value + around.high)


def p_value(gap: ArrayLike, scale: Real, noise: Noise = "exponential") -> NDArray[np.float64]:
    """Return the p-value of the hypothesis that some group outside the first i is at least as large.

    exp(-gap / scale): by the memoryless tail of one-sided noise. Conditioned on everything else, item i's
    noisy count exceeds that group's by an exponential amount at most, and the gap is no larger. Valid for
    the i-th gap of a noisy top-k, and for noisy max as the first. A floored gap gives a larger p-value, so no
    correction is needed. A gap over a *threshold* has no such p-value.

    Parameters
    ----------
    gap
        Gaps in counts as released, any shape.
    scale
        Scale of the selection noise actually used, in counts.
    noise
        "exponential" or "geometric".

    Raises
    ------
    ValueError
        For Laplace noise, whose differences are not memoryless, and for a negative gap.

    Examples
    --------
    >>> p_value([0, 20.0], 10)
    array([1.        , 0.13533528])
    """
    check_noise(noise)
    if noise == "laplace":
        raise ValueError("the p-value of a gap needs one-sided noise: it is not valid under Laplace noise")
    return np.exp(-_gaps(gap) / positive(scale, "scale"))


def exponential_mechanism_p_value(gap: ArrayLike, scale: Real) -> NDArray[np.float64]:
    """Return the p-value of the hypothesis that the exponential mechanism did not select a largest group.

    2 / (1 + exp(gap / scale)): Theorem 5.14 of Ding's dissertation on free gap information, with the gap in
    counts, of any shape.

    `scale` is in counts per unit of log-odds: bound / epsilon for monotone counts, else 2 bound / epsilon.

    >>> exponential_mechanism_p_value(0, 10), exponential_mechanism_p_value(36.6, 10).round(3)
    (array(1.), np.float64(0.05))
    """
    # written with the vanishing exponential, so that a large gap gives 0 and no overflow
    small = np.exp(-_gaps(gap) / positive(scale, "scale"))
    return np.asarray(2 * small / (1 + small))


def _gaps(gap: ArrayLike) -> NDArray[np.float64]:
    gaps = np.asarray(gap, dtype=np.float64)
    if not (gaps >= 0).all():
        raise ValueError("a gap between groups is never negative")
    return gaps
