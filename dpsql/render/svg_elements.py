"""Elements of drawings: a tree of nodes, bars, axes, and their markup.

A drawing is a tree of lists, `[name, attributes, child, ..]`, whose texts are not escaped yet: `write_markup`
writes it as XML, and the page makes elements of it. Colours are attributes, for files and notebooks; the
page's style sheet has others for its light and dark colours, by the classes of elements.
"""

from __future__ import annotations

import datetime
import math
from html import escape
from typing import TYPE_CHECKING, Any

from dpsql.render.figures import number
from dpsql.render.grid import width

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.render.figures import Estimate

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
    named = {key.rstrip("_").replace("_", "-"): _rounded(value) for key, value in attributes.items()}
    return [name, named, *children]


def _rounded(value: object) -> object:
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
    """Return the pixels that a text takes at most; capital letters are wider than others."""
    return (width(text) + sum(letter.isupper() for letter in text) / 4) * CELL


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
