"""The line below a private answer: what it cost, how it was made, how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.cli.render_counts import ordering
from dpsql.cli.render_text import neutral, width
from dpsql.dbapi.figures import charged, half_text, left, number, unit_of

if TYPE_CHECKING:
    from dpsql.charge import Charge
    from dpsql.cli.render_grid import Style
    from dpsql.release import Release

__all__ = ["footer", "price"]


def price(charge: Charge, total: Charge | None = None) -> str:
    """Write a charge, and of how much: `epsilon 0.5 of 5`; delta only where there is some."""
    text = f"epsilon {charged(charge.epsilon)}"
    if total is not None:
        text += f" of {left(total.epsilon)}"
    if charge.delta:
        text += f", delta {charged(charge.delta)}"
        if total is not None:
            text += f" of {left(total.delta)}"
    return text


def footer(release: Release, total: Charge | None, style: Style) -> str:
    """Write `epsilon 1 of 10 · noisy top-k with gap · 95% ± 41`, on as many lines as the width wants."""
    if release.reused is not None:
        cost = f"asked before, on {release.reused:%Y-%m-%d %H:%M}: nothing spent"
    else:
        cost = price(release.charge, total)
    parts = [cost, neutral(release.mechanism, style.encoding)]
    sure = _confidence(release, style)
    if sure:
        parts.append(sure)
    return _wrapped(parts, style)


def _confidence(release: Release, style: Style) -> str:
    halves = [e.half for e in ordering(release) if e is not None]
    known = [half for half in halves if half is not None and unit_of(half) is not None]
    if not known or len(known) < len(halves):
        return f"noise scale {number(release.scale)}" if release.scale > 0 and not halves else ""
    level = number(float(release.confidence * 100))
    pm = "+/-" if style.plain else "±"
    texts = [half_text(half, unit_of(half) or 0) for half in (min(known), max(known))]
    return f"{level}% {pm} {' to '.join(dict.fromkeys(texts))}"


def _wrapped(parts: list[str], style: Style) -> str:
    dot = " - " if style.plain else " · "
    lines = [parts[0]]
    for part in parts[1:]:
        longer = lines[-1] + dot + part
        if style.columns is not None and width(longer) > style.columns:
            lines.append(part)
        else:
            lines[-1] = longer
    return "\n".join(lines)
