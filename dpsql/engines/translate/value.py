"""A translated expression: the target's text, the type DuckDB gives it, and what is known of its size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime

from dpsql.engines.protocol import Untranslatable
from dpsql.types import BIGINT, HUGEINT, NULL, SqlType

__all__ = ["NOTHING", "Column", "Untranslatable", "Value", "kind_of", "spread", "united", "years"]

NOTHING = object()
"""No constant: a value that depends on the row."""


@dataclass(frozen=True, slots=True)
class Column:
    """A relation's column: its name in the target, its type, and its spread (see `Value.spread`)."""

    name: str
    type: SqlType
    spread: tuple[float, float] | None = None


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
    spread: tuple[float, float] | None = None
    constant: object = field(default=NOTHING)

    def named(self, name: str) -> Column:
        """Return it as a column of the relation that selects it."""
        return Column(name, self.type, self.spread)

    def written(self, sql: str) -> Value:
        """Return the same value in another text, no constant any more."""
        return replace(self, sql=sql, constant=NOTHING)


_KINDS = {
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


def kind_of(kind: SqlType) -> str:
    """Return the letter of a type's family: values of one family are stored alike in the target.

    I integers up to 64 bits, B beyond, N DECIMAL, D DOUBLE, S text, T date, M timestamp, C time, L boolean,
    U UUID, X bytes, 0 a bare NULL.
    """
    letter = _KINDS.get(kind.name)
    if letter is not None:
        return letter
    if kind.integer:
        return "I"
    raise Untranslatable(f"values of type {kind.name} stay in DuckDB")


def spread(values: list[Value]) -> tuple[float, float] | None:
    """Return the spread of a choice among values; constants NULL add nothing to it."""
    parts = [v.spread for v in values if v.type != NULL and v.constant is not None]
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def united(types: list[SqlType]) -> SqlType:
    """Return the one type of several results, which DuckDB's own rules have brought together already."""
    kinds = [t for t in types if t != NULL]
    if not kinds:
        return NULL
    letters = {kind_of(t) for t in kinds}
    if letters == {"I"}:
        return BIGINT if len({t.name for t in kinds}) > 1 else kinds[0]
    if letters in ({"B"}, {"I", "B"}):
        return HUGEINT
    if len(letters) > 1 or (letters == {"N"} and len(set(kinds)) > 1):
        raise Untranslatable("results of different types are not brought together")
    return kinds[0]


def years(value: object) -> tuple[float, float] | None:
    """Return the spread of a date or timestamp constant."""
    if isinstance(value, (date, datetime)):
        return float(value.year), float(value.year)
    return None
