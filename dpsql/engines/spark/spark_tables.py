"""Spark's tables: found in its catalog or a Parquet file, and read by a scan with canonical values.

Also what the owner is told of Spark: its tables, its version, and why it cannot be started or reached. That
is for the owner alone, so errors hold Spark's own words. The catalog is read, and no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dpsql.engines.duckdb.source_schemas import (
    Found,
    FoundColumn,
    Skipped,
    declarable_type,
    make_table_name,
    qualified_name,
)
from dpsql.engines.duckdb.table_readers import declared_columns
from dpsql.engines.spark.spark_connection import end_session, open_session, suppress_pyspark_warnings
from dpsql.engines.spark.spark_sql import SparkDialect
from dpsql.engines.worker import Untranslatable
from dpsql.engines.writer.statement_writer import Cell, build_scan, read_date
from dpsql.engines.writer.written_values import TargetColumn, Value
from dpsql.errors import OperationalError, PolicyError
from dpsql.policy import DatabaseSource, ParquetSource, Table, UnitRow, ViewSource
from dpsql.types import BOOLEAN, DATE, DOUBLE, TIMESTAMP, VARCHAR, SqlType

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
    """Return the listed files of a table; files on this machine with their inode, size and time."""
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


def table_identity(session: Any, name: str) -> tuple[object, ...]:  # noqa: ANN401  two classes of sessions
    """Return what stays of a table when its rows change: its place, and when it was made."""
    details = _describe_table(session, name)
    words = ("Type", "Provider", "Location", "Created Time", "View Text")
    return tuple(details.get(word) for word in words)


def _has_typed_format(session: Any, name: str) -> bool:  # noqa: ANN401  two classes of sessions
    """Whether a table is stored in a listed format; False where the catalog does not say."""
    details = _describe_table(session, name)
    provider = str(details.get("Provider", "")).lower()
    return provider in _FORMATS or (provider == "hive" and details.get("Serde Library") in _SERDES)


def _describe_table(session: Any, name: str) -> dict[str, str]:  # noqa: ANN401  two classes of sessions
    """Return what the catalog says of a table besides its columns."""
    described = [(row[0], row[1]) for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    # The columns come first, and may have any name.
    heads = (i for i, (what, _) in enumerate(described) if what.startswith("# Detailed Table"))
    start = max(heads, default=-1)
    return dict(described[start + 1 :]) if start >= 0 else {}


_TYPES = {
    "byte": "TINYINT",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "binary": "BLOB",
}


def columns_of(schema: Any) -> list[tuple[str, str]]:  # noqa: ANN401  two classes of schemas
    """Return the names of the columns, with DuckDB's names of their types."""
    found = []
    for field in schema.fields:
        physical = field.dataType.simpleString()
        if physical.startswith(("varchar(", "char(")):
            physical = "string"
        found.append(
            (
                field.name,
                physical.upper()
                if physical.startswith("decimal(")
                else _TYPES.get(physical, physical.upper()),
            )
        )
    return found


def padded_columns(schema: Any) -> frozenset[str]:  # noqa: ANN401  two classes of schemas
    """Return the columns of type CHAR(n), whose texts Spark fills up with spaces."""
    return frozenset(
        field.name
        for field in schema.fields
        if field.dataType.simpleString().startswith("char(")
        or str((getattr(field, "metadata", None) or {}).get(_KEPT_TYPE, "")).startswith("char(")
    )


_KEPT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps that a column of type STRING was declared CHAR or VARCHAR."""


def write_scan(
    table: Table,
    name: str,
    physical: list[tuple[str, str]],
    columns: tuple[tuple[str, SqlType], ...],
    longest: int,
    padded: frozenset[str] = frozenset(),
) -> tuple[str, dict[str, TargetColumn]]:
    """Return the SELECT that reads the declared columns with canonical values, and its columns by name."""
    dialect = SparkDialect({})
    there = {n.lower(): (n, word) for n, word in physical}

    def cell(column: str, sql_type: SqlType) -> Cell:
        of, word = there[column.lower()]
        value = _write_cell(dialect, of, word, sql_type, padded=of in padded)
        # Measures the stored bytes, so that only a short text is validated.
        text = f"CAST(r.{dialect.quote(of)} AS STRING)" if word == "VARCHAR" else value.sql
        return Cell(value, f"octet_length({text}) <= {longest}" if sql_type == VARCHAR else "")

    return build_scan(table, columns, cell, name, "the table")


def is_readable_as(name: str, word: str, sql_type: SqlType) -> bool:
    """Whether a column can be read with this type."""
    with suppress(Untranslatable):
        _write_cell(SparkDialect({}), name, word, sql_type.held, padded=False)
        return True
    return False


def _write_cell(dialect: SparkDialect, name: str, word: str, sql_type: SqlType, *, padded: bool) -> Value:
    cell = f"r.{dialect.quote(name)}"
    if sql_type.name in ("LIST", "STRUCT", "ENUM", "BLOB", "UUID", "TIME"):
        raise Untranslatable(f"values of type {sql_type.name} are not supported")
    if word in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"):
        value = Value(f"CAST({cell} AS BIGINT)", SqlType(word))
    elif word in ("FLOAT", "DOUBLE"):
        value = dialect.canonical(Value(f"CAST({cell} AS DOUBLE)", DOUBLE))
    elif word.startswith("DECIMAL("):
        precision, scale = (int(n) for n in word[8:-1].split(","))
        value = Value(cell, SqlType("DECIMAL", precision, scale))
    elif word == "BOOLEAN":
        value = Value(cell, BOOLEAN)
    elif word == "VARCHAR":
        # Bytes that are not UTF-8 would fail when they are returned, which would disclose a row.
        text = f"try_validate_utf8(CAST({cell} AS STRING))"
        # The spaces at the end of a CHAR(n) are none of its text, as in PostgreSQL.
        value = Value(f"TRIM(TRAILING ' ' FROM {text})" if padded else text, VARCHAR)
    elif word == "DATE":
        value = read_date(cell, "DATE", DATE)
    elif word.startswith("TIMESTAMP"):
        value = read_date(f"CAST({cell} AS TIMESTAMP_NTZ)", "TIMESTAMP_NTZ", TIMESTAMP)
    else:
        raise Untranslatable(f"columns of type {word[:40]} are not read")
    return value if value.type == sql_type else dialect.cast(value, sql_type)


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


class SparkCatalog:
    """The catalog of a session for the owner: an `OwnerCatalog`."""

    def __init__(self, address: str, session: Any) -> None:  # noqa: ANN401  two classes of sessions
        self._local = "://" not in address
        self._session = session

    def describe(self) -> tuple[str, str]:
        """Return the level of a finding and what Spark is."""
        version = str(self._session.version)
        where = "in this process" if self._local else "over Spark Connect"
        if int(version.partition(".")[0]) < OLDEST:
            return "wrong", f"Spark {version}, {where}: versions from {OLDEST} on are supported"
        return "ok", f"Spark {version}, {where}: a supported version"

    def has(self, table: Table) -> bool:
        """Whether a declared table is in the catalog, or a private Parquet file that Spark reads."""
        read_here = self._local and isinstance(table.source, ParquetSource) and not table.public
        return isinstance(table.source, DatabaseSource) or read_here

    def check_table(self, table: Table, longest: int) -> None:
        """Raise `PolicyError` if a declared table is not as the policy says; no row is read."""
        said: list[BaseException] = []
        try:
            name, schema = find_table(self._session, table, "dpsql_check", said.append)
        except PolicyError as problem:
            if not said:
                raise
            words = f"{problem.message}: {spark_words(said[0])}"
            raise PolicyError(words, hint=problem.hint) from None
        physical = columns_of(schema)
        write_scan(table, name, physical, declared_columns(table, physical), longest, padded_columns(schema))

    def describe_statistics(self, table: Table) -> str:
        """Return nothing: no plan of Spark here depends on statistics."""
        del table
        return ""


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

    `wanted` says of a schema and a name whether the owner wants it: True if it was named, None if nothing was
    said. A view is taken only where it was named, which is the owner's word that it is stable. Spark in this
    process starts with an empty catalog, so it is not started: its tables are Parquet files.
    """
    found: list[Found] = []
    skipped: list[Skipped] = []
    if "://" not in address:
        return found, skipped
    with owner_session(address) as session:
        for schema, name, kind in _list_tables(session):
            chosen = wanted(schema, name)
            if chosen is not False:
                _introspect_table(session, (schema, name, kind), chosen is True, address, found, skipped)
    return found, skipped


def _list_tables(session: Any) -> list[tuple[str, str, str]]:  # noqa: ANN401  two classes of sessions
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


def _introspect_table(
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
    plain = make_table_name(name if schema == "default" else f"{schema}_{name}")
    source = ViewSource(schema, name) if kind == "VIEW" else DatabaseSource(schema, name)
    try:
        _, fields = find_table(session, Table(name=plain, source=source, unit=UnitRow()), "")
    except PolicyError as problem:
        skipped.append(Skipped(shown, problem.message.partition(": ")[2], problem.hint or ""))
        return
    columns, never_null = [], []
    for field, (column, word) in zip(fields.fields, columns_of(fields), strict=True):
        sql_type = declarable_type(word)
        if sql_type is not None and not is_readable_as(column, word, sql_type):
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
