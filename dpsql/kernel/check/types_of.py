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
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
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


def words(text: str) -> frozenset[str]:
    """Return the words of a text.

    >>> sorted(words("floor ceil"))
    ['ceil', 'floor']
    """
    return frozenset(text.split())


NOTHING = Value(NULL, INFINITY, -INFINITY)
"""A bare NULL."""

_ENDS: dict[str, tuple[int, int]] = {"BOOLEAN": (0, 1), "HUGEINT": (-(1 << 127), (1 << 127) - 1)}
for _bits, _name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INTEGER"), (64, "BIGINT")):
    _ENDS[_name] = (-(1 << _bits - 1), (1 << _bits - 1) - 1)
    _ENDS["U" + _name] = (0, (1 << _bits) - 1)

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38}
_DIGITS |= {"UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20}
_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
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
    for name in ("INTEGER", "BIGINT", "HUGEINT"):
        low, high = _ENDS[name]
        if low <= number <= high:
            return SqlType(name)
    return DOUBLE


def common(a: Value, b: Value, *, computed: bool = False) -> SqlType | None:
    """Return the type to which DuckDB converts both of two values; None if there is no rule.

    `computed`: for an operator of arithmetic, which has its own rule for a signed and an unsigned number.
    """
    x, y = a.type, b.type
    if x == y:
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
    if (x in _SIGNED) == (y in _SIGNED):
        return SqlType(x if _ENDS[x][1] > _ENDS[y][1] else y)
    signed, unsigned = (x, y) if x in _SIGNED else (y, x)
    if _ENDS[signed][1] >= _ENDS[unsigned][1]:
        return SqlType(signed)
    if computed:
        return HUGEINT if unsigned == "UBIGINT" else BIGINT
    return SqlType(_SIGNED[_SIGNED.index(unsigned[1:]) + 1])


def fits(value: Value, sql_type: SqlType) -> bool:
    """Return whether a conversion to a type fails on no value: CAST, or one that DuckDB adds."""
    x = value.type
    if x == sql_type or x.name == "NULL" or value.low > value.high:
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


_RESULTS = {
    BOOLEAN: "isnan isinf isfinite signbit contains starts_with ends_with prefix suffix regexp_matches "
    "regexp_full_match json_valid json_exists list_contains list_has list_has_any list_has_all",
    BIGINT: "length len char_length character_length strlen bit_length octet_length length_grapheme "
    "instr strpos levenshtein damerau_levenshtein hamming array_length date_diff datediff date_sub datesub "
    "year month day quarter dayofweek dayofmonth dayofyear weekday isodow century decade week weekofyear "
    "yearweek isoyear hour minute second millisecond microsecond",
    INTEGER: "ascii unicode ord list_position",
    TINYINT: "sign",
    UBIGINT: "hash list_unique json_array_length",
    HUGEINT: "gcd lcm factorial",
    DOUBLE: "sqrt cbrt exp ln log log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cot "
    "gamma lgamma degrees radians even atan2 nextafter fmod fdiv pow power pi jaro_similarity "
    "jaro_winkler_similarity jaccard epoch",
    VARCHAR: "lower upper lcase ucase trim ltrim rtrim reverse strip_accents nfc_normalize md5 sha1 sha256 "
    "left right substring substr split_part translate replace regexp_escape to_base64 hex url_encode "
    "url_decode chr parse_filename parse_dirname dayname monthname array_to_string regexp_extract strftime "
    "json_extract_string json_type lpad rpad concat concat_ws regexp_replace overlay",
    SqlType("LIST", item=VARCHAR): "string_split str_split split string_to_array regexp_extract_all "
    "string_split_regex json_keys",
    BLOB: "encode from_base64 unhex",
    DATE: "make_date last_day",
    TIMESTAMP: "date_trunc datetrunc try_strptime",
}
"""The functions whose result has one type. None of them depends on the session, on time or on chance."""
RESULTS = {name: kind for kind, names in _RESULTS.items() for name in names.split()}

_FIRST = words("abs list_sort list_reverse_sort list_distinct list_slice list_filter xor nullif")
"""Functions whose result has the type of the first argument."""
_ITEM = words("list_first list_last list_max list_min")
_ROUNDED = words("ceil ceiling floor trunc round")
GROWING = words(
    "replace concat concat_ws overlay regexp_replace regexp_escape translate to_base64 hex url_encode lpad "
    "rpad array_to_string strip_accents nfc_normalize"
)
"""Functions whose result can be longer than their arguments: the memory that they need must be bounded."""
ONLY = {"age": 2, "pi": 0, "hash": None, "chr": 1}
"""Functions that are known with one number of arguments alone; None for any."""


def result(name: str, arguments: list[Value], first: object, last: object) -> SqlType | None:
    """Return the type of a function's result; None if the function is not known with such arguments.

    `first` and `last` are the values of the first and the last argument if they are constants.
    """
    if name in ONLY and ONLY[name] not in (None, len(arguments)):
        return None
    found = RESULTS.get(name)
    if found is not None or not arguments:
        return found
    x = arguments[0].type
    if name in _FIRST:
        return x
    if name in _ITEM:
        return x.item
    if name in _ROUNDED:
        if x.name == "DECIMAL":
            kept = last if len(arguments) > 1 and isinstance(last, int) else 0
            carries = x.scale == 0 and -x.precision <= kept < 0
            return SqlType("DECIMAL", min(38, x.precision + carries), min(max(kept, 0), x.scale))
        return x if x.name in ("DOUBLE", "HUGEINT") else None
    match name:
        case "date_part" | "datepart":
            return DOUBLE if first == "epoch" else BIGINT
        case "bit_count":
            return SqlType("SMALLINT") if x == HUGEINT else TINYINT
        case "list_sum" if x.item:
            return HUGEINT if exact(x.item) else DOUBLE
        case "epoch_ms":
            return TIMESTAMP if exact(x) else BIGINT
        case "time_bucket" if len(arguments) == 2:
            return arguments[1].type
        case "age":
            return INTERVAL
    return None
