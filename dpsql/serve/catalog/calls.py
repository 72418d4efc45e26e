"""Calls of functions: those with macros, aggregates and windows, and those with a rule of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.casts import cast, string
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import AGGREGATES, FUNCTIONS, PREFIX, Function
from dpsql.serve.catalog.pg_types import TEXT, UNKNOWN
from dpsql.serve.catalog.values import Scope, Value

if TYPE_CHECKING:
    from dpsql.serve.catalog.context import Context

MAX_ARGUMENTS = 100

Special = Callable[["Context", Sequence[exp.Expr], Scope, "exp.Expr | None"], Value]


def macro(t: Context, function: Function, arguments: Sequence[exp.Expr], scope: Scope) -> Value:
    """Translate a call of a function that is a macro; one that returns rows gives the list of them."""
    given = []
    for part, wanted in zip(arguments, function.arguments, strict=True):
        value = t.expression(part, scope)
        if wanted == "any":
            given.append(t.decided(value))
        elif value.type == UNKNOWN or wanted == "text":
            given.append(t.convert(value, type_named(wanted)))
        else:
            given.append(value)
    sqls = [value.sql for value in given] + [t.fact(name) for name in function.facts]
    oid = _result(function, given)
    sql = f"{PREFIX}{function.name}({', '.join(sqls)})"
    if not function.returns_set and oid not in (TEXT, pg_types.NAME, pg_types.BOOL, pg_types.VOID):
        sql = cast(sql, oid)
    fields = tuple((name, type_named(kind)) for name, kind in function.fields)
    return Value(sql, oid, fields=fields)


def type_named(name: str) -> int:
    """Return the OID of a type that `functions.sql` names."""
    if name.endswith("[]"):
        return pg_types.array_of(type_named(name[:-2]))
    oid = pg_types.CHAR if name == '"char"' else pg_types.named(name)
    if oid is None:
        raise UnknownQuestion(f"type {name}")
    return oid


def _result(function: Function, given: Sequence[Value]) -> int:
    if function.result == "same":
        return given[0].type
    if function.result == "element":
        item = pg_types.element(given[0].type)
        if item is None:
            raise UnknownQuestion("no array")
        return item
    return type_named(function.result)


def rows(t: Context, node: exp.Expr, scope: Scope) -> Value | None:
    """Return the list that a function which returns rows gives; None for other expressions."""
    if not isinstance(node, exp.Anonymous) or not str(node.this).startswith(PREFIX):
        return None
    function = FUNCTIONS.get((str(node.this).removeprefix(PREFIX), len(node.expressions)))
    if function is None or not function.returns_set:
        return None
    return macro(t, function, node.expressions, scope)


def aggregate(t: Context, node: exp.Expr, scope: Scope, tail: str = "") -> Value:
    """Translate a call of an aggregate or window function; `tail` is its FILTER or OVER."""
    if isinstance(node, exp.Filter):
        condition = t.boolean(node.expression.this, scope)
        return aggregate(t, node.this, scope, f" FILTER (WHERE {condition}){tail}")
    name = str(node.this).removeprefix(PREFIX) if isinstance(node, exp.Anonymous) else ""
    found = AGGREGATES.get(name)
    if found is None or (found.window_only and " OVER (" not in tail):
        raise UnknownQuestion("aggregate")
    arguments, order = list(node.expressions), ""
    if arguments and isinstance(arguments[-1], exp.Order):
        last = arguments.pop()
        order = " " + t.order(last.expressions, scope)
        arguments.append(last.this)
    distinct = ""
    if arguments and isinstance(arguments[0], exp.Distinct):
        distinct = "DISTINCT "
        arguments = [*arguments[0].expressions, *arguments[1:]]
    if len(arguments) == 1 and isinstance(arguments[0], exp.Star) and name == "count":
        return Value(f"count(*){tail}", pg_types.INT8)
    if len(arguments) not in found.arguments or (name == "count" and not arguments):
        raise UnknownQuestion("arguments of an aggregate")
    given = [t.decided(t.expression(part, scope)) for part in arguments]
    if name == "string_agg":
        given = [t.convert(value, TEXT) for value in given]
    oid = _aggregate_type(found.result, given)
    sql = f"{found.name}({distinct}{', '.join(value.sql for value in given)}{order}){tail}"
    exact = found.result in ("same", "extreme", "array", "text", "bool", "int8")
    return Value(sql if exact else cast(sql, oid), oid)


def _aggregate_type(result: str, given: Sequence[Value]) -> int:
    if result == "same":
        return given[0].type
    if result == "extreme":
        return TEXT if given[0].type in (pg_types.NAME, pg_types.VARCHAR, pg_types.CHAR) else given[0].type
    if result == "array":
        return pg_types.array_of(given[0].type)
    if result == "sum":
        small = given[0].type in (pg_types.INT2, pg_types.INT4)
        return pg_types.INT8 if small else pg_types.NUMERIC
    return type_named(result)


def current_setting(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `current_setting('name' [, missing_ok])`; of a column: looked up among the settings."""
    if len(arguments) not in (1, 2):
        raise UnknownQuestion("current_setting")
    second = arguments[1] if len(arguments) == 2 else None
    missing_ok = isinstance(second, exp.Boolean) and second.this is True
    value = t.expression(arguments[0], scope)
    if value.literal is not None:
        return Value(t.setting(value.literal, missing_ok=missing_ok), TEXT)
    if value.type == UNKNOWN:
        raise UnknownQuestion("setting of a parameter")
    place = t.live("pg_catalog", "_settings")
    return Value(f"(SELECT pg_set.value FROM {place} AS pg_set WHERE pg_set.name = lower({value.sql}))", TEXT)


def set_config(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `set_config('name', 'value', is_local)` as an output column: a change of settings."""
    whole = node.parent if node is not None and isinstance(node.parent, exp.Alias) else node
    select = whole.parent if whole is not None else None
    if len(arguments) != 3 or not isinstance(select, exp.Select) or select.parent is not None:
        raise UnknownQuestion("set_config")
    if not all(isinstance(part, (exp.Literal, exp.Boolean)) for part in arguments):
        raise UnknownQuestion("set_config")
    name, value, local = (part.this for part in arguments)
    t.changes.append((str(name), str(value), bool(local)))
    return Value(string(str(value)), TEXT)


def current_schemas(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `current_schemas(implicit)`."""
    if len(arguments) != 1 or not isinstance(arguments[0], exp.Boolean):
        raise UnknownQuestion("current_schemas")
    oid = pg_types.array_of(pg_types.NAME)
    return Value(t.fact("implicit_schemas" if arguments[0].this else "schemas"), oid)


def formatted(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `format('%I.%s', x, y)` with a pattern that is a literal."""
    if not arguments or not isinstance(arguments[0], exp.Literal):
        raise UnknownQuestion("format")
    given = [t.convert(t.expression(part, scope), TEXT).sql for part in arguments[1:]]
    parts, pattern, used = [], str(arguments[0].this), 0
    while pattern:
        plain, percent, rest = pattern.partition("%")
        if plain:
            parts.append(string(plain))
        if not percent:
            break
        kind, pattern = rest[:1], rest[1:]
        if kind == "%":
            parts.append("'%'")
            continue
        if kind not in _FORMATS or used >= len(given):
            raise UnknownQuestion("format")
        parts.append(_FORMATS[kind].format(given[used]))
        used += 1
    return Value(_joined(parts or ["''"]), TEXT)


_FORMATS = {
    "s": "coalesce({}, '')",
    "I": f"{PREFIX}quote_ident({{}})",
    "L": f"{PREFIX}quote_nullable({{}})",
}


def _joined(parts: Sequence[str]) -> str:
    """Return SQL that joins texts, within the limit on the length of a text."""
    if len(parts) > MAX_ARGUMENTS:
        raise UnknownQuestion("format")
    return _short(" || ".join(parts))


def concatenated(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `concat(..)` and `concat_ws(separator, ..)`, which leave NULL out."""
    given = [_short(t.convert(t.expression(part, scope), TEXT).sql) for part in arguments]
    if not 0 < len(given) <= MAX_ARGUMENTS:
        raise UnknownQuestion("concat")
    name = "concat_ws" if node is not None and str(node.this).endswith("_ws") else "concat"
    return Value(_short(f"{name}({', '.join(given)})"), TEXT)


def _short(sql: str) -> str:
    return f"{PREFIX}show_short({sql})"


def _json_arguments(t: Context, arguments: Sequence[exp.Expr], scope: Scope) -> str:
    values = [t.decided(t.expression(part, scope)) for part in arguments]
    if len(values) > MAX_ARGUMENTS:
        raise UnknownQuestion("arguments")
    return ", ".join(
        _short(v.sql) if v.type in {*pg_types.TEXTS, pg_types.JSON} and v.sql != "NULL" else v.sql
        for v in values
    )


def json_object(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `json_build_object('key', value, ..)`."""
    if len(arguments) % 2:
        raise UnknownQuestion("json_build_object")
    given = _json_arguments(t, arguments, scope)
    return Value(f"CAST(json_object({given}) AS VARCHAR)", pg_types.JSON)


def json_array(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `json_build_array(value, ..)`."""
    given = _json_arguments(t, arguments, scope)
    return Value(f"CAST(json_array({given}) AS VARCHAR)", pg_types.JSON)


def type_of(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `pg_typeof(x)`."""
    if len(arguments) != 1:
        raise UnknownQuestion("pg_typeof")
    return Value(f"CAST({t.expression(arguments[0], scope).type} AS UINTEGER)", pg_types.REGTYPE)


def date_part(t: Context, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None) -> Value:
    """Translate `date_part('epoch', x)` and `date_trunc('day', x)`."""
    value = t.expression(arguments[1], scope) if len(arguments) == 2 else None
    times = {pg_types.TIMESTAMP, pg_types.TIMESTAMPTZ}
    part = str(arguments[0].this).lower() if arguments and isinstance(arguments[0], exp.Literal) else ""
    known = ("epoch", "year", "month", "day", "hour", "minute", "second")
    if value is None or value.type not in times or part not in known:
        raise UnknownQuestion("date_part")
    if node is not None and str(node.this).endswith("trunc"):
        return Value(cast(f"date_trunc('{part}', {value.sql})", value.type), value.type)
    return Value(cast(f"date_part('{part}', {value.sql})", pg_types.FLOAT8), pg_types.FLOAT8)


SPECIALS: Mapping[str, Special] = {
    "current_setting": current_setting,
    "set_config": set_config,
    "current_schemas": current_schemas,
    "format": formatted,
    "concat": concatenated,
    "concat_ws": concatenated,
    "json_build_object": json_object,
    "json_build_array": json_array,
    "pg_typeof": type_of,
    "date_part": date_part,
    "date_trunc": date_part,
}
"""The functions that have a rule of their own: they depend on the types or texts of their arguments."""

NAMES = frozenset(
    {name for name, _ in FUNCTIONS if not name.startswith("show_")} | AGGREGATES.keys() | SPECIALS.keys()
)
"""The names of all functions that a question may call; macros named `show_..` are for rules."""
