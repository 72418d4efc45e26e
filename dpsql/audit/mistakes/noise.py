"""The noise of audit subjects with a known verdict: on a fine grid, except for the floating-point one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.statistics import uniforms
from dpsql.kernel import noise as exact_noise
from dpsql.kernel.noise import Entropy

Shape = int | tuple[int, ...]


def laplace(scale: Fraction, shape: Shape, entropy: Entropy) -> NDArray[np.float64]:
    """Draw Laplace noise of this scale."""
    bits = exact_noise.resolution(scale)
    steps = exact_noise.laplace(exact_noise.rate(scale, bits), shape, entropy=entropy)
    return np.multiply(steps, 0.5**bits, dtype=np.float64)


def exponential(scale: Fraction, shape: Shape, entropy: Entropy) -> NDArray[np.float64]:
    """Draw exponential noise of this scale."""
    bits = exact_noise.resolution(scale)
    steps = exact_noise.geometric(exact_noise.rate(scale, bits), shape, entropy=entropy)
    return np.multiply(steps, 0.5**bits, dtype=np.float64)


def geometric(ratio: float, shape: Shape, entropy: Entropy) -> NDArray[np.int64]:
    """Draw geometric noise with P(Y >= m) = ratio^m for any ratio, in floating point."""
    drawn = uniforms(int(np.prod(shape)), entropy).reshape(shape)
    return np.asarray(np.floor(np.log(drawn) / np.log(ratio)), dtype=np.int64)


def textbook_laplace(scale: float, shape: Shape, entropy: Entropy) -> NDArray[np.float64]:
    """Draw Laplace noise as textbooks do, in doubles: -scale sign(u) ln(1 - 2|u|), u in (-1/2, 1/2)."""
    drawn = uniforms(int(np.prod(shape)), entropy).reshape(shape) - 0.5
    return np.asarray(-scale * np.sign(drawn) * np.log1p(-2 * np.abs(drawn)))
