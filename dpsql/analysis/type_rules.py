"""The types that DuckDB gives to results: of operators, choices, calls and aggregates.

A whole number as it is written has no type of its own: it takes that of what it stands beside, if it fits.
Its type here is `LITERAL`, with the number as its precision; `settle_type` returns the one that it has in a
column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, INTERVAL, NULL, TIMESTAMP, VARCHAR, SqlType

LITERAL = "INTEGER_LITERAL"
_ORDER = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38}
DIGITS |= {"UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20}
"""The digits of a DECIMAL that holds a whole number of each type."""

UBIGINT, TINYINT = SqlType("UBIGINT"), SqlType("TINYINT")

Kind = SqlType | None


def literal_type(value: object, sql_type: SqlType) -> SqlType:
    """Return the type of a constant as it is written."""
    if value is None:
        return NULL
    if type(value) is int:
        return _make_literal(value)
    return sql_type.held


@lru_cache(maxsize=1024)
def _make_literal(number: int) -> SqlType:
    return SqlType(LITERAL, number)


def settle_type(kind: Kind) -> Kind:
    """Return the type that a column of values of a type has: of a literal number the least that fits."""
    return _choose_natural(kind.precision) if kind is not None and kind.name == LITERAL else kind


def _choose_natural(number: int) -> SqlType:
    return next((SqlType(name) for name in _ORDER[2:] if _is_within(number, name)), DOUBLE)


def _is_within(number: int, name: str) -> bool:
    """Return whether a whole number is one of a type."""
    if name[0] == "U":
        return 0 <= number < 1 << _count_bits(name[1:])
    return -(1 << _count_bits(name) - 1) <= number < 1 << _count_bits(name) - 1


def _count_bits(name: str) -> int:
    return 128 if name == "HUGEINT" else SqlType(name).bits


def common_type(kinds: Sequence[Kind]) -> Kind:
    """Return the type of a choice among values of several types."""
    found = kinds[0]
    for kind in kinds[1:]:
        if kind is not found:
            found = _choose_common(found, kind)
    return found


@lru_cache(maxsize=4096)
def _choose_common(a: Kind, b: Kind) -> Kind:
    if a is None or b is None:
        return None
    if b in (a, NULL):
        return a
    if a == NULL:
        return b
    if LITERAL in (a.name, b.name):
        return _choose_beside_literal(*((a, b) if a.name == LITERAL else (b, a)))
    if a.name in DIGITS and b.name in DIGITS:
        return _choose_integer(a, b)
    if a.numeric or a == HUGEINT:
        return _choose_number(a, b)
    names = {a.name, b.name}
    if names == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    if names == {"VARCHAR", "ENUM"}:
        return VARCHAR
    return None


def _choose_beside_literal(literal: SqlType, other: SqlType) -> Kind:
    number = literal.precision
    if other.name in DIGITS and _is_within(number, other.name):
        return other
    natural = _choose_natural(number)
    return _choose_common(natural, _choose_natural(other.precision) if other.name == LITERAL else other)


def _choose_integer(a: SqlType, b: SqlType) -> Kind:
    if (a.name[0] == "U") == (b.name[0] == "U"):
        return max(a, b, key=lambda kind: DIGITS[kind.name])
    signed, unsigned = (b, a) if a.name[0] == "U" else (a, b)
    wider = _ORDER[min(_ORDER.index(unsigned.name[1:]) + 1, len(_ORDER) - 1)]
    return max(signed, SqlType(wider), key=lambda kind: DIGITS[kind.name])


def _choose_number(a: SqlType, b: SqlType) -> Kind:
    if DOUBLE in (a, b):
        return DOUBLE if {a.name, b.name} <= {*DIGITS, "DOUBLE", "DECIMAL"} else None
    found = [_as_decimal(kind) for kind in (a, b)]
    if found[0] is None or found[1] is None:
        return None
    scale = max(found[0].scale, found[1].scale)
    whole = max(kind.precision - kind.scale for kind in found if kind is not None)
    return SqlType("DECIMAL", min(38, whole + scale), scale)


def _as_decimal(kind: SqlType) -> Kind:
    if kind.name in DIGITS:
        return SqlType("DECIMAL", DIGITS[kind.name], 0)
    return kind if kind.name == "DECIMAL" else None


@lru_cache(maxsize=4096)
def arithmetic_type(operator: str, a: Kind, b: Kind) -> Kind:
    """Return the type of the result of an operator on two values."""
    if a is None or b is None:
        return None
    if operator == "||":
        return a if a.name == "LIST" else VARCHAR
    if INTERVAL in (a, b):
        return TIMESTAMP if a.moment or a == DATE or b.moment or b == DATE else INTERVAL
    if a == DATE:
        return BIGINT if b == DATE else DATE
    if a.moment:
        return INTERVAL if b.moment else None
    if operator == "/":
        return DOUBLE
    if a.name == LITERAL and b.name == LITERAL:
        return _choose_common(settle_type(a), settle_type(b))
    if "DECIMAL" in (a.name, b.name) and DOUBLE not in (a, b):
        left, right = _as_decimal(settle_type(a) or a), _as_decimal(settle_type(b) or b)
        return None if left is None or right is None else _decimal_type(operator, left, right)
    found = _choose_common(a, b)
    if found is None or found.name not in DIGITS or LITERAL in (a.name, b.name) or found in (a, b):
        return found
    return HUGEINT if UBIGINT in (a, b) else BIGINT  # of a signed and an unsigned number


def _decimal_type(operator: str, left: SqlType, right: SqlType) -> Kind:
    if operator == "*":
        most = 18 if max(left.precision, right.precision) <= 18 else 38
        return SqlType("DECIMAL", min(most, left.precision + right.precision), left.scale + right.scale)
    if operator not in "+-":
        return None
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return SqlType("DECIMAL", min(38, whole + scale + 1), scale)


_CALLS: dict[str, SqlType] = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile", "date_diff"), BIGINT),
    **dict.fromkeys(("percent_rank", "cume_dist"), DOUBLE),
    **dict.fromkeys(("json_extract_string", "overlay", "concat", "upper", "lower"), VARCHAR),
    "hash": UBIGINT,
    "bit_count": TINYINT,
    "epoch_ms": TIMESTAMP,
}
"""Functions whose result has one type: those that the analysis calls, and no form of `functions.csv`."""

_CHOICES = frozenset({"coalesce", "ifnull", "greatest", "least"})
_FIRST = frozenset({"abs", "nullif", "lag", "lead", "first_value", "last_value", "nth_value", "list_filter"})
"""Functions whose result has the type of their first argument."""


def call_type(name: str, kinds: Sequence[Kind]) -> Kind:
    """Return the type of the result of a function or window function."""
    if name in _CHOICES:
        return common_type(kinds)
    if name in _FIRST:
        return settle_type(kinds[0])
    if name == "list_transform":
        return None if kinds[1] is None else SqlType("LIST", item=kinds[1])
    if name == "list_sum":
        return HUGEINT
    return _CALLS.get(name)


_SAME = frozenset({"min", "max", "first", "last", "any_value", "bit_and", "bit_or", "bit_xor"})
_AGGREGATES = {"count": BIGINT, "avg": DOUBLE, "median": DOUBLE, "bool_and": BOOLEAN, "bool_or": BOOLEAN}


def aggregate_type(name: str, kinds: Sequence[Kind]) -> Kind:
    """Return the type of the result of an aggregate."""
    if name in _AGGREGATES:
        return _AGGREGATES[name]
    first = settle_type(kinds[0]) if kinds else None
    if first is None or name in _SAME:
        return first
    if name == "sum":
        if first.name == "DECIMAL":
            return SqlType("DECIMAL", 38, first.scale)
        return DOUBLE if first == DOUBLE else HUGEINT
    return SqlType("LIST", item=first) if name == "list" else None
