"""The abstract class of a dialect: how an engine writes names, types, conversions and aggregates.

Below it are the forms of functions that several engines write alike, up to the names of types and of
functions, and DuckDB's mapping of letters to lower and upper case, which other engines apply whatever their
locale.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from functools import cache
from typing import ClassVar
from uuid import UUID

import duckdb

from dpsql.engines.worker import Untranslatable
from dpsql.engines.writer.written_values import (
    INTEGERS,
    Form,
    RangeRule,
    TargetColumn,
    Value,
    first_range,
    same_or_previous_year,
    same_year,
    shifted_range,
    since_year_one,
    type_family,
)
from dpsql.types import BIGINT, DATE, DOUBLE, HUGEINT, INTEGER, NULL, TIMESTAMP, VARCHAR, SqlType


@cache
def case_table(function: str) -> tuple[str, str]:
    """Return the characters beyond ASCII that DuckDB's `lower` or `upper` changes, and their results.

    >>> frm, to = case_table("upper")
    >>> to[frm.index("ä")]
    'Ä'
    """
    if function not in ("lower", "upper"):
        raise ValueError(function)
    # Surrogates are no characters; chr raises on them.
    points = "SELECT TRY(chr(i::INTEGER)) AS c FROM range(128, 1114112) AS r(i)"
    with duckdb.connect(":memory:") as connection:
        rows = connection.execute(
            f"SELECT c, {function}(c) AS d FROM ({points}) AS p WHERE {function}(c) <> c ORDER BY c"
        ).fetchall()
    changed = [(c, d) for c, d in rows if len(d) == 1]
    if len(changed) != len(rows):
        raise ValueError("a character has a case mapping of several characters")
    return "".join(c for c, _ in changed), "".join(d for _, d in changed)


SPACES = "".join(map(chr, [0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]))
"""The characters that DuckDB's trim removes: Unicode's space separators."""


def common_forms(bigint: str, integer: str) -> tuple[Form, ...]:
    """Return the forms of the functions that engines have under one name; arguments name their types."""
    return (
        Form("neg", "B", HUGEINT, "- {0}"),
        Form("neg", "ND", None, "- {0}", first_range),
        Form("abs", "B", HUGEINT, "abs({0})"),
        Form("abs", "ND", None, "abs({0})", first_range),
        Form("round trunc", "I", None, "{0}"),
        Form("+", "N N", "sum", "{0} + {1}"),
        Form("-", "N N", "sum", "{0} - {1}"),
        Form("*", "N N", "product", "{0} * {1}"),
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


_PART_FUNCTIONS = {
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
        yield Form(_PART_FUNCTIONS.get(part, part), families, BIGINT, sql, since_year_one)


_DATE_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def date_truncations(timestamp: Callable[[str], str], day: Callable[[str], str]) -> Iterator[Form]:
    """Return the forms of `date_trunc`, written by one function for timestamps and one for dates."""
    for part in _DATE_PARTS:
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
    for unit in _DATE_PARTS:
        if unit != "quarter":
            yield Form(f"add_{unit}", "M I", TIMESTAMP, template(unit))
    yield Form("+", "T I", DATE, add, shifted_range)
    yield Form("-", "T I", DATE, subtract, shifted_range)


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


def integer_bounds(sql_type: SqlType) -> tuple[int, int]:
    """Return the first and last value of an integer type."""
    if sql_type == HUGEINT:
        return -(2**127), 2**127 - 1
    low = -(1 << (sql_type.bits - 1)) if sql_type.signed else 0
    return low, (1 << (sql_type.bits - 1 if sql_type.signed else sql_type.bits)) - 1


_PYTHON = {"D": float, "I": int, "B": int, "N": Decimal, "S": str, "L": bool}
_PYTHON |= {"T": date, "M": date, "C": time, "U": UUID}
"""The Python type of a constant of each family; dates that Python has not are of another type."""
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


ONCE = "once"
"""The name of the row of operands that are computed once."""


class Dialect(ABC):
    """The SQL of one engine. Every text is written by a method here, none by a general transpiler."""

    name: ClassVar[str]
    """The engine's name in messages."""
    mark: ClassVar[str]
    """The character around a quoted name."""
    types: ClassVar[Mapping[str, str]]
    """The engine's type for the values of each family (see `type_family`) that it has; DECIMAL is `N`."""
    forms: ClassVar[Mapping[str, Sequence[Form]]]
    """The forms of functions and operators, by DuckDB's name."""
    full_join_conditions: ClassVar[bool]
    """Whether FULL JOIN takes conditions other than equalities of columns."""
    semi_joins: ClassVar[bool]
    """Whether the engine has SEMI and ANTI JOIN."""
    group_frames: ClassVar[bool]
    """Whether the engine has window frames in GROUPS."""
    in_has_null: ClassVar[bool]
    """Whether IN over a query has three values wherever it stands; else it has where WHERE ends in it."""
    max_size: ClassVar[int]
    """By how much a statement may be larger after substitution than it is written (see `Cost`)."""
    times: ClassVar[Mapping[str, float]]
    """The microseconds that a call of a function, or an operator by its word, takes for a text of 64 KiB."""

    digits: ClassVar[int | None] = None
    """The most digits of a whole number, beyond which it is NULL; None: it has as many as it needs."""

    def __init__(
        self,
        tables: Mapping[str, tuple[str, dict[str, TargetColumn]]],
        longest: int = 65_536,
        timeout: int = 3600,
    ) -> None:
        """`longest` is the length of the longest text in bytes, `timeout` the seconds of a statement."""
        self._tables = tables
        self.longest = longest
        self.timeout = timeout

    def scan(self, table: str) -> tuple[str, dict[str, TargetColumn]]:
        """Return the FROM item (without alias) that reads a declared table, and its columns by name."""
        return self._tables[table]

    def quote(self, name: str) -> str:
        """Return a name in the quotes of the engine."""
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def type_name(self, sql_type: SqlType) -> str:
        """Return the engine's type for values of a DuckDB type."""
        letter = type_family(sql_type)
        if letter not in self.types:
            raise Untranslatable(f"{self.name} has no type for {sql_type}")
        size = f"({sql_type.precision},{sql_type.scale})" if letter == "N" else ""
        return self.types[letter] + size

    @abstractmethod
    def text(self, value: str) -> str:
        """Return a text as a string constant of the engine."""

    def constant(self, value: object, sql_type: SqlType) -> str:
        """Write a constant that DuckDB computed."""
        shown, target = value, self.type_name(sql_type)
        if value is None:
            return f"CAST(NULL AS {target})"
        if not isinstance(value, _PYTHON.get(type_family(sql_type), ())):
            raise Untranslatable(f"{self.name} has no constants of type {sql_type}")
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, float):
            shown = repr(value + 0.0) if math.isfinite(value) else _NOT_FINITE[repr(value)]
        return f"CAST('{shown}' AS {target})"

    def or_near(self, exact: str, near: str) -> str:
        """Write a whole number where it is exact, else the DOUBLE near it, cut to the ends of the type."""
        raise Untranslatable(f"{self.name} does not compute with so many digits")

    def in_type(self, value: Value, sql_type: SqlType) -> str:
        """Return a value's SQL, converted to the engine's type for `sql_type` if it differs."""
        if value.type == NULL:
            return self.constant(None, sql_type)
        if type_family(value.type) != type_family(sql_type):
            return f"CAST({value.sql} AS {self.type_name(sql_type)})"
        return value.sql

    def canonical(self, value: Value) -> Value:
        """Write a DOUBLE so that equal values have identical bits."""
        zero = f"CAST(0 AS {self.type_name(DOUBLE)})"
        return Value(f"({value.sql} + {zero})", value.type, value.value_range, one_zero=True)

    def cast(self, value: Value, sql_type: SqlType) -> Value:
        """Write a conversion with the results of DuckDB's TRY_CAST: NULL instead of an error.

        The conversions by type that follow return None, and are refused, unless an engine overrides them.
        """
        x, old, a, b = value.sql, value.type, type_family(value.type), type_family(sql_type)
        sql, value_range = None, None
        if a in "IB" and b in "IB":
            sql = self.integer(value, sql_type)
        elif a in "IBN" and b == "N":
            sql = self.decimal(x, sql_type)
        elif a == "N" and b in "IB":
            sql = self.whole(value, sql_type)
        elif b == "D" and (a in "IB" or (a == "N" and old.precision <= 15)):
            sql = f"CAST({x} AS {self.type_name(sql_type)})"
            value_range = {"I": INTEGERS, "B": (1.0, 2.0**127)}.get(a, (10.0**-old.scale, 1e18))
        elif a == "D" and b == "I":
            sql = self.round_double(value, sql_type)
        elif a == "L" and b == "I":
            sql = self.truth(value)
        elif a == "I" and b == "L":
            sql = f"{x} <> 0"
        elif b == "S" and (a not in "TM" or value.value_range is not None):
            sql = self.print_value(value)
        elif a in "TM" and b in "TM" and value.value_range is not None:
            sql, value_range = f"CAST({x} AS {self.type_name(sql_type)})", value.value_range
        if sql is None:
            hint = "declare the column with the other type in the policy"
            if a == "N" and b == "D":
                hint = "declare it as DECIMAL(18,s) in the policy, with s digits after the point"
            raise Untranslatable(
                f"{self.name} does not convert {old} to {sql_type} as DuckDB does, for every value", hint
            )
        return Value(f"({sql})", sql_type, value_range)

    def integer(self, value: Value, sql_type: SqlType) -> str | None:
        """Convert an integer to another integer type: NULL if it does not fit."""
        return None

    def decimal(self, sql: str, sql_type: SqlType) -> str | None:
        """Convert an exact number to DECIMAL, rounded half away from zero: NULL if it does not fit."""
        return None

    def narrow(self, value: Value, sql_type: SqlType) -> Value:
        """Write the cast of a DECIMAL to a type of fewer digits, into which the value is known to fit."""
        return replace(value.with_sql(f"CAST({value.sql} AS {self.type_name(sql_type)})"), type=sql_type)

    def cut(self, value: Value, sql_type: SqlType, low: int, high: int) -> str | None:
        """Write a DECIMAL without its point, cut to two ends; None: as DuckDB computes it."""
        return None

    def whole(self, value: Value, sql_type: SqlType) -> str | None:
        """Convert a DECIMAL to an integer, rounded half away from zero: NULL if it does not fit."""
        return None

    def round_double(self, value: Value, sql_type: SqlType) -> str | None:
        """Convert a DOUBLE to the nearest integer, ties to even: NULL if it does not fit."""
        return None

    def truth(self, value: Value) -> str | None:
        """Convert a BOOLEAN to 1 or 0."""
        return None

    def print_value(self, value: Value) -> str | None:
        """Convert a value to the text that DuckDB prints."""
        return None

    @abstractmethod
    def like(self, value: Value, pattern: Sequence[str | None]) -> str:
        """Write LIKE; `pattern` is a list of literal texts, None for `%` and an empty text for `_`."""

    def is_distinct(self, a: str, b: str, *, negated: bool) -> str:
        """Write IS [NOT] DISTINCT FROM."""
        return f"{a} IS {'NOT ' if negated else ''}DISTINCT FROM {b}"

    def same_column(self, a: Value, b: Value) -> str:
        """Write that two columns are equal or both NULL, in a form by which the engine can join."""
        return self.is_distinct(a.sql, b.sql, negated=True)

    def public_name(self, place: int, sql: str) -> str:
        """Return the name of a statement's public relation: by its place, or by its text."""
        return f"p{place}"

    @abstractmethod
    def once(self, operands: Mapping[int, str], body: str) -> str:
        """Write `body` with the operands at their places computed once: it names them by `operand_name`."""

    def operand_name(self, place: int) -> str:
        """Return the name of an operand that is computed once."""
        return f"{self.quote(ONCE)}.{self.quote(f'x{place}')}"

    @abstractmethod
    def hash_values(self, values: Sequence[str]) -> str:
        """Write a hash of several values, which samples the groups that a unit keeps."""

    def aggregate(self, name: str, value: Value, *, distinct: bool, tail: str) -> Value:
        """Write an aggregate that does not depend on the order of rows; `tail` is its FILTER and OVER."""
        letter, word = type_family(value.type), "DISTINCT " if distinct else ""

        def call(name: str) -> str:
            return f"{name}({word}{value.sql}){tail}"

        match name:
            case "count":
                return Value(call(name), BIGINT)
            case "sum" if letter in "IB":
                return Value(call(name), HUGEINT)
            case "sum" if letter == "N":
                return Value(call(name), SqlType("DECIMAL", 38, value.type.scale))
            case "avg" if letter == "I":
                top, bottom = self.aggregate("sum", value, distinct=distinct, tail=tail).sql, call("count")
                sql = f"(CAST({top} AS {self.type_name(DOUBLE)}) / NULLIF({bottom}, 0))"
                return Value(sql, DOUBLE, (1e-19, 2.0**63))
        by_type = {"min": "IBNDSTMCL", "max": "IBNDSTMCL", "bool_and": "L", "bool_or": "L"}
        if letter not in by_type.get(name, "I" if name in ("bit_and", "bit_or", "bit_xor") else ""):
            raise Untranslatable(f"{self.name} does not compute {name} of {value.type} as DuckDB does")
        return value.with_sql(call(name))
