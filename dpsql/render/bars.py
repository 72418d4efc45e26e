"""Draws counts as bars: solid up to the interval, shaded in every cell that the interval touches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpsql.render.figures import at_unit, number
from dpsql.render.grid import Column, Style

if TYPE_CHECKING:
    from dpsql.render.figures import Estimate
    from dpsql.render.readable import Estimates

__all__ = ["NARROWEST", "axis_end", "bars"]

NARROWEST = 10
"""Cells below which a bar tells nothing."""


def axis_end(estimates: Estimates) -> float | None:
    """Return the value at the right end of the bars' axis; None if no count is positive and finite."""
    top = max((estimate.reach for estimate in estimates if estimate is not None), default=0.0)
    return top if 0 < top < float("inf") else None


def bars(estimates: Estimates, space: int, style: Style, *, widest: int = 40) -> Column | None:
    """Draw a column of bars `space` cells wide; None if that is too narrow, or no count is positive.

    The heading is the axis: zero at its left, the largest upper end at its right.
    """
    top = axis_end(estimates)
    if space < NARROWEST or top is None:
        return None
    cells = min(space, widest)
    solid, shade = ("#", "-") if style.plain else ("█", "▒")
    drawn = []
    for estimate in estimates:
        full, end = (0, 0) if estimate is None else _extent(estimate, top / cells)
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
    # The hair keeps rounding from adding a cell where an interval ends at a cell's edge.
    start, end = max(estimate.start, 0.0) / cell + 1e-9, max(estimate.reach, 0.0) / cell - 1e-9
    return math.floor(start), math.ceil(end)
