"""Measurements of selected counts: what was measured, and the noise it was measured with."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.noise_laws import Source
from dpsql.estimates.variance import Real, laplace_variance
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Independent Laplace noise on each count (EACH), or on their total (ANCHOR)."""

    scale: Real
    """Scale as drawn, in counts."""
    resolution: int | None = None
    """The noise is a multiple of 2^-resolution; None: so fine that it does not matter."""
    total: bool = False
    """The noise is on the total."""

    @property
    def variance(self) -> float:
        """Variance as drawn, of a count or of the total."""
        return laplace_variance(self.scale, self.resolution)


@dataclass(frozen=True, slots=True)
class SharedNoise:
    """One noise on all counts: its two uncorrelated parts, in squared counts."""

    own: float
    """Variance of the part that each count has by itself."""
    shared: float
    """Variance of the part that all counts share."""

    @property
    def variance(self) -> float:
        """Variance of the measurement of one count."""
        return self.own + self.shared


@dataclass(frozen=True, slots=True)
class BoxNoise(SharedNoise):
    """Box or cube noise on all counts (BOX); cube noise shares nothing."""


@dataclass(frozen=True, slots=True)
class GaussianNoise(SharedNoise):
    """Gaussian noise on each count, and where it pays one more on all of them."""


MeasuringNoise = LaplaceNoise | SharedNoise


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Noisy counts, or their noisy total, of the selected groups."""

    value: ArrayLike
    """float64[k]; the total: one number."""
    noise: MeasuringNoise
    half_width: float | None = None
    """Half the width of the interval around each value; None for a total."""
    source: Source | None = None
    """The draw of the noise; None: what else it is on is not known."""
    place: int = 0
    """The place of the number among those that were measured."""

    def counts(self) -> NDArray[np.float64]:
        """Return the values as an array."""
        return np.asarray(self.value, dtype=np.float64)

    def mean(self, k: int) -> float:
        """Return the mean of k counts whose total was measured, exactly: the total may have many bits."""
        total = self.value if isinstance(self.value, Real) else float(self.counts().item())
        return float(Fraction(total) / k)

    def negate(self) -> Measurement:
        """Return the measurement of the negated counts."""
        value = -self.value if isinstance(self.value, Real) else -self.counts()
        return Measurement(value, self.noise, self.half_width, self.source, self.place)
