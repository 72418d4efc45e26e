"""Readers of declared tables: the physical schema, and the SELECT that converts to the declared types."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from dpsql.analysis import fold, quote
from dpsql.engines.duckdb.csv_source import csv_header, csv_scan
from dpsql.engines.duckdb.lengths import limit_lengths, over_limit_conditions
from dpsql.errors import PolicyError
from dpsql.policy import CsvSource, DatabaseSource, ParquetSource, Policy, Table, UnitColumn
from dpsql.types import DOUBLE, VARCHAR, SqlType, column_type


@dataclass(frozen=True, slots=True)
class Reader:
    """The declared columns of a table, and the SELECT over its source that reads them."""

    table: Table
    columns: tuple[tuple[str, SqlType], ...]
    sql: str
    paths: tuple[Path, ...]
    converted: bool = True
    """Whether a column is converted when it is read: its values are computed, not only stored."""
    unlimited_sql: str = ""
    """The SELECT without the length limit, for tables that were found to have no value beyond it."""
    over_limit: Mapping[str, str] = field(default_factory=dict)
    """For each column with a limit, the condition over `unlimited_sql` that its value exceeds it."""


def read_sources(
    connection: duckdb.DuckDBPyConnection, policy: Policy, catalog: str | None
) -> dict[str, Reader]:
    """Read the schema of every source (never its rows), and write the SELECT of every table.

    `catalog` is the generated name under which the owner's database is attached.
    """
    tables, longest = policy.tables.values(), policy.longest_value
    return {table.name: read_source(connection, table, catalog, longest) for table in tables}


def read_source(
    connection: duckdb.DuckDBPyConnection, table: Table, catalog: str | None, longest: int
) -> Reader:
    """Read one source's schema and write its SELECT; private values beyond `longest` bytes are NULL."""
    collated = False
    path = getattr(table.source, "path", None)
    if path is not None and any(c in str(path) for c in "*?["):
        raise PolicyError(
            f"tables.{table.name}.source: its path contains * ? or [, which match several files"
        )
    if path is not None and str(path).endswith((".gz", ".zst", ".bz2")):
        raise PolicyError(
            f"tables.{table.name}.source: compressed text is not read", hint="decompress it, or use Parquet"
        )
    match table.source:
        case ParquetSource(path=path):
            scan, physical = f"read_parquet({_text(path)})", None
            paths: tuple[Path, ...] = (Path(path),)
        case CsvSource(path=path):
            header = csv_header(table, Path(path))
            scan, physical = csv_scan(table, Path(path), header), [(name, "VARCHAR") for name in header]
            paths = (Path(path),)
        case DatabaseSource(schema=schema, table=name):
            scan, physical = _attached(connection, table, catalog, schema or "main", name), None
            collated = _has_collation(connection, catalog)
            paths = ()
        case _:
            raise PolicyError(f"tables.{table.name}.source: unknown kind of source")
    if physical is None:
        physical = _describe(connection, table, scan)
    columns = declared_columns(table, physical)
    where = {fold(name): (name, sql_type) for name, sql_type in physical}
    if collated and any(_contains_type(sql_type, "VARCHAR") for _, sql_type in columns):
        raise PolicyError(f"tables.{table.name}: lists of texts with a collation are not supported")
    listed = ", ".join(
        _cell(*where[fold(name)], sql_type, collated=collated) + f" AS {quote(name)}"
        for name, sql_type in columns
    )
    converted = "(" in listed or "COLLATE" in listed or _has_generated_column(connection, table, catalog)
    unlimited_sql = f"SELECT {listed} FROM {scan}"
    sql = limit_lengths(table, columns, unlimited_sql, longest)
    return Reader(
        table, columns, sql, paths, converted, unlimited_sql, over_limit_conditions(table, columns, longest)
    )


def _text(path: object) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _attached(
    connection: duckdb.DuckDBPyConnection, table: Table, catalog: str | None, schema: str, name: str
) -> str:
    if catalog is None:
        raise PolicyError(f"tables.{table.name}.source: a table of the database needs [database] path")
    found = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? "
        "AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?) AND NOT temporary",
        [catalog, schema, name],
    ).fetchall()
    if len(found) != 1:
        raise PolicyError(
            f"tables.{table.name}.source: the database has no table {schema}.{name}",
            hint="views are not read: a view could mix the rows of several units",
        )
    return f"{catalog}.{quote(found[0][0])}.{quote(found[0][1])}"


def _has_collation(connection: duckdb.DuckDBPyConnection, catalog: str | None) -> bool:
    """Whether any table of the database has a collation, under which equal texts may differ."""
    return any("collate" in text for _, text in _definitions(connection, catalog))


def _definitions(connection: duckdb.DuckDBPyConnection, catalog: str | None) -> list[tuple[str, str]]:
    """Return the name and CREATE statement of each table of the owner's database, in lower case."""
    return connection.execute(
        "SELECT lower(table_name), lower(coalesce(sql, '')) FROM duckdb_tables() WHERE database_name = ?",
        [catalog],
    ).fetchall()


def _has_generated_column(connection: duckdb.DuckDBPyConnection, table: Table, catalog: str | None) -> bool:
    """Whether the table has a generated column, which is computed when it is read."""
    if not isinstance(table.source, DatabaseSource):
        return False
    mine = [text for name, text in _definitions(connection, catalog) if name == table.source.table.lower()]
    return not mine or any("generated" in text for text in mine)


def _describe(connection: duckdb.DuckDBPyConnection, table: Table, scan: str) -> list[tuple[str, str]]:
    with suppress(duckdb.Error):
        return [row[:2] for row in connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()]
    raise PolicyError(f"tables.{table.name}.source: cannot be read", hint="is it a Parquet file?")


def declared_columns(table: Table, physical: list[tuple[str, str]]) -> tuple[tuple[str, SqlType], ...]:
    """Return a table's columns as declared, or else those of its source (`physical`: names and types)."""
    there = {fold(name): name for name, _ in physical}
    if len(there) != len(physical):
        raise PolicyError(f"tables.{table.name}.source: two columns have the same name")
    if table.columns is not None:
        for name in table.columns:
            if fold(name) not in there:
                raise PolicyError(
                    f"tables.{table.name}.columns.{name}: the source has no such column",
                    hint="its columns are " + ", ".join(name for name, _ in physical)[:200],
                )
        columns = tuple((name, sql_type) for name, sql_type in table.columns.items())
    else:
        derived = []
        for name, text in physical:
            try:
                derived.append((name, column_type(text)))
            except ValueError as error:
                raise PolicyError(
                    f"tables.{table.name}: column {name}: {error}",
                    hint=f"declare [tables.{table.name}.columns] with the columns to show",
                ) from None
        columns = tuple(derived)
    columns = tuple((name, _shown_type(table, name, sql_type)) for name, sql_type in columns)
    _check_names(table, {fold(name): sql_type for name, sql_type in columns})
    return columns


def _shown_type(table: Table, name: str, sql_type: SqlType) -> SqlType:
    """Return the type under which analysts see a column; refuse types that cannot be made canonical."""
    if sql_type.name in ("LIST", "STRUCT"):
        # Timestamps within lists are not checked for validity.
        for inner in ("DOUBLE", "ENUM", *(() if table.public else ("TIMESTAMP",))):
            if _contains_type(sql_type, inner):
                raise PolicyError(
                    f"tables.{table.name}: column {name} is a {sql_type.name} of {inner}, "
                    "which is not supported",
                    hint=f"declare [tables.{table.name}.columns] without it, or with VARCHAR items",
                )
    if sql_type.name == "ENUM" and not table.public and fold(name) not in {fold(c) for c in table.domain}:
        return VARCHAR  # its dictionary comes from the data and is not declared public
    return sql_type


def _contains_type(sql_type: SqlType, name: str) -> bool:
    inner = [sql_type.item] if sql_type.item is not None else [field for _, field in sql_type.fields]
    return any(i.name == name or _contains_type(i, name) for i in inner)


def _check_names(table: Table, types: dict[str, SqlType]) -> None:
    """Check the columns that the policy names against the schema, for types that it does not declare."""
    named = [*(c for fact in table.unique for c in fact), *table.domain]
    if isinstance(table.unit, UnitColumn):
        named.append(table.unit.column)
        sql_type = types.get(fold(table.unit.column))
        if sql_type is not None and not (sql_type.integer or sql_type.name in ("VARCHAR", "UUID", "DATE")):
            raise PolicyError(
                f"tables.{table.name}.unit: a unit column is an integer, VARCHAR, UUID or DATE, "
                f"not {sql_type}"
            )
    for name in named:
        if fold(name) not in types:
            raise PolicyError(
                f"tables.{table.name}: there is no column {name}",
                hint="columns are " + ", ".join(types)[:200],
            )


def _parse_type(text: str) -> SqlType | None:
    """Parse a physical type; None if it is not supported."""
    try:
        return column_type(text)
    except ValueError:
        return None


def _cell(name: str, physical: str, sql_type: SqlType, *, collated: bool) -> str:
    """Write the conversion of a column to its declared type, canonical where equal values could differ."""
    cell = quote(name)
    if collated and _parse_type(physical) == VARCHAR:
        cell = f'({cell} COLLATE "C")'
    same = _parse_type(physical) == sql_type and physical.upper() not in ("FLOAT", "REAL")
    if not same:
        cell = f"TRY_CAST({cell} AS {sql_type})"
    if sql_type == DOUBLE:
        cell = f"CASE WHEN isnan({cell}) THEN CAST('nan' AS DOUBLE) ELSE {cell} + 0.0 END"
    return cell
