"""Why sources cannot be opened, in the engine's own words: for the owner alone.

The engine that answers analysts keeps no words of an error. Here the sources are opened once more, in a
database of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb

from dpsql.engines.duckdb import settings
from dpsql.engines.duckdb.csv_source import csv_header, text
from dpsql.engines.duckdb.csv_text import in_utf8
from dpsql.engines.duckdb.engine_words import engine_words
from dpsql.engines.duckdb.file_scans import scan_files
from dpsql.engines.duckdb.file_types import difference
from dpsql.errors import PolicyError
from dpsql.policy import CsvSource, DatabaseSource, ParquetSource, Policy, Table, files_of, fold


def opening_errors(policy: Policy) -> list[tuple[str, str]]:
    """Return the places of the policy that cannot be opened, with the reasons; no row is read."""
    found = []
    with (
        settings.interruptible(),
        settings.connect() as connection,
        tempfile.TemporaryDirectory() as folder,
    ):
        if policy.database is not None:
            words = _words(connection, f"ATTACH {text(policy.database)} AS own (READ_ONLY)")
            if words is not None:
                found.append(("database.path", words))
        for table in policy.tables.values():
            if isinstance(table.source, DatabaseSource):
                continue
            try:
                words = _words(connection, f"DESCRIBE SELECT * FROM {scan_files(table, Path(folder)).sql}")
                words = words or _types(connection, table)
            except PolicyError:
                words = _headers(table, Path(folder))
            if words is not None:
                found.append((table.place("source"), words))
    return found


def _words(connection: duckdb.DuckDBPyConnection, sql: str) -> str | None:
    try:
        connection.execute(sql)
    except duckdb.Error as problem:
        return engine_words(problem)
    return None


def _types(connection: duckdb.DuckDBPyConnection, table: Table) -> str | None:
    """Name two Parquet files of a table of which one holds a column with a type that loses values."""
    if not isinstance(table.source, ParquetSource):
        return None
    columns = None if table.columns is None else [fold(name) for name in table.columns]
    try:
        found = difference(connection, files_of(table.source), columns)
    except duckdb.Error as problem:
        return engine_words(problem)
    return None if found is None else str(found)


def _headers(table: Table, folder: Path) -> str | None:
    """Name the first file of a table whose header differs from that of the others, or cannot be read."""
    if not isinstance(table.source, CsvSource):
        return None
    first = None
    for file in files_of(table.source):
        try:
            header = csv_header(table, in_utf8(table.source, file, folder))
        except OSError as problem:
            return f"{file}: {problem.strerror}"
        except PolicyError:
            return None
        first = header if first is None else first
        if header != first:
            return f"{file} has the columns {', '.join(header)}; the first file has {', '.join(first)}"
    return None
