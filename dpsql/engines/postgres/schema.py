"""The types of a PostgreSQL table's columns, and the scan that reads it with canonical values."""

from __future__ import annotations

from contextlib import suppress

from dpsql.engines.postgres.catalog import CatalogColumn, CatalogTable
from dpsql.engines.postgres.dialect import PostgresDialect
from dpsql.engines.protocol import Untranslatable
from dpsql.engines.writer.dialect import integer_bounds
from dpsql.engines.writer.scans import Cell, build_scan, dated
from dpsql.engines.writer.value import TargetColumn, Value
from dpsql.policy import Table
from dpsql.types import BOOLEAN, DATE, DOUBLE, TIME, TIMESTAMP, UUID, VARCHAR, SqlType, column_type

_TYPES = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bool": "BOOLEAN",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
    "bpchar": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "time": "TIME",
    "timetz": "TIME WITH TIME ZONE",
    "uuid": "UUID",
    "bytea": "BYTEA",
    "json": "JSON",
    "enum": "VARCHAR",
    "citext": "VARCHAR",
}
_HEADER = 16
"""The most bytes that a stored value takes besides its content."""
_NAME = 63
"""The most bytes of a name, and of a value of an enum."""


def columns_of(found: CatalogTable) -> list[tuple[str, str, str]]:
    """Return the name, the type and DuckDB's type name of each column."""
    return [(c.name, c.type_name, _word(c.type_name, c.modifier, c.builtin)) for c in found.columns]


def _word(physical: str, modifier: int, builtin: bool) -> str:
    if physical == "numeric" and builtin:
        packed = modifier - 4
        scale = ((packed & 0x7FF) ^ 1024) - 1024
        if modifier < 4 or scale < 0:
            return "DECIMAL(38,10)"  # without a declared scale: the owner may declare another
        return f"DECIMAL({(packed >> 16) & 0xFFFF},{scale})"
    # A type of an extension or of the owner's is named without its schema.
    return _TYPES.get(physical, physical.upper()) if builtin else physical.rpartition(".")[2].upper()


def index_distinguishes(column: CatalogColumn, sql_type: SqlType, unit: bool) -> bool:
    """Whether values that a unique index of PostgreSQL keeps distinct are distinct after the scan too.

    A unit that does not fit its declared type is read as NULL, and its row is not counted.
    """
    match column.type_name:
        case "int2" | "int4" | "int8":
            return sql_type.integer and (unit or _holds(sql_type, column.type_name))
        case "numeric":
            word = _word("numeric", column.modifier, column.builtin)
            # Without a precision, values may be infinite or are rounded; NaN is read as NULL.
            return column.modifier >= 4 and word == str(sql_type) and column.never_null
        case "text" | "varchar" | "bpchar" | "enum":
            return sql_type.name == "VARCHAR"
        case "uuid":
            return sql_type.name == "UUID"
        case "bool":
            return sql_type.name == "BOOLEAN"
        case _:
            return False


def never_null(
    table: Table, found: CatalogTable, columns: tuple[tuple[str, SqlType], ...], longest: int
) -> frozenset[str]:
    """Return the lower-case names of the NOT NULL columns of which no value is read as NULL.

    A number may not fit its declared type, and a text may be longer than the limit: then NULL is a group.
    """
    enforced = {column.name.lower(): column for column in found.columns if column.never_null}
    facts = {column.lower() for fact in table.unique for column in fact}
    return frozenset(
        name.lower()
        for name, sql_type in columns
        if name.lower() in enforced
        and _never_lost(enforced[name.lower()], sql_type, longest, table.public or name.lower() in facts)
    )


def _never_lost(column: CatalogColumn, sql_type: SqlType, longest: int, unlimited: bool) -> bool:
    """Whether no value of a column is read as NULL; `unlimited` where no row with a long text is read so."""
    match column.type_name:
        case "int2" | "int4" | "int8":
            return _holds(sql_type, column.type_name)
        case "bool" | "uuid":
            return sql_type.name == _TYPES[column.type_name]
        case "text" | "varchar" | "bpchar" | "enum" | "citext":
            most = _longest_text(column)
            return sql_type.name == "VARCHAR" and (unlimited or (most is not None and most <= longest))
        case _:
            return False


def _holds(sql_type: SqlType, stored: str) -> bool:
    """Whether a type has every value of an integer type of PostgreSQL."""
    if not sql_type.integer:
        return False
    (low, high), (least, greatest) = integer_bounds(column_type(_TYPES[stored])), integer_bounds(sql_type)
    return least <= low and high <= greatest


def _longest_text(column: CatalogColumn) -> int | None:
    """Return the most bytes that a text of a column can have; None without a declared length."""
    if column.type_name == "enum":
        return _NAME
    declared = column.modifier - 4 if column.type_name in ("varchar", "bpchar") else 0
    return 4 * declared if declared > 0 else None


def scan(
    table: Table, found: CatalogTable, columns: tuple[tuple[str, SqlType], ...], longest: int
) -> tuple[str, dict[str, TargetColumn]]:
    """Return the SELECT that reads the declared columns with canonical values, and its columns by name."""
    dialect = PostgresDialect({})
    there = {name.lower(): (name, physical, word) for name, physical, word in columns_of(found)}
    source = found.text if found.children else f"ONLY {found.text}"

    def cell(name: str, sql_type: SqlType) -> Cell:
        _, physical, _ = there[name.lower()]
        value = _cell(dialect, *there[name.lower()], sql_type)
        within_limit = (
            _within_limit(f"r.{dialect.quote(name)}", physical, value, longest) if sql_type == VARCHAR else ""
        )
        return Cell(value, within_limit)

    return build_scan(table, columns, cell, source, "the database")


def readable_as(found: CatalogTable, name: str, sql_type: SqlType) -> bool:
    """Whether a column can be read with this type."""
    by_name = {n: (n, physical, word) for n, physical, word in columns_of(found)}
    with suppress(Untranslatable):
        _cell(PostgresDialect({}), *by_name[name], sql_type.held)
        return True
    return False


def _within_limit(cell: str, physical: str, value: Value, longest: int) -> str:
    """Write the condition that a text is within the limit; PostgreSQL knows a stored text's size."""
    within_limit = f"octet_length({value.sql}) <= {longest}"
    if physical != "json":
        return within_limit
    # The text of a json is read to be measured; if its stored size is small, it has a few megabytes at most.
    stored = f"pg_column_size({cell})"
    measured = f"WHEN {stored} <= {longest + _HEADER} THEN {within_limit}"
    return f"CASE {measured} WHEN {stored} IS NOT NULL THEN FALSE END"


def _cell(dialect: PostgresDialect, name: str, physical: str, word: str, sql_type: SqlType) -> Value:
    cell = f"r.{dialect.quote(name)}"
    if sql_type.name in ("LIST", "STRUCT", "ENUM", "BLOB"):
        raise Untranslatable(f"values of type {sql_type.name} are not supported")
    match physical:
        case "int2" | "int4" | "int8":
            value = Value(f"CAST({cell} AS bigint)", SqlType(word))
        case "float4" | "float8":
            value = dialect.canonical(Value(f"CAST({cell} AS float8)", DOUBLE))
        case "numeric":
            scale = min(int(word[8:-1].split(",")[1]), 18)
            value = Value(cell, SqlType("DECIMAL", 38, scale))
            if word == str(sql_type) and sql_type.precision <= 18:  # then the column has this precision
                return Value(f"NULLIF({cell}, CAST('NaN' AS numeric))", sql_type)
            if sql_type.name == "DECIMAL":
                return Value(f"({dialect.decimal(cell, sql_type)})", sql_type)
        case "bool":
            value = Value(cell, BOOLEAN)
        case "enum":
            # Not CAST: a database may have a cast of its own for the type, which could fail on a row.
            value = Value(f'(CAST(enum_out({cell}) AS text) COLLATE "C")', VARCHAR)
        case "text" | "varchar" | "bpchar" | "json" | "citext":
            value = Value(f'(CAST({cell} AS text) COLLATE "C")', VARCHAR)
        case "date":
            value = dated(cell, "date ", DATE)
        case "timestamp":
            value = dated(cell, "timestamp ", TIMESTAMP)
        case "timestamptz":
            value = dated(f"({cell} AT TIME ZONE 'UTC')", "timestamp ", TIMESTAMP)
        case "time":
            value = Value(cell, TIME)
        case "uuid":
            value = Value(cell, UUID)
        case "virtual":
            raise Untranslatable(
                "it is calculated when it is read, and could fail on a row",
                "make it GENERATED .. STORED, or leave it out",
            )
        case "jsonb":
            raise Untranslatable(
                "the text of a jsonb can be half a million times as long as its stored value",
                "ALTER the column to json, which is stored as text, or leave it out",
            )
        case _:
            raise Untranslatable(f"columns of type {physical} are not read")
    return value if value.type == sql_type else dialect.cast(value, sql_type)
