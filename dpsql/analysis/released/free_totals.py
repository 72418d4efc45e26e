"""Which sums are bounded by a unit's totals, and which averages are then quotients of a sum and a count.

A unit's total is at most the largest value times its rows, and mostly far less. Where the sum of values is
asked for, its quotient by their number is closer to their average than moments within the bounds of a value,
unless these lie far from 0: of years between 1930 and 2022 the differences from 1930 are summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.bound_ladders import ROWS
from dpsql.analysis.compiler import call_name, split_arguments
from dpsql.analysis.facts_of_values import is_never_negative
from dpsql.analysis.released import find_default_rows
from dpsql.language import find_nodes

if TYPE_CHECKING:
    from dpsql.analysis.released.released_numbers import AggregateCall
    from dpsql.analysis.typed_expression import Bounds, Typed

AVERAGES = frozenset(("avg", "mean"))
SPREADS = frozenset(("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev"))


def has_free_total(call: AggregateCall, bounds: Bounds | None) -> bool:
    """Return whether nothing bounds the rows of a unit in a SUM, so that a search bounds its total instead.

    So many rows of the largest value are more than any unit's total. Where a variance of the same values is
    asked for, or an average of values far from 0, the sum comes from their moments.
    """
    said = call.compiler.max_rows or find_default_rows(call.compiler.policy, call.source)
    if call.one_row or call.by_row or said is not None:
        return False
    if call.whole is not None and call.whole.bound(ROWS) is not None:
        return False
    names = {name for name, _ in _find_like(call)}
    return not names & SPREADS and (bounds is None or _is_near_zero(bounds) or not names & AVERAGES)


def is_quotient(call: AggregateCall, value: Typed, bounds: Bounds | None) -> bool:
    """Return whether an average that is asked for without bounds is the quotient of a sum and a count.

    The sum of the same values without bounds is in the statement, or bounds would be found by search: the
    largest value that counts, times the rows that do, is mostly far more than a unit's total, and how much
    is cut of it is measured. Where values have signs, each group has all that is cut of either.
    """
    if call.compiler.max_rows is not None or not (bounds is None or _is_near_zero(bounds)):
        return False
    like = list(_find_like(call))
    if SPREADS & {name for name, _ in like}:
        return False
    if any(name == "sum" and plain for name, plain in like):
        return bounds is not None or not _is_in_pairs(call)
    worth = not call.compiler.keyed or is_never_negative(value, call.compiler.columns)
    searched = bounds is None or (bounds.loose and bounds.declared)
    return searched and worth and not _is_in_pairs(call)


def is_moment_of_pairs(call: AggregateCall) -> bool:
    """Return whether a call is on a product, and averages of both factors on the same rows are asked for.

    A covariance is the difference of such moments: all of them are of values within the same bounds.
    """
    product = split_arguments(call.node)[1][0].unnest()
    averaged = _list_averaged(call)
    return isinstance(product, exp.Mul) and _has_factors(product, averaged)


def _is_in_pairs(call: AggregateCall) -> bool:
    """Return whether an average is one of the moments of pairs: of their products, or of either factor."""
    averaged = [split_arguments(call.node)[1][0].unnest(), *_list_averaged(call)]
    return any(isinstance(each, exp.Mul) and _has_factors(each, averaged) for each in averaged)


def _has_factors(product: exp.Mul, averaged: Sequence[exp.Expr]) -> bool:
    return all(factor.unnest() in averaged for factor in (product.left, product.right))


def _list_averaged(call: AggregateCall) -> list[exp.Expr]:
    """Return what is averaged by the other calls of a SELECT on the same rows of a group."""
    averages = [c for c in _others_of_rows(call) if call_name(c) in AVERAGES]
    return [value.unnest() for each in averages for value in split_arguments(each)[1]]


def _is_near_zero(bounds: Bounds) -> bool:
    """Return whether values are not further from 0 than they may be from each other."""
    width = bounds.high - bounds.low
    return bounds.low <= width and -bounds.high <= width


def _find_like(call: AggregateCall) -> Iterator[tuple[str, bool]]:
    """Yield the other calls on the same values of the same rows: the name, and whether it has no bounds."""
    own = split_arguments(call.node)[1]
    for each in _others_of_rows(call):
        bounds, arguments = split_arguments(each)
        if arguments == own:
            yield call_name(each), not bounds


def _others_of_rows(call: AggregateCall) -> Iterator[exp.Expr]:
    """Yield the other calls of a SELECT on the same rows of a group."""
    select, own = call.node.find_ancestor(exp.Select), _find_filter(call.node)
    for each in () if select is None else find_nodes(select, exp.Anonymous):
        if _find_filter(each) == own and each is not call.node:
            yield each


def _find_filter(call: exp.Expr) -> exp.Expr | None:
    """Return the condition of the FILTER of a call, if it has one."""
    return call.parent.expression if isinstance(call.parent, exp.Filter) else None
