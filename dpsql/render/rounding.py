"""Rounds the numbers of a release to the digits that their noise leaves, for files."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING

from dpsql.render.figures import unit_of
from dpsql.render.readable import counts, places
from dpsql.render.values import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dpsql.render.readable import Released


_LARGEST_WHOLE = 2**53
"""Doubles beyond it are not all whole numbers of their own."""


def round_rows(rows: pa.Table, release: Released, *, whole: bool = False) -> pa.Table:
    """Round noisy numbers, their intervals and their gaps to the digit at which their noise ends.

    Counts are rounded to the nearest, bounds of intervals outwards, standard deviations upwards to two
    digits, p-values to three: as a terminal shows them.

    Parameters
    ----------
    rows
        `release.rows` or `release.table`. Its other columns stay as they are.
    release
        The release.
    whole
        Whether columns without decimals become BIGINT, for formats that would write 1234.0.
    """
    from pyarrow import types

    numbers = _round_columns(release)
    known = release.table
    for i, name in enumerate(rows.column_names):
        column = rows.column(i)
        found = numbers.get(i)
        if found is None or not known.column(i).equals(column):
            # A column that the statement asked for, such as DP_STDDEV(n), may have any name.
            equal = (each for at, each in numbers.items() if known.column(at).equals(column))
            found = next(equal, None)
        if found is not None and types.is_float64(column.type):
            rows = rows.set_column(i, name, _array(found, whole=whole))
    return rows


def _round_columns(release: Released) -> dict[int, list[float | None]]:
    """Return the rounded values of each noisy column of the release's table, by its place."""
    table, found_at = release.table, places(release)
    found: dict[int, list[float | None]] = {}
    for i, (number, estimates) in enumerate(zip(found_at.numbers, counts(release), strict=True)):
        units = [None if estimate is None else estimate.unit for estimate in estimates]
        kinds = {number.place: ROUND_HALF_EVEN, number.low: ROUND_FLOOR, number.high: ROUND_CEILING}
        for place, rounding in kinds.items():
            if place is not None:
                found[place] = _at_places(values(table.column(place)), units, rounding)
        if number.stddev is not None:
            spreads = values(table.column(number.stddev))
            own = [None if spread is None else unit_of(spread) for spread in spreads]
            found[number.stddev] = _at_places(spreads, own, ROUND_CEILING)
        if i == (found_at.ordering or 0) and found_at.gap is not None:
            unit = max((unit for unit in units if unit is not None), default=None)
            gaps = values(table.column(found_at.gap))
            found[found_at.gap] = _at_places(gaps, [unit] * len(gaps), ROUND_HALF_EVEN)
    if found_at.p_value is not None:
        found[found_at.p_value] = [
            value if value is None else float(f"{value:.3g}")
            for value in values(table.column(found_at.p_value))
        ]
    if found_at.gap is not None and found_at.gap not in found:
        gaps = values(table.column(found_at.gap))
        found[found_at.gap] = _at_places(gaps, [unit_of(release.scale)] * len(gaps), ROUND_HALF_EVEN)
    return found


def _at_places(
    found: Sequence[float | None], places: Sequence[int | None], rounding: str
) -> list[float | None]:
    return [
        value if value is None or place is None else _at_place(value, place, rounding)
        for value, place in zip(found, places, strict=True)
    ]


def _at_place(value: float, place: int, rounding: str) -> float:
    """Round a number to a power of ten; what is rounded to zero has no sign.

    >>> _at_place(1234.4, 1, ROUND_HALF_EVEN), _at_place(0.1267, -2, ROUND_FLOOR)
    (1230.0, 0.12)
    >>> _at_place(-0.3, 0, ROUND_HALF_EVEN)
    0.0
    """
    exact = Decimal(repr(float(value)))
    if not exact.is_finite():
        return value
    return float(exact.scaleb(-place).to_integral_value(rounding).scaleb(place)) + 0.0


def _array(found: list[float | None], *, whole: bool) -> pa.Array:
    import pyarrow as pa

    there = [value for value in found if value is not None]
    if whole and there and all(value.is_integer() and abs(value) < _LARGEST_WHOLE for value in there):
        return pa.array([None if value is None else int(value) for value in found], pa.int64())
    return pa.array(found, pa.float64())
