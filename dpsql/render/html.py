"""Releases and curves as HTML with inline SVG: no script, nothing fetched, everything escaped.

One number of a release is drawn as bars with intervals: as SVG, by matplotlib, by Altair.
"""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError, ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.render.column_values import value_text, values
from dpsql.render.figures import number
from dpsql.render.grid import Style, cut, escape_controls, width
from dpsql.render.plots import axis, widest
from dpsql.render.readable import (
    assumptions,
    estimates,
    line,
    ordering_estimates,
    ordering_number,
    places,
    price,
    summary,
)
from dpsql.render.table import public_columns, release_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.places import NumberPlace
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
    heads, columns = _table_cells(release_columns(release, Style(), none="", most=_ROWS))
    estimates = ordering_estimates(release)[:_ROWS]
    ends = axis(estimates)
    if ends is not None:
        heads.append(tag("th", **_LEFT))
        columns.append([tag("td", _html_bar(estimate, *ends), **_LEFT) for estimate in estimates])
    notes = _note_left_out(release.rows)
    notes += [text] if (text := line(release)) else []
    notes += [" · ".join(summary(release, total)), *assumptions(release), *release.warnings]
    return tag("div", table(heads, zip(*columns, strict=True)), _notes_below(notes), class_="dpsql")


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


def _html_bar(estimate: Estimate | None, bottom: float, top: float) -> str:
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


@dataclass(frozen=True, slots=True)
class Bars:
    """The rows of a release for a chart: labels, and one number with its interval each."""

    column: str
    """The name of the number."""
    labels: list[str]
    """The keys of each row, joined; control characters are escaped."""
    estimates: list[Estimate]

    @classmethod
    def of(cls, release: Released, column: str | int | None = None) -> Bars:
        """Take a noisy number of a release, by default the one that orders its rows; leave out NULLs.

        Raises `ProgrammingError` if there is no such number, or if several have the name.
        """
        number = _find_number(release, column)
        name, rows = release.rows.column_names[number.place], release.rows
        keys = [values(rows.column(place)) for place in places(release).keys]
        labels = [_row_label(row) for row in zip(*keys, strict=True)] or [name] * rows.num_rows
        pairs = [
            (label, estimate)
            for label, estimate in zip(labels, estimates(release, number), strict=True)
            if estimate is not None
        ]
        drawn = [estimate for _, estimate in pairs]
        return cls(name, [label for label, _ in pairs], drawn)


def _find_number(release: Released, column: str | int | None) -> NumberPlace:
    """Return the number that a name or a place means, by default the one that orders the rows."""
    first = ordering_number(release)
    if column is None and first is not None:
        return first
    names, numbers = release.rows.column_names, places(release).numbers
    found = [n for n in numbers if column in (names[n.place], n.place)]
    if len(found) == 1:
        return found[0]
    hint = ", ".join(names[n.place] for n in numbers)
    hint = f"\nHint: it has {hint}" if hint else ""
    if found:
        listed = ", ".join(str(n.place) for n in found)
        raise ProgrammingError(
            f"the release has several numbers called {column!r}\nHint: give the place of one: {listed}"
        )
    named = "no noisy number" if column is None else f"no noisy number {column!r}"
    raise ProgrammingError(f"the release has {named} to draw{hint}")


def _row_label(row: tuple[Any, ...]) -> str:
    return escape_controls(" · ".join("NULL" if value is None else value_text(value) for value in row))


_CELL, _LINE, _BAR, _SPACE = 8, 22, 14, 8
"""Pixels: the most that a character is wide, the height of a row and of its bar, the space of columns."""
_WIDEST_LABEL, _BARS = 40, 320
"""Characters of a label, and pixels of the longest bar."""


def _chart_note(release: Released, estimates: list[Estimate]) -> str:
    """Return the line of a chart on its price, its mechanism, and the level of the intervals."""
    bounded = any(e.unit is not None for e in estimates)
    level = f"{number(float(release.confidence * 100))}% intervals" if bounded else ""
    parts = (price(release.charge), release.mechanism, level)
    return " · ".join(escape_controls(part) for part in parts if part)


def release_svg(release: Released, column: str | int | None = None) -> str:
    """Draw a number of a release as an SVG file: bars, pale over their intervals, and the price below."""
    bars = Bars.of(release, column)
    labels = [cut(label, _WIDEST_LABEL) for label in bars.labels]
    numbers = [" ".join(estimate.text()).strip() for estimate in bars.estimates]
    left = max(map(width, labels), default=0) * _CELL + _SPACE
    right = max(map(width, numbers), default=0) * _CELL + _SPACE
    note = _chart_note(release, bars.estimates)
    size = max(left + _BARS + _SPACE + right, width(note) * _CELL)
    height = _LINE * (len(labels) + 2) + _SPACE
    bottom, top = axis(list(bars.estimates)) or (0.0, 1.0)

    def x(value: float) -> float:
        return round(left + (min(max(value, bottom), top) - bottom) / (top - bottom) * _BARS, 1)

    parts = [tag("text", escape(escape_controls(bars.column)), x=left, y=_LINE - _SPACE, font_weight="bold")]
    for i, (label, value, estimate) in enumerate(zip(labels, numbers, bars.estimates, strict=True)):
        y, base = _LINE * (i + 1), _LINE * (i + 2) - _SPACE
        parts.append(tag("text", escape(label), x=left - _SPACE, y=base, text_anchor="end"))
        parts += _svg_bar(estimate, x, y)
        parts.append(tag("text", escape(value), x=left + _BARS + _SPACE, y=base))
    parts.append(
        tag("line", x1=x(0), y1=_LINE - 2, x2=x(0), y2=_LINE * (len(labels) + 1), stroke="currentColor")
    )
    parts.append(tag("text", escape(note), x=0, y=height - _SPACE, opacity=0.75))
    return tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        width=size,
        height=height,
        viewBox=f"0 0 {size} {height}",
        font_family="monospace",
        font_size=12,
        fill="currentColor",
        role="img",
        aria_label=escape_controls(f"{bars.column} of {len(labels)} rows"),
    )


def _svg_bar(estimate: Estimate, x: Any, y: int) -> list[str]:  # noqa: ANN401  x is the scale, number to pixel
    start, end = x(min(estimate.start, estimate.reach)), x(estimate.reach)
    zero, middle = x(0.0), x(estimate.value)
    first, last = (zero, start) if start >= zero else (end, zero) if end < zero else (zero, zero)
    drawn = [tag("rect", x=first, y=y, width=round(last - first, 1), height=_BAR, fill=BLUE)]
    drawn.append(
        tag("rect", x=start, y=y, width=round(end - start, 1), height=_BAR, fill=BLUE, fill_opacity=0.35)
    )
    return [*drawn, tag("line", x1=middle, y1=y, x2=middle, y2=y + _BAR, stroke="currentColor")]


def plot_release(release: Released, column: str | int | None = None) -> Any:  # noqa: ANN401  an object of another package
    """Draw a number of a release by matplotlib, or by Altair where only that is installed.

    Returns matplotlib's `Axes` or Altair's `LayerChart`. Raises `InterfaceError` if neither is installed.
    """
    bars = Bars.of(release, column)
    for package, draw in (("matplotlib", _matplotlib), ("altair", _altair)):
        if find_spec(package) is not None:
            return draw(bars, _chart_note(release, bars.estimates))
    raise InterfaceError(
        "a plot needs matplotlib or altair\n"
        "Hint: pip install 'dpsql[plot]', or use to_svg(), which needs neither"
    )


def _matplotlib(bars: Bars, note: str) -> Any:  # noqa: ANN401  matplotlib's Axes
    from matplotlib import pyplot

    places = range(len(bars.labels))
    _, axes = pyplot.subplots(figsize=(7, 0.4 * len(bars.labels) + 1.4), layout="constrained")
    axes.barh(places, [estimate.value for estimate in bars.estimates], color=BLUE)
    sides = [_interval_sides(estimate) for estimate in bars.estimates]
    axes.errorbar(
        [estimate.value for estimate in bars.estimates],
        places,
        xerr=[[below for below, _ in sides], [above for _, above in sides]],
        fmt="none",
        ecolor="black",
        capsize=3,
    )
    # Names of keys are no formulas: matplotlib reads what stands between dollar signs.
    axes.set_yticks(places, [label.replace("$", r"\$") for label in bars.labels])
    axes.invert_yaxis()
    axes.set_xlabel(bars.column.replace("$", r"\$"))
    axes.set_title(note.replace("$", r"\$"), fontsize="small", loc="left")
    return axes


def _interval_sides(estimate: Estimate) -> tuple[float, float]:
    """Return how far the interval reaches below and above the value; without a lower end, to 0."""
    return estimate.value - estimate.start, estimate.reach - estimate.value


def _altair(bars: Bars, note: str) -> Any:  # noqa: ANN401  Altair's LayerChart
    import altair

    rows = []
    for i, (label, estimate) in enumerate(zip(bars.labels, bars.estimates, strict=True)):
        below, above = _interval_sides(estimate)
        ends = {"low": estimate.value - below, "high": estimate.value + above}
        rows.append({"place": i, "label": label, "value": estimate.value, **ends})
    base = altair.Chart(altair.Data(values=rows), title=altair.Title(note, fontSize=11, anchor="start"))
    labels = altair.Y("label:N", sort=altair.EncodingSortField("place"), title=None)
    solid = base.mark_bar(color=BLUE).encode(x=altair.X("value:Q", title=bars.column), y=labels)
    rule = base.mark_rule().encode(x=altair.X("low:Q", title=bars.column), x2="high:Q", y=labels)
    return altair.layer(solid, rule)
