"""What is kept of the contributions of units: noisy numbers of units by size, and what they say of a bound.

All of it is a function of one release: a largest size M, and a noisy number of units in each bin of sizes.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.box_law import box_variance
from dpsql.estimates.noise_laws import Real, laplace_variance
from dpsql.estimates.noise_quantiles import check_confidence, count_offset
from dpsql.kernel.mechanisms.ladder import thresholds
from dpsql.kernel.mechanisms.measure import pads
from dpsql.lazy_dataclass import dataclass

_FRACTIONS = ("low", "high", "step", "epsilon")


class Side(NamedTuple):
    """By how much the values beyond one end of the bounds lie beyond it, on average over all values."""

    about: float
    """The estimate, not below 0."""
    noise: float
    """How far the noise may have moved it, to each side, at a confidence."""


@dataclass(frozen=True, slots=True)
class ValuesBeyond:
    """Three noisy numbers of the values of a column: above its bounds, below, and what these leave.

    Notes
    -----
    One unit adds at most B w to the three numbers together (`analysis.value_measures`), so independent noise
    of scale B w/epsilon on each has the loss epsilon. Their sum is w times the number of weighted values, so
    the part of it that is above is the mean distance of all values above the bounds, where units have equal
    weights beyond B rows. Distances are cut at w: the estimate assumes that no value is farther than that.
    """

    low: Fraction
    high: Fraction
    """The bounds."""
    rows: int
    """B, how many rows of a unit counted in full; rows beyond were weighted down."""
    width: int
    """w, the most by which one value counted, in steps, and what it added to all three numbers."""
    step: Fraction
    """What a step is worth."""
    epsilon: Fraction
    """Of the release: each number has noise of scale B w/epsilon, in steps."""
    above: int
    below: int
    left: int
    """The numbers, in steps."""

    def __post_init__(self) -> None:
        whole = (self.rows, self.width, self.above, self.below, self.left)
        if not all(type(each) is int for each in whole) or min(self.rows, self.width) < 1:
            raise ValueError("the numbers of values beyond bounds are whole")
        if self.epsilon.numerator <= 0 or self.step.numerator <= 0 or self.low > self.high:
            raise ValueError("these are no values beyond bounds")

    @property
    def farthest(self) -> tuple[Fraction, Fraction]:
        """The lowest and the highest value that the measurement assumes possible."""
        return self.low - self.width * self.step, self.high + self.width * self.step

    def side(self, above: bool, *, confidence: Real = 0.95) -> Side:
        """Return the mean distance of values above the bounds, or below, over all values."""
        scale = self.rows * self.width / self.epsilon
        width = count_offset(float(scale), confidence, resolution=0)
        # In units of values; where noise may be all of their number, nothing is known.
        values = (self.above + self.below + self.left - width) / self.width
        most = float(self.width * self.step)
        if values <= 0:
            return Side(0.0, most)
        step = float(self.step)
        found = max(self.above if above else self.below, 0) * step / values
        return Side(min(found, most), min(width * step / values, most))

    def to_data(self) -> dict[str, Any]:
        """Return this value as plain texts and whole numbers."""
        names = ("rows", "width", "above", "below", "left")
        return {name: getattr(self, name) for name in names} | {
            name: str(getattr(self, name)) for name in _FRACTIONS
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> ValuesBeyond:
        """Return the numbers beyond a bound that `to_data` wrote as JSON values."""
        read: dict[str, Any] = {n: Fraction(v) if n in _FRACTIONS else v for n, v in data.items()}
        return cls(**read)


_PLACES = 20
"""Binary places of the middle of a bin."""


class Shared(NamedTuple):
    """The numbers of groups with what was cut given back by shares, and the ends of their intervals."""

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    grows: float
    """By how much the noise of a value is more than that of the number it is computed from, at most."""


@dataclass(frozen=True, slots=True)
class KeptLadder:
    """Noisy numbers of units by the size of what they contribute to a table: released once, and kept.

    Sizes and bounds are whole numbers of steps. What is computed is in the unit of the measure: a step is
    worth `step` of it.

    Notes
    -----
    The numbers of units above each threshold are sums of bins. They are made to decrease: half the sum of
    the largest one at this threshold or above, and of the least one at it or below; and not negative. Their
    differences are the numbers of units of the bins; a unit counts with the geometric middle of the whole
    numbers in its bin, and above M with sqrt(2) M. All is computed in whole numbers, so that the same
    release gives the same bound everywhere.

    A bound that is chosen is an end of a bin, so that it is known of each bin whether its units are cut: were
    all of them as large as its end, a bound at the middle would seem to cut none. For the same reason
    intervals count with the largest size of each bin, above M with 2M; they assume nothing of the sizes but
    that no unit is beyond 2M.
    """

    number: int
    """The number of the release."""
    table: str
    measure: str
    """What of a unit is measured: its rows, or a total of a column, in a table."""
    step: Fraction
    """What a step is worth."""
    version: str
    """Fingerprint of the version of the data."""
    made: datetime
    """When it was released, with a time zone."""
    epsilon: Fraction
    """Of M and the bins: a half chose M, the other half is for the noise of the bins."""
    most: int
    """M: the upper end of the bins, in steps; beyond 2M is no unit, as every interval assumes."""
    bins: tuple[int, ...]
    """Noisy numbers of units with sizes up to each of `thresholds(most)`, and last of those above M."""
    beyond: ValuesBeyond | None = None
    """What the values of the column have beyond their bounds; None: that was not released."""

    @property
    def price(self) -> Fraction:
        """The epsilon that the whole ladder cost when it was measured."""
        return self.epsilon + (0 if self.beyond is None else self.beyond.epsilon)

    def __post_init__(self) -> None:
        if self.epsilon.numerator <= 0 or self.step.numerator <= 0:
            raise ValueError("epsilon and the step of a kept ladder are positive")
        texts = (self.table, self.measure, self.version)
        if not all(type(each) is int for each in (self.number, *self.bins)):
            raise ValueError("the numbers of a kept ladder are whole")
        if not all(type(each) is str for each in texts):
            raise ValueError("the names in a kept ladder are texts")
        if len(self.bins) != len(thresholds(self.most)) + 1:
            raise ValueError("a kept ladder has a number for each of its bins")
        if self.made.tzinfo is None:
            raise ValueError("the time of a kept ladder has a time zone")

    def cut(self, bound: int, *, largest: bool = False) -> float:
        """Estimate how much of the total is beyond a bound on each unit; by the largest sizes of the bins."""
        return float(Fraction(self._curve(largest).cut(bound), 2 << _PLACES) * self.step)

    def sd(self, bound: int, *, largest: bool = False) -> float:
        """Return the standard deviation that the noise of the bins gives to `cut`."""
        beyond = [float(max(size - (bound << _PLACES), 0)) for size in self._curve(largest).sizes]
        noise = math.sqrt(laplace_variance(2 / self.epsilon, 0))
        return noise * math.hypot(*beyond) * 0.5**_PLACES * float(self.step)

    def most_cut(self, bound: int, *, confidence: Real = 0.95) -> float:
        """Return the upper end of the amount that may be cut by a bound, at a confidence."""
        return self.cut(bound, largest=True) + _normal(confidence) * self.sd(bound, largest=True)

    @property
    def total(self) -> float:
        """Estimate the sum of the measured column over all units."""
        return self.cut(0)

    @property
    def units_above(self) -> int | None:
        """The noisy number of units above M; None: at 95% it may be 0.

        If there are any, M was not found: too few units were above it for its epsilon, or few are far above
        all others. That none is beyond 2M is then no more than a guess.
        """
        width = count_offset(float(2 / self.epsilon), resolution=0)
        return self.bins[-1] if self.bins[-1] > width else None

    def _curve(self, largest: bool) -> _Curve:
        return _curve(self.most, self.bins, largest)

    def choose_bound(
        self,
        epsilon: Fraction,
        *,
        groups: int = 1,
        counts: int = 1,
        given_back: bool = True,
        even: bool = False,
    ) -> int:
        """Return the end of a bin, in steps, that makes the least error as a bound: of noise, and by the cut.

        The noise counts twice: that of the bins makes numbers of units above a threshold, which are not
        negative, seem larger than they are, and so what is cut.

        Parameters
        ----------
        epsilon
            Of what is measured.
        groups
            Into how many groups the total is divided; 1: there are none, and nothing is given back.
        counts
            How many numbers one noise is for.
        given_back
            Whether `shared` gives back to groups what is cut.
        even
            Whether what is cut is from many groups alike, as where it is groups of units that are cut.
        """
        if epsilon.numerator <= 0:
            raise ValueError("epsilon must be positive")
        kept = _divisor(groups, given_back=given_back, even=even)
        # v (B/epsilon)^2 + cut^2/kept, times all denominators.
        variance = 2 * Fraction(box_variance(_at_least_one(counts), pads(counts)))
        noise = (variance.numerator * epsilon.denominator**2 * kept) << 2 * (_PLACES + 1)
        lost = variance.denominator * epsilon.numerator**2

        curve = self._curve(largest=False)

        def error(bound: int) -> int:
            return noise * bound**2 + lost * curve.cut(bound) ** 2

        return min(thresholds(self.most), key=error)

    def bound_within(
        self, error: Fraction, *, groups: int = 1, given_back: bool = True, even: bool = False
    ) -> int:
        """Return the least end of a bin that cuts at most half of an error, as a bound; M if none does.

        The error is one of a number, in the unit of the measure; what else is given, as above.
        """
        if error.numerator <= 0:
            raise ValueError("an error must be positive")
        parts = math.isqrt(_divisor(groups, given_back=given_back, even=even))
        curve, most = self._curve(largest=False), error * parts / self.step * (1 << _PLACES)
        ends = thresholds(self.most)
        return next((end for end in ends if curve.cut(end) <= most), ends[-1])

    def choose_average_bound(
        self, epsilon: Fraction, *, groups: int = 1, moved: Fraction = Fraction(1, 40)
    ) -> int:
        """Return the bound on rows, in steps, that makes the least error of averages.

        Weighting a unit keeps its own average, so what is cut moves an average little: by a twentieth of the
        range of the values for all rows, as intervals assume. That is weighed against the noise.

        Parameters
        ----------
        epsilon
            Of what is measured.
        groups
            Of how many groups there are averages.
        moved
            By which part of the range what is cut moves an average, for its share of the rows.
        """
        if epsilon.numerator <= 0:
            raise ValueError("epsilon must be positive")
        noise, curve = Fraction(6 * _at_least_one(groups), 5) / epsilon, self._curve(largest=False)

        def error(bound: int) -> Fraction:
            return (noise * bound) ** 2 + (moved * Fraction(curve.cut(bound), 1 << _PLACES)) ** 2

        return min(thresholds(self.most), key=error)

    def divide_by_shares(
        self,
        values: ArrayLike,
        half_width: ArrayLike,
        bound: int,
        *,
        selected: bool = False,
        confidence: Real = 0.95,
    ) -> Shared:
        """Add to the numbers of groups what a bound on units cut, divided by the groups' shares.

        The intervals assume that no group has more than twice its share of it. The share of a
        group's upper end is that of the most that it may have within the bound. Of all groups the shares are
        given back. Where the largest were selected, half of them are: units beyond the bound tend to have
        more groups than others, and less of their whole in the largest.

        Parameters
        ----------
        values, half_width
            The measured numbers of the groups, and half the widths of the intervals of their noise.
        bound
            On the total of a unit over all groups.
        selected
            Whether there are more groups than these: shares are then of what a total measured with this
            bound would be, else of their sum.
        confidence
            Of the intervals, and of the half widths.
        """
        found = np.asarray(values, dtype=np.float64)
        width, kept = np.asarray(half_width, dtype=np.float64), np.maximum(found, 0)
        left = max(self.total - self.cut(bound), 0.0)
        whole, back = (left, self.cut(bound) / 2) if selected else (float(kept.sum()), self.cut(bound))
        even = 1.0 if selected else 1 / max(found.size, 1)

        def share(values: NDArray[np.float64], of: float) -> NDArray[np.float64]:
            return np.minimum(np.maximum(values, 0) / of, 1) if of > 0 else np.full(found.shape, even)

        high = found + width
        most = 2 * self.most_cut(bound, confidence=confidence) * share(high, min(whole, left) or whole)
        grows = 1 + back / whole if whole > 0 else 1.0
        return Shared(found + back * share(found, whole), found - width, high + most, grows)

    def to_json(self) -> str:
        """Return the one text of this value: keys in order, no spaces, fractions as texts."""
        written = {name: getattr(self, name) for name in ("number", "table", "measure", "version", "most")}
        written |= {"step": str(self.step), "epsilon": str(self.epsilon), "bins": list(self.bins)}
        written["made"] = self.made.isoformat()
        if self.beyond is not None:
            written["beyond"] = self.beyond.to_data()
        return json.dumps(written, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> KeptLadder:
        """Read what `to_json` wrote; `ValueError` for anything else."""
        try:
            read = json.loads(text)
            read |= {name: Fraction(read[name]) for name in ("step", "epsilon")}
            read |= {"bins": tuple(read["bins"]), "made": datetime.fromisoformat(read["made"])}
            if "beyond" in read:
                read["beyond"] = ValuesBeyond.of_data(read["beyond"])
            found = cls(**read)
            same = found.to_json() == text
        except (TypeError, KeyError, AttributeError, ArithmeticError) as error:
            raise ValueError("this is not a kept ladder") from error
        if not same:
            raise ValueError("this is not a kept ladder as it is written")
        return found


@dataclass(frozen=True, slots=True)
class _Curve:
    """The estimated numbers of units by size, in whole numbers."""

    sizes: tuple[int, ...]
    """The size with which the units of a bin count, in 2^-20 steps; ascending."""
    above: tuple[int, ...]
    """Twice the number of units in this bin or beyond; it decreases, to 0 after the last bin."""
    total: tuple[int, ...]
    """Twice the total of these units, in 2^-20 steps."""

    def cut(self, bound: int) -> int:
        """Return twice the estimated amount that a bound cuts from all units, in steps of 2^-20."""
        least = bound << _PLACES
        first = bisect_right(self.sizes, least)
        return self.total[first] - least * self.above[first]


@lru_cache(maxsize=512)
def _curve(most: int, bins: tuple[int, ...], largest: bool) -> _Curve:
    sizes = [end << _PLACES for end in (*thresholds(most), 2 * most)] if largest else _middles(most)
    beyond = list(accumulate(reversed(bins)))[::-1]
    highest = list(accumulate(reversed(beyond), max))[::-1]
    least = accumulate(beyond, min)
    above = [*(max(0, high + low) for high, low in zip(highest, least, strict=True)), 0]
    each = [(above[i] - above[i + 1]) * size for i, size in enumerate(sizes)]
    total = list(accumulate(reversed(each), initial=0))[::-1]
    return _Curve(tuple(sizes), tuple(above), tuple(total))


def _middles(most: int) -> list[int]:
    """Return the geometric middles of the whole numbers of the bins, in 2^-20 steps."""
    ends = thresholds(most)
    squares = [(low + 1) * high for low, high in zip((0, *ends), ends, strict=False)]
    return [math.isqrt(square << 2 * _PLACES) for square in (*squares, 2 * most * most)]


def _divisor(groups: int, *, given_back: bool, even: bool) -> int:
    """Return the ratio of (all that bounds cut)^2 to (a group's error)^2, on average over groups.

    Of d groups of one size it would be d^2, and where few have nearly all, about d: it is between, d^(3/2).
    What is given back leaves half of the error.
    """
    if _at_least_one(groups) == 1:
        return 1
    return (4 if given_back else 1) * (groups**2 if even else math.isqrt(groups**3))


def _at_least_one(value: int) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("a size or number of a kept ladder is a whole number, at least 1")
    return value


def _normal(confidence: Real) -> float:
    """Return the standard deviations to each side that cover normal noise at this confidence."""
    from statistics import NormalDist  # noqa: PLC0415  few answers have such intervals

    return NormalDist().inv_cdf((1 + check_confidence(confidence)) / 2)
