"""Rules of conditions: NOT, IS, comparisons, AND and OR, BETWEEN, IN over a list."""

from __future__ import annotations

from dpsql.engines.writer.context import ColumnScope, Rule, Writer
from dpsql.engines.writer.value import Value, type_family
from dpsql.kernel import tree
from dpsql.kernel.tree import Expr
from dpsql.types import BOOLEAN, NULL


def condition(work: Writer, node: Expr, scope: ColumnScope) -> str:
    """Write a BOOLEAN expression."""
    value = work.expression(node, scope)
    if value.type == NULL:
        return work.dialect.constant(None, BOOLEAN)
    if value.type != BOOLEAN:
        raise work.refuse("a condition that is not BOOLEAN")
    return value.sql


def _not(work: Writer, node: tree.Not, scope: ColumnScope) -> Value:
    return Value(f"(NOT {condition(work, node.operand, scope)})", BOOLEAN)


def _is_null(work: Writer, node: tree.IsNull, scope: ColumnScope) -> Value:
    word = "IS NOT NULL" if node.negated else "IS NULL"
    return Value(f"({work.expression(node.operand, scope).sql} {word})", BOOLEAN)


def _is_truth(work: Writer, node: tree.IsTruth, scope: ColumnScope) -> Value:
    word = "TRUE" if node.value else "FALSE"
    return Value(f"({condition(work, node.operand, scope)} IS {word})", BOOLEAN)


def check_comparable(work: Writer, a: Value, b: Value) -> None:
    """Refuse a comparison of types of two families, unless both are exact numbers: engines differ."""
    families = {type_family(a.type), type_family(b.type)} - {"0"}
    if len(families) > 1 and not families <= {"I", "B", "N"}:
        raise work.refuse(f"a comparison of {a.type} with {b.type}")


def _logical(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    left, right = condition(work, node.left, scope), condition(work, node.right, scope)
    return Value(f"({left} {node.operator} {right})", BOOLEAN)


def _comparison(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    left, right = work.expression(node.left, scope), work.expression(node.right, scope)
    check_comparable(work, left, right)
    if NULL in (left.type, right.type):
        return Value(work.dialect.constant(None, BOOLEAN), BOOLEAN)
    return Value(f"({left.sql} {node.operator} {right.sql})", BOOLEAN)


def _distinct(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    left, right = work.expression(node.left, scope), work.expression(node.right, scope)
    check_comparable(work, left, right)
    if NULL in (left.type, right.type):
        raise work.refuse("IS DISTINCT FROM NULL")
    negated = node.operator == "IS NOT DISTINCT FROM"
    if negated and isinstance(node.left, tree.Column) and isinstance(node.right, tree.Column):
        return Value(f"({work.dialect.same_column(left, right)})", BOOLEAN)
    return Value(f"({work.dialect.is_distinct(left.sql, right.sql, negated=negated)})", BOOLEAN)


def _between(work: Writer, node: tree.Between, scope: ColumnScope) -> Value:
    value, low, high = (work.expression(n, scope) for n in (node.operand, node.low, node.high))
    check_comparable(work, value, low)
    check_comparable(work, value, high)
    return work.once(
        [value, low, high],
        lambda v: Value(f"(({v[0].sql} >= {v[1].sql}) AND ({v[0].sql} <= {v[2].sql}))", BOOLEAN),
    )


def _in_list(work: Writer, node: tree.InList, scope: ColumnScope) -> Value:
    value, items = work.expression(node.operand, scope), [work.expression(i, scope) for i in node.items]
    for item in items:
        check_comparable(work, value, item)
    listed = ", ".join(work.dialect.in_type(i, value.type) if i.type == NULL else i.sql for i in items)
    return Value(f"({value.sql} IN ({listed}))", BOOLEAN)


OPERATORS: dict[str, Rule] = {
    **dict.fromkeys(("AND", "OR"), _logical),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _comparison),
    **dict.fromkeys(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"), _distinct),
}
"""The rule of each operator between two operands."""

RULES: dict[type[Expr], Rule] = {
    tree.Not: _not,
    tree.IsNull: _is_null,
    tree.IsTruth: _is_truth,
    tree.Between: _between,
    tree.InList: _in_list,
}
"""The rule of each node type."""
