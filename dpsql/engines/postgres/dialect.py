"""The dialect of PostgreSQL: names, types, constants, conversions, LIKE and aggregates."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from dpsql.engines.postgres.forms import FORMS
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.doubles import INTEGERS
from dpsql.engines.writer.shared import aggregate_call, integer_bounds
from dpsql.engines.writer.value import Untranslatable, Value, type_family
from dpsql.types import BIGINT, DOUBLE, HUGEINT, SqlType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpsql.engines.writer.forms import Form

__all__ = ["PostgresDialect", "hash_values", "string_literal"]

_TYPES = {
    "I": "bigint",
    "B": "numeric",
    "D": "float8",
    "S": "text",
    "T": "date",
    "M": "timestamp",
    "C": "time",
    "L": "boolean",
    "U": "uuid",
    "X": "bytea",
}


def string_literal(value: str) -> str:
    r"""Write a text literal that has the same meaning whatever standard_conforming_strings is.

    >>> print(string_literal("it's"), string_literal("a\\b"))
    'it''s' E'a\\b'
    """
    if "\0" in value:
        raise Untranslatable("PostgreSQL does not support NUL characters in texts")
    quoted = value.replace("'", "''")
    return f"E'{quoted}'".replace("\\", "\\\\") if "\\" in quoted else f"'{quoted}'"


def null_outside(sql: str, low: int, high: int, target: str) -> str:
    """Write a number that is NULL outside its bounds, for NaN too; its SQL occurs once in the text."""
    a, b = f"CAST('{low - 1}' AS {target})", f"CAST('{high + 1}' AS {target})"
    return f"NULLIF(NULLIF(LEAST(GREATEST({sql}, {a}), {b}), {b}), {a})"


def hash_values(cells: Sequence[str]) -> str:
    """Write a hash of several values; each is hashed first, since a row of long texts may be too long."""
    parts = ", ".join(f"hashtextextended(CAST({cell} AS text), 0)" for cell in cells)
    return f"hashtextextended(CAST(ROW({parts}) AS text), 0)"


class PostgresDialect(Dialect):
    """The SQL of PostgreSQL; texts have COLLATE "C", so that they are compared by their bytes."""

    name: ClassVar[str] = "PostgreSQL"
    forms: ClassVar[Mapping[str, Sequence[Form]]] = FORMS
    full_join_conditions: ClassVar[bool] = False
    semi_joins: ClassVar[bool] = False
    group_frames: ClassVar[bool] = True
    max_translate_calls: ClassVar[int | None] = 20  # each takes up to .2 s for 64 KiB and hears no cancel

    def quote(self, name: str) -> str:
        """See `Dialect`."""
        return '"' + name.replace('"', '""') + '"'

    def type_name(self, sql_type: SqlType) -> str:
        """See `Dialect`."""
        letter = type_family(sql_type)
        return f"numeric({sql_type.precision},{sql_type.scale})" if letter == "N" else _TYPES[letter]

    def constant(self, value: object, sql_type: SqlType) -> str:
        """See `Dialect`."""
        letter = type_family(sql_type)
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if letter == "S" and isinstance(value, str):
            return f'(CAST({string_literal(value)} AS text) COLLATE "C")'
        number = self.number(value, sql_type)
        if number is not None:
            return number
        days = letter in "TMC" and isinstance(value, (date, datetime, time))
        if days or (letter == "U" and isinstance(value, UUID)):
            return f"CAST('{value}' AS {self.type_name(sql_type)})"
        raise Untranslatable(f"{self.name} has no constants of type {sql_type}")

    def cast(self, value: Value, sql_type: SqlType) -> Value:
        """See `Dialect`."""
        a, b = type_family(value.type), type_family(sql_type)
        x, value_range = value.sql, None
        if a in "IB" and b in "IB":
            sql = self._integer(value, sql_type)
        elif a in "IB" and b == "D":
            sql, value_range = f"CAST({x} AS float8)", INTEGERS if a == "I" else (1.0, 2.0**127)
        elif a in "IBN" and b == "N":
            sql = self.decimal(x, sql_type)
        elif a == "N" and b in "IB":
            low, high = integer_bounds(sql_type)
            sql = f"CAST({null_outside(f'round({x})', low, high, 'numeric')} AS {self.type_name(sql_type)})"
        elif a == "N" and b == "D" and value.type.precision <= 15:
            sql, value_range = f"CAST({x} AS float8)", (10.0**-value.type.scale, 1e18)
        elif a == b == "D":
            return value
        elif a == "D" and b == "I":
            sql = self._rounded(x, sql_type)
        elif a == "L" and b == "I":
            sql = f"CAST(CAST({x} AS integer) AS bigint)"
        elif a == "I" and b == "L":
            sql = f"({x} <> 0)"
        elif a == "L" and b == "S":
            sql = f"CASE WHEN {x} THEN 'true' WHEN NOT {x} THEN 'false' END COLLATE \"C\""
        elif a in "IBNUC" and b == "S":
            if a == "C":
                raise self._no_cast(value.type, sql_type)
            sql = f'CAST({x} AS text) COLLATE "C"'
        elif a in "TM" and b in "TMS" and value.value_range is not None:
            sql, value_range = self._dated(value, a, b)
        elif a == b and a in "SLTMCU":
            return Value(x, sql_type, value.value_range)
        else:
            raise self._no_cast(value.type, sql_type)
        return Value(f"({sql})", sql_type, value_range)

    def _no_cast(self, old: SqlType, new: SqlType) -> Untranslatable:
        return Untranslatable(
            f"{self.name} does not convert {old} to {new} as DuckDB does, for every value",
            "declare the column with the other type in the policy",
        )

    def _integer(self, value: Value, sql_type: SqlType) -> str:
        (low, high), target = integer_bounds(sql_type), self.type_name(sql_type)
        old = integer_bounds(value.type)
        if low <= old[0] and old[1] <= high:
            return f"CAST({value.sql} AS {target})"
        if type_family(value.type) == "I" and type_family(sql_type) == "I":
            return null_outside(value.sql, low, high, "bigint")
        return f"CAST({null_outside(f'CAST({value.sql} AS numeric)', low, high, 'numeric')} AS {target})"

    def decimal(self, sql: str, sql_type: SqlType) -> str:
        """Write a conversion to DECIMAL, rounded half away from zero; NULL if the value does not fit."""
        rounded = f"round(CAST({sql} AS numeric), {sql_type.scale})"
        size = 10 ** (sql_type.precision - sql_type.scale)
        return f"CAST(CASE WHEN abs({rounded}) < {size} THEN {rounded} END AS {self.type_name(sql_type)})"

    def _rounded(self, x: str, sql_type: SqlType) -> str:
        """Write a conversion of DOUBLE to the nearest integer, ties to even; NULL if the type has none."""
        low, high = integer_bounds(sql_type)
        if sql_type == BIGINT:
            a, b = "CAST('-9223372036854777856' AS float8)", "CAST('9223372036854775808' AS float8)"
            inside = f"NULLIF(NULLIF(LEAST(GREATEST(round({x}), {a}), {b}), {b}), {a})"
        else:
            inside = null_outside(f"round({x})", low, high, "float8")
        return f"CAST({inside} AS bigint)"

    def _dated(self, value: Value, a: str, b: str) -> tuple[str, tuple[float, float] | None]:
        if b == "S":
            if value.value_range is None or value.value_range[0] < 1:
                raise Untranslatable(
                    "this date could lie before year 1, which PostgreSQL formats differently"
                )
            return f'CAST({value.sql} AS text) COLLATE "C"', None
        if a == b:
            return value.sql, value.value_range
        return f"CAST({value.sql} AS {'timestamp' if b == 'M' else 'date'})", value.value_range

    def like(self, value: Value, pattern: Sequence[str | None]) -> str:
        """See `Dialect`."""
        return f"({value.sql} LIKE {string_literal(''.join(_escaped(part) for part in pattern))})"

    def is_distinct(self, a: str, b: str, *, negated: bool) -> str:
        """See `Dialect`."""
        return f"{a} IS {'NOT ' if negated else ''}DISTINCT FROM {b}"

    def aggregate(self, name: str, value: Value, *, distinct: bool, tail: str) -> Value:
        """See `Dialect`."""
        letter = type_family(value.type)
        sql_type, value_range, word = value.type, value.value_range, name
        if name == "count":
            sql_type, value_range = BIGINT, None
        elif name == "sum" and letter in "IB":
            sql_type = HUGEINT
        elif name == "sum" and letter == "N":
            sql_type = SqlType("DECIMAL", 38, value.type.scale)
        elif name == "avg" and letter == "I":
            top = aggregate_call("SUM", value, distinct=distinct, tail=tail)
            bottom = aggregate_call("COUNT", value, distinct=distinct, tail=tail)
            sql = f"(CAST({top} AS float8) / NULLIF({bottom}, 0))"
            return Value(sql, DOUBLE, (1e-19, 2.0**63))
        elif name in ("min", "max") and letter == "L":
            word = "bool_and" if name == "min" else "bool_or"
        elif not (
            (name in ("min", "max") and letter in "IBNDSTMC")
            or (name in ("bool_and", "bool_or") and letter == "L")
            or (name in ("bit_and", "bit_or", "bit_xor") and letter == "I")
        ):
            raise Untranslatable(f"{self.name} does not compute {name} of {value.type} as DuckDB does")
        return Value(aggregate_call(word, value, distinct=distinct, tail=tail), sql_type, value_range)

    def hash_values(self, values: Sequence[Value]) -> str:
        """See `Dialect`."""
        return hash_values([v.sql for v in values])


def _escaped(part: str | None) -> str:
    if not part:
        return "%" if part is None else "_"
    return part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
