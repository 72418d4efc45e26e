"""A release in a notebook: an HTML table with bars drawn as inline SVG. No script, everything escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpsql.dbapi.figures import at_unit, number, unit_of
from dpsql.dbapi.readable import counts, ordering, summary
from dpsql.dbapi.values import text, values

if TYPE_CHECKING:
    from dpsql.charge import Charge
    from dpsql.dbapi.figures import Estimate
    from dpsql.release import Release

__all__ = ["release_html"]

_ROWS = 200
"""Rows that are drawn; the others are counted below."""
_WIDTH = 200
_HEIGHT = 12
_RIGHT = ' style="text-align:right"'


def release_html(release: Release, total: Charge | None = None) -> str:
    """Draw a release as an HTML table.

    Parameters
    ----------
    release
        What to draw: its rows, counts with their noise, gaps, a bar for the count that orders.
    total
        The whole budget, for "epsilon 1 of 10".
    """
    columns = _columns(release)
    shown = min(release.rows.num_rows, _ROWS)
    heads = "".join(f"<th{_RIGHT if right else ''}>{escape(name)}</th>" for name, right, _ in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_RIGHT if right else ''}>{cells[row]}</td>" for _, right, cells in columns)
        + "</tr>"
        for row in range(shown)
    )
    more = release.rows.num_rows - shown
    lines = [" · ".join(summary(release, total)), *release.warnings]
    if more:
        lines.insert(0, f"{more} more rows are not shown")
    notes = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return (
        f'<div class="dpsql"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
        f'<div style="font-size:smaller;opacity:.75">{notes}</div></div>'
    )


def _columns(release: Release) -> list[tuple[str, bool, list[str]]]:
    """Return name, whether it stands right, and the cells as HTML of every column."""
    noisy = {name: estimates[:_ROWS] for name, estimates in counts(release).items()}
    rows = release.rows.slice(0, _ROWS)
    columns = []
    for i, name in enumerate(rows.column_names):
        found = values(rows.column(i))
        if name in noisy:
            columns.append((name, True, [_count(estimate) for estimate in noisy[name]]))
        else:
            right = all(isinstance(value, (int, float)) for value in found if value is not None)
            cells = ["<i>NULL</i>" if value is None else escape(text(value)) for value in found]
            columns.append((name, right and bool(found), cells))
    if "gap" in release.table.column_names and "gap" not in rows.column_names:
        columns.append(("gap", True, _gaps(release)))
    estimates = ordering(release)[:_ROWS]
    top = max((_end(estimate) for estimate in estimates if estimate is not None), default=0.0)
    if 0 < top < float("inf"):
        columns.append(("", False, [_bar(estimate, top) for estimate in estimates]))
    return columns


def _count(estimate: Estimate | None) -> str:
    return "<i>NULL</i>" if estimate is None else escape(" ".join(estimate.text()).strip())


def _gaps(release: Release) -> list[str]:
    units = [e.unit for e in ordering(release) if e is not None and e.unit is not None]
    place = max(units, default=unit_of(release.scale))
    found = values(release.table.column("gap").slice(0, _ROWS))
    return [
        "" if gap is None else escape(number(gap) if place is None else at_unit(gap, place)) for gap in found
    ]


def _bar(estimate: Estimate | None, top: float) -> str:
    """Draw one bar: full up to the interval's start, pale to its end, a line at the estimate."""
    if estimate is None:
        return ""
    start = estimate.value if estimate.low is None else estimate.low
    ends = [max(0.0, x) / top * _WIDTH for x in (start, estimate.value, _end(estimate))]
    solid, middle, end = (round(x, 1) for x in ends)
    label = escape(" ".join(estimate.text()).strip(), quote=True)
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}">'
        f'<rect x="0" y="0" width="{solid}" height="{_HEIGHT}" fill="#4c78a8"/>'
        f'<rect x="{solid}" y="0" width="{round(max(0.0, end - solid), 1)}" height="{_HEIGHT}" '
        'fill="#4c78a8" fill-opacity="0.35"/>'
        f'<line x1="{middle}" y1="0" x2="{middle}" y2="{_HEIGHT}" stroke="currentColor"/></svg>'
    )


def _end(estimate: Estimate) -> float:
    return estimate.value if estimate.high is None else max(estimate.value, estimate.high)
