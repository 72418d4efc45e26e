"""Plots in characters: numbers as bars, sparklines, spending over time, curves such as p-values."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass
from dpsql.render.figures import LEAST_DRAWN, at_unit, number, show_left
from dpsql.render.grid import TextColumn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dpsql.render.figures import Estimate
    from dpsql.render.grid import Style
    from dpsql.render.readable import Estimates


NARROWEST = 10
"""Cells below which a bar tells nothing."""


def axis(estimates: Estimates) -> tuple[float, float] | None:
    """Return the values at the ends of the bars' axis, 0 among them; None if there is nothing to draw.

    It starts at 0 unless a number is negative for certain: of counts, noise alone is below 0.
    """
    drawn = (None if estimate is None else estimate.drawn() for estimate in estimates)
    there = [estimate for estimate in drawn if estimate is not None]
    top = max((estimate.reach for estimate in there), default=0.0)
    bottom = 0.0
    if any(estimate.negative for estimate in there):
        bottom = min(min(estimate.start, estimate.value) for estimate in there)
    top = max(top, 0.0)
    return (bottom, top) if top - bottom > LEAST_DRAWN else None


def bars(estimates: Estimates, space: int, style: Style, *, widest: int = 40) -> TextColumn | None:
    """Draw a column of bars `space` cells wide; None if that is too narrow, or there is nothing to draw.

    The heading is the axis: its ends, with zero where bars start: at its left if no number is negative.
    """
    ends = axis(estimates)
    if space < NARROWEST or ends is None:
        return None
    bottom, top = ends
    cells = min(space, widest)
    # Each side with a bar has a cell at least.
    left_of_zero = min(max(round(cells * bottom / (bottom - top)), bottom < 0), cells - (top > 0))
    sides = [(-bottom, left_of_zero), (top, cells - left_of_zero)]
    drawn = []
    for each in estimates:
        estimate = None if each is None else each.drawn()
        left_bar, right_bar = ("", "")
        if estimate is not None:
            left_bar = _draw_bar(estimate.negate(), *sides[0], style)[::-1]
            right_bar = _draw_bar(estimate, *sides[1], style)
        drawn.append(left_bar.rjust(left_of_zero) + right_bar)
    return TextColumn(_write_heading(estimates, ends, left_of_zero, cells), drawn, firm=True, code="36")


def _write_heading(estimates: Estimates, ends: tuple[float, float], left_of_zero: int, cells: int) -> str:
    """Write the ends of the axis, and 0 where it lies between them; nothing where they do not fit."""
    unit = max((e.unit for e in estimates if e is not None and e.unit is not None), default=None)
    low, high = ((number(end) if unit is None else at_unit(end, unit)) if end else "0" for end in ends)
    if len(low) + len(high) >= cells:
        return ""
    heading = low + high.rjust(cells - len(low))
    if len(low) < left_of_zero < cells - len(high) - 1:
        heading = heading[:left_of_zero] + "0" + heading[left_of_zero + 1 :]
    return heading


def _draw_bar(estimate: Estimate, end: float, cells: int, style: Style) -> str:
    """Draw the bar of an estimate to the right of zero, where a given number of cells reach to `end`."""
    if not cells:
        return ""
    solid, shade = ("#", "-") if style.plain else ("█", "▒")
    full, reached = _measure_extent(estimate, end / cells)
    return solid * full + shade * (reached - full)


def _measure_extent(estimate: Estimate, cell: float) -> tuple[int, int]:
    """Return how many cells lie wholly below the interval, and how many it reaches."""
    if estimate.low is None and estimate.high is None:
        full = round(max(estimate.value, 0.0) / cell)
        return full, full
    # The hair keeps rounding from adding a cell where an interval ends at a cell's edge.
    start, end = max(estimate.start, 0.0) / cell + 1e-9, max(estimate.reach, 0.0) / cell - 1e-9
    return math.floor(start), max(math.ceil(end), estimate.reach > 0)


_ROWS = 5
_WIDEST = 60
_EIGHTHS, _ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_MARKS = "ox+*#@"


@dataclass(frozen=True, slots=True)
class PValueCurve:
    """Values in [0, 1] over positive numbers, and the place on the axis that an upright line marks."""

    label: str
    marked: float
    points: tuple[tuple[float, float], ...]


def widest(curves: Sequence[PValueCurve]) -> float:
    """Return the right end of the axis that several curves share."""
    return max(x for curve in curves for x, _ in curve.points)


def sparkline(values: Sequence[float], *, plain: bool = False) -> str:
    """Draw values in [0, 1] in one line, one character each; `plain` allows ASCII alone.

    >>> sparkline([0.0, 0.2, 0.5, 1.0])
    '▁▂▅█'
    """
    return "".join((_ASCII if plain else _EIGHTHS)[min(7, int(8 * value))] for value in values)


def curves(lines: Sequence[PValueCurve], what: str, *, rows: int, columns: int, plain: bool) -> str:
    """Draw curves in `rows` by `columns` characters, each in marks of its own; ends with a newline.

    `what` names the axis; `plain` allows ASCII alone.
    """
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    top = widest(drawn)
    upright, side, tick, base, corner = "|||-+" if plain else "┊│┤─└"
    plot = [[" "] * columns for _ in range(rows + 1)]
    for curve in drawn:
        place = round(curve.marked / top * (columns - 1))
        if place < columns:
            for line in plot:
                line[place] = upright
    for mark, curve in zip(_MARKS, drawn, strict=False):
        for x, y in curve.points:
            place = min(columns - 1, round(x / top * (columns - 1)))
            plot[rows - round(rows * min(y, 1.0))][place] = mark
    labels = {0: "1.0", rows // 2: "0.5", rows: "0.0"}
    texts = [
        f"{labels.get(i, ''):>5} {tick if i in labels else side}{''.join(line)}".rstrip()
        for i, line in enumerate(plot)
    ]
    texts.append(f"{'':>5} {corner}{base * columns}")
    ends = f"0{f'{top / 2:.3g}':^{columns - 2}}{top:.3g}"
    texts.append(f"{'p':>5}  {ends}  {what}")
    texts += [f"       {mark} {curve.label}" for mark, curve in zip(_MARKS, drawn, strict=False)]
    return "\n".join(texts) + "\n"


def chart(charges: Sequence[tuple[datetime, Fraction]], total: Fraction, style: Style) -> str:
    """Draw what was spent in all against the time, the whole budget at the top; ends with a newline.

    `charges` says when and how much, oldest first; `total` is the whole budget.
    """
    label = show_left(total)
    cells = min(_WIDEST, (style.columns or 80) - len(label) - 3)
    if not charges or total <= 0 or cells < 10:
        return ""
    heights = [level / total for level in _sum_levels(charges, cells)]
    tick, side, corner, base = "++|-" if style.plain else "┤┼│─"
    blank = " " * len(label)
    lines = [
        f"{blank if row < _ROWS - 1 else label} {corner if row < _ROWS - 1 else tick}"
        + "".join(_draw_cell(height * _ROWS - row, plain=style.plain) for height in heights)
        for row in reversed(range(_ROWS))
    ]
    lines.append("0".rjust(len(label)) + f" {side}{base * cells}")
    first, last = (f"{when:%Y-%m-%d %H:%M}" for when in (charges[0][0], charges[-1][0]))
    lines.append(blank + "  " + (first + last.rjust(cells - len(first)) if last != first else first))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _sum_levels(charges: Sequence[tuple[datetime, Fraction]], cells: int) -> list[Fraction]:
    """Return what was spent at `cells` moments, evenly spaced from the first charge to the last."""
    start, end = charges[0][0], charges[-1][0]
    levels, spent, i = [], Fraction(0), 0
    for cell in range(cells):
        moment = end if cell == cells - 1 else start + (end - start) * cell / (cells - 1)
        while i < len(charges) and charges[i][0] <= moment:
            spent += charges[i][1]
            i += 1
        levels.append(spent)
    return levels


def _draw_cell(filled: Fraction, *, plain: bool) -> str:
    """Draw one cell that is filled so far; anything spent at all is visible."""
    if filled <= 0:
        return " "
    return "#" if plain else _EIGHTHS[min(8, max(1, round(filled * 8))) - 1]
