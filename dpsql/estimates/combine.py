"""Compute counts with standard deviations and intervals from the release of a mechanism."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.blue import top_k_offsets
from dpsql.estimates.error_model import ErrorModel, GapNoise
from dpsql.estimates.intervals import offsets
from dpsql.estimates.measurement import Measurement, SharedNoise
from dpsql.estimates.noise_laws import Linear, Made
from dpsql.estimates.variance import Real
from dpsql.lazy_dataclass import dataclass


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
    def nothing(cls) -> Combined:
        """Return the estimates of no counts."""
        return cls(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))

    def negate(self) -> Combined:
        """Return the estimates of the negated counts."""
        turned = None if self.together is None else (-self.together[1], -self.together[0])
        made = self.made.scaled(-1.0) if isinstance(self.made, Linear) else None
        return Combined(-self.value, self.stddev, -self.high, -self.low, turned, made)

    def taken(self, rows: NDArray[np.int64]) -> Combined:
        """Return the estimates of some of the counts, in the given order."""
        ends = None if self.together is None else (self.together[0][rows], self.together[1][rows])
        made = None if self.made is None else self.made.taken(rows)
        return Combined(self.value[rows], self.stddev[rows], self.low[rows], self.high[rows], ends, made)

    def scaled(self, step: float) -> Combined:
        """Return the estimates multiplied by `step`, the size of a count in another unit."""
        ends = None if self.together is None else (self.together[0] * step, self.together[1] * step)
        made = None if self.made is None else self.made.scaled(step)
        return Combined(self.value * step, self.stddev * step, self.low * step, self.high * step, ends, made)

    def within(self, low: float, high: float) -> Combined:
        """Return the estimates and the ends of intervals cut to a range that the truth lies in."""
        ends = None
        if self.together is not None:
            ends = (np.clip(self.together[0], low, high), np.clip(self.together[1], low, high))
        value, least, most = (np.clip(part, low, high) for part in (self.value, self.low, self.high))
        return Combined(value, self.stddev, least, most, ends, self.made)

    def at_once(self, wider: Combined) -> Combined:
        """Return these estimates with the intervals of others as those that hold for all numbers at once.

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
        return Combined.nothing()
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
    value = model.estimate(y, measured).value
    if measured is not None and (measured.half_width is not None or isinstance(measured.noise, SharedNoise)):
        alone = from_measurement(measured)
        return replace(alone, value=np.clip(value, alone.low, alone.high), stddev=model.stddev())
    around = offsets(model, confidence)
    return Combined(value, model.stddev(), value - around.low, value + around.high)
