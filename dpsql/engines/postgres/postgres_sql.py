"""The SQL of PostgreSQL: types, constants, conversions, LIKE and aggregates, and forms of functions.

Each form is total on the values that a scan returns. Public rows are a part of a statement: nothing is
written on the server, so a read-only role suffices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from dpsql.engines.worker import Untranslatable
from dpsql.engines.writer import PublicRelation, Translated
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
    Range,
    RangeRule,
    Value,
    collect_forms,
    product_range,
    quotient_range,
    same_year,
    since_year_one,
    sum_range,
    type_family,
)
from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, INTEGER, VARCHAR, SqlType


def string_literal(value: str) -> str:
    r"""Write a text literal that has the same meaning whatever standard_conforming_strings is.

    >>> print(string_literal("it's"), string_literal("a\\b"))
    'it''s' E'a\\b'
    """
    if "\0" in value:
        raise Untranslatable("PostgreSQL does not support NUL characters in texts")
    quoted = value.replace("'", "''")
    return f"E'{quoted}'".replace("\\", "\\\\") if "\\" in quoted else f"'{quoted}'"


def quote_name(*parts: str) -> str:
    """Write a name, with quotes where PostgreSQL needs them.

    >>> print(quote_name("sales", "Visits"))
    "sales"."Visits"
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _refuse_overflow(value_range: RangeRule, *, known: bool = True) -> RangeRule:
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


def _count_periods(seconds: int) -> str:
    later, sooner = (f"floor(EXTRACT(epoch FROM {{{i}}}) / {seconds})" for i in (2, 1))
    return f"CAST({later} - {sooner} AS bigint)"


_MONTH_END = "CAST(date_trunc('month', {0}) + interval '1 month - 1 day' AS date)"
_PATTERNS = {"Y": "YYYY", "m": "MM", "d": "DD", "H": "HH24", "M": "MI", "S": "SS"}
_TEXT = 'COLLATE "C"'

FORMS = collect_forms(
    common_forms("bigint", "integer"),
    (
        Form("+", "IB IB", HUGEINT, "{0} + {1}"),
        Form("-", "IB IB", HUGEINT, "{0} - {1}"),
        Form("*", "IB IB", HUGEINT, "{0} * {1}"),
        Form("//", "IB IB", HUGEINT, "div({0}, NULLIF({1}, 0))"),
        Form("%", "IB IB", HUGEINT, "mod({0}, NULLIF({1}, 0))"),
        Form("sign", "N", INTEGER, "CAST(sign({0}) AS bigint)"),
        Form("xor", "I I", BIGINT, "{0} # {1}"),
        Form("+", "D D", DOUBLE, "{0} + {1}", _refuse_overflow(sum_range)),
        Form("-", "D D", DOUBLE, "{0} - {1}", _refuse_overflow(sum_range)),
        Form("*", "D D", DOUBLE, "{0} * {1}", _refuse_overflow(product_range)),
        Form("/", "I I!", DOUBLE, f"{_A} / {_B}", quotient_range),
        Form("/", "I I", DOUBLE, _QUOTIENT),
        Form("/", "D D!", DOUBLE, f"{_A} / {_B}", _refuse_overflow(quotient_range)),
        Form("/", "D D", DOUBLE, _QUOTIENT, _refuse_overflow(quotient_range, known=False)),
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
        _count_periods,
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


def null_outside(sql: str, low: int, high: int, target: str) -> str:
    """Write a number that is NULL outside its bounds, for NaN too; its SQL occurs once in the text."""
    a, b = f"CAST('{low - 1}' AS {target})", f"CAST('{high + 1}' AS {target})"
    return f"NULLIF(NULLIF(LEAST(GREATEST({sql}, {a}), {b}), {b}), {a})"


class PostgresDialect(Dialect):
    """The SQL of PostgreSQL; texts have COLLATE "C", so that they are compared by their bytes."""

    name: ClassVar[str] = "PostgreSQL"
    mark: ClassVar[str] = '"'
    types: ClassVar[Mapping[str, str]] = {
        "I": "bigint",
        "B": "numeric",
        "N": "numeric",
        "D": "float8",
        "S": "text",
        "T": "date",
        "M": "timestamp",
        "C": "time",
        "L": "boolean",
        "U": "uuid",
        "X": "bytea",
    }
    forms: ClassVar[Mapping[str, Sequence[Form]]] = FORMS
    full_join_conditions: ClassVar[bool] = False
    semi_joins: ClassVar[bool] = False
    group_frames: ClassVar[bool] = True
    in_has_null: ClassVar[bool] = True
    max_size: ClassVar[int] = 50_000
    times: ClassVar[Mapping[str, float]] = {
        "translate": 180_000,
        **dict.fromkeys(("btrim", "ltrim", "rtrim", "like"), 10_000),
        **dict.fromkeys(("strpos", "replace", "split_part", "md5", "starts_with", "right", "lpad"), 2_000),
        **dict.fromkeys(("rpad", "substr", "left", "char_length", "octet_length", "lower", "upper"), 2_000),
        **dict.fromkeys(("concat", "hashtextextended"), 2_000),
    }

    def text(self, value: str) -> str:
        """Return a text as a string constant of PostgreSQL."""
        return f'(CAST({string_literal(value)} AS text) COLLATE "C")'

    def integer(self, value: Value, sql_type: SqlType) -> str:
        """Convert an integer to another integer type: NULL if it does not fit."""
        (low, high), old = integer_bounds(sql_type), integer_bounds(value.type)
        if low <= old[0] and old[1] <= high:
            return f"CAST({value.sql} AS {self.type_name(sql_type)})"
        if type_family(value.type) == type_family(sql_type) == "I":
            return null_outside(value.sql, low, high, "bigint")
        return self._fit(f"CAST({value.sql} AS numeric)", sql_type)

    def _fit(self, number: str, sql_type: SqlType) -> str:
        inside = null_outside(number, *integer_bounds(sql_type), "numeric")
        return f"CAST({inside} AS {self.type_name(sql_type)})"

    def decimal(self, sql: str, sql_type: SqlType) -> str:
        """Convert an exact number to DECIMAL, rounded half away from zero: NULL if it does not fit."""
        rounded = f"round(CAST({sql} AS numeric), {sql_type.scale})"
        size = 10 ** (sql_type.precision - sql_type.scale)
        return f"CAST(CASE WHEN abs({rounded}) < {size} THEN {rounded} END AS {self.type_name(sql_type)})"

    def narrow(self, value: Value, sql_type: SqlType) -> Value:
        """Write a DECIMAL that fits as one of fewer digits.

        A numeric is computed alike with any number of digits.
        """
        return replace(value, type=sql_type)

    def cut(self, value: Value, sql_type: SqlType, low: int, high: int) -> str:
        """Write a DECIMAL without its point, cut to two ends; None: as DuckDB computes it.

        Bigint is compared in less time, by functions that give NULL for NULL.
        """
        factor = self.constant(Decimal(10**sql_type.scale), SqlType("DECIMAL", sql_type.scale + 1, 0))
        least, most = (self.constant(end, BIGINT) for end in (low, high))
        return f"int8smaller(int8larger(CAST({value.sql} * {factor} AS bigint), {least}), {most})"

    def whole(self, value: Value, sql_type: SqlType) -> str:
        """Convert a DECIMAL to an integer, rounded half away from zero: NULL if it does not fit."""
        return self._fit(f"round({value.sql})", sql_type)

    def round_double(self, value: Value, sql_type: SqlType) -> str:
        """Convert a DOUBLE to the nearest integer, ties to even: NULL if it does not fit."""
        if sql_type == BIGINT:  # the neighbours of its bounds among DOUBLEs
            a, b = "CAST('-9223372036854777856' AS float8)", "CAST('9223372036854775808' AS float8)"
            inside = f"NULLIF(NULLIF(LEAST(GREATEST(round({value.sql}), {a}), {b}), {b}), {a})"
        else:
            inside = null_outside(f"round({value.sql})", *integer_bounds(sql_type), "float8")
        return f"CAST({inside} AS bigint)"

    def truth(self, value: Value) -> str:
        """Convert a BOOLEAN to 1 or 0."""
        return f"CAST(CAST({value.sql} AS integer) AS bigint)"

    def print_value(self, value: Value) -> str | None:
        """Convert a value to the text that DuckDB prints."""
        letter = type_family(value.type)
        if letter == "L":
            return f"CASE WHEN {value.sql} THEN 'true' WHEN NOT {value.sql} THEN 'false' END COLLATE \"C\""
        if letter in "TM" and (value.value_range or (0, 0))[0] < 1:
            raise Untranslatable("this date could lie before year 1, which PostgreSQL formats differently")
        return f'CAST({value.sql} AS text) COLLATE "C"' if letter in "IBNUTM" else None

    def like(self, value: Value, pattern: Sequence[str | None]) -> str:
        """Write LIKE; `pattern` is a list of literal texts, None for `%` and an empty text for `_`."""
        return f"({value.sql} LIKE {string_literal(''.join(_escape_pattern(part) for part in pattern))})"

    def aggregate(self, name: str, value: Value, *, distinct: bool, tail: str) -> Value:
        """Write an aggregate that does not depend on the order of rows; `tail` is its FILTER and OVER."""
        if value.type == BOOLEAN:
            name = {"min": "bool_and", "max": "bool_or"}.get(name, name)
        return super().aggregate(name, value, distinct=distinct, tail=tail)

    def same_column(self, a: Value, b: Value) -> str:
        """Write that two columns are equal or both NULL, in a form by which the engine can join.

        PostgreSQL joins by equalities; by IS NOT DISTINCT FROM it would try all pairs.
        """
        zero = _ZEROS.get(type_family(a.type))
        if zero is None or type_family(a.type) != type_family(b.type):
            return super().same_column(a, b)
        both = f"({a.sql} IS NULL) = ({b.sql} IS NULL)"
        return f"{both} AND COALESCE({a.sql}, {zero}) = COALESCE({b.sql}, {zero})"

    def once(self, operands: Mapping[int, str], body: str) -> str:
        """Write `body` with the operands at their places computed once: it names them by `operand_name`.

        Without OFFSET, the planner would put the operands in the places of their names.
        """
        listed = ", ".join(f"{sql} AS {self.quote(f'x{i}')}" for i, sql in operands.items())
        return f"(SELECT {body} FROM (SELECT {listed} OFFSET 0) AS {self.quote(ONCE)})"

    def hash_values(self, values: Sequence[str]) -> str:
        """Write a hash of several values, which samples the groups that a unit keeps.

        Each value is hashed first, since a row of long texts may be too long.
        """
        parts = ", ".join(f"hashtextextended(CAST({value} AS text), 0)" for value in values)
        return f"hashtextextended(CAST(ROW({parts}) AS text), 0)"


_ZEROS = {
    **dict.fromkeys("IBN", "0"),
    "D": "CAST(0 AS float8)",
    "S": "''",
    "T": "date '2000-01-01'",
    "M": "timestamp '2000-01-01'",
    "C": "time '00:00'",
    "L": "FALSE",
    "U": "CAST('00000000-0000-0000-0000-000000000000' AS uuid)",
}
"""A value of each family of types, which stands for NULL on both sides of an equality."""


def _escape_pattern(part: str | None) -> str:
    if not part:
        return "%" if part is None else "_"
    return part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def executable_sql(statement: Translated, dialect: PostgresDialect) -> str:
    """Return a statement's SQL with its public rows."""
    return _write_with(
        statement,
        [_write_relation(p, dialect, [_write_array(c) for c in p.rows.columns]) for p in statement.public],
    )


def display_sql(statement: Translated, dialect: PostgresDialect) -> str:
    """Return a statement's SQL for display: with the number of public rows, not with the rows."""
    parts = [f"({p.rows.num_rows} public rows: {p.sql})" for p in statement.public]
    return _write_with(statement, parts)


def _write_with(statement: Translated, parts: list[str]) -> str:
    if not parts:
        return statement.sql
    named = ", ".join(f'"{p.name}" AS {part}' for p, part in zip(statement.public, parts, strict=True))
    return f"WITH {named} {statement.sql}"


def _write_relation(public: PublicRelation, dialect: PostgresDialect, arrays: list[str]) -> str:
    listed, cells, names = [], [], []
    for i, (column, array) in enumerate(zip(public.columns, arrays, strict=True)):
        letter = type_family(column.type)
        array_type = "text" if letter == "0" else dialect.type_name(column.type)
        listed.append(f"CAST({array} AS {array_type}[])")
        cells.append(f"r.c{i}{' COLLATE ' + chr(34) + 'C' + chr(34) if letter == 'S' else ''} AS c{i}")
        names.append(f"c{i}")
    return f"(SELECT {', '.join(cells)} FROM unnest({', '.join(listed)}) AS r({', '.join(names)}))"


def _write_array(column: pa.ChunkedArray) -> str:
    """Write a column as the text literal of an array."""
    array = column.combine_chunks()
    if pa.types.is_null(array.type):
        array = pa.nulls(len(array), pa.string())
    cells = array if pa.types.is_string(array.type) else array.cast(pa.string())
    cells = pc.replace_substring(pc.replace_substring(cells, "\\", "\\\\"), '"', '\\"')
    cells = pc.binary_join_element_wise('"', cells, '"', "")
    cells = pc.fill_null(cells, "NULL")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(cells)], pa.int32()), cells), ",")
    return string_literal("{" + (joined[0].as_py() or "") + "}")


def to_storage_types(found: pa.Table) -> pa.Table:
    """Convert the driver's extension types (NUMERIC, UUID) to texts."""
    columns = []
    for column in found.columns:
        array = column.combine_chunks()
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
            if pa.types.is_fixed_size_binary(array.type):
                array = pa.array([None if v is None else v.hex() for v in array.to_pylist()], pa.string())
        columns.append(array)
    return pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
