"""The noise of numbers and of their excesses, measured together: one box, or Gaussian noise of each.

*Box.* A unit moves each by at most the bound, and if nothing is below 0, all in one direction.

*Gaussian*, where a statement divides its cost at one order: the numbers have one share of the cost, each
excess another. Where the excess E is of what the number A is of, 2 E - A is measured instead of E: a unit
moves it by at most the bound, as it does E (`RungBins.lead`). With independent noises X of A, Y of 2 E - A,
the noise of E is (X + Y)/2, and that of A + E is (3 X + Y)/2: less than with the noise Y on E. E then has the
sign of what units have, so that A + E is the exact number if no unit has more than 2B.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis.cut_contributions import Excess
from dpsql.estimates import pair_half_width
from dpsql.estimates.noise_laws import NoiseDraw
from dpsql.estimates.noise_quantiles import gaussian_half_width
from dpsql.estimates.predictions import half_width, in_counts, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.release import Run
from dpsql.lazy_dataclass import dataclass
from dpsql.planning.noise_shares import law_of, source_of

SHARE = Fraction(3, 20)
"""The part of the cost for the Gaussian noise of excesses."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _NoiseOfNumbers(ABC):
    """The noise of numbers that are measured together with excesses."""

    noise: mechanisms.Box | mechanisms.Gaussian
    """That of the numbers, and of a box also that of the excesses after them."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of numbers that get noise."""

    def stddev(self, number: int) -> float:
        """Return the standard deviation of a number, in its steps."""
        return stddev(self.noise, number)

    def half_width(self, number: int, level: Fraction) -> float:
        """Return half the width of the interval of a number, in its steps."""
        return half_width(self.noise, level, number)

    @property
    def sources(self) -> list[NoiseDraw]:
        """The draws of noise of all numbers."""
        law = law_of(self.noise)
        return [source_of(self.noise, law, number) for number in range(self.size)]


@dataclass(frozen=True, slots=True)
class BoxOfAll(_NoiseOfNumbers):
    """One draw of noise in a box, or cube, for numbers and for the excesses after them."""

    noise: mechanisms.Box
    numbers: int
    """How many of them are numbers."""

    @property
    def name(self) -> str:
        """The name of the mechanism, as in `Quote`."""
        return "box of numbers and excess" if self.noise.pads else "cube of numbers and excess"

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of all measured numbers together."""
        return self.noise.loss

    def run(self, run: Run, numbers: Sequence[int], excesses: Sequence[int]) -> FloatArray:
        """Measure the numbers at some places of a run, then the excesses; return them, in their steps."""
        return run.measure(self.noise, (*numbers, *excesses), run.every()).value

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.numbers

    def leads(self, excess: int) -> bool:
        """Whether an excess is measured as twice the excess less its number, which takes less noise."""
        return False

    def excess_of(self, found: FloatArray, excess: int, number: int, worth: float) -> float:
        """Return an excess, in its steps, from what was measured."""
        return float(found[self.numbers + excess])

    def excess_half_width(self, excess: int, number: int, worth: float, level: Fraction) -> float:
        """Return half the width of the interval of an excess, in its steps."""
        return half_width(self.noise, level, self.numbers + excess)

    def sum_half_width(self, excess: int, number: int, worth: float, level: Fraction) -> float:
        """Return half the width of the interval of a number plus its excess, in the number's steps.

        `worth` is what a step of the excess is worth in these.
        """
        at, box = self.numbers + excess, self.noise
        unit = max(in_counts(box, number, 1), worth * in_counts(box, at, 1))
        width = pair_half_width(box.size, box.pads, float(level)) * unit
        return width + box.step(number) + worth * box.step(at)


@dataclass(frozen=True, slots=True)
class GaussianOfEach(_NoiseOfNumbers):
    """Gaussian noise on numbers, and on the excesses beyond the bounds of some of the numbers."""

    noise: mechanisms.Gaussian
    apart: tuple[mechanisms.Gaussian, ...]
    """The noise of each excess."""
    along: tuple[bool, ...]
    """Of each, whether it is measured as twice of it less its number."""

    name = "Gaussian noise on numbers and excess"

    @classmethod
    def plan(
        cls, bounds: Sequence[int], excesses: Sequence[Excess], rho: Fraction, *, monotone: bool
    ) -> GaussianOfEach:
        """Divide a cost; raises `ValueError` if the noise would be too large."""
        part = SHARE * rho / len(excesses)
        rest = rho - part * len(excesses)
        noise = mechanisms.Gaussian.plan(len(bounds), rest, sensitivity=bounds, monotone=monotone)
        apart = tuple(mechanisms.Gaussian.plan(1, part, sensitivity=each.most) for each in excesses)
        return cls(noise, apart, tuple(each.along for each in excesses))

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of all numbers together."""
        return sum((each.loss for each in self.apart), self.noise.loss)

    def run(self, run: Run, numbers: Sequence[int], excesses: Sequence[int]) -> FloatArray:
        """Measure the numbers, then what is measured of the excesses; return them, in their steps."""
        only = run.every()
        first = run.measure(self.noise, numbers, only)
        pairs = zip(self.apart, excesses, strict=True)
        others = [run.measure(noise, (place,), only) for noise, place in pairs]
        return np.concatenate([first.value, *(each.value for each in others)])

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.noise.size

    def leads(self, excess: int) -> bool:
        """Whether an excess is measured as twice the excess less its number, which takes less noise."""
        return self.along[excess]

    def excess_of(self, found: FloatArray, excess: int, number: int, worth: float) -> float:
        """Return an excess, in its steps, from what was measured."""
        own = float(found[self.noise.size + excess])
        return (own + float(found[number]) / worth) / 2 if self.along[excess] else own

    def excess_half_width(self, excess: int, number: int, worth: float, level: Fraction) -> float:
        """Return half the width of the interval of an excess, in its steps."""
        weight, own = (0.5 / worth, 0.5) if self.along[excess] else (0.0, 1.0)
        return self._half_width(excess, number, weight, own, level)

    def sum_half_width(self, excess: int, number: int, worth: float, level: Fraction) -> float:
        """Return half the width of the interval of a number and its excess together, as `BoxOfAll`."""
        weight, own = (1.5, worth / 2) if self.along[excess] else (1.0, worth)
        return self._half_width(excess, number, weight, own, level)

    def _half_width(self, excess: int, number: int, weight: float, own: float, level: Fraction) -> float:
        apart = self.apart[excess]
        deviation = math.hypot(weight * stddev(self.noise, number), own * stddev(apart))
        steps = weight * (self.noise.step(number) + self.noise.rounding)
        steps += own * (apart.step(0) + apart.rounding)
        return gaussian_half_width(deviation**2, float(level)) + steps


NoiseOfAll = BoxOfAll | GaussianOfEach
