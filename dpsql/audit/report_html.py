"""Render a campaign as one HTML file: tables, counterexamples in words, curves in SVG, no script."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.audit.catalogue import Campaign, Outcome
    from dpsql.audit.verdict import Verdict

__all__ = ["as_html", "curve_svg"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 360, 170, 34, 28, 8
_KINDS = {
    "dpsql": "Mechanisms of dpsql",
    "reference": "Private mechanisms from the literature",
    "incorrect": "Known mistakes",
    "statement": "Whole statement",
}

_STYLE = """
:root { color-scheme: light dark; --l0: #0b6e99; --l1: #b3541e; --l2: #4d7c0f; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) {
  :root { --l0: #5cc0e8; --l1: #f0a36b; --l2: #a3d65c; --bad: #fca5a5; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
article { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .5rem 0 1rem; }
h3 { margin: .5rem 0 0; } p.about { margin: 0 0 .5rem; opacity: .75; }
table { border-collapse: collapse; } td, th { padding: .1rem .8rem .1rem 0; text-align: right; }
td:first-child, th:first-child, td.words { text-align: left; }
.bad { color: var(--bad); font-weight: 600; } .row { display: flex; flex-wrap: wrap; gap: 1.5rem; }
svg text { fill: currentColor; font-size: 11px; } svg .axis { stroke: currentColor; opacity: .4; }
svg polyline { fill: none; stroke-width: 2; } svg .claim { stroke-dasharray: 3 3; }
.l0 { stroke: var(--l0); } .l1 { stroke: var(--l1); } .l2 { stroke: var(--l2); }
details { margin-top: .4rem; } .words { max-width: 50rem; overflow-wrap: anywhere; }
"""


def as_html(campaign: Campaign) -> str:
    """Render a campaign as a self-contained HTML page."""
    verdicts = len(campaign.outcomes)
    wrong = sum(not outcome.expected for outcome in campaign.outcomes)
    result = "all as expected" if not wrong else f"{wrong} not as expected"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><title>dpsql audit</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>dpsql audit</h1>",
        f"<p>{verdicts} verdicts, {escape(result)}. Each holds with confidence {campaign.confidence:.6g}; "
        f"the chance that any correct mechanism is accused is at most {campaign.error_rate:g}. "
        "A mechanism that passes is not proved private: no counterexample was found.</p>",
        "<p>The curves show the p-value of the claim at each epsilon tested: near 0 it is refuted. A correct "
        "mechanism's curve rises before its claim, the dashed line; an incorrect one's behind it.</p>",
    ]
    for kind, outcomes in groupby(campaign.outcomes, key=lambda outcome: outcome.subject.kind):
        parts.append(f"<h2>{escape(_KINDS.get(kind, kind))}</h2>")
        for _, same in groupby(outcomes, key=lambda outcome: outcome.subject.name):
            parts.append(_article(list(same)))
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _article(outcomes: Sequence[Outcome]) -> str:
    subject = outcomes[0].subject
    rows = "".join(_row(outcome) for outcome in outcomes)
    words = "".join(f'<p class="words">{escape(outcome.verdict.words())}</p>' for outcome in outcomes)
    opened = " open" if any(outcome.verdict.violated for outcome in outcomes) else ""
    return (
        f"<article><h3>{escape(subject.name)}</h3><p class='about'>{escape(subject.about)}</p>"
        f'<div class="row">{curve_svg([outcome.verdict for outcome in outcomes])}'
        "<table><thead><tr><th>claim</th><th>verdict</th><th>epsilon at least</th><th>p-value</th>"
        f"<th>seconds</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f"<details{opened}><summary>closest events</summary>{words}</details></article>"
    )


def _row(outcome: Outcome) -> str:
    verdict = outcome.verdict
    text = "not private" if verdict.violated else "passes"
    mark = ' class="bad"' if verdict.violated else ""
    text += "" if outcome.expected else ", unexpected"
    return (
        f"<tr><td>{verdict.epsilon:.4g}</td><td{mark}>{text}</td><td>{verdict.lower_bound:.4g}</td>"
        f"<td>{verdict.p_value:.2g}</td><td>{verdict.seconds:.2f}</td></tr>"
    )


def curve_svg(verdicts: Sequence[Verdict]) -> str:
    """Draw the p-values of verdicts against the epsilon tested, as one inline SVG."""
    drawn = [verdict for verdict in verdicts if verdict.curve]
    if not drawn:
        return ""
    top = max(tested.epsilon for verdict in drawn for tested in verdict.curve)
    wide, high = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - _TOP

    def x(epsilon: float) -> float:
        return round(_LEFT + wide * epsilon / top, 1)

    def y(p: float) -> float:
        return round(_TOP + high * (1 - min(p, 1.0)), 1)

    parts = [
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'aria-label="p-value against the epsilon tested">',
        f'<line class="axis" x1="{_LEFT}" y1="{y(0)}" x2="{_WIDTH - 8}" y2="{y(0)}"/>',
        f'<line class="axis" x1="{_LEFT}" y1="{y(0)}" x2="{_LEFT}" y2="{y(1)}"/>',
    ]
    parts += [f'<text x="{_LEFT - 4}" y="{y(p) + 4}" text-anchor="end">{p:g}</text>' for p in (0.0, 0.5, 1.0)]
    parts += [
        f'<text x="{x(top * i / 4)}" y="{_HEIGHT - 10}" text-anchor="middle">{top * i / 4:.3g}</text>'
        for i in range(5)
    ]
    for i, verdict in enumerate(drawn):
        colour = f"l{i % 3}"
        if verdict.epsilon <= top:
            at = x(verdict.epsilon)
            parts.append(f'<line class="claim {colour}" x1="{at}" y1="{y(0)}" x2="{at}" y2="{y(1)}"/>')
        points = " ".join(f"{x(tested.epsilon)},{y(tested.forward)}" for tested in verdict.curve)
        title = f"claims {verdict.epsilon:.4g}"
        parts.append(
            f'<polyline class="{colour}" points="{points}"><title>{escape(title)}</title></polyline>'
        )
    parts.append("</svg>")
    return "".join(parts)
