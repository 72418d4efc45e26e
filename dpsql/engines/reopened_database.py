"""A DuckDB database of public data, which is opened again after an error that leaves it unusable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from dpsql.engines.duckdb import settings
from dpsql.engines.protocol import UNCHARGED
from dpsql.engines.worker import running_statement
from dpsql.kernel.charged_work import Cancelled

_Result = TypeVar("_Result")
_FATAL = (duckdb.FatalException, duckdb.InternalException)
"""Errors after which the engine runs nothing more on a database."""


class ReopenedDatabase:
    """Runs queries on a database, each on a cursor of its own; after a fatal error it opens another one."""

    def __init__(self, open_database: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._open = open_database
        self._reopening = threading.Lock()
        self._arrow_types: dict[str, pa.DataType] = {}
        self.connection = open_database()
        """The database that is used now."""

    def close(self) -> None:
        """Close the database."""
        self.connection.close()

    def run(self, work: Callable[[duckdb.DuckDBPyConnection], _Result], message: str) -> _Result | None:
        """Run work on a new cursor; return its result, or None if it failed; `Cancelled` has the message."""
        used, broken = self.connection, list[duckdb.DuckDBPyConnection]()

        def watched(cursor: duckdb.DuckDBPyConnection) -> _Result:
            try:
                return work(cursor)
            except _FATAL:
                broken.append(used)
                raise

        try:
            return settings.run_on_cursor(lambda: used, watched, message)
        finally:
            for each in broken:
                self._open_again(each)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query; `ValueError` if it fails."""
        for _ in range(2):  # once more where a query of somebody else broke the database
            used = self.connection
            try:
                return _fetch_on(used, sql)
            except _FATAL:
                pass
            self._open_again(used)
        raise ValueError("does not bind")

    def _open_again(self, broken: duckdb.DuckDBPyConnection) -> None:
        """Open a new database if this one is still used."""
        with self._reopening:
            if self.connection is broken:
                self.connection = self._open()

    def arrow_type(self, sql_type: str) -> pa.DataType:
        """Return the Arrow type of the engine's results of an SQL type."""
        if sql_type not in self._arrow_types:
            with self.connection.cursor() as cursor:
                return self._arrow_type(cursor, sql_type)
        return self._arrow_types[sql_type]

    def arrow_schema(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> pa.Schema:
        """Return the Arrow schema of a query, which is bound and not run."""
        found = cursor.sql(sql)
        types = [self._arrow_type(cursor, str(kind)) for kind in found.types]
        return pa.schema(zip(found.columns, types, strict=True))

    def _arrow_type(self, cursor: duckdb.DuckDBPyConnection, sql_type: str) -> pa.DataType:
        if sql_type not in self._arrow_types:
            empty = cursor.sql(f"SELECT CAST(NULL AS {sql_type}) AS x LIMIT 0").to_arrow_table()
            self._arrow_types[sql_type] = empty.schema.field(0).type
        return self._arrow_types[sql_type]


def _fetch_on(used: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    failed = cancelled = False
    with running_statement() as statement, used.cursor() as cursor:
        try:
            with settings.interruptible(), statement.stopped_by(lambda: settings.interrupt(cursor)):
                statement.check()
                return cursor.execute(sql).fetchall()
        except duckdb.InterruptException:
            cancelled = True
        except _FATAL:
            raise
        except (duckdb.Error, RuntimeError):  # DuckDB raises some faults as RuntimeError
            failed = True
    if cancelled:
        raise Cancelled(UNCHARGED)
    if failed:
        raise ValueError("does not bind")
    return []
