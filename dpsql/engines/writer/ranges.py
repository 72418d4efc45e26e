"""Rules for the value ranges of results: magnitudes of DOUBLE arithmetic, years of dates.

Engines that raise on overflow run only what cannot overflow, and no engine computes dates beyond its own.
"""

from __future__ import annotations

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.writer.forms import Range
from dpsql.engines.writer.value import Value, type_family

INTEGERS = (1.0, 2.0**63)
"""The value range of a BIGINT converted to DOUBLE."""

_LEAST, _MOST = 1e-290, 1e290
_ULP = 2.0**-53


def _within(low: float, high: float) -> Range:
    return (low, high) if low >= _LEAST and high <= _MOST else None


def first_range(values: list[Value]) -> Range:
    """Return the range of the first argument."""
    return values[0].value_range


def sum_range(values: list[Value]) -> Range:
    """Return the range of a sum or difference.

    Where the operands cancel, the result is zero or a multiple of the last bit of the smaller one.
    """
    a, b = (v.value_range for v in values)
    if a is None or b is None:
        return None
    return _within(min(a[0], b[0]) * _ULP, a[1] + b[1])


def product_range(values: list[Value]) -> Range:
    """Return the range of a product."""
    a, b = (v.value_range for v in values)
    return None if a is None or b is None else _within(a[0] * b[0], a[1] * b[1])


def quotient_range(values: list[Value]) -> Range:
    """Return the range of a quotient whose divisor is not zero."""
    a, b = (v.value_range if type_family(v.type) == "D" else _integers(v) for v in values)
    return None if a is None or b is None else _within(a[0] / b[1], a[1] / b[0])


def _integers(value: Value) -> Range:
    constant = value.constant
    return (abs(constant), abs(constant)) if isinstance(constant, int) and constant else INTEGERS


def since_year_one(values: list[Value]) -> Range:
    """Refuse dates before year 1, where engines count otherwise than DuckDB."""
    for value in values:
        low, _ = value.value_range or (0, 0)
        if type_family(value.type) in "TM" and low < 1:
            raise Untranslatable("this date could lie before year 1, where engines count differently")
    return None


def same_year(values: list[Value]) -> Range:
    """Return the value range of a date in the same year as the last argument."""
    return values[-1].value_range


def same_or_previous_year(values: list[Value]) -> Range:
    """Return the value range of a date in the year of the last argument, or in the year before."""
    value_range = values[-1].value_range
    return None if value_range is None else (value_range[0] - 1, value_range[1])


def shifted_years(values: list[Value]) -> Range:
    """Return the value range of a date plus or minus a constant number of days."""
    value_range, days = values[0].value_range, values[1].constant
    if value_range is None or not isinstance(days, int) or abs(days) > 1_000_000:
        raise Untranslatable("only a fixed number of days, at most a million, is added to a date")
    reach = abs(days) / 365 + 1 if abs(days) > 365 else 1.0
    low, high = value_range[0] - reach, value_range[1] + reach
    if low < -4000 or high > 20_000:
        raise Untranslatable(
            "a result of this date arithmetic could lie beyond the dates that every engine has"
        )
    return low, high
