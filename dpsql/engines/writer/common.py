"""Forms that several engines write alike, up to the names of types and of functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.writer.cases import case_table
from dpsql.engines.writer.forms import Form, RangeRule
from dpsql.engines.writer.ranges import (
    first_range,
    same_or_previous_year,
    same_year,
    shifted_years,
    since_year_one,
)
from dpsql.engines.writer.value import Value
from dpsql.types import BIGINT, DATE, HUGEINT, INTEGER, TIMESTAMP, VARCHAR

SPACES = "".join(map(chr, [0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]))
"""The characters that DuckDB's trim removes: Unicode's space separators."""


def common_forms(bigint: str, integer: str) -> tuple[Form, ...]:
    """Return the forms of the functions that engines have under one name; arguments name their types."""
    return (
        Form("neg", "B", HUGEINT, "- {0}"),
        Form("neg", "ND", None, "- {0}", first_range),
        Form("abs", "B", HUGEINT, "abs({0})"),
        Form("abs", "ND", None, "abs({0})", first_range),
        Form("sign", "I", INTEGER, f"CAST(sign({{0}}) AS {bigint})"),
        Form("&", "I I", BIGINT, "{0} & {1}"),
        Form("|", "I I", BIGINT, "{0} | {1}"),
        Form("~", "I", BIGINT, "~ {0}"),
        # For counts and lengths, which are far from overflow; all other integers are computed as HUGEINT (B).
        Form("-", "I I", BIGINT, "{0} - {1}"),
        Form("+", "I I", BIGINT, "{0} + {1}"),
        Form("*", "I I", BIGINT, "{0} * {1}"),
        Form("length len char_length character_length", "S", BIGINT, f"CAST(char_length({{0}}) AS {bigint})"),
        Form("strlen", "S", BIGINT, f"CAST(octet_length({{0}}) AS {bigint})"),
        Form("left", "S #n", VARCHAR, f"left({{0}}, CAST({{1}} AS {integer}))"),
        Form("right", "S #n", VARCHAR, f"right({{0}}, CAST({{1}} AS {integer}))"),
        Form("split_part", "S #s #p", VARCHAR, f"split_part({{0}}, {{1}}, CAST({{2}} AS {integer}))"),
        Form("replace", "S #s S", VARCHAR, "replace({0}, {1}, {2})"),
        Form("lpad", "S #n #s", VARCHAR, f"lpad({{0}}, CAST({{1}} AS {integer}), {{2}})"),
        Form("rpad", "S #n #s", VARCHAR, f"rpad({{0}}, CAST({{1}} AS {integer}), {{2}})"),
        Form("||", "S S", VARCHAR, "{0} || {1}"),
    )


def change_case(translated: str, text: Callable[[str], str], also: str = "") -> Iterator[Form]:
    """Return the forms of lower and upper: the engine maps ASCII, DuckDB's table all other letters.

    `translated` is the call for texts with other letters, with places `function`, `old` and `new`; `text`
    writes a literal, and `also` are characters that the call maps besides.
    """
    for function, name in (("lower", "lcase"), ("upper", "ucase")):

        def write(values: list[Value], function: str = function) -> str:
            x, (old, new) = values[0].sql, case_table(function)
            changed = also.lower() if function == "lower" else also.upper()
            call = translated.format(x, function=function, old=text(also + old), new=text(changed + new))
            return f"CASE WHEN octet_length({x}) = char_length({x}) THEN {function}({x}) ELSE {call} END"

        yield Form(f"{function} {name}", "S", VARCHAR, write)


_NAMES = {
    "day": "day dayofmonth",
    "dow": "dayofweek weekday",
    "doy": "dayofyear",
    "week": "week weekofyear",
}
"""DuckDB's names of the functions that return a part of a date, where they are not the part's name."""


def date_parts(parts: Mapping[str, str], families: str, bigint: str) -> Iterator[Form]:
    """Return the forms of `date_part` and of the functions named after parts; each part has a template."""
    for part, template in parts.items():
        sql = f"CAST({template} AS {bigint})"
        second = sql.replace("{0}", "{1}")
        yield Form("date_part", f"={part} {families}", BIGINT, second, since_year_one)
        yield Form(_NAMES.get(part, part), families, BIGINT, sql, since_year_one)


_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def date_truncations(timestamp: Callable[[str], str], day: Callable[[str], str]) -> Iterator[Form]:
    """Return the forms of `date_trunc`; the arguments write it for a part, of a timestamp and of a date."""
    for part in _PARTS:
        value_range = same_or_previous_year if part == "week" else same_year
        yield Form("date_trunc", f"={part} M", TIMESTAMP, timestamp(part), value_range)
        if part not in ("hour", "minute", "second"):
            yield Form("date_trunc", f"={part} T", TIMESTAMP, day(part), value_range)


def date_differences(
    part: Callable[[str, str], str],
    days: str,
    seconds: Callable[[int], str],
    bigint: str,
    check: RangeRule | None = None,
) -> Iterator[Form]:
    """Return the forms of `date_diff`.

    `part` writes a part of a date, `days` the difference in days, and `seconds` the difference in periods of
    so many seconds.
    """
    years = f"{part('year', '{2}')} - {part('year', '{1}')}"
    texts = {"year": years, "day": days}
    for name, count in (("month", 12), ("quarter", 4)):
        texts[name] = f"({years}) * {count} + {part(name, '{2}')} - {part(name, '{1}')}"
    for name, text in texts.items():
        yield Form("date_diff", f"={name} TM TM", BIGINT, f"CAST({text} AS {bigint})", check)
    for name, size in (("hour", 3600), ("minute", 60), ("second", 1)):
        yield Form("date_diff", f"={name} M M", BIGINT, seconds(size))


def date_shifts(template: Callable[[str], str], add: str, subtract: str) -> Iterator[Form]:
    """Return the forms of intervals and days added to dates; `template` writes the sum for a unit."""
    for unit in _PARTS:
        if unit != "quarter":
            yield Form(f"add_{unit}", "M I", TIMESTAMP, template(unit))
    yield Form("+", "T I", DATE, add, shifted_years)
    yield Form("-", "T I", DATE, subtract, shifted_years)


def strftime_forms(function: str, patterns: Mapping[str, str], names: Mapping[str, str]) -> Iterator[Form]:
    """Return the forms of strftime, dayname and monthname by a function that takes a pattern."""

    def write(values: list[Value]) -> str:
        text = str(values[1].constant)
        if not re.fullmatch(r"(%[YmdHMS]|[-/:. _])+", text):
            raise Untranslatable(
                "strftime is translated with the parts %Y %m %d %H %M %S only",
                "concatenate other parts with ||",
            )
        if "%Y" in text and values[0].value_range is not None and values[0].value_range[1] > 9999:
            raise Untranslatable("this date could lie beyond year 9999")
        pieces = re.findall(r"%.|[^%]", text)
        pattern = "".join(patterns[p[1]] if p[0] == "%" else p for p in pieces)
        return function.format(values[0].sql, pattern=pattern)

    yield Form("strftime", "TM #s", VARCHAR, write, since_year_one)
    for name, pattern in names.items():
        yield Form(name, "TM", VARCHAR, function.format("{0}", pattern=pattern))
