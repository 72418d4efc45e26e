"""Quantiles and extremes: the calls that ask for them, and the public cells they are chosen from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import Literal

from sqlglot import exp

from dpsql.analysis.bound_ladders import ROWS as ROWS_OF_UNIT
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import read_number, split_arguments
from dpsql.analysis.conversions import convert_implicitly
from dpsql.analysis.facts_of_values import DAY, bounds_of
from dpsql.analysis.grids import Grid, grid_of, least_step
from dpsql.analysis.released import (
    assume_cut,
    bound_rows,
    is_auto,
    name_unit,
    search_ends,
    search_rows,
    write_argument,
    write_bound,
)
from dpsql.analysis.released.released_numbers import SEARCHED, AggregateCall, UnitNumber
from dpsql.analysis.typed_expression import Bounds, Typed
from dpsql.errors import Fix, InternalError, with_article
from dpsql.kernel.tree import Binary, Call, Case, Cast, Constant, Counted, Expr, IsNull, Paren, kept
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed
from dpsql.types import BIGINT, DATE, DOUBLE, TIMESTAMPTZ, VARCHAR, SqlType

MOST_CELLS = 1 << 16
"""The most cells of a column, without a declared step."""
_SIZES = {"DATE": 1, "TIMESTAMP": 1_000_000}
"""What a number of days, or of seconds, is in the unit of the bounds of a type."""
_WORDS = {"DATE": "day", "TIMESTAMP": "second"}

Extreme = Literal["", "least", "greatest"]
"""Which value of a unit counts in a group: each that is kept, or one alone."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of the values of one type: whole steps between public bounds. Each row is in one cell."""

    type: SqlType
    """The type of the values."""
    grid: Grid
    """The grid of their numbers: of dates the days since 1970, of timestamps the seconds."""

    @classmethod
    def of(cls, sql_type: SqlType, bounds: Bounds) -> Cells:
        """Return the natural steps of a type between bounds, or so many coarser ones as there may be."""
        size = _SIZES.get(sql_type.name, 1)
        kind, low, high = (BIGINT if size > 1 or sql_type == DATE else sql_type), bounds.low, bounds.high
        if sql_type.name in _SIZES:
            low, high = Fraction(low // size), Fraction(high // size)
        if kind != DOUBLE and high // least_step(kind) - low // least_step(kind) < MOST_CELLS:
            step = least_step(kind)
            return cls(sql_type, Grid(kind, step, low // step, -(-high // step)))
        if low == high:
            high += 1
        grid = grid_of(kind, low, high, 1 << 16, degree=1)
        if bounds.step is not None and bounds.step < grid.step:
            grid = grid_of(kind, low, high, 1 << 12, degree=1)
        return cls(sql_type, grid)

    @property
    def number(self) -> int:
        """The number of cells into which the values are counted."""
        return self.grid.width + 1

    def place(self, value: Expr) -> Expr:
        """Return the place of a row's cell, from 0 on, as BIGINT: NULL for NULL and NaN.

        Values beyond the bounds, infinity among them, are in the cells at the ends.
        """
        if self.type.name in _SIZES:
            return self._place_instant(value)
        return Cast(self.grid.write_steps(value, shifted=True), BIGINT)

    def _place_instant(self, value: Expr) -> Expr:
        """Return the place of a date or timestamp, which is cut to the bounds before it is counted."""
        size = int(self.grid.step)
        low, high = (Constant(self.instant(end * size), self.type) for end in (self.grid.low, self.grid.high))
        cut = Call("LEAST", (Call("GREATEST", (value, low)), high))
        place: Expr = Call("date_diff", (Constant(_WORDS[self.type.name], VARCHAR), low, cut))
        if size > 1:
            nearest = Binary("+", place, Constant(size // 2, BIGINT))
            place = Cast(Paren(Binary("//", Paren(nearest), Constant(size, BIGINT))), BIGINT)
        return Case(((IsNull(value, negated=True), place),))

    def instant(self, number: int) -> date | datetime:
        """Return the date, or the timestamp, of a number of days or seconds since 1970."""
        if self.type == DATE:
            return date.fromordinal(min(max(date(1970, 1, 1).toordinal() + number, 1), date.max.toordinal()))
        return datetime(1970, 1, 1) + timedelta(seconds=number)


@dataclass(frozen=True, slots=True, eq=False)
class CellRows(UnitNumber):
    """The rows of each cell; `row` is the place of a row's cell, NULL where the row does not count."""

    cells: Cells
    """The cells of the values."""
    most: int
    """C, how many rows of a unit are kept in all groups together."""
    extreme: Extreme
    """Of which value of a unit one row is kept in each group; then there is no C."""
    single: bool
    """Whether each unit has at most one row: in a group for an extreme, else in all groups together."""

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the rows of a group."""
        return 0, self.most

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which adding a unit can change the numbers of all groups together."""
        return None if self.extreme else self.most

    def build_counted(self, *row: Expr) -> Counted:
        """Raise an error: rows of cells are counted by a query of their own (`counting_query.list_cells`)."""
        raise InternalError("cells are counted by a query of their own")


@dataclass(frozen=True, slots=True)
class Quantile:
    """What a column shows of the cells: a quantile, or an extreme of a group."""

    q: Fraction
    """The share of the rows below it; of extremes 0 or 1."""
    type: SqlType
    """The type of the result."""
    ends: tuple[Fraction, Fraction]
    """The bounds of the values, in the unit of the grid: no result lies beyond."""
    cells: Cells
    """The cells of the values."""
    argument: str = field(default="", compare=False)
    origin: str = field(default="", compare=False)
    """The argument as the statement writes it, and the origin of the bounds, for EXPLAIN."""

    @property
    def cut(self) -> bool:
        """Whether values may lie beyond the ends: the statement, the policy or a search says them."""
        return not self.origin or self.searched or "the declared " in self.origin

    @property
    def searched(self) -> bool:
        """Whether a search finds the bounds, so that `ends` and `cells` are preliminary."""
        return self.origin == SEARCHED


@dataclass(frozen=True, slots=True)
class QuantileCall:
    """A call of a quantile or extreme: the cells that it needs, and what is shown of them."""

    part: CellRows
    quantile: Quantile
    measure: str = ""
    """What of a unit the bound on its rows cuts (`ReleasedAggregate.measure`)."""


def bounds_of_small_type(value: Typed) -> Bounds | None:
    """Return the bounds of a small integer type, which needs no declared ones."""
    if not value.type.integer or value.type.bits > 16:
        return None
    bits = value.type.bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if value.type.signed else (0, (1 << bits) - 1)
    return Bounds(Fraction(low), Fraction(high), f"the type {value.type}")


ROWS = 20
"""The bound on the rows of a unit that a refusal offers: a number that nobody said."""
_BOUND = "contribution_bounds_per_row"
_EXAMPLES = {"DATE": "(DATE '2024-01-01', DATE '2024-12-31')"}
_EXAMPLES["TIMESTAMPTZ"] = "(TIMESTAMPTZ '2024-01-01 00:00:00+00', TIMESTAMPTZ '2024-12-31 23:59:59+00')"
_EXAMPLES["TIMESTAMP"] = "(TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-12-31 23:59:59')"

Share = Literal["half", "given", "list"]


def _compile_quantile(call: AggregateCall, *, share: Share, between: bool) -> QuantileCall:
    """Compile a quantile; `between` says that it may lie between two values, so of integers it is DOUBLE."""
    named, arguments = split_arguments(call.node)
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
    q = Fraction(1, 2) if share == "half" else _read_share(call, arguments[-1])
    typed = make_canonical(call.expression(value))
    made = _bound_call(call, typed, named, 1 - q if descending else q, "", write_argument(value))
    result = DOUBLE if typed.type.numeric and between else made.quantile.type
    return replace(made, quantile=replace(made.quantile, type=result))


def _compile_extreme(call: AggregateCall, *, extreme: Extreme) -> QuantileCall:
    named, arguments = split_arguments(call.node)
    if not call.compiler.policy.defaults.extremes:
        raise call.refuse(
            f"the policy does not release {call.name.upper()}",
            call.node,
            f"PERCENTILE_CONT(x, {'0.99' if extreme == 'greatest' else '0.01'})",
        )
    if len(arguments) != 1 or isinstance(arguments[0], (exp.Star, exp.Distinct)):
        raise call.refuse(f"{call.name.upper()} takes one expression", call.node)
    typed = make_canonical(call.expression(arguments[0]))
    return _bound_call(
        call, typed, named, Fraction(extreme == "greatest"), extreme, write_argument(arguments[0])
    )


def _read_share(call: AggregateCall, node: exp.Expr) -> Fraction:
    """Return the share of rows below the quantile: a literal between 0 and 1."""
    if isinstance(node, (exp.Array, exp.Bracket)):
        raise call.refuse(
            "a release has one number in a column, not a list",
            node,
            f"{call.name.upper()}(x, 0.25) AS q1, {call.name.upper()}(x, 0.75) AS q3",
        )
    q = read_number(node)
    if q is None or not 0 <= q <= 1 or q.denominator > 10**4:
        raise call.refuse(
            "the share of rows below a quantile is a number from 0 to 1 with at most 4 digits", node, "0.5"
        )
    return q


def _bound_call(
    call: AggregateCall, value: Typed, named: list[exp.Expr], q: Fraction, extreme: Extreme, argument: str
) -> QuantileCall:
    name, kind = call.name.upper(), value.type
    if not kind.numeric and kind.name not in _EXAMPLES:
        raise call.refuse(
            f"{name} of {kind} over many units is not released: it is what one {name_unit(call.source)} has",
            call.node,
        )
    if value.unit.names_units:
        raise call.refuse(f"{name} of the privacy unit over many units is not released", call.node)
    may_search = kind.numeric and call.compiler.policy.defaults.auto_bounds
    bounds = None
    if not (named and may_search and is_auto(named)):
        bounds = _read_bounds(call, named, kind) if named else bounds_of(value) or bounds_of_small_type(value)
    search = bounds is None and may_search
    if search:
        bounds = Bounds(*search_ends(call, value), origin=SEARCHED)
    if bounds is None:
        raise call.refuse(
            f"{name} needs bounds on the values: they are public, and the answer lies between them",
            call.node,
            *_hint_bounds(call, kind),
        )
    assume_cut(call, argument, kind, bounds)
    if extreme:
        single, most = call.single or call.by_row, 1
    else:
        single = call.one_row or call.by_row
        most = 1 if single else _bound_rows(call, search=search)
    cells = Cells.of(kind.held, bounds)
    if kind.integer and cells.grid.step > 1 and not search:
        told = f"{name} is to the nearest {cells.grid.step}: narrower bounds of {argument} have finer steps"
        call.compiler.assume(Assumed(told))
    place = cells.place(value.guarded_node)
    conditions = call.condition()
    row = kept(place, conditions)
    size = 1_000_000 if kind.moment else 1
    ends = bounds.low / size, bounds.high / size
    quantile = Quantile(q, BIGINT if kind.integer else kind, ends, cells, argument, bounds.origin)
    return QuantileCall(CellRows((row,), cells, most, extreme, single), quantile, call.measure)


def _bound_rows(call: AggregateCall, *, search: bool) -> int:
    """Return how many rows of a unit are kept: as a ladder or somebody says, or as is found privately."""
    kept = None if call.whole is None else call.whole.average_bound()
    if kept is not None:
        call.measure = ROWS_OF_UNIT
        return call.compiler.max_rows or kept
    most = bound_rows(call.compiler, call.source, beyond="left out, chosen by a hash")
    if search or (most is None and call.compiler.policy.defaults.auto_bounds):
        return search_rows(call, most)
    if most is None:
        raise call.refuse(
            f"{with_article(name_unit(call.source))} can have many rows here: say how many may count",
            call.node,
            f"OPTIONS (max_rows_contributed = {ROWS})",
            Fix(str(ROWS), option="max_rows_contributed", guess=str(ROWS)),
        )
    return most


def _read_bounds(call: AggregateCall, named: list[exp.Expr], kind: SqlType) -> Bounds:
    """Return the two bounds that a call writes."""
    pair = named[0].expression
    values = pair.expressions if isinstance(pair, exp.Tuple) else []
    ends = [end for v in values if (end := _read_end(call, v, kind)) is not None]
    if len(named) > 1 or named[0].name.lower() != _BOUND or not len(values) == len(ends) == 2:
        what = "numbers" if kind.numeric else "dates"
        raise call.refuse(f"the bounds of values are two {what}", named[0], *_hint_bounds(call, kind))
    if ends[0] >= ends[1]:
        raise call.refuse("of two bounds, the smaller is first", named[0], *_hint_bounds(call, kind))
    if kind.numeric and max(map(abs, ends)) > 2**53:
        raise call.refuse("a bound is at most 2^53", named[0], *_hint_bounds(call, kind))
    return Bounds(ends[0], ends[1])


def _read_end(call: AggregateCall, node: exp.Expr, kind: SqlType) -> Fraction | None:
    """Return a bound as a number: of dates the days since 1970, of timestamps the microseconds."""
    if kind.numeric:
        return read_number(node)
    value = call.compiler.expression(node, Scope(call.compiler.source))
    if kind == TIMESTAMPTZ:
        value = convert_implicitly(call.compiler.catalog, value, kind) or value
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


def _hint_bounds(call: AggregateCall, kind: SqlType) -> tuple[str, Fix | None]:
    """Return the hint and the fix that give a quantile's call bounds of its values, as an example."""
    example = _EXAMPLES.get(kind.name, "(0, 100)")
    return write_bound(call, _BOUND, example, "100" if kind.numeric else example)


QUANTILES: dict[str, Callable[[AggregateCall], QuantileCall]] = {
    "median": partial(_compile_quantile, share="half", between=True),
    **dict.fromkeys(
        ("percentile_cont", "quantile_cont"), partial(_compile_quantile, share="given", between=True)
    ),
    **dict.fromkeys(
        ("percentile_disc", "quantile_disc", "quantile", "approx_quantile"),
        partial(_compile_quantile, share="given", between=False),
    ),
    "approx_quantiles": partial(_compile_quantile, share="list", between=False),
    "min": partial(_compile_extreme, extreme="least"),
    "max": partial(_compile_extreme, extreme="greatest"),
}
"""The function that compiles a call of each quantile and extreme."""
