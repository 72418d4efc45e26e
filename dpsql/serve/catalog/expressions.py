"""The rules of expressions that DuckDB reads in another sense than PostgreSQL, or whose type it cannot tell.

An expression without a rule is left to sqlglot: only its parts are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.calls import Calls
from dpsql.serve.catalog.conversions import Scope, Value, call, cast, put
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
    """Translates expressions."""

    def expression(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate an expression by the rule of its node type, or its parts alone; put it in its place."""
        parent, key, place = node.parent, node.arg_key, node.index
        found = _RULES.get(type(node), Expressions.other)(self, node, scope)
        if found.node is not node and parent is not None:
            parent.set(str(key), found.node, place)
        return found

    def other(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate a query, or the parts of an expression that both read alike."""
        if isinstance(node, exp.Query):
            return Value(node, self.query(node, scope, scope.tables)[0].type)
        self.values(node.iter_expressions(), scope)
        return Value(node, BOOL if isinstance(node, (exp.Predicate, exp.Not)) else None)

    # Values.

    def literal(self, node: exp.Expr, scope: Scope) -> Value:
        """Check `'text'`, whose type is decided by what stands around it, and numbers."""
        if node.is_string:
            if "\x00" in node.name:
                raise UnknownQuestion("NUL")
            return Value(node, UNKNOWN)
        number = int(node.name) if node.name.isdigit() else 1 << 63
        sizes = ((pg_types.INT4, 31), (pg_types.INT8, 63))
        return Value(node, next((oid for oid, bits in sizes if number < 1 << bits), pg_types.NUMERIC))

    def column(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate a column, by its name and source; a source alone is its only column."""
        name, table = node.name, node.text("table")
        if not table and name in _WITHOUT_PARENTHESES and not node.this.args.get("quoted"):
            return self.function(call(name), scope)
        node.set("db", None)
        source = scope.source(name, table)
        if source is not None:
            return Value(node, next(one.type for one in source.columns if one.name == name))
        if name == "tableoid" and scope.sources:
            source = scope.source_of_name(table) or scope.sources[0]
            return Value(cast(exp.Literal.number(source.oid), pg_types.OID), pg_types.OID)
        source = None if table else scope.source_of_name(name)
        if source is not None and len(source.columns) == 1:
            only = source.columns[0]
            return Value(exp.column(only.name, source.name, quoted=True), only.type)
        return Value(node, None)

    def field(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `(x).field`."""
        if isinstance(node.expression, exp.Anonymous):
            raise UnknownQuestion("schema of a function")
        self.expression(node.this, scope)
        return Value(node, None)

    def collation(self, node: exp.Expr, scope: Scope) -> Value:
        """Leave out a collation that compares texts by their bytes, as the catalogue does."""
        if node.expression.name.lower() not in ("default", "c", "posix", "ucs_basic"):
            raise UnknownQuestion("collation")
        return self.expression(node.this, scope)

    def first(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate an expression that has the type of its first part."""
        values = self.values(node.iter_expressions(), scope)
        return Value(node, values[0].type if values else None)

    def interval(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `interval '1 day'`."""
        text = exp.Literal.string(f"{node.name} {node.text('unit')}".strip())
        return Value(cast(text, pg_types.INTERVAL), pg_types.INTERVAL)

    # Choices, arrays, conversions.

    def case(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `CASE`; its branches meet in one type."""
        branches = node.args["ifs"]
        tested = self.values([node.this, *(branch.this for branch in branches)], scope)
        if node.this is not None:
            self.alike(tested)
        # PostgreSQL begins with the last branch.
        results = [node.args.get("default"), *(branch.args["true"] for branch in branches)]
        return Value(node, self.meet(self.values(results, scope)))

    def array(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `ARRAY[..]` and `ARRAY(SELECT ..)`."""
        values = self.values(node.expressions, scope)
        if len(values) == 1 and isinstance(values[0].node, exp.Query):
            return Value(node, None if values[0].type is None else pg_types.array_of(values[0].type))
        item = self.meet(values)
        if item is None or item == pg_types.RECORD:
            return Value(node, None if item is None else pg_types.RECORD_ARRAY)
        return Value(cast(node, pg_types.array_of(item)), pg_types.array_of(item))

    def subscript(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `x[i]` and `x[i:j]`; the vectors of the catalogue are counted from zero."""
        whole, oid = self.expression(node.this, scope)
        item, place = pg_types.element(oid), node.expressions[0]
        if item is None or len(node.expressions) != 1:
            raise UnknownQuestion("subscript")
        slice_ = isinstance(place, exp.Slice)
        places = self.values(place.iter_expressions() if slice_ else place, scope)
        sides: list[exp.Expr] = [exp.Paren(this=self.settle(each, pg_types.INT4)) for each in places]
        if oid in pg_types.VECTORS:
            sides = [exp.Add(this=side, expression=exp.Literal.number(1)) for side in sides]
        numbers = [cast(side, pg_types.INT4) for side in sides]
        if slice_:
            return Value(call("list_slice", whole, *numbers), oid)
        return Value(call(f"{PREFIX}show_element", whole, *numbers), item)

    def conversion(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `CAST(x AS type)` and `x::type`."""
        kind = node.args["to"]
        oid = type_oid(kind)
        if oid is None:
            raise UnknownQuestion("type")
        new = self.convert(self.expression(node.this, scope), oid)
        if oid != pg_types.RECORD_ARRAY:
            new = cast(new, oid)
        lengths = [part.name for part in kind.expressions if isinstance(part, exp.DataTypeParam)]
        if oid == pg_types.BPCHAR or (oid == pg_types.VARCHAR and lengths):
            new = call("left", new, exp.Literal.number(lengths[0] if lengths else 1))
        return Value(new, oid)

    def bound(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate LIMIT and OFFSET."""
        if isinstance(node.expression, exp.Null) or node.expression.name.upper() == "ALL":
            node.pop()
        else:
            number = self.expression(node.expression, scope)
            node.set("expression", self.settle(number, pg_types.INT8))
        return Value(node, pg_types.INT8)

    # Operators.

    def junction(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `x AND y`, `x OR y`: long chains without recursion."""
        self.values(node.flatten(unnest=False), scope)
        return Value(node, BOOL)

    def comparison(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `x = y`, `x IN (..)`, `x BETWEEN a AND b` and the like."""
        right = node.args.get("expression")
        if isinstance(right, exp.Anonymous) and right.name in ("some", "any", "all"):
            kind = exp.All if right.name == "all" else exp.Any
            right = kind(this=exp.Paren(this=right.expressions[0]))
            node.set("expression", right)
        if isinstance(right, (exp.Any, exp.All)):
            return self._quantified(node, right, scope)
        self.alike(self.values(node.iter_expressions(), scope))
        return Value(node, BOOL)

    def _quantified(self, node: exp.Expr, quantified: exp.Expr, scope: Scope) -> Value:
        """Translate `x = ANY (array)`, `x <> ALL ('{a,b}')`, `x = ANY (SELECT ..)`."""
        every, right = isinstance(quantified, exp.All), quantified.this.unnest()
        left = self.expression(node.this, scope)
        if isinstance(right, exp.Query):
            self.query(right, scope, scope.tables)
            self.alike([left])
            return Value(node, BOOL)
        array = self.expression(right, scope)
        oid = array.type
        if oid == UNKNOWN:
            oid = pg_types.array_of(TEXT if left.type is None else left.type)
        items, item = self.settle(array, oid), self.settle(left, pg_types.element(oid))
        if isinstance(node, exp.EQ) and not every:
            return Value(call("list_contains", items, item), BOOL)
        if isinstance(node, exp.NEQ) and every:
            return Value(call(f"{PREFIX}show_is_none", items, item), BOOL)
        test = type(node)(this=item, expression=exp.column("pg_item"))
        each = exp.Lambda(this=test, expressions=[exp.to_identifier("pg_item")])
        tests = call("list_transform", items, each)
        return Value(call(f"list_bool_{'and' if every else 'or'}", tests), BOOL)

    def arithmetic(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `x + y` and the like."""
        values = self.alike(self.values(node.iter_expressions(), scope))
        oid = self.common(value.type for value in values)
        if oid is None or oid not in pg_types.NUMBERS:
            return Value(node, None)
        for value in values:  # in DuckDB, a literal takes the narrow type of what stands beside it
            if isinstance(value.node, exp.Literal):
                put(value.node, lambda inner: cast(inner, oid))
        node.set("typed", None)  # DuckDB divides as PostgreSQL does, by a setting of the catalogue's database
        return Value(node, oid)

    def match(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `x ~ pattern` and `x ~* pattern`."""
        for key in ("this", "expression"):
            node.set(key, self.text(self.expression(node.args[key], scope)))
        return Value(node, BOOL)

    def like(self, node: exp.Expr, scope: Scope) -> Value:
        r"""Translate `x LIKE pattern`: PostgreSQL's escape character is `\` unless another one is named."""
        if isinstance(node.expression, (exp.Any, exp.All)):
            raise UnknownQuestion("like any")
        self.match(node, scope)
        if isinstance(node.expression, exp.Literal) and "\\" not in node.expression.name:
            return Value(node, BOOL)
        return Value(exp.Escape(this=node, expression=exp.Literal.string("\\")), BOOL)

    def escape(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `x LIKE pattern ESCAPE '!'`."""
        self.match(node.this, scope)
        return Value(node if node.expression.name else node.this, BOOL)

    def concatenation(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate `x || y || z`: texts, or arrays and elements."""
        operands = list(node.flatten(unnest=False))
        if len(operands) > MAX_OPERANDS:
            raise UnknownQuestion("concatenation")
        values = self.values(operands, scope)
        whole = next((value.type for value in values if pg_types.element(value.type) is not None), None)
        if whole is not None:
            parts = [self._array_part(value, whole) for value in values]
            return Value(reduce(lambda a, b: call(f"{PREFIX}show_joined_arrays", a, b), parts), whole)
        texts = reduce(lambda a, b: exp.DPipe(this=a, expression=b), map(self.text, values))
        return Value(call(f"{PREFIX}show_short", texts), TEXT)

    def _array_part(self, value: Value, whole: int) -> exp.Expr:
        """Return an operand of `||` as an array: an element becomes an array of one."""
        array = pg_types.element(value.type) is not None or isinstance(value.node, exp.Null)
        array = array or (value.type == UNKNOWN and value.node.name.startswith("{"))
        part = self.settle(value, whole if array else pg_types.element(whole))
        return part if array else cast(exp.Array(expressions=[part]), whole)


_Rule = Callable[[Expressions, exp.Expr, Scope], Value]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseLeftShift, exp.BitwiseRightShift)
_OF_FIRST_PART = (exp.Paren, exp.Neg, exp.Filter, exp.Window, exp.Order, exp.Distinct, exp.Ordered)
_RULES: Mapping[type[exp.Expr], _Rule] = {
    exp.Literal: Expressions.literal,
    exp.Null: lambda t, node, scope: Value(node, UNKNOWN),
    exp.Boolean: lambda t, node, scope: Value(node, BOOL),
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
    **dict.fromkeys((exp.Limit, exp.Offset), Expressions.bound),
    exp.Anonymous: Expressions.function,
    exp.Interval: Expressions.interval,
}
"""The rules, by node type."""
