"""PostgreSQL's forms of functions and operators; each is total on the values that a scan returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.engines.writer.cases import case_table
from dpsql.engines.writer.doubles import product_range, quotient_range, sum_range
from dpsql.engines.writer.forms import Form, collect, form
from dpsql.engines.writer.shared import (
    SPACES,
    both_from_year_one,
    from_year_one,
    same_or_previous_year,
    same_year,
    shifted_years,
    strftime_pattern,
)
from dpsql.engines.writer.value import NOT_CONSTANT, Untranslatable
from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, INTEGER, TIMESTAMP, VARCHAR

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.engines.writer.value import Value

__all__ = ["FORMS"]


def unless_overflow(
    value_range: Callable[[list[Value]], tuple[float, float] | None], text: str
) -> Callable[[list[Value]], str]:
    """Return the text of DOUBLE arithmetic that is refused if it could overflow, where PostgreSQL raises."""

    def write(values: list[Value]) -> str:
        if value_range(values) is None:
            raise Untranslatable(
                "PostgreSQL fails if DOUBLE arithmetic overflows, and this expression could",
                "CAST the operands to BIGINT or DECIMAL",
            )
        return text.format(*(v.sql for v in values))

    return write


def quotient(values: list[Value]) -> str:
    """Write a division as in IEEE 754: division by zero gives an infinity or NaN."""
    a, b = (f"CAST({v.sql} AS float8)" for v in values)
    constant = values[1].constant
    if constant is not NOT_CONSTANT and constant:
        return f"{a} / {b}"
    nan, infinity = (f"CAST('{word}' AS float8)" for word in ("NaN", "Infinity"))
    return (
        f"CASE WHEN {b} <> 0 THEN {a} / {b} WHEN {b} = 0 THEN "
        f"CASE WHEN {a} > 0 THEN {infinity} WHEN {a} < 0 THEN - {infinity} WHEN {a} = 0 THEN {nan} END END"
    )


def _double_quotient(values: list[Value]) -> str:
    # No divisor is -0.0: every stored DOUBLE is canonical.
    if quotient_range(values) is None:
        raise Untranslatable(
            "PostgreSQL fails if DOUBLE arithmetic overflows, and this expression could", "CAST to BIGINT"
        )
    return quotient(values)


def _constant_quotient_range(values: list[Value]) -> tuple[float, float] | None:
    constant = values[1].constant
    return quotient_range(values) if constant is not NOT_CONSTANT and constant else None


def _integer_quotient_range(values: list[Value]) -> tuple[float, float] | None:
    constant = values[1].constant
    if isinstance(constant, int) and constant:
        return 1 / abs(constant), 2.0**63 / abs(constant)
    return None


_PARTS = {
    "year": "year",
    "month": "month",
    "day": "day",
    "quarter": "quarter",
    "dow": "dow",
    "isodow": "isodow",
    "doy": "doy",
    "week": "week",
    "isoyear": "isoyear",
    "decade": "decade",
    "century": "century",
}
_CLOCK = {"hour": "hour", "minute": "minute"}
_SECONDS = {"second": "second", "millisecond": "milliseconds", "microsecond": "microseconds"}
_NAMES = {
    "year": "year",
    "month": "month",
    "day": "day dayofmonth",
    "quarter": "quarter",
    "dow": "dayofweek weekday",
    "isodow": "isodow",
    "doy": "dayofyear",
    "week": "week weekofyear",
    "isoyear": "isoyear",
    "decade": "decade",
    "century": "century",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}


def _parts() -> list[tuple[str, Form]]:
    rows: list[tuple[str, Form]] = []

    def add(part: str, families: str, text: str) -> None:
        second, first = (from_year_one(text.format(place), "PostgreSQL") for place in ("{1}", "{0}"))
        for family in families:
            rows.append(("date_part", form(f"={part} {family}", BIGINT, second)))
            rows.append((_NAMES[part], form(family, BIGINT, first)))

    for part, field in _PARTS.items():
        add(part, "TM", f"CAST(EXTRACT({field} FROM {{0}}) AS bigint)")
    for part, field in _CLOCK.items():
        add(part, "M", f"CAST(EXTRACT({field} FROM {{0}}) AS bigint)")
        for name, place in (("date_part", "{1}"), (_NAMES[part], "{0}")):
            arguments = f"={part} C" if name == "date_part" else "C"
            rows.append((name, form(arguments, BIGINT, f"CAST(EXTRACT({field} FROM {place}) AS bigint)")))
    for part, field in _SECONDS.items():
        add(part, "M", f"CAST(floor(EXTRACT({field} FROM {{0}})) AS bigint)")
        rows.append(
            ("date_part", form(f"={part} C", BIGINT, f"CAST(floor(EXTRACT({field} FROM {{1}})) AS bigint)"))
        )
    yearweek = "CAST(EXTRACT(isoyear FROM {0}) * 100 + EXTRACT(week FROM {0}) AS bigint)"
    second, first = (from_year_one(t, "PostgreSQL") for t in (yearweek.replace("{0}", "{1}"), yearweek))
    for family in "TM":
        rows.append(("date_part", form(f"=yearweek {family}", BIGINT, second)))
        rows.append(("yearweek", form(family, BIGINT, first)))
    for name, pattern in (("dayname", "FMDay"), ("monthname", "FMMonth")):
        rows += [
            (name, form(family, VARCHAR, f"to_char({{0}}, '{pattern}') COLLATE \"C\"")) for family in "TM"
        ]
    return rows


def _truncations() -> list[tuple[str, Form]]:
    rows = []
    for part in ("year", "quarter", "month", "week", "day", "hour", "minute", "second"):
        value_range = same_or_previous_year if part == "week" else same_year
        rows.append(
            (
                "date_trunc datetrunc",
                form(f"={part} M", TIMESTAMP, f"date_trunc('{part}', {{1}})", value_range),
            )
        )
        if part not in ("hour", "minute", "second"):
            text = f"date_trunc('{part}', CAST({{1}} AS timestamp))"
            rows.append(("date_trunc datetrunc", form(f"={part} T", TIMESTAMP, text, value_range)))
    return rows


def _differences() -> list[tuple[str, Form]]:
    years = "EXTRACT(year FROM {2}) - EXTRACT(year FROM {1})"
    months = f"({years}) * 12 + EXTRACT(month FROM {{2}}) - EXTRACT(month FROM {{1}})"
    quarters = f"({years}) * 4 + EXTRACT(quarter FROM {{2}}) - EXTRACT(quarter FROM {{1}})"
    rows = []
    for family in "TM":
        for part, text in (
            ("year", years),
            ("month", months),
            ("quarter", quarters),
            ("day", "CAST({2} AS date) - CAST({1} AS date)"),
        ):
            entry = form(
                f"={part} {family} {family}",
                BIGINT,
                both_from_year_one(f"CAST({text} AS bigint)", "PostgreSQL"),
            )
            rows.append(("date_diff datediff", entry))
    for part, size in (("hour", 3600), ("minute", 60), ("second", 1)):
        later, sooner = (f"floor(EXTRACT(epoch FROM {{{i}}}) / {size})" for i in (2, 1))
        text = f"CAST({later} - {sooner} AS bigint)"
        rows.append(("date_diff datediff", form(f"={part} M M", BIGINT, text)))
    return rows


def _add_days(sign: str) -> Callable[[list[Value]], str]:
    def write(values: list[Value]) -> str:
        shifted_years(values)
        return f"{values[0].sql} {sign} CAST({values[1].sql} AS integer)"

    return write


_PATTERNS = {"Y": "YYYY", "m": "MM", "d": "DD", "H": "HH24", "M": "MI", "S": "SS"}


def _strftime(values: list[Value]) -> str:
    return f"to_char({values[0].sql}, '{strftime_pattern(values, _PATTERNS, 'PostgreSQL')}') COLLATE \"C\""


def change_case(which: str) -> Callable[[list[Value]], str]:
    """Return the text of lower or upper: the engine maps ASCII, DuckDB's table all other letters."""

    def write(values: list[Value]) -> str:
        x = values[0].sql
        old, new = case_table(which)
        return (
            f"CASE WHEN octet_length({x}) = char_length({x}) THEN {which}({x}) "
            f"ELSE translate({which}({x}), '{old}', '{new}') END"
        )

    return write


def _shifts() -> list[tuple[str, Form]]:
    return [
        (f"add_{unit}", form("M I", TIMESTAMP, "{0} + {1} * " + f"interval '1 {unit}'"))
        for unit in ("year", "month", "week", "day", "hour", "minute", "second")
    ]


_TEXT = 'COLLATE "C"'

FORMS = collect(
    [
        ("+", form("B B", HUGEINT, "{0} + {1}")),
        ("-", form("B B", HUGEINT, "{0} - {1}")),
        ("*", form("B B", HUGEINT, "{0} * {1}")),
        ("//", form("B B", HUGEINT, "div({0}, NULLIF({1}, 0))")),
        ("%", form("B B", HUGEINT, "mod({0}, NULLIF({1}, 0))")),
        ("neg", form("B", HUGEINT, "- {0}")),
        ("neg", form("N", None, "- {0}")),
        ("neg", form("D", DOUBLE, "- {0}", lambda v: v[0].value_range)),
        ("abs", form("B", HUGEINT, "abs({0})")),
        ("abs", form("N", None, "abs({0})")),
        ("abs", form("D", DOUBLE, "abs({0})", lambda v: v[0].value_range)),
        ("sign", form("I", INTEGER, "CAST(sign({0}) AS bigint)")),
        ("sign", form("N", INTEGER, "CAST(sign({0}) AS bigint)")),
        ("&", form("I I", BIGINT, "{0} & {1}")),
        ("|", form("I I", BIGINT, "{0} | {1}")),
        ("xor", form("I I", BIGINT, "{0} # {1}")),
        ("~", form("I", BIGINT, "~ {0}")),
        ("+", form("D D", DOUBLE, unless_overflow(sum_range, "{0} + {1}"), sum_range)),
        ("-", form("D D", DOUBLE, unless_overflow(sum_range, "{0} - {1}"), sum_range)),
        # For counts and lengths, which are far from overflow; all other integers are computed as HUGEINT (B).
        ("-", form("I I", BIGINT, "{0} - {1}")),
        ("+", form("I I", BIGINT, "{0} + {1}")),
        ("*", form("I I", BIGINT, "{0} * {1}")),
        ("*", form("D D", DOUBLE, unless_overflow(product_range, "{0} * {1}"), product_range)),
        ("/", form("I I", DOUBLE, quotient, _integer_quotient_range)),
        ("/", form("D D", DOUBLE, _double_quotient, _constant_quotient_range)),
        ("isnan", form("D", BOOLEAN, "{0} = float8 'NaN'")),
        ("isinf", form("D", BOOLEAN, "{0} IN (float8 'Infinity', float8 '-Infinity')")),
        ("isfinite", form("D", BOOLEAN, "{0} NOT IN (float8 'NaN', float8 'Infinity', float8 '-Infinity')")),
        ("floor", form("D", DOUBLE, "floor({0}) + 0.0")),
        ("ceil ceiling", form("D", DOUBLE, "ceil({0}) + 0.0")),
        ("trunc", form("D", DOUBLE, "trunc({0}) + 0.0")),
        ("length len char_length character_length", form("S", BIGINT, "CAST(char_length({0}) AS bigint)")),
        ("strlen", form("S", BIGINT, "CAST(octet_length({0}) AS bigint)")),
        ("bit_length", form("S", BIGINT, "CAST(octet_length({0}) AS bigint) * 8")),
        ("lower lcase", form("S", VARCHAR, change_case("lower"))),
        ("upper ucase", form("S", VARCHAR, change_case("upper"))),
        ("trim", form("S", VARCHAR, "btrim({0}, '" + SPACES + "')")),
        ("ltrim", form("S", VARCHAR, "ltrim({0}, '" + SPACES + "')")),
        ("rtrim", form("S", VARCHAR, "rtrim({0}, '" + SPACES + "')")),
        ("trim", form("S #s", VARCHAR, "btrim({0}, {1})")),
        ("ltrim", form("S #s", VARCHAR, "ltrim({0}, {1})")),
        ("rtrim", form("S #s", VARCHAR, "rtrim({0}, {1})")),
        ("md5", form("S", VARCHAR, "md5({0}) " + _TEXT)),
        ("contains", form("S S", BOOLEAN, "strpos({0}, {1}) > 0")),
        ("starts_with prefix ^@", form("S S", BOOLEAN, "starts_with({0}, {1})")),
        ("ends_with suffix", form("S S", BOOLEAN, "right({0}, char_length({1})) = {1}")),
        ("strpos instr", form("S S", BIGINT, "CAST(strpos({0}, {1}) AS bigint)")),
        ("left", form("S #n", VARCHAR, "left({0}, CAST({1} AS integer))")),
        ("right", form("S #n", VARCHAR, "right({0}, CAST({1} AS integer))")),
        ("substring substr", form("S #p", VARCHAR, "substr({0}, CAST({1} AS integer))")),
        (
            "substring substr",
            form("S #p #n", VARCHAR, "substr({0}, CAST({1} AS integer), CAST({2} AS integer))"),
        ),
        ("split_part", form("S #s #p", VARCHAR, "split_part({0}, {1}, CAST({2} AS integer))")),
        ("replace", form("S #s S", VARCHAR, "replace({0}, {1}, {2})")),
        ("lpad", form("S #n #s", VARCHAR, "lpad({0}, CAST({1} AS integer), {2})")),
        ("rpad", form("S #n #s", VARCHAR, "rpad({0}, CAST({1} AS integer), {2})")),
        ("||", form("S S", VARCHAR, "{0} || {1}")),
        ("concat_nonnull", form("S S", VARCHAR, "concat({0}, {1}) " + _TEXT)),
        *_parts(),
        *_truncations(),
        *_differences(),
        *_shifts(),
        (
            "last_day",
            form("T", DATE, "CAST(date_trunc('month', {0}) + interval '1 month - 1 day' AS date)", same_year),
        ),
        (
            "last_day",
            form("M", DATE, "CAST(date_trunc('month', {0}) + interval '1 month - 1 day' AS date)", same_year),
        ),
        ("+", form("T I", DATE, _add_days("+"), shifted_years)),
        ("-", form("T I", DATE, _add_days("-"), shifted_years)),
        ("-", form("T T", BIGINT, "CAST({0} - {1} AS bigint)")),
        ("isfinite", form("T", BOOLEAN, "isfinite({0})")),
        ("isinf", form("T", BOOLEAN, "NOT isfinite({0})")),
        ("strftime", form("T #s", VARCHAR, _strftime)),
        ("strftime", form("M #s", VARCHAR, _strftime)),
    ]
)
"""Forms by DuckDB's name. A test compares every form with DuckDB's results on hostile values."""
