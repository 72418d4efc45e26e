"""What PostgreSQL's catalog says of a table, and the scan that reads it with canonical values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.engines.postgres.dialect import PostgresDialect, text
from dpsql.engines.translate.value import Column, Untranslatable, Value
from dpsql.errors import PolicyError
from dpsql.types import BOOLEAN, DATE, DOUBLE, TIME, TIMESTAMP, UUID, VARCHAR, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.policy import DatabaseSource, Table

__all__ = ["Physical", "look_up", "scan"]

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
    "jsonb": "JSON",
}
_FIRST, _LAST = "0001-01-01", "9999-12-31"


@dataclass(frozen=True, slots=True)
class Physical:
    """A table as the catalog has it: its quoted name, and name, type and DuckDB's word of each column."""

    name: str
    columns: tuple[tuple[str, str, str], ...]


def look_up(ask: Callable[[str], list[tuple[object, ...]]], table: Table, source: DatabaseSource) -> Physical:
    """Find an ordinary (or partitioned) table by its name."""
    schema = source.schema or "public"
    where = f"lower(n.nspname) = lower({text(schema)}) AND lower(c.relname) = lower({text(source.table)})"
    found = ask(
        "SELECT n.nspname::text, c.relname::text, c.oid::bigint FROM pg_class c JOIN pg_namespace n "
        f"ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND {where}"
    )
    if len(found) != 1:
        raise PolicyError(
            f"tables.{table.name}.source: the database has no table {schema}.{source.table}",
            hint="views are not read: a view could mix the rows of several units",
        )
    rows = ask(
        "SELECT a.attname::text, t.typname::text, a.atttypmod::bigint, (n.nspname = 'pg_catalog') "
        "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "JOIN pg_namespace n ON n.oid = t.typnamespace "
        f"WHERE a.attrelid = {found[0][2]} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    name = ".".join('"' + str(part).replace('"', '""') + '"' for part in found[0][:2])
    columns = tuple((str(n), str(k), _word(str(k), int(str(m)), bool(own))) for n, k, m, own in rows)
    return Physical(name, columns)


def _word(kind: str, modifier: int, builtin: bool) -> str:
    if kind == "numeric" and builtin:
        packed = modifier - 4
        scale = ((packed & 0x7FF) ^ 1024) - 1024
        if modifier < 4 or scale < 0:
            return "DECIMAL(38,10)"  # anything goes: the owner says which digits count
        return f"DECIMAL({(packed >> 16) & 0xFFFF},{scale})"
    return _TYPES.get(kind, kind.upper()) if builtin else kind.upper()


def scan(
    table: Table, physical: Physical, columns: tuple[tuple[str, SqlType], ...]
) -> tuple[str, dict[str, Column]]:
    """Write the SELECT that reads the declared columns, each canonical and of its declared type."""
    dialect = PostgresDialect({})
    there = {name.lower(): (name, kind, word) for name, kind, word in physical.columns}
    cells, found = [], {}
    for i, (name, kind) in enumerate(columns):
        try:
            value = _cell(dialect, *there[name.lower()], kind)
        except Untranslatable as problem:
            raise PolicyError(
                f"tables.{table.name}: column {name} is not read as {kind}: {problem.message}",
                hint=f"leave it out of [tables.{table.name}.columns], or convert it in the database",
            ) from None
        cells.append(f"{value.sql} AS x{i}")
        found[name] = Column(f"x{i}", kind, value.spread)
    return f"(SELECT {', '.join(cells)} FROM {physical.name} AS r)", found


def _cell(dialect: PostgresDialect, name: str, physical: str, word: str, kind: SqlType) -> Value:
    cell = f"r.{dialect.quote(name)}"
    if kind.name in ("LIST", "STRUCT", "ENUM", "BLOB"):
        raise Untranslatable(f"values of type {kind.name} stay in DuckDB")
    match physical:
        case "int2" | "int4" | "int8":
            value = Value(f"CAST({cell} AS bigint)", SqlType(word))
        case "float4" | "float8":
            value = dialect.canonical(Value(f"CAST({cell} AS float8)", DOUBLE))
        case "numeric":
            scale = min(int(word[8:-1].split(",")[1]), 18)
            value = Value(cell, SqlType("DECIMAL", 38, scale))
            if kind.name == "DECIMAL":
                return Value(f"({dialect.decimal(cell, kind)})", kind)
        case "bool":
            value = Value(cell, BOOLEAN)
        case "text" | "varchar" | "bpchar" | "json" | "jsonb":
            value = Value(f'(CAST({cell} AS text) COLLATE "C")', VARCHAR)
        case "date":
            value = _dated(cell, "date", DATE)
        case "timestamp":
            value = _dated(cell, "timestamp", TIMESTAMP)
        case "timestamptz":
            value = _dated(f"({cell} AT TIME ZONE 'UTC')", "timestamp", TIMESTAMP)
        case "time":
            value = Value(cell, TIME)
        case "uuid":
            value = Value(cell, UUID)
        case _:
            raise Untranslatable(f"columns of type {physical} are not read")
    return value if value.type == kind else dialect.cast(value, kind)


def _dated(cell: str, kind: str, of: SqlType) -> Value:
    """Read what lies outside the years 1 to 9999 as NULL, infinities too: engines differ there."""
    last = _LAST if kind == "date" else f"{_LAST} 23:59:59.999999"
    sql = f"(CASE WHEN {cell} BETWEEN {kind} '{_FIRST}' AND {kind} '{last}' THEN {cell} END)"
    return Value(sql, of, (1, 9999))
