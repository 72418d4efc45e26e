"""Finds a declared table in Spark's catalog, or a Parquet file."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpsql.engines.spark.dialect import SparkDialect
from dpsql.errors import PolicyError
from dpsql.policy import DatabaseSource, ParquetSource

if TYPE_CHECKING:
    from dpsql.policy import Table

__all__ = ["find_table"]


def find_table(session: Any, table: Table, view: str) -> tuple[str, Any]:  # noqa: ANN401  two classes of sessions
    """Find a table or Parquet file; return the name to read it by, and its schema. No row is read."""
    source, found = table.source, None
    with suppress(Exception):
        if isinstance(source, ParquetSource):
            frame = session.read.parquet(str(source.path))
            frame.createOrReplaceTempView(view)
            found = (SparkDialect({}).quote(view), frame.schema)
        elif isinstance(source, DatabaseSource):
            quote = SparkDialect({}).quote
            name = f"{quote(source.schema or 'default')}.{quote(source.table)}"
            entry = session.catalog.getTable(name)
            if entry.tableType in ("MANAGED", "EXTERNAL") and not entry.isTemporary:
                found = (name, session.table(name).schema)
    if found is None:
        raise PolicyError(
            f"tables.{table.name}.source: Spark has no such table",
            hint="views are not read: a view could mix the rows of several units",
        )
    return found
