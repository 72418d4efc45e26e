"""The rules of expressions: one rule a node type; a node without a rule is an unknown question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.serve.catalog import compounds, operators, pg_types, phrases
from dpsql.serve.catalog.casts import cast, string
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import PREFIX
from dpsql.serve.catalog.names import folded
from dpsql.serve.catalog.pg_types import BOOL, UNKNOWN
from dpsql.serve.catalog.values import Scope, Value, refuse_others
from dpsql.tree.templates import COMPARISONS

if TYPE_CHECKING:
    from dpsql.serve.catalog.context import Context

Rule = Callable[["Context", exp.Expr, Scope], Value]


def literal(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `'text'`, whose type is decided by what stands around it, and numbers."""
    text = str(node.this)
    if node.args.get("is_string"):
        return Value(string(text), UNKNOWN, literal=text)
    if text.isdigit():
        number = int(text)
        if number >= 1 << 63:
            return Value(cast(text, pg_types.NUMERIC), pg_types.NUMERIC)
        return Value(text, pg_types.INT4 if number < 1 << 31 else pg_types.INT8)
    if not all(character in "0123456789.eE+-" for character in text):
        raise UnknownQuestion("number")
    return Value(text, pg_types.NUMERIC)


def null(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `NULL`."""
    return Value("NULL", UNKNOWN)


def boolean(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `true` and `false`."""
    return Value("true" if node.this else "false", BOOL)


def parameter(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `$1`."""
    number = node.this
    if not isinstance(number, exp.Literal) or not str(number.this).isdigit():
        raise UnknownQuestion("parameter")
    return t.parameter(int(str(number.this)))


def column(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate a column, by its name, source and schema; a source alone is its only column."""
    refuse_others(node.args, ("this", "table", "db", "catalog"), "column")
    name, table, schema = (folded(node.args.get(part)) for part in ("this", "table", "db"))
    found = scope.find(name, table, schema)
    if found is not None:
        return found
    if not table:
        identifier = node.this
        if name in ("user", "current_role") and not identifier.args.get("quoted"):
            return t.call("user", [], scope)
        source = scope.source(name)
        if source is not None and len(source.columns) == 1:
            return source.value(source.columns[0])
    raise UnknownQuestion("column")


def session_user(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `current_user`, `current_catalog` and the like, which are written without parentheses."""
    return t.call(_SESSION[type(node)], [], scope)


_SESSION: dict[type[exp.Expr], str] = {
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentSchema: "current_schema",
    exp.CurrentTimestamp: "current_timestamp",
}


def parentheses(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `(x)`."""
    found = t.expression(node.this, scope)
    return Value(f"({found.sql})", found.type, found.literal, found.parameter, found.fields)


def negation(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `NOT x`."""
    return Value(f"(NOT {t.boolean(node.this, scope)})", BOOL)


def minus(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `-x`."""
    found = t.expression(node.this, scope)
    return Value(f"(-{found.sql})", found.type)


def junction(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x AND y`, `x OR y`: long chains without recursion."""
    word = "AND" if isinstance(node, exp.And) else "OR"
    parts = [t.boolean(part, scope) for part in node.flatten(unnest=False)]
    return Value("(" + f" {word} ".join(parts) + ")", BOOL)


def case(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `CASE`; its branches meet in one type."""
    refuse_others(node.args, ("this", "ifs", "default"), "case")
    subject = node.args.get("this")
    conditions = []
    for branch in node.args["ifs"]:
        if subject is None:
            conditions.append(t.boolean(branch.this, scope))
        else:
            first, second = t.alike(t.expression(subject, scope), t.expression(branch.this, scope))
            conditions.append(f"({first.sql} = {second.sql})")
    results = [t.expression(branch.args["true"], scope) for branch in node.args["ifs"]]
    default = node.args.get("default")
    last = [] if default is None else [t.expression(default, scope)]
    oid, sqls = t.common([*last, *results])  # PostgreSQL begins with the last branch
    branches = zip(conditions, sqls[len(last) :], strict=True)
    listed = " ".join(f"WHEN {condition} THEN {sql}" for condition, sql in branches)
    other = f" ELSE {sqls[0]}" if last else ""
    return Value(f"(CASE {listed}{other} END)", oid)


_CHOICES: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
}


def choice(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `coalesce`, `greatest` and `least`."""
    refuse_others(node.args, ("this", "expressions", "ignore_nulls"), "coalesce")
    word = _CHOICES[type(node)]
    oid, sqls = t.common([t.expression(part, scope) for part in (node.this, *node.expressions)])
    return Value(f"{word}({', '.join(sqls)})", oid)


def null_if(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `nullif(x, y)`."""
    first, second = t.alike(t.expression(node.this, scope), t.expression(node.expression, scope))
    return Value(f"nullif({first.sql}, {second.sql})", first.type)


def existence(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `EXISTS (SELECT ..)`."""
    return Value(f"EXISTS ({t.query(node.this.unnest(), scope).sql})", BOOL)


def scalar(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `(SELECT ..)` as a value."""
    refuse_others(node.args, ("this",), "subquery")
    inner = t.query(node.this, scope)
    if len(inner.columns) != 1:
        raise UnknownQuestion("columns in a subquery")
    found = inner.columns[0]
    return Value(f"({inner.sql})", found.type, fields=found.fields)


def call(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate a call of a function of the closed list."""
    name = str(node.this)
    if not name.startswith(PREFIX):
        if name.lower() == "row":
            return compounds.row(t, node, scope)
        raise UnknownQuestion("function")
    return t.call(name.removeprefix(PREFIX), node.expressions, scope, node)


def filtered(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `aggregate(..) FILTER (WHERE ..)`."""
    return t.aggregate(node, scope)


def windowed(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `function(..) OVER (PARTITION BY .. ORDER BY ..)`."""
    refuse_others(node.args, ("this", "partition_by", "order", "over", "first"), "window")
    parts = [t.decided(t.expression(part, scope)).sql for part in node.args.get("partition_by") or []]
    inner = f"PARTITION BY {', '.join(parts)}" if parts else ""
    order = node.args.get("order")
    ordered = t.order(order.expressions, scope) if order is not None else ""
    return t.aggregate(
        node.this, scope, tail=f" OVER ({' '.join(part for part in (inner, ordered) if part)})"
    )


RULES: Mapping[type[exp.Expr], Rule] = {
    exp.Literal: literal,
    exp.Null: null,
    exp.Boolean: boolean,
    exp.Parameter: parameter,
    exp.Column: column,
    **dict.fromkeys(_SESSION, session_user),
    exp.Paren: parentheses,
    exp.Not: negation,
    exp.Neg: minus,
    exp.And: junction,
    exp.Or: junction,
    **dict.fromkeys(COMPARISONS, operators.comparison),
    **dict.fromkeys(operators.ARITHMETIC, operators.arithmetic),
    exp.DPipe: compounds.joined,
    exp.Like: operators.likeness,
    exp.ILike: operators.likeness,
    exp.Escape: operators.likeness,
    exp.RegexpLike: operators.match,
    exp.RegexpILike: operators.match,
    exp.In: operators.membership,
    exp.Between: operators.between,
    exp.Is: operators.test,
    exp.Case: case,
    exp.Coalesce: choice,
    exp.Greatest: choice,
    exp.Least: choice,
    exp.Nullif: null_if,
    exp.Cast: compounds.conversion,
    exp.Array: compounds.array,
    exp.Tuple: compounds.row,
    exp.Bracket: compounds.subscript,
    exp.Dot: compounds.field,
    exp.Exists: existence,
    exp.Subquery: scalar,
    exp.Trim: phrases.trimmed,
    exp.Substring: phrases.part_of_text,
    exp.StrPosition: phrases.position,
    exp.Extract: phrases.extract,
    exp.Interval: phrases.interval,
    exp.Anonymous: call,
    exp.Filter: filtered,
    exp.Window: windowed,
}

"""The rule of each node type that questions may have."""


def translate(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate an expression by the rule of its node type."""
    rule = RULES.get(type(node))
    if rule is None:
        raise UnknownQuestion(type(node).__name__)
    return rule(t, node, scope)
