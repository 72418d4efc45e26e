"""Draws pictures as SVG: of a width, with texts that are cut to it, no script, nothing fetched."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpsql.errors import ProgrammingError
from dpsql.render.grid import cut, wrap
from dpsql.render.picture_choice import picture_of
from dpsql.render.pictures import extent
from dpsql.render.svg_elements import (
    COLOURS,
    LINE,
    count_fitting,
    draw_bar,
    draw_line,
    draw_lines,
    draw_panels,
    draw_rect,
    draw_text,
    list_ticks,
    make_node,
    make_scale,
    measure_text,
    write_markup,
    write_tick,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpsql.render.figures import Estimate
    from dpsql.render.pictures import Picture
    from dpsql.render.readable import Released
    from dpsql.render.svg_elements import Node

_WIDTH = 720
"""Pixels of a picture in a file or a notebook."""
WIDTHS = (344, 560, 800)
"""Pixels for which the page is given drawings."""


def draw(picture: Picture, wide: int = _WIDTH, *, foot: bool = True) -> Node:
    """Draw a picture so many pixels wide; with `foot`, its price and what it leaves out stand below."""
    top = 0.0
    parts: list[Node] = []
    for line in wrap(picture.title, count_fitting(wide)):
        parts.append(draw_text(line, 0, top + 14, weight=True))
        top += LINE
    drawer = {
        "number": _draw_numbers,
        "marks": _draw_marks,
        "line": draw_lines,
        "lines": draw_lines,
        "panels": draw_panels,
        "grouped": _draw_bars,
        "cells": _draw_cells,
        "bars": _draw_bars,
    }[picture.kind]
    drawn, high = drawer(picture, wide)
    parts.append(make_node("g", *drawn, transform=f"translate(0 {top + 6})"))
    top += high + 8
    notes = [picture.folded] if picture.folded else []
    notes += [picture.axis_note] if picture.axis_note else []
    notes += [each for each in (picture.left_out, picture.note) if each] if foot else []
    for note in notes:
        for line in wrap(note, count_fitting(wide)):
            parts.append(draw_text(line, 0, top + 14, faint=True))
            top += LINE
    return make_node(
        "svg",
        make_node("title", picture.describe()),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        width=wide,
        height=math.ceil(top) + 4,
        viewBox=f"0 0 {wide} {math.ceil(top) + 4}",
        font_family="system-ui, sans-serif",
        font_size=13,
        fill="currentColor",
        role="img",
        aria_label=picture.describe(),
    )


def _draw_bars(picture: Picture, wide: int) -> tuple[list[Node], float]:
    """Draw bars from zero, in groups where there are several series, and the rule of a threshold."""
    grouped = picture.kind == "grouped"
    rows = [
        (label, each.name if grouped else label, each.estimates[at], i)
        for at, label in enumerate(picture.labels)
        for i, each in enumerate(picture.series)
        if not grouped or each.estimates[at] is not None
    ]
    if not rows:
        return [draw_text("no numbers" if picture.labels or picture.folded else "no rows", 0, 14)], LINE
    texts = [picture.text(estimate) for _, _, estimate, _ in rows]
    narrow = wide < 520
    room = max(map(measure_text, texts)) + 10
    heads = (
        min(max(measure_text(head) for head, *_ in rows) + 10, wide * 0.24) if grouped and not narrow else 0.0
    )
    left = 0.0 if narrow else heads + min(max(measure_text(name) for _, name, *_ in rows) + 10, wide * 0.3)
    right = wide - 4 if narrow else wide - min(room, wide * 0.4)
    x = make_scale(extent(picture) or (0.0, 1.0), left, right)
    beside = max(measure_text(name) for _, name, *_ in rows) + room < wide - 8
    parts: list[Node] = []
    y = first = 0.0 if picture.threshold is None else float(LINE)
    for at, ((head, name, estimate, place), text) in enumerate(zip(rows, texts, strict=True)):
        begins = grouped and (at == 0 or rows[at - 1][0] != head)
        if begins and at:
            y += 8
        drawn: list[Node] = [make_node("title", f"{head} · {name}: {text}" if grouped else f"{name}: {text}")]
        if narrow:
            if begins:
                drawn.append(draw_text(cut(head, count_fitting(wide)), 0, y + 14, weight=True))
                y += LINE
            drawn.append(draw_text(cut(name, count_fitting(wide)), 0, y + 14))
            y += 0 if beside else LINE
            drawn.append(draw_text(text, wide - 4, y + 14, "end"))
            y += LINE + 2
        else:
            if begins:
                drawn.append(draw_text(cut(head, count_fitting(heads - 8)), 0, y + 13))
            drawn.append(draw_text(cut(name, count_fitting(left - heads - 8)), left - 8, y + 13, "end"))
            drawn.append(draw_text(cut(text, count_fitting(wide - right)), wide - 4, y + 13, "end"))
        if estimate is not None:
            drawn += draw_bar(estimate, x, y, 14 if narrow else 16, COLOURS[place], f"s{place}")
        y += 20 if narrow else 22
        parts.append(make_node("g", *drawn))
        if at < len(picture.gaps) and picture.gaps[at]:
            gap = f"gap {picture.gaps[at]}"
            parts.append(draw_text(f"↕ {gap}", left, y + 11, faint=True))
            y += LINE
    parts.append(draw_line(x(0.0), first - 2, x(0.0), y))
    if picture.threshold is not None:
        parts += _rule(picture.threshold, x, first - 2, y, wide)
    return parts, y


def _rule(threshold: float, x: Callable[[float], float], top: float, bottom: float, wide: int) -> list[Node]:
    at, words = x(threshold), f"threshold {write_tick(threshold)}"
    half = measure_text(words) / 2
    place = min(max(at, half), wide - half)
    return [
        draw_text(words, place, top - 4, "middle"),
        draw_line(at, top, at, bottom, "rule", stroke_width=2, stroke_dasharray="5 3"),
    ]


def _draw_cells(picture: Picture, wide: int) -> tuple[list[Node], float]:
    """Draw a table whose cells are shaded by their numbers; a range is the title of its cell."""
    left = min(max(map(measure_text, picture.labels)) + 10, wide * 0.3)
    names = [each.name for each in picture.series]
    longest, cell = max(map(measure_text, names)), (wide - left) / len(names)
    level, upright = longest <= cell - 4, cell < 26
    lean = 1.0 if upright else 0.72
    top = 20.0 if level else min(longest * lean + 14, 90.0)
    if not level and not upright:  # the last name leans beyond its column
        cell = (wide - left - max(0.0, min(longest, (top - 14) / lean) * 0.7 - cell / 2)) / len(names)
    high = 24
    ends = extent(picture) or (0.0, 1.0)
    most = max(abs(ends[0]), abs(ends[1])) or 1.0
    values = [e.text()[0] for e in picture.every]
    written = bool(values) and max(map(measure_text, values)) <= cell - 4
    parts: list[Node] = []
    for i, name in enumerate(names):
        x = left + i * cell + cell / 2
        if level:
            parts.append(draw_text(name, x, top - 6, "middle"))
        else:
            words = cut(name, count_fitting((top - 14) / lean))
            turned = f"rotate({-90 if upright else -46} {x + 4 * upright:.1f} {top - 6:.1f})"
            parts.append(make_node("text", words, x=x + 4 * upright, y=top - 6, transform=turned))
    for row, label in enumerate(picture.labels):
        y = top + row * high
        parts.append(draw_text(cut(label, count_fitting(left - 8)), left - 8, y + 16, "end"))
        for i, each in enumerate(picture.series):
            estimate = each.estimates[row]
            title = make_node(
                "title", f"{label} · {each.name}: {picture.text(estimate) if estimate else 'none'}"
            )
            drawn = [title]
            x = left + i * cell
            if estimate is None:
                drawn.append(
                    make_node(
                        "rect", x=x, y=y, width=cell - 1, height=high - 1, class_="none", fill="transparent"
                    )
                )
            else:
                shade = 0.06 + 0.64 * min(abs(estimate.value) / most, 1.0)
                drawn.append(draw_rect(x, y, cell - 1, high - 1, "cell s0", round(shade, 2)))
                if written:
                    drawn.append(draw_text(estimate.text()[0], x + cell / 2, y + 16, "middle"))
            parts.append(make_node("g", *drawn))
    return parts, top + len(picture.labels) * high


def _draw_numbers(picture: Picture, wide: int) -> tuple[list[Node], float]:
    """Draw each number large, and its range to scale below it."""
    parts: list[Node] = []
    y = 0.0
    for label, estimate in zip(picture.labels, picture.series[0].estimates, strict=True):
        if len(picture.labels) > 1:
            parts.append(draw_text(cut(label, count_fitting(wide)), 0, y + 14))
            y += LINE
        if estimate is None:
            parts.append(draw_text("NULL", 0, y + 26, weight=True))
            y += 40
            continue
        value, spread = estimate.text()
        parts.append(make_node("text", value, x=0, y=y + 28, font_size=28, font_weight="bold"))
        parts.append(draw_text(spread, len(value) * 18 + 12, y + 28))
        y += 40
        if estimate.unit is not None and estimate.farther > 0:
            far = estimate.farther * 1.35
            x = make_scale((estimate.value - far, estimate.value + far), 2, min(wide, 480) - 2)
            low = estimate.low if estimate.low is not None else estimate.value - far
            top = estimate.high if estimate.high is not None else estimate.value + far
            parts.append(draw_line(2, y + 7, min(wide, 480) - 2, y + 7, "grid"))
            parts.append(draw_rect(x(low), y, x(top) - x(low), 14, "band s0", 0.45))
            bounds = [bound for bound in (estimate.low, estimate.high) if bound is not None]
            parts += [draw_line(x(bound), y, x(bound), y + 14, "end") for bound in bounds]
            parts.append(
                draw_line(x(estimate.value), y - 2, x(estimate.value), y + 16, "mark", stroke_width=3)
            )
            y += 22
        y += 8
    return parts, y


def _draw_marks(picture: Picture, wide: int) -> tuple[list[Node], float]:
    """Draw marks on an axis that all rows share, with the names of the marks above those of the first row."""
    ends = extent(picture) or (0.0, 1.0)
    labelled = any(picture.labels)
    left = min(max(map(measure_text, picture.labels)) + 10, wide * 0.34) if labelled else 0.0
    many = len(picture.series) > 1
    x = make_scale(ends, left + 8, wide - 12)
    parts: list[Node] = []
    y = 0.0
    if many and labelled:  # a legend: marks differ by shape and colour
        at = left
        for i, each in enumerate(picture.series[: len(COLOURS)]):
            room = measure_text(each.name) + 28
            if at + room > wide:
                at, y = left, y + LINE
            parts += [_mark(i, at + 8, y + 9), draw_text(each.name, at + 18, y + 14)]
            at += room
        y += LINE + 6
    start = y
    for row, label in enumerate(picture.labels):
        found = [(i, e) for i, each in enumerate(picture.series) if (e := each.estimates[row]) is not None]
        drawn: list[Node] = []
        if labelled:
            words = "; ".join(f"{picture.series[i].name} {picture.text(e)}" for i, e in found)
            drawn += [
                make_node("title", f"{label}: {words}"),
                draw_text(cut(label, count_fitting(left - 8)), left - 4, y + 16, "end"),
            ]
        else:
            named, room = _names_above(picture, found, x, wide)
            drawn.append(make_node("g", *named))
            y += room
        if found:
            ends_at = [x(e.value) for _, e in found]
            drawn.append(draw_line(left + 8, y + 12, wide - 12, y + 12, "grid"))
            drawn.append(draw_line(min(ends_at), y + 12, max(ends_at), y + 12, "axis", stroke_width=3))
            drawn += [_mark(i, x(e.value), y + 12) for i, e in found]
        y += 24
        parts.append(make_node("g", *drawn))
    for value in list_ticks(*ends, max(2, int((wide - left) / 110))):
        words = write_tick(value, dated=picture.dated)
        parts.append(draw_line(x(value), start, x(value), y + 4, "grid"))
        if left + measure_text(words) / 2 <= x(value) <= wide - measure_text(words) / 2:
            parts.append(draw_text(words, x(value), y + 18, "middle"))
    return parts, y + 24


_SHAPES = (
    "M{x} {t}L{r} {y}L{x} {b}L{l} {y}Z",
    "M{l} {t}H{r}V{b}H{l}Z",
    "M{x} {t}L{r} {b}L{l} {b}Z",
    "M{l} {t}H{r}L{x} {b}Z",
    "M{x} {t}L{r} {y}L{x} {b}L{l} {y}Z",
)


def _mark(place: int, x: float, y: float) -> Node:
    look = place % len(COLOURS)
    path = _SHAPES[look].format(x=round(x, 1), y=y, l=round(x - 6, 1), r=round(x + 6, 1), t=y - 6, b=y + 6)
    return make_node(
        "path", d=path, class_=f"bar s{look}", fill=COLOURS[look], stroke="currentColor", stroke_width=1
    )


def _names_above(
    picture: Picture, found: Sequence[tuple[int, Estimate]], x: Callable[[float], float], wide: int
) -> tuple[list[Node], float]:
    """Write names and values above marks, in as many lines as keep them apart."""
    lines: list[float] = []
    placed = []
    for i, e in sorted(found, key=lambda pair: pair[1].value):
        words = f"{picture.series[i].name} {picture.text(e)}"
        half = min(measure_text(words), wide) / 2
        middle = min(max(x(e.value), half), wide - half)
        line = next((n for n, end in enumerate(lines) if end + 8 <= middle - half), len(lines))
        if line == len(lines):
            lines.append(0.0)
        lines[line] = middle + half
        placed.append((line, middle, words, x(e.value)))
    high = len(lines) * float(LINE)
    parts: list[Node] = []
    for line, middle, words, at in placed:
        y = high - line * LINE
        parts += [
            draw_line(at, y, at, high + 6, "grid"),
            draw_text(cut(words, count_fitting(wide)), middle, y - 4, "middle"),
        ]
    return parts, high


def release_svg(release: Released, column: str | int | None = None) -> str:
    """Draw a number of a release as an SVG file, with its price and what it leaves out below.

    Raises `ProgrammingError` if the release has no such number.
    """
    picture = picture_of(release, column)
    if picture is None:
        raise ProgrammingError("the release has no noisy number to draw")
    return write_markup(draw(picture))
