"""Readable parts of a release: estimates with their intervals, its price, its certainty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.render.figures import Estimate, charged, half_text, left, number, unit_of
from dpsql.render.values import values

if TYPE_CHECKING:
    from dpsql.privacy import Charge
    from dpsql.render.released import Released

__all__ = ["Estimates", "certainty", "counts", "ordering", "orders", "price", "summary"]

Estimates = list[Estimate | None]
"""One a released group; None where the count is NULL."""


def counts(release: Released) -> dict[str, Estimates]:
    """Return the estimates of every count in the select list."""
    return {name: _estimates(release, name) for name in release.counts}


def orders(release: Released) -> str | None:
    """Return the name of the count that orders the groups; None if no count was asked for."""
    named = release.properties.get("ordering")
    if named in release.counts:
        return named
    return release.counts[0] if release.counts else None


def ordering(release: Released) -> Estimates:
    """Return the estimates of the count that orders the groups; none if only keys were asked for."""
    name = orders(release)
    return [] if name is None else _estimates(release, name)


def _estimates(release: Released, name: str) -> Estimates:
    table = release.table

    def bounds(suffix: str) -> list[Any]:
        column = name + suffix
        return values(table.column(column)) if column in table.column_names else [None] * table.num_rows

    triples = zip(values(table.column(name)), bounds("_low"), bounds("_high"), strict=True)
    return [None if value is None else Estimate(float(value), low, high) for value, low, high in triples]


def price(charge: Charge, total: Charge | None = None) -> str:
    """Write a charge and the budget it is taken from: `epsilon 0.5 of 5`; delta only if it is not 0."""
    text = f"epsilon {charged(charge.epsilon)}"
    if total is not None:
        text += f" of {left(total.epsilon)}"
    if charge.delta:
        text += f", delta {charged(charge.delta)}"
        if total is not None:
            text += f" of {left(total.delta)}"
    return text


def certainty(release: Released, *, pm: str = "±") -> str:
    """Write the interval width of the counts (`95% ± 41`); without counts, the scale of the noise."""
    halves = [estimate.half for estimate in ordering(release) if estimate is not None]
    known = [half for half in halves if half is not None and unit_of(half) is not None]
    if not known or len(known) < len(halves):
        return f"noise scale {number(release.scale)}" if release.scale > 0 and not halves else ""
    level = number(float(release.confidence * 100))
    texts = [half_text(half, unit_of(half) or 0) for half in (min(known), max(known))]
    return f"{level}% {pm} {' to '.join(dict.fromkeys(texts))}"


def summary(release: Released, total: Charge | None, *, pm: str = "±") -> list[str]:
    """Return the parts of the line below an answer: its price, its mechanism, its certainty."""
    if release.reused is not None:
        cost = f"asked before, on {release.reused:%Y-%m-%d %H:%M}: nothing spent"
    else:
        cost = price(release.charge, total)
    return [
        part for part in (cost, release.charged_again, release.mechanism, certainty(release, pm=pm)) if part
    ]
