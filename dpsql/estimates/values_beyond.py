"""What values have beyond the bounds to which they are cut, as it was released once and is kept."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from dpsql.estimates.closed_form import count_offset
from dpsql.estimates.variance import Real
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

    Attributes
    ----------
    low, high
        The bounds.
    rows
        B, how many rows of a unit counted in full; rows beyond were weighted down.
    width
        w, the most by which one value counted, in steps, and what it added to all three numbers.
    step
        What a step is worth.
    epsilon
        Of the release: each number has noise of scale B w/epsilon, in steps.
    above, below, left
        The numbers, in steps.

    Notes
    -----
    One unit adds at most B w to the three numbers together (`analysis.value_measures`), so independent noise
    of scale B w/epsilon on each has the loss epsilon. Their sum is w times the number of weighted values, so
    the part of it that is above is the mean distance of all values above the bounds, where units have equal
    weights beyond B rows. Distances are cut at w: the estimate assumes that no value is farther than that.
    """

    low: Fraction
    high: Fraction
    rows: int
    width: int
    step: Fraction
    epsilon: Fraction
    above: int
    below: int
    left: int

    def __post_init__(self) -> None:
        whole = (self.rows, self.width, self.above, self.below, self.left)
        if not all(type(each) is int for each in whole) or min(self.rows, self.width) < 1:
            raise ValueError("the numbers of values beyond bounds are whole")
        if self.epsilon.numerator <= 0 or self.step.numerator <= 0 or self.low > self.high:
            raise ValueError("these are no values beyond bounds")

    @property
    def farthest(self) -> tuple[Fraction, Fraction]:
        """The ends beyond which no value is taken to lie."""
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
        """Read what `to_data` returned."""
        read: dict[str, Any] = {n: Fraction(v) if n in _FRACTIONS else v for n, v in data.items()}
        return cls(**read)
