"""PostgreSQL's numeric in binary: digits to the base 10,000, with their weight and sign."""

from __future__ import annotations

import struct
from decimal import Decimal

from dpsql.serve.limits import MOST_DIGITS

_POSITIVE, _NEGATIVE, _NAN = 0x0000, 0x4000, 0xC000
_INFINITIES = {0xD000: Decimal("Infinity"), 0xF000: Decimal("-Infinity")}


def numeric_bytes(number: Decimal) -> bytes:
    """Return the binary form of a finite number, with as many decimal places as it has.

    >>> numeric_bytes(Decimal("10000.5")).hex(" ", 2)
    '0003 0001 0000 0001 0001 0000 1388'
    """
    negative, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    # The text is extended to whole groups of four digits on both sides of the point.
    shown = "".join(map(str, digits)) + "0" * max(0, int(exponent))
    before = len(shown) - scale
    if before < 0:
        shown, before = "0" * -before + shown, 0
    shown = "0" * (-before % 4) + shown + "0" * (-scale % 4)
    groups = [int(shown[i : i + 4]) for i in range(0, len(shown), 4)]
    weight = -(-before // 4) - 1
    first = next((i for i, group in enumerate(groups) if group), len(groups))
    last = next((i for i, group in enumerate(reversed(groups)) if group), 0)
    kept = groups[first : len(groups) - last]
    sign = _NEGATIVE if negative and kept else _POSITIVE
    weight = weight - first if kept else 0
    return struct.pack(f"!HhHH{len(kept)}H", len(kept), weight, sign, scale, *kept)


def numeric_digits(data: bytes) -> int:
    """Return how many digits the binary form of a number stands for; 0 if it is none.

    >>> numeric_digits(numeric_bytes(Decimal("-0.00120"))), numeric_digits(numeric_bytes(Decimal(10**20)))
    (5, 24)
    """
    if len(data) < 8:
        return 0
    count, weight, _, scale = struct.unpack_from("!HhHH", data)
    return int(max(max(4 * (weight + 1), 0) + scale, 4 * count))


def numeric_value(data: bytes) -> Decimal:
    """Read the binary form of a number; raise `ValueError` if it is none, `OverflowError` if it is too long.

    Eight bytes can stand for 131,072 digits before the point, so they are counted before they are written.

    >>> numeric_value(numeric_bytes(Decimal("-0.00120")))
    Decimal('-0.00120')
    """
    if len(data) < 8:
        raise ValueError("it is too short")
    count, weight, sign, scale = struct.unpack_from("!HhHH", data)
    if len(data) != 8 + 2 * count:
        raise ValueError("its length does not fit its number of digits")
    if sign == _NAN:
        return Decimal("NaN")
    if sign in _INFINITIES:
        return _INFINITIES[sign]
    if sign not in (_POSITIVE, _NEGATIVE) or scale > 0x3FFF:
        raise ValueError("its sign or scale is not valid")
    if numeric_digits(data) > MOST_DIGITS or weight < -MOST_DIGITS:
        raise OverflowError
    groups = struct.unpack_from(f"!{count}H", data, 8)
    if any(group > 9999 for group in groups):
        raise ValueError("one of its digits is above 9999")
    # Digits behind `scale` are cut off, and missing ones are zeros.
    text = "".join(f"{group:04d}" for group in groups)
    point = 4 * (weight + 1)
    if point > 0:
        whole, part = text[:point].ljust(point, "0"), text[point:]
    else:
        whole, part = "0", "0" * -point + text
    shown = f"{whole}.{part[:scale].ljust(scale, '0')}" if scale else whole
    return Decimal(f"-{shown}" if sign == _NEGATIVE else shown)
