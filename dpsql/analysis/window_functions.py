"""Window functions in subqueries: within one unit, independent of the order of tied rows.

The engine computes windows over hash groups of the rows of all units, and orders ties by their physical
position. So the hidden unit is the first key of every PARTITION BY, functions that depend on order get all
columns of the relation appended to ORDER BY (tied rows are then identical), and floating-point sums are
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from sqlglot import exp

from dpsql.analysis.aggregate_functions import AGGREGATES, CHOOSING, contains_aggregate
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Block, From, Scope, select_list
from dpsql.analysis.compiler import (
    Rule,
    StatementCompiler,
    call_name,
    check_arguments,
    compile_order_term,
    function_name,
    list_order_terms,
    read_whole_number,
)
from dpsql.analysis.conversions import cast
from dpsql.analysis.row_conditions import KnownRows, Names, is_fact, substitute_columns
from dpsql.analysis.typed_expression import Typed, UnitRole, tells_units
from dpsql.analysis.unit_periods import refuse_totals
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    Aggregate,
    Bound,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    Frame,
    IsNull,
    Item,
    Mean,
    OrderTerm,
    Paren,
    Saturated,
    Select,
    Window,
    walk,
)
from dpsql.language import copy_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold
from dpsql.types import BIGINT, DOUBLE, INTEGER

_RANKS = {"rank": BIGINT, "dense_rank": BIGINT, "percent_rank": DOUBLE, "cume_dist": DOUBLE}
_ORDERED = frozenset({"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"})
_BEYOND = frozenset({"lag", "lead", "nth_value"})
"""Functions that may look for a row which is not there."""
_HINT = "ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day): of the rows of one user_id"
_OF_GROUPS = "PERCENTILE_DISC(x, 0.25) over these groups as a subquery: what a quarter are below"
MAX_OFFSET = 1_000_000


def _compile_window(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    block = scope.block
    if block is None or not block.windows:
        raise compiler.source.refuse(
            "a window function is allowed only in the select list or QUALIFY of a subquery", node, _HINT
        )
    node = _replace_name(compiler, node, block)
    partition, order, spec = _compile_parts(compiler, node, scope, block)
    name = call_name(node.this)
    frame = _compile_frame(compiler, spec)
    call, value = _compile_function(compiler, node.this, name, scope)
    if name in _ORDERED or (frame is not None and frame.unit == "ROWS"):
        # A frame of rows counts rows, so the order of ties matters.
        order = [*order, *(OrderTerm(column, "ASC", "LAST") for column in block.columns)]
    made: Expr = Paren(Window(call.node, tuple(partition), tuple(order), frame))
    if isinstance(call.node, Cast):  # OVER belongs to the aggregate itself, inside a conversion of its result
        window = Window(call.node.operand, tuple(partition), tuple(order), frame)
        made = replace(call.node, operand=window, bounded=True)
    elif isinstance(call.node, Mean):
        both = (call.node.total, call.node.number)
        made = Mean(*(Window(each, tuple(partition), tuple(order), frame) for each in both))
    elif isinstance(call.node, Saturated):
        made = replace(call.node, operand=Window(call.node.operand, tuple(partition), tuple(order), frame))
    if (
        isinstance(call.node, Call)
        and (other := _compile_default(compiler, node.this, scope, call)) is not None
    ):
        # A row that is there has a 1, whatever its value is.
        there = Call(call.node.name, (Constant(1, INTEGER), *call.node.arguments[1:]))
        missing = IsNull(Paren(Window(there, tuple(partition), tuple(order), frame)))
        made = Paren(Case(((missing, other.guarded_node),), made))
        if value is not None:
            either = Case(((missing, other.guarded_node),), value.node)
            value = replace(value, node=either, domain=None, bounds=None)
    whole = replace(call, node=made, unit=UnitRole.NONE, literal=None, domain=None, bounds=None)
    if value is None:
        return replace(whole, span=None, nulls=True)
    return block.choose(
        replace(whole, bounds=value.bounds), value, sure=frame is None and name not in _BEYOND
    )


def _replace_name(compiler: StatementCompiler, node: exp.Expr, block: Block) -> exp.Expr:
    """Replace a reference to a named window by its definition."""
    alias = node.args.get("alias")
    if alias is None:
        return node
    base = block.named.get(fold(alias.name))
    if base is None:
        raise compiler.source.refuse(f"there is no window {alias.name}", node)
    others = {name: window for name, window in block.named.items() if name != fold(alias.name)}
    base = _replace_name(compiler, base, replace(block, named=others))
    if node.args.get("partition_by") or (
        base.args.get("order") is not None and node.args.get("order") is not None
    ):
        raise compiler.source.refuse("a named window is not redefined", node)
    if base.args.get("spec") is not None and node.args.get("spec") is not None:
        raise compiler.source.refuse("a named window is not redefined", node)
    full = copy_tree(node)
    full.set("alias", None)
    for part in ("partition_by", "order", "spec"):
        if base.args.get(part):
            full.set(part, base.args[part])
    return full


def _compile_parts(
    compiler: StatementCompiler, node: exp.Expr, scope: Scope, block: Block
) -> tuple[list[Expr], list[OrderTerm], exp.Expr | None]:
    check_arguments(
        compiler.source, node, frozenset({"this", "partition_by", "order", "spec", "over", "first"})
    )
    inside = replace(block, windows=False)
    inner = scope.copy()
    inner.block = inside
    values = [compiler.expression(p, inner) for p in node.args.get("partition_by") or ()]
    if block.owner is not None:
        if block.owner.row:
            raise compiler.source.refuse(
                "each row is a privacy unit: a window function would combine several units", node
            )
        if not (tells_units(values) or any(v.owned_key for v in values)):
            if block.owner.every:
                raise refuse_totals(compiler.source, block.owner, node)
            order = node.args.get("order")
            whole = order is not None and not values and any(map(contains_aggregate, order.expressions))
            raise compiler.source.refuse(
                "a window over private rows must PARTITION BY their privacy unit",
                node,
                _OF_GROUPS if whole else _HINT,
            )
    unit = [block.unit] if block.unit is not None else []
    partition = [*unit, *(v.guarded_node for v in values)]
    for made, part in zip(values, node.args.get("partition_by") or (), strict=True):
        _refuse_window(compiler, made, part)
    terms = []
    for term in list_order_terms(compiler.source, node.args.get("order")):
        value = compiler.expression(term.this, inner)
        if value.literal is not None:
            raise compiler.source.refuse("a window is not ordered by a constant", term)
        _refuse_window(compiler, value, term)
        terms.append(compile_order_term(term, value.guarded_node))
    return partition, terms, node.args.get("spec")


def _refuse_window(compiler: StatementCompiler, value: Typed, node: exp.Expr) -> None:
    """Refuse a subquery with a window in the definition of another one, which DuckDB does not bind."""
    if any(isinstance(part, Window) for part in walk(value.node)):
        raise compiler.source.refuse(
            "the definition of a window has a subquery with a window in it",
            node,
            "give the subquery a name first: OVER (.. x ..) FROM (SELECT *, (SELECT ..) AS x FROM ..)",
        )


def _compile_frame(compiler: StatementCompiler, spec: exp.Expr | None) -> Frame | None:
    if spec is None:
        return None
    check_arguments(compiler.source, spec, frozenset({"kind", "start", "start_side", "end", "end_side"}))
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE", "GROUPS"):
        raise compiler.source.refuse("a frame is by ROWS, RANGE or GROUPS", spec)
    end = _compile_edge(compiler, spec, "end", kind) if spec.args.get("end") is not None else None
    return Frame(kind, _compile_edge(compiler, spec, "start", kind), end)


def _compile_edge(compiler: StatementCompiler, spec: exp.Expr, name: str, kind: str) -> Bound:
    value, side = spec.args.get(name), spec.args.get(f"{name}_side")
    if isinstance(value, str) and value.upper() in ("UNBOUNDED", "CURRENT ROW"):
        return Bound(value.upper() if value.upper() == "CURRENT ROW" else str(side).upper())
    number = _read_offset(value)
    if number is None or kind == "RANGE" or str(side).upper() not in ("PRECEDING", "FOLLOWING"):
        raise compiler.source.refuse(
            "a frame's offset is a whole number of ROWS or GROUPS",
            spec,
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        )
    return Bound(str(side).upper(), number)


def _read_offset(value: object) -> int | None:
    number = read_whole_number(value)
    return number if number is not None and number <= MAX_OFFSET else None


def _compile_function(
    compiler: StatementCompiler, node: exp.Expr, name: str, scope: Scope
) -> tuple[Typed, Typed | None]:
    """Compile the call of a window function, without OVER, and the expression of which it chooses a value."""
    if function_name(node) is None:
        raise compiler.source.refuse("this is not a window function", node)
    check_arguments(compiler.source, node, frozenset({"this", "expressions"}))
    inner = scope.copy()
    inner.block = replace(scope.block, windows=False) if scope.block is not None else None
    arguments = list(node.expressions)
    if any(isinstance(a, (exp.Distinct, exp.Order, exp.Kwarg)) for a in arguments):
        raise compiler.source.refuse(f"{name} is not supported in this form in a window", node)
    if name in _RANKS:
        _check_number(compiler, node, arguments, 0, 0)
        return Typed(Call(name.upper(), ()), _RANKS[name]), None
    if name in _ORDERED:
        return _compile_ordered(compiler, node, name, arguments, inner)
    aggregate = AGGREGATES.get(name)
    if aggregate is None or name in ("any_value", "median"):
        raise compiler.source.refuse(f"{name} is not allowed in a window over private rows", node)
    if name == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
        return Typed(Aggregate("COUNT"), BIGINT), None
    _check_number(compiler, node, arguments, 1, 1)
    value = make_canonical(compiler.expression(arguments[0], inner)).guard()
    if not aggregate.accepts(value.type):
        raise compiler.source.refuse(f"{name} does not take {value.type}", node)
    if value.type == DOUBLE and name in ("sum", "avg", "mean"):
        raise compiler.source.refuse(
            "a floating-point sum in a window depends on other units' rows",
            node,
            "CAST it to BIGINT or DECIMAL",
        )
    return aggregate.form(value, distinct=False), value if name in CHOOSING else None


def _check_number(
    compiler: StatementCompiler, node: exp.Expr, arguments: list[exp.Expr], low: int, high: int
) -> None:
    if not low <= len(arguments) <= high:
        raise compiler.source.refuse("wrong number of arguments", node)


def _compile_default(compiler: StatementCompiler, node: exp.Expr, scope: Scope, call: Typed) -> Typed | None:
    """Compile what LAG or LEAD is where there is no such row, in the type of the values; None: NULL."""
    arguments = node.expressions
    if len(arguments) != 3 or isinstance(arguments[2], exp.Null):
        return None
    inner = scope.copy()
    inner.block = replace(scope.block, windows=False) if scope.block is not None else None
    value = make_canonical(compiler.expression(arguments[2], inner)).guard()
    _refuse_window(compiler, value, arguments[2])
    return make_canonical(cast(value, call.type))


def _compile_ordered(
    compiler: StatementCompiler, node: exp.Expr, name: str, arguments: list[exp.Expr], scope: Scope
) -> tuple[Typed, Typed | None]:
    if name == "row_number":
        _check_number(compiler, node, arguments, 0, 0)
        return Typed(Call("ROW_NUMBER", ()), BIGINT), None
    if name == "ntile":
        _check_number(compiler, node, arguments, 1, 1)
        buckets = _read_offset(arguments[0])
        if not buckets:
            raise compiler.source.refuse("NTILE takes a positive whole number", node)
        return Typed(Call("NTILE", (Constant(buckets, BIGINT),)), BIGINT), None
    least = 2 if name == "nth_value" else 1
    _check_number(compiler, node, arguments, least, {"lag": 3, "lead": 3, "nth_value": 2}.get(name, 1))
    value = make_canonical(compiler.expression(arguments[0], scope)).guard()
    passed = [value.node]
    if len(arguments) > 1:
        offset = _read_offset(arguments[1])
        if not offset:
            raise compiler.source.refuse(f"{name.upper()} takes a positive whole number here", arguments[1])
        passed.append(Constant(offset, BIGINT))
    return replace(value, node=Call(name.upper(), tuple(passed))), value


WINDOW_RULES = (
    Rule(
        exp.Window,
        _compile_window,
        frozenset({"this", "partition_by", "order", "spec", "over", "alias", "first"}),
    ),
)


@dataclass(slots=True)
class Hoist:
    """The inner block of a SELECT with windows: its rows and one column for each window."""

    compiler: StatementCompiler
    source: From
    where: Expr | None
    alias: str
    inner: Scope
    """The scope in which windows are compiled: the columns of the rows."""
    columns: list[Typed]
    scope: Scope
    """The scope of the outer expressions, in which each window is a column."""
    numbered: bool = False
    unique: frozenset[frozenset[Expr]] = frozenset()
    windows: list[Typed] = field(default_factory=list)

    @classmethod
    def over(
        cls, compiler: StatementCompiler, source: From, where: Expr | None, windows: int, facts: Names
    ) -> Hoist:
        """Make the inner block of a compiled FROM and WHERE, of which the facts of the unit are known.

        `windows` is the number of windows over it.
        """
        alias = compiler.alias()
        columns: list[Typed] = []
        places: dict[Expr, Column] = {}

        def moved(old: Typed) -> Typed:
            if old.node not in places:
                places[old.node] = Column(alias, f"x{len(columns)}")
                columns.append(old)
            return replace(old, node=places[old.node], fact=is_fact(old, facts))

        origins = tuple(o.map_columns(moved) for o in source.scope.origins)
        merged = {name: moved(c) for name, c in source.scope.merged.items()}
        around = source.scope.block or Block(source.owner, source.unit)
        order = tuple(places.values())
        # With two windows over identical rows, which of them comes first in each window would depend on the
        # physical order of all rows. A row number makes the rows different.
        numbered = windows > 1
        block = replace(
            around,
            unit=Column(alias, "u") if source.unit is not None else None,
            columns=(*order, Column(alias, "i")) if numbered else order,
        )
        unique = frozenset(
            frozenset(places[c] for c in fact) for fact in source.unique if all(c in places for c in fact)
        )
        scope = Scope(compiler.source, origins, merged, block=replace(block, windows=True))
        made = cls(compiler, source, where, alias, scope, columns, scope, numbered, unique)
        made.scope = Scope(compiler.source, origins, merged, intercept=made.lookup, block=block)
        return made

    def move_known(self, known: KnownRows) -> KnownRows:
        """Return the known facts of the rows, written with the inner block's names of columns."""
        cells = tree.columns(self.alias, "x", len(self.columns))
        columns = known.columns.new_child({name: c for c in self.scope.columns for name in c.reads})
        made_of: dict[str, Expr] = {}
        renamed: dict[str, Expr] = {}
        for old, cell in zip(self.columns, cells, strict=True):
            expr = substitute_columns(old.node, known.made_of)
            if known.is_public(expr):
                made_of[f"{cell.table}.{cell.name}"] = expr
            else:
                renamed |= dict.fromkeys(old.reads, cell)
        conditions = tuple(replace(c, expr=substitute_columns(c.expr, renamed)) for c in known.conditions)
        sure = frozenset(substitute_columns(node, renamed) for node in known.sure)
        return replace(known, columns=columns, conditions=conditions, made_of=made_of, sure=sure, source=None)

    def lookup(self, node: exp.Expr) -> Typed | None:
        """Return a window as a column of the inner block."""
        if not isinstance(node, exp.Window):
            return None
        value = self.compiler.expression(node, self.inner)
        self.windows.append(value)
        return self.compiler.name_value(self.alias, f"w{len(self.windows) - 1}", value)

    def find_values(self, found: Callable[[Typed], Typed]) -> None:
        """Let windows over the rows have the public values of what they choose from, as `found` says."""
        if self.inner.block is not None:
            self.inner.block = replace(self.inner.block, find_values=found)

    @property
    def unit(self) -> Expr | None:
        """The hidden column with the unit of each row of the block."""
        return Column(self.alias, "u") if self.source.unit is not None else None

    def rows(self) -> Derived:
        """Return the block: the rows, then the windows over them, under one alias."""
        listed = select_list(self.source.unit, "x", (c.guarded_node for c in self.columns))
        inner = Derived(Select(listed, self.source.source, self.where), self.alias)
        cells = tree.columns(self.alias, "x", len(self.columns))
        kept = select_list(self.unit, "x", cells)
        if self.numbered:
            partition = (self.unit,) if self.unit is not None else ()
            order = tuple(OrderTerm(c, "ASC", "LAST") for c in cells)
            number = Item(Window(Call("ROW_NUMBER", ()), partition, order), "i")
            inner = Derived(Select((*kept, number), inner), self.alias)
        windows = tree.items("w", (make_canonical(w).node for w in self.windows))
        return Derived(Select((*kept, *windows), inner), self.alias)
