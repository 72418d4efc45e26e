"""The dialect of Spark with ANSI mode off: a value that does not fit is NULL, and no value raises."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, ClassVar

from dpsql.engines.spark.forms import FORMS
from dpsql.engines.spark.text import string_literal
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.doubles import INTEGERS
from dpsql.engines.writer.shared import aggregate_call, integer_bounds
from dpsql.engines.writer.value import Untranslatable, Value, type_family
from dpsql.types import BIGINT, DOUBLE, HUGEINT, SqlType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpsql.engines.writer.forms import Form

__all__ = ["SparkDialect"]

_TYPES = {
    "I": "BIGINT",
    "B": "DECIMAL(38,0)",
    "D": "DOUBLE",
    "S": "STRING",
    "T": "DATE",
    "M": "TIMESTAMP_NTZ",
    "L": "BOOLEAN",
}
_NARROW = {"TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INT"}


class SparkDialect(Dialect):
    """The SQL of Spark 4; texts are compared by their bytes (UTF8_BINARY)."""

    name: ClassVar[str] = "Spark"
    forms: ClassVar[Mapping[str, Sequence[Form]]] = FORMS
    full_join_conditions: ClassVar[bool] = True
    semi_joins: ClassVar[bool] = True
    group_frames: ClassVar[bool] = False

    def quote(self, name: str) -> str:
        """See `Dialect`."""
        return "`" + name.replace("`", "``") + "`"

    def type_name(self, sql_type: SqlType) -> str:
        """See `Dialect`."""
        letter = type_family(sql_type)
        if letter == "N":
            return f"DECIMAL({sql_type.precision},{sql_type.scale})"
        if letter not in _TYPES:
            raise Untranslatable(f"{self.name} has no type for {sql_type}")
        return _TYPES[letter]

    def constant(self, value: object, sql_type: SqlType) -> str:
        """See `Dialect`."""
        letter = type_family(sql_type)
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if letter == "S" and isinstance(value, str):
            return string_literal(value)
        number = self.number(value, sql_type)
        if number is not None:
            return number
        if letter in "TM" and isinstance(value, (date, datetime)):
            return f"CAST('{value}' AS {self.type_name(sql_type)})"
        raise Untranslatable(f"{self.name} has no constants of type {sql_type}")

    def cast(self, value: Value, sql_type: SqlType) -> Value:
        """See `Dialect`."""
        a, b = type_family(value.type), type_family(sql_type)
        x, value_range = value.sql, None
        if a in "IB" and b in "IB":
            sql = self._integer(value, sql_type)
        elif a in "IB" and b == "D":
            sql, value_range = f"CAST({x} AS DOUBLE)", INTEGERS if a == "I" else (1.0, 2.0**127)
        elif a in "IBN" and b == "N":
            sql = f"TRY_CAST({x} AS {self.type_name(sql_type)})"
        elif a == "N" and b in "IB":
            sql = self._integer(Value(f"ROUND({x}, 0)", HUGEINT), sql_type)
        elif a == "N" and b == "D" and value.type.precision <= 15:
            sql, value_range = f"CAST({x} AS DOUBLE)", (10.0**-value.type.scale, 1e18)
        elif a == b == "D":
            return value
        elif a == "D" and b == "I":
            # Spark's own test compares with the bound rounded up to 2^63.
            below = f"{x} < CAST('9.223372036854775807E18' AS DOUBLE)"
            whole = f"CASE WHEN {below} THEN TRY_CAST(rint({x}) AS BIGINT) END"
            sql = self._integer(Value(f"({whole})", BIGINT), sql_type)
        elif a == "L" and b == "I":
            sql = f"CAST({x} AS BIGINT)"
        elif a == "I" and b == "L":
            sql = f"{x} <> 0"
        elif b == "S" and (a in "LIB" or (a == "N" and value.type.scale <= 6)):
            sql = f"CAST({x} AS STRING)"
        elif a in "TM" and b in "TMS" and value.value_range is not None:
            sql, value_range = self._dated(value, b)
        elif a == b and a in "SLTM":
            return Value(x, sql_type, value.value_range)
        else:
            raise Untranslatable(
                f"{self.name} does not convert {value.type} to {sql_type} as DuckDB does, for every value",
                "declare the column with the other type in the policy",
            )
        return Value(f"({sql})", sql_type, value_range)

    def _integer(self, value: Value, sql_type: SqlType) -> str:
        (low, high), old = integer_bounds(sql_type), integer_bounds(value.type)
        if low <= old[0] and old[1] <= high:
            return f"CAST({value.sql} AS {self.type_name(sql_type)})"
        if type_family(sql_type) == "I" and sql_type.signed:
            return f"CAST(TRY_CAST({value.sql} AS {_NARROW.get(sql_type.name, 'BIGINT')}) AS BIGINT)"
        inside = f"CASE WHEN {value.sql} BETWEEN {low} AND {high} THEN {value.sql} END"
        return f"CAST({inside} AS {self.type_name(sql_type)})"

    def _dated(self, value: Value, b: str) -> tuple[str, tuple[float, float] | None]:
        low, high = value.value_range or (0, 0)
        if b == "S":
            if low < 1 or high > 9999:
                raise Untranslatable("this date could lie outside the years 1 to 9999")
            return f"CAST({value.sql} AS STRING)", None
        return f"CAST({value.sql} AS {_TYPES[b]})", value.value_range

    def like(self, value: Value, pattern: Sequence[str | None]) -> str:
        """See `Dialect`; not Spark's LIKE, a regular expression that can take minutes for one row."""
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
        """See `Dialect`."""
        return f"{a} <=> {b}" if negated else f"NOT ({a} <=> {b})"

    def aggregate(self, name: str, value: Value, *, distinct: bool, tail: str) -> Value:
        """See `Dialect`."""
        letter = type_family(value.type)
        sql_type, value_range = value.type, value.value_range
        exact = value.with_sql(f"CAST({value.sql} AS DECIMAL(20,0))") if letter == "I" else value
        if name == "count":
            sql_type, value_range = BIGINT, None
        elif name == "sum" and letter in "IB":
            total = aggregate_call("SUM", exact, distinct=distinct, tail=tail)
            return Value(f"CAST({total} AS DECIMAL(38,0))", HUGEINT)
        elif name == "sum" and letter == "N":
            sql_type = SqlType("DECIMAL", 38, value.type.scale)
        elif name == "avg" and letter == "I":
            top = aggregate_call("SUM", exact, distinct=distinct, tail=tail)
            bottom = aggregate_call("COUNT", value, distinct=distinct, tail=tail)
            return Value(f"(CAST({top} AS DOUBLE) / CAST({bottom} AS DOUBLE))", DOUBLE, (1e-19, 2.0**63))
        elif not (
            (name in ("min", "max") and letter in "IBNDSTML")
            or (name in ("bool_and", "bool_or") and letter == "L")
            or (name in ("bit_and", "bit_or", "bit_xor") and letter == "I")
        ):
            raise Untranslatable(f"{self.name} does not compute {name} of {value.type} as DuckDB does")
        return Value(aggregate_call(name, value, distinct=distinct, tail=tail), sql_type, value_range)

    def hash_values(self, values: Sequence[Value]) -> str:
        """See `Dialect`."""
        return f"xxhash64({', '.join(v.sql for v in values)})"
