"""The types of DuckDB: the ends of each, the common type of several, conversions that never fail, functions.

The rules are DuckDB's (`max_logical_type`, the numeric operators, the casts); where it would convert in a way
that can fail or round, there is no rule here, and the query is refused.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from dpsql.types import (
    BIGINT,
    DOUBLE,
    HUGEINT,
    INTEGER,
    NULL,
    TIMESTAMP,
    VARCHAR,
    SqlType,
)

INFINITY = float("inf")
"""The end of an interval that has none; no other end of an interval is a float."""

Number = int | Fraction | float


class Value(NamedTuple):
    """What is known of an expression, for all data.

    Attributes
    ----------
    type
        Its type as the engine has it: an instant in a query is a TIMESTAMP, a bare NULL has the type NULL.
    low, high
        Where it is neither NULL nor NaN, a number is between them, TRUE and FALSE as 1 and 0; `low` exceeds
        `high` if it is always NULL. Of what is no number they are infinite.
    nullable
        Whether it can be NULL.
    canonical
        Whether equal values are the same: a DOUBLE has one zero and one NaN. True of what has no DOUBLE.
    literal
        Whether it is a whole number or a text as it is written, which takes the type of what it meets.
    settled
        Whether rows decide it up to the sign of a zero or NaN. If not, no function may read it.
    """

    type: SqlType
    low: Number = -INFINITY
    high: Number = INFINITY
    nullable: bool = True
    canonical: bool = True
    literal: bool = False
    settled: bool = True


def size(x: Value) -> Number:
    """Return the largest distance of a number from 0."""
    return max(-x.low, x.high)


def distance(x: Value) -> Number:
    """Return the least distance of a number from 0."""
    return max(0, x.low, -x.high)


NOTHING = Value(NULL, INFINITY, -INFINITY)
"""A bare NULL."""

_ENDS: dict[str, tuple[int, int]] = {"BOOLEAN": (0, 1), "HUGEINT": (-(1 << 127), (1 << 127) - 1)}
for _bits, _name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INTEGER"), (64, "BIGINT")):
    _ENDS[_name] = (-(1 << _bits - 1), (1 << _bits - 1) - 1)
    _ENDS["U" + _name] = (0, (1 << _bits) - 1)

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38}
_DIGITS |= {"UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20}
SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
UBIGINT = SqlType("UBIGINT")
TINYINT = SqlType("TINYINT")


@lru_cache(maxsize=1024)
def whole(sql_type: SqlType, *, nullable: bool = True, canonical: bool = True) -> Value:
    """Return what is known of any value of a type."""
    low, high = ends(sql_type)
    return Value(sql_type, low, high, nullable, canonical or not floating(sql_type))


@lru_cache(maxsize=1024)
def ends(sql_type: SqlType) -> tuple[Number, Number]:
    """Return the least and the largest number of a type."""
    if sql_type.name == "DECIMAL":
        most = Fraction(10**sql_type.precision - 1, 10**sql_type.scale)
        return -most, most
    return _ENDS.get(sql_type.name, (-INFINITY, INFINITY))


@lru_cache(maxsize=1024)
def floating(sql_type: SqlType) -> bool:
    """Return whether a type has DOUBLEs in it."""
    inner = [sql_type.item] if sql_type.item else [kind for _, kind in sql_type.fields]
    return sql_type.name == "DOUBLE" or any(floating(kind) for kind in inner)


def exact(sql_type: SqlType) -> bool:
    """Return whether a type has whole numbers."""
    return sql_type.name in _DIGITS


def natural(number: int) -> SqlType:
    """Return the type of a whole number as it is written."""
    for kind in (INTEGER, BIGINT, HUGEINT):
        low, high = _ENDS[kind.name]
        if low <= number <= high:
            return kind
    return DOUBLE


def common(a: Value, b: Value, *, computed: bool = False) -> SqlType | None:
    """Return the type to which DuckDB converts both of two values; None if there is no rule.

    `computed`: for an operator of arithmetic, which has its own rule for a signed and an unsigned number.
    """
    x, y = a.type, b.type
    if x is y or x == y:
        return x
    if x.name == "NULL" or y.name == "NULL":
        return y if x.name == "NULL" else x
    if a.literal != b.literal:
        literal, other = (a, y) if a.literal else (b, x)
        if literal.type.name == "VARCHAR":
            return VARCHAR if other.name == "ENUM" else None
        low, high = ends(other)
        if exact(other) and low <= literal.low and literal.high <= high:
            return other
    return _common(x, y, computed)


@lru_cache(maxsize=4096)
def _common(x: SqlType, y: SqlType, computed: bool) -> SqlType | None:
    names = {x.name, y.name}
    if exact(x) and exact(y):
        return _whole_number(x.name, y.name, computed)
    if "BOOLEAN" in names and not computed:
        other = y if x.name == "BOOLEAN" else x
        return other if exact(other) else None
    if not all(exact(kind) or kind.name in ("DECIMAL", "DOUBLE") for kind in (x, y)):
        if names == {"DATE", "TIMESTAMP"}:
            return TIMESTAMP
        return VARCHAR if names == {"VARCHAR", "ENUM"} or (x.name == y.name == "ENUM") else None
    if "DOUBLE" in names:
        return DOUBLE
    (p, s), (q, t) = digits(x), digits(y)
    before, after = max(p - s, q - t), max(s, t)
    return SqlType("DECIMAL", before + after, after) if before + after <= 38 else None


def digits(sql_type: SqlType) -> tuple[int, int]:
    """Return the precision and scale of the DECIMAL that holds a number."""
    if sql_type.name == "DECIMAL":
        return sql_type.precision, sql_type.scale
    return _DIGITS[sql_type.name], 0


def _whole_number(x: str, y: str, computed: bool) -> SqlType:
    if (x in SIGNED) == (y in SIGNED):
        return SqlType(x if _ENDS[x][1] > _ENDS[y][1] else y)
    signed, unsigned = (x, y) if x in SIGNED else (y, x)
    if _ENDS[signed][1] >= _ENDS[unsigned][1]:
        return SqlType(signed)
    if computed:
        return HUGEINT if unsigned == "UBIGINT" else BIGINT
    return SqlType(SIGNED[SIGNED.index(unsigned[1:]) + 1])


def fits(value: Value, sql_type: SqlType) -> bool:
    """Return whether a conversion to a type fails on no value: CAST, or one that DuckDB adds."""
    x = value.type
    if x is sql_type or x == sql_type or x.name == "NULL" or value.low > value.high:
        return True
    if sql_type.name == "VARCHAR":
        return x.name in _SHOWN or exact(x)
    if exact(x) or x.name in ("DECIMAL", "BOOLEAN"):
        if sql_type.name == "DOUBLE":
            return True
        if sql_type.name == "DECIMAL":
            most = 10 ** (sql_type.precision - sql_type.scale)
            return -most < value.low and value.high < most and digits_kept(x, sql_type)
        low, high = ends(sql_type)
        return exact(sql_type) and low <= value.low and value.high <= high
    if x.name == sql_type.name == "LIST" and x.item and sql_type.item:
        return x.item.name == "NULL" or fits(whole(x.item), sql_type.item)
    return False


_SHOWN = frozenset({"BOOLEAN", "DECIMAL", "DOUBLE", "DATE", "TIMESTAMP", "TIME", "UUID", "ENUM"})
"""Types of which every value has a text, besides whole numbers."""


def digits_kept(x: SqlType, sql_type: SqlType) -> bool:
    """Return whether a conversion to a DECIMAL rounds nothing, so that it cannot round up beyond it."""
    return x.name == "BOOLEAN" or (x.name != "DOUBLE" and digits(x)[1] <= sql_type.scale)
