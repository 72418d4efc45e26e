"""The notices beside the rows of a private statement: charge, budget left, precision, numbers of releases.

Nothing in them is absent from the release or the budget, so they tell no more of the data.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.estimates import figure
from dpsql.ledger import shown
from dpsql.release import places_of
from dpsql.render.figures import Estimate
from dpsql.render.lines import sentences
from dpsql.serve.answer import Notice

if TYPE_CHECKING:
    from dpsql.ledger import Budget
    from dpsql.release import Release

RELOADED = Notice("NOTICE", "the policy was read again: what it says now holds from this statement on")


def notices_of(release: Release, budget: Budget | None = None) -> tuple[Notice, ...]:
    """Return the notice of a release, and its warnings; `budget` is what is left if something was charged."""
    parts = release.parts or (release,)
    new = [part for part in parts if part.reused is None]
    said = []
    if new and budget is not None:
        charged = sum((part.charge.epsilon for part in new), Fraction(0))
        left, total = (shown(part.epsilon, up=False) for part in (budget.remaining, budget.total))
        said.append(f"epsilon {shown(charged, up=True)} charged, {left} of {total} left")
    said += _precision(release)
    said += sentences(release)
    said += _numbers(new)
    said += [f"reused release {old.number} of {_day(old.reused)}" for old in parts if old.reused is not None]
    if not new:
        said.append("epsilon 0")
    if release.charged_again:
        said.append(release.charged_again)
    warnings = (Notice("WARNING", text) for text in release.warnings)
    return (Notice("NOTICE", "; ".join(said)), *warnings)


def _numbers(parts: list[Release]) -> list[str]:
    """Return the numbers of releases in words."""
    numbers = [str(part.number) for part in parts if part.number is not None]
    return [f"release{'s' * (len(numbers) > 1)} {', '.join(numbers)}"] if numbers else []


def _day(when: datetime) -> str:
    return f"{when.day} {when:%b}"


def _precision(release: Release) -> list[str]:
    """Return the half-widths of the intervals of the first count."""
    for number in places_of(release).numbers:
        if number.low is None or number.high is None:
            continue
        name = release.table.column_names[number.place]
        shown = (number.place, number.low, number.high)
        ends = [release.table.column(each).to_pylist() for each in shown]
        found = [Estimate(*row).half for row in zip(*ends, strict=True) if row[0] is not None]
        widths = [half for half in found if half is not None]
        if not widths:
            continue
        least, most = figure(min(widths)), figure(max(widths))
        span = least if least == most else f"{least} to {most}"
        others = f", {len(found) - len(widths)} of {len(found)} uneven" if len(widths) < len(found) else ""
        return [f"{name} ± {span} ({float(100 * release.confidence):g}%{others})"]
    return []
