"""The report of an audit as text: a table with p-value strips, figures, and counterexamples in words."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from dpsql.audit import figure, strip
from dpsql.render.cells import escape_controls
from dpsql.render.grid import column, draw

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
    verdicts = [outcome.verdict for outcome in outcomes]
    top = max((verdict.curve[-1].epsilon for verdict in verdicts if verdict.curve), default=0.0)
    columns = [
        column("mechanism", [outcome.subject.name for outcome in outcomes], style),
        column("claim", [f"{v.epsilon:.4g}" for v in verdicts], style, number=True),
        column("verdict", [_verdict(outcome) for outcome in outcomes], style, firm=True),
        column(_safe("epsilon ≥", style), [f"{v.lower_bound:.3g}" for v in verdicts], style, number=True),
        column("p-value", [f"{v.p_value:.2g}" for v in verdicts], style, number=True),
        column(
            f"p-value at 0 to {top:.3g}", [strip(v, plain=style.plain) for v in verdicts], style, firm=True
        ),
        column("s", [f"{v.seconds:.1f}" for v in verdicts], style, number=True),
    ]
    return draw(columns, style)


def _verdict(outcome: Outcome) -> str:
    text = "not private" if outcome.verdict.violated else "passes"
    return text if outcome.expected else text.upper()


def _words(outcome: Outcome, style: Style) -> str:
    sentence = _safe(outcome.verdict.words(), style)
    return textwrap.fill(sentence, width=min(style.columns or 100, 100), subsequent_indent="  ") + "\n"


def _safe(text: str, style: Style) -> str:
    """Escape control characters in each line; spell comparisons out where the encoding lacks them."""
    if style.plain:
        text = text.replace("≥", ">=").replace("≤", "<=")
    return "\n".join(escape_controls(line, style.encoding) for line in text.split("\n"))
