"""The aggregates of subqueries, which do not depend on row order: their calls, and how each is compiled.

An aggregate that depends on row order (FIRST, LIST, floating-point SUM) may change for one unit when
another unit is removed, because the engine chooses the order of a join from statistics of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Protocol

from sqlglot import exp

from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import (
    StatementCompiler,
    call_name,
    check_arguments,
    compile_order_term,
    function_name,
    list_order_terms,
    split_words,
)
from dpsql.analysis.conversions import cast
from dpsql.analysis.facts_of_values import bounds_of_cast
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.total_forms import compute_mean
from dpsql.analysis.typed_expression import Typed, UnitRole
from dpsql.kernel.tree import (
    MOST,
    Aggregate,
    Binary,
    Case,
    Cast,
    Constant,
    Expr,
    IsNull,
    Mean,
    OrderTerm,
    Paren,
    Saturated,
)
from dpsql.language import walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, SqlType


class AggregateForm(Protocol):
    """The signature of an aggregate's compiled form."""

    def __call__(self, x: Typed, *, distinct: bool) -> Typed:
        """Aggregate a guarded expression, or its distinct values."""


@dataclass(frozen=True, slots=True)
class AggregateRule:
    """An aggregate function: the argument types it accepts and its compiled form."""

    accepts: Callable[[SqlType], bool]
    form: AggregateForm


def _make_form(name: str, result: SqlType | None = None) -> AggregateForm:
    def made(x: Typed, *, distinct: bool) -> Typed:
        node = Aggregate(name, (x.node,), distinct)
        kind = result or x.type
        return replace(x, node=node, type=kind, unit=UnitRole.NONE, decimal=x.decimal and kind == x.type)

    return made


def _order_of_doubles(x: Typed) -> tuple[OrderTerm, ...]:
    """Return an order for floating-point sums, which depend on the order of their values."""
    return (OrderTerm(x.node),) if x.type == DOUBLE else ()


def _compile_sum(x: Typed, *, distinct: bool) -> Typed:
    made = replace(x, node=Aggregate("SUM", (x.node,), distinct, _order_of_doubles(x)))
    if x.type == DOUBLE:
        return made
    kind = BIGINT if x.type.integer else SqlType("DECIMAL", 18, x.type.scale)
    total = cast(made, kind)
    if x.type.integer and x.type.bits <= 32:
        return total  # 2^31 of them fit
    return replace(total, node=Saturated(made.node, kind, MOST))


def _compile_avg(x: Typed, *, distinct: bool) -> Typed:
    mean = compute_mean(x, distinct=distinct)
    made = Aggregate("AVG", (x.node,), distinct, _order_of_doubles(x))
    return mean or replace(x, node=made, type=DOUBLE, decimal=False)


def _compile_count_if(x: Typed, *, distinct: bool) -> Typed:
    chosen = Case(((x.node, Constant(True, BOOLEAN)),))
    return replace(x, node=Aggregate("COUNT", (chosen,)), type=BIGINT)


def _compile_median(x: Typed, *, distinct: bool) -> Typed:
    return replace(x, node=Aggregate("MEDIAN", (x.node,), distinct), type=DOUBLE, decimal=False)


def _has_order(sql_type: SqlType) -> bool:
    return sql_type.name not in ("JSON", "INTERVAL", "NULL", "HUGEINT")


_number, _integer = attrgetter("numeric"), attrgetter("integer")


def _is_boolean(sql_type: SqlType) -> bool:
    return sql_type == BOOLEAN


AGGREGATES: dict[str, AggregateRule] = {
    "count": AggregateRule(_has_order, _make_form("COUNT", BIGINT)),
    "count_if": AggregateRule(_is_boolean, _compile_count_if),
    "countif": AggregateRule(_is_boolean, _compile_count_if),
    "sum": AggregateRule(_number, _compile_sum),
    "avg": AggregateRule(_number, _compile_avg),
    "mean": AggregateRule(_number, _compile_avg),
    "min": AggregateRule(_has_order, _make_form("MIN")),
    "max": AggregateRule(_has_order, _make_form("MAX")),
    "any_value": AggregateRule(_has_order, _make_form("MIN")),
    "bool_and": AggregateRule(_is_boolean, _make_form("BOOL_AND")),
    "bool_or": AggregateRule(_is_boolean, _make_form("BOOL_OR")),
    "bit_and": AggregateRule(_integer, _make_form("BIT_AND")),
    "bit_or": AggregateRule(_integer, _make_form("BIT_OR")),
    "bit_xor": AggregateRule(_integer, _make_form("BIT_XOR")),
    "median": AggregateRule(_integer, _compile_median),
}
"""Aggregates whose result is a function of the multiset of their values."""

_WITHIN = frozenset({"min", "max", "any_value", "avg", "mean", "median"})
"""Aggregates whose result lies between the least and the greatest of their values."""

OF_NUMBERS = frozenset({"avg", "sum", "mean", "stddev", "stddev_samp", "stddev_pop", "median"})
"""Aggregates that are numbers, and NULL of no rows."""
CHOOSING = frozenset({"min", "max", "any_value"})
"""Aggregates whose result is one of their values, which is NULL if all are."""

ORDER_DEPENDENT = split_words(
    """
    first last list array_agg string_agg group_concat arg_max arg_min max_by min_by mode stddev variance
    var_pop var_samp stddev_pop stddev_samp quantile_cont quantile_disc product approx_count_distinct
    quantile percentile_cont percentile_disc approx_quantile approx_quantiles
    reservoir_quantile histogram corr
    """
)
"""Aggregates whose result depends on the order of rows, or is not computed exactly."""


_MOST_FREQUENT = (
    "GROUP BY user_id, page QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC, page) = 1"
    ": of several that are the most frequent, the first one"
)


def aggregate_name(node: exp.Expr) -> str | None:
    """Return the name of the aggregate that a node calls (with or without FILTER); None for other nodes."""
    inner = node.this if isinstance(node, exp.Filter) else node
    inner = inner.this if isinstance(inner, exp.WithinGroup) else inner
    called = function_name(inner)
    name = None if called is None else called.lower()
    return name if name in AGGREGATES or name in ORDER_DEPENDENT else None


def aggregate_calls(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the aggregates in an expression, outside subqueries and windows."""
    for n in walk_tree(node, lambda n: isinstance(n, (exp.Query, exp.Subquery))):
        if isinstance(n, exp.Expr) and is_aggregate(n):
            yield n


def is_row_count(node: exp.Expr) -> bool:
    """Return whether a node is COUNT(*)."""
    arguments = getattr(node, "expressions", [])
    return aggregate_name(node) == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star)


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node calls an aggregate of its block, not one of a window."""
    return aggregate_name(node) is not None and not _is_windowed(node)


def contains_aggregate(node: exp.Expr) -> bool:
    """Return whether an expression contains an aggregate outside subqueries and windows."""
    return any(True for _ in aggregate_calls(node))


def _is_windowed(node: exp.Expr) -> bool:
    """Return whether an aggregate's call has an OVER clause, so that it is computed by a window."""
    parent = node.parent
    while isinstance(parent, (exp.Filter, exp.WithinGroup)) and parent.this is node:
        node, parent = parent, parent.parent
    return isinstance(parent, exp.Window)


def compile_aggregate(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile one aggregate over the rows of its group."""
    where: Expr | None = None
    if isinstance(node, exp.Filter):
        check_arguments(compiler.source, node, frozenset({"this", "expression"}))
        where = compile_condition(compiler, node.expression.this, scope).guarded_node
        node = node.this
    node = node.this if isinstance(node, exp.WithinGroup) else node
    name = call_name(node)
    aggregate = AGGREGATES.get(name)
    if name in ORDERED or name in EXTREME:
        return compile_ordered(compiler, node, name, scope, where)
    if aggregate is None:
        hint = _MOST_FREQUENT if name == "mode" else "use MIN, MAX, COUNT or SUM"
        raise compiler.source.refuse(f"the result of {name} depends on the order of rows", node, hint)
    arguments = node.expressions
    if name == "count" and (not arguments or (len(arguments) == 1 and isinstance(arguments[0], exp.Star))):
        return Typed(Aggregate("COUNT", filter=where), BIGINT)
    distinct = False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        check_arguments(compiler.source, arguments[0], frozenset({"expressions"}))
        distinct, arguments = True, arguments[0].expressions
    if len(arguments) != 1:
        raise compiler.source.refuse(f"{name} takes one argument here", node)
    value = make_canonical(compiler.expression(arguments[0], scope)).guard()
    if not aggregate.accepts(value.type):
        raise compiler.source.refuse(f"{name} does not take {value.type}", node)
    result = aggregate.form(value, distinct=distinct)
    bounds = bounds_of_cast(value, result.type) if name in _WITHIN else None
    made = replace(result, node=_add_filter(result.node, where), literal=None, domain=None, bounds=bounds)
    if name in CHOOSING and scope.block is not None:
        return scope.block.choose(made, value, sure=where is None)
    return replace(made, span=None, nulls=True)


ORDERED = {"first": "FIRST", "last": "LAST", "list": "LIST", "array_agg": "LIST"}
EXTREME = {
    **dict.fromkeys(("arg_max", "max_by", "argmax"), "DESC"),
    **dict.fromkeys(("arg_min", "min_by", "argmin"), "ASC"),
}
"""Aggregates that are a function of the rows once their order is complete."""


def compile_ordered(
    compiler: StatementCompiler, node: exp.Expr, name: str, scope: Scope, where: Expr | None
) -> Typed:
    """Compile an ordered aggregate, with the aggregated expression as the last term of its ORDER BY.

    Rows that are equal in all terms are then interchangeable.
    """
    arguments = list(node.expressions)
    if name in EXTREME:
        if len(arguments) != 2 or where is not None:
            raise compiler.source.refuse(f"{name} takes a value and what to order it by", node)
        x, y = (make_canonical(compiler.expression(a, scope)).guard() for a in arguments)
        _check_order(compiler, node, x, y)
        # Ties go to the smallest value, so that the result does not depend on the order of rows.
        terms = [OrderTerm(y.node, EXTREME[name], "LAST"), OrderTerm(x.node, "ASC", "LAST")]
        order = tuple(t for t, v in zip(terms, (y, x), strict=True) if v.literal is None)
        if not order:
            raise compiler.source.refuse(f"{name} of constants is a constant", node)
        there = Binary("AND", *(Paren(IsNull(v.node, negated=True)) for v in (x, y)))
        made = Aggregate("FIRST", (x.node,), order=order, filter=there)
        chosen = replace(x, node=made, unit=UnitRole.NONE, literal=None, domain=None)
        return chosen if scope.block is None else scope.block.choose(chosen, x, sure=False)
    if len(arguments) != 1 or not isinstance(arguments[0], exp.Order):
        raise compiler.source.refuse(
            f"the result of {name} depends on the order of rows", node, f"{name.upper()}(page ORDER BY day)"
        )
    inner = arguments[0]
    if inner.this is None or isinstance(inner.this, (exp.Distinct, exp.Star)):
        raise compiler.source.refuse(f"{name} takes one expression with ORDER BY", node)
    value = make_canonical(compiler.expression(inner.this, scope)).guard()
    _check_order(compiler, node, value)
    terms = []
    for term in list_order_terms(compiler.source, inner):
        by = make_canonical(compiler.expression(term.this, scope)).guard()
        _check_order(compiler, node, by)
        if by.literal is not None:
            raise compiler.source.refuse("an aggregate is not ordered by a constant", term)
        terms.append(compile_order_term(term, by.node))
    if value.literal is None:
        terms.append(OrderTerm(value.node, "ASC", "LAST"))
    sql_type = SqlType("LIST", item=value.type) if ORDERED[name] == "LIST" else value.type
    if sql_type.name == "LIST" and value.type.name not in ("VARCHAR", "BIGINT", "INTEGER", "DATE"):
        raise compiler.source.refuse(f"lists of {value.type} are not collected", node)
    made = Aggregate(ORDERED[name], (value.node,), order=tuple(terms), filter=where)
    bounds = value.bounds if sql_type == value.type else None
    chosen = replace(value, node=made, type=sql_type, unit=UnitRole.NONE, literal=None, bounds=bounds)
    if sql_type != value.type or scope.block is None:
        return replace(chosen, domain=None, span=None, nulls=True)
    return scope.block.choose(chosen, value, sure=where is None)


def _check_order(compiler: StatementCompiler, node: exp.Expr, *values: Typed) -> None:
    for value in values:
        if not _has_order(value.type):
            raise compiler.source.refuse(f"{value.type} has no order here", node)


def _add_filter(node: Expr, where: Expr | None) -> Expr:
    """Add FILTER, which belongs to the aggregate itself, inside a conversion of its result."""
    if isinstance(node, (Cast, Saturated)):
        return replace(node, operand=_add_filter(node.operand, where))
    if isinstance(node, Mean):
        return Mean(_add_filter(node.total, where), _add_filter(node.number, where))
    return replace(node, filter=where) if isinstance(node, Aggregate) else node


def is_in_aggregate(node: exp.Expr, select: exp.Select) -> bool:
    """Return whether a node of a SELECT stands in the arguments of one of its aggregates."""
    parent = node.parent
    while parent is not None and parent is not select:
        if is_aggregate(parent):
            return True
        parent = parent.parent
    return False
