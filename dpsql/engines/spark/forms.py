"""Spark's forms of functions and operators; with ANSI mode off none of them raises."""

from __future__ import annotations

import re

from dpsql.engines.writer.common import (
    SPACES,
    change_case,
    common_forms,
    date_differences,
    date_parts,
    date_shifts,
    date_truncations,
    strftime_forms,
)
from dpsql.engines.writer.forms import Form, collect
from dpsql.engines.writer.ranges import product_range, same_year, sum_range
from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, VARCHAR


def string_literal(value: str) -> str:
    r"""Write a text literal; all but plain characters are UTF-16 escapes, so that none is syntax.

    >>> string_literal("it's 5%"), string_literal("\U0001f600")
    ("'it\\u0027s 5\\u0025'", "'\\uD83D\\uDE00'")
    """
    return "'" + re.sub(r"[^A-Za-z0-9 .,:_-]", lambda m: _units(m[0]), value) + "'"


def _units(char: str) -> str:
    data = char.encode("utf-16-be")
    return "".join(f"\\u{data[i]:02X}{data[i + 1]:02X}" for i in range(0, len(data), 2))


_NAN, _INF, _MINUS = (f"CAST('{word}' AS DOUBLE)" for word in ("NaN", "Infinity", "-Infinity"))
_A, _B = "CAST({0} AS DOUBLE)", "CAST({1} AS DOUBLE)"
_QUOTIENT = (
    f"CASE WHEN {_B} <> 0 THEN {_A} / {_B} WHEN {_B} = 0 THEN "
    f"CASE WHEN isnan({_A}) THEN {_A} WHEN {_A} > 0 THEN {_INF} WHEN {_A} < 0 THEN {_MINUS} "
    f"WHEN {_A} = 0 THEN {_NAN} END END"
)
"""A division as in IEEE 754; Spark's own returns NULL for a divisor of zero."""

_DAYS = {part: f"{part}({{0}})" for part in ("year", "month", "day", "quarter")}
_DAYS |= {
    "dow": "(dayofweek({0}) - 1)",
    "isodow": "(weekday({0}) + 1)",
    "doy": "dayofyear({0})",
    "week": "weekofyear({0})",
    "isoyear": "extract(YEAROFWEEK FROM {0})",
    "decade": "(year({0}) div 10)",
    "century": "((year({0}) + 99) div 100)",
    "yearweek": "(extract(YEAROFWEEK FROM {0}) * 100 + weekofyear({0}))",
}
_TIMES = {part: f"{part}({{0}})" for part in ("hour", "minute", "second")}
_TIMES |= {
    "millisecond": "floor(extract(SECOND FROM {0}) * 1000)",
    "microsecond": "floor(extract(SECOND FROM {0}) * 1000000)",
}


def _truncated_date(part: str) -> str:
    date = "{1}" if part == "day" else f"trunc({{1}}, '{part.upper()}')"
    return f"CAST({date} AS TIMESTAMP_NTZ)"


def _periods(seconds: int) -> str:
    size = f"{seconds * 1_000_000}L"

    def boundary(place: str) -> str:
        micros = f"unix_micros(CAST({place} AS TIMESTAMP))"
        return f"(({micros} - pmod({micros}, {size})) div {size})"

    return f"{boundary('{2}')} - {boundary('{1}')}"


def _shifted(unit: str) -> str:
    units = ("year", "month", "week", "day", "hour", "minute", "second")
    return f"{{0}} + make_interval({', '.join('CAST({1} AS INT)' if u == unit else '0' for u in units)})"


_PATTERNS = {"Y": "yyyy", "m": "MM", "d": "dd", "H": "HH", "M": "mm", "S": "ss"}
_SPACES = string_literal(SPACES)
# DIV computes in BIGINT. A quotient of DECIMALs has six decimals, and is NULL beyond 32 digits.
_DIVISOR = "NULLIF({1}, CAST(0 AS DECIMAL(38,0)))"
_DIV = (
    f"COALESCE(CAST(({{0}} - {{0}} % {_DIVISOR}) / {_DIVISOR} AS DECIMAL(38,0)), "
    f"TRY_CAST(CAST({{0}} AS DOUBLE) / CAST({_DIVISOR} AS DOUBLE) AS DECIMAL(38,0)))"
)
_MOD = "CAST({0} % NULLIF({1}, CAST(0 AS DECIMAL(38,0))) AS DECIMAL(38,0))"

FORMS = collect(
    common_forms("BIGINT", "INT"),
    (
        Form("+", "IB IB", HUGEINT, "CAST({0} + {1} AS DECIMAL(38,0))"),
        Form("-", "IB IB", HUGEINT, "CAST({0} - {1} AS DECIMAL(38,0))"),
        Form("*", "IB IB", HUGEINT, "CAST({0} * {1} AS DECIMAL(38,0))"),
        Form("//", "IB IB", HUGEINT, _DIV),
        Form("%", "IB IB", HUGEINT, _MOD),
        Form("xor", "I I", BIGINT, "{0} ^ {1}"),
        Form("+", "D D", DOUBLE, "{0} + {1}", sum_range),
        Form("-", "D D", DOUBLE, "{0} - {1}", sum_range),
        Form("*", "D D", DOUBLE, "{0} * {1}", product_range),
        Form("/", "I I!", DOUBLE, f"{_A} / {_B}"),
        Form("/", "I I", DOUBLE, _QUOTIENT),
        Form("/", "D D!", DOUBLE, f"{_A} / {_B}"),
        Form("/", "D D", DOUBLE, _QUOTIENT),
        Form("isnan", "D", BOOLEAN, "CASE WHEN {0} IS NOT NULL THEN isnan({0}) END"),
        Form("isinf", "D", BOOLEAN, f"{{0}} IN ({_INF}, {_MINUS})"),
        Form("isfinite", "D", BOOLEAN, f"{{0}} NOT IN ({_NAN}, {_INF}, {_MINUS})"),
        Form("bit_length", "S", BIGINT, "CAST(bit_length({0}) AS BIGINT)"),
        Form("trim", "S", VARCHAR, f"TRIM(BOTH {_SPACES} FROM {{0}})"),
        Form("ltrim", "S", VARCHAR, f"TRIM(LEADING {_SPACES} FROM {{0}})"),
        Form("rtrim", "S", VARCHAR, f"TRIM(TRAILING {_SPACES} FROM {{0}})"),
        Form("trim", "S #s", VARCHAR, "TRIM(BOTH {1} FROM {0})"),
        Form("ltrim", "S #s", VARCHAR, "TRIM(LEADING {1} FROM {0})"),
        Form("rtrim", "S #s", VARCHAR, "TRIM(TRAILING {1} FROM {0})"),
        Form("md5", "S", VARCHAR, "md5(CAST({0} AS BINARY))"),
        Form("contains", "S S", BOOLEAN, "contains({0}, {1})"),
        Form("starts_with prefix ^@", "S S", BOOLEAN, "startswith({0}, {1})"),
        Form("ends_with suffix", "S S", BOOLEAN, "endswith({0}, {1})"),
        Form("strpos instr", "S S", BIGINT, "CAST(instr({0}, {1}) AS BIGINT)"),
        Form("substring substr", "S #p", VARCHAR, "substring({0}, CAST({1} AS INT))"),
        Form("substring substr", "S #p #n", VARCHAR, "substring({0}, CAST({1} AS INT), CAST({2} AS INT))"),
        Form("concat_nonnull", "S S", VARCHAR, "concat_ws('', {0}, {1})"),
        Form("last_day", "T", DATE, "last_day({0})", same_year),
        Form("last_day", "M", DATE, "last_day(CAST({0} AS DATE))", same_year),
        Form("-", "T T", BIGINT, "CAST(datediff({0}, {1}) AS BIGINT)"),
        Form("isfinite", "T", BOOLEAN, "{0} = {0}"),
        Form("isinf", "T", BOOLEAN, "{0} <> {0}"),
    ),
    change_case("translate({0}, {old}, {new})", string_literal, also="".join(map(chr, range(128)))),
    date_parts(_DAYS, "TM", "BIGINT"),
    date_parts(_TIMES, "M", "BIGINT"),
    date_truncations(
        lambda part: f"CAST(date_trunc('{part.upper()}', {{1}}) AS TIMESTAMP_NTZ)", _truncated_date
    ),
    date_differences(
        lambda part, x: f"{part}({x})", "datediff(CAST({2} AS DATE), CAST({1} AS DATE))", _periods, "BIGINT"
    ),
    date_shifts(_shifted, "date_add({0}, CAST({1} AS INT))", "date_sub({0}, CAST({1} AS INT))"),
    strftime_forms("date_format({0}, '{pattern}')", _PATTERNS, {"dayname": "EEEE", "monthname": "MMMM"}),
)
"""Forms by DuckDB's name. A test compares every form with DuckDB's results on hostile values."""
