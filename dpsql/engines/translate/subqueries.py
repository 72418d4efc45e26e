"""Rules of subqueries in expressions: IN, EXISTS and scalar subqueries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.engines.translate.context import check_parts, expression
from dpsql.engines.translate.relations import subquery
from dpsql.engines.translate.scalar import check_comparable
from dpsql.engines.translate.value import Value, type_family
from dpsql.types import BOOLEAN, NULL

if TYPE_CHECKING:
    from dpsql.engines.translate.context import ColumnScope, Rule, Translation

__all__ = ["RULES"]


def _in(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "expressions", "query")
    value = expression(work, node.this, scope)
    if node.args.get("query") is not None:
        relation = subquery(work, node.args["query"], scope)
        if len(relation.columns) != 1 or type_family(relation.columns[0].type) != type_family(value.type):
            raise work.refuse("IN over a subquery of another type")
        return Value(f"({value.sql} IN ({relation.sql}))", BOOLEAN)
    items = [expression(work, item, scope) for item in node.expressions]
    for item in items:
        check_comparable(work, value, item)
    listed = ", ".join(
        work.dialect.in_type(item, value.type) if item.type == NULL else item.sql for item in items
    )
    return Value(f"({value.sql} IN ({listed}))", BOOLEAN)


def _exists(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this")
    return Value(f"(EXISTS ({subquery(work, node.this, scope).sql}))", BOOLEAN)


def _scalar(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    """Translate a scalar subquery; the analysis has made sure that it has one row."""
    check_parts(work, node, "this")
    relation = subquery(work, node, scope)
    if len(relation.columns) != 1:
        raise work.refuse("a scalar subquery of several columns")
    column = relation.columns[0]
    return Value(f"({relation.sql})", column.type, column.value_range)


RULES: dict[type[exp.Expr], Rule] = {exp.In: _in, exp.Exists: _exists, exp.Subquery: _scalar}
"""The rule of each node type."""
