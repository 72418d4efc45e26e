"""The rules of expressions that DuckDB reads in another sense than PostgreSQL, or whose type it cannot tell.

An expression without a rule is left to sqlglot: only its parts are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from dpsql.serve.catalog import calls, operators, pg_types
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import PREFIX
from dpsql.serve.catalog.names import SESSION, called, folded, type_oid
from dpsql.serve.catalog.pg_types import BOOL, UNKNOWN
from dpsql.serve.catalog.scope import Scope
from dpsql.serve.catalog.typed import Typed, call, cast, wrap


class Expressions(Typed):
    """Translates expressions in their place."""

    def expression(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate an expression by the rule of its node type, or its parts alone; return its type."""
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self, node, scope)
        if isinstance(node, exp.Query):
            return self.query(node, scope, scope.tables)[0].type
        self.parts(list(node.iter_expressions()), scope)
        return BOOL if isinstance(node, (exp.Predicate, exp.Not)) else None


# Values.


def literal(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Check `'text'`, whose type is decided by what stands around it, and numbers."""
    if isinstance(node, exp.Literal) and node.is_string:
        if "\x00" in node.name:
            raise UnknownQuestion("NUL")
        return UNKNOWN
    if not node.name.isdigit():
        return pg_types.NUMERIC
    number = int(node.name)
    return pg_types.INT4 if number < 1 << 31 else pg_types.INT8 if number < 1 << 63 else pg_types.NUMERIC


def column(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate a column, by its name and source; a source alone is its only column."""
    name, table = node.name, folded(node.args.get("table"))
    node.set("db", None)
    source = scope.source(name, table)
    if source is not None:
        return next(one.type for one in source.columns if one.name == name)
    if name == "tableoid" and scope.sources:
        source = scope.named(table) or scope.sources[0]
        node.replace(cast(exp.Literal.number(source.oid), pg_types.OID))
        return pg_types.OID
    if not table and name in ("user", "current_role") and not node.this.args.get("quoted"):
        return calls.replaced(t, node, name, [], scope)
    source = None if table else scope.named(name)
    if source is not None and len(source.columns) == 1:
        node.replace(exp.column(source.columns[0].name, source.name, quoted=True))
        return source.columns[0].type
    return None


def field(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `(x).field`, and `pg_catalog.function(..)`."""
    function = called(node)
    if function is None:
        t.expression(node.this, scope)
        return None
    node.replace(function)
    return t.expression(function, scope)


def collated(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Leave out a collation that compares texts by their bytes, as the catalogue does."""
    if node.expression.name.lower() not in ("default", "c", "posix", "ucs_basic"):
        raise UnknownQuestion("collation")
    inner = node.this
    node.replace(inner)
    return t.expression(inner, scope)


def first(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate an expression that has the type of its first part."""
    types = [t.expression(part, scope) for part in list(node.iter_expressions())]
    return types[0] if types else None


# Choices, arrays, records, conversions.


def case(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `CASE`; its branches meet in one type."""
    subject, default = node.args.get("this"), node.args.get("default")
    tested = [] if subject is None else [t.value(subject, scope)]
    tested += [t.value(branch.this, scope) for branch in node.args["ifs"]]
    if subject is not None:
        t.alike(tested)
    results = [] if default is None else [t.value(default, scope)]  # PostgreSQL begins with the last branch
    return t.meet(results + [t.value(branch.args["true"], scope) for branch in node.args["ifs"]])


def choice(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `coalesce`, `greatest` and `least`."""
    return t.meet([t.value(part, scope) for part in (node.this, *node.expressions)])


def null_if(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `nullif(x, y)`."""
    values = [t.value(node.this, scope), t.value(node.expression, scope)]
    t.alike(values)
    return values[0].type


def array(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `ARRAY[..]` and `ARRAY(SELECT ..)`."""
    values = [t.value(part, scope) for part in list(node.expressions)]
    if len(values) == 1 and isinstance(values[0].node, exp.Query):
        return None if values[0].type is None else pg_types.array_of(values[0].type)
    item = t.meet(values)
    if item is None or item == pg_types.RECORD:
        return None if item is None else pg_types.RECORD_ARRAY
    oid = pg_types.array_of(item)
    wrap(node, lambda inner: cast(inner, oid))
    return oid


def row(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `(x, y)`."""
    t.parts(list(node.expressions), scope)
    return pg_types.RECORD


def subscript(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `x[i]`; the vectors of the catalogue are counted from zero."""
    oid, place = t.expression(node.this, scope), node.expressions[0]
    item = pg_types.element(oid)
    if item is None or len(node.expressions) != 1:
        raise UnknownQuestion("subscript")
    from_zero = exp.Literal.number(int(oid in (pg_types.INT2VECTOR, pg_types.OIDVECTOR)))
    holder = place if isinstance(place, exp.Slice) else exp.Tuple(this=place)
    for part in list(holder.iter_expressions()):
        value = t.value(part, scope)
        t.settle(value.node, pg_types.INT4)
    sides = [
        cast(exp.Add(this=exp.Paren(this=part), expression=from_zero.copy()), pg_types.INT4)
        for part in list(holder.iter_expressions())
    ]
    if isinstance(place, exp.Slice):
        node.replace(call("list_slice", node.this, *sides))
        return oid
    node.replace(call(f"{PREFIX}show_element", node.this, *sides))
    return item


def conversion(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `CAST(x AS type)` and `x::type`."""
    kind = node.args["to"]
    oid = type_oid(kind)
    if oid is None:
        raise UnknownQuestion("type")
    t.convert(t.value(node.this, scope), oid)
    if oid == pg_types.RECORD_ARRAY:
        node.replace(node.this)
        return oid
    lengths = [part.name for part in kind.expressions if isinstance(part, exp.DataTypeParam)]
    node.set("to", cast(exp.Null(), oid).args["to"])
    if oid in (pg_types.VARCHAR, pg_types.BPCHAR) and (lengths or oid == pg_types.BPCHAR):
        length = exp.Literal.number(lengths[0] if lengths else 1)
        wrap(node, lambda inner: call("left", inner, length))
    return oid


def bound(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate LIMIT and OFFSET."""
    if isinstance(node.expression, exp.Null) or node.expression.name.upper() == "ALL":
        node.pop()
    else:
        value = t.value(node.expression, scope)
        t.settle(value.node, pg_types.INT8)
    return pg_types.INT8


_Rule = Callable[[Typed, exp.Expr, Scope], "int | None"]
_RULES: Mapping[type[exp.Expr], _Rule] = {
    exp.Literal: literal,
    exp.Null: lambda t, node, scope: UNKNOWN,
    exp.Boolean: lambda t, node, scope: BOOL,
    exp.Parameter: lambda t, node, scope: t.parameter(node),
    exp.Column: column,
    exp.Dot: field,
    exp.Collate: collated,
    **dict.fromkeys(
        (exp.Paren, exp.Neg, exp.Filter, exp.Window, exp.Order, exp.Distinct, exp.Ordered), first
    ),
    **dict.fromkeys((exp.And, exp.Or), operators.junction),
    **dict.fromkeys(operators.COMPARISONS, operators.comparison),
    **dict.fromkeys(operators.ARITHMETIC, operators.arithmetic),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike), operators.match),
    **dict.fromkeys((exp.Like, exp.ILike), operators.like),
    exp.Escape: operators.escape,
    exp.DPipe: operators.joined,
    exp.In: operators.membership,
    exp.Between: operators.between,
    exp.Case: case,
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least), choice),
    exp.Nullif: null_if,
    exp.Cast: conversion,
    exp.Array: array,
    exp.Tuple: row,
    exp.Bracket: subscript,
    **dict.fromkeys((exp.Limit, exp.Offset), bound),
    exp.Anonymous: calls.function,
    **dict.fromkeys(SESSION, calls.session),
    **dict.fromkeys((exp.Trim, exp.Substring, exp.StrPosition), calls.spelled),
    exp.Extract: calls.extract,
    exp.Interval: calls.interval,
}
"""The rules, by node type."""
