"""Dates, times and intervals as PostgreSQL writes them with DateStyle ISO and IntervalStyle postgres.

Moments are in UTC always, so a timestamp with time zone ends in `+00`. Arrow writes the years 1 to 9999;
earlier, later and infinite values are written here one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

DAY = 86_400_000_000
"""Microseconds of a day."""
EPOCH_DAYS = 10_957
"""Days from 1970-01-01, where Arrow counts from, to 2000-01-01, where PostgreSQL does."""
_FIRST, _LAST = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 in days from 1970-01-01."""
INFINITE_DAYS = 2**31 - 1
INFINITE_MOMENT = 2**63 - 1
"""How DuckDB counts the date and the timestamp `infinity`; `-infinity` is the negative of it."""


def whole(values: pa.Array, kind: pa.DataType) -> NDArray[np.int64]:
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
    days = whole(dates, pa.int32())
    return _replace_unusual(
        dates, days, (days < _FIRST) | (days > _LAST), lambda v: v.cast(pa.string()), _date
    )


def timestamp_texts(moments: pa.Array) -> pa.Array:
    """Return the texts of an array of timestamps in microseconds, with or without time zone."""
    zone = "" if moments.type.tz is None else "+00"
    counted = whole(moments, pa.int64())
    days = counted // DAY

    def usual(values: pa.Array) -> pa.Array:
        texts = _without_zeros(values.cast(pa.timestamp("us")).cast(pa.string()))
        return pc.binary_join_element_wise(texts, zone, "") if zone else texts

    return _replace_unusual(
        moments, counted, (days < _FIRST) | (days > _LAST), usual, lambda moment: _timestamp(moment, zone)
    )


def time_texts(times: pa.Array) -> pa.Array:
    """Return the texts of an array of time64 in microseconds; midnight at a day's end is 24:00:00."""
    counted = whole(times, pa.int64())
    return _replace_unusual(
        times, counted, counted >= DAY, lambda v: _without_zeros(v.cast(pa.string())), _clock
    )


def interval_texts(intervals: pa.Array) -> pa.Array:
    """Return the texts of an array of intervals in months, days and nanoseconds."""
    return pa.array([None if i is None else _interval(*i) for i in intervals.to_pylist()], pa.string())


def _without_zeros(texts: pa.Array) -> pa.Array:
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


def _date(days: int) -> str:
    if abs(days) == INFINITE_DAYS:
        return "infinity" if days > 0 else "-infinity"
    return "{}{}".format(*_day(days))


def _timestamp(moment: int, zone: str) -> str:
    if abs(moment) == INFINITE_MOMENT:
        return "infinity" if moment > 0 else "-infinity"
    day, era = _day(moment // DAY)
    return f"{day} {_clock(moment % DAY)}{zone}{era}"


def _day(days: int) -> tuple[str, str]:
    """Return a day as `yyyy-mm-dd`, and ` BC` where it belongs behind.

    All eras of 400 years have the same number of days, so the years 1 to 400 have the day's month and day.
    """
    eras, rest = divmod(days - _FIRST, 146_097)
    moved = np.datetime64(_FIRST + rest, "D").item()
    year = moved.year + 400 * eras
    return f"{year if year > 0 else 1 - year:04d}-{moved:%m-%d}", "" if year > 0 else " BC"


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _interval(months: int, days: int, nanos: int) -> str:
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
        parts.append(("-" if micros < 0 else "+" if negative else "") + _clock(abs(micros)))
    return " ".join(parts)


def micros_of(nanos: int) -> int:
    """Return whole microseconds; the rest is left off, as in timestamps."""
    return nanos // 1000
