"""The in-memory DuckDB database of one policy's catalogue, and the check of SQL before it runs there.

It holds tables, names and macros, and is then locked. sqlglot writes the SQL; whatever the question was, a
statement that is not one query, and a function or a relation outside the closed lists, never runs: no file,
no network, no setting and no catalogue of the engine.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import duckdb
import pyarrow as pa

from dpsql.engines.duckdb.settings import connect, lock
from dpsql.kernel.tree import quote
from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.facts import UnknownQuestion
from dpsql.serve.catalog.postgres_data import AGGREGATES, FUNCTIONS, PREFIX, SCHEMAS, Function, Relation, data
from dpsql.serve.catalog.relations import Place, PolicyRelation, policy_tables

OWN_TABLE = "q:"
"""Prefix of the names of common table expressions in DuckDB's SQL: no table of DuckDB begins so."""

_SETTINGS = {
    "TimeZone": "'UTC'",
    "integer_division": "true",
    "default_null_order": "'NULLS_LAST'",
    "scalar_subquery_error_on_multiple_rows": "true",
    "threads": "1",
    "memory_limit": "'256MB'",
    "temp_directory": "''",
    "max_temp_directory_size": "'0B'",
    "enable_logging": "false",
}


def open_database(place: Place, names: Names) -> duckdb.DuckDBPyConnection:
    """Return the locked catalogue of a policy's relations."""
    connection = connect(_SETTINGS)
    for schema in SCHEMAS.values():
        connection.execute(f"CREATE SCHEMA {schema}")
    connection.execute(";\n".join(_definition(relation) for relation in data().relations.values()))
    for table, rows in data().tables.items():
        if rows:
            _insert(connection, table, arrow_rows(data().relations["pg_catalog", table], rows))
    _add_look_ups(connection, names)
    given = policy_tables(place)
    for name, content in given.items():
        connection.register(name, content)
    connection.execute((files(__package__) / "policy.sql").read_text(encoding="utf-8"))
    for name in given:
        connection.unregister(name)
    _add_macros(connection, place.relations)
    lock(connection, (), None)
    return connection


def arrow_rows(relation: Relation, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return rows of a relation as a table with the relation's columns."""
    return pa.table(
        [
            pa.array([row.get(name) for row in rows], pg_types.storage_type(oid))
            for name, oid in relation.columns
        ],
        names=[name for name, _ in relation.columns],
    )


def _definition(relation: Relation) -> str:
    columns = ", ".join(f"{quote(name)} {pg_types.duckdb_type(oid)}" for name, oid in relation.columns)
    return f"CREATE TABLE {SCHEMAS[relation.schema]}.{quote(relation.name)} ({columns})"


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    connection.register("dpsql_incoming", rows)
    connection.execute(f"INSERT INTO _pgc.{table} SELECT * FROM dpsql_incoming")
    connection.unregister("dpsql_incoming")


class Names:
    """The names of objects, as `'name'::regclass` and the like read them, and as they are shown."""

    def __init__(self, relations: Sequence[PolicyRelation]) -> None:
        known = data()
        self.shown: dict[str, dict[int, str]] = {
            "class": {},
            "type": dict(known.type_names),
            "proc": {row["oid"]: row["proname"] for row in known.tables["pg_proc"]},
            "procedure": {row[0]: row[4] for row in known.functions},
            "namespace": {row["oid"]: row["nspname"] for row in known.tables["pg_namespace"]},
            "other": {},
        }
        self.keys: dict[str, dict[str, int]] = {"class": {}, "type": {}, "proc": {}}
        self.keys["namespace"] = {name: oid for oid, name in self.shown["namespace"].items()}
        for relation in known.relations.values():
            self._add_class(relation, relation.schema, visible=relation.schema == "pg_catalog")
        types = self.keys["type"]
        for name, oid in known.type_oids.items():
            types |= {name: oid, f"pg_catalog.{name}": oid}
        for oid, shown in known.type_names.items():
            types.setdefault(shown, oid)
        for spelling in ("int", "integer", "decimal", "float", "char"):
            types[spelling] = pg_types.oid_of_name(spelling) or 0
        for oid, name in self.shown["proc"].items():
            for key in (name, f"pg_catalog.{name}"):
                self.keys["proc"].setdefault(key, oid)
        for own in relations:
            self._add_class(own, "public", visible=True)
            self.shown["type"] |= {own.row_type: own.name, own.array_type: f"{own.name}[]"}
            for oid, name in ((own.row_type, own.name), (own.array_type, f"_{own.name}")):
                types |= {name: oid, f"public.{name}": oid}

    def _add_class(self, relation: Relation | PolicyRelation, schema: str, *, visible: bool) -> None:
        oid, name = relation.oid, relation.name
        self.shown["class"][oid] = name if visible else f"{schema}.{name}"
        self.keys["class"][f"{schema}.{name}"] = oid
        if visible:
            self.keys["class"].setdefault(name, oid)


def _add_look_ups(connection: duckdb.DuckDBPyConnection, names: Names) -> None:
    kinds = names.keys
    tables: dict[str, Iterable[Sequence[Any]]] = {
        **{f"_{kind}_names (oid UINTEGER, shown VARCHAR)": names.shown[kind].items() for kind in kinds},
        **{f"_{kind}_keys (key VARCHAR, oid UINTEGER)": keys.items() for kind, keys in kinds.items()},
    }
    texts = "result VARCHAR, arguments VARCHAR, definition VARCHAR, signature"
    tables[f"_functions (oid UINTEGER, {texts} VARCHAR)"] = data().functions
    words = "word VARCHAR, catcode VARCHAR, barelabel BOOLEAN, catdesc VARCHAR, baredesc VARCHAR"
    tables[f"_keywords ({words})"] = data().keywords
    for definition, rows in tables.items():
        connection.execute(f"CREATE TABLE _pgc.{definition}")
        columns = [list(column) for column in zip(*rows, strict=True)]
        table = pa.table(columns, names=[f"c{place}" for place in range(len(columns))])
        _insert(connection, definition.partition(" ")[0], table)


FACTS = {
    **dict.fromkeys(("user", "database", "version", "schema", "address", "now", "server_started"), "VARCHAR"),
    **dict.fromkeys(("pid", "port"), "INTEGER"),
    **dict.fromkeys(("schemas", "implicit_schemas", "setting_names", "setting_values"), "VARCHAR[]"),
    "public_is_visible": "BOOLEAN",
}
"""The facts of a session that macros read from DuckDB's variable `session`, with their types."""


def _add_macros(connection: duckdb.DuckDBPyConnection, relations: Sequence[PolicyRelation]) -> None:
    known = data()
    lists = {name: f"CAST(getvariable('session')['{name}'] AS {kind})" for name, kind in FACTS.items()}
    for name in ("now", "server_started"):
        lists[name] = f"CAST({lists[name]} AS TIMESTAMP WITH TIME ZONE)"
    classes = known.relations.values()
    types = known.tables["pg_type"]
    lists |= {
        "classes": _numbers(own.oid for own in relations),
        "row_types": _numbers(oid for own in relations for oid in (own.row_type, own.array_type)),
        "system_classes": _numbers(one.oid for one in classes if one.schema == "pg_catalog"),
        "hidden_classes": _numbers(one.oid for one in classes if one.schema != "pg_catalog"),
        "hidden_types": _numbers(row["oid"] for row in types if row["typnamespace"] != 11),
        "reserved": str([word for word, catcode, *_ in known.keywords if catcode != "U"]),
    }
    overloads: dict[str, list[str]] = {}
    for function in FUNCTIONS.values():
        body = _bind_once(function, function.body.format(**lists))
        overload = f"({', '.join(function.parameters)}) AS ({body})"
        overloads.setdefault(function.name, []).append(overload)
    for name, bodies in overloads.items():
        connection.execute(f"CREATE MACRO main.{PREFIX}{name}{', '.join(bodies)}")


def _numbers(oids: Iterable[int]) -> str:
    return f"CAST({list(oids)} AS UINTEGER[])"


_PARAMETER = re.compile(r"'(?:[^']|'')*'|(?<![\w.])([a-j])(?![\w(])")


def _bind_once(function: Function, body: str) -> str:
    """Return a body that uses each parameter once: DuckDB copies arguments, and calls are nested."""
    used = Counter(match[1] for match in _PARAMETER.finditer(body) if match[1] in function.parameters)
    if all(count < 2 for count in used.values()):
        return body
    own = [name for name in function.parameters if used[name]]
    whole = _PARAMETER.sub(
        lambda match: f"pg_let.{match[1]}" if match[1] in function.parameters else match[0], body
    )
    if "SELECT" in body:
        given = ", ".join(f"{name} AS {name}" for name in own)
        return f"(SELECT {whole} FROM (SELECT {given}) AS pg_let)"
    given = ", ".join(f"{name} := {name}" for name in own)
    return f"list_extract(list_transform([struct_pack({given})], lambda pg_let: {whole}), 1)"


# The check of SQL, by DuckDB's own parser.

_ENGINE_FUNCTIONS = frozenset(
    {"+", "-", "*", "/", "//", "%", "&", "|", "<<", ">>", "||", "~~", "!~~", "~~*", "!~~*"}
    | {"like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape", "regexp_matches", "row"}
    | {"list_contains", "list_transform", "list_bool_or", "list_bool_and", "list_value", "list_slice"}
    | {"struct_extract", "unnest", "generate_subscripts", "left", "nullif", "greatest", "least", "count_star"}
    | {"date_part", "date_trunc", "json_object", "json_array", "concat", "concat_ws"}
    | (AGGREGATES.keys() - {"every"})
)
"""DuckDB's functions and operators that the translator or sqlglot writes."""
_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_REFUSED_RELATIONS = frozenset(
    {"TABLE_FUNCTION", "SHOW_REF", "PIVOT", "COLUMN_DATA", "DELIM_GET", "BOUND_TABLE_REF"}
)


def check_sql(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise `UnknownQuestion` unless the SQL is one query over the catalogue's names."""
    try:
        parsed = json.loads(connection.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()[0][0])
    except (duckdb.Error, ValueError, RecursionError):
        raise UnknownQuestion("not parsed") from None
    statements = parsed.get("statements")
    if parsed.get("error") or not isinstance(statements, list) or len(statements) != 1:
        raise UnknownQuestion("not parsed")
    for node in _objects(statements):
        kind = node.get("type")
        kind = kind if isinstance(kind, str) else ""
        if kind.endswith("_NODE") and kind not in _NODES:
            raise UnknownQuestion("statement")
        if kind in _REFUSED_RELATIONS or (kind == "BASE_TABLE" and not _is_known_table(node)):
            raise UnknownQuestion("relation")
        if "function_name" in node:
            name = str(node["function_name"]).lower()
            known = name in _ENGINE_FUNCTIONS or name.startswith(PREFIX)
            if node.get("schema") or node.get("catalog") or not known:
                raise UnknownQuestion("function")


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


def _is_known_table(node: dict[str, object]) -> bool:
    catalog, schema, name = (str(node.get(k) or "") for k in ("catalog_name", "schema_name", "table_name"))
    if catalog == "temp":
        return schema == "main" and name.startswith("live_")
    own = not schema and name.startswith(OWN_TABLE)
    return not catalog and (schema in SCHEMAS.values() or own)
