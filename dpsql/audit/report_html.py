"""Render a campaign as one HTML file: tables, counterexamples in words, curves in SVG, no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from dpsql.audit.catalogue import Campaign, Outcome
from dpsql.audit.report import p_values
from dpsql.render.html import curve_svg, table, tag

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
        tag("h1", "dpsql audit"),
        tag(
            "p",
            f"{verdicts} verdicts, {result}. Each holds with confidence {campaign.confidence:.6g}; "
            f"the chance that any correct mechanism is accused is at most {campaign.error_rate:g}. "
            "A mechanism that passes is not proved private: no counterexample was found.",
        ),
        tag(
            "p",
            "The curves show the p-value of the claim at each epsilon tested: near 0 it is refuted. A "
            "correct mechanism's curve rises before its claim, the dashed line; an incorrect one's "
            "behind it.",
        ),
    ]
    for kind, outcomes in groupby(campaign.outcomes, key=lambda outcome: outcome.subject.kind):
        parts.append(tag("h2", escape(_KINDS.get(kind, kind))))
        for _, same in groupby(outcomes, key=lambda outcome: outcome.subject.name):
            parts.append(_article(list(same)))
    head = tag("title", "dpsql audit") + tag("style", _STYLE)
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    page = tag("html", tag("head", meta, head), tag("body", *(f"\n{part}" for part in parts)), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _article(outcomes: Sequence[Outcome]) -> str:
    subject, verdicts = outcomes[0].subject, [outcome.verdict for outcome in outcomes]
    heads = ("claim", "verdict", "epsilon at least", "p-value", "seconds")
    facts = table((tag("th", head) for head in heads), map(_cells, outcomes))
    drawn = curve_svg(
        [p_values(verdict, f"claims {verdict.epsilon:.4g}") for verdict in verdicts],
        "p-value against the epsilon tested",
    )
    words = (tag("p", escape(verdict.words()), class_="words") for verdict in verdicts)
    opened = {"open": ""} if any(verdict.violated for verdict in verdicts) else {}
    return tag(
        "article",
        tag("h3", escape(subject.name)),
        tag("p", escape(subject.about), class_="about"),
        tag("div", drawn, facts, class_="row"),
        tag("details", tag("summary", "closest events"), *words, **opened),
    )


def _cells(outcome: Outcome) -> list[str]:
    verdict = outcome.verdict
    text = ("not private" if verdict.violated else "passes") + ("" if outcome.expected else ", unexpected")
    mark = {"class_": "bad"} if verdict.violated else {}
    numbers = (f"{verdict.lower_bound:.4g}", f"{verdict.p_value:.2g}", f"{verdict.seconds:.2f}")
    first = [tag("td", f"{verdict.epsilon:.4g}"), tag("td", text, **mark)]
    return [*first, *(tag("td", number) for number in numbers)]
