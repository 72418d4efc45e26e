"""The limit on the length of private values in DuckDB: their measure, and the scan that applies it."""

from __future__ import annotations

from dpsql.analysis import fold, quote
from dpsql.policy import Table
from dpsql.types import SqlType

_MEASURES = {
    "VARCHAR": "strlen({0})",
    "BLOB": "octet_length({0})",
    # Measured by its text. TRY: a list whose text would exceed four gigabytes has none.
    "LIST": "CASE WHEN {0} IS NOT NULL THEN coalesce(TRY(strlen(CAST({0} AS VARCHAR))), 4294967296) END",
    "STRUCT": "CASE WHEN {0} IS NOT NULL THEN coalesce(TRY(strlen(CAST({0} AS VARCHAR))), 4294967296) END",
}
"""The length of a value in bytes, by type; values of other types have a bounded size."""


def over_limit_conditions(
    table: Table, columns: tuple[tuple[str, SqlType], ...], longest: int
) -> dict[str, str]:
    """Return for each private column of unbounded type the condition that its value is too long."""
    if table.public:
        return {}
    return {
        name: f"{_measure(name, sql_type)} > {longest}"
        for name, sql_type in columns
        if sql_type.name in _MEASURES
    }


def limit_lengths(table: Table, columns: tuple[tuple[str, SqlType], ...], sql: str, longest: int) -> str:
    """Write the scan that reads values beyond the limit as NULL; `sql` is the scan of all values.

    A row with such a value in a column of a declared unique fact is not read: two NULLs there could be
    equal, which would make the fact false.
    """
    wide = over_limit_conditions(table, columns, longest)
    if not wide:
        return sql
    cells = ", ".join(
        f"CASE WHEN {_measure(name, sql_type)} <= {longest} THEN {quote(name)} END AS {quote(name)}"
        if name in wide
        else quote(name)
        for name, sql_type in columns
    )
    facts = {fold(column) for fact in table.unique for column in fact}
    left_out = [f"({condition}) IS NOT TRUE" for name, condition in wide.items() if fold(name) in facts]
    where = f" WHERE {' AND '.join(left_out)}" if left_out else ""
    return f"SELECT {cells} FROM ({sql}) AS r{where}"


def _measure(column: str, sql_type: SqlType) -> str:
    return _MEASURES[sql_type.name].format(quote(column))
