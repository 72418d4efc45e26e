"""Writes the SELECT that reads a declared table: each column canonical and of its declared type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.writer.costs import READING, measure
from dpsql.engines.writer.value import TargetColumn, Value
from dpsql.errors import PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Table
from dpsql.types import DATE, SqlType


@dataclass(frozen=True, slots=True)
class Cell:
    """The expression by which a scan reads a column."""

    value: Value
    within_limit: str = ""
    """The condition that a text is not longer than the limit; empty for other types."""


def dated(cell: str, literal: str, of: SqlType) -> Value:
    """Read a date outside the years 1 to 9999, or an infinite one, as NULL: engines differ there.

    `literal` is what the engine writes before the text of a constant of the type.
    """
    last = "9999-12-31" if of == DATE else "9999-12-31 23:59:59.999999"
    sql = f"(CASE WHEN {cell} BETWEEN {literal}'0001-01-01' AND {literal}'{last}' THEN {cell} END)"
    return Value(sql, of, (1, 9999))


def build_scan(
    table: Table,
    columns: tuple[tuple[str, SqlType], ...],
    cell: Callable[[str, SqlType], Cell],
    source: str,
    convert: str,
) -> tuple[str, dict[str, TargetColumn]]:
    """Return the SELECT that reads the declared columns of a table, and its columns by declared name.

    `cell` writes the expression that reads a column of `source` (aliased `r`) with its declared type. Where
    it cannot, the error names `convert` as the place where the owner may convert the column. A private text
    longer than the limit is read as NULL. A row with such a text in a column of a declared unique fact is not
    read: two NULLs there could be equal, which would make the fact false.
    """
    facts = {column.lower() for fact in table.unique for column in fact}
    cells, shown, left_out = [], {}, []
    for i, (name, declared) in enumerate(columns):
        sql_type = declared.held  # an instant is read as the TIMESTAMP of UTC
        try:
            read = cell(name, sql_type)
        except Untranslatable as problem:
            raise PolicyError(
                f"tables.{table.name}: column {name} is not read as {sql_type}: {problem.message}",
                hint=problem.hint
                or f"leave it out of [tables.{table.name}.columns], or convert it in {convert}",
            ) from None
        sql = read.value.sql
        if read.within_limit and not table.public:
            sql = f"(CASE WHEN {read.within_limit} THEN {sql} END)"
            if name.lower() in facts:
                left_out.append(f"({read.within_limit}) IS NOT FALSE")
        cells.append(f"{sql} AS x{i}")
        cost = replace(measure(sql, {}, {}), micros=READING if read.within_limit else 0.0)
        shown[name] = TargetColumn(f"x{i}", sql_type, read.value.value_range, cost)
    where = f" WHERE {' AND '.join(left_out)}" if left_out else ""
    return f"(SELECT {', '.join(cells)} FROM {source} AS r{where})", shown
