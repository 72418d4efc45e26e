"""Sums, averages and variances of values: what a call asks for, and the numbers that are released for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from fractions import Fraction

from dpsql.analysis.grids import capped_grid, grid_of, least_step, parts_of_step
from dpsql.analysis.released.quantiles import Quantile, QuantileCall
from dpsql.analysis.released.released_numbers import (
    CallArgument,
    CappedSum,
    GroupSum,
    Moment,
    ReleasedAggregate,
    RowSum,
    UnitMean,
    UnitNumber,
    Vector,
)
from dpsql.analysis.released.unit_counts import SingleRows, WeightedRows
from dpsql.analysis.total_forms import widen_integer
from dpsql.analysis.typed_expression import Typed
from dpsql.estimates import Average, Deviation, Formula, RowCount, SumOfRows, Variance
from dpsql.kernel.tree import Expr, IsNull, Paren, conjunction, kept
from dpsql.lazy_dataclass import dataclass
from dpsql.types import DOUBLE

DEGREES = {"sum": 1, "avg": 1, "variance": 2, "deviation": 2}
"""The degree of the moments that each statistic needs."""


@dataclass(frozen=True, slots=True)
class ValueCall:
    """A call of SUM, AVG, VARIANCE or STDDEV, with the bounds on what one unit contributes."""

    statistic: str
    """A key of `DEGREES`."""
    value: Typed
    """The argument."""
    condition: tuple[Expr, ...]
    """The condition on the rows, if there is one."""
    low: Fraction
    high: Fraction
    """The bounds: of each row's value, or (`per_group`) of a unit's total, or average, in a group."""
    per_group: bool
    most: int
    """C, how many rows of a unit count in all groups together; without meaning `per_group`."""
    single: bool
    """Whether each unit has at most one row: in a group (`per_group`), else in all groups together."""
    sample: bool = False
    """Whether a variance is that of a sample."""
    capped: int | None = None
    """B, the bound on the sum of a unit's absolute totals, in least steps, for a SUM that has no other."""
    finest: int = 40
    """The power of two of the largest such bound in least steps; beyond it, steps are coarser."""
    measure: str = field(default="", compare=False)
    """What of a unit the bound cuts, if all rows of a table are aggregated (`ReleasedAggregate.measure`)."""
    signed: bool = field(default=False, compare=False)
    """Whether what it cuts may be of either sign."""
    argument: str = field(default="", compare=False)
    """The argument as the statement writes it, for EXPLAIN."""
    origin: str = field(default="", compare=False)
    """The origin of the bounds, in words; "" if the statement says them."""
    cut: bool = field(default=False, compare=False)
    """Whether values may lie beyond the bounds, as in `CallArgument`."""
    source_column: str = field(default="", compare=False)
    """The column whose values they are, of a table all rows of which are aggregated; else ""."""
    largest: Fraction | None = field(default=None, compare=False)
    """The largest absolute value of a row that the policy names, where a unit's totals are bounded."""
    largest_in: tuple[int, tuple[object, ...]] | None = field(default=None, compare=False)
    """Which groups have the largest values, as in `CallArgument`."""

    @property
    def column(self) -> ValueCall:
        """The call without its statistic: equal for calls whose numbers come from the same moments."""
        return replace(self, statistic="", sample=False)

    def keep_value(self, value: Expr) -> Expr:
        """Return the value of a row that meets the condition, else NULL."""
        return kept(value, self.condition)

    @property
    def call_argument(self) -> CallArgument:
        """The argument of the call and how it is cut, for EXPLAIN."""
        return CallArgument(
            self.argument,
            self.low,
            self.high,
            self.origin,
            self.per_group,
            self.largest,
            self.cut,
            self.source_column,
            self.largest_in,
        )

    @property
    def formula(self) -> Formula:
        """How the statistic follows from sums of powers of the values."""
        match self.statistic:
            case "sum":
                return SumOfRows(self.low, self.high)
            case "avg":
                return Average(self.low, self.high)
            case "variance":
                return Variance(self.low, self.high, self.sample)
        return Deviation(self.low, self.high, self.sample)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of the select list: one released number, a formula over several, or a quantile of cells."""

    counts: tuple[ReleasedAggregate, ...]
    formula: Formula | None = None
    quantile: Quantile | None = None


Calls = Sequence[ReleasedAggregate | ValueCall | QuantileCall]


def choose_measures(calls: Calls, ordering: int | None, *, keyed: bool) -> list[Measure]:
    """Return what is released for each call; `ordering` is the place of the one that orders groups.

    Where there are keys (`keyed`), rows are weighted one by one, so their sums are in parts of steps.

    Calls with the same argument, condition and bounds share the moments of the largest degree among them, and
    counts of the same rows are sums of these moments. A sum alone, or one that orders, is released as itself.
    """
    vectors = _choose_vectors(calls, ordering, keyed=keyed)
    made = []
    for place, call in enumerate(calls):
        if isinstance(call, ReleasedAggregate):
            counted = None if place == ordering else _read_from_moments(call, vectors)
            made.append(counted or Measure((call,)))
        elif isinstance(call, QuantileCall):
            cells = ReleasedAggregate((call.part,), measure=call.measure)
            made.append(Measure((cells,), quantile=call.quantile))
        elif call.per_group:
            made.append(_sum_per_group(call))
        elif call.capped is not None:
            made.append(Measure((_cap_totals(call, call.capped),)))
        elif vectors and call.column in vectors and place != ordering:
            vector = vectors[call.column]
            found = _make_moments(vector, vector.degree + 1, call)
            made.append(Measure(found, _put_on_grid(call.formula, vector)))
        else:
            made.append(Measure((_sum_rows(call, keyed=keyed),)))
    return made


def _choose_vectors(calls: Calls, ordering: int | None, *, keyed: bool) -> dict[ValueCall, Vector]:
    """Return the moments that calls share, by their column; none for a column of which only SUM is asked."""
    rows = {
        _drop_bound(c.parts[0])
        for i, c in enumerate(calls)
        if isinstance(c, ReleasedAggregate) and i != ordering
    }
    asked: dict[ValueCall, list[ValueCall]] = {}
    values = [c for c in calls if isinstance(c, ValueCall) and not c.per_group and c.capped is None]
    if not rows and all(call.statistic == "sum" for call in values):
        return {}
    for call in values:
        asked.setdefault(call.column, []).append(call)
    found: dict[ValueCall, Vector] = {}
    for column, own in asked.items():
        counted = [_drop_bound(part) for part in _make_row_counts(own[0])]
        if all(c.statistic == "sum" for c in own) and not {*counted} & rows:
            continue
        degree = max(DEGREES[c.statistic] for c in own)
        made = _make_vector(own[0], degree, _find_condition(own[0], rows))
        found[column] = made if made.single else replace(made, fine=parts_of_step(made.most * made.whole))
    return found


def _find_condition(call: ValueCall, rows: Collection[UnitNumber]) -> tuple[Expr, ...] | None:
    """Return the condition on the rows of which those without a number are counted by a further moment.

    They are all rows, if their count is asked for; or those with a value, since NaN is a value that COUNT
    counts, and that no sum or average has. None: there is no such moment.
    """
    every, valued = _make_row_counts(call)
    if _drop_bound(every) in rows:
        return every.row
    return valued.row if call.value.type == DOUBLE and _drop_bound(valued) in rows else None


def _make_vector(call: ValueCall, degree: int, counted: tuple[Expr, ...] | None) -> Vector:
    grid = grid_of(call.value.type, call.low, call.high, call.most, degree=degree)
    value = grid.write_steps(call.value.guarded_node, shifted=True)
    row = (call.keep_value(value), *(counted or ()))
    return Vector(row, grid, 0, call.most, degree, counted is not None, call.single)


def _make_row_counts(call: ValueCall) -> tuple[UnitNumber, UnitNumber]:
    """Return the counts that moments of a call contain: of all its rows, and of those with a value."""
    there = Paren(IsNull(widen_integer(call.value).guarded_node, negated=True))
    both = conjunction([*call.condition, there])
    rows = (call.condition, () if both is None else (both,))
    if call.single:
        return SingleRows(rows[0]), SingleRows(rows[1])
    return WeightedRows(rows[0], call.most), WeightedRows(rows[1], call.most)


def _drop_bound(part: UnitNumber) -> UnitNumber:
    """Return what is counted, whatever the bound on the rows of a unit."""
    return replace(part, most=1) if isinstance(part, WeightedRows) else part


def _take_bound(part: UnitNumber, count: ReleasedAggregate) -> UnitNumber:
    """Return a part with the bound of a count on the rows of a unit: moments may have a lower one."""
    other = count.parts[0]
    if isinstance(part, WeightedRows) and isinstance(other, WeightedRows):
        return replace(part, most=other.most)
    return part


def _read_from_moments(count: ReleasedAggregate, vectors: dict[ValueCall, Vector]) -> Measure | None:
    """Return a count of rows as a sum of moments; None if no moments contain it.

    A count of a whole table has a bound of its own, which is larger than that of an average.
    """
    for call, vector in () if count.measure else vectors.items():
        every, valued = _make_row_counts(call)
        if call.value.type != DOUBLE and count.parts == (_take_bound(valued, count),):
            return Measure(_make_moments(vector, vector.degree + 1, call), RowCount(vector.degree + 1))
        for counted in (every, valued) if vector.nulls else ():
            if vector.row[1:] == counted.row and count.parts == (_take_bound(counted, count),):
                return Measure(_make_moments(vector, vector.size, call), RowCount(vector.size))
    return None


def _make_moments(vector: Vector, size: int, call: ValueCall) -> tuple[ReleasedAggregate, ...]:
    moments = (Moment(vector.row, vector, place) for place in range(size))
    return tuple(ReleasedAggregate((moment,), call.call_argument, call.measure) for moment in moments)


def _put_on_grid(formula: Formula, vector: Vector) -> Formula:
    """Return a formula with the bounds as they are on the grid."""
    if isinstance(formula, RowCount):
        return formula
    step, grid = vector.grid.step, vector.grid
    return replace(formula, low=grid.low * step, high=max(grid.high, grid.low + 1) * step)


def _sum_rows(call: ValueCall, *, keyed: bool) -> ReleasedAggregate:
    """Return a sum over rows as one number."""
    grid = grid_of(call.value.type, call.low, call.high, call.most)
    value = grid.write_steps(call.value.guarded_node, shifted=False)
    total = RowSum((call.keep_value(value),), grid, 0, call.single, call.most)
    if keyed and not call.single:
        total = replace(total, fine=parts_of_step(call.most * max(-grid.low, grid.high)))
    return ReleasedAggregate((total,), call.call_argument, call.measure)


def _cap_totals(call: ValueCall, most: int) -> ReleasedAggregate:
    """Return a sum of which each unit's totals have a bound in all groups together."""
    signed = call.low < 0
    grid, most = capped_grid(call.value.type, most, signed=signed, finest=call.finest)
    value, scale = grid.write_uncut(call.value.guarded_node, signed=signed)
    total = CappedSum((call.keep_value(value),), grid, scale, call.single, most)
    return ReleasedAggregate((total,), call.call_argument, call.measure, signed=call.signed)


def find_value_step(count: ReleasedAggregate) -> Fraction:
    """Return the number of which the exact values of a sum are multiples; 0 if there is none.

    The grid of a sum whose bound is still to be found is as coarse as the largest bound needs.
    """
    (part, *others) = count.parts
    if others or not isinstance(part, CappedSum):
        return count.step
    return Fraction(0) if part.grid.type == DOUBLE else least_step(part.grid.type)


def _sum_per_group(call: ValueCall) -> Measure:
    grid = grid_of(call.value.type, call.low, call.high, 1, degree=0 if call.statistic == "sum" else 1)
    value, scale = grid.write_uncut(call.value.guarded_node)
    if call.statistic == "sum":
        total = GroupSum((call.keep_value(value),), grid, scale, call.single)
        return Measure((ReleasedAggregate((total,), call.call_argument),))
    if not grid.fine:
        value, scale = grid.write_steps(call.value.guarded_node, shifted=False), 0
    vector = Vector((call.keep_value(value),), grid, scale, 1, 1, False, call.single)
    means = (UnitMean(vector.row, vector, place) for place in range(2))
    made = tuple(ReleasedAggregate((mean,), call.call_argument) for mean in means)
    return Measure(made, _put_on_grid(call.formula, vector))
