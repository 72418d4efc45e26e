"""Rules of aggregate and window functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.engines.translate.context import check_parts, expression, ordering
from dpsql.engines.translate.parsing import call
from dpsql.engines.translate.value import Value
from dpsql.types import BIGINT, DOUBLE

if TYPE_CHECKING:
    from dpsql.engines.translate.context import ColumnScope, Rule, Translation

__all__ = ["AGGREGATES", "RULES", "aggregate"]

AGGREGATES = frozenset(
    {"count", "sum", "avg", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "first"}
)
_RANK_TYPES = {
    "row_number": BIGINT,
    "rank": BIGINT,
    "dense_rank": BIGINT,
    "percent_rank": DOUBLE,
    "cume_dist": DOUBLE,
}
_VALUE_FUNCTIONS = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})


def aggregate(work: Translation, name: str, node: exp.Expr, scope: ColumnScope, where: str = "") -> Value:
    """Translate an aggregate; `where` is its FILTER."""
    arguments = list(node.expressions)
    if name == "first":
        # Engines collect the values of a group to order them, and fail if one group is too large.
        raise work.refuse("FIRST and LAST, ARG_MAX and ARG_MIN", "a window: ROW_NUMBER() OVER (..) = 1")
    if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        check_parts(work, arguments[0])
        return Value(f"COUNT(*){where}", BIGINT)
    distinct = False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        check_parts(work, arguments[0], "expressions")
        distinct, arguments = True, arguments[0].expressions
    if len(arguments) != 1 or isinstance(arguments[0], exp.Order):
        raise work.refuse(f"{name} with ORDER BY, as for DOUBLE values", "CAST the values to BIGINT")
    value = expression(work, arguments[0], scope)
    return work.dialect.aggregate(name, value, distinct=distinct, where=where)


def _filtered(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    """Translate an aggregate with FILTER."""
    check_parts(work, node, "this", "expression")
    name = call(node.this)
    if name not in AGGREGATES or not isinstance(node.expression, exp.Where):
        raise work.refuse("FILTER on anything but an aggregate")
    condition = expression(work, node.expression.this, scope)
    return aggregate(work, name, node.this, scope, f" FILTER (WHERE {condition.sql})")


def _window(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    """Translate a window function."""
    check_parts(work, node, "this", "partition_by", "order", "spec", "over")
    over = []
    partition = [expression(work, p, scope) for p in node.args.get("partition_by") or ()]
    if partition:
        over.append("PARTITION BY " + ", ".join(p.sql for p in partition))
    order = node.args.get("order")
    if order is not None:
        check_parts(work, order, "expressions")
        over.append("ORDER BY " + ordering(work, order.expressions, scope))
    name = call(node.this) or ""
    spec = node.args.get("spec")
    if spec is not None:
        if name in _RANK_TYPES or name in ("ntile", "lag", "lead"):
            raise work.refuse(f"a frame for {name}", "leave the frame out: it has no effect")
        over.append(_frame(work, spec))
    return _insert_over(_function(work, name, node.this, scope), f" OVER ({' '.join(over)})")


_OVER_MARK = "\x00over\x00"
"""Placeholder for OVER: it stands after the call, which a conversion may enclose."""


def _insert_over(value: Value, over: str) -> Value:
    return value.with_sql(f"({value.sql.replace(_OVER_MARK, over)})")


def _function(work: Translation, name: str, node: exp.Expr, scope: ColumnScope) -> Value:
    if name in _RANK_TYPES and not node.expressions:
        sql_type = _RANK_TYPES[name]
        made = Value(f"{name.upper()}(){_OVER_MARK}", sql_type)
        return (
            work.dialect.cast(Value(made.sql, DOUBLE), DOUBLE) if sql_type == DOUBLE else _widen(work, made)
        )
    if name == "ntile":
        buckets = expression(work, node.expressions[0], scope).constant
        if not isinstance(buckets, int):
            raise work.refuse("NTILE of anything but a constant number")
        return _widen(work, Value(f"NTILE({buckets}){_OVER_MARK}", BIGINT))
    if name in _VALUE_FUNCTIONS:
        value = expression(work, node.expressions[0], scope)
        tail = ""
        if len(node.expressions) == 2:
            offset = expression(work, node.expressions[1], scope).constant
            if not isinstance(offset, int):
                raise work.refuse(f"{name} with an offset that is not a constant number")
            tail = f", {offset}"
        return value.with_sql(f"{name.upper()}({value.sql}{tail}){_OVER_MARK}")
    if name in AGGREGATES and name != "first":
        if node.expressions and isinstance(node.expressions[0], exp.Distinct):
            raise work.refuse("DISTINCT in a window")
        return aggregate(work, name, node, scope, _OVER_MARK)
    raise work.refuse(f"the window function {name}")


def _widen(work: Translation, value: Value) -> Value:
    """Convert to BIGINT: some engines return INTEGER from ranking functions."""
    return value.with_sql(f"CAST({value.sql} AS {work.dialect.type_name(BIGINT)})")


def _frame(work: Translation, spec: exp.Expr) -> str:
    check_parts(work, spec, "kind", "start", "start_side", "end", "end_side")
    frame_unit = str(spec.args.get("kind") or "").upper()
    if frame_unit not in ("ROWS", "RANGE") and not (frame_unit == "GROUPS" and work.dialect.group_frames):
        raise work.refuse(f"frames by {frame_unit}")
    start = _frame_bound(work, spec, "start")
    if spec.args.get("end") is None:
        return f"{frame_unit} {start}"
    return f"{frame_unit} BETWEEN {start} AND {_frame_bound(work, spec, 'end')}"


def _frame_bound(work: Translation, spec: exp.Expr, name: str) -> str:
    value, side = spec.args.get(name), str(spec.args.get(f"{name}_side") or "").upper()
    if isinstance(value, str) and value.upper() == "CURRENT ROW":
        return "CURRENT ROW"
    if side not in ("PRECEDING", "FOLLOWING"):
        raise work.refuse("this window frame")
    if isinstance(value, str) and value.upper() == "UNBOUNDED":
        return f"UNBOUNDED {side}"
    if isinstance(value, exp.Literal) and str(value.this).isdecimal():
        return f"{int(value.this)} {side}"
    raise work.refuse("this window frame")


RULES: dict[type[exp.Expr], Rule] = {exp.Filter: _filtered, exp.Window: _window}
"""The rule of each node type."""
