"""Read a query tree from SQL as the kernel writes it, so that a tree by hand is text.

Quoted names are columns and tables that are declared. `dpsql_domain.d1` is the table of a domain. It has the
nodes that queries are made of, not the forms of single functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp

from dpsql.kernel.tree import (
    Aggregate,
    Between,
    Binary,
    Bound,
    Call,
    Candidates,
    Case,
    Cast,
    Column,
    Constant,
    Decided,
    Derived,
    DomainScan,
    Element,
    Exists,
    Expr,
    Frame,
    InList,
    InQuery,
    IsNull,
    IsTruth,
    Item,
    Join,
    ListOf,
    Not,
    OnDomain,
    OrderTerm,
    Paren,
    Query,
    Range,
    ScalarQuery,
    Scan,
    Select,
    SetOperation,
    Source,
    Try,
    Unary,
    Unnest,
    Values,
    Window,
)
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, VARCHAR, SqlType, column_type

__all__ = ["tree_of"]

OPERATORS = {
    exp.And: "AND",
    exp.Or: "OR",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
CALLS = {
    exp.Coalesce: "COALESCE",
    exp.Least: "LEAST",
    exp.Greatest: "GREATEST",
    exp.Nullif: "NULLIF",
    exp.Abs: "abs",
}


def tree_of(sql: str) -> Query:
    """Return the tree of a query; groups of a domain, and those that a number decides, are nodes."""
    return _of_groups(_query(sqlglot.parse_one(sql, dialect="duckdb")))


_NUMBER = Call("COALESCE", (Column("g", "n0"), Constant(0, BIGINT)))


def _of_groups(query: Query) -> Query:
    """Return the node of queries that are written as `OnDomain` and `Decided` are; else the query itself."""
    match query:
        case Select(
            (Item(Column("d0", name) as value, "k0"), Item(number, "n0")),
            Join(listed, "LEFT", Derived(groups, "g"), Binary(word, left, right)),
            None,
            (),
            (),
            None,
            False,
        ) if number == _NUMBER and {left, right} == {Column("g", "k0"), Column("d0", name)}:
            values = Select((Item(value, "v"),), listed)
            return OnDomain(groups, 1, (Candidates(values, (0,), word != "=", ordered=False),), places=False)
        case Select((_, _), Derived(groups, table)):
            k, n = Column(table, "k0"), Column(table, "n0")
            there = Select((Item(k, "k0"), Item(n, "n0")), query.source, Binary(">", n, Constant(0, BIGINT)))
            first = OrderTerm(n, "DESC"), OrderTerm(k)
            if query in (there, replace(there, order=first, limit=query.limit)):
                return Decided(groups, 1, 1, 0, query.limit)
    return query


def _query(node: Any) -> Query:
    if isinstance(node, exp.SetOperation):
        words = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
        word = words[type(node)] + ("" if node.args["distinct"] else " ALL")
        return SetOperation(_query(node.this), word, _query(node.expression))
    if isinstance(node, exp.Subquery):
        return _query(node.this)
    assert isinstance(node, exp.Select), repr(node)
    args = node.args
    source = None if args.get("from_") is None else _source(args["from_"].this)
    for join in args.get("joins") or ():
        assert source is not None
        kind = " ".join(filter(None, (join.side, join.kind)))
        kind = kind or ("" if join.args.get("on") is not None else "CROSS")
        source = Join(source, kind, _source(join.this), _maybe(join.args.get("on")))
    limit = args.get("limit")
    return Select(
        tuple(map(_item, node.expressions)),
        source,
        None if args.get("where") is None else _expr(args["where"].this),
        () if args.get("group") is None else tuple(map(_expr, args["group"].expressions)),
        _order(args.get("order")),
        None if limit is None else int(limit.expression.this),
        args.get("distinct") is not None,
    )


def _item(node: Any) -> Item:
    return Item(_expr(node.this), node.alias) if isinstance(node, exp.Alias) else Item(_expr(node))


def _source(node: Any) -> Source:
    alias = node.alias
    columns = [name.name for name in node.args["alias"].columns] if alias else []
    match node:
        case exp.Subquery():
            return Derived(_query(node.this), alias)
        case exp.Values():
            rows = tuple(tuple(map(_expr, row.expressions)) for row in node.expressions)
            return Values(rows, alias, tuple(columns))
        case exp.Unnest():
            return Unnest(_expr(node.expressions[0]), alias)
        case exp.Table(this=exp.GenerateSeries() as series):
            start, stop = (int(series.args[end].this) for end in ("start", "end"))
            return Range(start, stop, alias=alias, column=columns[0])
        case exp.Table():
            return DomainScan(node.name) if node.db == "dpsql_domain" else Scan(node.name, alias)
    raise NotImplementedError(repr(node))


def _order(node: Any) -> tuple[OrderTerm, ...]:
    if node is None:
        return ()
    terms = []
    for term in node.expressions:
        nulls = "FIRST" if term.args.get("nulls_first") else ""
        terms.append(OrderTerm(_expr(term.this), "DESC" if term.args.get("desc") else "", nulls))
    return tuple(terms)


def _maybe(node: Any) -> Expr | None:
    return None if node is None else _expr(node)


def _expr(node: Any) -> Expr:
    operator = OPERATORS.get(type(node))
    if operator is not None:
        return Binary(operator, _expr(node.this), _expr(node.expression))
    rule = RULES.get(type(node))
    if rule is not None:
        return rule(node)
    if isinstance(node, exp.AggFunc):
        return _aggregate(node)
    name = CALLS.get(type(node), node.sql_name() if isinstance(node, exp.Func) else "")
    assert name, repr(node)
    arguments = [
        a for a in (node.args.get("this"), *node.expressions, node.args.get("expression")) if a is not None
    ]
    return Call(name, tuple(map(_expr, arguments)))


def _aggregate(node: Any) -> Expr:
    inner, distinct = node.this, False
    order: tuple[OrderTerm, ...] = ()
    if isinstance(inner, exp.Order):
        inner, order = inner.this, _order(inner)
    if isinstance(inner, exp.Distinct):
        (inner,), distinct = inner.expressions, True
    listed = () if inner is None or isinstance(inner, exp.Star) else (_expr(inner),)
    more = node.args.get("expression")
    return Aggregate(node.sql_name(), (*listed, *(() if more is None else (_expr(more),))), distinct, order)


def _filtered(node: Any) -> Expr:
    made = _expr(node.this)
    assert isinstance(made, Aggregate)
    return Aggregate(made.name, made.arguments, made.distinct, made.order, _expr(node.expression.this))


def _window(node: Any) -> Expr:
    spec, frame = node.args.get("spec"), None
    if spec is not None:
        ends = [_bound(spec.args[end], spec.args.get(f"{end}_side")) for end in ("start", "end")]
        frame = Frame(spec.args["kind"], *ends)
    function = _expr(node.this)
    return Window(
        function,
        tuple(map(_expr, node.args.get("partition_by") or ())),
        _order(node.args.get("order")),
        frame,
    )


def _bound(value: Any, side: str | None) -> Bound:
    if value == "CURRENT ROW":
        return Bound("CURRENT ROW")
    return Bound(side or "", None if value == "UNBOUNDED" else int(value.this))


def _literal(node: Any) -> Expr:
    if node.is_string:
        return Constant(node.this, VARCHAR)
    if node.this.isdigit():
        return Constant(int(node.this), BIGINT)
    if "e" in node.this.lower():
        return Constant(float(node.this), DOUBLE)
    value = Decimal(node.this)
    scale = -int(value.as_tuple().exponent)
    return Constant(value, column_type(f"DECIMAL({max(len(value.as_tuple().digits), scale + 1)},{scale})"))


def _type(node: Any) -> SqlType:
    text = node.sql("duckdb").replace("TEXT", "VARCHAR")
    return HUGEINT if text in ("INT128", "HUGEINT") else column_type(text)


def _negated(node: Any) -> Expr:
    inner = node.this
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return IsNull(_expr(inner.this), negated=True)
    return Not(_expr(inner))


def _is(node: Any) -> Expr:
    if isinstance(node.expression, exp.Boolean):
        return IsTruth(_expr(node.this), node.expression.this)
    return IsNull(_expr(node.this))


def _in(node: Any) -> Expr:
    query = node.args.get("query")
    if query is not None:
        return InQuery(_expr(node.this), _query(query))
    return InList(_expr(node.this), tuple(map(_expr, node.expressions)))


def _case(node: Any) -> Expr:
    branches = tuple((_expr(each.this), _expr(each.args["true"])) for each in node.args["ifs"])
    return Case(branches, _maybe(node.args.get("default")))


RULES: dict[type[exp.Expr], Callable[[Any], Expr]] = {
    exp.Column: lambda n: Column(n.table, n.name, n.this.args.get("quoted", False)),
    exp.Literal: _literal,
    exp.Boolean: lambda n: Constant(n.this, BOOLEAN),
    exp.Null: lambda _: Constant(None, BIGINT),
    exp.Paren: lambda n: Paren(_expr(n.this)),
    exp.Not: _negated,
    exp.Is: _is,
    exp.Neg: lambda n: Unary("-", _expr(n.this)),
    exp.Between: lambda n: Between(_expr(n.this), _expr(n.args["low"]), _expr(n.args["high"])),
    exp.In: _in,
    exp.Exists: lambda n: Exists(_query(n.this)),
    exp.Subquery: lambda n: ScalarQuery(_query(n.this)),
    exp.Case: _case,
    exp.Cast: lambda n: Cast(_expr(n.this), _type(n.args["to"]), safe=False),
    exp.TryCast: lambda n: Cast(_expr(n.this), _type(n.args["to"])),
    exp.Try: lambda n: Try(_expr(n.this)),
    exp.Filter: _filtered,
    exp.IgnoreNulls: lambda n: _expr(n.this),
    exp.Window: _window,
    exp.Anonymous: lambda n: Call(n.name, tuple(map(_expr, n.expressions))),
    exp.Array: lambda n: ListOf(tuple(map(_expr, n.expressions))),
    exp.Bracket: lambda n: Element(_expr(n.this), _expr(n.expressions[0])),
    exp.RowNumber: lambda _: Call("ROW_NUMBER", ()),
    exp.Rank: lambda _: Call("RANK", ()),
    exp.DenseRank: lambda _: Call("DENSE_RANK", ()),
}
