"""Rules of aggregate and window functions."""

from __future__ import annotations

from dpsql.engines.writer.conditions import condition
from dpsql.engines.writer.context import ColumnScope, Rule, Writer
from dpsql.engines.writer.value import Value
from dpsql.kernel import tree
from dpsql.kernel.tree import Expr
from dpsql.types import BIGINT, DOUBLE

_RANKS = {
    "row_number": BIGINT,
    "rank": BIGINT,
    "dense_rank": BIGINT,
    "percent_rank": DOUBLE,
    "cume_dist": DOUBLE,
}
_VALUES = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})


def _aggregate(work: Writer, node: tree.Aggregate, scope: ColumnScope, over: str = "") -> Value:
    name, where = node.name.lower(), ""
    if name == "first":
        # Engines collect the values of a group to order them, and fail if one group is too large.
        raise work.refuse("FIRST and LAST, ARG_MAX and ARG_MIN", "a window: ROW_NUMBER() OVER (..) = 1")
    if node.filter is not None:
        where = f" FILTER (WHERE {condition(work, node.filter, scope)})"
    if name == "count" and not node.arguments:
        made = Value(f"COUNT(*){where}{over}", BIGINT)
        work.grouped.add(made.sql)
        return made
    if node.order or len(node.arguments) != 1:
        raise work.refuse(f"{name} with ORDER BY, as for DOUBLE values", "CAST the values to BIGINT")
    value = work.expression(node.arguments[0], scope)
    made = work.dialect.aggregate(name, value, distinct=node.distinct, tail=where + over)
    work.grouped.add(made.sql)
    return made


def _window(work: Writer, node: tree.Window, scope: ColumnScope) -> Value:
    parts = []
    if node.partition:
        parts.append("PARTITION BY " + ", ".join(work.expression(p, scope).sql for p in node.partition))
    if node.order:
        parts.append("ORDER BY " + work.ordering(node.order, scope))
    if node.frame is not None:
        parts.append(_frame(work, node.frame))
    over = f" OVER ({' '.join(parts)})"
    match node.function:
        case tree.Aggregate(distinct=False):
            value = _aggregate(work, node.function, scope, over)
        case tree.Call():
            value = _function(work, node.function, scope, over, framed=node.frame is not None)
        case _:
            raise work.refuse("DISTINCT in a window")
    work.grouped.add(value.sql)
    return value.with_sql(f"({value.sql})")


def _function(work: Writer, node: tree.Call, scope: ColumnScope, over: str, *, framed: bool) -> Value:
    name, arguments = node.name.lower(), node.arguments
    if framed and (name in _RANKS or name in ("ntile", "lag", "lead")):
        raise work.refuse(f"a frame for {name}", "leave the frame out: it has no effect")
    if name in _RANKS:
        sql_type = _RANKS[name]
        made = f"{name.upper()}(){over}"
        return Value(made if sql_type == DOUBLE else _wide(work, made), sql_type)
    constants = [work.expression(argument, scope).constant for argument in arguments[name in _VALUES :]]
    if not all(isinstance(constant, int) for constant in constants):
        raise work.refuse(f"{name} of anything but a constant number")
    if name == "ntile":
        return Value(_wide(work, f"NTILE({constants[0]}){over}"), BIGINT)
    if name in _VALUES:
        value = work.expression(arguments[0], scope)
        return value.with_sql(f"{name.upper()}({', '.join(map(str, (value.sql, *constants)))}){over}")
    raise work.refuse(f"the window function {name}")


def _wide(work: Writer, sql: str) -> str:
    """Convert to BIGINT: some engines return INTEGER from ranking functions."""
    return f"CAST({sql} AS {work.dialect.type_name(BIGINT)})"


def _frame(work: Writer, frame: tree.Frame) -> str:
    if frame.unit == "GROUPS" and not work.dialect.group_frames:
        raise work.refuse("frames by GROUPS")
    if frame.end is None:
        return f"{frame.unit} {_bound(frame.start)}"
    return f"{frame.unit} BETWEEN {_bound(frame.start)} AND {_bound(frame.end)}"


def _bound(bound: tree.Bound) -> str:
    if bound.side == "CURRENT ROW":
        return bound.side
    return f"{'UNBOUNDED' if bound.offset is None else bound.offset} {bound.side}"


RULES: dict[type[Expr], Rule] = {tree.Aggregate: _aggregate, tree.Window: _window}
"""The rule of each node type."""
