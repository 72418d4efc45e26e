"""The rules of functions: macros, aggregates, and those that depend on their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.conversions import Conversions, Scope, Value, call, cast, wrap
from dpsql.serve.catalog.facts import UnknownQuestion
from dpsql.serve.catalog.pg_types import TEXT, UNKNOWN
from dpsql.serve.catalog.postgres_data import AGGREGATES, FUNCTIONS, PREFIX, Function

_UNCAST = (TEXT, pg_types.NAME, pg_types.BOOL, pg_types.VOID)
"""Results of macros that need no cast."""
_FORMATS = {"s": f"{PREFIX}show_short", "I": f"{PREFIX}quote_ident", "L": f"{PREFIX}quote_nullable"}


class Calls(Conversions):
    """Translates calls of functions in their place."""

    def function(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate the call of a function of the closed list."""
        name = node.name
        if name in SPECIALS:
            return SPECIALS[name](self, node, scope)
        if name in AGGREGATES:
            return self._aggregate(node, scope)
        return self.macro_call(node, scope)

    def macro_call(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate the call of a macro."""
        name = node.name
        known = FUNCTIONS.get((name, len(node.expressions)))
        if known is None or name.startswith("show_"):
            raise UnknownQuestion("function")
        if name == "current_setting" and isinstance(node.expressions[0], exp.Literal):
            missing = node.expressions[1] if len(node.expressions) == 2 else None
            if not isinstance(missing, exp.Boolean) or not missing.this:
                self.settings.append(node.expressions[0].name)
        oid = self.macro(known, node, scope)
        if known.returns_set:
            wrap(node, lambda inner: call("unnest", inner))
        elif oid is not None and oid not in _UNCAST:
            wrap(node, lambda inner: cast(inner, oid))
        return oid

    def macro(self, function: Function, node: exp.Expr, scope: Scope) -> int | None:
        """Translate the arguments of a macro; return the type of its result, or of the rows that it lists."""
        node.set("this", f"{PREFIX}{function.name}")
        values = [self.value(part, scope) for part in node.expressions]
        for value, wanted in zip(values, function.arguments, strict=True):
            if wanted == "any":
                self.settle(value.node, UNKNOWN)
            elif value.type == UNKNOWN or wanted == "text":
                self.convert(value, pg_types.function_type(wanted))
        if function.result in ("same", "element"):
            own = values[0].type
            return own if function.result == "same" else pg_types.element(own)
        return pg_types.function_type(function.result)

    def texts(self, node: exp.Expr, scope: Scope) -> list[exp.Expr]:
        """Translate arguments and show them as texts; return what stands in their place."""
        for part in list(node.expressions):
            self.as_text(self.value(part, scope))
        found: list[exp.Expr] = node.expressions
        return found

    def _aggregate(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate an aggregate or a window function; DISTINCT and ORDER BY stand in its arguments."""
        name = node.name
        result = AGGREGATES[name]
        node.set("this", "bool_and" if name == "every" else name)
        if node.expressions and isinstance(node.expressions[0], exp.Distinct):
            distinct, *rest = node.expressions  # sqlglot takes all arguments for those of DISTINCT
            node.set("expressions", [exp.Distinct(expressions=distinct.expressions[:1])])
            node.args["expressions"] += [*distinct.expressions[1:], *rest]
        types = [self.expression(part, scope) for part in list(node.expressions)]
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
        return pg_types.function_type(result)

    # Functions that depend on the types or the texts of their arguments.

    def substring(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `substring(x FROM a FOR b)` and `substring(x FROM 'pattern')`."""
        text, start, *length = node.expressions
        if length or not (isinstance(start, exp.Literal) and start.is_string):
            return self.macro_call(node, scope)
        group = "(" in start.name.replace("\\(", "").replace("(?:", "")
        self.as_text(self.value(text, scope))
        node.set("this", f"{PREFIX}show_{'group' if group else 'matched'}")
        return TEXT

    def choice(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `coalesce`, `greatest` and `least`."""
        return self.meet([self.value(part, scope) for part in list(node.expressions)])

    def null_if(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `nullif(x, y)`."""
        return self.like_values(node, scope)[0].type

    def like_values(self, node: exp.Expr, scope: Scope) -> list[Value]:
        """Translate parts that are compared; an untyped literal takes the type of the others."""
        values = [self.value(part, scope) for part in list(node.iter_expressions())]
        self.alike(values)
        return values

    def interval(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `interval '1 day'`."""
        text = exp.Literal.string(f"{node.name} {node.text('unit')}".strip())
        node.replace(cast(text, pg_types.INTERVAL))
        return pg_types.INTERVAL

    def row(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `row(x, y)` and `(x, y)`."""
        self.parts(list(node.expressions), scope)
        return pg_types.RECORD

    def set_config(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `set_config('name', 'value', is_local)` as an output column: a change of settings."""
        select = node.parent.parent if isinstance(node.parent, exp.Alias) else None
        holder = select.parent if isinstance(select, exp.Select) else None
        constant = all(isinstance(part, (exp.Literal, exp.Boolean)) for part in node.expressions)
        if holder is None or holder.parent is not None or len(node.expressions) != 3 or not constant:
            raise UnknownQuestion("set_config")
        name, value, local = (part.this for part in node.expressions)
        self.changes.append((str(name), str(value), bool(local)))
        node.replace(exp.Literal.string(str(value)))
        return TEXT

    def format(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `format('%I.%s', x, y)` with a pattern that is a literal."""
        pattern, *given = self.texts(node, scope) or [exp.Null()]
        if not isinstance(pattern, exp.Literal):
            raise UnknownQuestion("format")
        plain, *rest = pattern.name.replace("%%", "\x00").split("%")
        parts: list[exp.Expr] = [exp.Literal.string(plain.replace("\x00", "%"))]
        for text in rest:
            if text[:1] not in _FORMATS or not given:
                raise UnknownQuestion("format")
            parts.append(call(_FORMATS[text[0]], given.pop(0)))
            parts.append(exp.Literal.string(text[1:].replace("\x00", "%")))
        node.replace(_short(call("concat", *parts)))
        return TEXT

    def concat(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `concat(..)` and `concat_ws(separator, ..)`, which leave NULL out."""
        node.replace(_short(call(node.name, *map(_short, self.texts(node, scope)))))
        return TEXT

    def json(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `json_build_object('key', value, ..)` and `json_build_array(value, ..)`."""
        name = node.name.replace("_build", "")
        if name == "json_object" and len(node.expressions) % 2:
            raise UnknownQuestion("json_build_object")
        for part in list(node.expressions):
            value = self.value(part, scope)
            if value.type in {*pg_types.TEXTS, pg_types.JSON} and not isinstance(value.node, exp.Null):
                wrap(value.node, _short)
        node.replace(cast(call(name, *node.expressions), TEXT))
        return pg_types.JSON

    def type_of(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `pg_typeof(x)`."""
        oid = self.expression(node.expressions[0], scope)
        if oid is None:
            raise UnknownQuestion("pg_typeof")
        node.replace(cast(exp.Literal.number(oid), pg_types.REGTYPE))
        return pg_types.REGTYPE

    def date_part(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `date_part('epoch', x)` and `date_trunc('day', x)`."""
        part, value = node.expressions
        oid = self.expression(value, scope)
        if not isinstance(part, exp.Literal) or oid in (UNKNOWN, *pg_types.TEXTS):
            raise UnknownQuestion("date_part")
        return oid if node.name == "date_trunc" else pg_types.FLOAT8


def _short(node: exp.Expr) -> exp.Expr:
    return call(f"{PREFIX}show_short", node)


SPECIALS: Mapping[str, Callable[[Calls, exp.Expr, Scope], int | None]] = {
    "row": Calls.row,
    "set_config": Calls.set_config,
    "format": Calls.format,
    **dict.fromkeys(("concat", "concat_ws"), Calls.concat),
    **dict.fromkeys(("json_build_object", "json_build_array"), Calls.json),
    "pg_typeof": Calls.type_of,
    **dict.fromkeys(("date_part", "date_trunc"), Calls.date_part),
    **dict.fromkeys(("coalesce", "greatest", "least"), Calls.choice),
    "nullif": Calls.null_if,
    "substring": Calls.substring,
}

NAMES = frozenset(
    {name for name, _ in FUNCTIONS if not name.startswith("show_")}
    | AGGREGATES.keys()
    | SPECIALS.keys() - {"row"}
)
"""The names of all functions that a question may call; macros named `show_..` are for rules."""
