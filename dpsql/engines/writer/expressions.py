"""Rules of columns, CASE, conversions, and the nodes around other expressions."""

from __future__ import annotations

from dataclasses import replace

from dpsql import tree
from dpsql.engines.writer.conditions import condition
from dpsql.engines.writer.context import ColumnScope, Rule, Writer
from dpsql.engines.writer.value import Value, joint_range
from dpsql.tree import Expr, expanded
from dpsql.types import JSON, NULL


def _column(work: Writer, node: tree.Column, scope: ColumnScope) -> Value:
    found = scope.column(node.table, node.name)
    if found is None:
        raise work.refuse("a column that no table in scope has")
    quote = work.dialect.quote
    sql = f"{quote(node.table)}.{quote(found.name)}"
    return Value(sql, found.type, found.value_range, one_zero=True)


def _null(work: Writer, node: tree.Constant, scope: ColumnScope) -> Value:
    return Value("NULL", NULL, constant=None)


def _paren(work: Writer, node: tree.Paren, scope: ColumnScope) -> Value:
    return work.expression(node.inner, scope)


def _try(work: Writer, node: tree.Try, scope: ColumnScope) -> Value:
    """Write the operand alone: every form of an engine is total."""
    return work.expression(node.operand, scope)


def _apply(work: Writer, node: tree.Apply, scope: ColumnScope) -> Value:
    return work.expression(expanded(node), scope)


def _case(work: Writer, node: tree.Case, scope: ColumnScope) -> Value:
    conditions = [condition(work, wanted, scope) for wanted, _ in node.branches]
    nodes = [result for _, result in node.branches] + ([] if node.default is None else [node.default])
    results = [work.expression(result, scope) for result in nodes]
    texts, sql_type = work.common(results)
    text = " ".join(f"WHEN {c} THEN {t}" for c, t in zip(conditions, texts, strict=False))
    tail = f" ELSE {texts[-1]}" if node.default is not None else ""
    return Value(f"(CASE {text}{tail} END)", sql_type, joint_range(results))


def _canonical(work: Writer, node: tree.Canonical, scope: ColumnScope) -> Value:
    return work.dialect.canonical(work.expression(node.operand, scope))


def _cast(work: Writer, node: tree.Cast, scope: ColumnScope) -> Value:
    value = work.expression(node.operand, scope)
    if node.type == JSON:
        raise work.refuse("a conversion to JSON")
    if value.type == NULL:
        return Value(work.dialect.constant(None, node.type), node.type, constant=None)
    if value.type == node.type:
        return value
    return replace(work.dialect.cast(value, node.type), one_zero=True)


def _unsupported(what: str) -> Rule:
    def refuse(work: Writer, node: Expr, scope: ColumnScope) -> Value:
        raise work.refuse(what)

    return refuse


RULES: dict[type[Expr], Rule] = {
    tree.Column: _column,
    tree.Constant: _null,
    tree.Paren: _paren,
    tree.Try: _try,
    tree.Apply: _apply,
    tree.Case: _case,
    tree.Canonical: _canonical,
    tree.Cast: _cast,
    tree.Interval: _unsupported("this INTERVAL"),
    tree.ListOf: _unsupported("a list"),
    tree.Element: _unsupported("elements of lists"),
    tree.Lambda: _unsupported("a function of a list's elements"),
}
"""The rule of each node type."""
