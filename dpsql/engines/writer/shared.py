"""SQL and value ranges that several dialects share: aggregates, integers, parts of dates, date arithmetic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpsql.engines.writer.value import Untranslatable
from dpsql.types import HUGEINT, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.engines.writer.value import Value

__all__ = [
    "SPACES",
    "aggregate_call",
    "both_from_year_one",
    "from_year_one",
    "integer_bounds",
    "same_or_previous_year",
    "same_year",
    "shifted_years",
    "strftime_pattern",
]

SPACES = "".join(map(chr, [0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]))
"""The characters that DuckDB's trim removes: Unicode's space separators."""


def aggregate_call(name: str, value: Value, *, distinct: bool, tail: str) -> str:
    """Write a call of an aggregate function that has the same name in every engine."""
    return f"{name}({'DISTINCT ' if distinct else ''}{value.sql}){tail}"


def integer_bounds(sql_type: SqlType) -> tuple[int, int]:
    """Return the first and last value of an integer type."""
    if sql_type == HUGEINT:
        return -(2**127), 2**127 - 1
    low = -(1 << (sql_type.bits - 1)) if sql_type.signed else 0
    return low, (1 << (sql_type.bits - 1 if sql_type.signed else sql_type.bits)) - 1


def write_from_year_one(values: list[Value], text: str, engine: str) -> str:
    """Write a template of a date's SQL; refuse dates before year 1, where engines count differently."""
    value_range = values[-1].value_range
    if value_range is None or value_range[0] < 1:
        raise Untranslatable(f"this date could lie before year 1, where {engine} counts otherwise")
    return text.format(*(v.sql for v in values))


def from_year_one(text: str, engine: str) -> Callable[[list[Value]], str]:
    """Return the text of a form that is refused for dates before year 1."""
    return lambda values: write_from_year_one(values, text, engine)


def same_year(values: list[Value]) -> tuple[float, float] | None:
    """Return the value range of a date in the same year as the last argument."""
    return values[-1].value_range


def same_or_previous_year(values: list[Value]) -> tuple[float, float] | None:
    """Return the value range of a date in the year of the last argument, or in the year before."""
    value_range = values[-1].value_range
    return None if value_range is None else (value_range[0] - 1, value_range[1])


def both_from_year_one(text: str, engine: str) -> Callable[[list[Value]], str]:
    """Return the text of a form of two dates that is refused for dates before year 1."""

    def write(values: list[Value]) -> str:
        for value in values[1:]:
            write_from_year_one([value], "", engine)
        return text.format(*(v.sql for v in values))

    return write


def shifted_years(values: list[Value]) -> tuple[float, float] | None:
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


def strftime_pattern(values: list[Value], patterns: dict[str, str], engine: str) -> str:
    """Translate a strftime pattern of numeric parts; `patterns` has the engine's text of each part."""
    text = str(values[1].constant)
    write_from_year_one([values[0]], "", engine)
    if not re.fullmatch(r"(%[YmdHMS]|[-/:. _])+", text):
        raise Untranslatable(
            "strftime is translated with the parts %Y %m %d %H %M %S only", "concatenate other parts with ||"
        )
    if "%Y" in text and values[0].value_range is not None and values[0].value_range[1] > 9999:
        raise Untranslatable("this date could lie beyond year 9999")
    pieces = re.findall(r"%.|[^%]", text)
    return "".join(patterns[p[1]] if p[0] == "%" else p for p in pieces)
