"""Releases and curves as HTML with inline SVG: no script, nothing fetched, everything escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpsql.render.column_values import values
from dpsql.render.drawing import draw
from dpsql.render.grid import Style, escape_controls
from dpsql.render.picture_choice import picture_of
from dpsql.render.plots import axis, widest
from dpsql.render.readable import assumptions, line, ordering_estimates, summary
from dpsql.render.svg_elements import draw_bar, make_node, make_scale, write_markup
from dpsql.render.table import public_columns, release_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.render.figures import Estimate
    from dpsql.render.grid import TextColumn
    from dpsql.render.pictures import Picture
    from dpsql.render.plots import PValueCurve
    from dpsql.render.readable import Released

_ROWS, _OPEN = 200, 25
"""Rows that are drawn, the others are counted below; rows of a table that is open below a picture."""
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
    """Draw a release: its picture, and a table of counts with their noise and gaps; bars stand in its rows.

    `total` is the whole budget, for "epsilon 1 of 10".
    """
    heads, columns = _table_cells(release_columns(release, Style(), none="", most=_ROWS))
    picture, above = picture_of(release), ""
    if picture is not None and picture.kind == "bars":
        estimates = ordering_estimates(release)[:_ROWS]
        if (ends := axis(estimates)) is not None:
            heads.append(tag("th", **_LEFT))
            columns.append([tag("td", _html_bar(picture, each, ends), **_LEFT) for each in estimates])
    elif picture is not None:
        above = write_markup(draw(picture, foot=False))
    notes = _note_left_out(release.rows)
    notes += [text] if (text := line(release)) else []
    notes += [" · ".join(summary(release, total)), *assumptions(release), *release.warnings]
    found = table(heads, zip(*columns, strict=True))
    if above and release.rows.num_rows > _OPEN:
        found = tag("details", tag("summary", f"{release.rows.num_rows:,} rows"), found)
    return tag("div", above, found, _notes_below(notes), class_="dpsql")


def rows_html(rows: pa.Table) -> str:
    """Draw a result that reads nothing private as a table."""
    heads, columns = _table_cells(public_columns(rows.slice(0, _ROWS), Style()))
    return tag(
        "div", table(heads, zip(*columns, strict=True)), _notes_below(_note_left_out(rows)), class_="dpsql"
    )


def _table_cells(columns: Iterable[TextColumn]) -> tuple[list[str], list[list[str]]]:
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


def _notes_below(notes: Iterable[str]) -> str:
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


def _html_bar(picture: Picture, estimate: Estimate | None, ends: tuple[float, float]) -> str:
    """Draw one bar in the row of a table."""
    if estimate is None:
        return ""
    drawn = draw_bar(estimate, make_scale(ends, 0, _BAR_WIDTH), 0, _BAR_HEIGHT)
    label = picture.text(estimate)
    size = {"width": _BAR_WIDTH, "height": _BAR_HEIGHT}
    return write_markup(make_node("svg", *drawn, **size, role="img", aria_label=label))


def document(title: str, body: str) -> str:
    """Write a page around HTML."""
    narrow = '<meta name="viewport" content="width=device-width">'
    named = f"<title>{escape(escape_controls(title))}</title>"
    head = f'<meta charset="utf-8">{narrow}{named}<style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


_STYLE = (
    "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}th,td{padding:.2em .6em}"
    "svg[viewBox]{max-width:100%;height:auto}"
    "@media(max-width:30em){body{margin:1em .5em}th,td{padding:.2em .3em;font-size:90%}td svg{zoom:.45}}"
)

_CURVES = "p-value against the epsilon tested"
_WIDTH, _HEIGHT, _MARGIN, _BOTTOM, _TOP = 360, 170, 34, 28, 8


def curve_svg(curves: Sequence[PValueCurve]) -> str:
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
    return tag("svg", *parts, width=_WIDTH, height=_HEIGHT, viewBox=view, role="img", aria_label=_CURVES)
