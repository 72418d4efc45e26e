"""Floating-point numbers as PostgreSQL writes them: the shortest decimal that reads back as the same number.

PostgreSQL differs from Python and Arrow in three things. It changes to an exponent at 1e15 (float4: 1e6) and
below 1e-4, exponents have at least two digits, and a decimal exactly halfway between two floats is never
chosen, because readers may round a tie to either side: 1e23 is written 9.999999999999999e+22.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TIES = {64: (2.0**54, 1e40), 32: (2.0**25, 1e20)}
"""Width -> the numbers between which the shortest decimal may be a tie.

Below, the halfway points are no integers and have more digits than are ever needed. Above, they are divisible
by a higher power of 2 than of 5, so a multiple of 10^k that is one has more digits than are ever needed.
"""
_EXPONENT = {64: 15, 32: 6}
"""Width -> the first power of ten that is written with an exponent."""
_DIGITS = {64: 15, 32: 6}
"""Width -> how many decimal digits survive every conversion (C's DBL_DIG and FLT_DIG)."""
_ENOUGH = {64: 17, 32: 9}
"""Width -> how many decimal digits tell any two numbers apart."""


def float_texts(numbers: pa.Array, extra_digits: int = 1) -> pa.Array:
    """Return the texts of an array of float32 or float64.

    With `extra_digits` (the setting extra_float_digits) of 0 or less, 15 digits (float4: 6) plus
    `extra_digits` are written instead of the shortest decimal.

    >>> float_texts(pa.array([1.0, 1e15, 1e-5, float("inf"), None])).to_pylist()
    ['1', '1e+15', '1e-05', 'Infinity', None]
    """
    width: int = numbers.type.bit_width
    if extra_digits <= 0:
        rounded = _rounded(max(1, _DIGITS[width] + extra_digits))
        return pa.array([None if x is None else rounded(x) for x in numbers.to_pylist()], pa.string())
    known = numbers.fill_null(0) if numbers.null_count else numbers
    values = np.abs(known.to_numpy())
    # Arrow writes float4 below 1e6 and float8 below 1e10 as PostgreSQL does, down to 1e-4.
    special = ~((values >= 1e-4) & (values < (1e10 if width == 64 else 1e6)) | (values == 0))
    texts = numbers.cast(pa.string())
    if not special.any():
        return texts
    shortest = _shortest(width)
    mask = pa.array(special)
    return pc.replace_with_mask(
        texts, mask, pa.array([None if x is None else shortest(x) for x in numbers.filter(mask).to_pylist()])
    )


def _rounded(digits: int) -> Callable[[float], str]:
    def text(x: float) -> str:
        return f"{x:.{digits}g}" if math.isfinite(x) else _unusual(x)

    return text


def _unusual(x: float) -> str:
    return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"


def _shortest(width: int) -> Callable[[float], str]:
    """Return the function that writes one number of a width."""
    kind = np.float64 if width == 64 else np.float32
    low, high = _TIES[width]

    def text(x: float) -> str:
        if not math.isfinite(x):
            return _unusual(x)
        number = kind(x)
        digits, power = _digits(repr(x) if width == 64 else np.format_float_scientific(number, trim="-"))
        if low <= abs(x) <= high and _is_tie(digits, power, abs(number)):
            digits, power = _within(abs(number), _ENOUGH[width])
        return ("-" if math.copysign(1, x) < 0 else "") + _written(digits, power, _EXPONENT[width])

    return text


def _digits(decimal: str) -> tuple[str, int]:
    """Return the digits of a decimal without zeros around them, and the power of ten of the first.

    >>> _digits("-12.50"), _digits("0.003"), _digits("1.25e+20")
    (('125', 1), ('3', -3), ('125', 20))
    """
    mantissa, _, exponent = decimal.lstrip("-").partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + part) - len(digits))
    return digits.rstrip("0") or "0", power if digits else 0


def _is_tie(digits: str, power: int, x: np.floating) -> bool:
    """Return whether a decimal lies exactly halfway between a number and one beside it; both are whole."""
    zeros = power + 1 - len(digits)
    difference = int(digits) * 10**zeros - int(x) if zeros >= 0 else 0
    if difference == 0:
        return False
    beside = np.nextafter(x, x.dtype.type(math.inf if difference > 0 else 0))
    return bool(2 * abs(difference) == abs(int(beside) - int(x)))


def _within(x: np.floating, enough: int) -> tuple[str, int]:
    """Return the shortest decimal that is nearer to a positive number than to any other, and no tie."""
    for places in range(enough):
        decimal = f"{float(x):.{places}e}"
        digits, power = _digits(decimal)
        if x.dtype.type(decimal) == x and not _is_tie(digits, power, x):
            return digits, power
    raise AssertionError("enough digits tell any two numbers apart")


def _written(digits: str, power: int, limit: int) -> str:
    """Write digits with or without an exponent, as PostgreSQL does."""
    if -4 <= power < 0:
        return f"0.{'0' * (-power - 1)}{digits}"
    if 0 <= power < limit:
        whole = digits.ljust(power + 1, "0")
        return whole[: power + 1] + ("." + whole[power + 1 :] if len(whole) > power + 1 else "")
    point = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{point}e{'-' if power < 0 else '+'}{abs(power):02d}"
