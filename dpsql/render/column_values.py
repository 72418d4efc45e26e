"""The values of Arrow columns: as Python has them, and each as a text; no value makes a column fail."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpsql.render.figures import number

if TYPE_CHECKING:
    import pyarrow as pa

_DAY = 86_400_000_000
"""Microseconds of a day."""

_INFINITE_DAYS, _INFINITE_MOMENT = 2**31 - 1, 2**63 - 1
"""How DuckDB counts the date and the timestamp `infinity`; `-infinity` is the negative of it."""


def values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; values of a DECIMAL without decimals are ints.

    A value that Python does not have is a text, as DuckDB writes it.
    """
    import pyarrow as pa

    found = python_values(column)
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in found]
    return found


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values, each as text where Python has no such value; it never fails.

    Such are dates and timestamps beyond the years 1 to 9999, infinite ones, and the time 24:00:00. Their text
    is DuckDB's.
    """
    import pyarrow as pa

    late = pa.types.is_time64(column.type)  # 24:00:00 would be 00:00:00
    if not late and not pa.types.is_nested(column.type):
        try:
            found: list[Any] = column.to_pylist()
        except (ValueError, OverflowError, UnicodeDecodeError):
            pass
        else:
            return found
    return [_python_value(scalar) for scalar in column]


def _python_value(scalar: pa.Scalar) -> Any:  # noqa: ANN401  a value of any type
    import pyarrow as pa

    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_python_value(item) for item in scalar.values]
    if pa.types.is_struct(kind):
        return {kind.field(i).name: _python_value(scalar[i]) for i in range(kind.num_fields)}
    if pa.types.is_time64(kind) and kind.unit == "us" and scalar.value >= _DAY:
        return "24:00:00"
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes().decode("utf-8", "replace")
    except (ValueError, OverflowError):
        return _text_beyond_python(scalar)


def _text_beyond_python(scalar: pa.Scalar) -> str:
    """Return the text of a date or timestamp that Python does not have."""
    import pyarrow as pa

    if pa.types.is_date32(scalar.type):
        day, rest, infinite = scalar.value, "", abs(scalar.value) >= _INFINITE_DAYS
    elif pa.types.is_timestamp(scalar.type) and scalar.type.unit == "us":
        day, within = divmod(scalar.value, _DAY)
        seconds, micros = divmod(within, 1_000_000)
        rest = f" {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        rest += f".{micros:06}".rstrip("0") if micros else ""
        rest += "" if scalar.type.tz is None else "+00"
        infinite = abs(scalar.value) >= _INFINITE_MOMENT
    else:
        return "(not shown)"
    if infinite:
        return "infinity" if scalar.value > 0 else "-infinity"
    year, month, dom = _civil_date(day)
    shown = f"{year:04}" if year > 0 else f"{1 - year:04}"
    return f"{shown}-{month:02}-{dom:02}{'' if year > 0 else ' (BC)'}{rest}"


def _civil_date(day: int) -> tuple[int, int, int]:
    """Return the year, the month and the day of a number of days since 1970, in years of any size.

    >>> _civil_date(0), _civil_date(2_932_897), _civil_date(-735_160)
    ((1970, 1, 1), (10000, 1, 1), (-43, 3, 15))
    """
    start = datetime.date(2000, 3, 1).toordinal()
    cycles, left = divmod(day + datetime.date(1970, 1, 1).toordinal() - start, 146_097)  # days of 400 years
    found = datetime.date.fromordinal(start + left)
    return found.year + 400 * cycles, found.month, found.day


def value_text(value: object) -> str:
    """Write one value that is not NULL; the text "NULL" is quoted, to distinguish it from NULL."""
    if isinstance(value, str):
        return "'NULL'" if value == "NULL" else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        instant = value.utcoffset() == datetime.timedelta(0)
        return f"{value.replace(tzinfo=None).isoformat(' ')}+00" if instant else value.isoformat(" ")
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02X}" for byte in value)
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=value_text, ensure_ascii=False)
    return str(value)
