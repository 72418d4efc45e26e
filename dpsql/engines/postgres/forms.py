"""PostgreSQL's forms of functions and operators; each is total on the values that a scan returns."""

from __future__ import annotations

from dpsql.engines.protocol import Untranslatable
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
from dpsql.engines.writer.forms import Form, Range, RangeRule, collect
from dpsql.engines.writer.ranges import (
    product_range,
    quotient_range,
    same_year,
    since_year_one,
    sum_range,
)
from dpsql.engines.writer.value import Value
from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, INTEGER, VARCHAR


def string_literal(value: str) -> str:
    r"""Write a text literal that has the same meaning whatever standard_conforming_strings is.

    >>> print(string_literal("it's"), string_literal("a\\b"))
    'it''s' E'a\\b'
    """
    if "\0" in value:
        raise Untranslatable("PostgreSQL does not support NUL characters in texts")
    quoted = value.replace("'", "''")
    return f"E'{quoted}'".replace("\\", "\\\\") if "\\" in quoted else f"'{quoted}'"


def quoted_name(*parts: str) -> str:
    """Write a name, with quotes where PostgreSQL needs them.

    >>> print(quoted_name("sales", "Visits"))
    "sales"."Visits"
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _finite(value_range: RangeRule, *, known: bool = True) -> RangeRule:
    """Return a range rule that refuses DOUBLE arithmetic which could overflow, where PostgreSQL raises."""

    def found(values: list[Value]) -> Range:
        result = value_range(values)
        if result is None:
            raise Untranslatable(
                "PostgreSQL fails if DOUBLE arithmetic overflows, and this expression could",
                "CAST the operands to BIGINT or DECIMAL",
            )
        return result if known else None

    return found


_A, _B = "CAST({0} AS float8)", "CAST({1} AS float8)"
_NAN, _INFINITY = "CAST('NaN' AS float8)", "CAST('Infinity' AS float8)"
_QUOTIENT = (
    f"CASE WHEN {_B} <> 0 THEN {_A} / {_B} WHEN {_B} = 0 THEN "
    f"CASE WHEN {_A} > 0 THEN {_INFINITY} WHEN {_A} < 0 THEN - {_INFINITY} WHEN {_A} = 0 THEN {_NAN} END END"
)
"""A division as in IEEE 754: by zero it gives an infinity or NaN. No divisor is -0.0."""

_FIELDS = ("year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "isoyear", "decade", "century")
_PARTS = {field: f"EXTRACT({field} FROM {{0}})" for field in _FIELDS}
_PARTS["yearweek"] = "EXTRACT(isoyear FROM {0}) * 100 + EXTRACT(week FROM {0})"
_CLOCK = {field: f"EXTRACT({field} FROM {{0}})" for field in ("hour", "minute")}
for _part, _field in (("second", "second"), ("millisecond", "milliseconds"), ("microsecond", "microseconds")):
    _CLOCK[_part] = f"floor(EXTRACT({_field} FROM {{0}}))"


def _periods(seconds: int) -> str:
    later, sooner = (f"floor(EXTRACT(epoch FROM {{{i}}}) / {seconds})" for i in (2, 1))
    return f"CAST({later} - {sooner} AS bigint)"


_MONTH_END = "CAST(date_trunc('month', {0}) + interval '1 month - 1 day' AS date)"
_PATTERNS = {"Y": "YYYY", "m": "MM", "d": "DD", "H": "HH24", "M": "MI", "S": "SS"}
_TEXT = 'COLLATE "C"'

FORMS = collect(
    common_forms("bigint", "integer"),
    (
        Form("+", "IB IB", HUGEINT, "{0} + {1}"),
        Form("-", "IB IB", HUGEINT, "{0} - {1}"),
        Form("*", "IB IB", HUGEINT, "{0} * {1}"),
        Form("//", "IB IB", HUGEINT, "div({0}, NULLIF({1}, 0))"),
        Form("%", "IB IB", HUGEINT, "mod({0}, NULLIF({1}, 0))"),
        Form("sign", "N", INTEGER, "CAST(sign({0}) AS bigint)"),
        Form("xor", "I I", BIGINT, "{0} # {1}"),
        Form("+", "D D", DOUBLE, "{0} + {1}", _finite(sum_range)),
        Form("-", "D D", DOUBLE, "{0} - {1}", _finite(sum_range)),
        Form("*", "D D", DOUBLE, "{0} * {1}", _finite(product_range)),
        Form("/", "I I!", DOUBLE, f"{_A} / {_B}", quotient_range),
        Form("/", "I I", DOUBLE, _QUOTIENT),
        Form("/", "D D!", DOUBLE, f"{_A} / {_B}", _finite(quotient_range)),
        Form("/", "D D", DOUBLE, _QUOTIENT, _finite(quotient_range, known=False)),
        Form("isnan", "D", BOOLEAN, "{0} = float8 'NaN'"),
        Form("isinf", "D", BOOLEAN, "{0} IN (float8 'Infinity', float8 '-Infinity')"),
        Form("isfinite", "D", BOOLEAN, "{0} NOT IN (float8 'NaN', float8 'Infinity', float8 '-Infinity')"),
        Form("floor", "D", DOUBLE, "floor({0}) + 0.0"),
        Form("ceil ceiling", "D", DOUBLE, "ceil({0}) + 0.0"),
        Form("trunc", "D", DOUBLE, "trunc({0}) + 0.0"),
        Form("bit_length", "S", BIGINT, "CAST(octet_length({0}) AS bigint) * 8"),
        Form("trim", "S", VARCHAR, f"btrim({{0}}, '{SPACES}')"),
        Form("ltrim", "S", VARCHAR, f"ltrim({{0}}, '{SPACES}')"),
        Form("rtrim", "S", VARCHAR, f"rtrim({{0}}, '{SPACES}')"),
        Form("trim", "S #s", VARCHAR, "btrim({0}, {1})"),
        Form("ltrim", "S #s", VARCHAR, "ltrim({0}, {1})"),
        Form("rtrim", "S #s", VARCHAR, "rtrim({0}, {1})"),
        Form("md5", "S", VARCHAR, f"md5({{0}}) {_TEXT}"),
        Form("contains", "S S", BOOLEAN, "strpos({0}, {1}) > 0"),
        Form("starts_with prefix ^@", "S S", BOOLEAN, "starts_with({0}, {1})"),
        Form("ends_with suffix", "S S", BOOLEAN, "right({0}, char_length({1})) = {1}"),
        Form("strpos instr", "S S", BIGINT, "CAST(strpos({0}, {1}) AS bigint)"),
        Form("substring substr", "S #p", VARCHAR, "substr({0}, CAST({1} AS integer))"),
        Form(
            "substring substr", "S #p #n", VARCHAR, "substr({0}, CAST({1} AS integer), CAST({2} AS integer))"
        ),
        Form("concat_nonnull", "S S", VARCHAR, f"concat({{0}}, {{1}}) {_TEXT}"),
        Form("last_day", "TM", DATE, _MONTH_END, same_year),
        Form("-", "T T", BIGINT, "CAST({0} - {1} AS bigint)"),
        Form("isfinite", "T", BOOLEAN, "isfinite({0})"),
        Form("isinf", "T", BOOLEAN, "NOT isfinite({0})"),
    ),
    change_case("translate({function}({0}), {old}, {new})", string_literal),
    date_parts(_PARTS, "TM", "bigint"),
    date_parts(_CLOCK, "MC", "bigint"),
    date_truncations(
        lambda part: f"date_trunc('{part}', {{1}})",
        lambda part: f"date_trunc('{part}', CAST({{1}} AS timestamp))",
    ),
    date_differences(
        lambda part, x: f"EXTRACT({part} FROM {x})",
        "CAST({2} AS date) - CAST({1} AS date)",
        _periods,
        "bigint",
        since_year_one,
    ),
    date_shifts(
        lambda unit: f"{{0}} + {{1}} * interval '1 {unit}'",
        "{0} + CAST({1} AS integer)",
        "{0} - CAST({1} AS integer)",
    ),
    strftime_forms(
        f"to_char({{0}}, '{{pattern}}') {_TEXT}", _PATTERNS, {"dayname": "FMDay", "monthname": "FMMonth"}
    ),
)
"""Forms by DuckDB's name. A test compares every form with DuckDB's results on hostile values."""
