"""The common grid of counts and noise: multiples of 2^-resolution."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.noise.exact import positive_rational

FINEST = 20
"""The finest grid is 2^-20 of a count."""

STEP_LIMIT = 1 << 60
"""Counts are clamped to this many grid steps, which preserves their sensitivity and their monotonicity.

Noise saturates at 2^61 steps, so two noisy counts differ by at most 6 * 2^60 steps: int64 does not overflow.
"""

_SCALE_LIMIT = 1 << 50


def resolution(smallest: Fraction) -> int:
    """Choose the grid of a mechanism: the coarsest that is at most 1/1024 of its smallest noise scale.

    Parameters
    ----------
    smallest
        The smallest scale among the mechanism's noises, in counts. All of them share one grid.

    Returns
    -------
    int
        b, for a grid of step 2^-b counts, 0 <= b <= 20.
    """
    fraction = positive_rational(smallest, "scale")
    number, least = fraction.numerator, 1024 * fraction.denominator
    wanted = 0
    while wanted < FINEST and number << wanted < least:
        wanted += 1
    return wanted


def rate(scale: Fraction, bits: int) -> Fraction:
    """Return the geometric rate, per grid step of 2^-bits, of noise with this scale in counts.

    Raises `ValueError` if the grid is outside 0..20 or the scale over 2^50 steps: both depend on
    public parameters alone.
    """
    if not 0 <= bits <= FINEST:
        raise ValueError("resolution must be between 0 and 20")
    steps = positive_rational(scale, "scale") * (1 << bits)
    if steps > _SCALE_LIMIT:
        raise ValueError("the noise's scale is over 2^50 grid steps")
    return 1 / steps


def place(counts: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the counts in grid steps, as a new array, clamped to plus and minus 2^60 steps."""
    limit = STEP_LIMIT >> bits
    placed = np.clip(counts, -limit, limit)
    placed <<= bits
    return placed
