"""Writes the line below a private answer: its price, its mechanism, its certainty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.render.cells import escape_controls, width
from dpsql.render.readable import summary

if TYPE_CHECKING:
    from dpsql.privacy import Charge
    from dpsql.render.grid import Style
    from dpsql.render.released import Released

__all__ = ["footer"]


def footer(release: Released, total: Charge | None, style: Style) -> str:
    """Write `epsilon 1 of 10 · noisy top-k with gap · 95% ± 41`, broken into lines of the style's width."""
    parts = summary(release, total, pm="+/-" if style.plain else "±")
    dot = " - " if style.plain else " · "
    lines: list[str] = []
    for part in (escape_controls(part, style.encoding) for part in parts):
        longer = lines[-1] + dot + part if lines else part
        if lines and (style.columns is None or width(longer) <= style.columns):
            lines[-1] = longer
        else:
            lines.append(part)
    return "\n".join(lines)
