"""Check the exact parameters of samplers."""

from __future__ import annotations

from fractions import Fraction


def positive_rational(value: Fraction | int, name: str) -> Fraction:
    """Check a positive rational parameter of a sampler; raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise ValueError(f"{name} must be an int or a Fraction")  # noqa: TRY004  one error type for callers
    if value.numerator <= 0:
        raise ValueError(f"{name} must be positive")
    return value if type(value) is Fraction else Fraction(value)
