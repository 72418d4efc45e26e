"""Compile calls of aggregates that may be released, those of SUM, AVG, VARIANCE, STDDEV with their bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.bound_ladders import KEPT, ROWS, Contribution, total_of
from dpsql.analysis.compiler import (
    call_name,
    check_arguments,
    list_order_terms,
    read_number,
    split_arguments,
)
from dpsql.analysis.facts_of_values import is_never_negative
from dpsql.analysis.grids import prepare_for_search
from dpsql.analysis.released import (
    assume_cut,
    bound_rows,
    cut_at_zero,
    is_auto,
    is_signed,
    make_ladder,
    name_unit,
    search_ends,
    search_rows,
    write_argument,
    write_bound,
)
from dpsql.analysis.released.first_rows import FirstNumber
from dpsql.analysis.released.free_totals import (
    AVERAGES,
    SPREADS,
    has_free_total,
    is_moment_of_pairs,
    is_quotient,
)
from dpsql.analysis.released.quantiles import QUANTILES, CellRows, QuantileCall
from dpsql.analysis.released.released_numbers import SEARCHED, AggregateCall, ReleasedAggregate, UnitNumber
from dpsql.analysis.released.unit_counts import compile_approx_count_distinct, compile_count, compile_count_if
from dpsql.analysis.released.unit_values import ValueCall
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.total_forms import widen_integer
from dpsql.analysis.typed_expression import Bounds, Typed
from dpsql.analysis.whole_tables import find_declared_name
from dpsql.errors import Fix, with_article
from dpsql.estimates import decimal
from dpsql.language import LARGEST
from dpsql.types import DOUBLE, VARCHAR

if TYPE_CHECKING:
    from dpsql.analysis.compiled_relation import From
    from dpsql.analysis.compiler import StatementCompiler

_PER_GROUP, _PER_ROW = "contribution_bounds_per_group", "contribution_bounds_per_row"
_GROUPED = ("sum", "avg", "mean")
"""The functions that take bounds per group."""
_LARGEST = 1 << 200
"""The largest bound of an expression: the square of a sum of such values is still a DOUBLE."""


def _compile_value(call: AggregateCall, *, statistic: str, sample: bool = False) -> ValueCall:
    made = _compile_statistic(call, statistic=statistic, sample=sample)
    return replace(made, cut=_is_cut(made), source_column=_find_column_name(call, made.value) or "")


def _is_cut(made: ValueCall) -> bool:
    """Return whether values may lie beyond the bounds that are written or that the policy declares."""
    if made.capped is not None or made.origin == SEARCHED:
        return False
    known = made.value.bounds
    return known is None or known.declared or made.per_group or known.low < made.low or made.high < known.high


def _compile_statistic(call: AggregateCall, *, statistic: str, sample: bool) -> ValueCall:
    named, arguments = split_arguments(call.node)
    name = call.name.upper()
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        raise call.refuse(
            f"{name}(DISTINCT ..) over many units is not released: what a value adds would depend on others",
            call.node,
            f"{name}(x) without DISTINCT",
        )
    if len(arguments) != 1 or isinstance(arguments[0], exp.Star):
        raise call.refuse(f"{name} takes one expression", call.node)
    value = call.expression(arguments[0])  # steps do not depend on the sign of zero
    if not value.type.numeric:
        hint = "COUNT(*)"
        if value.type == VARCHAR:
            hint += f", or {name}(CAST({write_argument(arguments[0])} AS DOUBLE)) if its texts are numbers"
        raise call.refuse(f"{name} of {value.type} is not a number", call.node, hint)
    if not named:
        return _bound_as_declared(call, value, statistic, write_argument(arguments[0]), sample=sample)
    if is_auto(named):
        if not call.compiler.policy.defaults.auto_bounds:
            raise call.refuse(
                "the owner's policy finds no bounds privately", named[0], *_hint_bound(call, _PER_GROUP)
            )
        found = _bound_by_search(call, value, statistic, sample=sample)
        return replace(found, argument=write_argument(arguments[0]), origin=SEARCHED)
    low, high = _read_bounds(call, named, value)
    kind = named[0].name.lower()
    if kind == _PER_GROUP:
        if call.name not in _GROUPED:
            raise call.refuse(
                f"{name} takes bounds on the values of rows", named[0], f"{_PER_ROW} => (0, 100)"
            )
        single = call.single or call.by_row
        written = ValueCall(statistic, value, call.condition(), low, high, True, 1, single)
        return replace(written, argument=write_argument(arguments[0]))
    argument = write_argument(arguments[0])
    return _bound_by_rows(call, value, statistic, low, high, sample=sample, argument=argument)


def _bound_as_declared(
    call: AggregateCall, value: Typed, statistic: str, argument: str, *, sample: bool
) -> ValueCall:
    """Bound a call that writes no bounds, by the policy and public facts, else by what is found privately.

    Bounds of the policy are noted as an assumption: values outside of them are cut.
    """
    found = _bound_by_ladder(call, value, statistic)
    if found is not None:
        return replace(found, argument=argument, origin=KEPT)
    bounds = value.bounds
    if bounds is not None and max(-bounds.low, bounds.high) > _LARGEST:
        bounds = None
    auto = call.compiler.policy.defaults.auto_bounds
    free = auto and (bounds is None or (_is_wide(bounds) and has_free_total(call, bounds)))
    if statistic == "avg" and is_quotient(call, value, bounds):
        capped = free or _bound_by_ladder(call, value, "sum") is not None
        one = (call.one_row or call.by_row) and is_never_negative(value, call.compiler.columns)
        call.compiler.quotients += [(call.node, value.type == DOUBLE, free and not one)] * capped
    loose = bounds is not None and bounds.loose and bounds.declared and not is_moment_of_pairs(call)
    if auto and (bounds is None or (free if statistic == "sum" else loose)):
        found = _bound_by_search(call, value, statistic, sample=sample)
        call.compiler.searched_sums += [call.node] * (statistic == "sum")
        return replace(found, argument=argument, origin=SEARCHED)
    if bounds is None:
        raise _refuse_unbounded(call)
    if max(-bounds.low, bounds.high) >= 1 << 63:
        value = widen_integer(value)  # else the ends of BIGINT lie beyond the bounds, which cut the value
    assume_cut(call, argument, value.type, bounds)
    ends, origin = (bounds.low, bounds.high), bounds.origin
    return _bound_by_rows(call, value, statistic, *ends, sample=sample, argument=argument, origin=origin)


def _is_wide(bounds: Bounds) -> bool:
    """Return whether values may be far less than the bounds: of zeros and ones a sum is a number of rows."""
    return bounds.declared or max(-bounds.low, bounds.high) > 1


def _bound_by_ladder(call: AggregateCall, value: Typed, statistic: str) -> ValueCall | None:
    """Bound a SUM over all rows of a table by its kept ladder of totals; None: there is none."""
    name, single = _find_column_name(call, value), call.one_row or call.by_row
    if call.whole is None or name is None or statistic != "sum" or call.compiler.max_rows is not None:
        return None
    if single and value.bounds is not None:
        return None  # of one row the bounds of its value are those of the total
    measure = total_of(name)
    ends = value.bounds
    largest = None if ends is None else max(abs(ends.low), abs(ends.high))
    whole = widen_integer(value)
    step = prepare_for_search(whole.guarded_node, whole.type)[2]
    back = is_never_negative(value, call.compiler.columns)  # what is cut of either sign goes to no group
    bound = call.whole.bound(measure, largest or Fraction(1), step=step, given_back=back)
    if bound is None:
        return None
    most = bound * step
    whole, sign = cut_at_zero(call, whole)
    made = ValueCall("sum", whole, call.condition(), sign * most, most, False, 1, single, capped=bound)
    signed = not back and is_signed(value)
    made = replace(made, finest=call.compiler.finest, measure=measure, signed=signed)
    return replace(made, largest=largest)


def _find_column_name(call: AggregateCall, value: Typed) -> str | None:
    """Return the declared name of the column that an argument is; None for any other expression."""
    whole = call.whole
    if whole is None or not whole.in_place:
        return None
    return find_declared_name(call.compiler.catalog, whole.table, value)


def _bound_by_search(call: AggregateCall, value: Typed, statistic: str, *, sample: bool) -> ValueCall:
    """Bound a call by what is found privately: a unit's totals of a SUM, else the values of rows."""
    value = widen_integer(value)
    single = call.one_row or call.by_row
    if statistic == "sum":
        value, low = cut_at_zero(call, value)  # its values are not cut at declared bounds
        capped = call.compiler.bound(make_ladder(call, value, Contribution.TOTAL))
        found = ValueCall("sum", value, call.condition(), low, Fraction(1), False, 1, single, capped=capped)
        return replace(found, finest=call.compiler.finest, largest_in=call.node.meta_get(LARGEST))
    low, high = search_ends(call, value)
    return _bound_by_rows(call, value, statistic, low, high, sample=sample, search=True)


def _bound_by_rows(
    call: AggregateCall,
    value: Typed,
    statistic: str,
    low: Fraction,
    high: Fraction,
    *,
    sample: bool,
    search: bool = False,
    argument: str = "",
    origin: str = "",
) -> ValueCall:
    """Bound a call by the values of rows; the rows of a unit are also searched for a bound if asked for."""
    single = call.one_row or call.by_row
    most: int | None = 1
    measure = ""
    if not single and call.whole is not None:
        of_sum = statistic == "sum"
        kept = call.whole.bound(ROWS, given_back=False) if of_sum else call.whole.average_bound()
        most, measure = (call.compiler.max_rows or kept, ROWS) if kept is not None else (None, "")
    if not single and not measure:
        most = bound_rows(call.compiler, call.source)
    if not measure and (search or (most is None and call.compiler.policy.defaults.auto_bounds)):
        most = search_rows(call, most)
    if most is None:
        raise call.refuse(
            f"{with_article(name_unit(call.source))} can have many rows here: say how many may count",
            call.node,
            *_hint_fewer_rows(call),
        )
    if low == high:
        high += 1
    condition = call.condition()
    return ValueCall(
        statistic,
        value,
        condition,
        low,
        high,
        per_group=False,
        most=most,
        single=single,
        sample=sample,
        argument=argument,
        origin=origin,
        measure=measure,
    )


def _read_bounds(call: AggregateCall, named: Sequence[exp.Expr], value: Typed) -> tuple[Fraction, Fraction]:
    """Return the two bounds that a call writes."""
    tuple_, name = named[0].expression, named[0].name.lower()
    values = tuple_.expressions if isinstance(tuple_, (exp.Tuple, exp.Array)) else []
    bounds = [found for v in values if (found := read_number(v)) is not None]
    right = len(bounds) == len(values) == 2 and bounds[0] != bounds[1]
    known, pair = name in (_PER_GROUP, _PER_ROW), sorted(bounds) if right else [Fraction(0), Fraction(100)]
    if not known or len(named) > 1:
        what = "takes one pair of bounds" if known else f"has no argument {name}"
        hint = f"{_write_call(call, _PER_ROW, pair)} bounds each value"
        if call.name in _GROUPED:
            total = "total" if call.name == "sum" else "average"
            own = f"the {total} of {with_article(name_unit(call.source))} in a group"
            hint += f", {_write_call(call, _PER_GROUP, pair)} {own}"
        raise call.refuse(f"{call.name.upper()} {what}", named[-1], hint)
    if not right or bounds != pair or isinstance(tuple_, exp.Array):
        raise call.refuse(
            "the bounds of values are two numbers, the smaller first",
            named[0],
            _write_call(call, name, pair),
        )
    if max(map(abs, bounds)) > 2**53:
        raise call.refuse("a bound is at most 2^53", named[0], *_hint_bound(call, _PER_GROUP))
    return bounds[0], bounds[1]


def _write_call(call: AggregateCall, name: str, pair: Sequence[Fraction]) -> str:
    """Return the text of a call with a pair of bounds."""
    argument = write_argument(split_arguments(call.node)[1][0])
    return f"{call.name.upper()}({argument}, {name} => ({decimal(pair[0])}, {decimal(pair[1])}))"


def _refuse_unbounded(call: AggregateCall) -> Exception:
    """Return the refusal of a call without bounds; it offers bounds of rows where a unit has few."""
    few = call.one_row or call.by_row or bound_rows(call.compiler, call.source) is not None
    return call.refuse(
        f"{call.name.upper()} needs bounds on what one {name_unit(call.source)} contributes",
        call.node,
        *_hint_bound(call, _PER_ROW if few or call.name not in _GROUPED else _PER_GROUP),
    )


def _hint_fewer_rows(call: AggregateCall) -> tuple[str, Fix | None]:
    """Return the hint and the fix that bound the rows of a unit, or else its total or average in a group."""
    if call.name in _GROUPED and not split_arguments(call.node)[0]:
        return _hint_bound(call, _PER_GROUP)
    option = "OPTIONS (max_rows_contributed = 20)"
    return f"{option}, or rows_per_unit in the policy", Fix("20", option="max_rows_contributed", guess="20")


def _hint_bound(call: AggregateCall, bound: str) -> tuple[str, Fix | None]:
    """Return the hint and the fix that give the call of a sum or average a bound, as an example."""
    return write_bound(call, bound, "(0, 100)", "100")


VALUES: dict[str, Callable[[AggregateCall], ValueCall]] = {
    "sum": partial(_compile_value, statistic="sum"),
    "avg": partial(_compile_value, statistic="avg"),
    "mean": partial(_compile_value, statistic="avg"),
    "var_pop": partial(_compile_value, statistic="variance"),
    "var_samp": partial(_compile_value, statistic="variance", sample=True),
    "variance": partial(_compile_value, statistic="variance", sample=True),
    "stddev_pop": partial(_compile_value, statistic="deviation"),
    "stddev_samp": partial(_compile_value, statistic="deviation", sample=True),
    "stddev": partial(_compile_value, statistic="deviation", sample=True),
}
"""The function that compiles a call of each statistic of values."""
RULES: dict[str, Callable[[AggregateCall], UnitNumber]] = {
    "count": compile_count,
    "count_if": compile_count_if,
    "countif": compile_count_if,
    "approx_count_distinct": compile_approx_count_distinct,
}
"""The function that compiles a call of each SQL function."""


def is_call(node: exp.Expr) -> bool:
    """Return whether a node calls a released aggregate, with or without FILTER."""
    name = _read_name(node)
    return name in RULES or name in VALUES or name in QUANTILES


def is_released(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate that is released, or the difference of two counts."""
    node = node.unnest()
    return is_call(node) or (isinstance(node, exp.Sub) and all(map(_is_count, (node.this, node.expression))))


def is_value(node: exp.Expr) -> bool:
    """Return whether a node calls a statistic of values, such as SUM."""
    return _read_name(node.unnest()) in VALUES


def is_quantile(node: exp.Expr) -> bool:
    """Return whether a node calls a quantile or an extreme of values."""
    return _read_name(node.unnest()) in QUANTILES


SORTED_AFTERWARDS = "sorted afterwards"
"""Under this key the metadata of a release block say that its groups are sorted and limited by an average."""

AGGREGATED_AFTERWARDS = "aggregated afterwards"
"""Under this key the metadata of a release block say that SQL over its groups depends on which there are."""


def is_ratio(node: exp.Expr) -> bool:
    """Return whether a node calls what one unit can move by all of its range: an average, a quantile.

    Groups are not chosen by such a number while they are private; released ones are sorted by it.
    """
    name = _read_name(node.unnest())
    return name in AVERAGES | SPREADS or name in QUANTILES


def find_cells(counts: Sequence[ReleasedAggregate]) -> CellRows | None:
    """Return the cells whose rows are counted; None where the numbers are no quantiles."""
    part = counts[0].parts[0] if counts else None
    return part if isinstance(part, CellRows) else None


def _is_count(node: exp.Expr) -> bool:
    node = node.unnest()
    if isinstance(node, exp.Sub):
        return _is_count(node.this) and _is_count(node.expression)
    return _read_name(node) in RULES


def _read_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Filter):
        node = node.this
    if isinstance(node, exp.WithinGroup):
        node = node.this
    return call_name(node)


def compile_released(
    compiler: StatementCompiler, node: exp.Expr, source: From, *, single: bool, one_row: bool
) -> ReleasedAggregate | ValueCall | QuantileCall:
    """Compile a call of an aggregate to the numbers that are released with noise.

    `single` says that each unit has at most one row in a group, `one_row` that it has at most one in all.
    """
    node = node.unnest()
    if isinstance(node, exp.Sub):
        pair = (node.this.unnest(), node.expression.unnest())
        if any(isinstance(side, exp.Sub) for side in pair):
            raise compiler.source.refuse("a difference is of two counts", node, "COUNT(..) - COUNT(..)")
        calls = [_read_call(compiler, side, source, single=single, one_row=one_row) for side in pair]
        return ReleasedAggregate(tuple(RULES[call.name](call) for call in calls))
    call = _read_call(compiler, node, source, single=single, one_row=one_row)
    if call.name in VALUES:
        return VALUES[call.name](call)
    if call.name in QUANTILES:
        return QUANTILES[call.name](call)
    part = RULES[call.name](call)
    argument = part.argument if isinstance(part, FirstNumber) else None
    return ReleasedAggregate((part,), argument, call.measure)


def _read_call(
    compiler: StatementCompiler, node: exp.Expr, source: From, *, single: bool, one_row: bool
) -> AggregateCall:
    conditions = []
    if isinstance(node, exp.Filter):
        check_arguments(compiler.source, node, frozenset({"this", "expression"}))
        conditions.append(compile_condition(compiler, node.expression.this, source.scope).guarded_node)
        node = node.this
    node, within = node.unnest(), None
    if isinstance(node, exp.WithinGroup):
        node, within = _split_within(compiler, node)
    check_arguments(compiler.source, node, frozenset({"this", "expressions"}))
    return AggregateCall(compiler, node, source, single, conditions, one_row, within)


def _split_within(
    compiler: StatementCompiler, node: exp.WithinGroup
) -> tuple[exp.Expr, tuple[exp.Expr, bool]]:
    """Return the call before WITHIN GROUP (ORDER BY x), x, and whether it is descending."""
    check_arguments(compiler.source, node, frozenset({"this", "expression"}))
    terms = list_order_terms(compiler.source, node.expression)
    if len(terms) != 1 or not is_quantile(node.this):
        raise compiler.source.refuse(
            "WITHIN GROUP belongs to a quantile of one expression",
            node.this,
            "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)",
        )
    return node.this, (terms[0].this, bool(terms[0].args.get("desc")))
