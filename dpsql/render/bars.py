"""Draws counts as bars: solid up to the interval, shaded in every cell that the interval touches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpsql.render.figures import at_unit, number
from dpsql.render.grid import Column, Style

if TYPE_CHECKING:
    from dpsql.render.figures import Estimate
    from dpsql.render.readable import Estimates

__all__ = ["NARROWEST", "bars"]

NARROWEST = 10
"""Cells below which a bar tells nothing."""


def bars(estimates: Estimates, space: int, style: Style, *, widest: int = 40) -> Column | None:
    """Draw a column of bars `space` cells wide; None if that is too narrow, or no count is positive.

    The heading is the axis: zero at its left, the largest upper end at its right.
    """
    ends = [_end(estimate) for estimate in estimates if estimate is not None]
    top = max(ends, default=0.0)
    if space < NARROWEST or not 0 < top < float("inf"):
        return None
    cells = min(space, widest)
    solid, shade = ("#", "-") if style.plain else ("█", "▒")
    drawn = []
    for estimate in estimates:
        if estimate is None:
            drawn.append("")
            continue
        full, end = _extent(estimate, top / cells)
        drawn.append(solid * full + shade * (end - full))
    unit = max((e.unit for e in estimates if e is not None and e.unit is not None), default=None)
    limit = number(top) if unit is None else at_unit(top, unit)
    axis = "0" + limit.rjust(cells - 1) if len(limit) < cells - 1 else ""
    return Column(axis, drawn, firm=True, code="36")


def _extent(estimate: Estimate, cell: float) -> tuple[int, int]:
    """Return how many cells lie wholly below the interval, and how many it reaches."""
    if estimate.low is None and estimate.high is None:
        full = round(max(estimate.value, 0.0) / cell)
        return full, full
    start = estimate.value if estimate.low is None else estimate.low
    # The hair keeps rounding from adding a cell where an interval ends at a cell's edge.
    return math.floor(max(start, 0.0) / cell + 1e-9), math.ceil(max(_end(estimate), 0.0) / cell - 1e-9)


def _end(estimate: Estimate) -> float:
    return max(estimate.value, estimate.high) if estimate.high is not None else estimate.value
