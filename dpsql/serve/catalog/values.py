"""What translating gives: expressions with their types, and the names that a query sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.tree import quote


@dataclass(frozen=True, slots=True)
class Value:
    """An expression: DuckDB's SQL, which is complete in itself, and PostgreSQL's type."""

    sql: str
    type: int
    literal: str | None = None
    """The text of a string literal whose type is not decided yet."""
    parameter: int | None = None
    """The number of a parameter whose type is not decided yet."""
    fields: tuple[tuple[str, int], ...] = ()
    """The fields of a record."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source: its name, its type, and its fields if it is a record."""

    name: str
    type: int
    fields: tuple[tuple[str, int], ...] = ()


def renamed(columns: Sequence[Column], names: Sequence[str]) -> tuple[Column, ...]:
    """Return columns as an alias names them; those that it does not name keep their names."""
    if len(names) > len(columns):
        raise UnknownQuestion("columns of an alias")
    new = [*names, *(column.name for column in columns[len(names) :])]
    return tuple(Column(name, old.type, old.fields) for name, old in zip(new, columns, strict=True))


@dataclass(frozen=True, slots=True)
class Source:
    """An item of a FROM clause."""

    name: str
    columns: tuple[Column, ...]
    schema: str = ""
    """The schema of a relation that has no alias."""
    oid: int = 0
    """The OID of a relation of the catalogue: its `tableoid`."""

    def column(self, name: str) -> Value | None:
        """Return the column of a name as an expression; None if the source has none of this name."""
        for column in self.columns:
            if column.name == name:
                return self.value(column)
        if name == "tableoid" and self.oid:
            return Value(f"CAST({self.oid} AS UINTEGER)", pg_types.OID)
        return None

    def value(self, column: Column) -> Value:
        """Return a column of the source as an expression."""
        sql = f"{quote(self.name)}.{quote(column.name)}"
        return Value(sql, column.type, fields=column.fields)


@dataclass(slots=True)
class Scope:
    """The names that the expressions of one SELECT see."""

    outer: Scope | None = None
    tables: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    """Common table expressions."""
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Value] = field(default_factory=dict)
    """Columns that USING has merged."""
    hidden: set[tuple[str, str]] = field(default_factory=set)
    """Sources and columns that are parts of merged ones."""

    def find(self, name: str, table: str = "", schema: str = "") -> Value | None:
        """Return a column, from the innermost SELECT that has it; None if there is none."""
        found = [self.merged[name]] if not table and name in self.merged else []
        found += [
            value
            for source in self.sources
            if (source.name == table and schema in ("", source.schema))
            or (not table and (source.name, name) not in self.hidden)
            if (value := source.column(name)) is not None
        ]
        if len(found) > 1 and name != "tableoid":
            raise UnknownQuestion("ambiguous column")
        if found:
            return found[0]
        return None if self.outer is None else self.outer.find(name, table, schema)

    def source(self, table: str) -> Source | None:
        """Return the source of a name, from the innermost SELECT that has it."""
        for source in self.sources:
            if source.name == table:
                return source
        return None if self.outer is None else self.outer.source(table)

    def shown(self) -> list[tuple[str, Value]]:
        """Return the columns that `*` stands for: merged ones first."""
        found = list(self.merged.items())
        for source in self.sources:
            shown = [c for c in source.columns if (source.name, c.name) not in self.hidden]
            found += [(column.name, source.value(column)) for column in shown]
        return found

    def relation(self, name: str) -> tuple[Column, ...] | None:
        """Return the columns of a common table expression."""
        return self.tables.get(name)


OWN_TABLE = "q:"
"""Prefix of the names of common table expressions in generated SQL: no table of DuckDB begins so."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A translated query: its SQL and its columns."""

    sql: str
    columns: tuple[Column, ...]


def refuse_others(node_args: Mapping[str, object], known: Sequence[str], shape: str) -> None:
    """Raise `UnknownQuestion` if a node has a part that its rule does not know."""
    for name, part in node_args.items():
        if name not in known and part not in (None, False, []):
            raise UnknownQuestion(f"{shape}.{name}")
