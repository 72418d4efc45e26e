"""PostgreSQL's own rows, its types by OID and the closed list of functions, which every catalogue has.

Types have their DuckDB and Arrow types here, and the type in which two of them meet.

The data file was made once from an empty PostgreSQL 15 by `tests/serve/make_catalog_data.py`; each function
is a DuckDB macro of `functions.sql`, which says how it is written, or an aggregate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

import pyarrow as pa

from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.types import SqlType

SCHEMAS = {"pg_catalog": "_pgc", "information_schema": "_pgi"}
"""The two schemas of the catalogue, and the DuckDB schemas that hold them."""
ALL_SCHEMAS = ("public", *SCHEMAS)
"""The schemas that a client sees: that of the policy's tables, and those of the catalogue."""

Row = dict[str, Any]
"""A row of a relation, by the names of its columns; a column that is missing is NULL."""


@dataclass(frozen=True, slots=True)
class CatalogRelation:
    """A relation of the catalogue: its OID, its kind (`r` or `v`), and its columns with their types."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Data:
    """The content of the data file."""

    relations: dict[tuple[str, str], CatalogRelation]
    tables: dict[str, list[Row]]
    """Rows of tables of `pg_catalog` that every policy's catalogue has."""
    type_names: dict[int, str]
    """The names of types as `format_type` shows them."""
    type_oids: dict[str, int]
    elements: dict[int, int]
    """The types of arrays' elements."""
    arrays: dict[int, int]
    functions: list[list[Any]]
    """OID, result, arguments, definition and signature of the functions."""
    keywords: list[list[Any]]
    settings: list[Row]
    """The settings that PostgreSQL shows to a role without rights."""


@lru_cache(maxsize=1)
def load_data() -> Data:
    """Return the content of the data file, read once a process."""
    raw = json.loads((files(__package__) / "postgresql15.json").read_text(encoding="utf-8"))
    tables = {name: _read_records(rows) for name, rows in raw["tables"].items()}
    types = tables["pg_type"]
    arrays = [row for row in types if row["typelem"] and row["typlen"] == -1 and row["typcategory"] == "A"]
    relations = [
        CatalogRelation(schema, name, oid, kind, tuple(map(tuple, columns)))
        for schema, name, oid, kind, columns in raw["relations"]
    ]
    return Data(
        relations={(relation.schema, relation.name): relation for relation in relations},
        tables=tables,
        type_names=dict(raw["type_names"]),
        type_oids={row["typname"]: row["oid"] for row in types},
        elements={row["oid"]: row["typelem"] for row in arrays},
        arrays={row["oid"]: row["typarray"] for row in types if row["typarray"]},
        functions=raw["functions"],
        keywords=raw["keywords"],
        settings=_read_records(raw["settings"]),
    )


def _read_records(raw: Mapping[str, Any]) -> list[Row]:
    return [dict(zip(raw["columns"], row, strict=True)) for row in raw["rows"]]


PREFIX = "pgf_"
"""Prefix of the macros of DuckDB."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the types of its arguments and its result, and the body of its macro."""

    name: str
    arguments: tuple[str, ...]
    """Names of types; `any` for an argument of any type."""
    result: str
    body: str
    returns_set: bool = False
    """Whether it returns rows; the macro returns a list of them."""
    fields: tuple[tuple[str, ...], ...] = ()
    """Names and types of the columns of the rows of a function that returns records."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the macro's parameters."""
        return tuple("abcdefghij"[: len(self.arguments)])


AGGREGATES = {
    **dict.fromkeys(("count", "row_number", "rank", "dense_rank"), "int8"),
    **dict.fromkeys(("min", "max"), "extreme"),
    "sum": "sum",
    "avg": "float8",
    "array_agg": "array",
    "string_agg": "text",
    **dict.fromkeys(("bool_and", "bool_or", "every"), "bool"),
    **dict.fromkeys(("lag", "lead", "first_value", "last_value"), "same"),
}
"""The aggregates and window functions, and the types of their results; `every` is DuckDB's `bool_and`."""

_LINE = lazy_pattern(
    r"(?P<name>\w+)\((?P<arguments>[^)]*)\) -> "
    r"(?P<set>setof )?(?P<result>[\w\[\]\" ]+)(?:\((?P<fields>[^)]*)\))?: (?P<body>.*)"
)


def _read_functions(text: str) -> Mapping[tuple[str, int], Function]:
    found = {}
    text = re.sub(r"(?m)^--.*\n", "", text)
    for line in filter(None, re.sub(r"\n +", " ", text).splitlines()):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"not a line of a table of functions: {line}")
        body = match["body"]
        if "SELECT" in body:  # its sources must not be taken for those of the question
            body = re.sub(r"\bAS ([a-z])\b", r"AS pg_source_\1", body)
            body = re.sub(r"(?<![\w'])([a-z])\.(\w)", r"pg_source_\1.\2", body)
        arguments = tuple(filter(None, match["arguments"].split(", ")))
        fields = tuple(tuple(part.split(" ")) for part in filter(None, (match["fields"] or "").split(", ")))
        found[match["name"], len(arguments)] = Function(
            match["name"], arguments, match["result"], body, match["set"] is not None, fields
        )
    return found


FUNCTIONS = _read_functions((files(__package__) / "functions.sql").read_text(encoding="utf-8"))
"""The functions with macros, by name and number of arguments."""

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


def element_type(oid: int | None) -> int | None:
    """Return the type of an array's elements; None if the type is no array, or not known."""
    if oid is None:
        return None
    return {INT2VECTOR: INT2, OIDVECTOR: OID, ANYARRAY: TEXT}.get(oid) or load_data().elements.get(oid)


def array_of(oid: int) -> int:
    """Return the array type with elements of this type, or else the array type of text."""
    return load_data().arrays.get(TEXT if oid == UNKNOWN else oid, load_data().arrays[TEXT])


def oid_of_name(name: str) -> int | None:
    """Return the type that a name or a spelling of the standard means."""
    return _SPELLINGS.get(name) or load_data().type_oids.get(name)


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
    item = element_type(oid)
    return "VARCHAR" if item is None else f"{duckdb_type(item)}[]"


def arrow_type(oid: int) -> pa.DataType:
    """Return the Arrow type of a column of answers; OIDs that have names and vectors are texts."""
    if oid in _TYPES:
        return _TYPES[oid][1]
    item = element_type(oid)
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


def common_type(oids: Iterable[int]) -> int:
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
