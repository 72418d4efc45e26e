"""Introspection of sources, for the owner who writes a policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dpsql.engines.duckdb.schema import AskFormat, Found, introspect
from dpsql.errors import PolicyError
from dpsql.owner.engines import Skipped, introspect_engine, of_engine, split_engine
from dpsql.policy import ParquetSource, files_of, fold, split_pattern

_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)


def introspect_sources(
    sources: Iterable[str | Path],
    ask: AskFormat = lambda name, form: form,
    wanted: Sequence[str] = (),
    on_skipped: Callable[[Skipped], None] = lambda skipped: None,
) -> list[Found]:
    """Return the tables that files, a DuckDB database, PostgreSQL or Spark declare; reads no row.

    A source may be a folder or a pattern, whose files are one table; `NAME=SOURCE` calls that table NAME.
    `ask` decides how CSV files are written. `wanted` names tables of an engine; `on_skipped` is told of those
    that no policy can declare.

    Raises `PolicyError` for a file that cannot be read, for a second database, and for two tables that would
    have one name.
    """
    address, paths = split_engine(sources)
    found = introspect_engine(address, wanted, on_skipped) if address else []
    files = [table for source in paths for table in _named(source, ask)]
    found += [of_engine(table, address) for table in files] if address else files
    if not found:
        hint = None if address else "views are not read"
        raise PolicyError("the database has no tables that a policy can declare", hint=hint)
    if len({table.database for table in found if table.database is not None}) > 1:
        raise PolicyError("a policy has one database", hint="copy the other one's tables to Parquet files")
    first: dict[str, str] = {}
    for table in found:
        name = fold(table.name)
        if name in first:
            hint = f"call one of them otherwise: {_other_name(table, found)}={table.source}"
            raise PolicyError(
                f"{first[name]} and {table.source} would both be table {table.name}",
                hint=hint
                if table.database is None and not table.engine
                else f"call the file otherwise: NAME={first[name]}",
            )
        first[name] = table.source
    return found


def _named(source: str, ask: AskFormat) -> list[Found]:
    """Return the tables of a source; a file or a pattern may be called otherwise, as in `NAME=SOURCE`."""
    given = _NAMED.fullmatch(source)
    if given is None or any(
        path.exists() for path in files_of(ParquetSource(*split_pattern(source, Path())))
    ):
        return introspect(Path(source), ask)  # a folder's name may look like that, as of a partition
    name, path = given.groups()
    found = introspect(Path(path), lambda _, form: ask(name, form))
    if len(found) != 1 or found[0].database is not None:
        raise PolicyError(f"{source}: only files are called otherwise, not the tables of a database")
    return [replace(found[0], name=name)]


def _other_name(table: Found, found: list[Found]) -> str:
    """Return a name that no table has: that of the file's folder before its own."""
    folder = re.sub(r"[^A-Za-z0-9_]+", "_", Path(table.source).absolute().parent.name).strip("_")
    base = f"{folder}_{table.name}" if folder[:1].isalpha() else f"{table.name}_2"
    taken, name, number = {fold(each.name) for each in found}, base, 1
    while fold(name) in taken:
        number += 1
        name = f"{base}_{number}"
    return name
