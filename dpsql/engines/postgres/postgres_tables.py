"""PostgreSQL's tables: what the catalog says of one, the types of its columns, and the scan that reads it.

A `PostgresGuard` checks at every statement that a private table is unchanged since it was opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpsql.engines.postgres.postgres_sql import PostgresDialect, quote_name, string_literal
from dpsql.engines.worker import Untranslatable
from dpsql.engines.writer.dialect import integer_bounds
from dpsql.engines.writer.statement_writer import Cell, build_scan, read_date
from dpsql.engines.writer.written_values import TargetColumn, Value
from dpsql.errors import OperationalError, PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import DatabaseSource, Table, UnitColumn
from dpsql.types import BOOLEAN, DATE, DOUBLE, TIME, TIMESTAMP, UUID, VARCHAR, SqlType, column_type

CatalogQuery = Callable[[str], list[tuple[object, ...]]]
"""Runs a query on the catalog and returns its rows."""

# A NOT NULL that was never validated (PostgreSQL 18) does not hold for older rows. Of the indexes, those
# are listed that enforce uniqueness of plain columns under their types' own equality on every write. A
# DEFERRABLE one does not: its check comes later, or never (session_replication_role). The type of a column of
# a domain is that below the domain. An enum, and a type that is stored as a text (citext: its cast to text
# calls no function), are read as text.
CATALOG_QUERY = """
SELECT json_build_object(
  'schema', n.nspname, 'name', c.relname, 'oid', c.oid::bigint, 'kind', c.relkind::text,
  'rows_hidden', c.relrowsecurity,
  'definition', CASE WHEN c.relkind IN ('v', 'm') THEN md5(pg_get_viewdef(c.oid)) ELSE '' END,
  'usage', has_schema_privilege(n.oid, 'USAGE'),
  'denied', (SELECT coalesce(json_agg(a.attname ORDER BY a.attnum), '[]') FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT')),
  'columns', (SELECT json_agg(json_build_array(a.attnum, a.attname,
      CASE WHEN a.attgenerated = 'v' THEN 'virtual' WHEN r.text <> '' THEN r.text
        WHEN m.nspname = 'pg_catalog' THEN t.typname::text ELSE m.nspname || '.' || t.typname END,
      b.modifier, m.nspname = 'pg_catalog' OR r.text <> '',
      a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype = 'n' AND NOT k.convalidated AND a.attnum = ANY (k.conkey)))
      ORDER BY a.attnum)
    FROM pg_attribute a CROSS JOIN LATERAL (WITH RECURSIVE below(oid, modifier) AS (
        SELECT a.atttypid, a.atttypmod
        UNION ALL SELECT d.typbasetype, d.typtypmod FROM below JOIN pg_type d ON d.oid = below.oid
          AND d.typtype = 'd') SELECT oid, modifier FROM below) b
      JOIN pg_type t ON t.oid = b.oid AND t.typtype <> 'd' JOIN pg_namespace m ON m.oid = t.typnamespace
      CROSS JOIN LATERAL (SELECT CASE WHEN t.typtype = 'e' AND t.oid = a.atttypid THEN 'enum'
        WHEN t.typtype = 'b' AND m.nspname <> 'pg_catalog' AND EXISTS (SELECT FROM pg_cast s
          WHERE s.castsource = t.oid AND s.casttarget = 'text'::regtype AND s.castmethod = 'b')
        THEN 'citext' ELSE '' END AS text) r
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  'children', (WITH RECURSIVE below(oid) AS (
      SELECT h.inhrelid FROM pg_inherits h WHERE h.inhparent = c.oid
      UNION SELECT h.inhrelid FROM pg_inherits h JOIN below b ON h.inhparent = b.oid)
    SELECT json_agg(DISTINCT k.relkind::text) FROM below b JOIN pg_class k ON k.oid = b.oid),
  'indexes', (SELECT json_agg(json_build_array((SELECT json_agg(p.number)
        FROM unnest(i.indkey::int2[]) WITH ORDINALITY p(number, place) WHERE p.place <= i.indnkeyatts),
        coalesce(to_jsonb(i) ->> 'indnullsnotdistinct', 'false') = 'true'))
    FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid
      AND i.indisready AND i.indislive AND NOT i.indisexclusion AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (SELECT FROM pg_opclass o JOIN pg_namespace m ON m.oid = o.opcnamespace
        WHERE o.oid = ANY (i.indclass::oid[]) AND NOT (o.opcdefault AND m.nspname = 'pg_catalog')))
)::text AS seen FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE """


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column of the catalog: number, name, type (with its schema if not built in), and nullability.

    The type is `virtual` where the column is calculated whenever it is read (PostgreSQL 18).
    """

    number: int
    name: str
    type_name: str
    modifier: int
    builtin: bool
    never_null: bool


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of the catalog; `indexes` are its unique sets of columns, and whether NULLs are equal there."""

    oid: int
    text: str
    relation_kind: str
    columns: tuple[CatalogColumn, ...]
    children: bool
    indexes: tuple[tuple[frozenset[int], bool], ...]
    definition: str = ""
    """A hash of the query of a view."""

    @property
    def view(self) -> bool:
        """Whether the relation is a view or a materialized view."""
        return self.relation_kind in ("v", "m")


def find_table(ask: CatalogQuery, table: Table, source: DatabaseSource) -> CatalogTable:
    """Find a table by its name, or a view that the owner calls stable; raises `PolicyError`."""
    schema = source.schema or "public"
    named = (
        f"lower(n.nspname) = lower({string_literal(schema)}) AND lower(c.relname) = "
        f"lower({string_literal(source.table)})"
    )
    rows = ask(f"{CATALOG_QUERY} c.relkind IN ('r', 'p', 'v', 'm') AND {named}")
    key = f"tables.{table.name}.source"
    if len(rows) != 1:
        raise PolicyError(
            f"{key}: the database has no table {schema}.{source.table}",
            hint="`dpsql init` lists the tables that the role may read",
        )
    seen = json.loads(str(rows[0][0]))
    found = catalog_table(seen)
    if found.view and not table.stable:
        raise PolicyError(
            f"{key}: {schema}.{source.table} is a view, which could mix the rows of several units",
            hint="if each of its rows comes from rows of one unit, and reading it never fails: stable = true",
        )
    if table.stable and not found.view:
        raise PolicyError(
            f"tables.{table.name}.stable: {schema}.{source.table} is no view", hint="leave it out"
        )
    _check_grants(ask, table, seen, found)
    if seen["rows_hidden"]:
        raise PolicyError(
            f"{key}: the table has row-level security, which could choose rows by those of other units",
            hint=f"use a table without it: ALTER TABLE {found.text} DISABLE ROW LEVEL SECURITY",
        )
    if not set(seen["children"] or ()) <= {"r", "p"}:
        raise PolicyError(f"{key}: a partition is a foreign table, which may be a view on its server")
    return found


def catalog_table(seen: dict[str, Any]) -> CatalogTable:
    """Return a table as the query of the catalog describes it."""
    return CatalogTable(
        seen["oid"],
        quote_name(seen["schema"], seen["name"]),
        seen["kind"],
        tuple(CatalogColumn(*column) for column in seen["columns"] or ()),
        bool(seen["children"]) or seen["kind"] == "p",
        tuple((frozenset(numbers), equal) for numbers, equal in seen["indexes"] or ()),
        seen["definition"],
    )


def _check_grants(ask: CatalogQuery, table: Table, seen: dict[str, Any], found: CatalogTable) -> None:
    """Raise `PolicyError`, with the GRANT to give, if dpsql's role may not read the declared columns."""
    declared = None if table.columns is None else {name.lower() for name in table.columns}
    denied = [name for name in seen["denied"] if declared is None or name.lower() in declared]
    if seen["usage"] and not denied:
        return
    ((role,),) = ask("SELECT quote_ident(current_user) AS r")
    whole = len(denied) == len(found.columns) or declared is None or len(denied) == len(declared)
    listed = ", ".join(quote_name(name) for name in denied)
    grants = [] if seen["usage"] else [f"GRANT USAGE ON SCHEMA {quote_name(seen['schema'])} TO {role}"]
    if denied:
        grants.append(f"GRANT SELECT{'' if whole else f' ({listed})'} ON {found.text} TO {role}")
    what = f"the table {found.text}" if whole or not denied else f"{listed} of {found.text}"
    raise PolicyError(
        f"tables.{table.name}.source: the role {role} may not read {what}", hint="; ".join(grants)
    )


_TYPES = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bool": "BOOLEAN",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
    "bpchar": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "time": "TIME",
    "timetz": "TIME WITH TIME ZONE",
    "uuid": "UUID",
    "bytea": "BYTEA",
    "json": "JSON",
    "enum": "VARCHAR",
    "citext": "VARCHAR",
}
_HEADER = 16
"""The most bytes that a stored value takes besides its content."""
_NAME = 63
"""The most bytes of a name, and of a value of an enum."""


def columns_of(found: CatalogTable) -> list[tuple[str, str, str]]:
    """Return the name, the type and DuckDB's type name of each column."""
    return [(c.name, c.type_name, _type_word(c.type_name, c.modifier, c.builtin)) for c in found.columns]


def _type_word(physical: str, modifier: int, builtin: bool) -> str:
    if physical == "numeric" and builtin:
        packed = modifier - 4
        scale = ((packed & 0x7FF) ^ 1024) - 1024
        if modifier < 4 or scale < 0:
            return "DECIMAL(38,10)"  # without a declared scale: the owner may declare another
        return f"DECIMAL({(packed >> 16) & 0xFFFF},{scale})"
    # A type of an extension or of the owner's is named without its schema.
    return _TYPES.get(physical, physical.upper()) if builtin else physical.rpartition(".")[2].upper()


def index_distinguishes(column: CatalogColumn, sql_type: SqlType, unit: bool) -> bool:
    """Whether values that a unique index of PostgreSQL keeps distinct are distinct after the scan too.

    A unit that does not fit its declared type is read as NULL, and its row is not counted.
    """
    match column.type_name:
        case "int2" | "int4" | "int8":
            return sql_type.integer and (unit or _holds_all(sql_type, column.type_name))
        case "numeric":
            word = _type_word("numeric", column.modifier, column.builtin)
            # Without a precision, values may be infinite or are rounded; NaN is read as NULL.
            return column.modifier >= 4 and word == str(sql_type) and column.never_null
        case "text" | "varchar" | "bpchar" | "enum":
            return sql_type.name == "VARCHAR"
        case "uuid":
            return sql_type.name == "UUID"
        case "bool":
            return sql_type.name == "BOOLEAN"
        case _:
            return False


def never_null_columns(
    table: Table, found: CatalogTable, columns: tuple[tuple[str, SqlType], ...], longest: int
) -> frozenset[str]:
    """Return the lower-case names of the NOT NULL columns of which no value is read as NULL.

    A number may not fit its declared type, and a text may be longer than the limit: then NULL is a group.
    """
    enforced = {column.name.lower(): column for column in found.columns if column.never_null}
    facts = {column.lower() for fact in table.unique for column in fact}
    return frozenset(
        name.lower()
        for name, sql_type in columns
        if name.lower() in enforced
        and _is_never_lost(enforced[name.lower()], sql_type, longest, table.public or name.lower() in facts)
    )


def _is_never_lost(column: CatalogColumn, sql_type: SqlType, longest: int, unlimited: bool) -> bool:
    """Whether no value of a column is read as NULL; `unlimited` where no row with a long text is read so."""
    match column.type_name:
        case "int2" | "int4" | "int8":
            return _holds_all(sql_type, column.type_name)
        case "bool" | "uuid":
            return sql_type.name == _TYPES[column.type_name]
        case "text" | "varchar" | "bpchar" | "enum" | "citext":
            most = _longest_text(column)
            return sql_type.name == "VARCHAR" and (unlimited or (most is not None and most <= longest))
        case _:
            return False


def _holds_all(sql_type: SqlType, stored: str) -> bool:
    """Whether a type has every value of an integer type of PostgreSQL."""
    if not sql_type.integer:
        return False
    (low, high), (least, greatest) = integer_bounds(column_type(_TYPES[stored])), integer_bounds(sql_type)
    return least <= low and high <= greatest


def _longest_text(column: CatalogColumn) -> int | None:
    """Return the most bytes that a text of a column can have; None without a declared length."""
    if column.type_name == "enum":
        return _NAME
    declared = column.modifier - 4 if column.type_name in ("varchar", "bpchar") else 0
    return 4 * declared if declared > 0 else None


def write_scan(
    table: Table, found: CatalogTable, columns: tuple[tuple[str, SqlType], ...], longest: int
) -> tuple[str, dict[str, TargetColumn]]:
    """Return the SELECT that reads the declared columns with canonical values, and its columns by name."""
    dialect = PostgresDialect({})
    there = {name.lower(): (name, physical, word) for name, physical, word in columns_of(found)}
    source = found.text if found.children else f"ONLY {found.text}"

    def cell(name: str, sql_type: SqlType) -> Cell:
        _, physical, _ = there[name.lower()]
        value = _write_cell(dialect, *there[name.lower()], sql_type)
        within_limit = (
            _write_within_limit(f"r.{dialect.quote(name)}", physical, value, longest)
            if sql_type == VARCHAR
            else ""
        )
        return Cell(value, within_limit)

    return build_scan(table, columns, cell, source, "the database")


def is_readable_as(found: CatalogTable, name: str, sql_type: SqlType) -> bool:
    """Whether a column can be read with this type."""
    by_name = {n: (n, physical, word) for n, physical, word in columns_of(found)}
    with suppress(Untranslatable):
        _write_cell(PostgresDialect({}), *by_name[name], sql_type.held)
        return True
    return False


def _write_within_limit(cell: str, physical: str, value: Value, longest: int) -> str:
    """Write the condition that a text is within the limit; PostgreSQL knows a stored text's size."""
    within_limit = f"octet_length({value.sql}) <= {longest}"
    if physical != "json":
        return within_limit
    # The text of a json is read to be measured; if its stored size is small, it has a few megabytes at most.
    stored = f"pg_column_size({cell})"
    measured = f"WHEN {stored} <= {longest + _HEADER} THEN {within_limit}"
    return f"CASE {measured} WHEN {stored} IS NOT NULL THEN FALSE END"


def _write_cell(dialect: PostgresDialect, name: str, physical: str, word: str, sql_type: SqlType) -> Value:
    cell = f"r.{dialect.quote(name)}"
    if sql_type.name in ("LIST", "STRUCT", "ENUM", "BLOB"):
        raise Untranslatable(f"values of type {sql_type.name} are not supported")
    match physical:
        case "int2" | "int4" | "int8":
            value = Value(f"CAST({cell} AS bigint)", SqlType(word))
        case "float4" | "float8":
            value = dialect.canonical(Value(f"CAST({cell} AS float8)", DOUBLE))
        case "numeric":
            scale = min(int(word[8:-1].split(",")[1]), 18)
            value = Value(cell, SqlType("DECIMAL", 38, scale))
            if word == str(sql_type) and sql_type.precision <= 18:  # then the column has this precision
                return Value(f"NULLIF({cell}, CAST('NaN' AS numeric))", sql_type)
            if sql_type.name == "DECIMAL":
                return Value(f"({dialect.decimal(cell, sql_type)})", sql_type)
        case "bool":
            value = Value(cell, BOOLEAN)
        case "enum":
            # Not CAST: a database may have a cast of its own for the type, which could fail on a row.
            value = Value(f'(CAST(enum_out({cell}) AS text) COLLATE "C")', VARCHAR)
        case "text" | "varchar" | "bpchar" | "json" | "citext":
            value = Value(f'(CAST({cell} AS text) COLLATE "C")', VARCHAR)
        case "date":
            value = read_date(cell, "date ", DATE)
        case "timestamp":
            value = read_date(cell, "timestamp ", TIMESTAMP)
        case "timestamptz":
            value = read_date(f"({cell} AT TIME ZONE 'UTC')", "timestamp ", TIMESTAMP)
        case "time":
            value = Value(cell, TIME)
        case "uuid":
            value = Value(cell, UUID)
        case "virtual":
            raise Untranslatable(
                "it is calculated when it is read, and could fail on a row",
                "make it GENERATED .. STORED, or leave it out",
            )
        case "jsonb":
            raise Untranslatable(
                "the text of a jsonb can be half a million times as long as its stored value",
                "ALTER the column to json, which is stored as text, or leave it out",
            )
        case _:
            raise Untranslatable(f"columns of type {physical} are not read")
    return value if value.type == sql_type else dialect.cast(value, sql_type)


@dataclass(frozen=True, slots=True)
class PostgresGuard:
    """A private table as the catalog described it when it was opened."""

    table: Table
    source: DatabaseSource
    columns: tuple[tuple[str, SqlType], ...]
    found: CatalogTable

    @property
    def name(self) -> str:
        """The quoted name of the table."""
        return self.found.text

    def check(self, ask: CatalogQuery) -> None:
        """Raise if the table was changed, or if no index enforces a declared unique fact any more."""
        found = find_table(ask, self.table, self.source)
        if found != self.found and self._identity(found) != self._identity(self.found):
            raise OperationalError(self._changes(found))
        self.check_facts(found)

    @property
    def lockable(self) -> bool:
        """Whether PostgreSQL locks it: materialized views it does not."""
        return self.found.relation_kind != "m"

    def _changes(self, found: CatalogTable) -> str:
        """Say what is not as it was when the table was opened, in names of the policy."""
        now = {c.name.lower(): c for c in found.columns}
        for name, _ in self.columns:
            then = next(c for c in self.found.columns if c.name.lower() == name.lower())
            there = now.get(name.lower())
            if there is None:
                return f"table {self.table.name}: its column {name} is gone since it was opened"
            if replace(there, name=then.name) != then:
                return f"table {self.table.name}: its column {name} was altered since it was opened"
        return f"table {self.table.name} was replaced or altered since it was opened"

    def _identity(self, found: CatalogTable) -> tuple[object, ...]:
        names = {name.lower() for name, _ in self.columns}
        read = tuple(c for c in found.columns if c.name.lower() in names)
        return found.oid, found.text, found.relation_kind, found.children, found.definition, read

    def check_facts(self, found: CatalogTable) -> None:
        """Raise `PolicyError` unless an index of the server enforces each declared unique fact."""
        declared = {name.lower(): sql_type for name, sql_type in self.columns}
        seen = {c.name.lower(): c for c in found.columns}
        # Rows whose unit is NULL are not read.
        unit = self.table.unit.column.lower() if isinstance(self.table.unit, UnitColumn) else None
        for fact in self.table.unique:
            there = [seen[c.lower()] for c in fact]
            allowed = {
                c.number
                for c in there
                if index_distinguishes(c, declared[c.name.lower()], c.name.lower() == unit)
            }
            never_null = {c.number for c in there if c.never_null or c.name.lower() == unit}
            if found.children or not any(
                numbers <= allowed and (equal or numbers <= never_null) for numbers, equal in found.indexes
            ):
                listed = ", ".join(fact)
                raise PolicyError(
                    f"tables.{self.table.name}.unique: no index of PostgreSQL keeps ({listed}) unique",
                    hint=f"CREATE UNIQUE INDEX ON {self.name} ({listed}) and NOT NULL on each, of "
                    "whole numbers, NUMERICs, texts, booleans or UUIDs declared with their own types, in a "
                    "table without partitions; or leave the fact out",
                )


def raise_if_changed(guards: Iterable[PostgresGuard], ask: CatalogQuery) -> None:
    """Raise `OperationalError` in names of the policy if a table was altered, or may not be read any more."""
    for guard in guards:
        try:
            guard.check(ask)
        except (PolicyError, OperationalError) as problem:
            mend = getattr(problem, "hint", None) or "the owner runs `dpsql check`"
            raise OperationalError(f"{getattr(problem, 'message', problem)} ({mend})") from None
