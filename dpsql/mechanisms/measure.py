"""Measure selected groups with Laplace noise: each count, or their total."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql import noise as exact_noise
from dpsql.mechanisms.arguments import bound, counted, positive
from dpsql.mechanisms.grid import draw, grid_of, in_counts
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpsql.privacy import Number

__all__ = ["Anchor", "Laplace", "anchor", "laplace"]


@dataclass(frozen=True, eq=False, slots=True)
class Laplace:
    """Counts with independent Laplace noise.

    Attributes
    ----------
    value
        float64, one noisy count a group, a multiple of 2^-resolution.
    scale
        Scale of the noise, in counts.
    resolution
        b, for a grid of 2^-b counts.
    charge
        What was spent: (number of counts) x sensitivity / scale.
    """

    value: NDArray[np.float64]
    scale: Fraction
    resolution: int
    charge: Charge


@dataclass(frozen=True, slots=True)
class Anchor:
    """The noisy total of several counts, which locates counts known only by their gaps.

    Attributes
    ----------
    total
        The noisy total, exact: a multiple of 2^-resolution.
    groups
        How many counts it sums.
    scale
        Scale of the noise on the total, in counts; on the mean it is `scale / groups`.
    resolution
        b, for a grid of 2^-b counts.
    charge
        What was spent: groups x sensitivity / scale.
    """

    total: Fraction
    groups: int
    scale: Fraction
    resolution: int
    charge: Charge

    @property
    def mean(self) -> Fraction:
        """The noisy mean of the counts."""
        return self.total / self.groups


def laplace(
    counts: ArrayLike,
    scale: Number,
    *,
    sensitivity: Number = 1,
    resolution: int | None = None,
    entropy: exact_noise.Entropy | None = None,
) -> Laplace:
    """Release each count with independent Laplace noise.

    Parameters
    ----------
    counts
        The counts, as integers; clamped to 2^40.
    scale
        Scale of the noise, in counts: k c/epsilon for k counts that one unit changes by c each.
    sensitivity
        c, how much one privacy unit can change each count.
    resolution
        b for a grid of 2^-b counts; chosen from the scale if left out.
    entropy
        For tests.

    Raises
    ------
    ValueError
        If a public parameter is out of range.

    Notes
    -----
    Discrete Laplace on the grid: P(z) proportional to e^(-|z|/scale). *Private:* neighbouring counts
    differ by at most c, a whole number of steps, which changes each probability by at most e^(c/scale),
    and there are k of them. The values have the positions of their counts: the order of release must be
    public, or itself be released.
    """
    array, width, moved = counted(counts), positive(scale, "scale"), bound(sensitivity)
    bits = grid_of("laplace", resolution, width)
    values = exact_noise.place(array, bits)
    values += draw("laplace", width, bits, len(array), entropy)
    return Laplace(in_counts(values, bits), width, bits, Charge(len(array) * moved / width))


def anchor(
    counts: ArrayLike,
    scale: Number,
    *,
    sensitivity: Number = 1,
    resolution: int | None = None,
    entropy: exact_noise.Entropy | None = None,
) -> Anchor:
    """Release the noisy total of the selected counts; with their gaps it determines each count.

    Parameters, errors and noise as in `laplace`; the scale is that of the total, k c/epsilon for k
    counts. *Private:* one unit changes the total by at most k c.
    """
    array, width, moved = counted(counts), positive(scale, "scale"), bound(sensitivity)
    if len(array) == 0:
        raise ValueError("an anchor needs at least one count")
    bits = grid_of("laplace", resolution, width)
    # Python integers: a sum of clamped counts in grid steps may pass 2^63.
    total = int(np.add.reduce(exact_noise.place(array, 0), dtype=object))
    steps = (total << bits) + int(draw("laplace", width, bits, 1, entropy)[0])
    return Anchor(Fraction(steps, 1 << bits), len(array), width, bits, Charge(len(array) * moved / width))
