"""Draws lines over time: one, several in one frame, or a small frame for each group."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from dpsql.render.grid import cut
from dpsql.render.pictures import extent, segments
from dpsql.render.svg_elements import (
    COLOURS,
    DASHES,
    count_fitting,
    draw_line,
    draw_text,
    list_ticks,
    make_node,
    make_scale,
    measure_text,
    write_tick,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpsql.render.pictures import Picture
    from dpsql.render.svg_elements import Node


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
