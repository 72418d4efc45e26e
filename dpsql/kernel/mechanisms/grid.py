"""Put the counts and the noise of one mechanism on a common grid, and draw that noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.mechanisms.arguments import Noise


@dataclass(frozen=True, slots=True)
class NoiseSource:
    """Exact noise and random ranks, the only random inputs of a mechanism; tests replace it by given values.

    Attributes
    ----------
    entropy
        Source of random bits; None: the operating system's generator.
    """

    entropy: exact_noise.Entropy | None = None

    @property
    def bits(self) -> exact_noise.Entropy:
        """The source of random bits itself, for laws other than that of noise."""
        return self.entropy or exact_noise.SystemEntropy()

    def draw(
        self, noise: Noise, scale: Fraction, bits: int, size: int | tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Draw noise in grid steps, for a scale in counts: one-sided, or two-sided for Laplace."""
        sampler = exact_noise.laplace if noise == "laplace" else exact_noise.geometric
        return sampler(exact_noise.rate(scale, bits), size, entropy=self.entropy)

    def draw_reaching(
        self, noise: Noise, scale: Fraction, bits: int, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw noise for each entry of `need`; return where it is at least `need`, and its values there."""
        sampler = exact_noise.laplace_reaching if noise == "laplace" else exact_noise.geometric_reaching
        return sampler(exact_noise.rate(scale, bits), need, entropy=self.entropy)

    def draw_band(
        self, noise: Noise, scale: Fraction, bits: int, trials: int, low: int, high: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw noise of `trials` variables below `high`; return where it is at least `low`, and it."""
        band = exact_noise.Band(exact_noise.rate(scale, bits), low, high, noise == "laplace")
        return exact_noise.reaching(band, trials, entropy=self.entropy)

    def draw_below(self, noise: Noise, scale: Fraction, bits: int, size: int, high: int) -> NDArray[np.int64]:
        """Draw noise that is below `high`."""
        rate = exact_noise.rate(scale, bits)
        return exact_noise.below(rate, high, size, two_sided=noise == "laplace", entropy=self.entropy)

    def box(self, rate: Fraction, dimension: int, trials: int) -> NDArray[np.int64]:
        """Draw box noise in grid steps, of shape (trials, dimension)."""
        return exact_noise.box(rate, dimension, trials, entropy=self.entropy)

    def cube(self, rate: Fraction, dimension: int, trials: int) -> NDArray[np.int64]:
        """Draw cube noise in grid steps, of shape (trials, dimension)."""
        return exact_noise.cube(rate, dimension, trials, entropy=self.entropy)

    def gaussian(self, variance: int, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Draw Gaussian noise in grid steps, for a variance in squared grid steps."""
        return exact_noise.gaussian(variance, size, entropy=self.entropy)

    def ranks(self, n: int, *, trials: int | None = None) -> NDArray[np.int64]:
        """Draw a uniformly random permutation of 0..n-1, or one a trial; the larger rank wins a tie."""
        return exact_noise.ranks(n, trials=trials, entropy=self.entropy)


SYSTEM = NoiseSource()
"""Noise made of the operating system's random bits."""


def grid_of(noise: Noise, resolution: int | None, *scales: Fraction) -> int:
    """Choose b of the grid 2^-b counts: 0 for geometric noise, else by the smallest scale.

    Raises `ValueError` if `resolution` is not allowed or a scale too large for the grid.
    """
    if noise == "geometric" and resolution not in {None, 0}:
        raise ValueError("geometric noise lives on whole counts: resolution must be 0 or left out")
    bits = usual_grid(noise, *scales) if resolution is None else resolution
    for scale in scales:
        exact_noise.rate(scale, bits)
    return bits


def usual_grid(noise: Noise, *scales: Fraction) -> int:
    """Return the default b of the grid of 2^-b counts, as chosen by `grid_of`."""
    return 0 if noise == "geometric" else exact_noise.resolution(min(scales))


def placed(counts: NDArray[np.int64], bits: int, *, negated: bool) -> NDArray[np.int64]:
    """Convert counts to grid steps; negated, before any noise, if the smallest are wanted."""
    values = exact_noise.place(counts, bits)
    if negated:
        np.negative(values, out=values)
    return values


def in_counts(steps: NDArray[np.int64] | NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Convert released grid steps to counts; exact up to 2^53 steps, rounded to nearest beyond."""
    return np.multiply(steps, 0.5**bits, dtype=np.float64)
