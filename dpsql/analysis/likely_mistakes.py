"""Tell of forms that are answered as SQL says, and that are mostly mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.analysis.compiler import (
    StatementCompiler,
    list_declared_tables,
    list_equated_columns,
)
from dpsql.language import find_nodes, list_conjuncts, read_clause, walk_tree
from dpsql.policy import Assumed, fold

_REPEATED = frozenset({"sum", "count", "avg"})
"""Aggregates that a repeated row changes."""


def note_likely_mistakes(compiler: StatementCompiler, select: exp.Select) -> None:
    """Note what a block asks and hardly means, to be shown with the answer."""
    for told in (
        *_texts_for_columns(compiler, select),
        *_repeated_rows(compiler, select),
        *_joined_with_all(select),
        *_lost_rows(select),
        *_always_true(select),
        *_counted_else(select),
        *_divided_keys(select),
    ):
        compiler.assume(Assumed(told))


def _texts_for_columns(compiler: StatementCompiler, select: exp.Select) -> Iterator[str]:
    """Yield the texts of the select list that are names of columns: `SELECT 'clinic', COUNT(*)`."""
    declared = list_declared_tables(compiler.policy, select)
    names = {name for _, table in declared for name, _ in compiler.catalog.columns(table.name)}
    for item in select.expressions:
        if isinstance(item, exp.Literal) and item.is_string and item.name in names:
            yield f"'{item.name}' is a text, the same in each row: without quotes it is the column"


def _repeated_rows(compiler: StatementCompiler, select: exp.Select) -> Iterator[str]:
    """Yield which aggregates read rows that a join repeats: `SUM(o.total)` beside the items of orders."""
    declared = list_declared_tables(compiler.policy, select)
    tables = {fold(node.alias_or_name): table for node, table in declared}
    joins = select.args.get("joins") or ()
    conditions = (part for join in joins for part in list_conjuncts(join.args.get("on")))
    for mine, other in list_equated_columns(conditions):
        if not (mine.table and other.table):
            continue
        one, many = tables.get(fold(mine.table)), tables.get(fold(other.table))
        if one is None or many is None or not one.is_key(mine.name) or many.is_key(other.name):
            continue
        for item in select.expressions:
            for call in walk_tree(item):
                name = (aggregate_name(call) or "").lower()
                columns = [*find_nodes(call, exp.Column)] if name in _REPEATED else []
                own = columns and all(fold(c.table) == fold(mine.table) for c in columns)
                if own and not call.find(exp.Distinct) and not all(one.is_key(c.name) for c in columns):
                    read = f"{name.upper()}({columns[0].sql('duckdb')})"
                    yield f"{read} has a row of {one.name} once for each of its rows of {many.name}"


def _joined_with_all(select: exp.Select) -> Iterator[str]:
    """Yield the tables of FROM that a comma joins and no condition names."""
    where = select.args.get("where")
    for join in select.args.get("joins") or ():
        plain = not (join.args.get("on") or join.args.get("using") or join.args.get("kind") or join.method)
        alias = fold(join.this.alias_or_name)
        named = {fold(c.table) for c in find_nodes(where, exp.Column)} if where is not None else set()
        if plain and isinstance(join.this, exp.Table) and alias not in named and "" not in named:
            yield f"{join.this.name} is joined without a condition: each row with each of its rows"


def _lost_rows(select: exp.Select) -> Iterator[str]:
    """Yield the columns by which WHERE leaves out what LEFT JOIN has kept."""
    outer = {fold(j.this.alias_or_name) for j in select.args.get("joins") or () if j.side.upper() == "LEFT"}
    for part in list_conjuncts(read_clause(select)) if outer else ():
        compared = isinstance(part, (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like))
        compared = compared and not isinstance(part.args.get("expression"), exp.Null)  # told as such
        if compared and isinstance(part.this, exp.Column) and fold(part.this.table) in outer:
            name = part.this.sql("duckdb")
            yield f"the condition on {name} leaves out what LEFT JOIN has kept: in ON it does not"


def _always_true(select: exp.Select) -> Iterator[str]:
    """Yield columns that are to differ from one value or another, which each value does."""
    where = select.args.get("where")
    for part in find_nodes(where, exp.Or) if where is not None else ():
        sides = (part.this.unnest(), part.expression.unnest())
        if not all(isinstance(s, exp.NEQ) and isinstance(s.expression, exp.Literal) for s in sides):
            continue
        if sides[0].this == sides[1].this and sides[0].expression != sides[1].expression:
            name = sides[0].this.sql("duckdb")
            yield f"each {name} differs from one of both values: AND leaves both out"


def _counted_else(select: exp.Select) -> Iterator[str]:
    """Yield the ELSE of CASEs that COUNT counts, as it is not NULL."""
    for call in walk_tree(select):
        counted = call.expressions[0] if _is_count(call) and len(call.expressions) == 1 else None
        last = counted.args.get("default") if isinstance(counted, exp.Case) else None
        if isinstance(last, (exp.Literal, exp.Boolean)):
            yield f"COUNT counts the rows of ELSE {last.sql('duckdb')} as well: without ELSE they are NULL"


def _divided_keys(select: exp.Select) -> Iterator[str]:
    """Yield the keys `year / 10 * 10`, which divide into fractions that the product takes back."""
    for product in find_nodes(select, exp.Mul):
        divided = product.this.unnest()
        if isinstance(divided, exp.Div) and divided.expression == product.expression:
            yield f"{product.sql('duckdb')} keeps fractions: // divides into whole numbers"


def _is_count(call: exp.Expr) -> bool:
    return isinstance(call, exp.Func) and (aggregate_name(call) or "").lower() == "count"
