"""The in-memory DuckDB database of one policy's catalogue: tables, names and macros, then locked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import duckdb
import pyarrow as pa

from dpsql.engines.duckdb.settings import connect, lock
from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.data import SCHEMAS, Relation, data
from dpsql.serve.catalog.functions import FUNCTIONS, PREFIX, Function
from dpsql.serve.catalog.objects import PolicyRelation, given_rows, records
from dpsql.tree import quote

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


def open_database(relations: Sequence[PolicyRelation], name: str) -> duckdb.DuckDBPyConnection:
    """Return the locked catalogue of a policy's relations, in the database of this name."""
    connection = connect(_SETTINGS)
    for schema in SCHEMAS.values():
        connection.execute(f"CREATE SCHEMA {schema}")
    connection.execute(";\n".join(_definition(relation) for relation in data().relations.values()))
    for table, content in data().tables.items():
        if content.rows:
            relation = data().relations["pg_catalog", table]
            _insert(connection, f"_pgc.{table}", arrow_rows(relation, records(content)))
    _look_ups(connection, relations)
    _policy(connection, relations, name)
    _macros(connection, relations)
    lock(connection, (), None)
    return connection


def stored_type(oid: int) -> pa.DataType:
    """Return the Arrow type of the values of a column inside the database."""
    if oid in pg_types.NAMED_OIDS:
        return pa.uint32()
    item = pg_types.element(oid)
    return pa.list_(stored_type(item)) if item is not None else pg_types.arrow_type(oid)


def arrow_rows(relation: Relation, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return rows of a relation as a table with the relation's columns."""
    arrays = [pa.array([row.get(name) for row in rows], stored_type(oid)) for name, oid in relation.columns]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in relation.columns])


def _definition(relation: Relation) -> str:
    columns = ", ".join(f"{quote(name)} {pg_types.duckdb_type(oid)}" for name, oid in relation.columns)
    return f"CREATE TABLE {SCHEMAS[relation.schema]}.{quote(relation.name)} ({columns})"


def _insert(connection: duckdb.DuckDBPyConnection, place: str, rows: pa.Table) -> None:
    connection.register("dpsql_incoming", rows)
    connection.execute(f"INSERT INTO {place} SELECT * FROM dpsql_incoming")
    connection.unregister("dpsql_incoming")


_GIVEN = {
    "given_database": {"name": pa.string()},
    "given_relations": {
        **dict.fromkeys(("oid", "row_type", "array_type", "width"), pa.int64()),
        **dict.fromkeys(("name", "kind", "comment"), pa.string()),
    },
    "given_columns": {
        **dict.fromkeys(("relation", "number", "type", "modifier"), pa.int64()),
        **dict.fromkeys(("name", "comment"), pa.string()),
    },
}


def _policy(connection: duckdb.DuckDBPyConnection, relations: Sequence[PolicyRelation], name: str) -> None:
    """Fill the catalogue with what `policy.sql` tells of a policy."""
    for table, rows in given_rows(relations, name).items():
        connection.register(table, pa.Table.from_pylist(rows, pa.schema(_GIVEN[table])))
    connection.execute((files(__package__) / "policy.sql").read_text(encoding="utf-8"))
    for table in _GIVEN:
        connection.unregister(table)


class Names:
    """The names of objects, as `'name'::regclass` and the like read them, and as they are shown."""

    def __init__(self, relations: Sequence[PolicyRelation]) -> None:
        known = data()
        self.shown: dict[str, dict[int, str]] = {
            "class": {},
            "type": dict(known.type_names),
            "proc": {},
            "procedure": {int(str(row[0])): str(row[4]) for row in known.functions},
            "namespace": {11: "pg_catalog"},
            "other": {},
        }
        self.keys: dict[str, dict[str, int]] = {kind: {} for kind in ("class", "type", "proc", "namespace")}
        for relation in known.relations.values():
            visible = relation.schema == "pg_catalog"
            self._class(relation.schema, relation.name, relation.oid, visible=visible)
        for name, oid in known.type_oids.items():
            self.keys["type"] |= {name: oid, f"pg_catalog.{name}": oid}
        for oid, shown in known.type_names.items():
            self.keys["type"].setdefault(shown, oid)
        for spelling in ("int", "integer", "decimal", "float", "char"):
            self.keys["type"][spelling] = pg_types.named(spelling) or 0
        for row in records(known.tables["pg_proc"]):
            oid, name = int(str(row["oid"])), str(row["proname"])
            self.shown["proc"][oid] = name
            for key in (name, f"pg_catalog.{name}"):
                self.keys["proc"].setdefault(key, oid)
        for row in records(known.tables["pg_namespace"]):
            self.keys["namespace"][str(row["nspname"])] = int(str(row["oid"]))
            self.shown["namespace"][int(str(row["oid"]))] = str(row["nspname"])
        for own in relations:
            self._class("public", own.name, own.oid, visible=True)
            for oid, name in ((own.row_type, own.name), (own.array_type, f"_{own.name}")):
                self.shown["type"][oid] = own.name if oid == own.row_type else f"{own.name}[]"
                self.keys["type"] |= {name: oid, f"public.{name}": oid}

    def _class(self, schema: str, name: str, oid: int, *, visible: bool) -> None:
        self.shown["class"][oid] = name if visible else f"{schema}.{name}"
        self.keys["class"][f"{schema}.{name}"] = oid
        if visible:
            self.keys["class"].setdefault(name, oid)


def _look_ups(connection: duckdb.DuckDBPyConnection, relations: Sequence[PolicyRelation]) -> None:
    names = Names(relations)
    texts: dict[str, list[tuple[Any, ...]]] = {}
    for kind, shown in names.shown.items():
        if kind not in ("procedure", "other"):
            texts[f"_{kind}_names (oid UINTEGER, shown VARCHAR)"] = list(shown.items())
    for kind, keys in names.keys.items():
        texts[f"_{kind}_keys (key VARCHAR, oid UINTEGER)"] = list(keys.items())
    functions = (
        "_functions (oid UINTEGER, result VARCHAR, arguments VARCHAR, definition VARCHAR, signature VARCHAR)"
    )
    texts[functions] = [tuple(row) for row in data().functions]
    words = "_keywords (word VARCHAR, catcode VARCHAR, barelabel BOOLEAN, catdesc VARCHAR, baredesc VARCHAR)"
    texts[words] = [tuple(row) for row in data().keywords]
    for definition, rows in texts.items():
        connection.execute(f"CREATE TABLE _pgc.{definition}")
        columns = list(zip(*rows, strict=True))
        table = pa.table({f"c{place}": pa.array(column) for place, column in enumerate(columns)})
        _insert(connection, f"_pgc.{definition.partition(' ')[0]}", table)


def _macros(connection: duckdb.DuckDBPyConnection, relations: Sequence[PolicyRelation]) -> None:
    known = data()
    lists = _facts() | {
        "classes": _numbers(relation.oid for relation in relations),
        "row_types": _numbers(
            oid for relation in relations for oid in (relation.row_type, relation.array_type)
        ),
        "system_classes": _numbers(r.oid for r in known.relations.values() if r.schema == "pg_catalog"),
        "hidden_classes": _numbers(r.oid for r in known.relations.values() if r.schema != "pg_catalog"),
        "hidden_types": _numbers(
            int(str(row["oid"])) for row in records(known.tables["pg_type"]) if row["typnamespace"] != 11
        ),
        "reserved": "["
        + ", ".join(f"'{word}'" for word, catcode, *_ in known.keywords if catcode != "U")
        + "]",
    }
    by_name: dict[str, list[Function]] = {}
    for function in FUNCTIONS.values():
        by_name.setdefault(function.name, []).append(function)
    for name, overloads in by_name.items():
        bodies = [
            f"({', '.join(function.parameters)}) AS ({_bound_once(function, function.body.format(**lists))})"
            for function in overloads
        ]
        connection.execute(f"CREATE MACRO main.{PREFIX}{name}{', '.join(bodies)}")


FACTS = {
    **dict.fromkeys(("user", "database", "version", "schema", "address", "now", "server_started"), "VARCHAR"),
    **dict.fromkeys(("pid", "port"), "INTEGER"),
    **dict.fromkeys(("schemas", "implicit_schemas", "setting_names", "setting_values"), "VARCHAR[]"),
    "public_is_visible": "BOOLEAN",
}
"""The facts of a session that macros read from DuckDB's variable `session`, with their types."""


def _facts() -> dict[str, str]:
    read = {name: f"CAST(getvariable('session')['{name}'] AS {kind})" for name, kind in FACTS.items()}
    times = {name: f"CAST({read[name]} AS TIMESTAMP WITH TIME ZONE)" for name in ("now", "server_started")}
    return read | times


_PARAMETER = re.compile(r"'(?:[^']|'')*'|(?<![\w.])([a-j])(?![\w(])")


def _bound_once(function: Function, body: str) -> str:
    """Return a body that uses each parameter once: DuckDB copies arguments, and calls are nested."""
    used = Counter(match[1] for match in _PARAMETER.finditer(body) if match[1] in function.parameters)
    if all(count < 2 for count in used.values()):
        return body
    own = [name for name in function.parameters if used[name]]

    def field(match: re.Match[str]) -> str:
        return f"pg_let.{match[1]}" if match[1] in function.parameters else match[0]

    whole = _PARAMETER.sub(field, body)
    if "SELECT" in body:
        given = ", ".join(f"{name} AS {name}" for name in own)
        return f"(SELECT {whole} FROM (SELECT {given}) AS pg_let)"
    given = ", ".join(f"{name} := {name}" for name in own)
    return f"list_extract(list_transform([struct_pack({given})], lambda pg_let: {whole}), 1)"


def _numbers(oids: Iterable[int]) -> str:
    return "CAST([" + ", ".join(map(str, oids)) + "] AS UINTEGER[])"
