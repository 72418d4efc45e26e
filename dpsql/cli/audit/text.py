"""The report of an audit as text: a table with p-value strips, figures, and counterexamples in words."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from dpsql.audit import figure, strip
from dpsql.render.cells import escape_controls
from dpsql.render.grid import Column, box, fit

if TYPE_CHECKING:
    from dpsql.audit import Campaign, Outcome
    from dpsql.render.grid import Style

__all__ = ["as_text"]

_FIGURES = 6
"""The most subjects for which figures are drawn; a strip is drawn for each."""


def as_text(campaign: Campaign, style: Style) -> str:
    """Draw a campaign; ends with a newline."""
    outcomes = campaign.outcomes
    if not outcomes:
        return "nothing was audited\n"
    text = _table(campaign, style)
    subjects = [list(same) for _, same in groupby(outcomes, key=lambda outcome: outcome.subject.name)]
    if len(subjects) <= _FIGURES:
        columns = max(30, min(60, (style.columns or 80) - 20))
        for same in subjects:
            drawn = figure([o.verdict for o in same], columns=columns, plain=style.plain)
            text += "\n" + _safe(drawn, style)
    for outcome in outcomes:
        if outcome.verdict.violated or not outcome.expected or len(outcomes) <= _FIGURES:
            text += "\n" + _words(outcome, style)
    return text


def _table(campaign: Campaign, style: Style) -> str:
    outcomes = campaign.outcomes

    def column(name: str, cells: list[str], *, number: bool = False, firm: bool = False) -> Column:
        return Column(
            name, [escape_controls(cell, style.encoding) for cell in cells], right=number, firm=firm
        )

    verdicts = [outcome.verdict for outcome in outcomes]
    curves = [strip(verdict, plain=style.plain) for verdict in verdicts]
    top = max((verdict.curve[-1].epsilon for verdict in verdicts if verdict.curve), default=0.0)
    columns = [
        column("mechanism", [outcome.subject.name for outcome in outcomes]),
        column("claim", [f"{v.epsilon:.4g}" for v in verdicts], number=True, firm=True),
        column("verdict", [_verdict(outcome) for outcome in outcomes], firm=True),
        column("epsilon ≥" if not style.plain else "epsilon >=", _bounds(campaign), number=True, firm=True),
        column("p-value", [f"{v.p_value:.2g}" for v in verdicts], number=True, firm=True),
        column(f"p-value at 0 to {top:.3g}", curves, firm=True),
        column("s", [f"{v.seconds:.1f}" for v in verdicts], number=True, firm=True),
    ]
    return box(fit(columns, style)[0], style)


def _bounds(campaign: Campaign) -> list[str]:
    return [f"{outcome.verdict.lower_bound:.3g}" for outcome in campaign.outcomes]


def _verdict(outcome: Outcome) -> str:
    text = "not private" if outcome.verdict.violated else "passes"
    if not outcome.expected:
        return text.upper()
    return text


def _words(outcome: Outcome, style: Style) -> str:
    sentence = _safe(outcome.verdict.words(), style)
    return textwrap.fill(sentence, width=min(style.columns or 100, 100), subsequent_indent="  ") + "\n"


def _safe(text: str, style: Style) -> str:
    """Escape control characters in each line; spell comparisons out where the encoding lacks them."""
    if style.plain:
        text = text.replace("≥", ">=").replace("≤", "<=")
    return "\n".join(escape_controls(line, style.encoding) for line in text.split("\n"))
