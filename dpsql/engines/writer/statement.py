"""Writes a compiled query as an engine's SQL; assembles the rules of all node types."""

from __future__ import annotations

from collections.abc import Collection

from dpsql.analysis import CompiledQuery
from dpsql.analysis.column_types import give_types
from dpsql.engines.protocol import Untranslatable
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.writer import aggregates, calls, conditions, expressions, operators, queries
from dpsql.engines.writer.context import Rule, Writer, check_cost
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.public import PublicRelation
from dpsql.engines.writer.value import TargetColumn
from dpsql.kernel.tree import Expr, Query, Scan, walk
from dpsql.lazy_dataclass import dataclass

RULES: dict[type[Expr], Rule] = {
    **expressions.RULES,
    **conditions.RULES,
    **operators.RULES,
    **calls.RULES,
    **aggregates.RULES,
    **queries.RULES,
}
"""The rule of each node type of an expression; `queries.QUERIES` and `SOURCES` have those of the others."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A statement in an engine's SQL: the text, its columns, and the public relations that it names."""

    sql: str
    columns: tuple[TargetColumn, ...]
    public: tuple[PublicRelation, ...]
    tables: frozenset[str] | None = None
    """The declared tables that it reads; None: they are not told apart."""


def translate(
    compiled: CompiledQuery,
    dialect: Dialect,
    schema_database: SchemaDatabase,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Write a compiled query; raises `Untranslatable`. No private row is read."""
    translated = _write_typed(compiled.query, dialect, schema_database, private, cache)
    wanted = [f"k{i}" for i in range(len(compiled.keys))] + [f"n{i}" for i in range(compiled.counts)]
    wanted += compiled.places
    if [c.name for c in translated.columns] != wanted:
        raise Untranslatable("the translated statement has other columns")
    return translated


def write(
    query: Query,
    dialect: Dialect,
    schema_database: SchemaDatabase,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Write a query with DuckDB's meaning in the dialect of an engine; raises `Untranslatable`."""
    typed = give_types(query, schema_database.stored_types)
    return _write_typed(typed, dialect, schema_database, private, cache)


def _write_typed(
    query: Query,
    dialect: Dialect,
    schema_database: SchemaDatabase,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Write a query whose columns have their types, as those of compiled queries do."""
    work = Writer(dialect, schema_database, private, cache, RULES)
    try:
        written = queries.query(work, query, None)
    except RecursionError:
        raise Untranslatable("the statement is nested too deeply for this engine") from None
    check_cost(written.cost, written.sql, dialect)
    return Translated(written.sql, written.columns, tuple(work.public.values()), tables_of(query))


def tables_of(query: Query) -> frozenset[str]:
    """Return the declared tables that a query scans."""
    return frozenset(node.table for node in walk(query) if isinstance(node, Scan))
