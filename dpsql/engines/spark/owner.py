"""What the owner is told of Spark: its tables, its version, and why it cannot be started or reached.

It is for the owner alone, so errors hold Spark's own words. The catalog is read, and no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpsql.engines.duckdb.schema import (
    Found,
    FoundColumn,
    Skipped,
    declarable_type,
    qualified_name,
    table_name,
)
from dpsql.engines.duckdb.sources import declared_columns
from dpsql.engines.spark.catalog import find_table
from dpsql.engines.spark.connection import end_session, open_session, suppress_pyspark_warnings
from dpsql.engines.spark.schema import columns_of, padded_columns, readable_as, scan
from dpsql.errors import OperationalError, PolicyError
from dpsql.policy import DatabaseSource, Table, UnitRow, ViewSource

OLDEST = 4
"""The major version of Spark from which on dpsql supports it."""


def spark_words(problem: BaseException) -> str:
    r"""Return Spark's own words without the trace of its calls, in one line: for the owner alone.

    >>> spark_words(ValueError("[TABLE_NOT_FOUND] no table.\n\nJVM stacktrace:\norg.apache..."))
    '[TABLE_NOT_FOUND] no table.'
    """
    return " ".join(str(problem).partition("JVM stacktrace:")[0].split())[:500]


@contextmanager
def owner_session(address: str) -> Iterator[Any]:
    """Start or reach Spark; raises an error that holds Spark's own words."""
    with suppress_pyspark_warnings():
        session = open_for_owner(address)
        try:
            yield session
        finally:
            if "://" in address:
                end_session(session)


def describe_spark(address: str, session: Any) -> tuple[str, str]:  # noqa: ANN401  two classes of sessions
    """Return the level of a finding and what Spark is."""
    version = str(session.version)
    where = "in this process" if "://" not in address else "over Spark Connect"
    if int(version.partition(".")[0]) < OLDEST:
        return "wrong", f"Spark {version}, {where}: versions from {OLDEST} on are supported"
    return "ok", f"Spark {version}, {where}: a supported version"


def check_table(session: Any, table: Table, longest: int) -> None:  # noqa: ANN401  two classes of sessions
    """Raise `PolicyError` if a declared table is not as the policy says; no row is read."""
    said: list[BaseException] = []
    try:
        name, schema = find_table(session, table, "dpsql_check", said.append)
    except PolicyError as problem:
        if not said:
            raise
        words = f"{problem.message}: {spark_words(said[0])}"
        raise PolicyError(words, hint=problem.hint) from None
    physical = columns_of(schema)
    scan(table, name, physical, declared_columns(table, physical), longest, padded_columns(schema))


def open_for_owner(address: str) -> Any:  # noqa: ANN401  two classes of sessions
    """Return a session; raises an error that holds Spark's own words."""
    said: list[BaseException] = []
    try:
        return open_session(address, said.append)
    except OperationalError as problem:
        words = f"{problem}: {spark_words(said[0])}" if said else str(problem)
    raise OperationalError(words)


def introspect_spark(
    address: str, wanted: Callable[[str, str], bool | None]
) -> tuple[list[Found], list[Skipped]]:
    """Return the tables of Spark's catalog that a policy may declare, and those left out.

    See `introspect_postgres`. Spark in this process starts with an empty catalog, so it is not started: its
    tables are Parquet files.
    """
    found: list[Found] = []
    skipped: list[Skipped] = []
    if "://" not in address:
        return found, skipped
    with owner_session(address) as session:
        for schema, name, kind in _listed(session):
            chosen = wanted(schema, name)
            if chosen is not False:
                _look(session, (schema, name, kind), chosen is True, address, found, skipped)
    return found, skipped


def _listed(session: Any) -> list[tuple[str, str, str]]:  # noqa: ANN401  two classes of sessions
    """Return the schema, the name and the kind of every table that is not temporary."""
    try:
        schemas = [database.name for database in session.catalog.listDatabases()]
        return [
            (schema, table.name, table.tableType)
            for schema in sorted(schemas, key=lambda name: (name != "default", name))
            for table in sorted(session.catalog.listTables(f"`{schema}`"), key=lambda each: each.name)
            if not table.isTemporary
        ]
    except Exception as problem:  # noqa: BLE001  Spark's errors have no common class over Connect
        words = spark_words(problem)
    raise PolicyError(f"Spark: {words}")


def _look(
    session: Any,  # noqa: ANN401  two classes of sessions
    named: tuple[str, str, str],
    chosen: bool,
    address: str,
    found: list[Found],
    skipped: list[Skipped],
) -> None:
    schema, name, kind = named
    shown = qualified_name("main" if schema == "default" else schema, name)
    if kind == "VIEW" and not chosen:
        mend = f"--table {shown}, if each of its rows comes from rows of one unit"
        skipped.append(Skipped(shown, "it is a view", mend))
        return
    plain = table_name(name if schema == "default" else f"{schema}_{name}")
    source = ViewSource(schema, name) if kind == "VIEW" else DatabaseSource(schema, name)
    try:
        _, fields = find_table(session, Table(name=plain, source=source, unit=UnitRow()), "")
    except PolicyError as problem:
        skipped.append(Skipped(shown, problem.message.partition(": ")[2], problem.hint or ""))
        return
    columns, never_null = [], []
    for field, (column, word) in zip(fields.fields, columns_of(fields), strict=True):
        sql_type = declarable_type(word)
        if sql_type is not None and not readable_as(column, word, sql_type):
            sql_type = None
        columns.append(FoundColumn(column, sql_type, word))
        if not field.nullable and kind != "VIEW":
            never_null.append(column)
    found.append(
        Found(
            name=plain,
            source=shown,
            database=None,
            columns=tuple(columns),
            not_null=tuple(never_null),
            engine=address,
            stable=kind == "VIEW",
        )
    )
