"""PostgreSQL's types by OID: their DuckDB types, their Arrow types, and which type two of them meet in."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from dpsql.serve.catalog.data import data
from dpsql.types import SqlType

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4 = 16, 17, 18, 19, 20, 21, 22, 23
REGPROC, TEXT, OID, XID, CID, OIDVECTOR, JSON = 24, 25, 26, 28, 29, 30, 114
FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC = 1082, 1083, 1114, 1184, 1186, 1700
REGCLASS, REGTYPE, REGROLE, REGNAMESPACE = 2205, 2206, 4096, 4089
RECORD, RECORD_ARRAY, VOID, ANYARRAY, UUID = 2249, 2287, 2278, 2277, 2950

NAMED_OIDS = {
    REGPROC: "proc",
    2202: "procedure",
    REGCLASS: "class",
    REGTYPE: "type",
    REGROLE: "role",
    REGNAMESPACE: "namespace",
    2203: "other",
    2204: "other",
    3734: "other",
    3769: "other",
}
"""The types whose values are OIDs that are shown as names, with the kind of object.

The catalogue has no operators and no text search: of those it shows the OIDs."""

TEXTS = frozenset({CHAR, NAME, TEXT, BPCHAR, VARCHAR, UNKNOWN})
"""Types whose values are texts."""

_NUMBERS = (INT2, INT4, INT8, NUMERIC, FLOAT4, FLOAT8)
NUMBERS = frozenset({*_NUMBERS, OID})

_DUCKDB = {
    BOOL: "BOOLEAN",
    BYTEA: "BLOB",
    INT8: "BIGINT",
    INT2: "SMALLINT",
    INT4: "INTEGER",
    OID: "UINTEGER",
    XID: "UINTEGER",
    CID: "UINTEGER",
    INT2VECTOR: "SMALLINT[]",
    OIDVECTOR: "UINTEGER[]",
    FLOAT4: "FLOAT",
    FLOAT8: "DOUBLE",
    NUMERIC: "DECIMAL(38, 10)",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    INTERVAL: "INTERVAL",
    UUID: "UUID",
    ANYARRAY: "VARCHAR[]",
    **dict.fromkeys(NAMED_OIDS, "UINTEGER"),
}
_ARROW = {
    BOOL: pa.bool_(),
    BYTEA: pa.binary(),
    INT8: pa.int64(),
    INT2: pa.int16(),
    INT4: pa.int32(),
    OID: pa.uint32(),
    XID: pa.uint32(),
    CID: pa.uint32(),
    FLOAT4: pa.float32(),
    FLOAT8: pa.float64(),
    NUMERIC: pa.decimal128(38, 10),
    DATE: pa.date32(),
    TIME: pa.time64("us"),
    TIMESTAMP: pa.timestamp("us"),
    TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    INTERVAL: pa.month_day_nano_interval(),
    ANYARRAY: pa.list_(pa.string()),
}
_SPELLINGS = {
    "int": INT4,
    "integer": INT4,
    "smallint": INT2,
    "bigint": INT8,
    "boolean": BOOL,
    "real": FLOAT4,
    "float": FLOAT8,
    "double precision": FLOAT8,
    "decimal": NUMERIC,
    "character varying": VARCHAR,
    "character": BPCHAR,
    "char": BPCHAR,
    "timestamp without time zone": TIMESTAMP,
    "timestamp with time zone": TIMESTAMPTZ,
    "time without time zone": TIME,
    "time with time zone": 1266,
}
_POLICY = {
    "BOOLEAN": BOOL,
    "TINYINT": INT2,
    "UTINYINT": INT2,
    "SMALLINT": INT2,
    "USMALLINT": INT4,
    "INTEGER": INT4,
    "UINTEGER": INT8,
    "BIGINT": INT8,
    "UBIGINT": NUMERIC,
    "HUGEINT": NUMERIC,
    "DOUBLE": FLOAT8,
    "DECIMAL": NUMERIC,
    "VARCHAR": TEXT,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
    "UUID": UUID,
    "BLOB": BYTEA,
    "JSON": JSON,
}
"""The type under which values of a policy's column are sent; the others are sent as text."""


_BOUND = _POLICY | {
    "UINTEGER": OID,
    "FLOAT": FLOAT4,
    "UHUGEINT": NUMERIC,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
}
"""The type under which a column is announced that has a type of DuckDB alone."""


def element(oid: int | None) -> int | None:
    """Return the type of an array's elements; None if the type is no array, or not known."""
    if oid is None:
        return None
    return {INT2VECTOR: INT2, OIDVECTOR: OID, ANYARRAY: TEXT}.get(oid) or data().elements.get(oid)


def array_of(oid: int) -> int:
    """Return the array type with elements of this type; that of text if there is none."""
    return data().arrays.get(TEXT if oid == UNKNOWN else oid, data().arrays[TEXT])


def named(name: str) -> int | None:
    """Return the type that a name or a spelling of the standard means."""
    return _SPELLINGS.get(name) or data().type_oids.get(name)


def name_of(oid: int) -> str | None:
    """Return the name of a type in `pg_type`; None if there is none with this OID."""
    return next((name for name, known in data().type_oids.items() if known == oid), None)


def named_type(name: str) -> int:
    """Return the OID of a type that `functions.sql` names."""
    if name.endswith("[]"):
        return array_of(named_type(name[:-2]))
    oid = CHAR if name == '"char"' else named(name)
    if oid is None:
        raise ValueError(f"no type {name}")
    return oid


def bound_type(kind: str) -> int:
    """Return the type of a column that DuckDB describes."""
    if kind.startswith(("STRUCT", "TUPLE")):
        return RECORD_ARRAY if kind.endswith("[]") else RECORD
    if kind.endswith("[]"):
        return array_of(bound_type(kind[:-2]))
    return _BOUND.get(kind.partition("(")[0], TEXT)


def duckdb_type(oid: int) -> str:
    """Return the DuckDB type that holds values of a type."""
    if oid in _DUCKDB:
        return _DUCKDB[oid]
    item = element(oid)
    return "VARCHAR" if item is None else f"{duckdb_type(item)}[]"


def arrow_type(oid: int) -> pa.DataType:
    """Return the Arrow type of a column of answers; OIDs that have names and vectors are texts."""
    if oid in _ARROW:
        return _ARROW[oid]
    item = None if oid in (INT2VECTOR, OIDVECTOR, RECORD_ARRAY) else element(oid)
    return pa.string() if item is None else pa.list_(arrow_type(item))


def arrow_oid(kind: pa.DataType) -> int:
    """Return the type of a parameter whose values have this Arrow type."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return array_of(arrow_oid(kind.value_type))
    if pa.types.is_decimal(kind):
        return NUMERIC
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    if pa.types.is_time(kind):
        return TIME
    if pa.types.is_date(kind):
        return DATE
    widths = {"int8": INT2, "int16": INT2, "uint8": INT2, "uint16": INT4, "int32": INT4, "uint32": OID}
    widths |= {"int64": INT8, "uint64": NUMERIC, "float": FLOAT4, "double": FLOAT8, "bool": BOOL}
    return widths.get(str(kind), BYTEA if pa.types.is_binary(kind) else TEXT)


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
    known = [oid for oid in oids if oid != UNKNOWN]
    if not known:
        return UNKNOWN
    found = known[0]
    for oid in known[1:]:
        if oid == found:
            continue
        if found in TEXTS and oid in TEXTS:
            found = oid if found == CHAR else found
        elif OID in (found, oid):
            found = OID
        elif found in _NUMBERS and oid in _NUMBERS:
            found = max(found, oid, key=_NUMBERS.index)
    return found
