"""Elements of drawings: a tree of nodes, bars, axes, lines over time, and their markup.

A drawing is a tree of lists, `[name, attributes, child, ..]`, whose texts are not escaped yet: `write_markup`
writes it as XML, and the page makes elements of it. Colours are attributes, for files and notebooks; the
page's style sheet has others for its light and dark colours, by the classes of elements.
"""

from __future__ import annotations

import datetime
import math
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dpsql.render.figures import number
from dpsql.render.grid import cut, width
from dpsql.render.pictures import extent, segments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpsql.render.figures import Estimate
    from dpsql.render.pictures import Picture


Node = list[Any]
"""A name, a dict of attributes, then children: nodes and texts."""
ELEMENTS = frozenset({"svg", "title", "g", "rect", "line", "path", "text"})
"""The names of all elements of drawings."""
COLOURS = ("#4c78a8", "#c4601a", "#2f8f5b", "#8a5fb0", "#a8873a")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4")
"""Colours and dashes of series: lines differ by both."""
CELL, LINE = 7.4, 18
"""Pixels: the most that a character of a text is wide, and the height of a line of text."""


def make_node(name: str, *children: Node | str, **attributes: object) -> Node:
    """Make an element; an underscore in an attribute's name is a hyphen, one at its end is dropped."""
    named = {key.rstrip("_").replace("_", "-"): _round(value) for key, value in attributes.items()}
    return [name, named, *children]


def _round(value: object) -> object:
    return round(value, 1) if isinstance(value, float) and abs(value) >= 1 else value


def write_markup(drawn: Node | str) -> str:
    """Write a drawing as XML, with everything escaped.

    >>> write_markup(make_node("text", "a < b", text_anchor="end"))
    '<text text-anchor="end">a &lt; b</text>'
    """
    if isinstance(drawn, str):
        return escape(drawn)
    name, attributes, *children = drawn
    given = "".join(f' {key}="{escape(str(value))}"' for key, value in attributes.items())
    return (
        f"<{name}{given}>{''.join(map(write_markup, children))}</{name}>" if children else f"<{name}{given}/>"
    )


def count_fitting(pixels: float) -> int:
    """Return how many characters have room."""
    return max(3, int(pixels / CELL))


def measure_text(text: str) -> float:
    """Return the pixels that a text takes at most; capital letters are wider than others, m and w most."""
    wide = sum(3 if letter in "mwMW" else letter.isupper() for letter in text)
    return (width(text) + wide / 4) * CELL


def draw_text(
    text: str, x: float, y: float, anchor: str = "", *, weight: bool = False, faint: bool = False
) -> Node:
    """Write a text at a place, or one that ends there or is in the middle of it."""
    more: dict[str, object] = {"text_anchor": anchor} if anchor else {}
    more |= {"font_weight": "bold"} if weight else {}
    more |= {"opacity": 0.8, "class_": "faint"} if faint else {}
    return make_node("text", text, x=x, y=y, **more)


def draw_line(x1: float, y1: float, x2: float, y2: float, kind: str = "axis", **more: object) -> Node:
    """Draw a straight line: of an axis, of a grid behind, or another kind."""
    opacity = {"axis": 0.5, "grid": 0.15}.get(kind, 1)
    return make_node(
        "line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind, stroke="currentColor", stroke_opacity=opacity, **more
    )


def draw_rect(x: float, y: float, wide: float, high: float, kind: str, opacity: float = 1.0) -> Node:
    """Draw a rectangle in the first colour."""
    return make_node(
        "rect",
        x=x,
        y=y,
        width=max(wide, 0.0),
        height=high,
        class_=kind,
        fill=COLOURS[0],
        fill_opacity=opacity,
    )


def list_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers within an interval, `most` at most.

    >>> list_ticks(0, 1234, 5), list_ticks(-3, 8, 4)
    ([0.0, 500.0, 1000.0], [0.0, 5.0])
    """
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    exponent = math.floor(math.log10(span / max(most, 1)))
    steps = (factor * 10.0**e for e in range(exponent, exponent + 3) for factor in (1, 2, 5))
    for step in steps:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [round(i * step, 12) + 0.0 for i in range(first, last + 1)]
    return [low]


def write_tick(value: float, *, dated: bool = False) -> str:
    """Write a number at an axis, or a day.

    >>> write_tick(1500.0), write_tick(2_500_000.0), write_tick(0.25)
    ('1,500', '2.5M', '0.25')
    """
    if dated:
        return str(datetime.date.fromordinal(max(1, round(value))))
    if abs(value) >= 1e6:
        for size, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
            if abs(value) >= size:
                return f"{value / size:.4g}{sign}"
    return f"{value:,.0f}" if abs(value) >= 1000 else number(value)


def draw_bar(
    estimate: Estimate,
    x: Callable[[float], float],
    y: float,
    high: float,
    colour: str = COLOURS[0],
    kind: str = "s0",
) -> list[Node]:
    """Draw one bar: full from zero to the interval, pale over it, ends where it ends, a mark at the number.

    Where the interval has no end, the pale part has none either.
    """
    start, end = x(min(estimate.start, estimate.reach)), x(estimate.reach)
    zero, middle = x(0.0), x(estimate.value)
    first, last = (zero, start) if start >= zero else (end, zero) if end < zero else (zero, zero)
    drawn = [
        make_node(
            "rect", x=first, y=y, width=round(last - first, 1), height=high, class_=f"bar {kind}", fill=colour
        )
    ]
    pale = round(end - start, 1)
    if pale > 0:
        drawn.append(
            make_node(
                "rect",
                x=start,
                y=y,
                width=pale,
                height=high,
                class_=f"band {kind}",
                fill=colour,
                fill_opacity=0.35,
            )
        )
    ends = [x(bound) for bound in (estimate.low, estimate.high) if bound is not None]
    drawn += [draw_line(at, y + high / 4, at, y + high * 3 / 4, "end") for at in ends]
    return [*drawn, draw_line(middle, y, middle, y + high, "mark", stroke_width=2)]


def make_scale(ends: tuple[float, float], left: float, right: float) -> Callable[[float], float]:
    """Return the function from numbers within two ends to pixels; what is beyond an end is drawn at it."""
    bottom, top = ends

    def x(value: float) -> float:
        return round(left + (min(max(value, bottom), top) - bottom) / (top - bottom) * (right - left), 1)

    return x


def _band(points: Sequence[tuple[float, float, float]]) -> str:
    """Return the outline of a band through places with their lower and upper ends."""
    upper = [f"{x} {high}" for x, _, high in points]
    lower = [f"{x} {low}" for x, low, _ in reversed(points)]
    return f"M{'L'.join([*upper, *lower])}Z"


def _curve(
    picture: Picture, place: int, x: Callable[[float], float], y: Callable[[float], float], *, alone: bool
) -> list[Node]:
    """Draw the line of a series with its band, broken where a period is missing."""
    each = picture.series[place]
    look = 0 if alone else place
    colour, dash, kind = COLOURS[look], DASHES[look], f"s{look}"
    parts = []
    for part in segments(picture, each):
        found = [(x(picture.at[i]), e) for i in part if (e := each.estimates[i]) is not None]
        ranged = [(at, y(e.low), y(e.high)) for at, e in found if e.low is not None and e.high is not None]
        if len(ranged) > 1:
            parts.append(
                make_node("path", d=_band(ranged), class_=f"band {kind}", fill=colour, fill_opacity=0.25)
            )
        if len(ranged) == 1 or len(found) == 1:
            at, e = found[0]
            parts.append(
                make_node(
                    "path",
                    d=f"M{at} {y(e.start)}V{y(e.reach)}M{at - 3} {y(e.value)}h6",
                    class_=f"line {kind}",
                    stroke=colour,
                    stroke_width=2,
                )
            )
        points = "L".join(f"{at} {y(e.value)}" for at, e in found)
        more = {"stroke_dasharray": dash} if dash else {}
        parts.append(
            make_node(
                "path",
                d=f"M{points}",
                class_=f"line {kind}",
                fill="none",
                stroke=colour,
                stroke_width=2,
                **more,
            )
        )
    return parts


def _time_ticks(picture: Picture, x: Callable[[float], float]) -> list[tuple[float, str]]:
    """Return labels of the axis of time that do not meet: every n-th label."""
    room = max(map(measure_text, picture.labels)) + 12
    places = [x(at) for at in picture.at]
    for step in range(1, len(places)):
        if all(after - before >= room for before, after in pairwise(places[::step])):
            return list(zip(places[::step], picture.labels[::step], strict=True))
    return [(places[0], picture.labels[0])]


def draw_lines(picture: Picture, wide: int) -> tuple[list[Node], float]:
    """Draw lines over time with bands over their intervals, and their names at their ends."""
    high = 200 if wide < 520 else 260
    ends = extent(picture) or (0.0, 1.0)
    numbers = list_ticks(*ends, 5)
    left = max(measure_text(write_tick(value)) for value in numbers) + 8
    single = picture.kind == "line"
    names = [each.name for each in picture.series]
    right = wide - 14 if single else wide - min(max(map(measure_text, names)) + 14, wide * 0.3)
    up = make_scale(ends, high - 24, 8)
    x = make_scale((picture.at[0], picture.at[-1]), left + 6, right - 6)
    parts: list[Node] = []
    for value in numbers:
        parts.append(draw_line(left, up(value), right, up(value), "axis" if value == 0 else "grid"))
        parts.append(draw_text(write_tick(value), left - 6, up(value) + 4, "end"))
    for at, label in _time_ticks(picture, x):
        side = (
            "start"
            if at - measure_text(label) / 2 < 0
            else "end"
            if at + measure_text(label) / 2 > wide
            else "middle"
        )
        parts.append(draw_line(at, high - 24, at, high - 20))
        parts.append(draw_text(label, at, high - 6, side))
    for i in range(len(picture.series)):
        parts += _curve(picture, i, x, up, alone=single)
    if not single:
        parts += _end_names(picture, up, right, high - 24, wide)
    parts += _hover(picture, x, left, right, high - 24)
    return parts, float(high)


def _end_names(
    picture: Picture, up: Callable[[float], float], right: float, bottom: float, wide: int
) -> list[Node]:
    """Write the name of each line at its end, parted where they would meet."""
    found = []
    for i, each in enumerate(picture.series):
        last = next((e for e in reversed(each.estimates) if e is not None), None)
        found.append((up(last.value) if last is not None else bottom, i, each.name))
    parts, free = [], -math.inf
    found.sort()
    over = sum(15 for _ in found)
    for at, i, name in found:
        place = max(at, free, 10.0)
        free = place + 15
        over -= 15
        place = min(place, bottom - over)
        words = cut(name, count_fitting(wide - right - 8))
        parts.append(make_node("text", words, x=right + 6, y=place + 4, class_=f"name s{i}", fill=COLOURS[i]))
    return parts


def _hover(
    picture: Picture, x: Callable[[float], float], left: float, right: float, high: float
) -> list[Node]:
    """Return a clear area over each place in time, whose title has its numbers; none if too narrow."""
    if len(picture.at) > right - left:
        return []
    places = [x(at) for at in picture.at]
    edges = [left, *((a + b) / 2 for a, b in pairwise(places)), right]
    parts = []
    for i, label in enumerate(picture.labels):
        texts = [
            f"{each.name} {picture.text(e)}".strip()
            for each in picture.series
            if (e := each.estimates[i]) is not None
        ]
        area = make_node(
            "rect",
            make_node("title", f"{label}: {'; '.join(texts)}"),
            x=edges[i],
            y=0,
            width=edges[i + 1] - edges[i],
            height=high,
            class_="hover",
            fill="transparent",
        )
        parts.append(area)
    return parts


def draw_panels(picture: Picture, wide: int) -> tuple[list[Node], float]:
    """Draw a small frame with a line for each group; all frames have one scale."""
    columns = max(1, min(len(picture.series), wide // 168))
    ends = extent(picture) or (0.0, 1.0)
    label = write_tick(list_ticks(*ends, 3)[-1])
    left = measure_text(label) + 8
    each_wide, high = (wide - left) / columns, 88.0
    parts: list[Node] = []
    for i, each in enumerate(picture.series):
        row, column = divmod(i, columns)
        x0, y0 = left + column * each_wide, row * high
        x = make_scale((picture.at[0], picture.at[-1]), x0, x0 + each_wide - 12)
        up = make_scale(ends, y0 + high - 8, y0 + 22)
        high_tick = list_ticks(*ends, 3)[-1]
        drawn = [make_node("title", f"{each.name}: {_ends_of(picture, i)}")]
        drawn.append(draw_text(cut(each.name, count_fitting(each_wide - 12)), x0, y0 + 14))
        for value in (list_ticks(*ends, 3)[0], high_tick):
            drawn.append(draw_line(x0, up(value), x0 + each_wide - 12, up(value), "grid"))
            if column == 0:
                drawn.append(draw_text(write_tick(value), x0 - 6, up(value) + 4, "end"))
        drawn += _curve(picture, i, x, up, alone=True)
        parts.append(make_node("g", *drawn))
    rows = -(-len(picture.series) // columns)
    bottom = rows * high + 14
    first, last = picture.labels[0], picture.labels[-1]
    for column in range(min(columns, len(picture.series))):
        x0 = left + column * each_wide
        if measure_text(first) + measure_text(last) + 12 < each_wide - 12:
            parts.append(draw_text(last, x0 + each_wide - 12, bottom, "end"))
        parts.append(draw_text(cut(first, count_fitting(each_wide - 12)), x0, bottom))
    return parts, bottom + 4


def _ends_of(picture: Picture, place: int) -> str:
    found = [
        (label, e)
        for label, e in zip(picture.labels, picture.series[place].estimates, strict=True)
        if e is not None
    ]
    if not found:
        return "no numbers"
    (first, one), (last, other) = found[0], found[-1]
    return f"{first} {picture.text(one)} to {last} {picture.text(other)}"
