"""Draws pictures in characters, as wide as a terminal: lines with bands, shaded tables, marks, bars."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.render.grid import TextColumn, cut, draw, escape_controls, pad, span, width, wrap
from dpsql.render.pictures import extent
from dpsql.render.plots import axis, bars
from dpsql.render.svg_elements import list_ticks, write_tick

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.render.figures import Estimate
    from dpsql.render.grid import Style
    from dpsql.render.pictures import Picture, Series

_HEIGHT = 12
"""Lines of a chart over time."""
_WIDEST_NAME, _LEAST = 30, 20
"""Cells of a name where room is short, and cells that a chart has at least."""
_MARKS, _PLAIN_MARKS = "●▲■◆○", "o^#*+"


def text_picture(picture: Picture, style: Style) -> str:
    """Draw a picture in lines of characters; ends with a newline."""
    room = style.columns or 80
    if style.plain:
        picture = _escape(picture, style.encoding)
    drawer = {
        "number": _draw_numbers,
        "marks": _draw_marks,
        "line": _draw_lines,
        "lines": _draw_lines,
        "panels": _draw_panels,
        "grouped": _draw_bars,
        "cells": _draw_cells,
        "bars": _draw_bars,
    }[picture.kind]
    lines = [*wrap(picture.title, room), ""] if picture.kind != "bars" else []
    lines += drawer(picture, style, room)
    notes = [picture.axis_note, picture.folded, picture.left_out, picture.note]
    lines += [part for note in notes if note for part in wrap(note, room)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _escape(picture: Picture, encoding: str) -> Picture:
    """Return a picture whose texts have characters of an encoding alone."""

    def safe(text: str) -> str:
        return escape_controls(text.replace("±", "+-").replace(" · ", " - "), encoding)

    return replace(
        picture,
        of=safe(picture.of),
        by=tuple(map(safe, picture.by)),
        labels=tuple(map(safe, picture.labels)),
        series=tuple(replace(each, name=safe(each.name)) for each in picture.series),
        note=safe(picture.note),
        left_out=safe(picture.left_out),
        folded=safe(picture.folded),
    )


def _text(picture: Picture, estimate: Estimate | None, style: Style) -> str:
    if estimate is None or picture.dated:
        return picture.text(estimate)
    return " ".join(estimate.text(pm=style.pm)).strip()


def _places(ends: tuple[float, float], cells: int) -> Callable[[float], int]:
    """Return the function from numbers to one of a given number of cells."""
    bottom, top = ends

    def at(value: float) -> int:
        share = (min(max(value, bottom), top) - bottom) / (top - bottom)
        return min(cells - 1, max(0, round(share * (cells - 1))))

    return at


def _draw_bars(picture: Picture, style: Style, room: int) -> list[str]:
    if not picture.labels:
        return ["no rows"]
    grouped = len(picture.series) > 1
    rows = [
        (label if i == 0 else "", each.name, each.estimates[at])
        for at, label in enumerate(picture.labels)
        for i, each in enumerate(picture.series)
    ]
    estimates = [estimate for *_, estimate in rows]
    by = picture.by[0] if grouped else (" - " if style.plain else " · ").join(picture.by)
    columns = (
        [TextColumn(by, [label for label, *_ in rows])] if by or any(label for label, *_ in rows) else []
    )
    if grouped:
        columns.append(TextColumn(picture.by[1], [name for _, name, _ in rows]))
    numbers = [_text(picture, each, style) for each in estimates]
    columns.append(TextColumn(picture.of, numbers, right=True, firm=True))
    if any(picture.gaps):
        columns.append(TextColumn("gap", list(picture.gaps), right=True))
    taken = [column.width for column in columns]
    left = room - span(taken) - 3
    if left < _LEAST:  # long names are cut where they would leave no room for bars
        left = min(_LEAST, room - span([min(cells, _WIDEST_NAME) for cells in taken]) - 3)
    drawn = bars(estimates, left, style, widest=100)
    if drawn is not None and picture.threshold is not None:
        drawn = _rule(drawn, picture, style)
    lines = draw([*columns, drawn] if drawn else columns, style).splitlines()
    if picture.threshold is not None:
        lines.append(f"{_UPRIGHT[style.plain]} threshold {write_tick(picture.threshold)}")
    return lines


_UPRIGHT = "┃!"
"""The rule of a threshold; the second one of plain texts."""


def _rule(column: TextColumn, picture: Picture, style: Style) -> TextColumn:
    """Draw the rule of a threshold across bars that begin at the left."""
    ends, threshold = axis([*picture.every]), picture.threshold or 0.0
    if ends is None or ends[0] < 0 or not 0 < threshold <= ends[1]:
        return column
    place = min(column.width - 1, int(column.width * threshold / ends[1]))
    padded = [cell.ljust(column.width) for cell in column.cells]
    cells = [cell[:place] + _UPRIGHT[style.plain] + cell[place + 1 :] for cell in padded]
    return replace(column, cells=cells)


def _draw_numbers(picture: Picture, style: Style, room: int) -> list[str]:
    lines: list[str] = []
    line, band, mark, left_end, right_end = "-=|[]" if style.plain else "─━┃┣┫"
    for label, estimate in zip(picture.labels, picture.series[0].estimates, strict=True):
        lines.append(f"{label}  {style.paint(_text(picture, estimate, style), '1')}")
        if estimate is None or estimate.unit is None:
            continue
        far, cells = estimate.farther * 1.35, min(room, 60)
        at = _places((estimate.value - far, estimate.value + far), cells)
        low = 0 if estimate.low is None else at(estimate.low)
        high = cells - 1 if estimate.high is None else at(estimate.high)
        drawn = [band if low <= i <= high else line for i in range(cells)]
        if estimate.low is not None:
            drawn[low] = left_end
        if estimate.high is not None:
            drawn[high] = right_end
        drawn[at(estimate.value)] = mark
        lines.append("".join(drawn))
    return lines


def _draw_lines(picture: Picture, style: Style, room: int) -> list[str]:
    """Draw lines over time in a frame: a mark at each number, shading over its interval."""
    ends = extent(picture) or (0.0, 1.0)
    numbers = list_ticks(*ends, 4)
    left = max(width(write_tick(value)) for value in numbers) + 2
    cells = room - left
    across, up = _places((picture.at[0], picture.at[-1]), cells), _places(ends, _HEIGHT)
    shade, side, corner, base = ":|+-" if style.plain else "░│└─"
    frame = [[" "] * cells for _ in range(_HEIGHT)]
    single = len(picture.series) == 1
    marks = _PLAIN_MARKS if style.plain else _MARKS
    if single:
        for column, nearest in _over_columns(picture, picture.series[0], across):
            low = nearest.value if nearest.low is None else nearest.low
            for row in range(up(low), up(nearest.reach) + 1):
                frame[row][column] = shade
    for i, each in enumerate(picture.series):
        for at, estimate in zip(picture.at, each.estimates, strict=True):
            if estimate is not None:
                frame[up(estimate.value)][across(at)] = marks[i % len(marks)]
    labels = {up(value): write_tick(value) for value in numbers}
    rows = reversed(range(_HEIGHT))
    lines = [f"{labels.get(row, ''):>{left - 2}} {side}{''.join(frame[row])}" for row in rows]
    lines.append(" " * (left - 1) + corner + base * cells)
    below, last = [" "] * (cells + left), -1
    for at, label in zip(picture.at, picture.labels, strict=True):
        start = left + min(across(at), cells - width(label))
        if start > last:
            below[start : start + width(label)] = label
            last = start + width(label) + 1
    lines.append("".join(below))
    if not single:
        names = (f"{marks[i % len(marks)]} {each.name}" for i, each in enumerate(picture.series))
        lines += [*wrap("   ".join(names), room), "the ranges are in the table"]
    return lines


def _over_columns(
    picture: Picture, series: Series, across: Callable[[float], int]
) -> list[tuple[int, Estimate]]:
    """Return for each column of a frame the nearest number, within the line's extent."""
    there = [(across(at), e) for at, e in zip(picture.at, series.estimates, strict=True) if e is not None]
    columns = range(there[0][0], there[-1][0] + 1) if there else ()
    return [(column, min(there, key=lambda pair: abs(pair[0] - column))[1]) for column in columns]


_EIGHTHS, _PLAIN_EIGHTHS = "▁▂▃▄▅▆▇█", "_.:-=+*#"


def _draw_panels(picture: Picture, style: Style, room: int) -> list[str]:
    """Draw a line of eighths for each group, all with one scale, its first and last number beside it."""
    bottom, top = extent(picture) or (0.0, 1.0)
    eighths = _PLAIN_EIGHTHS if style.plain else _EIGHTHS
    first = max(0, len(picture.labels) - max(8, room // 2))
    shown = [each.estimates[first:] for each in picture.series]

    def height(estimate: Estimate | None) -> str:
        share = 0.0 if estimate is None else (estimate.value - bottom) / (top - bottom)
        return " " if estimate is None else eighths[min(7, max(0, int(8 * share)))]

    drawn = ["".join(map(height, each)) for each in shown]
    names = TextColumn(" - ".join(picture.by[1:]), [each.name for each in picture.series])
    before, after = (
        TextColumn(picture.labels[place], [_text(picture, each[at], style) for each in shown], right=True)
        for place, at in ((first, 0), (-1, -1))
    )
    lines = draw([names, before, TextColumn("", drawn, firm=True, code="36"), after], style).splitlines()
    return [*lines, f"one scale, from {write_tick(bottom)} to {write_tick(top)}"]


def _draw_cells(picture: Picture, style: Style, room: int) -> list[str]:
    """Draw a table of numbers, each with a shade of its size."""
    bottom, top = extent(picture) or (0.0, 1.0)
    most = max(abs(bottom), abs(top)) or 1.0
    shades = " .:*#" if style.plain else " ░▒▓█"
    numbers = [[None if e is None else e.text()[0] for e in each.estimates] for each in picture.series]
    widest = max((width(text) for column in numbers for text in column if text), default=1)
    left = min(max(map(width, picture.labels)), max(10, room // 4))
    cell = max(4, (room - left) // len(picture.series) - 1)
    written = widest + 2 <= cell
    heads = (" " + pad(cut(each.name, cell), cell, right=True) for each in picture.series)
    lines = [" " * left + "".join(heads)]
    for row, label in enumerate(picture.labels):
        texts = []
        for each, column in zip(picture.series, numbers, strict=True):
            estimate, text = each.estimates[row], column[row]
            if estimate is None or text is None:
                texts.append(" " + pad("", cell))
                continue
            shade = shades[min(4, math.floor(4.999 * min(abs(estimate.value) / most, 1.0)))]
            texts.append(" " + (pad(f"{text} {shade}", cell, right=True) if written else shade * cell))
        lines.append(pad(cut(label, left), left) + "".join(texts))
    return lines


def _draw_marks(picture: Picture, style: Style, room: int) -> list[str]:
    """Draw marks on an axis that all rows share."""
    ends = extent(picture) or (0.0, 1.0)
    marks = _PLAIN_MARKS if style.plain else _MARKS
    base, bridge = "-=" if style.plain else "·─"
    left = min(max(map(width, picture.labels)), _WIDEST_NAME)
    left += 2 if left else 0
    cells = min(room - left, 70)
    at = _places(ends, cells)
    lines: list[str] = []
    for row, label in enumerate(picture.labels):
        found = [(i, e) for i, each in enumerate(picture.series) if (e := each.estimates[row]) is not None]
        drawn = [base] * cells
        if found:
            spots = [at(e.value) for _, e in found]
            drawn[min(spots) : max(spots) + 1] = [bridge] * (max(spots) - min(spots) + 1)
            for i, e in found:
                drawn[at(e.value)] = marks[i % len(marks)]
        lines.append(pad(cut(label, max(left - 2, 0)), left) + "".join(drawn))
    below, last = [" "] * (cells + left), -1
    for value in list_ticks(*ends, max(2, cells // 16)):
        words = write_tick(value, dated=picture.dated)
        start = left + min(max(0, at(value) - width(words) // 2), cells - width(words))
        if start > last:
            below[start : start + width(words)] = words
            last = start + width(words) + 1
    lines.append("".join(below))
    named = [f"{marks[i % len(marks)]} {each.name}" for i, each in enumerate(picture.series)]
    if len(picture.labels) == 1:
        texts = (_text(picture, each.estimates[0], style) for each in picture.series)
        named = [f"{name} {text}" for name, text in zip(named, texts, strict=True)]
    return [*lines, *wrap("   ".join(named), room)]
