"""What released sums and moments are, computed with Python's whole numbers from the rows themselves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpsql.analysis.grids import Grid, least_step
from dpsql.analysis.released.released_numbers import (
    CappedSum,
    GroupSum,
    Moment,
    RowSum,
    UnitMean,
    UnitNumber,
    Vector,
)
from dpsql.analysis.released.unit_counts import SingleRows, WeightedRows
from dpsql.kernel.tree import Expr, IsNull, walk
from dpsql.types import DOUBLE

__all__ = ["Row", "numbers_of"]

FURTHEST, LARGEST, BEYOND = 1 << 62, 1 << 60, 1 << 85
Value = int | Decimal | float | None


@dataclass(frozen=True)
class Row:
    """A row: its unit, its group, its values by column, and a flag."""

    unit: int | None
    group: str | None
    values: dict[str, Value]
    flag: bool | None


def numbers_of(
    part: UnitNumber,
    rows: Iterable[Row],
    column: str,
    groups: Sequence[str | None],
    *,
    flagged: bool,
    by_row: bool,
) -> dict[str | None, int]:
    """Return the exact number of each group."""
    keyed = len(groups) > 1
    cells: dict[tuple[object, str | None], list[tuple[Value, bool]]] = defaultdict(list)
    for place, row in enumerate(rows):
        group = row.group if keyed else None
        if (row.unit is not None or by_row) and group in groups:
            kept = row.flag is True or not flagged
            cells[place if by_row else row.unit, group].append((row.values[column], kept))
    totals: dict[object, list[tuple[str | None, list[tuple[Value, bool]]]]] = defaultdict(list)
    for (unit, group), found in cells.items():
        totals[unit].append((group, found))
    made: dict[str | None, int] = dict.fromkeys(groups, 0)
    for own in totals.values():
        added = _of_unit(part, [c for _, c in own], keyed=keyed)
        for (group, _), number in zip(own, added, strict=True):
            made[group] += number
    return {g: max(-LARGEST, min(LARGEST, n)) for g, n in made.items()}


def _of_unit(part: UnitNumber, groups: list[list[tuple[Value, bool]]], *, keyed: bool) -> list[int]:
    """Return what a unit adds to each of its groups."""
    match part:
        case GroupSum():
            return [_total(part.grid, [v for v, kept in cells if kept]) for cells in groups]
        case RowSum():
            there = [_steps(part.grid, cells) for cells in groups]
            rows = sum(map(len, there))
            if not keyed:
                return _weighted([part.fine * sum(s) for s in there], rows, part.most)
            return [sum(_weighted([part.fine * x for x in s], rows, part.most)) for s in there]
        case CappedSum():
            sums = [sum(_uncut(part.grid, [v for v, kept in cells if kept])) for cells in groups]
            sums = [max(-BEYOND, min(BEYOND, s)) for s in sums]
            if part.grid.type != DOUBLE:
                size = int(part.grid.step / least_step(part.grid.type))
                sums = [_towards_zero(s, size) for s in sums]
            return _weighted(sums, sum(map(abs, sums)), part.most)
        case Moment():
            return _moments(part, groups, keyed=keyed)
        case WeightedRows():
            counted = [_rows(part.row, cells) for cells in groups]
            if not keyed:
                return [min(rows, part.most) for rows in counted]
            share = part.fine * part.most // max(sum(counted), part.most)
            return [rows * share for rows in counted]
        case SingleRows():
            return [_rows(part.row, cells) for cells in groups]
        case UnitMean():
            return [_mean(part, [v for v, kept in cells if kept]) for cells in groups]
    raise NotImplementedError(part)


def _rows(condition: tuple[Expr, ...], cells: list[tuple[Value, bool]]) -> int:
    """Return how many rows meet a condition; those of COUNT(x) have a value, be it NaN."""
    valued = any(isinstance(node, IsNull) for each in condition for node in walk(each))
    return sum(kept and not (valued and value is None) for value, kept in cells)


def _weighted(sums: list[int], rows: int, most: int) -> list[int]:
    return sums if rows <= most else [_towards_zero(s * most, rows) for s in sums]


def _towards_zero(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def _moments(part: Moment, groups: list[list[tuple[Value, bool]]], *, keyed: bool) -> list[int]:
    """Return what a unit adds to its groups; with keys it is weighted row by row."""
    vector = part.vector
    weighted = [[[cell] for cell in cells] if keyed else [cells] for cells in groups]
    sums = [[_moments_of(vector, cells) for cells in each] for each in weighted]
    every = sum(rows for each in sums for rows, _ in each)
    found = []
    for each in sums:
        shares = [_weighted([vector.fine * n for n in own], every, vector.most) for _, own in each]
        found.append(sum(s[part.place] if part.place else s[0] - sum(s[1:]) for s in shares))
    return found


def _moments_of(vector: Vector, cells: list[tuple[Value, bool]]) -> tuple[int, list[int]]:
    """Return how many rows count, and the whole and the moments after the first of these."""
    grid, r = vector.grid, vector.grid.width
    xs = [s - grid.low for s in _steps(grid, cells)]
    rows = _rows(vector.row[1:], cells) if vector.nulls else len(xs)
    own = [rows * vector.whole]
    if vector.degree == 1:
        own.append(sum(xs))
    elif vector.degree == 2:
        own += [sum(2 * x * (r - x) for x in xs), sum(x * x for x in xs)]
    if vector.nulls:
        own.append((rows - len(xs)) * vector.whole)
    return rows, own


def _mean(part: UnitMean, values: list[Value]) -> int:
    grid = part.vector.grid
    steps = _uncut(grid, values) if grid.fine else [s for v in values for s in _nearest_each(grid, v)]
    if not steps:
        return 0
    total = max(-FURTHEST, min(FURTHEST, sum(steps)))
    finer = part.whole // max(grid.width, 1)
    own = min(max(total - len(steps) * grid.low, 0) * finer // len(steps), part.whole)
    return own if part.place else part.whole - own


def _total(grid: Grid, values: list[Value]) -> int:
    least = _uncut(grid, values)
    if not least:
        return 0
    return max(grid.low, min(grid.high, sum(least))) if grid.fine else _nearest(grid, sum(least))


def _there(value: Value) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _uncut(grid: Grid, values: list[Value]) -> list[int]:
    """Return values that are there in least steps; DOUBLEs in steps of the grid, up to 2^62."""
    if grid.type == DOUBLE:
        return [_double(grid, v, -FURTHEST, FURTHEST) for v in values if _there(v)]
    return [_least(grid, v) for v in values if v is not None]


def _steps(grid: Grid, cells: list[tuple[Value, bool]]) -> list[int]:
    """Return the values that are kept in steps, within the bounds."""
    return [s for v, kept in cells if kept for s in _nearest_each(grid, v)]


def _nearest_each(grid: Grid, value: Value) -> list[int]:
    if not _there(value):
        return []
    if grid.type == DOUBLE:
        return [_double(grid, value, grid.low, grid.high)]
    return [_nearest(grid, _least(grid, value))]


def _nearest(grid: Grid, least: int) -> int:
    size = int(grid.step / least_step(grid.type))
    cut = max(grid.low * size, min(grid.high * size, least))
    return (cut - grid.low * size + size // 2) // size + grid.low


def _least(grid: Grid, value: Value) -> int:
    assert isinstance(value, (int, Decimal))
    return int(Fraction(value) / least_step(grid.type))


def _double(grid: Grid, value: Value, low: int, high: int) -> int:
    assert isinstance(value, float)
    if math.isinf(value):
        return high if value > 0 else low
    steps = Fraction(value) / grid.step
    return low if steps < low else high if steps > high else math.floor(steps + Fraction(1, 2))
