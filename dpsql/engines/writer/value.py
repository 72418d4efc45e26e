"""Translated expressions: SQL, DuckDB's type, and the range of values."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import date, datetime

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.writer.costs import NAME, Cost
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, HUGEINT, NULL, SqlType

NOT_CONSTANT = object()
"""Stands for the constant of a value that depends on the row."""


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a translated query: its name, its type, and its range (see `Value.value_range`).

    `cost` is that of the expression which an engine may put in the place of the name.
    """

    name: str
    type: SqlType
    value_range: tuple[float, float] | None = None
    cost: Cost = NAME
    one_zero: bool = True


@dataclass(frozen=True, slots=True)
class Value:
    """A translated expression.

    Attributes
    ----------
    sql
        The SQL of the engine; it may stand wherever an operand may.
    type
        The type in DuckDB. In the engine, integers of up to 64 bits (except UBIGINT) are BIGINT.
    value_range
        For DOUBLE the least and largest magnitude of a value that is not zero, or None if the value may be
        infinite or NaN. For DATE and TIMESTAMP the first and last year. None for other types.
    constant
        The value if it is the same in every row, else `NOT_CONSTANT`.
    one_zero
        Whether a DOUBLE is never -0.0: a stored value, a converted one, a canonical one, or a constant.
    """

    sql: str
    type: SqlType
    value_range: tuple[float, float] | None = None
    constant: object = field(default=NOT_CONSTANT)
    one_zero: bool = False

    def as_column(self, name: str, cost: Cost = NAME) -> TargetColumn:
        """Return the column of a query that selects this value under a name."""
        return TargetColumn(name, self.type, self.value_range, cost)

    def with_sql(self, sql: str) -> Value:
        """Return the value with another SQL text, not marked as constant."""
        return replace(self, sql=sql, constant=NOT_CONSTANT)


_FAMILIES = {
    "BOOLEAN": "L",
    "DECIMAL": "N",
    "DOUBLE": "D",
    "VARCHAR": "S",
    "DATE": "T",
    "TIMESTAMP": "M",
    "TIME": "C",
    "UUID": "U",
    "BLOB": "X",
    "UBIGINT": "B",
    "HUGEINT": "B",
    "NULL": "0",
}


def type_family(sql_type: SqlType) -> str:
    """Return the letter of a type's family: an engine has one type for the values of a family.

    I integers up to 64 bits, B wider integers, N DECIMAL, D DOUBLE, S text, T date, M timestamp, C time,
    L boolean, U UUID, X bytes, 0 a NULL without a type.
    """
    letter = _FAMILIES.get(sql_type.name)
    if letter is not None:
        return letter
    if sql_type.integer:
        return "I"
    raise Untranslatable(f"values of type {sql_type.name} are not translated")


def joint_range(values: list[Value]) -> tuple[float, float] | None:
    """Return the range of a choice among values; a constant NULL has no effect on it."""
    parts = [v.value_range for v in values if v.type != NULL and v.constant is not None]
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def common_type(types: list[SqlType]) -> SqlType:
    """Return the common type of several results, to which DuckDB's binder has converted them already."""
    known = [t for t in types if t != NULL]
    if not known:
        return NULL
    families = {type_family(t) for t in known}
    if families == {"I"}:
        return BIGINT if len({t.name for t in known}) > 1 else known[0]
    if families in ({"B"}, {"I", "B"}):
        return HUGEINT
    if len(families) > 1 or (families == {"N"} and len(set(known)) > 1):
        raise Untranslatable("results of different types have no common type here")
    return known[0]


def constant_range(value: object) -> tuple[float, float] | None:
    """Return the range of a constant: of a DOUBLE its magnitude, of a date or timestamp its year."""
    if isinstance(value, (date, datetime)):
        return float(value.year), float(value.year)
    if isinstance(value, float) and abs(value) < float("inf"):
        return abs(value) or 1.0, abs(value) or 1.0
    return None
