"""Compile calls of aggregates that may be released: which there are, and the function that compiles each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.compiler import check_arguments, function_name
from dpsql.analysis.expressions import predicate
from dpsql.analysis.parsed import order_terms
from dpsql.analysis.released.aggregate import AggregateCall, Part, ReleasedAggregate
from dpsql.analysis.released.cells import CellRows, QuantileCall
from dpsql.analysis.released.counts import approx_count_distinct, count, count_if
from dpsql.analysis.released.quantile_rules import QUANTILES
from dpsql.analysis.released.value_rules import VALUES
from dpsql.analysis.released.values import ValueCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpsql.analysis.compiler import StatementCompiler
    from dpsql.analysis.relation import From


RULES: dict[str, Callable[[AggregateCall], Part]] = {
    "count": count,
    "count_if": count_if,
    "countif": count_if,
    "approx_count_distinct": approx_count_distinct,
}
"""The function that compiles a call of each SQL function."""


def is_call(node: exp.Expr) -> bool:
    """Return whether a node calls a released aggregate, with or without FILTER."""
    name = _name(node)
    return name in RULES or name in VALUES or name in QUANTILES


def is_released(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate that is released, or the difference of two counts."""
    node = node.unnest()
    return is_call(node) or (isinstance(node, exp.Sub) and all(map(_counts, (node.this, node.expression))))


def is_value(node: exp.Expr) -> bool:
    """Return whether a node calls a statistic of values, such as SUM."""
    return _name(node.unnest()) in VALUES


def is_quantile(node: exp.Expr) -> bool:
    """Return whether a node calls a quantile or an extreme of values."""
    return _name(node.unnest()) in QUANTILES


def cells_of(counts: Sequence[ReleasedAggregate]) -> CellRows | None:
    """Return the cells whose rows are counted; None where the numbers are no quantiles."""
    part = counts[0].parts[0] if counts else None
    return part if isinstance(part, CellRows) else None


def _counts(node: exp.Expr) -> bool:
    node = node.unnest()
    if isinstance(node, exp.Sub):
        return _counts(node.this) and _counts(node.expression)
    return _name(node) in RULES


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Filter):
        node = node.this
    if isinstance(node, exp.WithinGroup):
        node = node.this
    return (function_name(node) or "").lower()


def compile_released(
    compiler: StatementCompiler, node: exp.Expr, source: From, *, single: bool, one_row: bool
) -> ReleasedAggregate | ValueCall | QuantileCall:
    """Compile a released aggregate.

    `single` says that each unit has at most one row in a group, `one_row` that it has at most one in all.
    """
    node = node.unnest()
    if isinstance(node, exp.Sub):
        pair = (node.this.unnest(), node.expression.unnest())
        if any(isinstance(side, exp.Sub) for side in pair):
            raise compiler.source.refuse("a difference is of two counts", node, "COUNT(..) - COUNT(..)")
        calls = [_call(compiler, side, source, single=single, one_row=one_row) for side in pair]
        return ReleasedAggregate(tuple(RULES[call.name](call) for call in calls))
    call = _call(compiler, node, source, single=single, one_row=one_row)
    if call.name in VALUES:
        return VALUES[call.name](call)
    if call.name in QUANTILES:
        return QUANTILES[call.name](call)
    part = RULES[call.name](call)
    return ReleasedAggregate((part,), measure=call.measure)


def _call(
    compiler: StatementCompiler, node: exp.Expr, source: From, *, single: bool, one_row: bool
) -> AggregateCall:
    conditions = []
    if isinstance(node, exp.Filter):
        check_arguments(compiler.source, node, frozenset({"this", "expression"}))
        conditions.append(predicate(compiler, node.expression.this, source.scope).guarded_node)
        node = node.this
    node, within = node.unnest(), None
    if isinstance(node, exp.WithinGroup):
        node, within = _ordered_within(compiler, node)
    check_arguments(compiler.source, node, frozenset({"this", "expressions"}))
    return AggregateCall(compiler, node, source, single, conditions, one_row, within)


def _ordered_within(
    compiler: StatementCompiler, node: exp.WithinGroup
) -> tuple[exp.Expr, tuple[exp.Expr, bool]]:
    """Return the call before WITHIN GROUP (ORDER BY x), x, and whether it is descending."""
    check_arguments(compiler.source, node, frozenset({"this", "expression"}))
    terms = order_terms(compiler.source, node.expression)
    if len(terms) != 1 or not is_quantile(node.this):
        raise compiler.source.refuse(
            "WITHIN GROUP belongs to a quantile of one expression",
            node.this,
            "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)",
        )
    return node.this, (terms[0].this, bool(terms[0].args.get("desc")))
