"""What Spark's catalog says of a table, and the scan that reads it with canonical values."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpsql.engines.spark.dialect import SparkDialect
from dpsql.engines.translate.scans import Cell, scan_of
from dpsql.engines.translate.value import Column, Untranslatable, Value
from dpsql.errors import PolicyError
from dpsql.policy import DatabaseSource, ParquetSource
from dpsql.types import BOOLEAN, DATE, DOUBLE, TIMESTAMP, VARCHAR, SqlType

if TYPE_CHECKING:
    from dpsql.policy import Policy, Table

__all__ = ["check_facts", "columns_of", "look_up", "scan"]

_WORDS = {
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

_FORMATS = frozenset({"parquet", "orc", "delta", "iceberg"})
_SERDES = frozenset(
    {
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
        "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    }
)
"""Formats with typed columns, in which no row can make the others unreadable."""


def check_facts(policy: Policy) -> None:
    """Raise `PolicyError` where rows could come after a vouched fact was tested, and nobody would know."""
    for table in policy.tables.values():
        seen = isinstance(table.source, ParquetSource) and table.source.path.is_file()  # by its content
        if table.unique and not (table.public or seen or table.trust_source or policy.data_version):
            raise PolicyError(
                f"tables.{table.name}.unique: Spark keeps no fact true, and a table there may change unseen",
                hint='declare data_version = "1" and bump it whenever rows come, or leave unique out',
            )


def look_up(session: Any, table: Table, view: str) -> tuple[str, Any]:  # noqa: ANN401  two classes of sessions
    """Find a table or a Parquet file; return the name to read it by, and its schema. No row is read."""
    source, found, stored = table.source, None, True
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
                stored = _typed(session, name)
    if found is None:
        raise PolicyError(
            f"tables.{table.name}.source: Spark has no such table",
            hint="views are not read: a view could mix the rows of several units",
        )
    if not (stored or table.public):
        raise PolicyError(
            f"tables.{table.name}.source: the table is not stored as Parquet, ORC, Delta or Iceberg",
            hint="copy it into one that is: a single line of a text file can make all rows unreadable, "
            "and a table of another database may be a view there",
        )
    return found


def _typed(session: Any, name: str) -> bool:  # noqa: ANN401  two classes of sessions
    """Whether a table is stored in a format of the list; not so where the catalog does not say."""
    told = [(row[0], row[1]) for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    # The columns come first, and may have any name.
    start = max((i for i, (what, _) in enumerate(told) if what.startswith("# Detailed Table")), default=-1)
    details = dict(told[start + 1 :]) if start >= 0 else {}
    provider = str(details.get("Provider", "")).lower()
    return provider in _FORMATS or (provider == "hive" and details.get("Serde Library") in _SERDES)


def columns_of(schema: Any) -> list[tuple[str, str]]:  # noqa: ANN401  two classes of schemas
    """Return the columns' names, and their types in DuckDB's words."""
    found = []
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if kind.startswith(("varchar(", "char(")):
            kind = "string"
        found.append(
            (field.name, kind.upper() if kind.startswith("decimal(") else _WORDS.get(kind, kind.upper()))
        )
    return found


def scan(
    table: Table,
    name: str,
    physical: list[tuple[str, str]],
    columns: tuple[tuple[str, SqlType], ...],
    longest: int,
) -> tuple[str, dict[str, Column]]:
    """Write the SELECT that reads the declared columns, each canonical and of its declared type."""
    dialect = SparkDialect({})
    there = {n.lower(): (n, word) for n, word in physical}

    def cell(column: str, kind: SqlType) -> Cell:
        of, word = there[column.lower()]
        value = _cell(dialect, of, word, kind)
        # The bytes as stored: a text is looked at only if it is short.
        text = f"CAST(r.{dialect.quote(of)} AS STRING)" if word == "VARCHAR" else value.sql
        return Cell(value, f"octet_length({text}) <= {longest}" if kind == VARCHAR else "")

    return scan_of(table, columns, cell, name, "the table")


def _cell(dialect: SparkDialect, name: str, word: str, kind: SqlType) -> Value:
    cell = f"r.{dialect.quote(name)}"
    if kind.name in ("LIST", "STRUCT", "ENUM", "BLOB", "UUID", "TIME"):
        raise Untranslatable(f"values of type {kind.name} stay in DuckDB")
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
        # Bytes that are no text would fail where they come back, and the failure would tell of a row.
        value = Value(f"try_validate_utf8(CAST({cell} AS STRING))", VARCHAR)
    elif word == "DATE":
        value = _dated(cell, "DATE", DATE)
    elif word.startswith("TIMESTAMP"):
        value = _dated(f"CAST({cell} AS TIMESTAMP_NTZ)", "TIMESTAMP_NTZ", TIMESTAMP)
    else:
        raise Untranslatable(f"columns of type {word[:40]} are not read")
    return value if value.type == kind else dialect.cast(value, kind)


def _dated(cell: str, kind: str, of: SqlType) -> Value:
    """Read what lies outside the years 1 to 9999 as NULL: engines differ there."""
    last = "9999-12-31" if kind == "DATE" else "9999-12-31 23:59:59.999999"
    sql = f"(CASE WHEN {cell} BETWEEN {kind}'0001-01-01' AND {kind}'{last}' THEN {cell} END)"
    return Value(sql, of, (1, 9999))
