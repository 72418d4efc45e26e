"""A release in a notebook: an HTML table with bars drawn as inline SVG. No script, everything escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpsql.render.columns import columns
from dpsql.render.readable import ordering, summary

if TYPE_CHECKING:
    from dpsql.privacy import Charge
    from dpsql.render.figures import Estimate
    from dpsql.render.released import Released

__all__ = ["release_html"]

_ROWS = 200
"""Rows that are drawn; the others are counted below."""
_WIDTH = 200
_HEIGHT = 12
_LEFT, _RIGHT = ' style="text-align:left"', ' style="text-align:right"'


def release_html(release: Released, total: Charge | None = None) -> str:
    """Draw a release as an HTML table.

    Parameters
    ----------
    release
        What to draw: its rows, counts with their noise, gaps, a bar for the count that orders.
    total
        The whole budget, for "epsilon 1 of 10".
    """
    drawn = [
        (column.name, column.right, [_NULL if cell is None else escape(cell) for cell in column.cells])
        for column in columns(release, _ROWS)
    ]
    drawn += _bars(ordering(release)[:_ROWS])
    shown = min(release.rows.num_rows, _ROWS)
    heads = "".join(f"<th{_side(right)}>{escape(name)}</th>" for name, right, _ in drawn)
    body = "".join(
        "<tr>" + "".join(f"<td{_side(right)}>{cells[row]}</td>" for _, right, cells in drawn) + "</tr>"
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


_NULL = "<i>NULL</i>"


def _side(right: bool) -> str:
    return _RIGHT if right else _LEFT


def _bars(estimates: list[Estimate | None]) -> list[tuple[str, bool, list[str]]]:
    """Draw the column of bars; none when there is nothing positive."""
    top = max((_end(estimate) for estimate in estimates if estimate is not None), default=0.0)
    if not 0 < top < float("inf"):
        return []
    return [("", False, [_bar(estimate, top) for estimate in estimates])]


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
