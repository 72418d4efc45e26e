"""Draws a small chart of the budget spent over time."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.render.figures import left

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dpsql.render.grid import Style

__all__ = ["chart"]

_ROWS = 5
_WIDEST = 60
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def chart(charges: Sequence[tuple[datetime, Fraction]], total: Fraction, style: Style) -> str:
    """Draw what was spent in all against the time, the whole budget at the top; ends with a newline.

    Parameters
    ----------
    charges
        When and how much, oldest first.
    total
        The whole budget.
    style
        What the terminal can show.
    """
    if not charges or total <= 0:
        return ""
    label = left(total)
    cells = min(_WIDEST, (style.columns or 80) - len(label) - 3)
    if cells < 10:
        return ""
    heights = [level / total for level in _levels(charges, cells)]
    tick, side, corner, base = "++|-" if style.plain else "┤┼│─"
    rows = [
        "".join(_cell(height * _ROWS - row, plain=style.plain) for height in heights)
        for row in reversed(range(_ROWS))
    ]
    blank = " " * len(label)
    lines = [f"{label} {tick if i == 0 else corner}{row.rstrip()}" for i, row in enumerate(rows)]
    lines[1:] = [blank + line[len(label) :] for line in lines[1:]]
    lines.append("0".rjust(len(label)) + f" {side}{base * cells}")
    first, last = (f"{when:%Y-%m-%d %H:%M}" for when in (charges[0][0], charges[-1][0]))
    lines.append(blank + "  " + (first + last.rjust(cells - len(first)) if last != first else first))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _levels(charges: Sequence[tuple[datetime, Fraction]], cells: int) -> list[Fraction]:
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


def _cell(filled: Fraction, *, plain: bool) -> str:
    """Draw one cell that is filled so far; anything spent at all is visible."""
    if filled <= 0:
        return " "
    if plain:
        return "#"
    return _EIGHTHS[min(8, max(1, round(filled * 8)))]
