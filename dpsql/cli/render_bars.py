"""A count drawn as a bar: solid up to where its interval starts, shaded to where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.cli.render_grid import Column, Style
from dpsql.drawing.figures import at_unit, number

if TYPE_CHECKING:
    from dpsql.drawing.figures import Estimate
    from dpsql.drawing.readable import Estimates

__all__ = ["NARROWEST", "bars"]

NARROWEST = 10
"""Cells below which a bar tells nothing."""


def bars(estimates: Estimates, room: int, style: Style, *, widest: int = 40) -> Column | None:
    """Draw a column of bars into so many cells; None if they would be too short, or no count is positive.

    The heading is the axis: zero at its left, the largest upper end at its right.
    """
    ends = [_end(estimate) for estimate in estimates if estimate is not None]
    top = max(ends, default=0.0)
    if room < NARROWEST or not 0 < top < float("inf"):
        return None
    cells = min(room, widest)
    solid, shade = ("#", "-") if style.plain else ("█", "▒")
    drawn = []
    for estimate in estimates:
        if estimate is None:
            drawn.append("")
            continue
        start = estimate.value if estimate.low is None else estimate.low
        full = round(max(start, 0.0) / top * cells)
        drawn.append(solid * full + shade * (round(max(_end(estimate), 0.0) / top * cells) - full))
    unit = max((e.unit for e in estimates if e is not None and e.unit is not None), default=None)
    limit = number(top) if unit is None else at_unit(top, unit)
    axis = "0" + limit.rjust(cells - 1) if len(limit) < cells - 1 else ""
    return Column(axis, drawn, firm=True, code="36")


def _end(estimate: Estimate) -> float:
    return max(estimate.value, estimate.high) if estimate.high is not None else estimate.value
