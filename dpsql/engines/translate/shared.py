"""What the writers of several engines share: parts of dates, dates moved by days, patterns, spaces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpsql.engines.translate.value import Untranslatable
from dpsql.types import HUGEINT, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.engines.translate.value import Value

__all__ = [
    "SPACES",
    "aggregate_call",
    "bounds",
    "moved",
    "pattern_text",
    "same_years",
    "since_both",
    "since_one",
    "years_before",
]

SPACES = "".join(map(chr, [0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]))
"""What DuckDB's trim removes: Unicode's space separators."""


def aggregate_call(name: str, value: Value, *, distinct: bool, where: str) -> str:
    """Write the call of an aggregate function that every engine has."""
    return f"{name}({'DISTINCT ' if distinct else ''}{value.sql}){where}"


def bounds(kind: SqlType) -> tuple[int, int]:
    """Return the first and last value of an integer type."""
    if kind == HUGEINT:
        return -(2**127), 2**127 - 1
    low = -(1 << (kind.bits - 1)) if kind.signed else 0
    return low, (1 << (kind.bits - 1 if kind.signed else kind.bits)) - 1


def year_of(values: list[Value], text: str, engine: str) -> str:
    """Write a part of a date that engines count differently before year 1."""
    spread = values[-1].spread
    if spread is None or spread[0] < 1:
        raise Untranslatable(f"this date could lie before year 1, where {engine} counts otherwise")
    return text.format(*(v.sql for v in values))


def since_one(text: str, engine: str) -> Callable[[list[Value]], str]:
    """Make a form of `year_of`."""
    return lambda values: year_of(values, text, engine)


def same_years(values: list[Value]) -> tuple[float, float] | None:
    """Of a date that stays in its year."""
    return values[-1].spread


def years_before(values: list[Value]) -> tuple[float, float] | None:
    """Of a date that may fall into the year before."""
    spread = values[-1].spread
    return None if spread is None else (spread[0] - 1, spread[1])


def since_both(text: str, engine: str) -> Callable[[list[Value]], str]:
    """Write what needs two dates from year 1 on."""

    def write(values: list[Value]) -> str:
        for value in values[1:]:
            year_of([value], "", engine)
        return text.format(*(v.sql for v in values))

    return write


def moved(values: list[Value]) -> tuple[float, float] | None:
    """Of a date some days away."""
    spread, days = values[0].spread, values[1].constant
    if spread is None or not isinstance(days, int) or abs(days) > 1_000_000:
        raise Untranslatable("only a fixed number of days, at most a million, is added to a date")
    reach = abs(days) / 365 + 1 if abs(days) > 365 else 1.0
    low, high = spread[0] - reach, spread[1] + reach
    if low < -4000 or high > 20_000:
        raise Untranslatable("a calculation with dates that reaches beyond its calendar")
    return low, high


def pattern_text(values: list[Value], patterns: dict[str, str], engine: str) -> str:
    """Write the pattern of a date's text, of plain parts with two or four digits."""
    text = str(values[1].constant)
    year_of([values[0]], "", engine)
    if not re.fullmatch(r"(%[YmdHMS]|[-/:. _])+", text):
        raise Untranslatable("only the parts %Y %m %d %H %M %S travel", "or put the parts together with ||")
    if "%Y" in text and values[0].spread is not None and values[0].spread[1] > 9999:
        raise Untranslatable("this date could lie beyond year 9999")
    pieces = re.findall(r"%.|[^%]", text)
    return "".join(patterns[p[1]] if p[0] == "%" else p for p in pieces)
