"""Compile calls of MEDIAN, PERCENTILE_CONT, QUANTILE, MIN and MAX, with bounds as written or as declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Literal

from sqlglot import exp

from dpsql.analysis.bounds import rows_per_unit, unit_name
from dpsql.analysis.coerce import to_type
from dpsql.analysis.expressions import canonical
from dpsql.analysis.intervals import DAY, bounds_of
from dpsql.analysis.kept_bounds import ROWS as ROWS_OF_UNIT
from dpsql.analysis.parsed import call_arguments, number
from dpsql.analysis.relation import Scope
from dpsql.analysis.released.aggregate import SEARCHED, AggregateCall
from dpsql.analysis.released.arguments import argument_text, assume_cut, with_bounds
from dpsql.analysis.released.auto import is_auto, searched_ends, searched_rows
from dpsql.analysis.released.cells import CellRows, Cells, Extreme, Quantile, QuantileCall, small_bounds
from dpsql.analysis.typed import Bounds, Typed, UnitRole
from dpsql.errors import Fix
from dpsql.kernel.tree import kept
from dpsql.types import BIGINT, DOUBLE, TIMESTAMPTZ, SqlType

ROWS = 20
"""The bound on the rows of a unit that a refusal offers: a number that nobody said."""
_BOUND = "contribution_bounds_per_row"
_EXAMPLES = {"DATE": "(DATE '2024-01-01', DATE '2024-12-31')"}
_EXAMPLES["TIMESTAMPTZ"] = "(TIMESTAMPTZ '2024-01-01 00:00:00+00', TIMESTAMPTZ '2024-12-31 23:59:59+00')"
_EXAMPLES["TIMESTAMP"] = "(TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-12-31 23:59:59')"

Share = Literal["half", "given", "list"]


def _quantile(call: AggregateCall, *, share: Share, between: bool) -> QuantileCall:
    """Compile a quantile; `between` says that it may lie between two values, so of integers it is DOUBLE."""
    named, arguments = call_arguments(call.node)
    name, within = call.name.upper(), call.within
    if share == "list":
        raise call.refuse(
            f"{name} makes a list, and a release has one number in a column",
            call.node,
            "QUANTILE_CONT(x, 0.25) AS q1, QUANTILE_CONT(x, 0.5) AS q2, QUANTILE_CONT(x, 0.75) AS q3",
        )
    wanted = (share == "given") + (within is None)
    if len(arguments) != wanted or any(isinstance(a, (exp.Star, exp.Distinct)) for a in arguments):
        form = f"{name}(x)" if share == "half" else f"{name}(x, 0.5)"
        raise call.refuse(f"{name} has other arguments: it is written {form}", call.node, form)
    value, descending = (arguments[0], False) if within is None else within
    q = Fraction(1, 2) if share == "half" else _share(call, arguments[-1])
    typed = canonical(call.expression(value))
    made = _call(call, typed, named, 1 - q if descending else q, "", argument_text(value))
    result = DOUBLE if typed.type.numeric and between else made.quantile.type
    return replace(made, quantile=replace(made.quantile, type=result))


def _extreme(call: AggregateCall, *, extreme: Extreme) -> QuantileCall:
    named, arguments = call_arguments(call.node)
    if not call.compiler.policy.defaults.extremes:
        raise call.refuse(
            f"the policy does not release {call.name.upper()}",
            call.node,
            f"PERCENTILE_CONT(x, {'0.99' if extreme == 'greatest' else '0.01'})",
        )
    if len(arguments) != 1 or isinstance(arguments[0], (exp.Star, exp.Distinct)):
        raise call.refuse(f"{call.name.upper()} takes one expression", call.node)
    typed = canonical(call.expression(arguments[0]))
    return _call(call, typed, named, Fraction(extreme == "greatest"), extreme, argument_text(arguments[0]))


def _share(call: AggregateCall, node: exp.Expr) -> Fraction:
    """Return the share of rows below the quantile: a literal between 0 and 1."""
    if isinstance(node, (exp.Array, exp.Bracket)):
        raise call.refuse(
            "a release has one number in a column, not a list",
            node,
            f"{call.name.upper()}(x, 0.25) AS q1, {call.name.upper()}(x, 0.75) AS q3",
        )
    q = number(node)
    if q is None or not 0 <= q <= 1 or q.denominator > 10**4:
        raise call.refuse(
            "the share of rows below a quantile is a number from 0 to 1 with at most 4 digits", node, "0.5"
        )
    return q


def _call(
    call: AggregateCall, value: Typed, named: list[exp.Expr], q: Fraction, extreme: Extreme, argument: str
) -> QuantileCall:
    name, kind = call.name.upper(), value.type
    if not kind.numeric and kind.name not in _EXAMPLES:
        raise call.refuse(
            f"{name} of {kind} over many units is not released: it is what one {unit_name(call.source)} has",
            call.node,
        )
    if value.unit is not UnitRole.NONE:
        raise call.refuse(f"{name} of the privacy unit over many units is not released", call.node)
    may_search = kind.numeric and call.compiler.policy.defaults.auto_bounds
    bounds = None
    if not (named and may_search and is_auto(named)):
        bounds = _written(call, named, kind) if named else bounds_of(value) or small_bounds(value)
    search = bounds is None and may_search
    if search:
        bounds = Bounds(*searched_ends(call, value), origin=SEARCHED)
    if bounds is None:
        raise call.refuse(
            f"{name} needs bounds on the values: they are public, and the answer lies between them",
            call.node,
            *_bounded(call, kind),
        )
    assume_cut(call, argument, kind, bounds)
    if extreme:
        single, most = call.single or call.by_row, 1
    else:
        single = call.one_row or call.by_row
        most = 1 if single else _rows(call, search=search)
    cells = Cells.of(kind.held, bounds)
    place = cells.place(value.guarded_node)
    conditions = call.condition()
    row = kept(place, conditions)
    size = 1_000_000 if kind.moment else 1
    ends = bounds.low / size, bounds.high / size
    quantile = Quantile(q, BIGINT if kind.integer else kind, ends, cells, argument, bounds.origin)
    return QuantileCall(CellRows((row,), cells, most, extreme, single), quantile, call.measure)


def _rows(call: AggregateCall, *, search: bool) -> int:
    """Return how many rows of a unit are kept: as a ladder or somebody says, or as is found privately."""
    kept = None if call.whole is None else call.whole.average_bound()
    if kept is not None:
        call.measure = ROWS_OF_UNIT
        return call.compiler.max_rows or kept
    most = rows_per_unit(call.compiler, call.source, beyond="left out, chosen by a hash")
    if search or (most is None and call.compiler.policy.defaults.auto_bounds):
        return searched_rows(call, most)
    if most is None:
        raise call.refuse(
            f"a {unit_name(call.source)} can have many rows here: say how many may count",
            call.node,
            f"OPTIONS (max_rows_contributed = {ROWS})",
            Fix(str(ROWS), option="max_rows_contributed", guess=str(ROWS)),
        )
    return most


def _written(call: AggregateCall, named: list[exp.Expr], kind: SqlType) -> Bounds:
    """Return the two bounds that a call writes."""
    pair = named[0].expression
    values = pair.expressions if isinstance(pair, exp.Tuple) else []
    ends = [end for v in values if (end := _end(call, v, kind)) is not None]
    if len(named) > 1 or named[0].name.lower() != _BOUND or not len(values) == len(ends) == 2:
        what = "numbers" if kind.numeric else "dates"
        raise call.refuse(f"the bounds of values are two {what}", named[0], *_bounded(call, kind))
    if ends[0] >= ends[1]:
        raise call.refuse("of two bounds, the smaller is first", named[0], *_bounded(call, kind))
    if kind.numeric and max(map(abs, ends)) > 2**53:
        raise call.refuse("a bound is at most 2^53", named[0], *_bounded(call, kind))
    return Bounds(ends[0], ends[1])


def _end(call: AggregateCall, node: exp.Expr, kind: SqlType) -> Fraction | None:
    """Return a bound as a number: of dates the days since 1970, of timestamps the microseconds."""
    if kind.numeric:
        return number(node)
    value = call.compiler.expression(node, Scope(call.compiler.source))
    if kind == TIMESTAMPTZ:
        value = to_type(call.compiler.catalog, value, kind) or value
    if value.type.moment and value.type != kind:
        return None
    text = f"CAST(CAST({value.sql} AS {kind.held}) AS TIMESTAMP)"
    try:
        found = call.compiler.catalog.evaluate(f"epoch_us({text})")
    except ValueError:
        return None
    if not isinstance(found, int):
        return None
    return Fraction(found // DAY if kind.name == "DATE" else found)


def _bounded(call: AggregateCall, kind: SqlType) -> tuple[str, Fix | None]:
    """Return the hint and the fix that give a quantile's call bounds of its values, as an example."""
    example = _EXAMPLES.get(kind.name, "(0, 100)")
    return with_bounds(call, _BOUND, example, "100" if kind.numeric else example)


QUANTILES: dict[str, Callable[[AggregateCall], QuantileCall]] = {
    "median": partial(_quantile, share="half", between=True),
    **dict.fromkeys(("percentile_cont", "quantile_cont"), partial(_quantile, share="given", between=True)),
    **dict.fromkeys(
        ("percentile_disc", "quantile_disc", "quantile", "approx_quantile"),
        partial(_quantile, share="given", between=False),
    ),
    "approx_quantiles": partial(_quantile, share="list", between=False),
    "min": partial(_extreme, extreme="least"),
    "max": partial(_extreme, extreme="greatest"),
}
"""The function that compiles a call of each quantile and extreme."""
