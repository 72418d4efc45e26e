"""The rules of operators: comparisons, quantifiers, arithmetic, patterns and membership."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.casts import cast, string
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import PREFIX
from dpsql.serve.catalog.pg_types import BOOL, TEXT, UNKNOWN
from dpsql.serve.catalog.values import Scope, Value, refuse_others
from dpsql.tree.templates import COMPARISONS

if TYPE_CHECKING:
    from dpsql.serve.catalog.context import Context


def comparison(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x = y` and the like; an untyped literal takes the type of the other side."""
    refuse_others(node.args, ("this", "expression"), "comparison")
    operator = COMPARISONS[type(node)]
    right = node.expression
    if isinstance(right, exp.Any):
        return quantified(t, node.this, operator, right.this, scope, every=False)
    if isinstance(right, exp.All):
        return quantified(t, node.this, operator, right.this, scope, every=True)
    if isinstance(right, exp.Anonymous) and str(right.this).lower() in ("all", "some", "any"):
        if len(right.expressions) != 1:
            raise UnknownQuestion("quantifier")
        every = str(right.this).lower() == "all"
        return quantified(t, node.this, operator, right.expressions[0], scope, every=every)
    if isinstance(node.this, exp.Any):
        raise UnknownQuestion("quantifier on the left")
    first, second = t.alike(t.expression(node.this, scope), t.expression(right, scope))
    return Value(f"({first.sql} {operator} {second.sql})", BOOL)


def quantified(
    t: Context, left: exp.Expr, operator: str, right: exp.Expr, scope: Scope, *, every: bool
) -> Value:
    """Translate `x = ANY (array)`, `x <> ALL ('{a,b}')`, `x = ANY (SELECT ..)`."""
    value = t.expression(left, scope)
    right = right.unnest()
    if isinstance(right, exp.Query):
        word = "ALL" if every else "ANY"
        return Value(f"({t.decided(value).sql} {operator} {word} ({t.query(right, scope).sql}))", BOOL)
    array = t.expression(right, scope)
    if array.type == UNKNOWN:
        value = t.decided(value)
        array = t.convert(array, pg_types.array_of(value.type))
    item = pg_types.element(array.type)
    if item is None:
        raise UnknownQuestion("no array")
    value = t.convert(value, item)
    if value.type in pg_types.NAMED_OIDS or value.type == pg_types.XID:
        value = t.convert(value, pg_types.OID)
    if operator == "=" and not every:
        return Value(f"list_contains({array.sql}, {value.sql})", BOOL)
    if operator == "<>" and every:
        return Value(f"{PREFIX}show_is_none({array.sql}, {value.sql})", BOOL)
    met = f"list_transform({array.sql}, lambda pg_item: {value.sql} {operator} pg_item)"
    return Value(f"list_bool_{'and' if every else 'or'}({met})", BOOL)


ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}


def arithmetic(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x + y` and the like, between numbers, and between times and intervals."""
    refuse_others(node.args, ("this", "expression", "typed", "safe"), "arithmetic")
    first, second = t.expression(node.this, scope), t.expression(node.expression, scope)
    if UNKNOWN in (first.type, second.type):
        first, second = t.alike(first, second)
    operator = ARITHMETIC[type(node)]
    times = {pg_types.TIMESTAMPTZ, pg_types.TIMESTAMP}
    if first.type in times and second.type in times and operator == "-":
        return Value(f"({first.sql} - {second.sql})", pg_types.INTERVAL)
    if first.type in times and second.type == pg_types.INTERVAL and operator in "+-":
        return Value(f"({first.sql} {operator} {second.sql})", first.type)
    if not {first.type, second.type} <= pg_types.NUMBERS:
        raise UnknownQuestion("arithmetic")
    found = pg_types.common((first.type, second.type))
    # A literal takes the narrow type of what stands beside it in DuckDB, and not in PostgreSQL.
    sides = [cast(side.sql, found) if side.sql.isdigit() else side.sql for side in (first, second)]
    return Value(cast(f"({sides[0]} {operator} {sides[1]})", found), found)


def likeness(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x LIKE pattern`, with PostgreSQL's escape character unless another one is named."""
    escape = "\\"
    if isinstance(node, exp.Escape):
        named = node.expression
        if not isinstance(named, exp.Literal) or len(str(named.this)) > 1:
            raise UnknownQuestion("escape")
        escape, node = str(named.this), node.this
    refuse_others(node.args, ("this", "expression", "negate"), "like")
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    if isinstance(node.expression, (exp.Any, exp.All)):
        raise UnknownQuestion("like any")
    value, pattern = (t.convert(t.expression(part, scope), TEXT) for part in (node.this, node.expression))
    plain = escape == "" or (isinstance(node.expression, exp.Literal) and escape not in pattern.sql)
    tail = "" if plain else f" ESCAPE {string(escape)}"
    negated = "NOT " if node.args.get("negate") else ""
    return Value(f"({value.sql} {negated}{word} {pattern.sql}{tail})", BOOL)


def match(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x ~ pattern` and `x ~* pattern`."""
    refuse_others(node.args, ("this", "expression"), "match")
    value, pattern = (t.convert(t.expression(part, scope), TEXT) for part in (node.this, node.expression))
    flags = ", 'i'" if isinstance(node, exp.RegexpILike) else ""
    return Value(f"regexp_matches({value.sql}, {pattern.sql}{flags})", BOOL)


def membership(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x IN (a, b)` and `x IN (SELECT ..)`."""
    refuse_others(node.args, ("this", "expressions", "query"), "in")
    query = node.args.get("query")
    if isinstance(node.this, exp.Tuple):
        if query is not None:
            raise UnknownQuestion("rows in a query")
        rows = [t.expression(part, scope) for part in (node.this, *node.expressions)]
        return Value(f"({rows[0].sql} IN ({', '.join(row.sql for row in rows[1:])}))", BOOL)
    value = t.expression(node.this, scope)
    if query is not None:
        inner = t.query(query, scope)
        if len(inner.columns) != 1:
            raise UnknownQuestion("columns in IN")
        if value.type == UNKNOWN:
            value = t.convert(value, inner.columns[0].type)
        return Value(f"({value.sql} IN ({inner.sql}))", BOOL)
    members = [t.expression(part, scope) for part in node.expressions]
    oid = pg_types.common([value.type, *(member.type for member in members)])
    if value.type != UNKNOWN and oid in pg_types.TEXTS:
        oid = value.type
    if not members:
        raise UnknownQuestion("empty IN")
    listed = ", ".join(
        t.convert(member, oid if member.type == UNKNOWN else member.type).sql for member in members
    )
    return Value(f"({t.convert(value, oid).sql if value.type == UNKNOWN else value.sql} IN ({listed}))", BOOL)


def between(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x BETWEEN a AND b`."""
    refuse_others(node.args, ("this", "low", "high"), "between")
    value = t.decided(t.expression(node.this, scope))
    low, high = (t.alike(value, t.expression(node.args[end], scope))[1] for end in ("low", "high"))
    return Value(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", BOOL)


def test(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x IS NULL`, `x IS NOT TRUE` and the like."""
    refuse_others(node.args, ("this", "expression", "negate"), "is")
    word = {exp.Null: "NULL", exp.Boolean: "TRUE" if node.expression.this else "FALSE"}.get(
        type(node.expression)
    )
    if word is None:
        raise UnknownQuestion("is")
    value = t.expression(node.this, scope)
    if word != "NULL":
        value = t.convert(value, BOOL)
    negated = "NOT " if node.args.get("negate") else ""
    return Value(f"({t.decided(value).sql} IS {negated}{word})", BOOL)
