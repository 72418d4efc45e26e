"""A campaign and its verdicts as plain data, as text, and as p-value curves in characters."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import fields
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dpsql.audit.catalogue import Campaign, Outcome
from dpsql.audit.verdict import Verdict
from dpsql.render.cells import escape_controls
from dpsql.render.grid import Style, column, draw
from dpsql.render.plots import PValueCurve, curves, sparkline

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_FIGURES = 6
"""The most subjects for which figures are drawn; a strip is drawn for each."""


def as_data(campaign: Campaign) -> dict[str, Any]:
    """Return a campaign as dictionaries and lists of plain values."""
    return {
        "confidence": campaign.confidence,
        "doubt": campaign.error_rate,
        "expected": campaign.expected,
        "seconds": round(campaign.seconds, 3),
        "audits": [_outcome(outcome) for outcome in campaign.outcomes],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    subject = outcome.subject
    return {
        "kind": subject.kind,
        "about": subject.about,
        "given_epsilon": float(outcome.epsilon),
        "expected": outcome.expected,
        "near": outcome.near,
        **verdict_data(outcome.verdict),
    }


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as dictionaries and lists of plain values."""
    facts = _fields(verdict)
    found = _fields(verdict.counterexample)
    found |= {name: _plain(found[name]) for name in ("first", "second")}
    found["arguments"] = {name: _plain(value) for name, value in found["arguments"].items()}
    found["event"] = verdict.counterexample.event.words()
    return {
        "mechanism": facts.pop("name"),
        **facts,
        "words": verdict.words(),
        "counterexample": {name: value for name, value in found.items() if name not in ("epsilon", "delta")},
        "curve": [_fields(tested) for tested in verdict.curve],
        "seconds": round(verdict.seconds, 3),
    }


def _fields(made: DataclassInstance) -> dict[str, Any]:
    return {field.name: getattr(made, field.name) for field in fields(made)}


def _plain(value: object) -> object:
    """Convert nested tuples to lists, and values that JSON does not support to text."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def p_values(verdict: Verdict, label: str) -> PValueCurve:
    """Return a verdict's p-values as a curve over the epsilon tested, with the claim marked."""
    points = tuple((tested.epsilon, tested.forward) for tested in verdict.curve)
    return PValueCurve(label, verdict.epsilon, points)


def strip(verdict: Verdict, *, plain: bool = False) -> str:
    """Draw a verdict's p-values in one line, low where the claim is refuted; `plain` allows ASCII alone."""
    return sparkline([tested.forward for tested in verdict.curve], plain=plain)


def figure(verdicts: Sequence[Verdict], *, rows: int = 10, columns: int = 60, plain: bool = False) -> str:
    """Draw the p-values of verdicts as in the dissertation's Figure 4-2; ends with a newline.

    A correct mechanism's line rises just before its own claim, which an upright line marks; that of an
    incorrect one rises behind it, or not at all. The plot has `rows` by `columns` characters; `plain` allows
    ASCII alone.
    """
    drawn = [p_values(verdict, f"{verdict.name}, claims {verdict.epsilon:.3g}") for verdict in verdicts]
    return curves(drawn, "epsilon tested", rows=rows, columns=columns, plain=plain)


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
