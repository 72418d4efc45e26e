"""Build the tables of a result: the selected columns, and the details released with them.

Beside the columns stand what numbers are made of, the bound of a number with an estimate of what it left
out, and the rows in no group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from dpsql.analysis import bound_on_rows, place_columns
from dpsql.analysis.cut_contributions import bound_worth
from dpsql.analysis.released.unit_counts import BoundedRows, SingleRows, Units, WeightedRows
from dpsql.estimates import Average, Deviation, RowCount, SumOfRows, Variance
from dpsql.estimates.noise_laws import Linear
from dpsql.estimates.number_noises import Noises, NumberNoise
from dpsql.kernel.public_order import ranks
from dpsql.planning import plan_requests
from dpsql.render.readable import BELOW, LEFT_OUT, Outside, slot
from dpsql.types import TIMESTAMPTZ

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from dpsql.analysis import Output, Plan, Quantile, ReleasedAggregate
    from dpsql.estimates import Combined
    from dpsql.places import Places
    from dpsql.planning.method import NoisyResult
    from dpsql.types import SqlType

_OF_ROWS = (Average, Variance, Deviation)
"""Numbers that have no part left out, but are moved by what is left out."""


def estimate_left_out(
    plan: Plan,
    output: Output,
    noisy: NDArray[np.float64],
    shown: NDArray[np.float64],
    excess: Mapping[int, float],
) -> NDArray[np.float64] | None:
    """Return an estimate of the amount that a bound left out of a number; None where that is not known.

    `noisy` are the values as they were measured, `shown` those with what was given back; `excess` has what
    was measured beside them. In groups it is as large a part of it as they are of all.
    """
    if isinstance(output.formula, _OF_ROWS):
        return None
    place = output.uses[0] if output.formula is not None else output.of
    if place in excess:
        parts = np.maximum(noisy, 0)
        whole = float(parts.sum())
        worth = float(max(getattr(output.formula, "high", 1), 0))
        return parts * (excess[place] * worth / whole) if whole > 0 else None
    left = plan.left_out[output.uses[0] if output.formula is not None else output.of]
    if left is None or not left.kept.current or left.signed:
        return None
    if plan.key_types:  # it was given back to the groups by their shares
        moved = shown - noisy
        return moved if moved.any() else None
    worth = float(max(getattr(output.formula, "high", left.highest), 0))
    return np.full(len(shown), left.kept.ladder.cut(left.bound) * worth)


def bound_of(plan: Plan, output: Output) -> float | None:
    """Return the bound on what a unit counts with, in the unit of the measure; None if there is none."""
    place = output.uses[0] if output.formula is not None else output.of
    left = plan.left_out[place]
    if left is not None:
        return left.bound * float(left.kept.ladder.step)
    count = plan.counts[place]
    rows = bound_on_rows(count)
    if rows is not None:
        return float(rows)
    return None if count.l1_over_groups is None else float(count.l1_over_groups * count.step)


_INSTANT = pa.timestamp("us", "UTC")


class KnowsKeys(Protocol):
    """What has the keys of released groups: a run, or the public groups of an estimate."""

    def keys(self, rows: Any, /, places: Sequence[int] | None = None) -> Sequence[pa.Array]:  # noqa: ANN401  of its own
        """Return the keys of all groups, or of some by their places."""


def build_rows(plan: Plan, answer: NoisyResult, run: KnowsKeys) -> pa.Table:
    """Build the columns of the select list, in order."""
    shown = list(dict.fromkeys(output.of for output in plan.outputs if output.kind == "key"))
    keys = dict(zip(shown, run.keys(answer.rows, shown) if shown else (), strict=True))
    columns = [_build_column(plan, output, answer, keys) for output in plan.outputs]
    return pa.Table.from_arrays(columns, names=[o.name for o in plan.outputs])


def build_details(plan: Plan, answer: NoisyResult, shown: pa.Table) -> tuple[pa.Table, Places]:
    """Add the details that cost nothing: gap, p-value, standard deviation and interval of each count.

    Returned beside the table are the places of its columns.
    """
    outputs = plan.outputs
    free: dict[str, NDArray[np.float64]] = {}
    if answer.gap is not None:
        free["gap"] = _gap(plan, answer.gap)
    if answer.p_value is not None:
        free["p_value"] = answer.p_value
    names, places = place_columns(outputs, free, getattr(plan.selection, "count", None))
    columns: dict[int, pa.Array] = dict(enumerate(shown.columns))

    def add(place: int | None, values: NDArray[np.float64]) -> None:
        if place is not None and place not in columns:
            columns[place] = to_doubles(values)

    for kind, values in free.items():
        add(getattr(places, kind), values)
    for number in places.numbers:
        for place, values in zip(
            number.details, estimate(plan, answer, outputs[number.place])[1:], strict=True
        ):
            add(place, values)
    return pa.Table.from_arrays([columns[place] for place in range(len(names))], names=names), places


def ends_at_once(plan: Plan, answer: NoisyResult, places: Places) -> pa.Table | None:
    """Return the ends of intervals that hold for all numbers at once.

    They are named by the places of the intervals in the table of `build_details`. None: there are none.
    """
    columns: dict[int, NDArray[np.float64]] = {}
    numbers = {number.place: (number.low, number.high) for number in places.numbers}
    for place, output in enumerate(plan.outputs):
        if output.kind not in ("count", "low", "high"):
            continue
        ends = estimates_of_output(plan, answer, output).together
        if ends is None:
            return None
        own = numbers.get(place, tuple(place if output.kind == end else None for end in ("low", "high")))
        columns |= {to: values for to, values in zip(own, ends, strict=True) if to is not None}
    arrays = [to_doubles(values) for values in columns.values()]
    return pa.Table.from_arrays(arrays, names=[str(place) for place in columns]) if columns else None


# `pa.array` imports pandas where it is installed, and `take` the whole of pyarrow.compute: many times the
# work of an answer.


def to_doubles(values: NDArray[np.float64]) -> pa.Array:
    """Convert an array to a column, with NULL for NaN and 0 for -0."""
    values = values + 0.0
    there = ~np.isnan(values)
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values, dtype=np.float64))
    return pa.Array.from_buffers(pa.float64(), len(values), [bits, data])


def values_of_cells(quantile: Quantile, cells: NDArray[np.int64]) -> pa.Array:
    """Return the values of chosen cells, within the bounds and in the type of the result."""
    grid, (low, high) = quantile.cells.grid, quantile.ends
    chosen, place = np.unique(cells, return_inverse=True)
    values = [min(max((grid.low + cell) * grid.step, low), high) for cell in chosen.tolist()]
    if quantile.type.name == "DOUBLE":
        return to_doubles(np.array([float(v) for v in values])[place])
    size = {"TIMESTAMP": 1_000_000, "DECIMAL": 10**quantile.type.scale}.get(quantile.type.held.name, 1)
    whole = np.array([math.floor(v * size + Fraction(1, 2)) for v in values], dtype=np.int64)[place]
    return _to_type(quantile.type, whole)


def _to_type(sql_type: SqlType, numbers: NDArray[np.int64]) -> pa.Array:
    """Convert whole numbers in the least unit of a type to a column of the type."""
    match sql_type.name:
        case "DATE":
            kind, data = pa.date32(), numbers.astype(np.int32).tobytes()
        case "TIMESTAMP" | "TIMESTAMPTZ":
            zone = "UTC" if sql_type.name == "TIMESTAMPTZ" else None
            kind, data = pa.timestamp("us", zone), numbers.tobytes()
        case "DECIMAL":  # 128 bits: the number, and its sign
            kind = pa.decimal128(sql_type.precision, sql_type.scale)
            data = np.stack([numbers, numbers >> 63], axis=1).tobytes()
        case _:
            return _to_integers(numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(data)])


def _to_integers(values: NDArray[np.int64]) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(values, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [None, data])


def estimate(plan: Plan, answer: NoisyResult, output: Output) -> tuple[NDArray[np.float64], ...]:
    """Return value, standard deviation, low and high of a number."""
    found = estimates_of_output(plan, answer, output)
    return found.value, found.stddev, found.low, found.high


def estimates_of_output(plan: Plan, answer: NoisyResult, output: Output) -> Combined:
    """Return the estimates of a number, in its unit; equal counts share one measurement."""
    if output.formula is not None:
        return answer.values[output.uses, output.formula]
    count = plan.counts[output.of]
    found, step = _estimates_at(plan, answer, output.of), float(count.step)
    declared = declared_values(count)
    if declared is not None:  # the truth is there, too, so the interval covers as often
        found = found.within(0, declared)
    return found if step == 1 else found.scale(step)


def declared_values(count: ReleasedAggregate) -> int | None:
    """Return the number of declared values, the most that a distinct count can be; else None."""
    found: int | None = getattr(count.parts[0], "declared", None) if len(count.parts) == 1 else None
    return found


def _estimates_at(plan: Plan, answer: NoisyResult, place: int) -> Combined:
    found = answer.counts[place]
    if found is None:
        known = (i for i, count in enumerate(answer.counts) if count is not None)
        found = answer.counts[plan_requests.equal_place(plan, known, place)]
    assert found is not None  # noqa: S101  every shown number is measured
    return found


def values_of_bound(plan: Plan, output: Output, answer: NoisyResult, size: int) -> NDArray[np.float64]:
    """Return a column of the bound on a number, or of what it left out; NaN where unknown."""
    if output.kind == "bound":
        bound = bound_of(plan, output)
        return np.full(size, np.nan if bound is None else bound)
    found = estimates_of_output(plan, answer, output)
    measured = found.value if found.made is None or not isinstance(found.made, Linear) else found.made.value
    known = estimate_left_out(plan, output, measured, found.value, answer.excess)
    return np.full(size, np.nan) if known is None else known


def _gap(plan: Plan, gap: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return gaps in the unit of the number that orders the groups."""
    best = getattr(plan.selection, "best", plan.selection)
    return gap * float(plan.counts[getattr(best, "count", 0)].step)


def order_by_terms(keys: Sequence[pa.Array], order: Iterable[tuple[int, bool]]) -> NDArray[np.int64]:
    """Return the order of released groups by the keys that a statement names, then by all keys."""
    if not keys or len(keys[0]) < 2:
        return np.arange(len(keys[0]) if keys else 0)
    columns = [pa.chunked_array([key]) for key in keys]
    terms = [ranks(columns[place], descending=descending) for place, descending in order]
    return np.asarray(np.lexsort([*reversed([*map(ranks, columns)]), *reversed(terms)]), dtype=np.int64)


def _build_column(plan: Plan, output: Output, answer: NoisyResult, keys: Mapping[int, pa.Array]) -> pa.Array:
    size = len(answer.rows)
    match output.kind:
        case "key":
            key = keys[output.of]
            # Counting queries hold an instant as the TIMESTAMP of UTC.
            return key.view(_INSTANT) if plan.key_types[output.of] == TIMESTAMPTZ else key
        case "count" | "stddev" | "low" | "high":
            place = ("count", "stddev", "low", "high").index(output.kind)
            return to_doubles(estimate(plan, answer, output)[place])
        case "left_out" | "bound":
            return to_doubles(values_of_bound(plan, output, answer, size))
        case "quantile":
            assert output.quantile is not None  # noqa: S101  such a column shows one
            return values_of_cells(output.quantile, answer.cells[output.quantile])
        case "gap":
            return to_doubles(np.full(size, np.nan) if answer.gap is None else _gap(plan, answer.gap))
        case "p_value":
            return to_doubles(answer.p_value if answer.p_value is not None else np.full(size, np.nan))
        case "rank":
            return _to_integers(np.arange(1, size + 1) if answer.rank is None else answer.rank)


def noises_of(plan: Plan, noisy: NoisyResult, shown: NoisyResult) -> Noises:
    """Return the noises of the numbers of a release.

    `noisy` has the intervals of the noise alone, `shown` also what bounds leave out.
    """
    return tuple(
        _noise(
            plan,
            output,
            estimates_of_output(plan, noisy, output),
            estimates_of_output(plan, shown, output),
            shown,
        )
        for output in plan.outputs
        if output.kind == "count"
    )


def _noise(plan: Plan, output: Output, noisy: Combined, shown: Combined, answer: NoisyResult) -> NumberNoise:
    return NumberNoise(
        noisy.made,
        _wider(noisy.low - shown.low),
        _wider(shown.high - noisy.high),
        estimate_left_out(plan, output, noisy.value, shown.value, answer.excess),
        bound_of(plan, output),
        _most_left_out(plan, output, answer.most_left_out),
    )


def _most_left_out(plan: Plan, output: Output, beyond: Mapping[int, float]) -> float | None:
    """Return how much bounds left out of a number in all groups together at most; None: that is not known."""
    formula, place = output.formula, output.of if output.formula is None else output.uses[0]
    match formula:
        case None:
            ends = bound_worth(plan.counts[place])
        case RowCount():
            ends = Fraction(0), Fraction(1)
        case SumOfRows():
            ends = formula.low, formula.high
        case _:
            return None
    return beyond[place] * float(max(-ends[0], ends[1], Fraction(0))) if place in beyond else None


def _wider(by: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return by how much an end is farther; None if it is not anywhere."""
    by = np.maximum(np.nan_to_num(by), 0.0)
    return by if by.any() else None


_RATIOS = (Average, Variance, Deviation)


def outside_of(plan: Plan, answer: NoisyResult) -> Outside | None:
    """Return the first count or sum of the statement for the rows in no group.

    Where there are averages alone, it is the number of rows that they are of.
    """
    found = answer.outside
    if found is None:
        return None
    shown = [output for output in plan.outputs if output.kind == "count"]
    first = next((o for o in shown if not isinstance(o.formula, _RATIOS)), None)
    if first is not None:
        value, stddev, low, high = (float(part[0]) for part in estimate(plan, found, first))
        return Outside(_what(plan, first), value, _known(stddev), _known(low), _known(high))
    if not shown:
        return None
    step = float(plan.counts[shown[0].uses[0]].step)
    parts = [found.counts[place] for place in shown[0].uses]
    known = [part for part in parts if part is not None]
    value, low, high = (sum(float(getattr(p, n)[0]) for p in known) * step for n in ("value", "low", "high"))
    stddev = math.sqrt(sum(float(part.stddev[0]) ** 2 for part in known)) * step
    return Outside("rows", value, _known(stddev), _known(low), _known(high))


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _what(plan: Plan, output: Output) -> str:
    """Return what a number counts, in a word, or the name of its column."""
    count = plan.counts[output.of]
    if plan.values is not None:
        kind = plan.unit if plan.unit.startswith("row of") else f"{plan.unit}s"
        return f"{kind} with other values of {plan.values.text}{' or of the keys' * bool(plan.key_types)}"
    if output.formula is None and len(count.parts) == 1 and count.argument is None:
        part = count.parts[0]
        filtered = bool(part.row)
        if isinstance(part, (SingleRows, BoundedRows, WeightedRows)) and not filtered:
            return "rows"
        if isinstance(part, Units) and not filtered:
            return plan.unit if plan.unit.startswith("row of") else f"{plan.unit}s"
    return f"of {output.name}"


def sentences_of(plan: Plan) -> dict[str, str]:
    """Return the properties on rows in no group, where no number is released for them, and of no unit."""
    barred = plan.existence is not None
    nobodys = {slot("nobody"): LEFT_OUT + ", ".join(plan.nobodys) + ", if any"} if plan.nobodys else {}
    return ({slot("outside"): BELOW} if barred else {}) | nobodys
