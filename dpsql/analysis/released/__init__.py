"""The aggregates that a private statement may release, from their SQL to what the engine computes.

``aggregate`` has the types, ``counts`` the counts. A further aggregate is a subclass of `Part`, the function
that compiles a call of it, and its name in `RULES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.expressions import check_arguments, function_name, predicate
from dpsql.analysis.released.aggregate import AggregateCall, Direction, Part, ReleasedAggregate
from dpsql.analysis.released.counts import DistinctValues, approx_count_distinct, count, count_if

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.analysis.compiler import StatementCompiler
    from dpsql.analysis.relation import From

__all__ = [
    "RULES",
    "Direction",
    "DistinctValues",
    "Part",
    "ReleasedAggregate",
    "compile_released",
    "is_call",
    "is_released",
]

RULES: dict[str, Callable[[AggregateCall], Part]] = {
    "count": count,
    "count_if": count_if,
    "countif": count_if,
    "approx_count_distinct": approx_count_distinct,
}
"""The function that compiles a call of each SQL function."""


def is_call(node: exp.Expr) -> bool:
    """Return whether a node calls a function of `RULES`, with or without FILTER."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return (function_name(inner) or "").lower() in RULES


def is_released(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate that is released, or the difference of two."""
    node = node.unnest()
    if isinstance(node, exp.Sub):
        return is_released(node.this) and is_released(node.expression)
    return is_call(node)


def compile_released(
    compiler: StatementCompiler, node: exp.Expr, source: From, *, single: bool
) -> ReleasedAggregate:
    """Compile a released aggregate; `single` says that each unit has at most one row in a group."""
    node = node.unnest()
    if not isinstance(node, exp.Sub):
        return ReleasedAggregate((_part(compiler, node, source, single=single),))
    sides = [compile_released(compiler, n, source, single=single) for n in (node.this, node.expression)]
    if any(len(side.parts) != 1 for side in sides):
        raise compiler.source.refuse("a difference is of two counts", node, "COUNT(..) - COUNT(..)")
    return ReleasedAggregate(tuple(part for side in sides for part in side.parts))


def _part(compiler: StatementCompiler, node: exp.Expr, source: From, *, single: bool) -> Part:
    conditions = []
    if isinstance(node, exp.Filter):
        check_arguments(compiler.source, node, frozenset({"this", "expression"}))
        conditions.append(predicate(compiler, node.expression.this, source.scope).guarded_node)
        node = node.this
    node = node.unnest()
    check_arguments(compiler.source, node, frozenset({"this", "expressions"}))
    name = (function_name(node) or "").lower()
    return RULES[name](AggregateCall(compiler, node, source, single, conditions))
