"""Put the counts and the noise of one mechanism on a common grid, and draw that noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from dpsql.mechanisms.arguments import Noise

__all__ = [
    "SYSTEM",
    "NoiseSource",
    "grid_of",
    "in_counts",
    "placed",
    "usual_grid",
]


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

    def placed(counts: NDArray[np.int64], bits: int, *, negated: bool) -> NDArray[np.int64]:
    """Convert counts to grid steps; negated, before any noise, if the smallest are wanted."""
    values = exact_noise.place(counts, bits)
    if negated:
        np.negative(values, out=values)
    return values


def in_counts(steps: NDArray[np.int64], bits: int) -> NDArray[np.float64]:
    """Convert released grid steps to counts; exact up to 2^53 steps, rounded to nearest beyond."""
    return np.multiply(steps, 0.5**bits, dtype=np.float64)
