"""Spark's forms of functions and operators; with ANSI mode off none of them raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.engines.spark.text import string_literal
from dpsql.engines.writer.cases import case_table
from dpsql.engines.writer.doubles import product_range, sum_range
from dpsql.engines.writer.forms import Form, collect, form
from dpsql.engines.writer.shared import (
    SPACES,
    from_year_one,
    same_or_previous_year,
    same_year,
    shifted_years,
    strftime_pattern,
)
from dpsql.engines.writer.value import NOT_CONSTANT
from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, INTEGER, TIMESTAMP, VARCHAR

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.engines.writer.value import Value

__all__ = ["FORMS"]

_NAN, _INF, _MINUS = (f"CAST('{word}' AS DOUBLE)" for word in ("NaN", "Infinity", "-Infinity"))


def _quotient(values: list[Value]) -> str:
    """Write a division as in IEEE 754; Spark's own returns NULL for a divisor of zero."""
    a, b = (f"CAST({v.sql} AS DOUBLE)" for v in values)
    constant = values[1].constant
    if constant is not NOT_CONSTANT and constant:
        return f"{a} / {b}"
    return (
        f"CASE WHEN {b} <> 0 THEN {a} / {b} WHEN {b} = 0 THEN "
        f"CASE WHEN isnan({a}) THEN {a} WHEN {a} > 0 THEN {_INF} WHEN {a} < 0 THEN {_MINUS} "
        f"WHEN {a} = 0 THEN {_NAN} END END"
    )


def _change_case(which: str) -> Callable[[list[Value]], str]:
    """Return the text of lower or upper: the engine maps ASCII, DuckDB's table all other letters."""

    def write(values: list[Value]) -> str:
        x = values[0].sql
        ascii_ = "".join(map(chr, range(128)))
        old, new = case_table(which)
        changed = ascii_.lower() if which == "lower" else ascii_.upper()
        return (
            f"CASE WHEN octet_length({x}) = char_length({x}) THEN {which}({x}) "
            f"ELSE translate({x}, {string_literal(ascii_ + old)}, {string_literal(changed + new)}) END"
        )

    return write


_DAYS = {
    "year": ("year", "year({0})"),
    "month": ("month", "month({0})"),
    "day": ("day dayofmonth", "day({0})"),
    "quarter": ("quarter", "quarter({0})"),
    "dow": ("dayofweek weekday", "(dayofweek({0}) - 1)"),
    "isodow": ("isodow", "(weekday({0}) + 1)"),
    "doy": ("dayofyear", "dayofyear({0})"),
    "week": ("week weekofyear", "weekofyear({0})"),
    "isoyear": ("isoyear", "extract(YEAROFWEEK FROM {0})"),
    "decade": ("decade", "(year({0}) div 10)"),
    "century": ("century", "((year({0}) + 99) div 100)"),
    "yearweek": ("yearweek", "(extract(YEAROFWEEK FROM {0}) * 100 + weekofyear({0}))"),
}
_TIMES = {
    "hour": ("hour", "hour({0})"),
    "minute": ("minute", "minute({0})"),
    "second": ("second", "second({0})"),
    "millisecond": ("millisecond", "floor(extract(SECOND FROM {0}) * 1000)"),
    "microsecond": ("microsecond", "floor(extract(SECOND FROM {0}) * 1000000)"),
}


def _parts() -> list[tuple[str, Form]]:
    rows: list[tuple[str, Form]] = []
    for parts, families in ((_DAYS, "TM"), (_TIMES, "M")):
        for part, (names, template) in parts.items():
            for family in families:
                sql = f"CAST({template} AS BIGINT)"
                second = from_year_one(sql.replace("{0}", "{1}"), "Spark")
                rows.append(("date_part datepart", form(f"={part} {family}", BIGINT, second)))
                rows.append((names, form(family, BIGINT, from_year_one(sql, "Spark"))))
    for name, pattern in (("dayname", "EEEE"), ("monthname", "MMMM")):
        rows += [(name, form(family, VARCHAR, f"date_format({{0}}, '{pattern}')")) for family in "TM"]
    return rows


def _truncations() -> list[tuple[str, Form]]:
    rows = []
    for part in ("year", "quarter", "month", "week", "day", "hour", "minute", "second"):
        value_range = same_or_previous_year if part == "week" else same_year
        sql = f"CAST(date_trunc('{part.upper()}', {{1}}) AS TIMESTAMP_NTZ)"
        rows.append(("date_trunc datetrunc", form(f"={part} M", TIMESTAMP, sql, value_range)))
        if part in ("year", "quarter", "month", "week"):
            sql = f"CAST(trunc({{1}}, '{part.upper()}') AS TIMESTAMP_NTZ)"
            rows.append(("date_trunc datetrunc", form(f"={part} T", TIMESTAMP, sql, value_range)))
    rows.append(("date_trunc datetrunc", form("=day T", TIMESTAMP, "CAST({1} AS TIMESTAMP_NTZ)", same_year)))
    return rows


def _micros(place: str) -> str:
    return f"unix_micros(CAST({place} AS TIMESTAMP))"


def _boundaries(place: str, size: int) -> str:
    return f"(({_micros(place)} - pmod({_micros(place)}, {size}L)) div {size}L)"


def _differences() -> list[tuple[str, Form]]:
    rows = []
    for family in "TM":
        for part, sql in (
            ("year", "year({2}) - year({1})"),
            ("month", "(year({2}) - year({1})) * 12 + month({2}) - month({1})"),
            ("quarter", "(year({2}) - year({1})) * 4 + quarter({2}) - quarter({1})"),
            ("day", "datediff(CAST({2} AS DATE), CAST({1} AS DATE))"),
        ):
            rows.append(
                ("date_diff datediff", form(f"={part} {family} {family}", BIGINT, f"CAST({sql} AS BIGINT)"))
            )
    for part, size in (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000)):
        sql = f"{_boundaries('{2}', size)} - {_boundaries('{1}', size)}"
        rows.append(("date_diff datediff", form(f"={part} M M", BIGINT, sql)))
    return rows


def _shifts() -> list[tuple[str, Form]]:
    units = ("year", "month", "week", "day", "hour", "minute", "second")
    rows = []
    for place, unit in enumerate(units):
        amounts = ", ".join("CAST({1} AS INT)" if i == place else "0" for i in range(len(units)))
        rows.append((f"add_{unit}", form("M I", TIMESTAMP, f"{{0}} + make_interval({amounts})")))
    return rows


_PATTERNS = {"Y": "yyyy", "m": "MM", "d": "dd", "H": "HH", "M": "mm", "S": "ss"}


def _strftime(values: list[Value]) -> str:
    return f"date_format({values[0].sql}, '{strftime_pattern(values, _PATTERNS, 'Spark')}')"


def _add_days(sign: str) -> Callable[[list[Value]], str]:
    def write(values: list[Value]) -> str:
        shifted_years(values)
        return f"{'date_add' if sign == '+' else 'date_sub'}({values[0].sql}, CAST({values[1].sql} AS INT))"

    return write


def _first_range(values: list[Value]) -> tuple[float, float] | None:
    return values[0].value_range


_SPACES = string_literal(SPACES)

FORMS = collect(
    [
        ("+", form("B B", HUGEINT, "CAST({0} + {1} AS DECIMAL(38,0))")),
        ("-", form("B B", HUGEINT, "CAST({0} - {1} AS DECIMAL(38,0))")),
        ("*", form("B B", HUGEINT, "CAST({0} * {1} AS DECIMAL(38,0))")),
        # DIV computes in BIGINT, where the negation of the least number overflows.
        (
            "//",
            form(
                "B B",
                HUGEINT,
                "CASE WHEN {1} = -1 THEN CAST(- {0} AS DECIMAL(38,0)) "
                "WHEN {1} <> 0 THEN CAST({0} div {1} AS DECIMAL(38,0)) END",
            ),
        ),
        ("%", form("B B", HUGEINT, "CAST({0} % NULLIF({1}, CAST(0 AS DECIMAL(38,0))) AS DECIMAL(38,0))")),
        ("neg", form("B", HUGEINT, "- {0}")),
        ("neg", form("N", None, "- {0}")),
        ("neg", form("D", DOUBLE, "- {0}", _first_range)),
        ("abs", form("B", HUGEINT, "abs({0})")),
        ("abs", form("N", None, "abs({0})")),
        ("abs", form("D", DOUBLE, "abs({0})", _first_range)),
        ("sign", form("I", INTEGER, "CAST(sign({0}) AS BIGINT)")),
        ("&", form("I I", BIGINT, "{0} & {1}")),
        ("|", form("I I", BIGINT, "{0} | {1}")),
        ("xor", form("I I", BIGINT, "{0} ^ {1}")),
        ("~", form("I", BIGINT, "~ {0}")),
        # For counts and lengths, which are far from overflow; all other integers are computed as HUGEINT (B).
        ("-", form("I I", BIGINT, "{0} - {1}")),
        ("+", form("I I", BIGINT, "{0} + {1}")),
        ("*", form("I I", BIGINT, "{0} * {1}")),
        ("+", form("D D", DOUBLE, "{0} + {1}", sum_range)),
        ("-", form("D D", DOUBLE, "{0} - {1}", sum_range)),
        ("*", form("D D", DOUBLE, "{0} * {1}", product_range)),
        ("/", form("I I", DOUBLE, _quotient)),
        ("/", form("D D", DOUBLE, _quotient)),
        ("isnan", form("D", BOOLEAN, "CASE WHEN {0} IS NOT NULL THEN isnan({0}) END")),
        ("isinf", form("D", BOOLEAN, f"{{0}} IN ({_INF}, {_MINUS})")),
        ("isfinite", form("D", BOOLEAN, f"{{0}} NOT IN ({_NAN}, {_INF}, {_MINUS})")),
        ("length len char_length character_length", form("S", BIGINT, "CAST(char_length({0}) AS BIGINT)")),
        ("strlen", form("S", BIGINT, "CAST(octet_length({0}) AS BIGINT)")),
        ("bit_length", form("S", BIGINT, "CAST(bit_length({0}) AS BIGINT)")),
        ("lower lcase", form("S", VARCHAR, _change_case("lower"))),
        ("upper ucase", form("S", VARCHAR, _change_case("upper"))),
        ("trim", form("S", VARCHAR, f"TRIM(BOTH {_SPACES} FROM {{0}})")),
        ("ltrim", form("S", VARCHAR, f"TRIM(LEADING {_SPACES} FROM {{0}})")),
        ("rtrim", form("S", VARCHAR, f"TRIM(TRAILING {_SPACES} FROM {{0}})")),
        ("trim", form("S #s", VARCHAR, "TRIM(BOTH {1} FROM {0})")),
        ("ltrim", form("S #s", VARCHAR, "TRIM(LEADING {1} FROM {0})")),
        ("rtrim", form("S #s", VARCHAR, "TRIM(TRAILING {1} FROM {0})")),
        ("md5", form("S", VARCHAR, "md5(CAST({0} AS BINARY))")),
        ("contains", form("S S", BOOLEAN, "contains({0}, {1})")),
        ("starts_with prefix ^@", form("S S", BOOLEAN, "startswith({0}, {1})")),
        ("ends_with suffix", form("S S", BOOLEAN, "endswith({0}, {1})")),
        ("strpos instr", form("S S", BIGINT, "CAST(instr({0}, {1}) AS BIGINT)")),
        ("left", form("S #n", VARCHAR, "left({0}, CAST({1} AS INT))")),
        ("right", form("S #n", VARCHAR, "right({0}, CAST({1} AS INT))")),
        ("substring substr", form("S #p", VARCHAR, "substring({0}, CAST({1} AS INT))")),
        ("substring substr", form("S #p #n", VARCHAR, "substring({0}, CAST({1} AS INT), CAST({2} AS INT))")),
        ("split_part", form("S #s #p", VARCHAR, "split_part({0}, {1}, CAST({2} AS INT))")),
        ("replace", form("S #s S", VARCHAR, "replace({0}, {1}, {2})")),
        ("lpad", form("S #n #s", VARCHAR, "lpad({0}, CAST({1} AS INT), {2})")),
        ("rpad", form("S #n #s", VARCHAR, "rpad({0}, CAST({1} AS INT), {2})")),
        ("||", form("S S", VARCHAR, "{0} || {1}")),
        ("concat_nonnull", form("S S", VARCHAR, "concat_ws('', {0}, {1})")),
        *_parts(),
        *_truncations(),
        *_differences(),
        *_shifts(),
        ("last_day", form("T", DATE, "last_day({0})", same_year)),
        ("last_day", form("M", DATE, "last_day(CAST({0} AS DATE))", same_year)),
        ("+", form("T I", DATE, _add_days("+"), shifted_years)),
        ("-", form("T I", DATE, _add_days("-"), shifted_years)),
        ("-", form("T T", BIGINT, "CAST(datediff({0}, {1}) AS BIGINT)")),
        ("isfinite", form("T", BOOLEAN, "{0} = {0}")),
        ("isinf", form("T", BOOLEAN, "{0} <> {0}")),
        ("strftime", form("T #s", VARCHAR, _strftime)),
        ("strftime", form("M #s", VARCHAR, _strftime)),
    ]
)
"""Forms by DuckDB's name. A test compares every form with DuckDB's results on hostile values."""
