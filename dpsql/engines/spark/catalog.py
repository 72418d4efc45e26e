"""Finds a declared table in Spark's catalog, or a Parquet file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

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


def find_table(
    session: Any,  # noqa: ANN401  two classes of sessions
    table: Table,
    temporary: str,
    on_error: Callable[[BaseException], None] = lambda problem: None,
) -> tuple[str, Any]:
    """Find a table or Parquet file; return the name to read it by, and its schema. No row is read.

    The files of a table are listed again, and so are those that are read by the name from now on. A Parquet
    file is read by the name `temporary`. `on_error` is called with Spark's error, for the owner alone.
    """
    source, found, typed, view, there = table.source, None, True, False, False
    try:
        if isinstance(source, ParquetSource):
            frame = session.read.parquet(str(source.path))
            frame.createOrReplaceTempView(temporary)
            found = (SparkDialect({}).quote(temporary), frame.schema)
        elif isinstance(source, DatabaseSource):
            quote = SparkDialect({}).quote
            name = f"{quote(source.schema or 'default')}.{quote(source.table)}"
            entry = session.catalog.getTable(name)
            there = not entry.isTemporary
            view = entry.tableType == "VIEW" and not entry.isTemporary
            if view and table.stable:
                found = (name, session.table(name).schema)
            if not view and entry.tableType in ("MANAGED", "EXTERNAL") and not entry.isTemporary:
                session.catalog.refreshTable(name)
                found = (name, session.table(name).schema)
                typed = _has_typed_format(session, name)
    except Exception as problem:  # noqa: BLE001  its text may have paths
        on_error(problem)
    if view and found is None:
        raise PolicyError(
            f"tables.{table.name}.source: {name} is a view, which could mix the rows of several units",
            hint="if each of its rows comes from rows of one unit, and reading it never fails: stable = true",
        )
    if found is None and (there or isinstance(source, ParquetSource)):
        raise PolicyError(
            f"tables.{table.name}.source: cannot be read by Spark",
            hint="is a file of it damaged, gone, or no Parquet? `dpsql check` says what Spark says",
        )
    if found is None:
        raise PolicyError(
            f"tables.{table.name}.source: Spark has no such table",
            hint="`dpsql init` lists the tables of its catalog",
        )
    if table.stable and not view:
        raise PolicyError(f"tables.{table.name}.stable: {found[0]} is no view", hint="leave it out")
    if not (typed or table.public):
        raise PolicyError(
            f"tables.{table.name}.source: the table is not stored as Parquet, ORC, Delta or Iceberg",
            hint="copy it into one that is: a single line of a text file can make all rows unreadable, "
            "and a table of another database may be a view there",
        )
    return found


def files_of(session: Any, name: str) -> tuple[tuple[object, ...], ...]:  # noqa: ANN401  two classes of sessions
    """Return the files of a table as they are listed, with the sizes and times of those of this machine."""
    found: list[tuple[object, ...]] = []
    for address in sorted(session.table(name).inputFiles()):
        parts = urlsplit(address)
        stamp: tuple[object, ...] = ()
        if parts.scheme in ("", "file"):
            with suppress(OSError):
                stat = Path(unquote(parts.path)).stat()
                stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        found.append((address, *stamp))
    return tuple(found)


def identity(session: Any, name: str) -> tuple[object, ...]:  # noqa: ANN401  two classes of sessions
    """Return what stays of a table when its rows change: its place, and when it was made."""
    details = _details(session, name)
    words = ("Type", "Provider", "Location", "Created Time", "View Text")
    return tuple(details.get(word) for word in words)


def _has_typed_format(session: Any, name: str) -> bool:  # noqa: ANN401  two classes of sessions
    """Whether a table is stored in a listed format; False where the catalog does not say."""
    details = _details(session, name)
    provider = str(details.get("Provider", "")).lower()
    return provider in _FORMATS or (provider == "hive" and details.get("Serde Library") in _SERDES)


def _details(session: Any, name: str) -> dict[str, str]:  # noqa: ANN401  two classes of sessions
    """Return what the catalog says of a table besides its columns."""
    described = [(row[0], row[1]) for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    # The columns come first, and may have any name.
    heads = (i for i, (what, _) in enumerate(described) if what.startswith("# Detailed Table"))
    start = max(heads, default=-1)
    return dict(described[start + 1 :]) if start >= 0 else {}
