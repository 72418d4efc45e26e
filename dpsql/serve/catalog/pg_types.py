"""PostgreSQL's types by OID: their DuckDB types, their Arrow types, and which type two of them meet in."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from dpsql.serve.catalog.postgres_data import data
from dpsql.types import SqlType

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4 = 16, 17, 18, 19, 20, 21, 22, 23
REGPROC, TEXT, OID, XID, CID, OIDVECTOR, JSON = 24, 25, 26, 28, 29, 30, 114
FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ, NUMERIC = 1082, 1083, 1114, 1184, 1186, 1266, 1700
REGCLASS, REGTYPE, REGROLE, REGNAMESPACE = 2205, 2206, 4096, 4089
RECORD, RECORD_ARRAY, VOID, ANYARRAY, UUID = 2249, 2287, 2278, 2277, 2950

NAMED_OIDS = {
    REGPROC: "proc",
    2202: "procedure",
    REGCLASS: "class",
    REGTYPE: "type",
    REGROLE: "role",
    REGNAMESPACE: "namespace",
    **dict.fromkeys((2203, 2204, 3734, 3769), "other"),
}
"""The types whose values are OIDs that are shown as names, with the kind of object.

The catalogue has no operators and no text search: of those it shows the OIDs."""

TEXTS = frozenset({CHAR, NAME, TEXT, BPCHAR, VARCHAR, UNKNOWN})
"""Types whose values are texts."""
VECTORS = frozenset({INT2VECTOR, OIDVECTOR})
_NUMBERS = (INT2, INT4, INT8, NUMERIC, FLOAT4, FLOAT8)
NUMBERS = frozenset({*_NUMBERS, OID})

_TYPES: dict[int, tuple[str, pa.DataType]] = {
    BOOL: ("BOOLEAN", pa.bool_()),
    BYTEA: ("BLOB", pa.binary()),
    INT8: ("BIGINT", pa.int64()),
    INT2: ("SMALLINT", pa.int16()),
    INT4: ("INTEGER", pa.int32()),
    FLOAT4: ("FLOAT", pa.float32()),
    FLOAT8: ("DOUBLE", pa.float64()),
    NUMERIC: ("DECIMAL(38, 10)", pa.decimal128(38, 10)),
    DATE: ("DATE", pa.date32()),
    TIME: ("TIME", pa.time64("us")),
    TIMESTAMP: ("TIMESTAMP", pa.timestamp("us")),
    TIMESTAMPTZ: ("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", tz="UTC")),
    INTERVAL: ("INTERVAL", pa.month_day_nano_interval()),
    UUID: ("UUID", pa.string()),
    OID: ("UINTEGER", pa.uint32()),
    XID: ("UINTEGER", pa.uint32()),
    CID: ("UINTEGER", pa.uint32()),
    **dict.fromkeys(NAMED_OIDS, ("UINTEGER", pa.string())),
    INT2VECTOR: ("SMALLINT[]", pa.string()),
    OIDVECTOR: ("UINTEGER[]", pa.string()),
    RECORD_ARRAY: ("VARCHAR[]", pa.string()),
    ANYARRAY: ("VARCHAR[]", pa.list_(pa.string())),
}
"""The DuckDB type that holds a type's values, and the Arrow type of answers; text for the others."""

_SPELLINGS = {
    **dict.fromkeys(("int", "integer"), INT4),
    "smallint": INT2,
    "bigint": INT8,
    "boolean": BOOL,
    "real": FLOAT4,
    **dict.fromkeys(("float", "double precision"), FLOAT8),
    "decimal": NUMERIC,
    "character varying": VARCHAR,
    **dict.fromkeys(("character", "char"), BPCHAR),
    "timestamp without time zone": TIMESTAMP,
    "timestamp with time zone": TIMESTAMPTZ,
    "time without time zone": TIME,
    "time with time zone": TIMETZ,
}
_POLICY = {
    **{_TYPES[oid][0].partition("(")[0]: oid for oid in (BOOL, BYTEA, INT8, INT2, INT4, FLOAT8, NUMERIC)},
    **{_TYPES[oid][0]: oid for oid in (DATE, TIME, TIMESTAMP, INTERVAL, UUID)},
    **dict.fromkeys(("TINYINT", "UTINYINT"), INT2),
    "USMALLINT": INT4,
    "UINTEGER": INT8,
    **dict.fromkeys(("UBIGINT", "HUGEINT"), NUMERIC),
    "VARCHAR": TEXT,
    "TIMESTAMPTZ": TIMESTAMPTZ,
    "JSON": JSON,
}
"""The type under which values of a policy's column are sent; the others are sent as text."""
_BOUND = _POLICY | {
    "UINTEGER": OID,
    "FLOAT": FLOAT4,
    "UHUGEINT": NUMERIC,
    _TYPES[TIMESTAMPTZ][0]: TIMESTAMPTZ,
}
"""The type under which a column is announced that has a type of DuckDB alone."""
_BY_ARROW = {kind: oid for oid, (_, kind) in reversed(_TYPES.items()) if kind != pa.string()}
"""The type of a parameter with values of an Arrow type; the first of several."""


def element(oid: int | None) -> int | None:
    """Return the type of an array's elements; None if the type is no array, or not known."""
    if oid is None:
        return None
    return {INT2VECTOR: INT2, OIDVECTOR: OID, ANYARRAY: TEXT}.get(oid) or data().elements.get(oid)


def array_of(oid: int) -> int:
    """Return the array type with elements of this type; that of text if there is none."""
    return data().arrays.get(TEXT if oid == UNKNOWN else oid, data().arrays[TEXT])


def oid_of_name(name: str) -> int | None:
    """Return the type that a name or a spelling of the standard means."""
    return _SPELLINGS.get(name) or data().type_oids.get(name)


def function_type(name: str) -> int:
    """Return the OID of a type that `functions.sql` names."""
    if name.endswith("[]"):
        return array_of(function_type(name[:-2]))
    oid = CHAR if name == '"char"' else oid_of_name(name)
    if oid is None:
        raise ValueError(f"no type {name}")
    return oid


def oid_of_duckdb(kind: str) -> int:
    """Return the type of a column that DuckDB describes."""
    if kind.startswith(("STRUCT", "TUPLE")):
        return RECORD_ARRAY if kind.endswith("[]") else RECORD
    if kind.endswith("[]"):
        return array_of(oid_of_duckdb(kind[:-2]))
    return _BOUND.get(kind.partition("(")[0], TEXT)


def duckdb_type(oid: int) -> str:
    """Return the DuckDB type that holds values of a type."""
    if oid in _TYPES:
        return _TYPES[oid][0]
    item = element(oid)
    return "VARCHAR" if item is None else f"{duckdb_type(item)}[]"


def arrow_type(oid: int) -> pa.DataType:
    """Return the Arrow type of a column of answers; OIDs that have names and vectors are texts."""
    if oid in _TYPES:
        return _TYPES[oid][1]
    item = element(oid)
    return pa.string() if item is None else pa.list_(arrow_type(item))


def arrow_oid(kind: pa.DataType) -> int:
    """Return the type of a parameter whose values have this Arrow type."""
    if pa.types.is_list(kind):
        return array_of(arrow_oid(kind.value_type))
    return NUMERIC if pa.types.is_decimal(kind) else _BY_ARROW.get(kind, TEXT)


def column_oid(kind: SqlType) -> int:
    """Return the type under which a policy's column is announced."""
    if kind.name == "LIST" and kind.item is not None and kind.item.name in _POLICY:
        return array_of(_POLICY[kind.item.name])
    return _POLICY.get(kind.name, TEXT)


def type_modifier(kind: SqlType) -> int:
    """Return `atttypmod` of a policy's column: precision and scale of a DECIMAL, else -1."""
    return ((kind.precision << 16) | kind.scale) + 4 if kind.name == "DECIMAL" else -1


def common(oids: Iterable[int]) -> int:
    """Return the type in which the branches of a CASE, or the rows of a UNION, meet: PostgreSQL's rule."""
    found = UNKNOWN
    for oid in oids:
        if found in (UNKNOWN, oid) or oid == UNKNOWN:
            found = oid if found == UNKNOWN else found
        elif found in TEXTS and oid in TEXTS:
            found = oid if found == CHAR else found
        elif OID in (found, oid):
            found = OID
        elif found in _NUMBERS and oid in _NUMBERS:
            found = max(found, oid, key=_NUMBERS.index)
    return found
