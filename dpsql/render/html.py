"""Releases and curves as HTML with inline SVG: no script, nothing fetched, everything escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpsql.render.cells import escape_controls
from dpsql.render.grid import Style
from dpsql.render.lines import line
from dpsql.render.plots import axis, widest
from dpsql.render.readable import assumptions, ordering, summary
from dpsql.render.table import public_columns, release_columns
from dpsql.render.values import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.render.figures import Estimate
    from dpsql.render.grid import TextColumn
    from dpsql.render.plots import PValueCurve
    from dpsql.render.readable import Released


_ROWS = 200
"""Rows that are drawn; the others are counted below."""
BLUE = "#4c78a8"
"""The colour of bars."""
_LEFT, _RIGHT = {"style": "text-align:left"}, {"style": "text-align:right"}


def tag(name: str, *content: str, **attributes: object) -> str:
    """Write an element around HTML that is escaped already; attributes are escaped here.

    An underscore in an attribute's name is a hyphen, one at its end is dropped.

    >>> tag("p", "a &lt; b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    named = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    given = "".join(f' {key}="{escape(str(value))}"' for key, value in named)
    return f"<{name}{given}/>" if name in _VOID else f"<{name}{given}>{''.join(content)}</{name}>"


_VOID = {"line", "rect", "polyline"}


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table of cells, which are whole `th` and `td` elements."""
    body = "".join(tag("tr", *row) for row in rows)
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", body))


def release_html(release: Released, total: Charge | None = None) -> str:
    """Draw a release as a table: counts with their noise, gaps, a bar for the number that orders.

    `total` is the whole budget, for "epsilon 1 of 10".
    """
    heads, columns = _cells(release_columns(release, Style(), none="", most=_ROWS))
    estimates = ordering(release)[:_ROWS]
    ends = axis(estimates)
    if ends is not None:
        heads.append(tag("th", **_LEFT))
        columns.append([tag("td", _bar(estimate, *ends), **_LEFT) for estimate in estimates])
    notes = _note_left_out(release.rows)
    notes += [text] if (text := line(release)) else []
    notes += [" · ".join(summary(release, total)), *assumptions(release), *release.warnings]
    return tag("div", table(heads, zip(*columns, strict=True)), _below(notes), class_="dpsql")


def rows_html(rows: pa.Table) -> str:
    """Draw a result that reads nothing private as a table."""
    heads, columns = _cells(public_columns(rows.slice(0, _ROWS), Style()))
    return tag("div", table(heads, zip(*columns, strict=True)), _below(_note_left_out(rows)), class_="dpsql")


def _cells(columns: Iterable[TextColumn]) -> tuple[list[str], list[list[str]]]:
    """Write the headings, and the cells of each column."""
    heads, cells = [], []
    for column in columns:
        side = _RIGHT if column.right else _LEFT
        # Blanks align numbers with each other in a terminal only.
        texts = [escape(cell.strip() if column.right else cell) for cell in column.cells]
        texts = [tag("i", text) if i in column.nulls and text else text for i, text in enumerate(texts)]
        heads.append(tag("th", escape(column.name), **side))
        cells.append([tag("td", text, **side) for text in texts])
    return heads, cells


def _note_left_out(rows: pa.Table) -> list[str]:
    more = rows.num_rows - _ROWS
    return [f"{more} more rows are not shown"] if more > 0 else []


def _below(notes: Iterable[str]) -> str:
    lines = [tag("div", escape(escape_controls(note))) for note in notes]
    return tag("div", *lines, style="font-size:smaller;opacity:.75")


_PREFORMATTED = {"style": "text-align:left;white-space:pre-wrap;max-width:60em"}


def explanation_html(price: str, rows: pa.Table) -> str:
    """Draw the rows of EXPLAIN below the price; SQL is folded up."""
    cells = []
    for name, value in zip(*(values(column) for column in rows.columns), strict=True):
        content = escape(escape_controls(value or ""))
        if name.endswith("_sql"):
            content = tag("details", tag("summary", "SQL"), content)
        cells.append([tag("td", escape(name), **_LEFT), tag("td", content, **_PREFORMATTED)])
    heads = [tag("th", escape(name), **_LEFT) for name in rows.column_names]
    headline = tag("div", tag("b", escape(price)), " (nothing was charged)")
    return tag("div", headline, table(heads, cells), class_="dpsql")


_BAR_WIDTH, _BAR_HEIGHT = 200, 12


def _bar(estimate: Estimate | None, bottom: float, top: float) -> str:
    """Draw one bar: full from 0 to the interval, pale over the interval, a line at the estimate."""
    if estimate is None:
        return ""

    def x(value: float) -> float:
        return round((min(max(value, bottom), top) - bottom) / (top - bottom) * _BAR_WIDTH, 1)

    zero, middle = x(0.0), x(estimate.value)
    start, end = x(min(estimate.start, estimate.reach)), x(estimate.reach)
    first, last = (zero, start) if start >= zero else (end, zero) if end < zero else (zero, zero)
    solid, pale = round(last - first, 1), round(end - start, 1)
    return tag(
        "svg",
        tag("rect", x=first, y=0, width=solid, height=_BAR_HEIGHT, fill=BLUE),
        tag("rect", x=start, y=0, width=pale, height=_BAR_HEIGHT, fill=BLUE, fill_opacity=0.35),
        tag("line", x1=middle, y1=0, x2=middle, y2=_BAR_HEIGHT, stroke="currentColor"),
        width=_BAR_WIDTH,
        height=_BAR_HEIGHT,
        role="img",
        aria_label=" ".join(estimate.text()).strip(),
    )


def document(title: str, body: str) -> str:
    """Write a page around HTML."""
    head = f'<meta charset="utf-8"><title>{escape(escape_controls(title))}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


_STYLE = "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}th,td{padding:.2em .6em}"

_WIDTH, _HEIGHT, _MARGIN, _BOTTOM, _TOP = 360, 170, 34, 28, 8


def curve_svg(curves: Sequence[PValueCurve], what: str) -> str:
    """Draw curves as one inline SVG with classes `axis`, `claim` (marked places) and `l0` to `l2` (lines)."""
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return ""
    top, wide, high = widest(drawn), _WIDTH - _MARGIN - 8, _HEIGHT - _BOTTOM - _TOP

    def x(value: float) -> float:
        return round(_MARGIN + wide * value / top, 1)

    def y(value: float) -> float:
        return round(_TOP + high * (1 - min(value, 1.0)), 1)

    parts = [
        tag("line", class_="axis", x1=_MARGIN, y1=y(0), x2=_WIDTH - 8, y2=y(0)),
        tag("line", class_="axis", x1=_MARGIN, y1=y(0), x2=_MARGIN, y2=y(1)),
    ]
    parts += [
        tag("text", f"{value:g}", x=_MARGIN - 4, y=y(value) + 4, text_anchor="end")
        for value in (0.0, 0.5, 1.0)
    ]
    parts += [
        tag("text", f"{value:.3g}", x=x(value), y=_HEIGHT - 10, text_anchor="middle")
        for value in (top * i / 4 for i in range(5))
    ]
    for i, curve in enumerate(drawn):
        line, at = f"l{i % 3}", x(curve.marked)
        if curve.marked <= top:
            parts.append(tag("line", class_=f"claim {line}", x1=at, y1=y(0), x2=at, y2=y(1)))
        points = " ".join(f"{x(place)},{y(value)}" for place, value in curve.points)
        parts.append(tag("g", tag("title", escape(curve.label)), tag("polyline", class_=line, points=points)))
    view = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", *parts, width=_WIDTH, height=_HEIGHT, viewBox=view, role="img", aria_label=what)
