"""Draws results as a box table, Markdown or bars: counts with their noise, and the price below."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from dpsql.errors import ProgrammingError
from dpsql.render.bars import NARROWEST, bars
from dpsql.render.cells import escape_controls, folded, pad, width
from dpsql.render.figures import Estimate, at_unit, unit_of
from dpsql.render.footer import footer
from dpsql.render.grid import Column, Style, box, fit, markdown, span
from dpsql.render.readable import Estimates, counts, ordering, orders
from dpsql.render.values import text, values

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.privacy import Charge
    from dpsql.render.released import Released

__all__ = ["as_chart", "as_markdown", "as_table"]


def as_table(rows: pa.Table, release: Released | None, style: Style, *, total: Charge | None = None) -> str:
    """Draw an answer as a box table.

    Parameters
    ----------
    rows, release
        The answer.
    style
        What the terminal can show.
    total
        The whole budget, for "epsilon 1 of 10".
    """
    columns = _columns(rows, release, style)
    if not columns:
        return ""
    if _untouched(release, rows):
        room = (style.columns or 80) - span([column.width for column in columns]) - 3
        bar = bars(ordering(release), room, style) if room >= NARROWEST else None
        columns += [bar] if bar else []
    if rows.column_names == _EXPLAINED:
        columns = _wrapped(columns, style)
    fitted, left_out = fit(columns, style)
    drawn = box(fitted, style)
    if left_out:
        drawn += (
            f"{left_out} of {len(columns)} columns are not shown: widen the terminal or use --format csv\n"
        )
    if not rows.num_rows:
        drawn += "no rows\n"
    if release is not None:
        drawn += style.paint(footer(release, total, style), "2") + "\n"
    return drawn


_EXPLAINED = ["property", "value"]
"""The columns of EXPLAIN, whose values (a guarantee, SQL) are of no use when cut."""
_NARROWEST_TEXT = 20
"""Cells below which text is not folded."""


def _wrapped(columns: list[Column], style: Style) -> list[Column]:
    """Break long values into as many lines as they need."""
    names, found = columns
    room = (style.columns or 0) - span([names.width, 0])
    if room < _NARROWEST_TEXT:
        return columns
    pairs = [
        (name if i == 0 else "", line)
        for name, value in zip(names.cells, found.cells, strict=True)
        for i, line in enumerate(folded(value, room))
    ]
    return [
        Column(names.name, [name for name, _ in pairs]),
        Column(found.name, [line for _, line in pairs]),
    ]


def as_markdown(
    rows: pa.Table, release: Released | None, style: Style, *, total: Charge | None = None
) -> str:
    """Write an answer as a Markdown table, with the price in a paragraph below."""
    columns = _columns(rows, release, style)
    if not columns:
        return ""
    drawn = markdown(columns)
    if release is not None:
        unwrapped = Style(encoding=style.encoding)
        drawn += f"\n*{footer(release, total, unwrapped)}*\n"
    return drawn


_CHART = 20
"""Cells that a chart's bars get before names are shown in full."""


def as_chart(rows: pa.Table, release: Released | None, style: Style) -> str:
    """Draw an answer as bars alone: one for each row, by its count or its first numeric column.

    Raises `ProgrammingError` when there is nothing to draw.
    """
    name = orders(release) if _untouched(release, rows) else None
    if release is not None and name is not None:
        estimates = ordering(release)
    else:
        drawable = next((i for i, column in enumerate(rows.columns) if _is_numeric(column)), None)
        if drawable is None:
            raise ProgrammingError("the last answer has no number to draw")
        name, found = rows.column_names[drawable], values(rows.column(drawable))
        estimates = [None if value is None else Estimate(float(value), None, None) for value in found]
    labels = [
        _plain(label, column, style)
        for label, column in zip(rows.column_names, rows.columns, strict=True)
        if not _is_numeric(column)
    ]
    columns = [*labels[:2], _count(name, estimates, style)]
    # Long names are cut where they would leave no room for bars.
    widths = [column.width for column in columns]
    room = (style.columns or 80) - span(widths) - 3
    if room < _CHART:
        room = min(_CHART, (style.columns or 80) - span([min(cells, 30) for cells in widths]) - 3)
    drawn = bars(estimates, room, style, widest=100)
    if drawn is None:
        raise ProgrammingError("there is nothing positive to draw, or no room for it")
    return box(fit([*columns, drawn], style)[0], style)


def _columns(rows: pa.Table, release: Released | None, style: Style) -> list[Column]:
    release = release if _untouched(release, rows) else None
    if release is None:
        return [_plain(name, rows.column(i), style) for i, name in enumerate(rows.column_names)]
    noisy, free = counts(release), _free(release)
    columns = []
    for i, name in enumerate(rows.column_names):
        column = rows.column(i)
        place = next((p for known, p in free.values() if known.equals(column)), None)
        if name in noisy:
            columns.append(_count(name, noisy[name], style))
        elif place is not None:
            columns.append(_rounded(name, column, place, "NULL", style))
        else:
            columns.append(_plain(name, column, style))
    gap, place = free.get("gap", (None, 0))
    # The free gaps, unless there are none or the statement asked for them itself.
    if gap is not None and not any(gap.equals(column) for column in rows.columns):
        columns.append(_rounded("gap", gap, place, "-" if style.plain else "—", style))
    return columns


def _untouched(release: Released | None, rows: pa.Table) -> TypeGuard[Released]:
    """Whether these are the rows of the release, not sorted, cut or renamed by a SELECT around it."""
    return release is not None and (rows is release.rows or bool(rows.equals(release.rows)))


def _count(name: str, estimates: Estimates, style: Style) -> Column:
    pm = "+/-" if style.plain else "±"
    texts = [("NULL", "") if estimate is None else estimate.text(pm=pm) for estimate in estimates]
    numbers = max((width(value) for value, _ in texts), default=0)
    spreads = max((width(spread) for _, spread in texts), default=0)
    cells = [
        f"{pad(value, numbers, right=True)} {pad(spread, spreads, right=True)}".rstrip()
        for value, spread in texts
    ]
    # Rows without a spread keep their number under the other numbers.
    cells = [pad(cell, numbers + 1 + spreads if spreads else numbers) for cell in cells]
    nulls = frozenset(i for i, estimate in enumerate(estimates) if estimate is None)
    return Column(escape_controls(name, style.encoding), cells, right=True, firm=True, nulls=nulls)


def _free(release: Released) -> dict[str, tuple[pa.ChunkedArray, int]]:
    """Return the free columns beside the counts, each with the decimal place at which its noise ends."""
    places = {
        name: max((e.unit for e in estimates if e is not None and e.unit is not None), default=None)
        for name, estimates in counts(release).items()
    }
    found = {f"{name}_{kind}": place for name, place in places.items() for kind in ("low", "high", "stddev")}
    name = orders(release)
    found["gap"] = unit_of(release.scale) if name is None else places[name]
    table = release.table
    return {
        name: (table.column(name), place)
        for name, place in found.items()
        if place is not None and name in table.column_names and table.column(name).null_count < len(table)
    }


def _rounded(name: str, column: pa.ChunkedArray, place: int, none: str, style: Style) -> Column:
    found = values(column)
    cells = [none if value is None else at_unit(value, place) for value in found]
    nulls = frozenset(i for i, value in enumerate(found) if value is None)
    return Column(escape_controls(name, style.encoding), cells, right=True, firm=True, nulls=nulls)


def _plain(name: str, column: pa.ChunkedArray, style: Style) -> Column:
    numeric = _is_numeric(column)
    found = values(column)
    cells = ["NULL" if value is None else escape_controls(text(value), style.encoding) for value in found]
    nulls = frozenset(i for i, value in enumerate(found) if value is None)
    return Column(escape_controls(name, style.encoding), cells, right=numeric, firm=numeric, nulls=nulls)


def _is_numeric(column: pa.ChunkedArray) -> bool:
    from pyarrow import types

    kind = column.type
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
