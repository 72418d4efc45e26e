"""Numbers, dates, times and intervals as PostgreSQL writes them: floats in text, numeric in binary, ISO.

Moments: they are in UTC always, so a timestamp with time zone ends in `+00`. Arrow writes the years 1 to
9999; earlier, later and infinite values are written here one by one. IntervalStyle is postgres.

Floats: a floating-point number is written as the shortest decimal that reads back as the same number.
PostgreSQL differs from Python and Arrow in three things. It changes to an exponent at 1e15 (float4: 1e6) and
below 1e-4, exponents have at least two digits, and a decimal exactly halfway between two floats is never
chosen, because readers may round a tie to either side: 1e23 is written 9.999999999999999e+22.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsql.serve.limits import MOST_DIGITS

DAY = 86_400_000_000
"""Microseconds of a day."""
EPOCH_DAYS = 10_957
"""Days from 1970-01-01, where Arrow counts from, to 2000-01-01, where PostgreSQL does."""
_FIRST, _LAST = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 in days from 1970-01-01."""
INFINITE_DAYS = 2**31 - 1
INFINITE_MOMENT = 2**63 - 1
"""How DuckDB counts the date and the timestamp `infinity`; `-infinity` is the negative of it."""


def to_int64(values: pa.Array, kind: pa.DataType) -> NDArray[np.int64]:
    """Return an array's integers as int64, with 0 for NULL. `kind` is the integer type of the same width."""
    found = values.view(kind)
    if found.null_count:
        found = found.fill_null(0)
    return np.asarray(found.to_numpy(), np.int64)


def date_texts(dates: pa.Array) -> pa.Array:
    """Return the texts of an array of date32.

    >>> date_texts(pa.array([0, -719163], pa.int32()).cast(pa.date32())).to_pylist()
    ['1970-01-01', '0001-12-31 BC']
    """
    days = to_int64(dates, pa.int32())
    return _replace_unusual(
        dates, days, (days < _FIRST) | (days > _LAST), lambda v: v.cast(pa.string()), _write_date
    )


def timestamp_texts(moments: pa.Array) -> pa.Array:
    """Return the texts of an array of timestamps in microseconds, with or without time zone."""
    zone = "" if moments.type.tz is None else "+00"
    counted = to_int64(moments, pa.int64())
    days = counted // DAY

    def usual(values: pa.Array) -> pa.Array:
        texts = _strip_zeros(values.cast(pa.timestamp("us")).cast(pa.string()))
        return pc.binary_join_element_wise(texts, zone, "") if zone else texts

    return _replace_unusual(
        moments,
        counted,
        (days < _FIRST) | (days > _LAST),
        usual,
        lambda moment: _write_timestamp(moment, zone),
    )


def time_texts(times: pa.Array) -> pa.Array:
    """Return the texts of an array of time64 in microseconds; midnight at a day's end is 24:00:00."""
    counted = to_int64(times, pa.int64())
    return _replace_unusual(
        times, counted, counted >= DAY, lambda v: _strip_zeros(v.cast(pa.string())), _write_clock
    )


def interval_texts(intervals: pa.Array) -> pa.Array:
    """Return the texts of an array of intervals in months, days and nanoseconds."""
    return pa.array([None if i is None else _write_interval(*i) for i in intervals.to_pylist()], pa.string())


def _strip_zeros(texts: pa.Array) -> pa.Array:
    """Remove the zeros at the end of the fractions of seconds, which all texts have."""
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def _replace_unusual(
    values: pa.Array,
    counted: NDArray[np.int64],
    unusual: NDArray[np.bool_],
    usual: Callable[[pa.Array], pa.Array],
    single: Callable[[int], str],
) -> pa.Array:
    """Write all values by `usual`, but those marked `unusual` one by one."""
    if not unusual.any():
        return usual(values)
    mask = pa.array(unusual)
    texts = usual(pc.if_else(mask, pa.scalar(None, values.type), values))
    return pc.replace_with_mask(texts, mask, pa.array([single(int(n)) for n in counted[unusual]]))


def _write_date(days: int) -> str:
    if abs(days) == INFINITE_DAYS:
        return "infinity" if days > 0 else "-infinity"
    return "{}{}".format(*_write_day(days))


def _write_timestamp(moment: int, zone: str) -> str:
    if abs(moment) == INFINITE_MOMENT:
        return "infinity" if moment > 0 else "-infinity"
    day, era = _write_day(moment // DAY)
    return f"{day} {_write_clock(moment % DAY)}{zone}{era}"


def _write_day(days: int) -> tuple[str, str]:
    """Return a day as `yyyy-mm-dd`, and ` BC` where it belongs behind.

    All eras of 400 years have the same number of days, so the years 1 to 400 have the day's month and day.
    """
    eras, rest = divmod(days - _FIRST, 146_097)
    moved = np.datetime64(_FIRST + rest, "D").item()
    year = moved.year + 400 * eras
    return f"{year if year > 0 else 1 - year:04d}-{moved:%m-%d}", "" if year > 0 else " BC"


def _write_clock(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _write_interval(months: int, days: int, nanos: int) -> str:
    """Write an interval; a positive part behind a negative one has a plus sign."""
    sign = -1 if months < 0 else 1
    years, rest = divmod(abs(months), 12)
    parts: list[str] = []
    negative = False
    for value, unit in ((sign * years, "year"), (sign * rest, "mon"), (days, "day")):
        if value:
            plus = "+" if negative and value > 0 else ""
            parts.append(f"{plus}{value} {unit}{'' if value == 1 else 's'}")
            negative = value < 0
    if nanos or not parts:
        micros = micros_of(nanos)
        parts.append(("-" if micros < 0 else "+" if negative else "") + _write_clock(abs(micros)))
    return " ".join(parts)


def micros_of(nanos: int) -> int:
    """Return whole microseconds; the rest is left off, as in timestamps."""
    return nanos // 1000


_TIES = {64: (2.0**54, 1e40), 32: (2.0**25, 1e20)}
"""Width -> the numbers between which the shortest decimal may be a tie.

Below, the halfway points are no integers and have more digits than are ever needed. Above, they are divisible
by a higher power of 2 than of 5, so a multiple of 10^k that is one has more digits than are ever needed.
"""
_DIGITS = {64: 15, 32: 6}
"""Width -> how many decimal digits survive every conversion (C's DBL_DIG and FLT_DIG); the first power of ten
that is written with an exponent."""
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
        digits = max(1, _DIGITS[width] + extra_digits)
        texts = [None if x is None else _round_text(x, digits) for x in numbers.to_pylist()]
        return pa.array(texts, pa.string())
    known = numbers.fill_null(0) if numbers.null_count else numbers
    values = np.abs(known.to_numpy())
    # Arrow writes float4 below 1e6 and float8 below 1e10 as PostgreSQL does, down to 1e-4.
    special = ~((values >= 1e-4) & (values < (1e10 if width == 64 else 1e6)) | (values == 0))
    texts = numbers.cast(pa.string())
    if not special.any():
        return texts
    mask = pa.array(special)
    shortest = [None if x is None else _shortest_text(x, width) for x in numbers.filter(mask).to_pylist()]
    return pc.replace_with_mask(texts, mask, pa.array(shortest))


def _round_text(x: float, digits: int) -> str:
    return f"{x:.{digits}g}" if math.isfinite(x) else _nonfinite_text(x)


def _nonfinite_text(x: float) -> str:
    return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"


def _shortest_text(x: float, width: int) -> str:
    """Return the shortest decimal of a number of a width."""
    if not math.isfinite(x):
        return _nonfinite_text(x)
    number = np.float64(x) if width == 64 else np.float32(x)
    low, high = _TIES[width]
    digits, power = _split_digits(repr(x) if width == 64 else np.format_float_scientific(number, trim="-"))
    if low <= abs(x) <= high and _is_tie(digits, power, abs(number)):
        digits, power = _untied_digits(abs(number), _ENOUGH[width])
    return ("-" if math.copysign(1, x) < 0 else "") + _write_digits(digits, power, _DIGITS[width])


def _split_digits(decimal: str) -> tuple[str, int]:
    """Return the digits of a decimal without zeros around them, and the power of ten of the first.

    >>> _split_digits("-12.50"), _split_digits("0.003"), _split_digits("1.25e+20")
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


def _untied_digits(x: np.floating, enough: int) -> tuple[str, int]:
    """Return the digits and the power of ten of the shortest decimal that reads back as a positive float.

    One that lies halfway between two floats is not taken. It has at most `enough` digits.
    """
    for places in range(enough):
        decimal = f"{float(x):.{places}e}"
        digits, power = _split_digits(decimal)
        if x.dtype.type(decimal) == x and not _is_tie(digits, power, x):
            return digits, power
    raise AssertionError("enough digits tell any two numbers apart")


def _write_digits(digits: str, power: int, limit: int) -> str:
    """Write digits with or without an exponent, as PostgreSQL does."""
    if -4 <= power < 0:
        return f"0.{'0' * (-power - 1)}{digits}"
    if 0 <= power < limit:
        whole = digits.ljust(power + 1, "0")
        return whole[: power + 1] + ("." + whole[power + 1 :] if len(whole) > power + 1 else "")
    point = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{point}e{'-' if power < 0 else '+'}{abs(power):02d}"


# numeric in binary: digits to the base 10,000, with their weight and sign.

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
