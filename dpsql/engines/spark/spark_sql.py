"""The SQL of Spark with ANSI mode off: types, constants, conversions, LIKE, and forms of functions.

A value that does not fit is NULL, and no value raises. Public rows are a table of Arrow, from which Spark
makes a view.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from dpsql.engines.worker import Untranslatable
from dpsql.engines.writer import PublicRelation
from dpsql.engines.writer.dialect import (
    ONCE,
    SPACES,
    Dialect,
    change_case,
    common_forms,
    date_differences,
    date_parts,
    date_shifts,
    date_truncations,
    integer_bounds,
    strftime_forms,
)
from dpsql.engines.writer.written_values import (
    Form,
    Value,
    collect_forms,
    product_range,
    same_year,
    sum_range,
    type_family,
)
from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, VARCHAR, SqlType


def string_literal(value: str) -> str:
    r"""Write a text literal; all but plain characters are UTF-16 escapes, so that none is syntax.

    >>> string_literal("it's 5%"), string_literal("\U0001f600")
    ("'it\\u0027s 5\\u0025'", "'\\uD83D\\uDE00'")
    """
    return "'" + re.sub(r"[^A-Za-z0-9 .,:_-]", lambda m: _utf16_escapes(m[0]), value) + "'"


def _utf16_escapes(char: str) -> str:
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


def _truncate_date(part: str) -> str:
    date = "{1}" if part == "day" else f"trunc({{1}}, '{part.upper()}')"
    return f"CAST({date} AS TIMESTAMP_NTZ)"


def _count_periods(seconds: int) -> str:
    size = f"{seconds * 1_000_000}L"

    def boundary(place: str) -> str:
        micros = f"unix_micros(CAST({place} AS TIMESTAMP))"
        return f"(({micros} - pmod({micros}, {size})) div {size})"

    return f"{boundary('{2}')} - {boundary('{1}')}"


def _shift(unit: str) -> str:
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

FORMS = collect_forms(
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
        lambda part: f"CAST(date_trunc('{part.upper()}', {{1}}) AS TIMESTAMP_NTZ)", _truncate_date
    ),
    date_differences(
        lambda part, x: f"{part}({x})",
        "datediff(CAST({2} AS DATE), CAST({1} AS DATE))",
        _count_periods,
        "BIGINT",
    ),
    date_shifts(_shift, "date_add({0}, CAST({1} AS INT))", "date_sub({0}, CAST({1} AS INT))"),
    strftime_forms("date_format({0}, '{pattern}')", _PATTERNS, {"dayname": "EEEE", "monthname": "MMMM"}),
)
"""Forms by DuckDB's name. A test compares every form with DuckDB's results on hostile values."""

_NARROW = {"TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INT"}


class SparkDialect(Dialect):
    """The SQL of Spark 4; texts are compared by their bytes (UTF8_BINARY)."""

    name: ClassVar[str] = "Spark"
    mark: ClassVar[str] = "`"
    types: ClassVar[Mapping[str, str]] = {
        "I": "BIGINT",
        "B": "DECIMAL(38,0)",
        "N": "DECIMAL",
        "D": "DOUBLE",
        "S": "STRING",
        "T": "DATE",
        "M": "TIMESTAMP_NTZ",
        "L": "BOOLEAN",
    }
    forms: ClassVar[Mapping[str, Sequence[Form]]] = FORMS
    full_join_conditions: ClassVar[bool] = True
    semi_joins: ClassVar[bool] = True
    group_frames: ClassVar[bool] = False
    digits: ClassVar[int | None] = 38
    in_has_null: ClassVar[bool] = False
    max_size: ClassVar[int] = 35_000
    times: ClassVar[Mapping[str, float]] = {
        **dict.fromkeys(("translate", "trim", "contains", "instr", "replace", "split_part"), 10_000),
        **dict.fromkeys(("substring", "left", "right", "char_length", "octet_length", "md5"), 2_000),
        **dict.fromkeys(("startswith", "endswith", "lpad", "rpad", "lower", "upper", "xxhash64"), 2_000),
        **dict.fromkeys(("concat_ws", "try_validate_utf8"), 2_000),
    }

    def text(self, value: str) -> str:
        """Return a text as a string constant of Spark."""
        return string_literal(value)

    def integer(self, value: Value, sql_type: SqlType) -> str:
        """Convert an integer to another integer type: NULL if it does not fit."""
        (low, high), old = integer_bounds(sql_type), integer_bounds(value.type)
        if low <= old[0] and old[1] <= high:
            return f"CAST({value.sql} AS {self.type_name(sql_type)})"
        if type_family(sql_type) == "I" and sql_type.signed:
            return f"CAST(TRY_CAST({value.sql} AS {_NARROW.get(sql_type.name, 'BIGINT')}) AS BIGINT)"
        inside = f"CASE WHEN {value.sql} BETWEEN {low} AND {high} THEN {value.sql} END"
        return f"CAST({inside} AS {self.type_name(sql_type)})"

    def or_near(self, exact: str, near: str) -> str:
        """Write a whole number where it is exact, else the DOUBLE near it, cut to the ends of the type.

        A DOUBLE of 10^38 or more has no value of the type, and is the end on its side.
        """
        top, nines = "CAST('1E38' AS DOUBLE)", "9" * 38
        ends = f"WHEN {near} >= {top} THEN {nines} WHEN {near} <= - {top} THEN -{nines}"
        return f"COALESCE({exact}, CASE {ends} ELSE TRY_CAST({near} AS DECIMAL(38,0)) END)"

    def decimal(self, sql: str, sql_type: SqlType) -> str:
        """Convert an exact number to DECIMAL, rounded half away from zero: NULL if it does not fit."""
        return f"TRY_CAST({sql} AS {self.type_name(sql_type)})"

    def whole(self, value: Value, sql_type: SqlType) -> str:
        """Convert a DECIMAL to an integer, rounded half away from zero: NULL if it does not fit."""
        return self.integer(Value(f"ROUND({value.sql}, 0)", HUGEINT), sql_type)

    def round_double(self, value: Value, sql_type: SqlType) -> str:
        """Convert a DOUBLE to the nearest integer, ties to even: NULL if it does not fit."""
        # Spark's own test compares with the bound rounded up to 2^63.
        below = f"{value.sql} < CAST('9.223372036854775807E18' AS DOUBLE)"
        whole = f"CASE WHEN {below} THEN TRY_CAST(rint({value.sql}) AS BIGINT) END"
        return self.integer(Value(f"({whole})", BIGINT), sql_type)

    def truth(self, value: Value) -> str:
        """Convert a BOOLEAN to 1 or 0."""
        return f"CAST({value.sql} AS BIGINT)"

    def print_value(self, value: Value) -> str | None:
        """Convert a value to the text that DuckDB prints."""
        letter, (low, high) = type_family(value.type), value.value_range or (0, 0)
        if letter in "TM" and (low < 1 or high > 9999):
            raise Untranslatable("this date could lie outside the years 1 to 9999")
        exact = letter == "N" and value.type.scale <= 6
        return f"CAST({value.sql} AS STRING)" if exact or letter in "LIBTM" else None

    def like(self, value: Value, pattern: Sequence[str | None]) -> str:
        """Write LIKE; `pattern` is a list of literal texts, None for `%` and an empty text for `_`.

        Not Spark's LIKE, a regular expression that can take minutes for one row.
        """
        shape = [p for i, p in enumerate(pattern) if i == 0 or p is not None or pattern[i - 1] is not None]
        x, texts = value.sql, [p for p in shape if p]
        runs = [string_literal(p) for p in texts]
        match ["%" if p is None else "_" if not p else "x" for p in shape]:
            case []:
                return f"({x} = '')"
            case ["x"]:
                return f"({x} = {runs[0]})"
            case ["%"]:
                return f"startswith({x}, '')"
            case ["x", "%"]:
                return f"startswith({x}, {runs[0]})"
            case ["%", "x"]:
                return f"endswith({x}, {runs[0]})"
            case ["%", "x", "%"]:
                return f"contains({x}, {runs[0]})"
            case ["x", "%", "x"]:
                size = sum(len(p.encode()) for p in texts)
                ends = f"startswith({x}, {runs[0]}) AND endswith({x}, {runs[1]})"
                return f"(octet_length({x}) >= {size} AND {ends})"
        raise Untranslatable(
            f"{self.name} does not run this LIKE: its time would depend on the texts",
            "write 'a%', '%a', '%a%' or 'a%b', several with AND; or substring(x, 1, 1) for one position",
        )

    def is_distinct(self, a: str, b: str, *, negated: bool) -> str:
        """Write IS [NOT] DISTINCT FROM."""
        return f"{a} <=> {b}" if negated else f"NOT ({a} <=> {b})"

    def aggregate(self, name: str, value: Value, *, distinct: bool, tail: str) -> Value:
        """Write an aggregate that does not depend on the order of rows; `tail` is its FILTER and OVER.

        Sums are computed in DECIMAL, since those of BIGINT overflow.
        """
        letter = type_family(value.type)
        if name == "sum" and letter in "IB":
            exact = f"CAST({value.sql} AS DECIMAL(20,0))" if letter == "I" else value.sql
            total = super().aggregate(name, Value(exact, HUGEINT), distinct=distinct, tail=tail)
            return total.with_sql(f"CAST({total.sql} AS DECIMAL(38,0))")
        return super().aggregate(name, value, distinct=distinct, tail=tail)

    def public_name(self, place: int, sql: str) -> str:
        """Return the name of a statement's public relation: by its place, or by its text.

        Views belong to the session, in which other statements run at the same time.
        """
        return f"p_{hashlib.sha256(sql.encode()).hexdigest()[:32]}"

    def once(self, operands: Mapping[int, str], body: str) -> str:
        """Write `body` with the operands at their places computed once: it names them by `operand_name`.

        The function of a list's only element has the operands as its parameter.
        """
        listed = ", ".join(f"'x{i}', {sql}" for i, sql in operands.items())
        return f"(transform(array(named_struct({listed})), {self.quote(ONCE)} -> {body})[0])"

    def hash_values(self, values: Sequence[str]) -> str:
        """Write a hash of several values, which samples the groups that a unit keeps."""
        return f"xxhash64({', '.join(values)})"


_ARROW = {"I": pa.int64(), "B": pa.decimal128(38, 0), "0": pa.string(), "S": pa.string()}


def arrow_rows(public: PublicRelation) -> pa.Table:
    """Return public rows with the Arrow types of Spark's columns."""
    arrays = [
        column.cast(_ARROW.get(type_family(target.type), column.type)).combine_chunks()
        for column, target in zip(public.rows.columns, public.columns, strict=True)
    ]
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
