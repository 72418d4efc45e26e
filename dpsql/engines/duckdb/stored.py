"""The columns that a source holds, with the fields of a STRUCT as columns of their own."""

from __future__ import annotations

import duckdb

from dpsql.analysis import quote
from dpsql.engines.duckdb.csv_source import text
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Table, fold


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as a source holds it: a column of its own, or a field of a STRUCT."""

    name: str
    """The name that a policy declares: `address.city` of a field."""
    type: str
    cell: str
    """The expression that reads it."""


def stored_columns(table: Table, physical: list[tuple[str, str]]) -> list[StoredColumn]:
    """Return what a policy may declare of a source: its columns, in place of each STRUCT its fields.

    A public table has its STRUCT as a whole, unless the policy declares its fields: everybody reads it, with
    whatever the engine can do.
    """
    found = []
    for name, sql_type in physical:
        column, below = StoredColumn(name, sql_type, quote(name)), f"{fold(name)}."
        by_field = not table.public or any(fold(c).startswith(below) for c in table.columns or ())
        found += fields_of(column) if by_field else [column]
    return found


def fields_of(column: StoredColumn) -> list[StoredColumn]:
    """Return the fields of a STRUCT, and those of its fields in their place; a column of its own otherwise.

    >>> [(c.name, c.type) for c in fields_of(StoredColumn("a", "STRUCT(x HUGEINT, y STRUCT(z DATE))", '"a"'))]
    [('a.x', 'HUGEINT'), ('a.y.z', 'DATE')]
    """
    if not column.type.startswith("STRUCT(") or column.type.endswith("]"):
        return [column]
    return [
        part
        for name, kind in duckdb.sqltype(column.type).children
        for part in fields_of(
            StoredColumn(f"{column.name}.{name}", str(kind), f"struct_extract({column.cell}, {text(name)})")
        )
    ]
