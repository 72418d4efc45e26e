"""The rules of expressions that DuckDB reads in another sense than PostgreSQL, or whose type it cannot tell.

An expression without a rule is left to sqlglot: only its parts are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.calls import Calls
from dpsql.serve.catalog.conversions import Scope, Value, call, cast, wrap
from dpsql.serve.catalog.facts import UnknownQuestion
from dpsql.serve.catalog.parse import type_oid
from dpsql.serve.catalog.pg_types import BOOL, TEXT, UNKNOWN
from dpsql.serve.catalog.postgres_data import PREFIX

MAX_OPERANDS = 100
_WITHOUT_PARENTHESES = frozenset(
    {"user", "current_user", "current_role", "session_user", "current_catalog", "current_schema"}
    | {"current_date", "current_timestamp"}
)
"""Functions that may be written as if they were columns."""


class Expressions(Calls):
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

    def literal(self, node: exp.Expr, scope: Scope) -> int:
        """Check `'text'`, whose type is decided by what stands around it, and numbers."""
        if node.is_string:
            if "\x00" in node.name:
                raise UnknownQuestion("NUL")
            return UNKNOWN
        number = int(node.name) if node.name.isdigit() else 1 << 63
        return next(
            (oid for oid, bits in ((pg_types.INT4, 31), (pg_types.INT8, 63)) if number < 1 << bits),
            pg_types.NUMERIC,
        )

    def column(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate a column, by its name and source; a source alone is its only column."""
        name, table = node.name, node.text("table")
        if not table and name in _WITHOUT_PARENTHESES and not node.this.args.get("quoted"):
            new = call(name)
            node.replace(new)
            return self.function(new, scope)
        node.set("db", None)
        source = scope.source(name, table)
        if source is not None:
            return next(one.type for one in source.columns if one.name == name)
        if name == "tableoid" and scope.sources:
            source = scope.source_of_name(table) or scope.sources[0]
            node.replace(cast(exp.Literal.number(source.oid), pg_types.OID))
            return pg_types.OID
        source = None if table else scope.source_of_name(name)
        if source is not None and len(source.columns) == 1:
            node.replace(exp.column(source.columns[0].name, source.name, quoted=True))
            return source.columns[0].type
        return None

    def field(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `(x).field`."""
        if isinstance(node.expression, exp.Anonymous):
            raise UnknownQuestion("schema of a function")
        self.expression(node.this, scope)
        return None

    def collation(self, node: exp.Expr, scope: Scope) -> int | None:
        """Leave out a collation that compares texts by their bytes, as the catalogue does."""
        if node.expression.name.lower() not in ("default", "c", "posix", "ucs_basic"):
            raise UnknownQuestion("collation")
        inner = node.this
        node.replace(inner)
        return self.expression(inner, scope)

    def first(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate an expression that has the type of its first part."""
        types = [self.expression(part, scope) for part in list(node.iter_expressions())]
        return types[0] if types else None

    # Choices, arrays, conversions.

    def case(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `CASE`; its branches meet in one type."""
        subject, default = node.args.get("this"), node.args.get("default")
        tested = [] if subject is None else [self.value(subject, scope)]
        tested += [self.value(branch.this, scope) for branch in node.args["ifs"]]
        if subject is not None:
            self.alike(tested)
        # PostgreSQL begins with the last branch.
        results = [] if default is None else [self.value(default, scope)]
        return self.meet(results + [self.value(branch.args["true"], scope) for branch in node.args["ifs"]])

    def array(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `ARRAY[..]` and `ARRAY(SELECT ..)`."""
        values = [self.value(part, scope) for part in list(node.expressions)]
        if len(values) == 1 and isinstance(values[0].node, exp.Query):
            return None if values[0].type is None else pg_types.array_of(values[0].type)
        item = self.meet(values)
        if item is None or item == pg_types.RECORD:
            return None if item is None else pg_types.RECORD_ARRAY
        oid = pg_types.array_of(item)
        wrap(node, lambda inner: cast(inner, oid))
        return oid

    def subscript(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `x[i]`; the vectors of the catalogue are counted from zero."""
        oid, place = self.expression(node.this, scope), node.expressions[0]
        item = pg_types.element(oid)
        if item is None or len(node.expressions) != 1:
            raise UnknownQuestion("subscript")
        holder = place if isinstance(place, exp.Slice) else exp.Tuple(this=place)
        for part in list(holder.iter_expressions()):
            self.settle(self.value(part, scope).node, pg_types.INT4)
        from_zero = exp.Literal.number(int(oid in pg_types.VECTORS))
        sides = [
            cast(exp.Add(this=exp.Paren(this=part), expression=from_zero.copy()), pg_types.INT4)
            for part in list(holder.iter_expressions())
        ]
        if isinstance(place, exp.Slice):
            node.replace(call("list_slice", node.this, *sides))
            return oid
        node.replace(call(f"{PREFIX}show_element", node.this, *sides))
        return item

    def conversion(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `CAST(x AS type)` and `x::type`."""
        kind = node.args["to"]
        oid = type_oid(kind)
        if oid is None:
            raise UnknownQuestion("type")
        self.convert(self.value(node.this, scope), oid)
        if oid == pg_types.RECORD_ARRAY:
            node.replace(node.this)
            return oid
        lengths = [part.name for part in kind.expressions if isinstance(part, exp.DataTypeParam)]
        node.set("to", cast(exp.Null(), oid).args["to"])
        if oid == pg_types.BPCHAR or (oid == pg_types.VARCHAR and lengths):
            length = exp.Literal.number(lengths[0] if lengths else 1)
            wrap(node, lambda inner: call("left", inner, length))
        return oid

    def bound(self, node: exp.Expr, scope: Scope) -> int:
        """Translate LIMIT and OFFSET."""
        if isinstance(node.expression, exp.Null) or node.expression.name.upper() == "ALL":
            node.pop()
        else:
            self.settle(self.value(node.expression, scope).node, pg_types.INT8)
        return pg_types.INT8

    # Operators.

    def junction(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `x AND y`, `x OR y`: long chains without recursion."""
        for part in list(node.flatten(unnest=False)):
            self.expression(part, scope)
        return BOOL

    def comparison(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `x = y`, `x IN (..)`, `x BETWEEN a AND b` and the like."""
        right = node.args.get("expression")
        if isinstance(right, exp.Anonymous) and right.name.lower() in ("some", "any", "all"):
            kind = exp.All if right.name.lower() == "all" else exp.Any
            node.set("expression", kind(this=exp.Paren(this=right.expressions[0])))
        if isinstance(node.args.get("expression"), (exp.Any, exp.All)):
            return self._quantified(node, scope)
        self.like_values(node, scope)
        return BOOL

    def _quantified(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `x = ANY (array)`, `x <> ALL ('{a,b}')`, `x = ANY (SELECT ..)`."""
        every = isinstance(node.expression, exp.All)
        left, right = self.value(node.this, scope), node.expression.this.unnest()
        if isinstance(right, exp.Query):
            self.query(right, scope, scope.tables)
            self.alike([left])
            return BOOL
        holder = exp.Paren(this=right)
        array = self.value(right, scope)
        oid = array.type
        if oid == UNKNOWN:
            oid = pg_types.array_of(TEXT if left.type is None else left.type)
            self.settle(array.node, oid)
        if left.type == UNKNOWN:
            self.settle(left.node, pg_types.element(oid))
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

    def arithmetic(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `x + y` and the like."""
        values = self.like_values(node, scope)
        oid = self.common(value.type for value in values)
        if oid is None or oid not in pg_types.NUMBERS:
            return None
        for value in values:  # in DuckDB, a literal takes the narrow type of what stands beside it
            if isinstance(value.node, exp.Literal):
                wrap(value.node, lambda inner: cast(inner, oid))
        node.set("typed", None)  # DuckDB divides as PostgreSQL does, by a setting of the catalogue's database
        return oid

    def match(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `x ~ pattern` and `x ~* pattern`."""
        for part in (node.this, node.expression):
            self.as_text(self.value(part, scope))
        return BOOL

    def like(self, node: exp.Expr, scope: Scope) -> int:
        r"""Translate `x LIKE pattern`: PostgreSQL's escape character is `\` unless another one is named."""
        if isinstance(node.expression, (exp.Any, exp.All)):
            raise UnknownQuestion("like any")
        self.match(node, scope)
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and "\\" not in pattern.name):
            wrap(node, lambda inner: exp.Escape(this=inner, expression=exp.Literal.string("\\")))
        return BOOL

    def escape(self, node: exp.Expr, scope: Scope) -> int:
        """Translate `x LIKE pattern ESCAPE '!'`."""
        self.match(node.this, scope)
        if not node.expression.name:
            node.replace(node.this)
        return BOOL

    def concatenation(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate `x || y || z`: texts, or arrays and elements."""
        operands = list(node.flatten(unnest=False))
        if len(operands) > MAX_OPERANDS:
            raise UnknownQuestion("concatenation")
        holder = exp.Tuple(expressions=operands)
        values = [self.value(part, scope) for part in operands]
        whole = next((value.type for value in values if pg_types.element(value.type) is not None), None)
        if whole is not None:
            new, *parts = [self._array_part(value, whole, holder) for value in values]
            for part in parts:
                new = call(f"{PREFIX}show_joined_arrays", new, part)
            node.replace(new)
            return whole
        for value in values:
            self.as_text(value)
        new, *parts = holder.expressions
        for part in parts:
            new = exp.DPipe(this=new, expression=part)
        node.replace(call(f"{PREFIX}show_short", new))
        return TEXT

    def _array_part(self, value: Value, whole: int, holder: exp.Expr) -> exp.Expr:
        """Return an operand of `||` as an array: an element becomes an array of one."""
        place = value.node.index or 0
        array = pg_types.element(value.type) is not None or isinstance(value.node, exp.Null)
        array = array or (value.type == UNKNOWN and value.node.name.startswith("{"))
        if value.type == UNKNOWN:
            self.settle(value.node, whole if array else pg_types.element(whole))
        part: exp.Expr = holder.expressions[place]
        return part if array else cast(exp.Array(expressions=[part]), whole)


_Rule = Callable[[Expressions, exp.Expr, Scope], "int | None"]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseLeftShift, exp.BitwiseRightShift)
_OF_FIRST_PART = (exp.Paren, exp.Neg, exp.Filter, exp.Window, exp.Order, exp.Distinct, exp.Ordered)
_RULES: Mapping[type[exp.Expr], _Rule] = {
    exp.Literal: Expressions.literal,
    exp.Null: lambda t, node, scope: UNKNOWN,
    exp.Boolean: lambda t, node, scope: BOOL,
    exp.Parameter: lambda t, node, scope: t.parameter(node),
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
    **dict.fromkeys((exp.Limit, exp.Offset), Expressions.bound),
    exp.Anonymous: Expressions.function,
    exp.Interval: Expressions.interval,
}
"""The rules, by node type."""
