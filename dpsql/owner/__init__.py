"""The owner's tools: introspection of sources, and verification of a policy against its data.

`introspect_sources` returns the tables of files, a DuckDB database or another engine, and reads no row.
`verify` reports exact private facts: it is for the owner alone. Nothing that an analyst can reach calls it.
``verifying``, ``stored_values``, ``units``, ``declared_facts`` and ``findings`` belong to it.
``ladder_releases`` charges, measures and keeps ladders, ``ladder_listing`` tells what they say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from dpsql.engines import engine_notice, owner_tools
from dpsql.engines.duckdb.source_schemas import AskFormat, Found, FoundColumn, Skipped, introspect
from dpsql.errors import PolicyError
from dpsql.lazy_pattern import lazy_pattern
from dpsql.owner.findings import Finding, Report
from dpsql.owner.verifying import verify
from dpsql.policy import ParquetSource, engine_kind, files_of, fold, split_pattern
from dpsql.policy.names import check_engine

_NAMED = lazy_pattern(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)
_SHORT = {"postgres": "postgresql://", "postgresql": "postgresql://"}


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
    address, paths = _split_engine(sources)
    found = _introspect_engine(address, wanted, on_skipped) if address else []
    files = [table for source in paths for table in _introspect_files(source, ask)]
    found += [_adapt_to_engine(table, address) for table in files] if address else files
    if not found:
        hint = None if address else "views are not read"
        raise PolicyError("the database has no tables that a policy can declare", hint=hint)
    if len({table.database for table in found if table.database is not None}) > 1:
        raise PolicyError("a policy has one database", hint="copy the other one's tables to Parquet files")
    first: dict[str, str] = {}
    for table in found:
        name = fold(table.name)
        if name in first:
            hint = f"call one of them otherwise: {_find_free_name(table, found)}={table.source}"
            raise PolicyError(
                f"{first[name]} and {table.source} would both be table {table.name}",
                hint=hint
                if table.database is None and not table.engine
                else f"call the file otherwise: NAME={first[name]}",
            )
        first[name] = table.source
    return found


def _introspect_files(source: str, ask: AskFormat) -> list[Found]:
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


def _find_free_name(table: Found, found: list[Found]) -> str:
    """Return a name that no table has: the name of the file's folder before the file's own."""
    folder = re.sub(r"[^A-Za-z0-9_]+", "_", Path(table.source).absolute().parent.name).strip("_")
    base = f"{folder}_{table.name}" if folder[:1].isalpha() else f"{table.name}_2"
    taken, name, number = {fold(each.name) for each in found}, base, 1
    while fold(name) in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def _split_engine(sources: Iterable[str | Path]) -> tuple[str, list[str]]:
    """Return the address of the engine that sources name, if any, and the others.

    >>> _split_engine(["postgres", "regions.parquet"])
    ('postgresql://', ['regions.parquet'])
    """
    engines, others = [], []
    for source in map(str, sources):
        address = _SHORT.get(source, source)
        if engine_kind(address) not in ("", "duckdb") and not Path(source).exists():
            engines.append(address)
        else:
            others.append(source)
    if len(engines) > 1:
        raise PolicyError("a policy has one engine", hint="write one policy for each")
    return (engines[0] if engines else ""), others


def _introspect_engine(
    address: str, wanted: Sequence[str], on_skipped: Callable[[Skipped], None]
) -> list[Found]:
    """Return the tables of an engine that a policy can declare; no row is read.

    `wanted` are names or patterns, `[SCHEMA.]TABLE`. Raises `PolicyError` with the engine's own words, and
    for a name that matches nothing.
    """
    check_engine(address, None, 1)
    used: set[str] = set()

    def want(schema: str, name: str) -> bool | None:
        """Whether a table is wanted: True if it was named, None if all or a pattern's tables are."""
        whole = f"{schema}.{name}"
        best: bool | None = False
        for each in wanted:
            pattern = each if "." in each else f"*.{each}"
            if fnmatchcase(fold(whole), fold(pattern)):
                used.add(each)
                best = (best or None) if "*" in each else True
                if best:
                    break
        return None if not wanted else best

    found, skipped = owner_tools(address).introspect(want)
    if missing := [each for each in wanted if each not in used]:
        names = ", ".join(table.source for table in found) or "none that can be declared"
        raise PolicyError(f"--table {missing[0]}: there is no such table", hint=f"there are: {names[:300]}")
    for each in skipped:
        on_skipped(each)
    return found


def _adapt_to_engine(table: Found, address: str) -> Found:
    """Return a file's table for a policy of an engine; a second database is refused."""
    if table.database is not None:
        raise PolicyError(f"{table.source}: a policy has one database", hint="write one policy for each")
    return owner_tools(address).adapt_file(table)
