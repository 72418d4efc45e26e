"""`give_types`: the type of each column of a query, from those of the stored tables upwards, as in DuckDB.

Nothing is asked of the engine, and nothing is believed of the code that made the query: a column of an item
of FROM has the type of the expression that defines it. An expression for which there is no rule has no type
(None), and neither has what is computed from it.

A column gets its type once. It is no part of what makes two columns equal: in one scope, columns of one name
have one type. Where one node stands in two scopes that differ in that, the query gets nodes of its own for
all of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpsql.analysis.type_rules import (
    LITERAL,
    aggregate_type,
    arithmetic_type,
    call_type,
    common_type,
    literal_type,
    settle_type,
)
from dpsql.kernel.tree import expressions as e
from dpsql.kernel.tree import relations as r
from dpsql.kernel.tree.node import Expr, Node, Query, Source, parts, plain, replace_nodes
from dpsql.policy import fold
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, INTERVAL, TIMESTAMP, SqlType

Columns = Mapping[str, SqlType | None]
Stored = Callable[[r.Scan | r.DomainScan], Columns]
"""The types of the columns of a declared table or domain, by their names."""


class _TwoTypesError(Exception):
    """A node stands for columns of two types."""


class _Scope:
    """The columns of the items of FROM, by alias; `outer` is the scope of the query around."""

    __slots__ = ("items", "known", "outer")

    def __init__(self, outer: _Scope | None) -> None:
        self.items: dict[str, Columns] = {}
        self.outer = outer
        self.known: dict[int, SqlType | None] = {}
        """The types of expressions by their identity: one node may stand in very many places."""

    def column(self, table: str, name: str) -> SqlType | None:
        here: _Scope | None = self
        while here is not None:
            if not table:
                return next((item[name] for item in here.items.values() if name in item), None)
            if table in here.items:
                return here.items[table].get(name)
            here = here.outer
        return None


def give_types(query: Query, stored: Stored) -> Query:
    """Return a query with a type on each column; copies only a node that would need two types."""
    try:
        ColumnTyping(stored).query(query, None)
    except _TwoTypesError:
        query = replace_nodes(query, _copy_column)
        ColumnTyping(stored).query(query, None)
    return query


def _copy_column(node: Node) -> Node:
    return e.Column(node.table, node.name, node.stored) if isinstance(node, e.Column) else node


class ColumnTyping:
    """Gives each column of a query its type, one query after the other, innermost first."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.parameters: dict[str, SqlType | None] = {}
        """The types of the parameters of lambdas."""

    def query(self, node: Query, outer: _Scope | None) -> dict[str, SqlType | None]:
        """Set the types of all columns in a query; return the query's output columns with their types."""
        node = plain(node)
        if isinstance(node, r.SetOperation):
            left, right = self.query(node.left, outer), self.query(node.right, outer)
            pairs = zip(left, left.values(), right.values(), strict=False)  # an engine refuses other numbers
            return {name: common_type([a, b]) for name, a, b in pairs}
        scope = _Scope(outer)
        if not isinstance(node, r.Select):
            return {}
        if node.source is not None:
            self.source(node.source, scope)
        found: dict[str, SqlType | None] = {}
        for item in node.items:
            expr = item.expr
            name = item.name or (expr.name if isinstance(expr, e.Column) else "")
            name = f"#{len(found)}" if not name or name in found else name
            found[name] = settle_type(self.expression(expr, scope))
        if node.where is not None:
            self.expression(node.where, scope)
        for key in node.group:
            self.expression(key, scope)
        for term in node.order:
            self.expression(term.expr, scope)
        return found

    def source(self, node: Source, scope: _Scope) -> None:
        """Add the columns of an item of FROM to a scope."""
        match node:
            case r.Derived():
                scope.items[node.alias] = self.query(node.query, scope.outer)
            case r.Join():
                self.source(node.left, scope)
                self.source(node.right, scope)
                if node.on is not None:
                    self.expression(node.on, scope)
            case r.Scan():
                scope.items[node.alias] = self.stored(node)
            case r.DomainScan():
                scope.items[node.name] = self.stored(node)
            case r.Range():
                scope.items[node.alias] = {node.column: BIGINT}
            case r.Values():
                kinds = [[self.expression(cell, scope) for cell in row] for row in node.rows]
                columns = (settle_type(common_type([*cells])) for cells in zip(*kinds, strict=True))
                scope.items[node.alias] = dict(zip(node.columns, columns, strict=True))
            case r.Unnest():
                listed = self.expression(node.items, scope)
                scope.items[node.alias] = {"c0": listed.item if listed is not None else None}

    def expression(self, node: Expr, scope: _Scope) -> SqlType | None:
        """Set the types of all columns in an expression; return the type of the expression."""
        if type(node) is e.Column:
            found = scope.column(node.table, node.name)
            if node.type is None:
                if found is not None:
                    object.__setattr__(node, "type", found)
            elif node.type is not found and node.type != found:
                raise _TwoTypesError
            return found
        known, place = scope.known, id(node)
        if place not in known:
            rule = TYPE_RULES.get(type(node))
            known[place] = rule(self, node, scope) if rule is not None else None
        return known[place]

    def below(self, node: Node, scope: _Scope) -> None:
        """Set the types of all columns in the child nodes of a node."""
        for part in parts(node):
            if isinstance(part, Expr):
                self.expression(part, scope)
            elif isinstance(part, Query):
                self.query(part, scope)
            else:
                self.below(part, scope)


TypeRule = Callable[..., SqlType | None]
"""Types a node of one type; takes the typing, the node, and the scope of its columns."""


def _make_rule(sql_type: SqlType) -> TypeRule:
    """Return the rule of nodes that have one type."""

    def rule(self: ColumnTyping, node: Expr, scope: _Scope) -> SqlType | None:
        self.below(node, scope)
        return sql_type

    return rule


def _constant(self: ColumnTyping, node: e.Constant, scope: _Scope) -> SqlType | None:
    return literal_type(node.value, node.type)


def _inner(self: ColumnTyping, node: e.Paren, scope: _Scope) -> SqlType | None:
    return self.expression(node.inner, scope)


def _operand(self: ColumnTyping, node: e.Try | e.Slice, scope: _Scope) -> SqlType | None:
    return self.expression(node.operand, scope)


def _cast(self: ColumnTyping, node: e.Cast, scope: _Scope) -> SqlType | None:
    self.expression(node.operand, scope)
    return node.type.held


def _unary(self: ColumnTyping, node: e.Unary, scope: _Scope) -> SqlType | None:
    found = self.expression(node.operand, scope)
    if found is not None and found.name == LITERAL and node.operator == "-":
        return literal_type(-found.precision, BIGINT)
    return found


def _binary(self: ColumnTyping, node: e.Binary, scope: _Scope) -> SqlType | None:
    left, right = self.expression(node.left, scope), self.expression(node.right, scope)
    return arithmetic_type(node.operator, left, right) if node.operator in _ARITHMETIC else BOOLEAN


_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "||", "&", "|", ">>"})


def _case(self: ColumnTyping, node: e.Case, scope: _Scope) -> SqlType | None:
    results = []
    for condition, result in node.branches:
        self.expression(condition, scope)
        results.append(self.expression(result, scope))
    if node.default is not None:
        results.append(self.expression(node.default, scope))
    return common_type(results)


def _list(self: ColumnTyping, node: e.ListOf, scope: _Scope) -> SqlType | None:
    item = settle_type(common_type([self.expression(each, scope) for each in node.items]))
    return None if item is None else SqlType("LIST", item=item)


def _steps(self: ColumnTyping, node: e.Steps, scope: _Scope) -> SqlType | None:
    self.expression(node.operand, scope)
    return HUGEINT if node.wide else BIGINT


def _unscaled(self: ColumnTyping, node: e.Unscaled, scope: _Scope) -> SqlType | None:
    self.expression(node.operand, scope)
    return BIGINT if node.type.precision <= 18 else HUGEINT


def _cut(self: ColumnTyping, node: e.Cut, scope: _Scope) -> SqlType | None:
    self.expression(node.operand, scope)
    return self.expression(node.written, scope)


def _saturated(self: ColumnTyping, node: e.Saturated, scope: _Scope) -> SqlType | None:
    self.below(node, scope)
    return node.type


def _call(self: ColumnTyping, node: e.Call, scope: _Scope) -> SqlType | None:
    types: list[SqlType | None] = []
    for each in node.arguments:
        if isinstance(each, e.Lambda):
            self.parameters[each.parameter] = types[0].item if types and types[0] is not None else None
        types.append(self.expression(each, scope))
    return call_type(node.name.lower(), types)


def _parameter(self: ColumnTyping, node: e.Parameter, scope: _Scope) -> SqlType | None:
    found = self.parameters.get(node.name)
    for name in node.path:
        fields = {} if found is None else {fold(known): kind for known, kind in found.fields}
        found = fields.get(fold(name))
    return found


def _apply(self: ColumnTyping, node: e.Apply, scope: _Scope) -> SqlType | None:
    types = [self.expression(each, scope) for each in node.arguments]
    last = types[-1] if types else None
    digits = last.precision if last is not None and last.name == LITERAL else None
    known = [settle_type(each) for each in types]
    return node.form.result_type([each for each in known if each is not None], digits) if all(known) else None


def _element(self: ColumnTyping, node: e.Element, scope: _Scope) -> SqlType | None:
    found = self.expression(node.operand, scope)
    self.expression(node.index, scope)
    return found.item if found is not None and found.name == "LIST" else found


def _lambda(self: ColumnTyping, node: e.Lambda, scope: _Scope) -> SqlType | None:
    return self.expression(node.body, scope)


def _aggregate(self: ColumnTyping, node: e.Aggregate, scope: _Scope) -> SqlType | None:
    types = [self.expression(each, scope) for each in node.arguments]
    for term in node.order:
        self.expression(term.expr, scope)
    if node.filter is not None:
        self.expression(node.filter, scope)
    return aggregate_type(node.name.lower(), types)


def _window(self: ColumnTyping, node: e.Window, scope: _Scope) -> SqlType | None:
    found = self.expression(node.function, scope)
    for part in node.partition:
        self.expression(part, scope)
    for term in node.order:
        self.expression(term.expr, scope)
    return found


def _scalar(self: ColumnTyping, node: e.ScalarQuery, scope: _Scope) -> SqlType | None:
    return next(iter(self.query(node.query, scope).values()))


def _in_query(self: ColumnTyping, node: e.InQuery, scope: _Scope) -> SqlType | None:
    self.expression(node.operand, scope)
    self.query(node.query, scope)
    return BOOLEAN


def _exists(self: ColumnTyping, node: e.Exists, scope: _Scope) -> SqlType | None:
    self.query(node.query, scope)
    return BOOLEAN


TYPE_RULES: dict[type[Expr], TypeRule] = {
    e.Constant: _constant,
    e.Interval: _make_rule(INTERVAL),
    e.ListOf: _list,
    e.Unary: _unary,
    e.Paren: _inner,
    e.Binary: _binary,
    **dict.fromkeys((e.Between, e.Not, e.IsNull, e.IsTruth, e.Like, e.InList), _make_rule(BOOLEAN)),
    e.Case: _case,
    e.Cast: _cast,
    e.Try: _operand,
    e.Canonical: _make_rule(DOUBLE),
    e.UtcTime: _make_rule(TIMESTAMP),
    e.Moved: _make_rule(TIMESTAMP),
    e.Steps: _steps,
    e.Unscaled: _unscaled,
    e.Cut: _cut,
    e.Saturated: _saturated,
    e.Mean: _make_rule(DOUBLE),
    e.Call: _call,
    e.Apply: _apply,
    e.Element: _element,
    e.Slice: _operand,
    e.Lambda: _lambda,
    e.Parameter: _parameter,
    e.Aggregate: _aggregate,
    e.Window: _window,
    e.InQuery: _in_query,
    e.Exists: _exists,
    e.ScalarQuery: _scalar,
}
"""The rule of each node type."""
