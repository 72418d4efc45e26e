"""Variances of the noises as they are drawn, on their grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, get_args

Noise = Literal["exponential", "geometric", "laplace"]
"""The noise kinds a mechanism can select with. Geometric is exponential noise on a coarse grid."""

Real = int | float | Fraction
"""A scale as mechanisms report it (exact) or as a user types it."""


def noise_variance(
    noise: Noise, scale: Real, resolution: int | None = None, *, ranked: bool = False
) -> float:
    """Return the variance of noise of this kind and scale, in squared counts.

    Parameters
    ----------
    noise
        "exponential" and "geometric" are one-sided: P(noise >= x) = exp(-x / scale). "laplace" is two-sided.
    scale
        In counts.
    resolution
        The noise is a multiple of 2^-resolution; None for the continuous limit.
    ranked
        Whether ties are broken by random ranks (the top-k family): then each noise carries a uniform
        remainder below the grid too, and the sum is what the floored gaps are made of.

    Examples
    --------
    >>> noise_variance("exponential", 3), round(noise_variance("exponential", 3, 0), 4)
    (9.0, 8.9171)
    >>> round(noise_variance("exponential", 3, 0, ranked=True), 4), noise_variance("laplace", 3)
    (9.0005, 18.0)
    """
    check_noise(noise)
    beta, sides = positive(scale, "scale"), 2 if noise == "laplace" else 1
    if resolution is None:
        return sides * beta * beta
    gamma = 2.0**-resolution
    return gamma * gamma * (sides * _geometric(gamma / beta) + (1 / 12 if ranked else 0.0))


def laplace_variance(scale: Real, resolution: int | None = None) -> float:
    """Return the variance of Laplace noise of this scale, as `noise_variance`.

    >>> round(laplace_variance(3, 0), 4)
    17.8343
    """
    return noise_variance("laplace", scale, resolution)


def _geometric(rate: float) -> float:
    """Return the variance of the geometric law on {0, 1, ..} with P(Y >= m) = exp(-rate m).

    It is at least 1e-130, so that products of variances are not 0 either.
    """
    return math.exp(-min(rate, 300)) / math.expm1(-rate) ** 2


def check_noise(noise: str) -> None:
    """Raise `ValueError` for an unknown kind of noise."""
    if noise not in get_args(Noise):
        raise ValueError(f"noise must be one of {', '.join(get_args(Noise))}, not {noise!r}")


def positive(value: Real, name: str) -> float:
    """Return `value` as a float; `ValueError` unless it is positive and finite."""
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite")
    return number
