"""The dialect of PostgreSQL: types, constants, conversions, LIKE and aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar

from dpsql.engines.postgres.forms import FORMS, string_literal
from dpsql.engines.protocol import Untranslatable
from dpsql.engines.writer.dialect import ONCE, Dialect, integer_bounds
from dpsql.engines.writer.forms import Form
from dpsql.engines.writer.value import Value, type_family
from dpsql.types import BIGINT, BOOLEAN, SqlType


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
        """Write a constant text."""
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
        return f"({value.sql} LIKE {string_literal(''.join(_escaped(part) for part in pattern))})"

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


def _escaped(part: str | None) -> str:
    if not part:
        return "%" if part is None else "_"
    return part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
