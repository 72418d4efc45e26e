"""The rules of operators that DuckDB reads in another sense, or that need values of one type."""

from __future__ import annotations

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import PREFIX
from dpsql.serve.catalog.pg_types import BOOL, TEXT, UNKNOWN
from dpsql.serve.catalog.scope import Scope
from dpsql.serve.catalog.typed import Typed, Value, call, cast, wrap

MAX_OPERANDS = 100

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
ARITHMETIC = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseLeftShift, exp.BitwiseRightShift),
)


def junction(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `x AND y`, `x OR y`: long chains without recursion."""
    for part in list(node.flatten(unnest=False)):
        t.expression(part, scope)
    return BOOL


def comparison(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `x = y` and the like; an untyped literal takes the type of the other side."""
    right = node.expression
    if isinstance(right, exp.Anonymous) and right.name.lower() in ("some", "any", "all"):
        kind = exp.All if right.name.lower() == "all" else exp.Any
        node.set("expression", kind(this=exp.Paren(this=right.expressions[0])))
    if isinstance(node.expression, (exp.Any, exp.All)):
        return _quantified(t, node, scope)
    t.alike([t.value(node.this, scope), t.value(node.expression, scope)])
    return BOOL


def _quantified(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `x = ANY (array)`, `x <> ALL ('{a,b}')`, `x = ANY (SELECT ..)`."""
    every = isinstance(node.expression, exp.All)
    left, right = t.value(node.this, scope), node.expression.this.unnest()
    if isinstance(right, exp.Query):
        t.query(right, scope, scope.tables)
        t.alike([left])
        return BOOL
    holder = exp.Paren(this=right)
    array = t.value(right, scope)
    oid = array.type
    if oid == UNKNOWN:
        oid = pg_types.array_of(TEXT if left.type is None else left.type)
        t.settle(array.node, oid)
    if left.type == UNKNOWN:
        t.settle(left.node, pg_types.element(oid))
    if isinstance(node, exp.EQ) and not every:
        new = call("list_contains", holder.this, node.this)
    elif isinstance(node, exp.NEQ) and every:
        new = call(f"{PREFIX}show_is_none", holder.this, node.this)
    else:
        test = type(node)(this=node.this, expression=exp.column("pg_item"))
        each = exp.Lambda(this=test, expressions=[exp.to_identifier("pg_item")])
        new = call(f"list_bool_{'and' if every else 'or'}", call("list_transform", holder.this, each))
    node.replace(new)
    return BOOL


def membership(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `x IN (a, b)` and `x IN (SELECT ..)`."""
    value, query = t.value(node.this, scope), node.args.get("query")
    if query is not None:
        t.alike([value, Value(query, t.expression(query, scope))])
    else:
        t.alike([value, *(t.value(part, scope) for part in list(node.expressions))])
    return BOOL


def between(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `x BETWEEN a AND b`."""
    t.alike([t.value(node.args[end], scope) for end in ("this", "low", "high")])
    return BOOL


def arithmetic(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `x + y` and the like."""
    values = [t.value(node.this, scope), t.value(node.expression, scope)]
    t.alike(values)
    oid = t.common(value.type for value in values)
    if oid is None or oid not in pg_types.NUMBERS:
        return None
    for value in values:  # in DuckDB, a literal takes the narrow type of what stands beside it
        if isinstance(value.node, exp.Literal):
            wrap(value.node, lambda inner: cast(inner, oid))
    node.set("typed", None)  # DuckDB divides as PostgreSQL does, by a setting of the catalogue's database
    return oid


def match(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `x ~ pattern` and `x ~* pattern`."""
    for part in (node.this, node.expression):
        t.as_text(t.value(part, scope))
    return BOOL


def like(t: Typed, node: exp.Expr, scope: Scope) -> int:
    r"""Translate `x LIKE pattern`: PostgreSQL's escape character is `\` unless another one is named."""
    if isinstance(node.expression, (exp.Any, exp.All)):
        raise UnknownQuestion("like any")
    match(t, node, scope)
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and "\\" not in pattern.name):
        wrap(node, lambda inner: exp.Escape(this=inner, expression=exp.Literal.string("\\")))
    return BOOL


def escape(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `x LIKE pattern ESCAPE '!'`."""
    match(t, node.this, scope)
    if not node.expression.name:
        node.replace(node.this)
    return BOOL


def joined(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `x || y || z`: texts, or arrays and elements."""
    operands = list(node.flatten(unnest=False))
    if len(operands) > MAX_OPERANDS:
        raise UnknownQuestion("concatenation")
    holder = exp.Tuple(expressions=operands)
    values = [t.value(part, scope) for part in operands]
    whole = next((value.type for value in values if pg_types.element(value.type) is not None), None)
    if whole is None:
        for value in values:
            t.as_text(value)
        texts = holder.expressions[0]
        for part in holder.expressions[1:]:
            texts = exp.DPipe(this=texts, expression=part)
        node.replace(call(f"{PREFIX}show_short", texts))
        return TEXT
    parts = [_array_part(t, value, whole, holder) for value in values]
    new = parts[0]
    for part in parts[1:]:
        new = call(f"{PREFIX}show_joined_arrays", new, part)
    node.replace(new)
    return whole


def _array_part(t: Typed, value: Value, whole: int, holder: exp.Expr) -> exp.Expr:
    """Return an operand of `||` as an array: an element becomes an array of one."""
    place = value.node.index or 0
    array = pg_types.element(value.type) is not None or isinstance(value.node, exp.Null)
    array = array or (value.type == UNKNOWN and value.node.name.startswith("{"))
    if value.type == UNKNOWN:
        t.settle(value.node, whole if array else pg_types.element(whole))
    part: exp.Expr = holder.expressions[place]
    return part if array else cast(exp.Array(expressions=[part]), whole)
