"""Parses the text of a compiled query, and writes parts of the tree back for DuckDB to compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError

from dpsql.engines.translate.value import Untranslatable
from dpsql.language import MARK
from dpsql.language.tokens import mark_functions

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["call", "parsed", "text_of"]


def parsed(sql: str) -> exp.Expr:
    """Parse a compiled query; every function call becomes an `exp.Anonymous` with its name."""
    tree: exp.Expr | None = None
    try:
        dialect = DuckDB()
        parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        trees = parser.parse(mark_functions(list(dialect.tokenize(sql))), sql)
        tree = trees[0] if len(trees) == 1 else None
    except (SqlglotError, RecursionError):
        tree = None
    if tree is None:
        raise Untranslatable("the compiled statement does not parse")
    return tree


def text_of(node: exp.Expr) -> str:
    """Write a part of the tree as DuckDB SQL; refuse a text that does not parse to the same tree."""
    copy = node.copy()
    for part in copy.walk():
        name = call(part)
        if name is not None:
            part.set("this", name)
    sql = copy.sql("duckdb", comments=False, normalize_functions=False)
    again = parsed(f"SELECT {sql}").expressions[0] if not _query(node) else parsed(sql)
    if again != node:
        raise Untranslatable(
            "a constant part of the statement does not parse to the tree it was written from"
        )
    return sql


def _query(node: exp.Expr) -> bool:
    return node.key in ("select", "union", "except", "intersect")


def call(node: exp.Expr) -> str | None:
    """Return the name of a function call, in lower case; None for other nodes."""
    if node.key != "anonymous" or not isinstance(node.this, str):
        return None
    return node.this.removeprefix(MARK).lower()
