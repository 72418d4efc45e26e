"""Reads the schema of a file or database: names, types and enforced keys; no row is read.

It serves the owner who writes a policy. A CSV file has names only, so the owner states the types: guessing
them would read rows, and the guess would appear in a public policy.
"""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from pathlib import Path

import duckdb

from dpsql.engines.duckdb import settings
from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.types import SqlType, column_type


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """One column of a source.

    `kind` is the type to declare: the source's own, a similar one if that is not supported, or None if there
    is none. `physical` is the source's own type, or None for CSV.
    """

    name: str
    kind: SqlType | None
    physical: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One table of a source.

    Attributes
    ----------
    name
        A plain name, derived from the name of the file or table.
    source
        The source as a policy names it: a file's path, or `schema.table` of the database.
    database
        The database of the table; None for files.
    columns
        In the source's order.
    unique
        Sets of columns that the database enforces to be unique and not NULL.
    parents
        Foreign keys of one column, each as column, parent's `source` and parent's column.
    """

    name: str
    source: str
    database: Path | None
    columns: tuple[FoundColumn, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    parents: tuple[tuple[str, str, str], ...] = ()


_DECLARABLE = {
    "HUGEINT": "BIGINT",
    "UHUGEINT": "BIGINT",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIME WITH TIME ZONE": "TIME",
    "JSON": "VARCHAR",
    "BIT": "VARCHAR",
    "INTERVAL": "VARCHAR",
}


def introspect(path: Path) -> list[Found]:
    """Return the tables of a Parquet file, a CSV file or a DuckDB database; raises `PolicyError`."""
    if not path.is_file():
        raise PolicyError(f"there is no file {path}")
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return [Found(_table_name(path.stem), str(path), None, _parquet(path))]
    if suffix == ".csv":
        return [Found(_table_name(path.stem), str(path), None, _csv(path))]
    return _database(path)


def _table_name(name: str) -> str:
    made = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "data"
    return f"t_{made}" if made[0].isdigit() else made


def _parquet(path: Path) -> tuple[FoundColumn, ...]:
    text = str(path).replace("'", "''")
    found: list[tuple[str, str]] | None = None
    if not any(character in text for character in "*?["):  # a pattern, which would match other files
        with settings.interruptible(), settings.connect() as connection, suppress(duckdb.Error):
            rows = connection.execute(f"DESCRIBE SELECT * FROM read_parquet('{text}')").fetchall()
            found = [(row[0], row[1]) for row in rows]
    if found is None:
        raise PolicyError(f"{path} cannot be read", hint="is it a Parquet file?")
    return tuple(FoundColumn(name, _declarable_type(physical), physical) for name, physical in found)


def _csv(path: Path) -> tuple[FoundColumn, ...]:
    try:
        with path.open("rb") as file:
            line = file.readline(1_000_000).decode("utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        raise PolicyError(f"{path} cannot be read", hint="is it UTF-8 text with a header line?") from None
    header = next(csv.reader([line]), [])
    if not header:
        raise PolicyError(f"{path} has no header line")
    return tuple(FoundColumn(name, SqlType("VARCHAR")) for name in header)


_COLUMNS = """
SELECT schema_name, table_name, column_name, data_type, is_nullable FROM duckdb_columns()
WHERE database_name = 'own' AND (schema_name, table_name) IN
  (SELECT (schema_name, table_name) FROM duckdb_tables() WHERE database_name = 'own' AND NOT temporary)
ORDER BY schema_name <> 'main', schema_name, table_name, column_index
"""
_KEYS = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table,
  referenced_column_names
FROM duckdb_constraints()
WHERE database_name = 'own' AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY')
ORDER BY ALL
"""


def _database(path: Path) -> list[Found]:
    rows, keys = None, []
    text = str(path).replace("'", "''")
    with settings.interruptible(), settings.connect() as connection, suppress(duckdb.Error):
        connection.execute(f"ATTACH '{text}' AS own (READ_ONLY)")
        keys = connection.execute(_KEYS).fetchall()
        rows = connection.execute(_COLUMNS).fetchall()
    if rows is None:
        raise PolicyError(f"{path} is not a readable Parquet file, CSV file or DuckDB database")
    columns: dict[tuple[str, str], list[FoundColumn]] = {}
    never_null = set()
    for schema, table, column, physical, nullable in rows:
        columns.setdefault((schema, table), []).append(
            FoundColumn(column, _declarable_type(physical), physical)
        )
        if not nullable:
            never_null.add((schema, table, column))
    unique: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    parents: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for schema, table, constraint, own, parent, theirs in keys:
        if constraint == "FOREIGN KEY" and len(own) == 1:
            parents.setdefault((schema, table), []).append(
                (own[0], _qualified_name(schema, parent), theirs[0])
            )
        elif constraint != "FOREIGN KEY" and all((schema, table, column) in never_null for column in own):
            # The database's UNIQUE allows two NULLs; dpsql's does not.
            unique.setdefault((schema, table), []).append(tuple(own))
    return [
        Found(
            name=_table_name(table if schema == "main" else f"{schema}_{table}"),
            source=_qualified_name(schema, table),
            database=path,
            columns=tuple(found),
            unique=tuple(dict.fromkeys(unique.get((schema, table), ()))),
            parents=tuple(parents.get((schema, table), ())),
        )
        for (schema, table), found in columns.items()
    ]


def _qualified_name(schema: str, table: str) -> str:
    parts = [table] if schema == "main" else [schema, table]
    plain = r"[A-Za-z_][A-Za-z0-9_]*"
    return ".".join(
        part if re.fullmatch(plain, part) else '"' + part.replace('"', '""') + '"' for part in parts
    )


def _declarable_type(text: str) -> SqlType | None:
    """Return the type to declare for a physical type; None if analysts cannot use its values."""
    wide = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", text)
    if wide and int(wide[1]) > 18:
        text = f"DECIMAL(18,{wide[2]})" if int(wide[2]) <= 18 else "DOUBLE"
    try:
        sql_type = column_type(_DECLARABLE.get(text, text))
    except ValueError:
        return None
    if sql_type.name == "ENUM":
        # Its values may come from the rows; the owner decides whether to declare them as a domain.
        return SqlType("VARCHAR")
    return None if _has_unsupported_parts(sql_type) else sql_type


def _has_unsupported_parts(sql_type: SqlType) -> bool:
    """Whether a type is a list or struct with parts that cannot be made canonical."""
    inner = [sql_type.item] if sql_type.item is not None else [field for _, field in sql_type.fields]
    return any(part.name in ("DOUBLE", "ENUM") or _has_unsupported_parts(part) for part in inner)
