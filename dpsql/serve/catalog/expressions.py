"""The rules of expressions and calls that DuckDB reads in another sense than PostgreSQL, or without a type.

An expression without a rule is left to sqlglot: only its parts are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from sqlglot import exp

from dpsql.serve.catalog import UnknownQuestion, postgres
from dpsql.serve.catalog.conversions import Conversions, SelectScope, TypedNode, call, cast_to, replace_node
from dpsql.serve.catalog.parse import type_oid
from dpsql.serve.catalog.postgres import AGGREGATES, BOOL, FUNCTIONS, PREFIX, TEXT, UNKNOWN, Function

_UNCAST = (TEXT, postgres.NAME, postgres.BOOL, postgres.VOID)
"""Results of macros that need no cast."""
_FORMATS = {"s": f"{PREFIX}show_short", "I": f"{PREFIX}quote_ident", "L": f"{PREFIX}quote_nullable"}


class Calls(Conversions):
    """Translates calls of PostgreSQL's functions in a query over its catalogue."""

    def function(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
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
            return TypedNode(call("unnest", new), oid)
        return TypedNode(new if oid is None or oid in _UNCAST else cast_to(new, oid), oid)

    def macro(self, function: Function, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate the call of a macro; the type is the type of its result, or of the rows that it lists."""
        values, arguments = self.values(node.expressions, scope), []
        for value, wanted in zip(values, function.arguments, strict=True):
            undecided = value.type == postgres.UNKNOWN and wanted != "any"
            convert = undecided or wanted == "text"
            arguments.append(
                self.convert(value, postgres.function_type(wanted)) if convert else self.settle(value, None)
            )
        match function.result:
            case "same":
                oid = values[0].type
            case "second":
                oid = values[1].type
            case "element":
                oid = postgres.element_type(values[0].type)
            case result:
                oid = postgres.function_type(result)
        return TypedNode(call(f"{PREFIX}{function.name}", *arguments), oid)

    def _aggregate(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
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
                oid = TEXT if own in (postgres.NAME, postgres.VARCHAR, postgres.CHAR) else own
            case "array":
                oid = None if own is None else postgres.array_of(own)
            case "sum":
                oid = postgres.INT8 if own in (postgres.INT2, postgres.INT4) else postgres.NUMERIC
            case _:
                oid = postgres.function_type(result)
        return TypedNode(node, oid)

    # Functions that depend on the types or the texts of their arguments.

    def substring(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `substring(x FROM a FOR b)` and `substring(x FROM 'pattern')`."""
        text, start, *length = node.expressions
        if length or not (isinstance(start, exp.Literal) and start.is_string):
            return self.macro(FUNCTIONS["substring", 2 + len(length)], node, scope)
        group = "(" in start.name.replace("\\(", "").replace("(?:", "")
        shown = self.text(self.expression(text, scope))
        return TypedNode(call(f"{PREFIX}show_{'group' if group else 'matched'}", shown, start), TEXT)

    def choice(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `coalesce`, `greatest` and `least`."""
        return TypedNode(node, self.meet(self.values(node.expressions, scope)))

    def null_if(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate PostgreSQL's `nullif(x, y)`, whose type is that of x, to DuckDB's SQL."""
        return TypedNode(node, self.alike(self.values(node.expressions, scope))[0].type)

    def row(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `row(x, y)` and `(x, y)`."""
        self.values(node.expressions, scope)
        return TypedNode(node, postgres.RECORD)

    def set_config(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `set_config('name', 'value', is_local)` as an output column: a change of settings."""
        select = node.parent.parent if isinstance(node.parent, exp.Alias) else None
        holder = select.parent if isinstance(select, exp.Select) else None
        constant = all(isinstance(part, (exp.Literal, exp.Boolean)) for part in node.expressions)
        if holder is None or holder.parent is not None or len(node.expressions) != 3 or not constant:
            raise UnknownQuestion("set_config")
        name, value, local = (part.this for part in node.expressions)
        self.changes.append((str(name), str(value), bool(local)))
        return TypedNode(exp.Literal.string(str(value)), TEXT)

    def format(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
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
        return TypedNode(_short(call("concat", *parts)), TEXT)

    def concat(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `concat(..)` and `concat_ws(separator, ..)`, which leave NULL out."""
        texts = map(self.text, self.values(node.expressions, scope))
        return TypedNode(_short(call(node.name, *map(_short, texts))), TEXT)

    def json(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `json_build_object('key', value, ..)` and `json_build_array(value, ..)`."""
        name = node.name.replace("_build", "")
        if name == "json_object" and len(node.expressions) % 2:
            raise UnknownQuestion("json_build_object")
        texts = {*postgres.TEXTS, postgres.JSON}
        parts = [
            _short(value.node) if value.type in texts and not isinstance(value.node, exp.Null) else value.node
            for value in self.values(node.expressions, scope)
        ]
        return TypedNode(cast_to(call(name, *parts), TEXT), postgres.JSON)

    def type_of(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `pg_typeof(x)`."""
        oid = self.expression(node.expressions[0], scope).type
        if oid is None:
            raise UnknownQuestion("pg_typeof")
        return TypedNode(cast_to(exp.Literal.number(oid), postgres.REGTYPE), postgres.REGTYPE)


def _short(node: exp.Expr) -> exp.Expr:
    return call(f"{PREFIX}show_short", node)


SPECIALS: Mapping[str, Callable[[Calls, exp.Expr, SelectScope], TypedNode]] = {
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

MAX_OPERANDS = 100
_WITHOUT_PARENTHESES = frozenset(
    {"user", "current_user", "current_role", "session_user", "current_catalog", "current_schema"}
    | {"current_date", "current_timestamp"}
)
"""Functions that may be written as if they were columns."""


class Expressions(Calls):
    """Translates PostgreSQL's expressions to DuckDB's SQL, each by the rule of its node type."""

    def expression(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate an expression by the rule of its node type, or its parts alone; put it in its place."""
        parent, key, place = node.parent, node.arg_key, node.index
        found = _RULES.get(type(node), Expressions.other)(self, node, scope)
        if found.node is not node and parent is not None:
            parent.set(str(key), found.node, place)
        return found

    def other(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate a subquery, or the operands of a node that both dialects write alike."""
        if isinstance(node, exp.Query):
            return TypedNode(node, self.query(node, scope, scope.tables)[0].type)
        self.values(node.iter_expressions(), scope)
        return TypedNode(node, BOOL if isinstance(node, (exp.Predicate, exp.Not)) else None)

    # Values.

    def literal(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Return a literal with its type: unknown for a text, by its size for a number."""
        if node.is_string:
            if "\x00" in node.name:
                raise UnknownQuestion("NUL")
            return TypedNode(node, UNKNOWN)
        number = int(node.name) if node.name.isdigit() else 1 << 63
        sizes = ((postgres.INT4, 31), (postgres.INT8, 63))
        return TypedNode(node, next((oid for oid, bits in sizes if number < 1 << bits), postgres.NUMERIC))

    def column(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate a column, by its name and source; a source alone is its only column."""
        name, table = node.name, node.text("table")
        if not table and name in _WITHOUT_PARENTHESES and not node.this.args.get("quoted"):
            return self.function(call(name), scope)
        node.set("db", None)
        source = scope.source(name, table)
        if source is not None:
            return TypedNode(node, next(one.type for one in source.columns if one.name == name))
        if name == "tableoid" and scope.sources:
            source = scope.source_of_name(table) or scope.sources[0]
            return TypedNode(cast_to(exp.Literal.number(source.oid), postgres.OID), postgres.OID)
        source = None if table else scope.source_of_name(name)
        if source is not None and len(source.columns) == 1:
            only = source.columns[0]
            return TypedNode(exp.column(only.name, source.name, quoted=True), only.type)
        return TypedNode(node, None)

    def field(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `(x).field`."""
        if isinstance(node.expression, exp.Anonymous):
            raise UnknownQuestion("schema of a function")
        self.expression(node.this, scope)
        return TypedNode(node, None)

    def collation(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Leave out a collation that compares texts by their bytes, as the catalogue does."""
        if node.expression.name.lower() not in ("default", "c", "posix", "ucs_basic"):
            raise UnknownQuestion("collation")
        return self.expression(node.this, scope)

    def first(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate the operands of a node whose type is that of its first operand."""
        values = self.values(node.iter_expressions(), scope)
        return TypedNode(node, values[0].type if values else None)

    def interval(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `interval '1 day'`."""
        text = exp.Literal.string(f"{node.name} {node.text('unit')}".strip())
        return TypedNode(cast_to(text, postgres.INTERVAL), postgres.INTERVAL)

    # Choices, arrays, conversions.

    def case(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `CASE`; its branches meet in one type."""
        branches = node.args["ifs"]
        tested = self.values([node.this, *(branch.this for branch in branches)], scope)
        if node.this is not None:
            self.alike(tested)
        # PostgreSQL begins with the last branch.
        results = [node.args.get("default"), *(branch.args["true"] for branch in branches)]
        return TypedNode(node, self.meet(self.values(results, scope)))

    def array(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `ARRAY[..]` and `ARRAY(SELECT ..)`."""
        values = self.values(node.expressions, scope)
        if len(values) == 1 and isinstance(values[0].node, exp.Query):
            return TypedNode(node, None if values[0].type is None else postgres.array_of(values[0].type))
        item = self.meet(values)
        if item is None or item == postgres.RECORD:
            return TypedNode(node, None if item is None else postgres.RECORD_ARRAY)
        return TypedNode(cast_to(node, postgres.array_of(item)), postgres.array_of(item))

    def subscript(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `x[i]` and `x[i:j]`; the vectors of the catalogue are counted from zero."""
        whole, oid = self.expression(node.this, scope)
        item, place = postgres.element_type(oid), node.expressions[0]
        if item is None or len(node.expressions) != 1:
            raise UnknownQuestion("subscript")
        slice_ = isinstance(place, exp.Slice)
        places = self.values(place.iter_expressions() if slice_ else place, scope)
        sides: list[exp.Expr] = [exp.Paren(this=self.settle(each, postgres.INT4)) for each in places]
        if oid in postgres.VECTORS:
            sides = [exp.Add(this=side, expression=exp.Literal.number(1)) for side in sides]
        numbers = [cast_to(side, postgres.INT4) for side in sides]
        if slice_:
            return TypedNode(call("list_slice", whole, *numbers), oid)
        return TypedNode(call(f"{PREFIX}show_element", whole, *numbers), item)

    def conversion(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `CAST(x AS type)` and `x::type`."""
        kind = node.args["to"]
        oid = type_oid(kind)
        if oid is None:
            raise UnknownQuestion("type")
        new = self.convert(self.expression(node.this, scope), oid)
        if oid != postgres.RECORD_ARRAY:
            new = cast_to(new, oid)
        lengths = [part.name for part in kind.expressions if isinstance(part, exp.DataTypeParam)]
        if oid == postgres.BPCHAR or (oid == postgres.VARCHAR and lengths):
            new = call("left", new, exp.Literal.number(lengths[0] if lengths else 1))
        return TypedNode(new, oid)

    def row_limit(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate the number in a LIMIT or OFFSET clause; remove LIMIT ALL and LIMIT NULL."""
        if isinstance(node.expression, exp.Null) or node.expression.name.upper() == "ALL":
            node.pop()
        else:
            number = self.expression(node.expression, scope)
            node.set("expression", self.settle(number, postgres.INT8))
        return TypedNode(node, postgres.INT8)

    # Operators.

    def junction(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `x AND y`, `x OR y`: long chains without recursion."""
        self.values(node.flatten(unnest=False), scope)
        return TypedNode(node, BOOL)

    def comparison(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `x = y`, `x IN (..)`, `x BETWEEN a AND b` and the like."""
        right = node.args.get("expression")
        if isinstance(right, exp.Anonymous) and right.name in ("some", "any", "all"):
            kind = exp.All if right.name == "all" else exp.Any
            right = kind(this=exp.Paren(this=right.expressions[0]))
            node.set("expression", right)
        if isinstance(right, (exp.Any, exp.All)):
            return self._compare_with_array(node, right, scope)
        self.alike(self.values(node.iter_expressions(), scope))
        return TypedNode(node, BOOL)

    def _compare_with_array(self, node: exp.Expr, quantified: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `x = ANY (array)`, `x <> ALL ('{a,b}')`, `x = ANY (SELECT ..)`."""
        every, right = isinstance(quantified, exp.All), quantified.this.unnest()
        left = self.expression(node.this, scope)
        if isinstance(right, exp.Query):
            self.query(right, scope, scope.tables)
            self.alike([left])
            return TypedNode(node, BOOL)
        array = self.expression(right, scope)
        oid = array.type
        if oid == UNKNOWN:
            oid = postgres.array_of(TEXT if left.type is None else left.type)
        items, item = self.settle(array, oid), self.settle(left, postgres.element_type(oid))
        if isinstance(node, exp.EQ) and not every:
            return TypedNode(call("list_contains", items, item), BOOL)
        if isinstance(node, exp.NEQ) and every:
            return TypedNode(call(f"{PREFIX}show_is_none", items, item), BOOL)
        test = type(node)(this=item, expression=exp.column("pg_item"))
        each = exp.Lambda(this=test, expressions=[exp.to_identifier("pg_item")])
        tests = call("list_transform", items, each)
        return TypedNode(call(f"list_bool_{'and' if every else 'or'}", tests), BOOL)

    def arithmetic(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `x + y` and the like."""
        values = self.alike(self.values(node.iter_expressions(), scope))
        oid = self.common(value.type for value in values)
        if oid is None or oid not in postgres.NUMBERS:
            return TypedNode(node, None)
        for value in values:  # in DuckDB, a literal takes the narrow type of what stands beside it
            if isinstance(value.node, exp.Literal):
                replace_node(value.node, lambda inner: cast_to(inner, oid))
        node.set("typed", None)  # DuckDB divides as PostgreSQL does, by a setting of the catalogue's database
        return TypedNode(node, oid)

    def match(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate PostgreSQL's `x ~ pattern` and `x ~* pattern` to matches of texts in DuckDB's SQL."""
        for key in ("this", "expression"):
            node.set(key, self.text(self.expression(node.args[key], scope)))
        return TypedNode(node, BOOL)

    def like(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        r"""Translate `x LIKE pattern`: PostgreSQL's escape character is `\` unless another one is named."""
        if isinstance(node.expression, (exp.Any, exp.All)):
            raise UnknownQuestion("like any")
        self.match(node, scope)
        if isinstance(node.expression, exp.Literal) and "\\" not in node.expression.name:
            return TypedNode(node, BOOL)
        return TypedNode(exp.Escape(this=node, expression=exp.Literal.string("\\")), BOOL)

    def escape(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `x LIKE pattern ESCAPE '!'`."""
        self.match(node.this, scope)
        return TypedNode(node if node.expression.name else node.this, BOOL)

    def concatenation(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `x || y || z`: texts, or arrays and elements."""
        operands = list(node.flatten(unnest=False))
        if len(operands) > MAX_OPERANDS:
            raise UnknownQuestion("concatenation")
        values = self.values(operands, scope)
        whole = next((value.type for value in values if postgres.element_type(value.type) is not None), None)
        if whole is not None:
            parts = [self._array_part(value, whole) for value in values]
            return TypedNode(reduce(lambda a, b: call(f"{PREFIX}show_joined_arrays", a, b), parts), whole)
        texts = reduce(lambda a, b: exp.DPipe(this=a, expression=b), map(self.text, values))
        return TypedNode(call(f"{PREFIX}show_short", texts), TEXT)

    def _array_part(self, value: TypedNode, whole: int) -> exp.Expr:
        """Return an operand of `||` as an array: an element becomes an array of one."""
        array = postgres.element_type(value.type) is not None or isinstance(value.node, exp.Null)
        array = array or (value.type == UNKNOWN and value.node.name.startswith("{"))
        part = self.settle(value, whole if array else postgres.element_type(whole))
        return part if array else cast_to(exp.Array(expressions=[part]), whole)


_Rule = Callable[[Expressions, exp.Expr, SelectScope], TypedNode]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseLeftShift, exp.BitwiseRightShift)
_OF_FIRST_PART = (exp.Paren, exp.Neg, exp.Filter, exp.Window, exp.Order, exp.Distinct, exp.Ordered)
_RULES: Mapping[type[exp.Expr], _Rule] = {
    exp.Literal: Expressions.literal,
    exp.Null: lambda t, node, scope: TypedNode(node, UNKNOWN),
    exp.Boolean: lambda t, node, scope: TypedNode(node, BOOL),
    exp.Parameter: Expressions.parameter,
    exp.Column: Expressions.column,
    exp.Dot: Expressions.field,
    exp.Collate: Expressions.collation,
    **dict.fromkeys(_OF_FIRST_PART, Expressions.first),
    **dict.fromkeys((exp.And, exp.Or), Expressions.junction),
    **dict.fromkeys((*_COMPARISONS, exp.In, exp.Between), Expressions.comparison),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, *_BITS), Expressions.arithmetic),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike), Expressions.match),
    **dict.fromkeys((exp.Like, exp.ILike), Expressions.like),
    exp.Escape: Expressions.escape,
    exp.DPipe: Expressions.concatenation,
    exp.Case: Expressions.case,
    exp.Cast: Expressions.conversion,
    exp.Array: Expressions.array,
    exp.Tuple: Expressions.row,
    exp.Bracket: Expressions.subscript,
    **dict.fromkeys((exp.Limit, exp.Offset), Expressions.row_limit),
    exp.Anonymous: Expressions.function,
    exp.Interval: Expressions.interval,
}
"""The rules, by node type."""
