"""The rules of functions: macros, aggregates, and those that depend on their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.conversions import Conversions, Scope, Value, call, cast
from dpsql.serve.catalog.facts import UnknownQuestion
from dpsql.serve.catalog.pg_types import TEXT
from dpsql.serve.catalog.postgres_data import AGGREGATES, FUNCTIONS, PREFIX, Function

_UNCAST = (TEXT, pg_types.NAME, pg_types.BOOL, pg_types.VOID)
"""Results of macros that need no cast."""
_FORMATS = {"s": f"{PREFIX}show_short", "I": f"{PREFIX}quote_ident", "L": f"{PREFIX}quote_nullable"}


class Calls(Conversions):
    """Translates calls of functions."""

    def function(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate the call of a function of the closed list."""
        name, arguments = node.name, node.expressions
        if name in SPECIALS:
            return SPECIALS[name](self, node, scope)
        if name in AGGREGATES:
            return self._aggregate(node, scope)
        known = FUNCTIONS.get((name, len(arguments)))
        if known is None or name.startswith("show_"):
            raise UnknownQuestion("function")
        optional = any(isinstance(part, exp.Boolean) and part.this for part in arguments[1:])
        if name == "current_setting" and isinstance(arguments[0], exp.Literal) and not optional:
            self.settings.append(arguments[0].name)
        new, oid = self.macro(known, node, scope)
        if known.returns_set:
            return Value(call("unnest", new), oid)
        return Value(new if oid is None or oid in _UNCAST else cast(new, oid), oid)

    def macro(self, function: Function, node: exp.Expr, scope: Scope) -> Value:
        """Translate the call of a macro; the type is that of its result, or of the rows that it lists."""
        values, arguments = self.values(node.expressions, scope), []
        for value, wanted in zip(values, function.arguments, strict=True):
            undecided = value.type == pg_types.UNKNOWN and wanted != "any"
            convert = undecided or wanted == "text"
            arguments.append(
                self.convert(value, pg_types.function_type(wanted)) if convert else self.settle(value, None)
            )
        match function.result:
            case "same":
                oid = values[0].type
            case "second":
                oid = values[1].type
            case "element":
                oid = pg_types.element(values[0].type)
            case result:
                oid = pg_types.function_type(result)
        return Value(call(f"{PREFIX}{function.name}", *arguments), oid)

    def _aggregate(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate an aggregate or a window function; DISTINCT and ORDER BY stand in its arguments."""
        result = AGGREGATES[node.name]
        if node.name == "every":
            node.set("this", "bool_and")
        if node.expressions and isinstance(node.expressions[0], exp.Distinct):
            distinct, *rest = node.expressions  # sqlglot takes all arguments for those of DISTINCT
            first = exp.Distinct(expressions=distinct.expressions[:1])
            node.set("expressions", [first, *distinct.expressions[1:], *rest])
        values = self.values(node.expressions, scope)
        own = values[0].type if values else None
        match result:
            case "same":
                oid = own
            case "extreme":
                oid = TEXT if own in (pg_types.NAME, pg_types.VARCHAR, pg_types.CHAR) else own
            case "array":
                oid = None if own is None else pg_types.array_of(own)
            case "sum":
                oid = pg_types.INT8 if own in (pg_types.INT2, pg_types.INT4) else pg_types.NUMERIC
            case _:
                oid = pg_types.function_type(result)
        return Value(node, oid)

    # Functions that depend on the types or the texts of their arguments.

    def substring(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `substring(x FROM a FOR b)` and `substring(x FROM 'pattern')`."""
        text, start, *length = node.expressions
        if length or not (isinstance(start, exp.Literal) and start.is_string):
            return self.macro(FUNCTIONS["substring", 2 + len(length)], node, scope)
        group = "(" in start.name.replace("\\(", "").replace("(?:", "")
        shown = self.text(self.expression(text, scope))
        return Value(call(f"{PREFIX}show_{'group' if group else 'matched'}", shown, start), TEXT)

    def choice(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `coalesce`, `greatest` and `least`."""
        return Value(node, self.meet(self.values(node.expressions, scope)))

    def null_if(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `nullif(x, y)`."""
        return Value(node, self.alike(self.values(node.expressions, scope))[0].type)

    def row(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `row(x, y)` and `(x, y)`."""
        self.values(node.expressions, scope)
        return Value(node, pg_types.RECORD)

    def set_config(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `set_config('name', 'value', is_local)` as an output column: a change of settings."""
        select = node.parent.parent if isinstance(node.parent, exp.Alias) else None
        holder = select.parent if isinstance(select, exp.Select) else None
        constant = all(isinstance(part, (exp.Literal, exp.Boolean)) for part in node.expressions)
        if holder is None or holder.parent is not None or len(node.expressions) != 3 or not constant:
            raise UnknownQuestion("set_config")
        name, value, local = (part.this for part in node.expressions)
        self.changes.append((str(name), str(value), bool(local)))
        return Value(exp.Literal.string(str(value)), TEXT)

    def format(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `format('%I.%s', x, y)` with a pattern that is a literal."""
        pattern, *given = [*map(self.text, self.values(node.expressions, scope))] or [exp.Null()]
        if not isinstance(pattern, exp.Literal):
            raise UnknownQuestion("format")
        plain, *rest = (part.replace("\x00", "%") for part in pattern.name.replace("%%", "\x00").split("%"))
        parts: list[exp.Expr] = [exp.Literal.string(plain)]
        for text in rest:
            if text[:1] not in _FORMATS or not given:
                raise UnknownQuestion("format")
            parts += [call(_FORMATS[text[0]], given.pop(0)), exp.Literal.string(text[1:])]
        return Value(_short(call("concat", *parts)), TEXT)

    def concat(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `concat(..)` and `concat_ws(separator, ..)`, which leave NULL out."""
        texts = map(self.text, self.values(node.expressions, scope))
        return Value(_short(call(node.name, *map(_short, texts))), TEXT)

    def json(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `json_build_object('key', value, ..)` and `json_build_array(value, ..)`."""
        name = node.name.replace("_build", "")
        if name == "json_object" and len(node.expressions) % 2:
            raise UnknownQuestion("json_build_object")
        texts = {*pg_types.TEXTS, pg_types.JSON}
        parts = [
            _short(value.node) if value.type in texts and not isinstance(value.node, exp.Null) else value.node
            for value in self.values(node.expressions, scope)
        ]
        return Value(cast(call(name, *parts), TEXT), pg_types.JSON)

    def type_of(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `pg_typeof(x)`."""
        oid = self.expression(node.expressions[0], scope).type
        if oid is None:
            raise UnknownQuestion("pg_typeof")
        return Value(cast(exp.Literal.number(oid), pg_types.REGTYPE), pg_types.REGTYPE)


def _short(node: exp.Expr) -> exp.Expr:
    return call(f"{PREFIX}show_short", node)


SPECIALS: Mapping[str, Callable[[Calls, exp.Expr, Scope], Value]] = {
    "row": Calls.row,
    "set_config": Calls.set_config,
    "format": Calls.format,
    **dict.fromkeys(("concat", "concat_ws"), Calls.concat),
    **dict.fromkeys(("json_build_object", "json_build_array"), Calls.json),
    "pg_typeof": Calls.type_of,
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
