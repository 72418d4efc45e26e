"""The names that the expressions of a query see: its sources and their columns, with PostgreSQL's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpsql.serve.catalog.errors import UnknownQuestion


class Column(NamedTuple):
    """A column of a source: its name and PostgreSQL's type; None if DuckDB is to tell the type."""

    name: str
    type: int | None


Tables = dict[str, list[Column]]
"""Common table expressions and their columns."""


class Source(NamedTuple):
    """An item of a FROM clause."""

    name: str
    columns: list[Column]
    oid: int = 0
    """The OID of a relation of the catalogue: its `tableoid`."""


class Scope:
    """The names that the expressions of one SELECT see."""

    def __init__(self, outer: Scope | None, tables: Mapping[str, list[Column]]) -> None:
        self.outer = outer
        self.tables = dict(tables)
        self.sources: list[Source] = []
        self.merged: list[str] = []
        """Columns that USING and NATURAL have merged."""

    def source(self, column: str, table: str) -> Source | None:
        """Return the source that has a column, from the innermost SELECT that has it."""
        for source in self.sources:
            if table in ("", source.name) and any(known.name == column for known in source.columns):
                return source
        return None if self.outer is None else self.outer.source(column, table)

    def named(self, table: str) -> Source | None:
        """Return the source of a name, from the innermost SELECT that has it."""
        found = next((source for source in self.sources if source.name == table), None)
        return found if found is not None or self.outer is None else self.outer.named(table)

    def shown(self, table: str) -> list[tuple[str, str]]:
        """Return columns and sources that `*` or `table.*` stands for: merged columns first."""
        merged = [] if table else self.merged
        return [(name, "") for name in merged] + [
            (column.name, source.name)
            for source in self.sources
            if table in ("", source.name)
            for column in source.columns
            if column.name not in merged
        ]


def renamed(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Return columns as an alias names them; those that it does not name keep their names."""
    if len(names) > len(columns):
        raise UnknownQuestion("columns of an alias")
    return [Column(name, column.type) for name, column in zip(names, columns, strict=False)] + list(
        columns[len(names) :]
    )
