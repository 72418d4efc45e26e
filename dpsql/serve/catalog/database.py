"""The in-memory DuckDB database of one policy's catalogue: its tables and views, and the check of its SQL.

It holds tables, names and macros, and is then locked. sqlglot writes the SQL; whatever the question was, a
statement that is not one query, and a function or a relation outside the closed lists, never runs: no file,
no network, no setting and no catalogue of the engine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import duckdb
import pyarrow as pa

from dpsql.engines.duckdb.duckdb_settings import connect, lock
from dpsql.kernel.tree import quote
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Policy, Table, UnitColumn, UnitVia, describe_protected, fold
from dpsql.serve.catalog import UnknownQuestion, postgres
from dpsql.serve.catalog.postgres import (
    AGGREGATES,
    FUNCTIONS,
    PREFIX,
    SCHEMAS,
    CatalogRelation,
    Function,
    load_data,
)
from dpsql.types import SqlType

OWNER, ANALYST, DATABASE = 10, 16385, 16384
"""The OIDs of the role that owns everything, of the analyst who asks, and of the database."""
_FIRST = 16400

ColumnTypes = Sequence[tuple[str, SqlType]]


@dataclass(frozen=True, slots=True)
class PolicyRelation:
    """A table or view of the policy, as the catalogue shows it."""

    name: str
    oid: int
    columns: tuple[tuple[str, SqlType], ...]
    kind: str
    """`r` for a table, `v` for a view."""
    comment: str
    comments: Mapping[str, str]
    """Comments of columns."""

    @property
    def row_type(self) -> int:
        """The OID of the type of the relation's rows."""
        return self.oid + 2

    @property
    def array_type(self) -> int:
        """The OID of the type of arrays of the relation's rows."""
        return self.oid + 1


def relations_of(
    policy: Policy,
    columns: Mapping[str, ColumnTypes],
    views: Mapping[str, ColumnTypes],
    oids: Mapping[str, int],
) -> tuple[PolicyRelation, ...]:
    """Return the tables and views of a policy. OIDs depend on names alone, so they survive restarts."""
    taken = set(oids.values())
    found = []
    for name in sorted([*policy.tables, *policy.views], key=fold):
        table = policy.table(name)
        shown = name if table is None else table.name
        oid = oids.get(shown) or _free_oid(fold(shown), taken)
        taken.add(oid)
        if table is None:
            found.append(PolicyRelation(shown, oid, tuple(views.get(name, ())), "v", "a view", {}))
        else:
            comments = _column_comments(table)
            said = _relation_comment(policy, table)
            found.append(PolicyRelation(shown, oid, tuple(columns[name]), "r", said, comments))
    return tuple(found)


def _free_oid(name: str, taken: set[int]) -> int:
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % (1 << 28)
    while (oid := _FIRST + 4 * number) in taken:
        number += 1
    return oid


def _relation_comment(policy: Policy, table: Table) -> str:
    if table.public:
        return "public"
    match table.unit:
        case UnitColumn(column):
            return f"private, the privacy unit is {column}"
        case UnitVia():
            return f"private, protects {describe_protected(policy.tables, table)}"
    return "private, the privacy unit is the row"


def _column_comments(table: Table) -> dict[str, str]:
    if table.public:
        return {}
    found = dict.fromkeys(table.domain, "has a public domain")
    if isinstance(table.unit, UnitColumn):
        found[table.unit.column] = f"the privacy unit ({table.unit.kind})"
    return {fold(name): text for name, text in found.items()}


def make_given_tables(name: str, relations: Sequence[PolicyRelation]) -> dict[str, pa.Table]:
    """Return the tables that `policy.sql` reads, by name: PostgreSQL's own rows, and those of the policy."""
    known = load_data()
    columns = [
        (own.oid, number, name, postgres.column_oid(kind), postgres.type_modifier(kind), comment)
        for own in relations
        for number, (name, kind) in enumerate(own.columns, start=1)
        for comment in [own.comments.get(fold(name))]
    ]
    own_relations = [
        (own.oid, own.name, own.kind, own.row_type, own.array_type, len(own.columns), own.comment)
        for own in relations
    ]
    objects = [(one.schema, one.name, one.oid) for one in known.relations.values()]
    return {
        **{name: pa.Table.from_pylist(rows) for name, rows in known.tables.items()},
        "given_database": _make_table("name", [(name,)]),
        "given_relations": _make_table("oid name kind row_type array_type width comment", own_relations),
        "given_columns": _make_table("relation number name type modifier comment", columns),
        "given_objects": _make_table("schema name oid", objects),
        "given_types": _make_table("oid shown", list(known.type_names.items())),
        "given_settings": pa.Table.from_pylist(known.settings),
        "given_functions": _make_table("oid result arguments definition signature", known.functions),
        "given_keywords": _make_table("word catcode barelabel catdesc baredesc", known.keywords),
    }


def _make_table(names: str, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Return rows as a table, whose columns have these names."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(names.split())
    return pa.table(columns, names.split())


OWN_TABLE = "q:"
"""Prefix of the names of common table expressions in DuckDB's SQL: no table of DuckDB begins so."""

_SETTINGS = {
    "TimeZone": "'UTC'",
    "integer_division": "true",
    "error_on_division_by_zero": "true",
    "default_null_order": "'NULLS_LAST'",
    "scalar_subquery_error_on_multiple_rows": "true",
    "threads": "1",
    "memory_limit": "'256MB'",
    "temp_directory": "''",
    "max_temp_directory_size": "'0B'",
    "enable_logging": "false",
}


def open_database(
    relations: Sequence[PolicyRelation], session: Mapping[str, object]
) -> duckdb.DuckDBPyConnection:
    """Return the locked catalogue of a policy's relations; views are bound with the facts of a session."""
    connection = connect(_SETTINGS)
    for schema in (*SCHEMAS.values(), "_session"):
        connection.execute(f"CREATE SCHEMA {schema}")
    known, script = load_data(), _read_script("session.sql")
    views = frozenset(re.findall(r"CREATE VIEW _session\.(\w+)", script))
    stored = [relation for relation in known.relations.values() if relation.name not in views]
    connection.execute(";\n".join(map(_table_definition, stored)))
    given = make_given_tables(str(session["database"]), relations)
    for name, content in given.items():
        connection.register(name, content)
    for table in known.tables:
        connection.execute(f"INSERT INTO _pgc.{table} BY NAME FROM temp.main.{table}")
    connection.execute(_read_script("policy.sql"))
    for name in given:
        connection.unregister(name)
    facts = {name: f"getvariable('session')['{name}']" for name in session}
    type_of_facts, *definitions = script.format(**facts).split(";\n\n")
    connection.execute(type_of_facts)
    set_session(connection, session)
    connection.execute(";\n".join(definitions))
    for relation in known.relations.values():
        if relation.name in views:
            connection.execute(_view_definition(connection, relation))
    _add_macros(connection, relations, facts)
    lock(connection, (), None)
    return connection


def set_session(connection: duckdb.DuckDBPyConnection, session: Mapping[str, object]) -> None:
    """Give a connection the facts of a session, which macros and views read."""
    connection.execute("SET VARIABLE session = CAST($1 AS _session.facts)", [session])


def _read_script(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _table_definition(relation: CatalogRelation) -> str:
    columns = ", ".join(f"{quote(name)} {postgres.duckdb_type(oid)}" for name, oid in relation.columns)
    return f"CREATE TABLE {SCHEMAS[relation.schema]}.{quote(relation.name)} ({columns})"


def _view_definition(connection: duckdb.DuckDBPyConnection, relation: CatalogRelation) -> str:
    """Return the definition of a relation about the session: all its columns, with their types."""
    told = {str(row[0]) for row in connection.execute(f"DESCRIBE _session.{relation.name}").fetchall()}
    columns = ", ".join(
        f"CAST({quote(name) if name in told else 'NULL'} AS {postgres.duckdb_type(oid)}) AS {quote(name)}"
        for name, oid in relation.columns
    )
    view = f"{SCHEMAS[relation.schema]}.{relation.name}"
    return f"CREATE VIEW {view} AS SELECT {columns} FROM _session.{relation.name}"


class ObjectNames:
    """The names of objects, as `'name'::regclass` and the like read them, and as OIDs are shown."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        def read(query: str) -> dict[Any, Any]:
            return dict(connection.execute(query).fetchall())

        kinds = ("class", "type", "proc", "namespace")
        self.keys: dict[str, dict[str, int]] = {kind: read(f"FROM _pgc._{kind}_keys") for kind in kinds}
        self.shown: dict[str, dict[int, str]] = {kind: read(f"FROM _pgc._{kind}_names") for kind in kinds}
        self.shown |= {"procedure": read("SELECT oid, signature FROM _pgc._functions"), "other": {}}


def _add_macros(
    connection: duckdb.DuckDBPyConnection, relations: Sequence[PolicyRelation], facts: Mapping[str, str]
) -> None:
    known = load_data()
    classes = known.relations.values()
    types = known.tables["pg_type"]
    lists = {
        **facts,
        "classes": _oid_list(own.oid for own in relations),
        "row_types": _oid_list(oid for own in relations for oid in (own.row_type, own.array_type)),
        "system_classes": _oid_list(one.oid for one in classes if one.schema == "pg_catalog"),
        "hidden_classes": _oid_list(one.oid for one in classes if one.schema != "pg_catalog"),
        "hidden_types": _oid_list(row["oid"] for row in types if row["typnamespace"] != 11),
        "reserved": str([word for word, catcode, *_ in known.keywords if catcode != "U"]),
    }
    overloads: dict[str, list[str]] = {}
    for function in FUNCTIONS.values():
        body = _bind_once(function, function.body.format(**lists))
        overload = f"({', '.join(function.parameters)}) AS ({body})"
        overloads.setdefault(function.name, []).append(overload)
    for name, bodies in overloads.items():
        connection.execute(f"CREATE MACRO main.{PREFIX}{name}{', '.join(bodies)}")


def _oid_list(oids: Iterable[int]) -> str:
    return f"CAST({list(oids)} AS UINTEGER[])"


_PARAMETER = lazy_pattern(r"'(?:[^']|'')*'|(?<![\w.])([a-j])(?![\w(])")


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
    | {"json_object", "json_array", "concat", "concat_ws"}
    | (AGGREGATES.keys() - {"every"})
)
"""DuckDB's functions and operators that the translator or sqlglot writes."""
_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_REFUSED_RELATIONS = frozenset(
    {"TABLE_FUNCTION", "SHOW_REF", "PIVOT", "COLUMN_DATA", "DELIM_GET", "BOUND_TABLE_REF"}
)


def check_sql(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise `UnknownQuestion` unless the SQL is one query over the catalogue's names."""
    nodes: list[dict[str, object]] = []

    def keep(node: dict[str, object]) -> dict[str, object]:
        nodes.append(node)
        return node

    try:
        text = connection.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()[0][0]
        parsed = json.loads(text, object_hook=keep)
    except (duckdb.Error, ValueError, RecursionError):
        raise UnknownQuestion("not parsed") from None
    statements = parsed.get("statements")
    if parsed.get("error") or not isinstance(statements, list) or len(statements) != 1:
        raise UnknownQuestion("not parsed")
    for node in nodes:
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


def _is_known_table(node: dict[str, object]) -> bool:
    catalog, schema, name = (str(node.get(k) or "") for k in ("catalog_name", "schema_name", "table_name"))
    own = not schema and name.startswith(OWN_TABLE)
    return not catalog and (schema in SCHEMAS.values() or own)
