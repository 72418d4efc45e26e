"""Draws one number of a release as bars with intervals: as SVG, by matplotlib, by Altair."""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError, ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.render.cells import cut, escape_controls, width
from dpsql.render.figures import number
from dpsql.render.html import BLUE, tag
from dpsql.render.plots import axis
from dpsql.render.readable import estimates, orders, places, price
from dpsql.render.values import text, values

if TYPE_CHECKING:
    from dpsql.places import NumberPlace
    from dpsql.render.figures import Estimate
    from dpsql.render.readable import Released


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
        number = _number(release, column)
        name, rows = release.rows.column_names[number.place], release.rows
        keys = [values(rows.column(place)) for place in places(release).keys]
        labels = [_label(row) for row in zip(*keys, strict=True)] or [name] * rows.num_rows
        pairs = [
            (label, estimate)
            for label, estimate in zip(labels, estimates(release, number), strict=True)
            if estimate is not None
        ]
        drawn = [estimate for _, estimate in pairs]
        return cls(name, [label for label, _ in pairs], drawn)


def _number(release: Released, column: str | int | None) -> NumberPlace:
    """Return the number that a name or a place means, by default the one that orders the rows."""
    first = orders(release)
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


def _label(row: tuple[Any, ...]) -> str:
    return escape_controls(" · ".join("NULL" if value is None else text(value) for value in row))


_CELL, _LINE, _BAR, _SPACE = 8, 22, 14, 8
"""Pixels: the most that a character is wide, the height of a row and of its bar, the space of columns."""
_WIDEST_LABEL, _BARS = 40, 320
"""Characters of a label, and pixels of the longest bar."""


def _note(release: Released, estimates: list[Estimate]) -> str:
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
    note = _note(release, bars.estimates)
    size = max(left + _BARS + _SPACE + right, width(note) * _CELL)
    height = _LINE * (len(labels) + 2) + _SPACE
    bottom, top = axis(list(bars.estimates)) or (0.0, 1.0)

    def x(value: float) -> float:
        return round(left + (min(max(value, bottom), top) - bottom) / (top - bottom) * _BARS, 1)

    parts = [tag("text", escape(escape_controls(bars.column)), x=left, y=_LINE - _SPACE, font_weight="bold")]
    for i, (label, value, estimate) in enumerate(zip(labels, numbers, bars.estimates, strict=True)):
        y, base = _LINE * (i + 1), _LINE * (i + 2) - _SPACE
        parts.append(tag("text", escape(label), x=left - _SPACE, y=base, text_anchor="end"))
        parts += _bar(estimate, x, y)
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


def _bar(estimate: Estimate, x: Any, y: int) -> list[str]:  # noqa: ANN401  x is the scale, number to pixel
    start, end = x(min(estimate.start, estimate.reach)), x(estimate.reach)
    zero, middle = x(0.0), x(estimate.value)
    first, last = (zero, start) if start >= zero else (end, zero) if end < zero else (zero, zero)
    drawn = [tag("rect", x=first, y=y, width=round(last - first, 1), height=_BAR, fill=BLUE)]
    drawn.append(
        tag("rect", x=start, y=y, width=round(end - start, 1), height=_BAR, fill=BLUE, fill_opacity=0.35)
    )
    return [*drawn, tag("line", x1=middle, y1=y, x2=middle, y2=y + _BAR, stroke="currentColor")]


def plot(release: Released, column: str | int | None = None) -> Any:  # noqa: ANN401  an object of another package
    """Draw a number of a release by matplotlib, or by Altair where only that is installed.

    Returns matplotlib's `Axes` or Altair's `LayerChart`. Raises `InterfaceError` if neither is installed.
    """
    bars = Bars.of(release, column)
    for package, draw in (("matplotlib", _matplotlib), ("altair", _altair)):
        if find_spec(package) is not None:
            return draw(bars, _note(release, bars.estimates))
    raise InterfaceError(
        "a plot needs matplotlib or altair\n"
        "Hint: pip install 'dpsql[plot]', or use to_svg(), which needs neither"
    )


def _matplotlib(bars: Bars, note: str) -> Any:  # noqa: ANN401  matplotlib's Axes
    from matplotlib import pyplot

    places = range(len(bars.labels))
    _, axes = pyplot.subplots(figsize=(7, 0.4 * len(bars.labels) + 1.4), layout="constrained")
    axes.barh(places, [estimate.value for estimate in bars.estimates], color=BLUE)
    sides = [_sides(estimate) for estimate in bars.estimates]
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


def _sides(estimate: Estimate) -> tuple[float, float]:
    """Return how far the interval reaches below and above the value; without a lower end, to 0."""
    return estimate.value - estimate.start, estimate.reach - estimate.value


def _altair(bars: Bars, note: str) -> Any:  # noqa: ANN401  Altair's LayerChart
    import altair

    rows = []
    for i, (label, estimate) in enumerate(zip(bars.labels, bars.estimates, strict=True)):
        below, above = _sides(estimate)
        ends = {"low": estimate.value - below, "high": estimate.value + above}
        rows.append({"place": i, "label": label, "value": estimate.value, **ends})
    base = altair.Chart(altair.Data(values=rows), title=altair.Title(note, fontSize=11, anchor="start"))
    labels = altair.Y("label:N", sort=altair.EncodingSortField("place"), title=None)
    solid = base.mark_bar(color=BLUE).encode(x=altair.X("value:Q", title=bars.column), y=labels)
    rule = base.mark_rule().encode(x=altair.X("low:Q", title=bars.column), x2="high:Q", y=labels)
    return altair.layer(solid, rule)
