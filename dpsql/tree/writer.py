"""Write the query tree as DuckDB's SQL: one function for each node type, linear in the text's length."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from dpsql.tree import expressions as e
from dpsql.tree import relations as r

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dpsql.tree.node import Node
    from dpsql.types import SqlType

    Put = Callable[[str], object]

__all__ = ["duckdb_sql", "literal_sql", "quote"]


def duckdb_sql(node: Node) -> str:
    """Return the SQL of an expression, a query or an item of FROM."""
    if type(node) is e.Column and not node.stored and node.table:
        return f"{node.table}.{node.name}"
    parts: list[str] = []
    _write(node, parts.append)
    return "".join(parts)


def literal_sql(text: str) -> str:
    """Write a text as a SQL literal.

    >>> literal_sql("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def quote(name: str) -> str:
    """Write a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def _write(node: Node, put: Put) -> None:
    _WRITERS[type(node)](node, put)


def _listed(nodes: Iterable[Node], put: Put) -> None:
    first = True
    for node in nodes:
        if not first:
            put(", ")
        first = False
        _WRITERS[type(node)](node, put)


def _column(node: e.Column, put: Put) -> None:
    name = quote(node.name) if node.stored else node.name
    put(f"{node.table}.{name}" if node.table else name)


def constant_sql(value: object, sql_type: SqlType) -> str:
    """Write a constant."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return literal_sql(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"CAST({value!r} AS DOUBLE)"
    if isinstance(value, date):
        return f"{sql_type} '{value}'"
    if isinstance(value, Decimal):
        return f"{'CAST' if sql_type.scale else 'TRY_CAST'}({value:f} AS {sql_type})"
    return str(value)


def _constant(node: e.Constant, put: Put) -> None:
    put(constant_sql(node.value, node.type))


def _interval(node: e.Interval, put: Put) -> None:
    put(f"INTERVAL '{node.text}'")


def _list(node: e.ListOf, put: Put) -> None:
    put("[")
    _listed(node.items, put)
    put("]")


def _unary(node: e.Unary, put: Put) -> None:
    put(node.operator)
    _write(node.operand, put)


def _paren(node: e.Paren, put: Put) -> None:
    put("(")
    _WRITERS[type(node.inner)](node.inner, put)
    put(")")


def _binary(node: e.Binary, put: Put) -> None:
    _WRITERS[type(node.left)](node.left, put)
    put(f" {node.operator} ")
    _WRITERS[type(node.right)](node.right, put)


def _between(node: e.Between, put: Put) -> None:
    _write(node.operand, put)
    put(" BETWEEN ")
    _write(node.low, put)
    put(" AND ")
    _write(node.high, put)


def _not(node: e.Not, put: Put) -> None:
    put("NOT ")
    _write(node.operand, put)


def _is_null(node: e.IsNull, put: Put) -> None:
    _write(node.operand, put)
    put(" IS NOT NULL" if node.negated else " IS NULL")


def _is_truth(node: e.IsTruth, put: Put) -> None:
    _write(node.operand, put)
    put(" IS TRUE" if node.value else " IS FALSE")


def _like(node: e.Like, put: Put) -> None:
    _write(node.operand, put)
    put(f" {node.word} ")
    _write(node.pattern, put)
    if node.escape is not None:
        put(" ESCAPE ")
        _write(node.escape, put)


def _in_list(node: e.InList, put: Put) -> None:
    _write(node.operand, put)
    put(" IN (")
    _listed(node.items, put)
    put(")")


def _case(node: e.Case, put: Put) -> None:
    put("CASE")
    for condition, result in node.branches:
        put(" WHEN ")
        _write(condition, put)
        put(" THEN ")
        _write(result, put)
    if node.default is not None:
        put(" ELSE ")
        _write(node.default, put)
    put(" END")


def _cast(node: e.Cast, put: Put) -> None:
    put("TRY_CAST(" if node.safe else "CAST(")
    _WRITERS[type(node.operand)](node.operand, put)
    put(f" AS {node.type})")


def _try(node: e.Try, put: Put) -> None:
    put("TRY(")
    _WRITERS[type(node.operand)](node.operand, put)
    put(")")


def _canonical(node: e.Canonical, put: Put) -> None:
    put("(CASE WHEN isnan(")
    _write(node.operand, put)
    put(") THEN CAST('nan' AS DOUBLE) ELSE ")
    _write(node.operand, put)
    put(" + 0.0 END)")


def _call(node: e.Call, put: Put) -> None:
    put(f"{node.name}(")
    _listed(node.arguments, put)
    put(")")


@cache
def _pieces(form: str) -> tuple[str | int, ...]:
    """Split a form into texts and the places of arguments.

    >>> _pieces("pow({0},{1})")
    ('pow(', 0, ',', 1, ')')
    """
    parts = re.split(r"\{(\d+)\}", form)
    return tuple(int(part) if i % 2 else part for i, part in enumerate(parts) if part)


def _apply(node: e.Apply, put: Put) -> None:
    for piece in _pieces(node.form):
        if isinstance(piece, str):
            put(piece)
        else:
            argument = node.arguments[piece]
            _WRITERS[type(argument)](argument, put)


def _element(node: e.Element, put: Put) -> None:
    _write(node.operand, put)
    put("[")
    _write(node.index, put)
    put("]")


def _slice(node: e.Slice, put: Put) -> None:
    _write(node.operand, put)
    put(f"[{node.low}:{node.high}]")


def _parameter(node: e.Parameter, put: Put) -> None:
    put(node.name)


def _lambda(node: e.Lambda, put: Put) -> None:
    put(f"lambda {node.parameter}: ")
    _write(node.body, put)


def _order(terms: Iterable[e.OrderTerm], put: Put) -> None:
    put("ORDER BY ")
    first = True
    for term in terms:
        if not first:
            put(", ")
        first = False
        _write(term.expr, put)
        if term.direction:
            put(f" {term.direction}")
        if term.nulls:
            put(f" NULLS {term.nulls}")


def _aggregate(node: e.Aggregate, put: Put) -> None:
    put(f"{node.name}(DISTINCT " if node.distinct else f"{node.name}(")
    if node.arguments:
        _listed(node.arguments, put)
    else:
        put("*")
    if node.order:
        put(" ")
        _order(node.order, put)
    put(")")
    if node.filter is not None:
        put(" FILTER (WHERE ")
        _write(node.filter, put)
        put(")")


def _bound(bound: e.Bound) -> str:
    if bound.side == "CURRENT ROW":
        return bound.side
    return f"{'UNBOUNDED' if bound.offset is None else bound.offset} {bound.side}"


def _window(node: e.Window, put: Put) -> None:
    _write(node.function, put)
    put(" OVER (")
    space = ""
    if node.partition:
        put("PARTITION BY ")
        _listed(node.partition, put)
        space = " "
    if node.order:
        put(space)
        _order(node.order, put)
        space = " "
    if node.frame is not None:
        start, end = node.frame.start, node.frame.end
        edges = _bound(start) if end is None else f"BETWEEN {_bound(start)} AND {_bound(end)}"
        put(f"{space}{node.frame.unit} {edges}")
    put(")")


def _in_query(node: e.InQuery, put: Put) -> None:
    _write(node.operand, put)
    put(" IN (")
    _write(node.query, put)
    put(")")


def _exists(node: e.Exists, put: Put) -> None:
    put("EXISTS (")
    _write(node.query, put)
    put(")")


def _scalar(node: e.ScalarQuery, put: Put) -> None:
    put("(")
    _write(node.query, put)
    put(")")


def _text(node: e.Text | r.TextQuery | r.TextSource, put: Put) -> None:
    put(node.sql)


def _items(items: Iterable[r.Item], put: Put) -> None:
    first = True
    for item in items:
        if not first:
            put(", ")
        first = False
        _WRITERS[type(item.expr)](item.expr, put)
        if item.name:
            put(f" AS {item.name}")


def _select(node: r.Select, put: Put) -> None:
    put("SELECT DISTINCT " if node.distinct else "SELECT ")
    _items(node.items, put)
    if node.source is not None:
        put(" FROM ")
        _write(node.source, put)
    if node.where is not None:
        put(" WHERE ")
        _write(node.where, put)
    if node.group:
        put(" GROUP BY ")
        _listed(node.group, put)
    if node.order:
        put(" ")
        _order(node.order, put)
    if node.limit is not None:
        put(f" LIMIT {node.limit}")


def _set_operation(node: r.SetOperation, put: Put) -> None:
    _write(node.left, put)
    put(f" {node.word} ")
    _write(node.right, put)


def _scan(node: r.Scan, put: Put) -> None:
    put(f"main.{quote(node.table)} AS {node.alias}")


def _domain_scan(node: r.DomainScan, put: Put) -> None:
    put(f"{r.DOMAIN_SCHEMA}.{node.name}")


def _derived(node: r.Derived, put: Put) -> None:
    put("(")
    _write(node.query, put)
    put(f") AS {node.alias}")


def _values(node: r.Values, put: Put) -> None:
    put("(VALUES ")
    for i, row in enumerate(node.rows):
        put(", (" if i else "(")
        _listed(row, put)
        put(")")
    put(f") AS {node.alias}({', '.join(node.columns)})")


def _range(node: r.Range, put: Put) -> None:
    step = "" if node.step is None else f", {node.step}"
    put(f"range({node.start}, {node.stop}{step}) AS {node.alias}({node.column})")


def _unnest(node: r.Unnest, put: Put) -> None:
    put("UNNEST(")
    _write(node.items, put)
    put(f") AS {node.alias}(c0)")


def _join(node: r.Join, put: Put) -> None:
    _write(node.left, put)
    put(f" {node.kind} JOIN " if node.kind else " JOIN ")
    _write(node.right, put)
    if node.on is not None:
        put(" ON ")
        _write(node.on, put)


_WRITERS: dict[type[Node], Callable[..., None]] = {
    e.Column: _column,
    e.Constant: _constant,
    e.Interval: _interval,
    e.ListOf: _list,
    e.Unary: _unary,
    e.Paren: _paren,
    e.Binary: _binary,
    e.Between: _between,
    e.Not: _not,
    e.IsNull: _is_null,
    e.IsTruth: _is_truth,
    e.Like: _like,
    e.InList: _in_list,
    e.Case: _case,
    e.Cast: _cast,
    e.Try: _try,
    e.Canonical: _canonical,
    e.Call: _call,
    e.Apply: _apply,
    e.Element: _element,
    e.Slice: _slice,
    e.Parameter: _parameter,
    e.Lambda: _lambda,
    e.Aggregate: _aggregate,
    e.Window: _window,
    e.InQuery: _in_query,
    e.Exists: _exists,
    e.ScalarQuery: _scalar,
    e.Text: _text,
    r.Select: _select,
    r.SetOperation: _set_operation,
    r.Scan: _scan,
    r.DomainScan: _domain_scan,
    r.Derived: _derived,
    r.Values: _values,
    r.Range: _range,
    r.Unnest: _unnest,
    r.Join: _join,
    r.TextQuery: _text,
    r.TextSource: _text,
}
"""The function that writes each node type."""
