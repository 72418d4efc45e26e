"""A release as a standalone drawing (SVG): bars with intervals and gaps; no script, everything escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpsql.render.cells import escape_controls
from dpsql.render.figures import number
from dpsql.render.html import tag
from dpsql.render.plots import axis
from dpsql.render.readable import ordering, orders, summary
from dpsql.render.values import text, values

if TYPE_CHECKING:
    from dpsql.render.figures import Estimate
    from dpsql.render.readable import Released

_ROWS = 60
_WIDTH, _LABELS, _BARS, _LINE, _HEAD, _FOOT = 760, 200, 340, 26, 44, 50
_LABEL = 28
"""Characters of a label that are drawn."""
_BAR, _INK, _PALE = "#2f6fb0", "#1b1f24", "#d0d7de"


def release_svg(release: Released) -> str | None:
    """Draw the number that orders the groups, one bar a group; None if there is nothing to draw."""
    name, estimates = orders(release), ordering(release)[:_ROWS]
    ends = axis(estimates)
    if name is None or ends is None:
        return None
    keys = [
        values(column)
        for column_name, column in zip(release.rows.column_names, release.rows.columns, strict=True)
        if column_name not in release.counts
    ]
    labels = [
        ", ".join("NULL" if part is None else text(part) for part in row) for row in zip(*keys, strict=True)
    ]
    table = release.table
    gaps = values(table.column("gap")) if "gap" in table.column_names else []
    height = _HEAD + _LINE * len(estimates) + _FOOT
    bottom = height - _FOOT
    parts = [
        tag("rect", x=0, y=0, width=_WIDTH, height=height, fill="#ffffff"),
        _words(10, 24, name, size=16),
    ]
    for end in ends:
        at = _x(end, ends)
        parts += [
            tag("line", x1=at, y1=_HEAD - 6, x2=at, y2=bottom, stroke=_PALE),
            _words(at, bottom + 16, number(end), anchor="middle"),
        ]
    for i, estimate in enumerate(estimates):
        label, gap = labels[i] if i < len(labels) else "", gaps[i] if i < len(gaps) else None
        parts.append(_row(_HEAD + _LINE * i, label, estimate, gap, ends))
    parts.append(_words(10, height - 12, " · ".join(summary(release, None))))
    drawn = tag(
        "svg",
        tag("title", _safe(f"{name}, with intervals")),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        width=_WIDTH,
        height=height,
        viewBox=f"0 0 {_WIDTH} {height}",
        font_family="system-ui, sans-serif",
        font_size=12,
        fill=_INK,
    )
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + drawn + "\n"


def label_of(keys: tuple[object, ...]) -> str:
    """Return the label of a group: its keys with commas between them."""
    return ", ".join("NULL" if part is None else text(part) for part in keys)


def _row(
    top: int, label: str, estimate: Estimate | None, gap: float | None, ends: tuple[float, float]
) -> str:
    """Draw one group: its label, its bar, a line over its interval, its number, and the gap to the next."""
    middle = top + _LINE // 2
    cut = label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"
    parts = [tag("title", _safe(label)), _words(_LABELS - 8, middle + 4, cut, anchor="end")]
    shown = "NULL"
    if estimate is not None:
        zero, at = _x(0.0, ends), _x(estimate.value, ends)
        start, end = _x(estimate.start, ends), _x(estimate.reach, ends)
        parts.append(
            tag(
                "rect",
                x=min(zero, at),
                y=top + 5,
                width=round(abs(at - zero), 1),
                height=_LINE - 10,
                fill=_BAR,
            )
        )
        parts.append(tag("line", x1=start, y1=middle, x2=end, y2=middle, stroke=_INK, stroke_width=2))
        parts += [tag("line", x1=x, y1=middle - 4, x2=x, y2=middle + 4, stroke=_INK) for x in (start, end)]
        shown = " ".join(estimate.text()).strip()
    if gap is not None:
        shown += f"   gap {number(gap)}"
    parts.append(_words(_LABELS + _BARS + 12, middle + 4, shown))
    return tag("g", *parts)


def _x(value: float, ends: tuple[float, float]) -> float:
    bottom, top = ends
    return round(_LABELS + (min(max(value, bottom), top) - bottom) / (top - bottom) * _BARS, 1)


def _words(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12) -> str:
    return tag("text", _safe(words), x=x, y=y, text_anchor=anchor, font_size=size)


def _safe(words: str) -> str:
    return escape(escape_controls(words))
