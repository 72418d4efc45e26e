"""The types of a Spark table's columns, and the scan that reads it with canonical values."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.spark.dialect import SparkDialect
from dpsql.engines.writer.scans import Cell, build_scan, dated
from dpsql.engines.writer.value import TargetColumn, Value
from dpsql.policy import Table
from dpsql.types import BOOLEAN, DATE, DOUBLE, TIMESTAMP, VARCHAR, SqlType

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


def scan(
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
        value = _cell(dialect, of, word, sql_type, padded=of in padded)
        # Measures the stored bytes, so that only a short text is validated.
        text = f"CAST(r.{dialect.quote(of)} AS STRING)" if word == "VARCHAR" else value.sql
        return Cell(value, f"octet_length({text}) <= {longest}" if sql_type == VARCHAR else "")

    return build_scan(table, columns, cell, name, "the table")


def readable_as(name: str, word: str, sql_type: SqlType) -> bool:
    """Whether a column can be read with this type."""
    with suppress(Untranslatable):
        _cell(SparkDialect({}), name, word, sql_type.held, padded=False)
        return True
    return False


def _cell(dialect: SparkDialect, name: str, word: str, sql_type: SqlType, *, padded: bool) -> Value:
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
        value = dated(cell, "DATE", DATE)
    elif word.startswith("TIMESTAMP"):
        value = dated(f"CAST({cell} AS TIMESTAMP_NTZ)", "TIMESTAMP_NTZ", TIMESTAMP)
    else:
        raise Untranslatable(f"columns of type {word[:40]} are not read")
    return value if value.type == sql_type else dialect.cast(value, sql_type)
