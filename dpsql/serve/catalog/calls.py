"""The rules of functions: macros, aggregates, and those that depend on their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import AGGREGATES, FUNCTIONS, PREFIX
from dpsql.serve.catalog.names import SESSION, function_name, trim_function
from dpsql.serve.catalog.pg_types import TEXT, UNKNOWN
from dpsql.serve.catalog.scope import Scope
from dpsql.serve.catalog.typed import Typed, call, cast, wrap

_UNCAST = (TEXT, pg_types.NAME, pg_types.BOOL, pg_types.VOID)
"""Results of macros that need no cast."""


def function(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate the call of a function of the closed list."""
    name = function_name(node)
    if name == "row":
        t.parts(list(node.expressions), scope)
        return pg_types.RECORD
    if name in AGGREGATES:
        return _aggregate(t, node, scope)
    if name in SPECIALS:
        return SPECIALS[name](t, node, scope)
    known = FUNCTIONS.get((name, len(node.expressions)))
    if known is None or name.startswith("show_"):
        raise UnknownQuestion("function")
    if name == "current_setting":
        _require(t, node.expressions)
    oid = t.macro(known, node, scope)
    if known.returns_set:
        wrap(node, lambda inner: call("unnest", inner))
    elif oid is not None and oid not in _UNCAST:
        wrap(node, lambda inner: cast(inner, oid))
    return oid


def replaced(t: Typed, node: exp.Expr, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> int | None:
    """Translate a node as the call of a function."""
    new = call(name, *arguments)
    node.replace(new)
    return function(t, new, scope)


def _require(t: Typed, arguments: Sequence[exp.Expr]) -> None:
    """Note a setting that must exist: one that is named, and not as one that may be missing."""
    may_be_missing = len(arguments) == 2 and isinstance(arguments[1], exp.Boolean) and arguments[1].this
    if isinstance(arguments[0], exp.Literal) and not may_be_missing:
        t.settings.append(arguments[0].name)


def _aggregate(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate an aggregate or a window function; DISTINCT and ORDER BY stand in its arguments."""
    name, result = AGGREGATES[function_name(node)]
    node.set("this", name)
    if node.expressions and isinstance(node.expressions[0], exp.Distinct):
        distinct, *rest = node.expressions  # sqlglot takes all arguments for those of DISTINCT
        node.set("expressions", [exp.Distinct(expressions=distinct.expressions[:1])])
        node.args["expressions"] += [*distinct.expressions[1:], *rest]
    types = [t.expression(part, scope) for part in list(node.expressions)]
    own = types[0] if types else None
    match result:
        case "same":
            return own
        case "extreme":
            return TEXT if own in (pg_types.NAME, pg_types.VARCHAR, pg_types.CHAR) else own
        case "array":
            return None if own is None else pg_types.array_of(own)
        case "sum":
            return pg_types.INT8 if own in (pg_types.INT2, pg_types.INT4) else pg_types.NUMERIC
    return pg_types.named_type(result)


# Functions that are written without parentheses, or with key words among their arguments.


def session(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `current_user` and the like."""
    return replaced(t, node, SESSION[type(node)], [], scope)


def spelled(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `trim(BOTH x FROM y)`, `position(x IN y)` and `substring(x FROM a FOR b)`."""
    if isinstance(node, exp.Trim):
        arguments = [part for part in (node.this, node.expression) if part is not None]
        return replaced(t, node, trim_function(node), arguments, scope)
    if isinstance(node, exp.StrPosition):
        return replaced(t, node, "position", [node.args["substr"], node.this], scope)
    start, length = node.args.get("start") or exp.Literal.number(1), node.args.get("length")
    if length is None and isinstance(start, exp.Literal) and start.is_string:
        group = "(" in start.name.replace("\\(", "").replace("(?:", "")
        t.as_text(t.value(node.this, scope))
        node.replace(call(f"{PREFIX}show_{'group' if group else 'matched'}", node.this, start))
        return TEXT
    return replaced(t, node, "substring", [node.this, start, *([length] if length else [])], scope)


def extract(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `extract(epoch FROM x)`."""
    t.expression(node.expression, scope)
    part = exp.Literal.string(node.name.lower())
    node.replace(cast(call("date_part", part, node.expression), pg_types.NUMERIC))
    return pg_types.NUMERIC


def interval(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `interval '1 day'`."""
    text = exp.Literal.string(f"{node.name} {node.text('unit')}".strip())
    node.replace(cast(text, pg_types.INTERVAL))
    return pg_types.INTERVAL


# Functions that depend on the types or the texts of their arguments.


def _short(node: exp.Expr) -> exp.Expr:
    return call(f"{PREFIX}show_short", node)


def _set_config(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `set_config('name', 'value', is_local)` as an output column: a change of settings."""
    select = node.parent.parent if isinstance(node.parent, exp.Alias) else None
    holder = select.parent if isinstance(select, exp.Select) else None
    if holder is None or holder.parent is not None or len(node.expressions) != 3:
        raise UnknownQuestion("set_config")
    if not all(isinstance(part, (exp.Literal, exp.Boolean)) for part in node.expressions):
        raise UnknownQuestion("set_config")
    name, value, local = (part.this for part in node.expressions)
    t.changes.append((str(name), str(value), bool(local)))
    node.replace(exp.Literal.string(str(value)))
    return TEXT


_FORMATS = {"s": f"{PREFIX}show_short", "I": f"{PREFIX}quote_ident", "L": f"{PREFIX}quote_nullable"}


def _format(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `format('%I.%s', x, y)` with a pattern that is a literal."""
    for part in list(node.expressions):
        t.as_text(t.value(part, scope))
    if not node.expressions or not isinstance(node.expressions[0], exp.Literal):
        raise UnknownQuestion("format")
    pattern, *given = node.expressions
    plain, *rest = pattern.name.replace("%%", "\x00").split("%")
    parts: list[exp.Expr] = [exp.Literal.string(plain)]
    for text in rest:
        if text[:1] not in _FORMATS or not given:
            raise UnknownQuestion("format")
        parts += [call(_FORMATS[text[0]], given.pop(0)), exp.Literal.string(text[1:])]
    for part in parts:
        if isinstance(part, exp.Literal):
            part.set("this", part.name.replace("\x00", "%"))
    node.replace(_short(call("concat", *parts)))
    return TEXT


def _concat(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `concat(..)` and `concat_ws(separator, ..)`, which leave NULL out."""
    for part in list(node.expressions):
        t.as_text(t.value(part, scope))
    node.replace(_short(call(function_name(node), *map(_short, node.expressions))))
    return TEXT


def _json(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `json_build_object('key', value, ..)` and `json_build_array(value, ..)`."""
    name = function_name(node).replace("_build", "")
    if name == "json_object" and len(node.expressions) % 2:
        raise UnknownQuestion("json_build_object")
    for part in list(node.expressions):
        value = t.value(part, scope)
        if value.type in {*pg_types.TEXTS, pg_types.JSON} and not isinstance(value.node, exp.Null):
            wrap(value.node, _short)
    node.replace(cast(call(name, *node.expressions), TEXT))
    return pg_types.JSON


def _type_of(t: Typed, node: exp.Expr, scope: Scope) -> int:
    """Translate `pg_typeof(x)`."""
    oid = t.expression(node.expressions[0], scope)
    if oid is None:
        raise UnknownQuestion("pg_typeof")
    node.replace(cast(exp.Literal.number(oid), pg_types.REGTYPE))
    return pg_types.REGTYPE


def _date_part(t: Typed, node: exp.Expr, scope: Scope) -> int | None:
    """Translate `date_part('epoch', x)` and `date_trunc('day', x)`."""
    part, value = node.expressions
    oid = t.expression(value, scope)
    if not isinstance(part, exp.Literal) or oid in (UNKNOWN, *pg_types.TEXTS):
        raise UnknownQuestion("date_part")
    return oid if function_name(node) == "date_trunc" else pg_types.FLOAT8


SPECIALS: Mapping[str, Callable[[Typed, exp.Expr, Scope], int | None]] = {
    "set_config": _set_config,
    "format": _format,
    **dict.fromkeys(("concat", "concat_ws"), _concat),
    **dict.fromkeys(("json_build_object", "json_build_array"), _json),
    "pg_typeof": _type_of,
    **dict.fromkeys(("date_part", "date_trunc"), _date_part),
}

NAMES = frozenset(
    {name for name, _ in FUNCTIONS if not name.startswith("show_")} | AGGREGATES.keys() | SPECIALS.keys()
)
"""The names of all functions that a question may call; macros named `show_..` are for rules."""
