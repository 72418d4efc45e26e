"""The dialect of Spark with ANSI mode off: a value that does not fit is NULL, and no value raises."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.spark.forms import FORMS, string_literal
from dpsql.engines.writer.dialect import ONCE, Dialect, integer_bounds
from dpsql.engines.writer.forms import Form
from dpsql.engines.writer.value import Value, type_family
from dpsql.types import BIGINT, HUGEINT, SqlType

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
        """Write a constant text."""
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
