"""Write the query tree as DuckDB's SQL, in time linear in the length of the text."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from dpsql.errors import InternalError
from dpsql.tree import expressions as e
from dpsql.tree import relations as r
from dpsql.tree.node import Expr

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpsql.tree.node import Node
    from dpsql.types import SqlType

    Pieces = Sequence[str | Node]


def duckdb_sql(node: Node) -> str:
    """Return the SQL of an expression, a query or an item of FROM."""
    if isinstance(node, e.Column) and not node.stored:  # the most frequent one
        return f"{node.table}.{node.name}" if node.table else node.name
    written: list[str] = []
    waiting: list[str | Node] = [node]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, str):
            written.append(piece)
        else:
            pieces = _expression(piece) if isinstance(piece, Expr) else _relation(piece)
            waiting += pieces[::-1]
    return "".join(written)


def literal_sql(text: str) -> str:
    """Write a text as a SQL literal.

    >>> literal_sql("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def quote(name: str) -> str:
    """Write a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def _joined(nodes: Iterable[Node], separator: str = ", ") -> list[str | Node]:
    """Return nodes with a separator between them."""
    pieces: list[str | Node] = []
    for node in nodes:
        pieces += (separator, node) if pieces else (node,)
    return pieces


def _expression(node: Expr) -> Pieces:
    match node:
        case e.Column(table, name, stored):
            shown = quote(name) if stored else name
            return (f"{table}.{shown}" if table else shown,)
        case e.Paren(inner):
            return "(", inner, ")"
        case e.Binary(operator, left, right):
            return left, f" {operator} ", right
        case e.Constant(value, sql_type):
            return (_constant(value, sql_type),)
        case e.Apply(form, arguments):
            return [piece if isinstance(piece, str) else arguments[piece] for piece in _split(form)]
        case e.Cast(operand, sql_type, safe):
            return "TRY_CAST(" if safe else "CAST(", operand, f" AS {sql_type})"
        case e.Try(operand):
            return "TRY(", operand, ")"
        case e.Call(name, arguments):
            return f"{name}(", *_joined(arguments), ")"
        case e.Aggregate():
            return _aggregate(node)
        case e.Not(operand):
            return "NOT ", operand
        case e.IsNull(operand, negated):
            return operand, " IS NOT NULL" if negated else " IS NULL"
        case e.IsTruth(operand, value):
            return operand, " IS TRUE" if value else " IS FALSE"
        case e.InList(operand, items):
            return operand, " IN (", *_joined(items), ")"
        case e.Between(operand, low, high):
            return operand, " BETWEEN ", low, " AND ", high
        case e.Like(operand, word, pattern, escape):
            return operand, f" {word} ", pattern, *_clause(" ESCAPE ", escape)
        case e.Case(branches, default):
            whens = [piece for when, then in branches for piece in (" WHEN ", when, " THEN ", then)]
            return "CASE", *whens, *_clause(" ELSE ", default), " END"
        case e.Canonical(operand):
            return "(CASE WHEN isnan(", operand, ") THEN CAST('nan' AS DOUBLE) ELSE ", operand, " + 0.0 END)"
        case e.Steps():
            return _steps(node)
        case e.Unscaled(operand, sql_type):
            return _unscaled(operand, sql_type)
        case e.Window():
            return _window(node)
        case e.InQuery(operand, query):
            return operand, " IN (", query, ")"
        case e.Exists(query):
            return "EXISTS (", query, ")"
        case e.ScalarQuery(query):
            return "(", query, ")"
        case e.Unary(operator, operand):
            return operator, operand
        case e.Interval(text):
            return (f"INTERVAL '{text}'",)
        case e.ListOf(items):
            return "[", *_joined(items), "]"
        case e.Element(operand, index):
            return operand, "[", index, "]"
        case e.Slice(operand, low, high):
            return operand, f"[{low}:{high}]"
        case e.Parameter(name):
            return (name,)
        case e.Lambda(parameter, body):
            return f"lambda {parameter}: ", body
    raise InternalError(f"this is a bug of dpsql, nothing was run or charged: {type(node).__name__}")


def _relation(node: Node) -> Pieces:
    match node:
        case r.Item(expr, name):
            return expr, f" AS {name}" if name else ""
        case r.Derived(query, alias):
            return "(", query, f") AS {alias}"
        case r.Select():
            return _select(node)
        case r.Join(left, kind, right, on):
            return left, f" {kind} JOIN " if kind else " JOIN ", right, *_clause(" ON ", on)
        case r.Scan(table, alias):
            return (f"main.{quote(table)} AS {alias}",)
        case r.DomainScan(name):
            return (f"{r.DOMAIN_SCHEMA}.{name}",)
        case r.SetOperation(left, word, right):
            return left, f" {word} ", right
        case r.Values(rows, alias, columns):
            listed = [piece for row in rows for piece in (", (", *_joined(row), ")")]
            return "(VALUES (", *listed[1:], f") AS {alias}({', '.join(columns)})"
        case r.Range(start, stop, step, alias, column):
            more = "" if step is None else f", {step}"
            return (f"range({start}, {stop}{more}) AS {alias}({column})",)
        case r.Unnest(items, alias):
            return "UNNEST(", items, f") AS {alias}(c0)"
        case e.OrderTerm(expr, direction, nulls):
            return expr, f" {direction}" if direction else "", f" NULLS {nulls}" if nulls else ""
    raise InternalError(f"this is a bug of dpsql, nothing was run or charged: {type(node).__name__}")


def _constant(value: object, sql_type: SqlType) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return literal_sql(value)
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return f"CAST({value!r} AS DOUBLE)"
        case date():
            return f"{sql_type} '{value}'"
        case Decimal():
            fits = 0 < sql_type.scale < sql_type.precision  # the number alone has a digit before its point
            return f"{'CAST' if fits else 'TRY_CAST'}({value:f} AS {sql_type})"
    return str(value)


@cache
def _split(form: str) -> tuple[str | int, ...]:
    """Split a form into texts and the places of arguments.

    >>> _split("pow({0},{1})")
    ('pow(', 0, ',', 1, ')')
    """
    parts = re.split(r"\{(\d+)\}", form)
    return tuple(int(part) if i % 2 else part for i, part in enumerate(parts) if part)


def _clause(word: str, part: Node | None) -> Pieces:
    return () if part is None else (word, part)


def _list_clause(word: str, parts: Iterable[Node]) -> Pieces:
    pieces = _joined(parts)
    return (word, *pieces) if pieces else ()


def _aggregate(node: e.Aggregate) -> Pieces:
    arguments = _joined(node.arguments) or ["*"]
    order = _list_clause(" ORDER BY ", node.order)
    where = () if node.filter is None else (" FILTER (WHERE ", node.filter, ")")
    return f"{node.name}(DISTINCT " if node.distinct else f"{node.name}(", *arguments, *order, ")", *where


def _steps(node: e.Steps) -> Pieces:
    ends = (float(node.low * node.step), float(node.high * node.step))
    constants = (*ends, float(1 / node.step), 0.5, "'inf'")
    low, high, factor, half, infinity = (f"CAST({x} AS DOUBLE)" for x in constants)
    x = node.operand
    inside = ("TRY_CAST(floor(", x, f" * {factor} + {half}) AS BIGINT)")
    # NaN is greater than infinity, and only NaN and NULL meet no condition.
    below, above = (f" < {low} THEN {node.low} WHEN ", f" <= {infinity} THEN {node.high} END)")
    return "(CASE WHEN ", x, below, x, f" <= {high} THEN ", *inside, " WHEN ", x, above


def _unscaled(operand: Expr, sql_type: SqlType) -> Pieces:
    scale, factor = sql_type.scale, 10**sql_type.scale
    kind = "BIGINT" if sql_type.precision <= 18 else "HUGEINT"
    # The product has a digit more than both have; of two 64-bit numbers, the engine makes a 64-bit product.
    if sql_type.precision + scale < 18:
        return "TRY_CAST(", operand, f" * {factor} AS {kind})"
    if sql_type.precision + scale < 38:
        return "TRY_CAST(TRY_CAST(", operand, f" AS DECIMAL(38,{scale})) * {factor} AS {kind})"
    whole = ("TRY_CAST(trunc(", operand, ") AS ")
    rest = ("(", operand, " - ", *whole, f"DECIMAL(38,{scale})))")
    return "(", *whole, f"HUGEINT) * {factor} + TRY_CAST(", *rest, f" * {factor} AS HUGEINT))"


def _window(node: e.Window) -> Pieces:
    partition = [*_list_clause("PARTITION BY ", node.partition)]
    order = [*_list_clause(" ORDER BY " if partition else "ORDER BY ", node.order)]
    frame = _frame(node.frame) if node.frame is not None else ""
    space = " " if frame and (partition or order) else ""
    return node.function, " OVER (", *partition, *order, f"{space}{frame})"


def _frame(frame: e.Frame) -> str:
    if frame.end is None:
        return f"{frame.unit} {_bound(frame.start)}"
    return f"{frame.unit} BETWEEN {_bound(frame.start)} AND {_bound(frame.end)}"


def _bound(bound: e.Bound) -> str:
    if bound.side == "CURRENT ROW":
        return bound.side
    return f"{'UNBOUNDED' if bound.offset is None else bound.offset} {bound.side}"


def _select(node: r.Select) -> Pieces:
    return (
        "SELECT DISTINCT " if node.distinct else "SELECT ",
        *_joined(node.items),
        *_clause(" FROM ", node.source),
        *_clause(" WHERE ", node.where),
        *_list_clause(" GROUP BY ", node.group),
        *_list_clause(" ORDER BY ", node.order),
        "" if node.limit is None else f" LIMIT {node.limit}",
    )
