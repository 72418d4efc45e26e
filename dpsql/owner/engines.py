"""The tables of PostgreSQL and Spark, for the owner who writes a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from dpsql.engines.duckdb.schema import Found, Skipped, is_file
from dpsql.errors import PolicyError
from dpsql.policy import engine_kind, fold
from dpsql.policy.addresses import check_engine

__all__ = ["Skipped", "introspect_engine", "of_engine", "split_engine"]

_SHORT = {"postgres": "postgresql://", "postgresql": "postgresql://"}
_NOT_ON_SPARK = ("UUID", "TIME", "LIST", "STRUCT", "BLOB")


def split_engine(sources: Iterable[str | Path]) -> tuple[str, list[str]]:
    """Return the address of the engine that sources name, if any, and the others.

    >>> split_engine(["postgres", "regions.parquet"])
    ('postgresql://', ['regions.parquet'])
    """
    engines, others = [], []
    for source in map(str, sources):
        address = _SHORT.get(source, source)
        if engine_kind(address) in ("postgresql", "spark") and not Path(source).exists():
            engines.append(address)
        else:
            others.append(source)
    if len(engines) > 1:
        raise PolicyError("a policy has one engine", hint="write one policy for each")
    return (engines[0] if engines else ""), others


def introspect_engine(
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

    if engine_kind(address) == "postgresql":
        from dpsql.engines.postgres.owner import introspect_postgres  # noqa: PLC0415  an extra

        found, skipped = introspect_postgres(address, want)
    else:
        from dpsql.engines.spark.owner import introspect_spark  # noqa: PLC0415  an extra

        found, skipped = introspect_spark(address, want)
    if missing := [each for each in wanted if each not in used]:
        names = ", ".join(table.source for table in found) or "none that can be declared"
        raise PolicyError(f"--table {missing[0]}: there is no such table", hint=f"there are: {names[:300]}")
    for each in skipped:
        on_skipped(each)
    return found


def of_engine(table: Found, address: str) -> Found:
    """Return a file's table for a policy of an engine: Spark reads Parquet files, others are public."""
    if table.database is not None:
        raise PolicyError(f"{table.source}: a policy has one database", hint="write one policy for each")
    if engine_kind(address) != "spark" or "://" in address or not is_file(table.source):
        return table
    columns = tuple(
        replace(column, kind=None)
        if column.whole or (column.kind is not None and column.kind.name in _NOT_ON_SPARK)
        else column
        for column in table.columns
    )
    return replace(table, columns=columns, engine=address)
