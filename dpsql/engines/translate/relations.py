"""Translates queries: SELECT, joins, set operations, DISTINCT, GROUP BY, ORDER BY and LIMIT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.engines.translate.context import ColumnScope, expression, ordering
from dpsql.engines.translate.public import is_public
from dpsql.engines.translate.value import (
    TargetColumn,
    Untranslatable,
    Value,
    common_type,
    joint_range,
    type_family,
)

if TYPE_CHECKING:
    from dpsql.engines.translate.context import Translation

__all__ = ["TranslatedQuery", "query", "subquery"]

_SELECT = frozenset({"expressions", "from_", "joins", "where", "group", "distinct", "order", "limit"})
_SETS = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


@dataclass(frozen=True, slots=True)
class TranslatedQuery:
    """The SQL of a translated query, and its columns in order."""

    sql: str
    columns: tuple[TargetColumn, ...]


def check_query_parts(work: Translation, node: exp.Expr, known: frozenset[str]) -> None:
    """Refuse a query node that has an argument besides `known`, those that its rule handles."""
    for name, value in node.args.items():
        if name not in known and value not in (None, False, []):
            raise work.refuse(f"{name.strip('_')} of {node.key}")


def query(work: Translation, node: exp.Expr, outer: ColumnScope | None) -> TranslatedQuery:
    """Translate a query: one SELECT, or a set operation."""
    if isinstance(node, exp.Subquery) and node.args.get("alias") is None:
        check_query_parts(work, node, frozenset({"this"}))
        return query(work, node.this, outer)
    if isinstance(node, tuple(_SETS)):
        return _set_operation(work, node, outer)
    if isinstance(node, exp.Select):
        return _select(work, node, outer)
    raise work.refuse(node.key)


def _set_operation(work: Translation, node: exp.Expr, outer: ColumnScope | None) -> TranslatedQuery:
    check_query_parts(work, node, frozenset({"this", "expression", "distinct"}))
    left, right = query(work, node.this, outer), query(work, node.expression, outer)
    if len(left.columns) != len(right.columns):
        raise work.refuse("a set operation of queries with different numbers of columns")
    columns = []
    for a, b in zip(left.columns, right.columns, strict=True):
        pair = [Value("", a.type, a.value_range), Value("", b.type, b.value_range)]
        sql_type = common_type([a.type, b.type])
        if type_family(a.type) != type_family(b.type):
            raise work.refuse("a set operation of columns of different types")
        columns.append(TargetColumn(a.name, sql_type, joint_range(pair)))
    word = next(w for node_type, w in _SETS.items() if type(node) is node_type)
    everything = "" if node.args.get("distinct") else " ALL"
    return TranslatedQuery(f"({left.sql}) {word}{everything} ({right.sql})", tuple(columns))


def _select(work: Translation, node: exp.Select, outer: ColumnScope | None) -> TranslatedQuery:
    check_query_parts(work, node, _SELECT)
    distinct = node.args.get("distinct")
    if distinct is not None:
        check_query_parts(work, distinct, frozenset({"expressions"}))
        if distinct.expressions:
            raise work.refuse("DISTINCT ON")
    text, scope, conditions = _from(work, node, outer)
    where = node.args.get("where")
    if where is not None:
        conditions = [*conditions, expression(work, where.this, scope).sql]
    items = [(_alias(item), expression(work, _without_alias(item), scope)) for item in node.expressions]
    if not items:
        raise work.refuse("a SELECT without columns")
    listed = ", ".join(f"{v.sql} AS {work.dialect.quote(name)}" for name, v in items)
    sql = f"SELECT {'DISTINCT ' if distinct is not None else ''}{listed}{text}"
    if conditions:
        sql += " WHERE " + " AND ".join(f"({c})" for c in conditions)
    group = node.args.get("group")
    if group is not None:
        check_query_parts(work, group, frozenset({"expressions"}))
        sql += " GROUP BY " + ", ".join(_key(work, key, scope, len(items)) for key in group.expressions)
    sql += _ordered(work, node, scope)
    return TranslatedQuery(sql, tuple(v.as_column(name) for name, v in items))


def _key(work: Translation, key: exp.Expr, scope: ColumnScope, width: int) -> str:
    """Translate a group key: a position in the select list, or an expression."""
    if isinstance(key, exp.Literal) and not key.args.get("is_string"):
        if not str(key.this).isdecimal() or not 1 <= int(key.this) <= width:
            raise work.refuse("a group key that is a constant")
        return str(int(key.this))
    return expression(work, key, scope).sql


def _ordered(work: Translation, node: exp.Select, scope: ColumnScope) -> str:
    sql = ""
    order = node.args.get("order")
    if order is not None:
        check_query_parts(work, order, frozenset({"expressions"}))
        sql += " ORDER BY " + ordering(work, order.expressions, scope)
    limit = node.args.get("limit")
    if limit is not None:
        check_query_parts(work, limit, frozenset({"expression"}))
        number = limit.expression
        if not isinstance(number, exp.Literal) or not str(number.this).isdecimal():
            raise work.refuse("LIMIT of anything but a constant number")
        sql += f" LIMIT {int(number.this)}"
    return sql


def _alias(item: exp.Expr) -> str:
    if isinstance(item, exp.Alias):
        return str(item.alias)
    if isinstance(item, exp.Column):
        return str(item.name)
    return "x"


def _without_alias(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item


def _from(
    work: Translation, node: exp.Select, outer: ColumnScope | None
) -> tuple[str, ColumnScope, list[str]]:
    """Translate FROM and its joins.

    Returns the text, the scope, and the WHERE conditions that replace SEMI and ANTI joins.
    """
    scope = ColumnScope({}, outer)
    first = node.args.get("from_")
    if first is None:
        return "", scope, []
    check_query_parts(work, first, frozenset({"this"}))
    text = f" FROM {_from_item(work, first.this, scope)}"
    conditions: list[str] = []
    for join in node.args.get("joins") or ():
        check_query_parts(work, join, frozenset({"this", "side", "kind", "on"}))
        side = str(join.args.get("side") or "").upper()
        kind = str(join.args.get("kind") or "").upper()
        on = join.args.get("on")
        if kind in ("SEMI", "ANTI") and not work.dialect.semi_joins:
            conditions.append(_semi_join(work, join.this, kind, on, scope))
            continue
        if conditions and side in ("RIGHT", "FULL"):
            raise work.refuse(
                f"a {side} JOIN after a SEMI or ANTI JOIN", "put the SEMI or ANTI JOIN into a subquery"
            )
        word = _join_word(work, side, kind, on)
        here = ColumnScope({}, outer)
        item = _from_item(work, join.this, here)
        both = ColumnScope({**scope.tables, **here.tables}, outer)
        if kind not in ("SEMI", "ANTI"):
            scope = both
        text += f" {word} {item}"
        if on is not None:
            if side == "FULL" and not work.dialect.full_join_conditions:
                _check_equalities(work, on)
            text += f" ON {expression(work, on, both).sql}"
    return text, scope, conditions


def _join_word(work: Translation, side: str, kind: str, on: exp.Expr | None) -> str:
    if kind in ("SEMI", "ANTI") and not side and on is not None:
        return f"LEFT {kind} JOIN"
    if kind in ("", "INNER", "OUTER") and side in ("LEFT", "RIGHT", "FULL") and on is not None:
        return f"{side} JOIN"
    if not side and kind in ("", "INNER") and on is not None:
        return "INNER JOIN"
    if not side and kind == "CROSS" and on is None:
        return "CROSS JOIN"
    raise work.refuse(f"{side} {kind} JOIN")


def _semi_join(work: Translation, item: exp.Expr, kind: str, on: exp.Expr | None, scope: ColumnScope) -> str:
    inner = ColumnScope({}, scope)
    text = _from_item(work, item, inner)
    if on is None:
        raise work.refuse(f"{kind} JOIN without a condition")
    word = "EXISTS" if kind == "SEMI" else "NOT EXISTS"
    return f"{word} (SELECT 1 FROM {text} WHERE {expression(work, on, inner).sql})"


def _check_equalities(work: Translation, on: exp.Expr) -> None:
    while isinstance(on, exp.Paren):
        on = on.this
    if isinstance(on, exp.And):
        _check_equalities(work, on.this)
        _check_equalities(work, on.expression)
    elif not (
        isinstance(on, exp.EQ) and isinstance(on.this, exp.Column) and isinstance(on.expression, exp.Column)
    ):
        raise work.refuse(
            "a FULL JOIN on anything but equalities of columns", "filter each side in a subquery first"
        )


def _from_item(work: Translation, node: exp.Expr, scope: ColumnScope) -> str:
    """Translate one FROM item, and add its columns to `scope`."""
    alias = node.args.get("alias")
    if isinstance(node, exp.Unnest):
        raise work.refuse("UNNEST: lists are not translated")
    if alias is None or alias.args.get("this") is None:
        raise work.refuse(f"{node.key} in FROM without an alias")
    name = str(alias.name)
    if isinstance(node, exp.Table):
        check_query_parts(work, node, frozenset({"this", "db", "alias"}))
        if node.db == "main" and node.name in work.private:
            text, columns = work.dialect.scan(node.name)
            scope.tables[name] = columns
            return f"{text} AS {work.dialect.quote(name)}"
    elif isinstance(node, exp.Subquery):
        check_query_parts(work, node, frozenset({"this", "alias"}))
        if alias.args.get("columns"):
            raise work.refuse("a subquery with column aliases")
        if is_public(node.this, work.private):
            made = work.embed_public(node.this)
            scope.tables[name] = {
                c.name: TargetColumn(f"c{i}", c.type, c.value_range) for i, c in enumerate(made.columns)
            }
            return f"{work.dialect.quote(made.name)} AS {work.dialect.quote(name)}"
        relation = query(work, node.this, scope.outer)
        scope.tables[name] = {c.name: c for c in relation.columns}
        return f"({relation.sql}) AS {work.dialect.quote(name)}"
    raise work.refuse(f"{node.key} in FROM")


def subquery(work: Translation, node: exp.Expr, scope: ColumnScope) -> TranslatedQuery:
    """Translate a subquery in an expression; it may name columns of the enclosing query."""
    inner = node.this if isinstance(node, exp.Subquery) else node
    if not isinstance(inner, exp.Query):
        raise Untranslatable("this kind of subquery is not translated")
    return query(work, inner, scope)
