"""A translated expression: the target's text, the type DuckDB gives it, and what is known of its size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime

from dpsql.engines.protocol import Untranslatable
from dpsql.types import BIGINT, HUGEINT, NULL, SqlType

__all__ = [
    "NOT_CONSTANT",
    "TargetColumn",
    "Untranslatable",
    "Value",
    "common_type",
    "joint_range",
    "type_family",
    "year_range",
]

NOT_CONSTANT = object()
"""No constant: a value that depends on the row."""


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A relation's column: its name in the target, its type, and its spread (see `Value.spread`)."""

    name: str
    type: SqlType
    value_range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """One translated expression.

    Attributes
    ----------
    sql
        The target's text; it stands anywhere an operand does.
    type
        DuckDB's type. Integers of up to 64 bits (but UBIGINT) are BIGINT in the target whatever their width.
    spread
        DOUBLE: least and largest magnitude of a value that is not zero; None where it may be infinite or
        NaN. DATE and TIMESTAMP: first and last year. None for all else.
    constant
        The value where it is the same in every row, else `NOTHING`.
    """

    sql: str
    type: SqlType
    value_range: tuple[float, float] | None = None
    constant: object = field(default=NOT_CONSTANT)

    def as_column(self, name: str) -> TargetColumn:
        """Return it as a column of the relation that selects it."""
        return TargetColumn(name, self.type, self.value_range)

    def with_sql(self, sql: str) -> Value:
        """Return the same value in another text, no constant any more."""
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
    """Return the letter of a type's family: values of one family are stored alike in the target.

    I integers up to 64 bits, B beyond, N DECIMAL, D DOUBLE, S text, T date, M timestamp, C time, L boolean,
    U UUID, X bytes, 0 a bare NULL.
    """
    letter = _FAMILIES.get(sql_type.name)
    if letter is not None:
        return letter
    if sql_type.integer:
        return "I"
    raise Untranslatable(f"values of type {sql_type.name} stay in DuckDB")


def joint_range(values: list[Value]) -> tuple[float, float] | None:
    """Return the spread of a choice among values; constants NULL add nothing to it."""
    parts = [v.value_range for v in values if v.type != NULL and v.constant is not None]
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def common_type(types: list[SqlType]) -> SqlType:
    """Return the one type of several results, which DuckDB's own rules have brought together already."""
    known = [t for t in types if t != NULL]
    if not known:
        return NULL
    families = {type_family(t) for t in known}
    if families == {"I"}:
        return BIGINT if len({t.name for t in known}) > 1 else known[0]
    if families in ({"B"}, {"I", "B"}):
        return HUGEINT
    if len(families) > 1 or (families == {"N"} and len(set(known)) > 1):
        raise Untranslatable("results of different types are not brought together")
    return known[0]


def year_range(value: object) -> tuple[float, float] | None:
    """Return the spread of a date or timestamp constant."""
    if isinstance(value, (date, datetime)):
        return float(value.year), float(value.year)
    return None
