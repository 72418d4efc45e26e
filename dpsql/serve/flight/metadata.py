"""Answer what programs look up: catalogs, schemas, tables with their columns. No row of a table is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsql.errors import Error
from dpsql.serve.flight.arrow import schema_bytes
from dpsql.tree import quote

if TYPE_CHECKING:
    from dpsql.serve.client import Client

_SCHEMA = "public"
_KINDS = {"r": "TABLE", "v": "VIEW"}
_TABLES = """
    SELECT relname, relkind FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND relkind IN ('r', 'v') ORDER BY relname
"""


def _required(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string(), nullable=False) for name in names]


def _optional(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in names]


_FOREIGN = pa.schema([
    *_optional("pk_catalog_name", "pk_db_schema_name"),
    *_required("pk_table_name", "pk_column_name"),
    *_optional("fk_catalog_name", "fk_db_schema_name"),
    *_required("fk_table_name", "fk_column_name"),
    pa.field("key_sequence", pa.int32(), nullable=False),
    *_optional("fk_key_name", "pk_key_name"),
    pa.field("update_rule", pa.uint8(), nullable=False),
    pa.field("delete_rule", pa.uint8(), nullable=False),
])  # fmt: skip
_TABLE = pa.schema([
    *_optional("catalog_name", "db_schema_name"), *_required("table_name", "table_type"),
])  # fmt: skip
SCHEMAS: Mapping[str, pa.Schema] = {
    "CommandGetCatalogs": pa.schema(_required("catalog_name")),
    "CommandGetDbSchemas": pa.schema([*_optional("catalog_name"), *_required("db_schema_name")]),
    "CommandGetTableTypes": pa.schema(_required("table_type")),
    "CommandGetPrimaryKeys": pa.schema([
        *_optional("catalog_name", "db_schema_name"), *_required("table_name", "column_name"),
        pa.field("key_sequence", pa.int32(), nullable=False), *_optional("key_name"),
    ]),
    "CommandGetExportedKeys": _FOREIGN,
    "CommandGetImportedKeys": _FOREIGN,
    "CommandGetCrossReference": _FOREIGN,
}  # fmt: skip
"""The columns of the answers; those of tables and of what the server supports depend on the question."""


def tables_schema(asked: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of the answer about tables."""
    columns = pa.field("table_schema", pa.binary(), nullable=False)
    return _TABLE.append(columns) if asked.get("include_schema") else _TABLE


async def answer(name: str, asked: Mapping[str, Any], client: Client, catalog: str) -> pa.Table:
    """Answer a question about metadata; `catalog` is the name of the database."""
    match name:
        case "CommandGetCatalogs":
            return _table(SCHEMAS[name], [(catalog,)])
        case "CommandGetDbSchemas":
            wanted = _wanted(asked, catalog)
            return _table(SCHEMAS[name], [(catalog, _SCHEMA)] if wanted else [])
        case "CommandGetTableTypes":
            return _table(SCHEMAS[name], [(kind,) for kind in _KINDS.values()])
        case "CommandGetTables":
            found = await _tables(asked, client, catalog) if _wanted(asked, catalog) else []
            return _table(tables_schema(asked), found)
    return SCHEMAS[name].empty_table()  # keys: the policy has none


async def _tables(asked: Mapping[str, Any], client: Client, catalog: str) -> list[tuple[object, ...]]:
    rows = (await client.answer(_TABLES)).table.to_pylist()
    kinds = {bytes(each).decode(errors="replace") for each in asked.get("table_types", ())}
    pattern, found = asked.get("table_name_filter_pattern"), []
    for row in rows:
        name, kind = str(row["relname"]), _KINDS[str(row["relkind"])]
        if (kinds and kind not in kinds) or not matches(name, pattern):
            continue
        shown: tuple[object, ...] = (catalog, _SCHEMA, name, kind)
        if asked.get("include_schema"):
            shown = (*shown, schema_bytes(await _columns(name, client)))
        found.append(shown)
    return found


async def _columns(name: str, client: Client) -> pa.Schema:
    """Return the columns of a table by describing a statement; none of a view that is refused by itself."""
    try:
        described = await client.describe(f"SELECT * FROM {quote(name)} LIMIT 0")
    except Error:
        return pa.schema([])
    return pa.schema([(column.name, column.type) for column in described.columns])


def _wanted(asked: Mapping[str, Any], catalog: str) -> bool:
    """Return whether the one schema of the one catalog is asked for."""
    return asked.get("catalog", catalog) == catalog and matches(
        _SCHEMA, asked.get("db_schema_filter_pattern")
    )


def matches(text: str, pattern: str | None) -> bool:
    r"""Return whether a name fits a pattern of LIKE; every name fits None.

    >>> matches("visits", "v%"), matches("visits", "visit_"), matches("visits", "v.*"), matches("a", r"\_")
    (True, True, False, False)
    """
    if pattern is None:
        return True
    wanted = _pieces(pattern)
    at = place = 0
    again: tuple[int, int] | None = None  # behind the last `%`: where it stands, and the text that it takes
    while at < len(text):
        if place < len(wanted) and wanted[place] == _ANY:
            again = place, at
            place += 1
        elif place < len(wanted) and wanted[place] in (_ONE, text[at]):
            place, at = place + 1, at + 1
        elif again is not None:
            again = again[0], again[1] + 1
            place, at = again[0] + 1, again[1]
        else:
            return False
    return all(each == _ANY for each in wanted[place:])


_ANY, _ONE = "%%", "__"
"""The two wildcards of LIKE, distinct from all characters."""


def _pieces(pattern: str) -> list[str]:
    found, escaped = [], False
    for character in pattern:
        if not escaped and character == "\\":
            escaped = True
            continue
        found.append(2 * character if character in "%_" and not escaped else character)
        escaped = False
    return found


def _table(schema: pa.Schema, rows: Sequence[Sequence[object]]) -> pa.Table:
    columns = [
        pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=schema)
