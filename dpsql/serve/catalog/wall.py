"""Check of generated SQL: DuckDB's own parser must read it as one query over known names.

sqlglot writes the SQL. Whatever the question was, a statement that is not one query, and a function or a
relation outside the closed lists, never runs: no file, no network, no setting and no catalogue of the engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import duckdb

from dpsql.serve.catalog.data import SCHEMAS
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import AGGREGATES, PREFIX
from dpsql.serve.catalog.sources import OWN_TABLE

_FUNCTIONS = frozenset(
    {"+", "-", "*", "/", "//", "%", "&", "|", "<<", ">>", "||", "~~", "!~~", "~~*", "!~~*"}
    | {"like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape", "regexp_matches", "row"}
    | {"list_contains", "list_transform", "list_bool_or", "list_bool_and", "list_value", "list_slice"}
    | {"struct_extract", "unnest", "generate_subscripts", "left", "nullif", "greatest", "least", "count_star"}
    | {"date_part", "date_trunc", "json_object", "json_array", "concat", "concat_ws"}
    | {name for name, _ in AGGREGATES.values()}
)
"""DuckDB's functions and operators that the translator or sqlglot writes."""

_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})


def check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise `UnknownQuestion` unless the SQL is one query over the catalogue's names."""
    try:
        read = connection.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()[0][0]
        parsed = json.loads(read)
    except (duckdb.Error, ValueError, RecursionError):
        raise UnknownQuestion("not parsed") from None
    statements = parsed.get("statements")
    if parsed.get("error") or not isinstance(statements, list) or len(statements) != 1:
        raise UnknownQuestion("not parsed")
    for node in _objects(statements):
        _check_node(node)


def _objects(value: object) -> Iterator[dict[str, object]]:
    """Yield all objects of a parsed tree."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)


def _check_node(node: dict[str, object]) -> None:
    kind = node.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _NODES:
        raise UnknownQuestion("statement")
    if kind in ("TABLE_FUNCTION", "SHOW_REF", "PIVOT", "COLUMN_DATA", "DELIM_GET", "BOUND_TABLE_REF"):
        raise UnknownQuestion("relation")
    if kind == "BASE_TABLE" and not _is_known_table(node):
        raise UnknownQuestion("relation")
    if "function_name" in node:
        name = str(node["function_name"]).lower()
        if node.get("schema") or node.get("catalog") or not (name in _FUNCTIONS or name.startswith(PREFIX)):
            raise UnknownQuestion("function")


def _is_known_table(node: dict[str, object]) -> bool:
    catalog, schema, name = (str(node.get(k) or "") for k in ("catalog_name", "schema_name", "table_name"))
    if catalog == "temp":
        return schema == "main" and name.startswith("live_")
    own = not schema and name.startswith(OWN_TABLE)
    return not catalog and (schema in SCHEMAS.values() or own)
