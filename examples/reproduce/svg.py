"""Small charts as SVG text: axes with labels, lines, points, stacked bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

__all__ = ["COLOURS", "Series", "panel", "swatch"]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#555555", "#56b4e9", "#e69f00")
"""Told apart by most eyes (after Okabe and Ito)."""

SHAPES = ("circle", "square", "triangle", "ring", "frame", "cross")

WIDTH, HEIGHT = 380, 270
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 30, 46


@dataclass(frozen=True, slots=True)
class Series:
    """One thing in a chart.

    `kind` is "line", "dashed", "points", "both" (points joined by a line) or "bar"; bars of one x are
    stacked in the order given. `colour` and `shape` are numbers: points of one colour need not have one
    shape. Points of different `size` stay visible where they coincide. `error`, if given, is the half
    length of a whisker at each point.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str = "both"
    colour: int = 0
    shape: int = 0
    size: float = 1.0
    error: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        step = _step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _step(least: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten.

    >>> [_step(x) for x in (0.03, 1, 12, 60)]
    [0.05, 1.0, 20.0, 100.0]
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def panel(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    y_range: tuple[float, float] | None = None,
    x_range: tuple[float, float] | None = None,
    unit: str = "",
    level: float | None = None,
) -> str:
    """Draw a chart.

    Parameters
    ----------
    title, x_label, y_label
        Text around it.
    series
        What is drawn, the first at the bottom.
    y_range, x_range
        Ends of the axes; from the data if left out, with zero in the y axis.
    unit
        Follows the numbers of the y axis: "%".
    level
        A horizontal line to compare with.
    """
    y_range = y_range or _range(series, level)
    xs = [x for s in series for x in s.x]
    bars = any(s.kind == "bar" for s in series)
    low, high = x_range or (min(xs), max(xs))
    pad = _width(series) if bars else (high - low) * 0.03 or 1.0
    across = _Axis(low - pad, high + pad, LEFT, WIDTH - RIGHT)
    up = _Axis(*y_range, HEIGHT - BOTTOM, TOP)
    parts = [_frame(title, x_label, y_label, across, up, unit)]
    if level is not None:
        y = up.at(level)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#888" '
            'stroke-dasharray="2 3"/>'
        )
    parts += _bars([s for s in series if s.kind == "bar"], across, up)
    parts += [_drawn(s, across, up) for s in series if s.kind != "bar"]
    label = escape(f"{title}: {y_label} over {x_label}", quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def swatch(series: Series) -> str:
    """Draw a series' mark for the legend."""
    axis, up = _Axis(0, 1, 3, 25), _Axis(0, 1, 14, 2)
    if series.kind == "bar":
        mark = (
            f'<rect x="6" y="3" width="16" height="10" fill="{COLOURS[series.colour]}" fill-opacity="0.55"/>'
        )
    else:
        line = Series("", (0, 1), (0.5, 0.5), "dashed" if series.kind == "dashed" else "line", series.colour)
        mark = _drawn(line, axis, up) if series.kind != "points" else ""
        if series.kind in ("points", "both"):
            mark += _point(14, 8, series)
    return f'<svg width="28" height="16" aria-hidden="true">{mark}</svg>'


def _range(series: Sequence[Series], level: float | None) -> tuple[float, float]:
    stacked: dict[float, float] = {}
    values = [0.0] if level is None else [0.0, level]
    for s in series:
        for x, y in zip(s.x, s.y, strict=True):
            if s.kind == "bar":
                stacked[x] = stacked.get(x, 0.0) + y
            elif math.isfinite(y):
                values.append(y)
        values += [y + e for y, e in zip(s.y, s.error, strict=False)]
    values += stacked.values()
    low, high = min(values), max(values)
    return low, high + (high - low or 1) * 0.06


def _width(series: Sequence[Series]) -> float:
    places = sorted({x for s in series if s.kind == "bar" for x in s.x})
    return 0.7 * min((b - a for a, b in pairwise(places)), default=1.0)


def _frame(title: str, x_label: str, y_label: str, across: _Axis, up: _Axis, unit: str) -> str:
    parts = [
        f'<text x="{LEFT}" y="16" class="title">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" class="label">{escape(x_label)}</text>',
        f'<text transform="translate(13 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" class="label">'
        f"{escape(y_label)}</text>",
    ]
    for tick in up.ticks(6):
        y = up.at(tick)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e4e4e4"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="tick right">{_number(tick)}{unit}</text>'
        )
    for tick in across.ticks(12):
        x = across.at(tick)
        parts.append(
            f'<line x1="{x:.1f}" y1="{up.start}" x2="{x:.1f}" y2="{up.start + 4}" stroke="#555"/>'
            f'<text x="{x:.1f}" y="{up.start + 17}" class="tick middle">{_number(tick)}</text>'
        )
    parts.append(
        f'<path d="M{LEFT} {TOP}V{up.start}H{WIDTH - RIGHT}" fill="none" stroke="#555" stroke-width="1"/>'
    )
    return "".join(parts)


def _number(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{round(value, 10):g}"


def _bars(series: Sequence[Series], across: _Axis, up: _Axis) -> list[str]:
    heights: dict[float, float] = {}
    parts = []
    half = _width(series) / 2 if series else 0.0
    for s in series:
        for x, y in zip(s.x, s.y, strict=True):
            base = heights.get(x, 0.0)
            heights[x] = base + y
            left, right = across.at(x - half), across.at(x + half)
            bottom, top = up.at(base), up.at(base + y)
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                f'height="{max(0.0, bottom - top):.1f}" fill="{COLOURS[s.colour]}" fill-opacity="0.55"/>'
            )
    return parts


def _drawn(series: Series, across: _Axis, up: _Axis) -> str:
    places = [(across.at(x), up.at(y)) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(y)]
    parts = []
    if series.kind in ("line", "dashed", "both"):
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        dash = ' stroke-dasharray="5 4"' if series.kind == "dashed" else ""
        parts.append(
            f'<path d="{path}" fill="none" stroke="{COLOURS[series.colour]}" stroke-width="1.6"{dash}/>'
        )
    for x, y, half in zip(series.x, series.y, series.error, strict=False):
        low, high = (min(max(up.at(end), up.end), up.start) for end in (y - half, y + half))
        parts.append(
            f'<path d="M{across.at(x):.1f} {low:.1f}V{high:.1f}" stroke="{COLOURS[series.colour]}" '
            'stroke-width="1.2"/>'
        )
    if series.kind in ("points", "both"):
        parts += [_point(x, y, series) for x, y in places]
    return "".join(parts)


def _point(x: float, y: float, series: Series) -> str:
    colour, size = COLOURS[series.colour], series.size
    side = 6 * size
    square = f'x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}"'
    hollow = f'fill="#fff" stroke="{colour}" stroke-width="1.6"'
    match SHAPES[series.shape % len(SHAPES)]:
        case "circle":
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3.4 * size:.1f}" fill="{colour}"/>'
        case "square":
            return f'<rect {square} fill="{colour}"/>'
        case "triangle":
            path = f"M{x:.1f} {y - 4 * size:.1f}l{4 * size:.1f} {7 * size:.1f}h{-8 * size:.1f}z"
            return f'<path d="{path}" fill="{colour}"/>'
        case "ring":
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 * size:.1f}" {hollow}/>'
        case "frame":
            return f"<rect {square} {hollow}/>"
        case _:
            arm = 3 * size
            start, across = f"M{x - arm:.1f} {y - arm:.1f}", f"{2 * arm:.1f}"
            path = f"{start}l{across} {across}m0 -{across}l-{across} {across}"
            return f'<path d="{path}" stroke="{colour}" stroke-width="1.6" fill="none"/>'
