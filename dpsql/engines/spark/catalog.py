"""Finds a declared table in Spark's catalog, or a Parquet file."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dpsql.engines.spark.dialect import SparkDialect
from dpsql.errors import PolicyError
from dpsql.policy import DatabaseSource, ParquetSource, Table

_FORMATS = frozenset({"parquet", "orc", "delta", "iceberg"})
_SERDES = frozenset(
    {
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
        "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    }
)
"""Formats with typed columns, in which no row can make the others unreadable."""


def find_table(session: Any, table: Table, view: str) -> tuple[str, Any]:  # noqa: ANN401  two classes of sessions
    """Find a table or Parquet file; return the name to read it by, and its schema. No row is read."""
    source, found, typed = table.source, None, True
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
                typed = _has_typed_format(session, name)
    if found is None:
        raise PolicyError(
            f"tables.{table.name}.source: Spark has no such table",
            hint="views are not read: a view could mix the rows of several units",
        )
    if not (typed or table.public):
        raise PolicyError(
            f"tables.{table.name}.source: the table is not stored as Parquet, ORC, Delta or Iceberg",
            hint="copy it into one that is: a single line of a text file can make all rows unreadable, "
            "and a table of another database may be a view there",
        )
    return found


def _has_typed_format(session: Any, name: str) -> bool:  # noqa: ANN401  two classes of sessions
    """Whether a table is stored in a listed format; False where the catalog does not say."""
    described = [(row[0], row[1]) for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    # The columns come first, and may have any name.
    heads = (i for i, (what, _) in enumerate(described) if what.startswith("# Detailed Table"))
    start = max(heads, default=-1)
    details = dict(described[start + 1 :]) if start >= 0 else {}
    provider = str(details.get("Provider", "")).lower()
    return provider in _FORMATS or (provider == "hive" and details.get("Serde Library") in _SERDES)
