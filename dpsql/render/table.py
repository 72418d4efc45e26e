"""Draw results as a box table, Markdown, bars or lines: counts with their noise, and the price below.

What EXPLAIN, SHOW RELEASES and --dry-run list is fitted to a width: long texts, times, statements.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from dpsql.render.column_values import value_text, values
from dpsql.render.figures import at_unit, unit_of
from dpsql.render.grid import (
    Style,
    TextColumn,
    box,
    column,
    escape_controls,
    fit,
    in_two_lines,
    markdown,
    pad,
    span,
    style_of,
    width,
    wrap,
)
from dpsql.render.plots import NARROWEST, bars
from dpsql.render.readable import (
    Estimates,
    assumptions,
    counts,
    footer,
    left_out_line,
    ordering_estimates,
    places,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.render.readable import Released

_EXPLAINED = ["property", "value"]
"""The columns of EXPLAIN, whose values (a guarantee, SQL) are of no use when cut."""
_RELEASES = ["number", "when", "selection", "epsilon", "part", "statement"]
"""The columns of SHOW RELEASES."""
_PRICES = ["statement", "place", "epsilon", "delta", "text"]
"""The columns of --dry-run."""
_STATEMENTS = {tuple(_RELEASES): "statement", tuple(_PRICES): "text"}
"""The column of a listing that holds statements."""
_NARROWEST_TEXT = 20
"""Cells below which text is not folded."""
_HEAD, _TAIL = 4, 3
"""Lines at the start and the end of long SQL that EXPLAIN shows."""
_MINUTES = len("2026-01-31 12:00")


def fit_listing(names: Sequence[str], columns: list[TextColumn], style: Style) -> list[TextColumn]:
    """Fit the columns of a listing, such as SHOW RELEASES, to the style's width; leave others as they are."""
    if list(names) == _EXPLAINED and style.columns is not None:
        return _break_values(columns, style)
    if list(names) == _RELEASES:
        number, when, selection, epsilon, part, statement = columns
        minutes = replace(when, name="when (UTC)", cells=[cell[:_MINUTES] for cell in when.cells], firm=True)
        parts = [part] if len(part.nulls) < len(part.cells) else []
        return [number, minutes, replace(selection, firm=True), epsilon, *parts, statement]
    return columns


def _break_values(columns: list[TextColumn], style: Style) -> list[TextColumn]:
    """Break long values into as many lines as they need; of long SQL, leave out the middle."""
    names, found = columns
    room = (style.columns or 0) - span([names.width, 0])
    if room < _NARROWEST_TEXT:
        return columns
    pairs = [
        (name if i == 0 else "", line)
        for name, value in zip(names.cells, found.cells, strict=True)
        for i, line in enumerate(_break_lines(name, value, room, style))
    ]
    return [
        TextColumn(names.name, [name for name, _ in pairs]),
        TextColumn(found.name, [line for _, line in pairs]),
    ]


def _break_lines(name: str, value: str, room: int, style: Style) -> list[str]:
    lines = wrap(value, room)
    more = len(lines) - _HEAD - _TAIL
    if not name.endswith("_sql") or more < 2:
        return lines
    note = wrap(f"{style.ellipsis} {more} more lines: EXPLAIN (FORMAT JSON) has all {style.ellipsis}", room)
    return [*lines[:_HEAD], *note, *lines[-_TAIL:]]


def show(
    rows: pa.Table, release: Released | None, total: Charge | None = None, columns: int | None = None
) -> None:
    """Print a result to standard output: a table with the price below, what is assumed, warnings."""
    style = style_of(sys.stdout, columns)
    sys.stdout.write(as_table(rows, release, style, total=total))
    if release is None:
        return
    warnings = [f"warning: {escape_controls(text, style.encoding)}" for text in release.warnings]
    for line in (*assumptions(release), *warnings):
        for part in wrap(line, style.columns or len(line)):
            sys.stdout.write(part + "\n")


def as_table(rows: pa.Table, release: Released | None, style: Style, *, total: Charge | None = None) -> str:
    """Draw an answer (`release` is None if it is public) as a box table; `total` is the whole budget."""
    columns = _answer_columns(rows, release, style)
    if not columns:
        return ""
    if is_untouched(release, rows):
        room = (style.columns or 80) - span([column.width for column in columns]) - 3
        bar = bars(ordering_estimates(release), room, style) if room >= NARROWEST else None
        columns += [bar] if bar else []
    if release is None:
        columns = fit_listing(rows.column_names, columns, style)
    fitted, left_out = fit(columns, style)
    if left_out:
        # Ranges below their numbers leave room for more columns.
        fitted, left_out = min((fitted, left_out), fit(in_two_lines(columns), style), key=lambda f: f[1])
    drawn = box(fitted, style)
    if left_out:
        note = f"{left_out} of {len(columns)} columns are not shown: widen the terminal or use --format csv"
        drawn += "\n".join(wrap(note, style.columns or len(note))) + "\n"
    if not rows.num_rows:
        drawn += "no rows\n"
    if release is not None:
        drawn += f"{text}\n" if (text := left_out_line(release, style)) else ""
        drawn += style.paint(footer(release, total, style), "2") + "\n"
    return drawn


def as_markdown(
    rows: pa.Table, release: Released | None, style: Style, *, total: Charge | None = None
) -> str:
    """Write an answer as a Markdown table, with the price in a paragraph below."""
    columns = _answer_columns(rows, release, style)
    if not columns:
        return ""
    unwrapped = Style(encoding=style.encoding)
    if release is None:
        return markdown(columns)
    text = left_out_line(release, unwrapped)
    return markdown(columns) + (f"\n{text}\n" if text else "") + f"\n*{footer(release, total, unwrapped)}*\n"


_ROWS, _CELLS = 20, 60
"""Rows that `release_text` writes (it counts the others), and cells after which it cuts a value."""


def release_text(release: Released) -> str:
    """Write a release as lines for Python's prompt and logs: its selection, rows, price and certainty."""
    columns = [
        replace(c, folded=False).cut(_CELLS, "…")
        for c in release_columns(release, Style(), most=_ROWS, none="")
    ]
    texts = [[pad(cell, c.width, right=c.right) for cell in (c.name, *c.cells)] for c in columns]
    lines = ["  ".join(cells).rstrip() for cells in zip(*texts, strict=True)]
    if release.rows.num_rows > _ROWS:
        lines.append(
            f"({release.rows.num_rows - _ROWS} more row{'s' * (release.rows.num_rows - _ROWS != 1)})"
        )
    if not release.rows.num_rows:
        lines.append("(no rows)")
    text = left_out_line(release, Style())
    below = [*([text] if text else []), footer(release, None, Style()), *assumptions(release)]
    return "\n".join([f"<Release: {release.selection}>", *lines, *below])


def _answer_columns(rows: pa.Table, release: Released | None, style: Style) -> list[TextColumn]:
    if is_untouched(release, rows):
        return release_columns(release, style, none="-" if style.plain else "—")
    return public_columns(rows, style)


def public_columns(rows: pa.Table, style: Style) -> list[TextColumn]:
    """Write the rows of a result without noise, or of what a SELECT made of a release."""
    long = _STATEMENTS.get(tuple(rows.column_names))
    return [
        _write_texts(name, rows.column(i), style, statements=name == long)
        for i, name in enumerate(rows.column_names)
    ]


def release_columns(
    release: Released, style: Style, *, none: str, most: int | None = None
) -> list[TextColumn]:
    """Write the first `most` rows of a release: counts with their noise, and the free gaps beside them.

    `none` is written where a row has no free gap.
    """
    found_at, free = places(release), _free_places(release)
    noisy = {n.place: of for n, of in zip(found_at.numbers, counts(release), strict=True)}
    rows = release.rows
    columns = []
    for i, name in enumerate(rows.column_names):
        found = rows.column(i)
        place = next((p for known, p in free.values() if known.equals(found)), None)
        if i in noisy:
            columns.append(_write_count_column(name, noisy[i][:most], style))
        else:
            columns.append(replace(_write_texts(name, found.slice(0, most), style, place), folded=True))
    gap, place = free.get(found_at.gap, (None, 0))
    # The free gaps, unless there are none or the statement asked for them itself.
    if gap is not None and not any(gap.equals(found) for found in rows.columns):
        shown = _write_texts("gap", gap.slice(0, most), style, place)
        columns.append(
            replace(shown, cells=[none if i in shown.nulls else c for i, c in enumerate(shown.cells)])
        )
    return columns


def is_untouched(release: Released | None, rows: pa.Table) -> TypeGuard[Released]:
    """Whether these are the rows of the release, not sorted, cut or renamed by a SELECT around it."""
    return release is not None and (rows is release.rows or bool(rows.equals(release.rows)))


def _write_count_column(name: str, estimates: Estimates, style: Style) -> TextColumn:
    texts = [(None, "") if estimate is None else estimate.text(pm=style.pm) for estimate in estimates]
    numbers = max((width(value or "NULL") for value, _ in texts), default=0)
    spreads = max((width(spread) for _, spread in texts), default=0)
    halves = max((width(spread) for _, spread in texts if spread.startswith(style.pm)), default=0)
    # Rows without a spread keep their number under the other numbers.
    cells = [
        f"{pad(value or 'NULL', numbers, right=True)} {pad(_align_spread(spread, halves, style), spreads)}"
        if spreads
        else value
        for value, spread in texts
    ]
    nulls = frozenset(i for i, estimate in enumerate(estimates) if estimate is None)
    # What is short is not parted.
    long = any(spread and not spread.startswith(style.pm) for _, spread in texts)
    lines = tuple((value or "NULL", spread) for value, spread in texts) if long else ()
    return replace(column(name, cells, style, number=True), nulls=nulls, lines=lines)


def _align_spread(spread: str, cells: int, style: Style) -> str:
    """Align a half-width right among others; an interval in parentheses may be longer."""
    return pad(spread, cells, right=True) if spread.startswith(style.pm) else spread


def _free_places(release: Released) -> dict[int | None, tuple[pa.ChunkedArray, int]]:
    """Return the free columns by their places, each with the decimal place at which its noise ends."""
    found_at = places(release)
    units = [
        max((e.unit for e in estimates if e is not None and e.unit is not None), default=None)
        for estimates in counts(release)
    ]
    found = {at: unit for number, unit in zip(found_at.numbers, units, strict=True) for at in number.details}
    unit = units[found_at.ordering or 0] if units else None
    found[found_at.gap] = unit_of(release.scale) if unit is None else unit
    table = release.table
    return {
        at: (table.column(at), unit)
        for at, unit in found.items()
        if at is not None and unit is not None and table.column(at).null_count < len(table)
    }


def _write_texts(
    name: str, found: pa.ChunkedArray, style: Style, place: int | None = None, *, statements: bool = False
) -> TextColumn:
    """Write a column's values; numbers are rounded to a decimal place if it is given."""
    write: Any = value_text if place is None else lambda value: at_unit(value, place)
    cells = [None if value is None else write(value) for value in values(found)]
    return column(name, cells, style, number=is_numeric(found), statements=statements)


def is_numeric(column: pa.ChunkedArray) -> bool:
    """Whether a column has numbers."""
    from pyarrow import types

    kind = column.type
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
