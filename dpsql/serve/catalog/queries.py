"""The rules of queries: SELECT, UNION and its kin, VALUES, and common table expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.serve.catalog import pg_types, relations
from dpsql.serve.catalog.casts import cast
from dpsql.serve.catalog.constants import constant_rows
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.names import folded, output_name
from dpsql.serve.catalog.pg_types import TEXT, UNKNOWN
from dpsql.serve.catalog.values import OWN_TABLE, Column, Scope, Translated, Value, refuse_others, renamed
from dpsql.tree import quote

if TYPE_CHECKING:
    from dpsql.serve.catalog.context import Context

Tables = dict[str, tuple[Column, ...]]


def query(t: Context, node: exp.Expr, scope: Scope | None) -> Translated:
    """Translate a query; columns without a type become `text`."""
    tables = dict(scope.tables) if scope is not None else {}
    found = _query(t, node, scope, tables, None)
    if all(column.type != UNKNOWN for column in found.columns):
        return found
    targets = [TEXT if column.type == UNKNOWN else column.type for column in found.columns]
    return _query(t, node, scope, tables, targets)


def _query(
    t: Context, node: exp.Expr, outer: Scope | None, tables: Tables, targets: Sequence[int] | None
) -> Translated:
    """Translate a query; `targets` are the types that its columns must have."""
    with_ = node.args.get("with_")
    head = ""
    if with_ is not None:
        tables = dict(tables)
        head = _common_tables(t, with_, outer, tables)
    match node:
        case exp.Subquery():
            found = _parenthesised(t, node, outer, tables, targets)
        case exp.SetOperation():
            found = _set_operation(t, node, outer, tables, targets)
        case exp.Select():
            found = _select(t, node, outer, tables, targets)
        case exp.Values():
            refuse_others(node.args, ("expressions",), "values")
            found = constant_rows(t, node, Scope(outer, tables), targets)
        case _:
            raise UnknownQuestion(type(node).__name__)
    return Translated(head + found.sql, found.columns)


def _common_tables(t: Context, with_: exp.Expr, outer: Scope | None, tables: Tables) -> str:
    refuse_others(with_.args, ("expressions", "recursive"), "with")
    recursive = bool(with_.args.get("recursive"))
    parts = []
    for table in with_.expressions:
        refuse_others(table.args, ("this", "alias", "materialized"), "with")
        alias = table.args["alias"]
        name, named = folded(alias.this), [folded(column) for column in alias.args.get("columns") or []]
        body = table.this
        if recursive and isinstance(body, exp.Union):
            first = _scoped(t, body.this, outer, tables)
            tables[name] = renamed(first.columns, named)
        found = _scoped(t, body, outer, tables)
        tables[name] = renamed(found.columns, named)
        listed = ", ".join(quote(column.name) for column in tables[name])
        parts.append(f"{quote(OWN_TABLE + name)} ({listed}) AS ({found.sql})")
    return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(parts)} "


def _scoped(t: Context, node: exp.Expr, outer: Scope | None, tables: Tables) -> Translated:
    return query(t, node, Scope(outer, dict(tables)))


def _parenthesised(
    t: Context, node: exp.Expr, outer: Scope | None, tables: Tables, targets: Sequence[int] | None
) -> Translated:
    refuse_others(node.args, ("this", "with_", "order", "limit", "offset"), "subquery")
    inner = _query(t, node.this, outer, tables, targets)
    tail = _tail(t, node, inner.columns, None, Scope(outer, tables))
    return Translated(f"({inner.sql}){tail}", inner.columns)


_OPERATIONS: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
}


def _set_operation(
    t: Context, node: exp.Expr, outer: Scope | None, tables: Tables, targets: Sequence[int] | None
) -> Translated:
    known = ("this", "expression", "distinct", "with_", "order", "limit", "offset")
    refuse_others(node.args, known, "set operation")
    word = _OPERATIONS[type(node)] + ("" if node.args.get("distinct") else " ALL")
    sides = [_query(t, side, outer, tables, targets) for side in (node.this, node.expression)]
    if len(sides[0].columns) != len(sides[1].columns):
        raise UnknownQuestion("columns of a set operation")
    pairs = list(zip(sides[0].columns, sides[1].columns, strict=True))
    types = [pg_types.common((first.type, second.type)) for first, second in pairs]
    for place, side in enumerate((node.this, node.expression)):
        if [column.type for column in sides[place].columns] != types:
            sides[place] = _query(t, side, outer, tables, types)
    columns = tuple(
        Column(column.name, oid) for column, oid in zip(sides[0].columns, types, strict=True)
    )  # fmt: skip
    sql = f"({sides[0].sql}) {word} ({sides[1].sql})"
    return Translated(sql + _tail(t, node, columns, None, Scope(outer, tables)), columns)


_SELECT = (
    *("with_", "distinct", "expressions", "from_", "joins", "where", "group", "having"),
    *("order", "limit", "offset", "operation_modifiers"),
)


def _select(
    t: Context, node: exp.Expr, outer: Scope | None, tables: Tables, targets: Sequence[int] | None
) -> Translated:
    refuse_others(node.args, _SELECT, "select")
    scope = Scope(outer, tables)
    parts = ["SELECT"]
    from_ = node.args.get("from_")
    source = relations.from_clause(t, from_, node.args.get("joins") or [], scope) if from_ is not None else ""
    if from_ is None and node.args.get("joins"):
        raise UnknownQuestion("join")
    items = _items(t, node.expressions, scope)
    if not items:
        raise UnknownQuestion("no columns")
    if targets is not None:
        pairs = zip(items, targets, strict=True)
        items = [(name, _as(t, value, oid)) for (name, value), oid in pairs]
    distinct = node.args.get("distinct")
    if distinct is not None:
        parts.append(_distinct(t, distinct, scope))
    parts.append(", ".join(f"{value.sql} AS {quote(name)}" for name, value in items))
    if source:
        parts.append(f"FROM {source}")
    if (where := node.args.get("where")) is not None:
        parts.append(f"WHERE {t.boolean(where.this, scope)}")
    if (group := node.args.get("group")) is not None:
        parts.append(_group(t, group, scope, [name for name, _ in items]))
    if (having := node.args.get("having")) is not None:
        parts.append(f"HAVING {t.boolean(having.this, scope)}")
    columns = tuple(Column(name, value.type, value.fields) for name, value in items)
    return Translated(" ".join(parts) + _tail(t, node, columns, scope, scope), columns)


def _as(t: Context, value: Value, oid: int) -> Value:
    if value.sql == "NULL":
        return Value(cast("NULL", oid), oid)
    return value if value.type == oid else t.convert(value, oid)


def _items(t: Context, nodes: Sequence[exp.Expr], scope: Scope) -> list[tuple[str, Value]]:
    """Translate the items of a SELECT; `*` becomes its columns."""
    items: list[tuple[str, Value]] = []
    for node in nodes:
        if isinstance(node, exp.Star):
            refuse_others(node.args, (), "star")
            items += scope.shown()
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            source = scope.source(folded(node.args.get("table")))
            if source is None:
                raise UnknownQuestion("star")
            items += [(column.name, source.value(column)) for column in source.columns]
        else:
            inner = node.this if isinstance(node, exp.Alias) else node
            items.append((output_name(node), t.expression(inner, scope)))
    return items


def _distinct(t: Context, node: exp.Expr, scope: Scope) -> str:
    on = node.args.get("on")
    if on is None:
        return "DISTINCT"
    parts = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
    return f"DISTINCT ON ({', '.join(t.decided(t.expression(part, scope)).sql for part in parts)})"


def _group(t: Context, node: exp.Expr, scope: Scope, outputs: Sequence[str]) -> str:
    refuse_others(node.args, ("expressions",), "group")
    parts = []
    for part in node.expressions:
        name = folded(part.this) if isinstance(part, exp.Column) and not part.args.get("table") else ""
        if isinstance(part, exp.Literal) and not part.args.get("is_string"):
            parts.append(_place(part, len(outputs)))
        elif name and scope.find(name) is None and name in outputs:
            parts.append(str(outputs.index(name) + 1))
        else:
            parts.append(t.decided(t.expression(part, scope)).sql)
    return f"GROUP BY {', '.join(parts)}"


def _place(node: exp.Expr, count: int) -> str:
    if not str(node.this).isdigit() or not 1 <= int(str(node.this)) <= count:
        raise UnknownQuestion("position")
    return str(int(str(node.this)))


def _tail(t: Context, node: exp.Expr, columns: Sequence[Column], scope: Scope | None, outer: Scope) -> str:
    """Translate ORDER BY, LIMIT and OFFSET; `scope` sees the columns that are not put out, if there are."""
    outputs = [column.name for column in columns]

    def key(part: exp.Expr) -> str:
        if isinstance(part, exp.Literal) and not part.args.get("is_string"):
            return _place(part, len(outputs))
        if isinstance(part, exp.Column) and not part.args.get("table") and folded(part.this) in outputs:
            return str(outputs.index(folded(part.this)) + 1)
        if scope is None:
            raise UnknownQuestion("order of a set operation")
        return t.decided(t.expression(part, scope)).sql

    sql = ""
    if (ordered := node.args.get("order")) is not None:
        refuse_others(ordered.args, ("expressions",), "order")
        sql += " " + order(t, ordered.expressions, key)
    limit = node.args.get("limit")
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise UnknownQuestion("fetch")
        sql += _bound(t, "LIMIT", limit.args.get("count"), outer)
    elif limit is not None:
        refuse_others(limit.args, ("expression",), "limit")
        sql += _bound(t, "LIMIT", limit.expression, outer)
    if (offset := node.args.get("offset")) is not None:
        sql += _bound(t, "OFFSET", offset.expression, outer)
    return sql


def _bound(t: Context, word: str, node: exp.Expr | None, scope: Scope) -> str:
    if node is None:
        return f" {word} 1"
    if isinstance(node, exp.Null) or (isinstance(node, exp.Var) and str(node.this).upper() == "ALL"):
        return ""
    if not isinstance(node, (exp.Literal, exp.Parameter)):
        raise UnknownQuestion("limit")
    return f" {word} {t.convert(t.expression(node, scope), pg_types.INT8).sql}"


def order(t: Context, nodes: Sequence[exp.Expr], key: Callable[[exp.Expr], str]) -> str:
    """Translate the keys of an ORDER BY; NULL counts as the largest value."""
    parts = []
    for node in nodes:
        refuse_others(node.args, ("this", "desc", "nulls_first"), "order")
        direction = "DESC" if node.args.get("desc") else "ASC"
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        parts.append(f"{key(node.this)} {direction} NULLS {nulls}")
    return f"ORDER BY {', '.join(parts)}"
