"""Rules for window functions in subqueries: within one unit, and independent of the order of tied rows.

The engine computes windows over hash groups of the rows of all units, and orders ties by their physical
position. So the hidden unit is the first key of every PARTITION BY, functions that depend on order get all
columns of the relation appended to ORDER BY (tied rows are then identical), and floating-point sums are
refused.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.aggregates import AGGREGATES
from dpsql.analysis.compiler import Rule, StatementCompiler, check_arguments, function_name
from dpsql.analysis.expressions import canonical
from dpsql.analysis.parsed import order_term, order_terms, whole_number
from dpsql.analysis.relation import Block, Scope
from dpsql.analysis.typed import Typed, UnitRole
from dpsql.kernel.tree import (
    Aggregate,
    Bound,
    Call,
    Cast,
    Constant,
    Expr,
    Frame,
    Mean,
    OrderTerm,
    Paren,
    Saturated,
    Window,
    walk,
)
from dpsql.language import copied
from dpsql.policy import fold
from dpsql.types import BIGINT, DOUBLE

_RANKS = {"rank": BIGINT, "dense_rank": BIGINT, "percent_rank": DOUBLE, "cume_dist": DOUBLE}
_ORDERED = frozenset({"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"})
_HINT = "ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day): of the rows of one user_id"
MAX_OFFSET = 1_000_000


def _window(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    block = scope.block
    if block is None or not block.windows:
        raise compiler.source.refuse(
            "a window function is allowed only in the select list or QUALIFY of a subquery", node, _HINT
        )
    node = _named(compiler, node, block)
    partition, order, spec = _parts(compiler, node, scope, block)
    name = (function_name(node.this) or "").lower()
    frame = _frame(compiler, spec)
    call = _function(compiler, node.this, name, scope)
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
    return replace(call, node=made, unit=UnitRole.NONE, literal=None, domain=None, bounds=None)


def _named(compiler: StatementCompiler, node: exp.Expr, block: Block) -> exp.Expr:
    """Replace a reference to a named window by its definition."""
    alias = node.args.get("alias")
    if alias is None:
        return node
    base = block.named.get(fold(alias.name))
    if base is None:
        raise compiler.source.refuse(f"there is no window {alias.name}", node)
    others = {name: window for name, window in block.named.items() if name != fold(alias.name)}
    base = _named(compiler, base, replace(block, named=others))
    if node.args.get("partition_by") or (
        base.args.get("order") is not None and node.args.get("order") is not None
    ):
        raise compiler.source.refuse("a named window is not redefined", node)
    if base.args.get("spec") is not None and node.args.get("spec") is not None:
        raise compiler.source.refuse("a named window is not redefined", node)
    full = copied(node)
    full.set("alias", None)
    for part in ("partition_by", "order", "spec"):
        if base.args.get(part):
            full.set(part, base.args[part])
    return full


def _parts(
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
        if not any(v.unit is UnitRole.EXACT for v in values):
            raise compiler.source.refuse(
                "a window over private rows must PARTITION BY their privacy unit", node, _HINT
            )
    unit = [block.unit] if block.unit is not None else []
    partition = [*unit, *(v.guarded_node for v in values)]
    for made, part in zip(values, node.args.get("partition_by") or (), strict=True):
        _has_no_window(compiler, made, part)
    terms = []
    for term in order_terms(compiler.source, node.args.get("order")):
        value = compiler.expression(term.this, inner)
        if value.literal is not None:
            raise compiler.source.refuse("a window is not ordered by a constant", term)
        _has_no_window(compiler, value, term)
        terms.append(order_term(term, value.guarded_node))
    return partition, terms, node.args.get("spec")


def _has_no_window(compiler: StatementCompiler, value: Typed, node: exp.Expr) -> None:
    """Refuse a subquery with a window in the definition of another one, which DuckDB does not bind."""
    if any(isinstance(part, Window) for part in walk(value.node)):
        raise compiler.source.refuse(
            "the definition of a window has a subquery with a window in it",
            node,
            "give the subquery a name first: OVER (.. x ..) FROM (SELECT *, (SELECT ..) AS x FROM ..)",
        )


def _frame(compiler: StatementCompiler, spec: exp.Expr | None) -> Frame | None:
    if spec is None:
        return None
    check_arguments(compiler.source, spec, frozenset({"kind", "start", "start_side", "end", "end_side"}))
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE", "GROUPS"):
        raise compiler.source.refuse("a frame is by ROWS, RANGE or GROUPS", spec)
    end = _edge(compiler, spec, "end", kind) if spec.args.get("end") is not None else None
    return Frame(kind, _edge(compiler, spec, "start", kind), end)


def _edge(compiler: StatementCompiler, spec: exp.Expr, name: str, kind: str) -> Bound:
    value, side = spec.args.get(name), spec.args.get(f"{name}_side")
    if isinstance(value, str) and value.upper() in ("UNBOUNDED", "CURRENT ROW"):
        return Bound(value.upper() if value.upper() == "CURRENT ROW" else str(side).upper())
    number = _offset(value)
    if number is None or kind == "RANGE" or str(side).upper() not in ("PRECEDING", "FOLLOWING"):
        raise compiler.source.refuse(
            "a frame's offset is a whole number of ROWS or GROUPS",
            spec,
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        )
    return Bound(str(side).upper(), number)


def _offset(value: object) -> int | None:
    number = whole_number(value)
    return number if number is not None and number <= MAX_OFFSET else None


def _function(compiler: StatementCompiler, node: exp.Expr, name: str, scope: Scope) -> Typed:
    """Compile the call of a window function, without OVER."""
    if function_name(node) is None:
        raise compiler.source.refuse("this is not a window function", node)
    check_arguments(compiler.source, node, frozenset({"this", "expressions"}))
    inner = scope.copy()
    inner.block = replace(scope.block, windows=False) if scope.block is not None else None
    arguments = list(node.expressions)
    if any(isinstance(a, (exp.Distinct, exp.Order, exp.Kwarg)) for a in arguments):
        raise compiler.source.refuse(f"{name} is not supported in this form in a window", node)
    if name in _RANKS:
        _exactly(compiler, node, arguments, 0, 0)
        return Typed(Call(name.upper(), ()), _RANKS[name])
    if name in _ORDERED:
        return _ordered(compiler, node, name, arguments, inner)
    aggregate = AGGREGATES.get(name)
    if aggregate is None or name in ("any_value", "median"):
        raise compiler.source.refuse(f"{name} is not allowed in a window over private rows", node)
    if name == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
        return Typed(Aggregate("COUNT"), BIGINT)
    _exactly(compiler, node, arguments, 1, 1)
    value = canonical(compiler.expression(arguments[0], inner)).guarding()
    if not aggregate.accepts(value.type):
        raise compiler.source.refuse(f"{name} does not take {value.type}", node)
    if value.type == DOUBLE and name in ("sum", "avg", "mean"):
        raise compiler.source.refuse(
            "a floating-point sum in a window depends on other units' rows",
            node,
            "CAST it to BIGINT or DECIMAL",
        )
    return aggregate.form(value, distinct=False)


def _exactly(
    compiler: StatementCompiler, node: exp.Expr, arguments: list[exp.Expr], low: int, high: int
) -> None:
    if not low <= len(arguments) <= high:
        raise compiler.source.refuse("wrong number of arguments", node)


def _ordered(
    compiler: StatementCompiler, node: exp.Expr, name: str, arguments: list[exp.Expr], scope: Scope
) -> Typed:
    if name == "row_number":
        _exactly(compiler, node, arguments, 0, 0)
        return Typed(Call("ROW_NUMBER", ()), BIGINT)
    if name == "ntile":
        _exactly(compiler, node, arguments, 1, 1)
        buckets = _offset(arguments[0])
        if not buckets:
            raise compiler.source.refuse("NTILE takes a positive whole number", node)
        return Typed(Call("NTILE", (Constant(buckets, BIGINT),)), BIGINT)
    least = 2 if name == "nth_value" else 1
    _exactly(compiler, node, arguments, least, {"lag": 2, "lead": 2, "nth_value": 2}.get(name, 1))
    value = canonical(compiler.expression(arguments[0], scope)).guarding()
    passed = [value.node]
    if len(arguments) == 2:
        offset = _offset(arguments[1])
        if offset is None or (name == "nth_value" and offset == 0):
            raise compiler.source.refuse(f"{name.upper()} takes a whole number here", arguments[1])
        passed.append(Constant(offset, BIGINT))
    return replace(value, node=Call(name.upper(), tuple(passed)))


WINDOW_RULES = (
    Rule(
        exp.Window,
        _window,
        frozenset({"this", "partition_by", "order", "spec", "over", "alias", "first"}),
    ),
)
