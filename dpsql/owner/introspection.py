"""Introspection of sources, for the owner who writes a policy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dpsql.engines.duckdb.schema import AskFormat, Found, introspect
from dpsql.errors import PolicyError
from dpsql.policy import fold


def introspect_sources(
    sources: Iterable[str | Path], ask: AskFormat = lambda name, form: form
) -> list[Found]:
    """Return the tables that Parquet files, CSV files and a DuckDB database declare; reads no row.

    A source may be a folder or a pattern, whose files are one table. `ask` decides how CSV files are written.

    Raises `PolicyError` for a file that cannot be read, for a second database, and for two tables that would
    have one name.
    """
    found = [table for source in sources for table in introspect(Path(source), ask)]
    if not found:
        raise PolicyError("the database has no tables", hint="views are not read")
    if len({table.database for table in found if table.database is not None}) > 1:
        raise PolicyError("a policy has one database", hint="copy the other one's tables to Parquet files")
    first: dict[str, str] = {}
    for table in found:
        name = fold(table.name)
        if name in first:
            raise PolicyError(f"{first[name]} and {table.source} would both be table {table.name}")
        first[name] = table.source
    return found
