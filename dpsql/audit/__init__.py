"""Detect counterexamples to differential privacy: tests whether a mechanism satisfies its claim.

`detect` takes any mechanism that runs in batches and returns a `Verdict` with p-values, the event that
distinguishes best and a lower bound on the true epsilon. `campaign` audits several subjects of the
`CATALOGUE`, which has all mechanisms of dpsql, and subjects known to be private or not; its verdicts are
written as data, text and HTML.

=========================  =============================================================================
``detector``               the search for a counterexample, the test on fresh runs, the verdict in words; a
                           mechanism with its claim; those of dpsql (``cases`` has their inputs)
``counterexample_search``  the search over inputs and arguments, and the choice of an event
``runs``                   adjacent inputs, and the outputs of many runs as labels and numbers
``features``               labels and numbers of an output that events are conditions on
``feature_selection``      the features of two samples, with combinations that distinguish them
``events``                 events and their conditions, and all that two samples are searched for
``statistics``             Fisher's exact test on thinned counts, and the test of the chosen event
``mistakes``               mechanisms with a known verdict, most of them incorrect
``end_to_end``             whole statements on the data and on the data without one unit
=========================  =============================================================================
"""

from __future__ import annotations

import signal
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from fractions import Fraction
from functools import partial
from html import escape
from itertools import groupby
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from dpsql.audit.detector import SHIPPED, Counterexample, PValues, Subject, Verdict, detect
from dpsql.audit.mistakes import SUBJECTS as KNOWN
from dpsql.audit.runs import CHARGE, Pair, pairs, read
from dpsql.kernel.noise import Entropy
from dpsql.lazy_dataclass import dataclass
from dpsql.render.grid import Style, column, draw, escape_controls
from dpsql.render.html import curve_svg, table, tag
from dpsql.render.plots import PValueCurve, curves, sparkline

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "CATALOGUE",
    "CHARGE",
    "EPSILONS",
    "Campaign",
    "Counterexample",
    "Outcome",
    "PValues",
    "Pair",
    "Subject",
    "Verdict",
    "as_data",
    "as_html",
    "as_text",
    "campaign",
    "detect",
    "figure",
    "pairs",
    "read",
    "strip",
    "verdict_data",
]

CATALOGUE: tuple[Subject, ...] = (*SHIPPED, *KNOWN)
"""All subjects: every mechanism of dpsql, private ones from the literature, and known mistakes."""

EPSILONS = (Fraction(1, 5), Fraction(7, 10), Fraction(3, 2))
"""The claims tested by default: those of the dissertation's experiments."""

_NEAR = 0.75
"""Share of the claim that the lower bound of a tight mechanism reaches if the search succeeds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One audit of a subject at one epsilon, with its verdict."""

    subject: Subject
    epsilon: Fraction
    verdict: Verdict

    @property
    def is_expected(self) -> bool:
        """Whether the verdict is the known one: violated exactly if the subject's claim is false."""
        return self.verdict.violated == self.subject.is_wrong(float(self.epsilon))

    @property
    def near(self) -> bool:
        """Whether the lower bound comes within a quarter of the claim, or beyond it."""
        return self.verdict.lower_bound >= _NEAR * self.verdict.epsilon


@dataclass(frozen=True, slots=True)
class Campaign:
    """The audits of several subjects."""

    outcomes: tuple[Outcome, ...]
    """By subject, then by epsilon."""
    confidence: float
    """Of each verdict; all of them together hold with confidence 1 - `error_rate`."""
    error_rate: float
    """Familywise error rate: the chance that any correct subject is accused."""
    seconds: float

    @property
    def is_expected(self) -> bool:
        """Whether every verdict is as expected."""
        return all(outcome.is_expected for outcome in self.outcomes)


def campaign(
    subjects: Sequence[Subject] = CATALOGUE,
    epsilons: Sequence[Fraction] = EPSILONS,
    *,
    trials: int = 500_000,
    error_rate: float = 0.01,
    entropy: Entropy | None = None,
    processes: int = 1,
    on_progress: Callable[[int, int, Subject, Fraction], None] | None = None,
) -> Campaign:
    """Audit subjects at each of several epsilon.

    Parameters
    ----------
    subjects, epsilons
        What to audit.
    trials
        Runs of each final test on each input.
    error_rate
        Chance that any correct subject is accused in the whole campaign; each verdict gets an equal part.
    entropy
        As for `detect`.
    processes
        Number of worker processes. Subjects outside `CATALOGUE`, and all subjects if an `entropy` is given,
        are audited in this process.
    on_progress
        Called before each audit's result is awaited, with its number, the number of audits, the subject and
        epsilon.
    """
    started = time.perf_counter()
    tasks = [(subject, epsilon) for subject in subjects for epsilon in epsilons]
    confidence = 1 - error_rate / max(len(tasks), 1)
    top = 1.6 * float(max(epsilons, default=Fraction(1)))
    grid = [round(top * i / 24, 3) for i in range(1, 25)]
    audit = partial(_audit, trials=trials, confidence=confidence, epsilons=grid)
    verdicts = (
        _audit_in_processes(tasks, audit, processes)
        if processes > 1 and entropy is None and all(one in CATALOGUE for one, _ in tasks)
        else (audit(subject, epsilon, entropy=entropy) for subject, epsilon in tasks)
    )
    outcomes = []
    for number, (subject, epsilon) in enumerate(tasks, 1):
        if on_progress is not None:
            on_progress(number, len(tasks), subject, epsilon)
        outcomes.append(Outcome(subject, epsilon, next(verdicts)))
    return Campaign(tuple(outcomes), confidence, error_rate, time.perf_counter() - started)


def _audit(subject: Subject | int, epsilon: Fraction, **settings: Any) -> Verdict:  # noqa: ANN401  of `audit`
    """Audit a subject, or one named by its place in the catalogue, since its functions cannot be pickled."""
    chosen = CATALOGUE[subject] if isinstance(subject, int) else subject
    return chosen.audit(epsilon, **settings)


def _audit_in_processes(
    tasks: Sequence[tuple[Subject, Fraction]], audit: Callable[..., Verdict], processes: int
) -> Iterator[Verdict]:
    """Audit in several processes, for small numpy operations hold the interpreter's lock."""
    pool = ProcessPoolExecutor(min(processes, len(tasks)), get_context("spawn"), _ignore_sigint)
    try:
        places = [(CATALOGUE.index(subject), epsilon) for subject, epsilon in tasks]
        for future in [pool.submit(audit, *place, threads=1) for place in places]:
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_sigint() -> None:
    """Ignore SIGINT, which the parent process handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_FIGURES = 6
"""The most subjects for which figures are drawn; a strip is drawn for each."""


def as_data(campaign: Campaign) -> dict[str, Any]:
    """Return a campaign as dictionaries and lists of plain values."""
    return {
        "confidence": campaign.confidence,
        "doubt": campaign.error_rate,
        "expected": campaign.is_expected,
        "seconds": round(campaign.seconds, 3),
        "audits": [_outcome_data(outcome) for outcome in campaign.outcomes],
    }


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    subject = outcome.subject
    return {
        "kind": subject.kind,
        "about": subject.about,
        "given_epsilon": float(outcome.epsilon),
        "expected": outcome.is_expected,
        "near": outcome.near,
        **verdict_data(outcome.verdict),
    }


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as dictionaries and lists of plain values."""
    facts = _field_values(verdict)
    found = _field_values(verdict.counterexample)
    found |= {name: _to_plain(found[name]) for name in ("first", "second")}
    found["arguments"] = {name: _to_plain(value) for name, value in found["arguments"].items()}
    found["event"] = verdict.counterexample.event.words()
    return {
        "mechanism": facts.pop("name"),
        **facts,
        "words": verdict.words(),
        "counterexample": {name: value for name, value in found.items() if name not in ("epsilon", "delta")},
        "curve": [_field_values(tested) for tested in verdict.curve],
        "seconds": round(verdict.seconds, 3),
    }


def _field_values(made: DataclassInstance) -> dict[str, Any]:
    return {field.name: getattr(made, field.name) for field in fields(made)}


def _to_plain(value: object) -> object:
    """Convert nested tuples to lists, and values that JSON does not support to text."""
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
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
    text = _draw_table(campaign, style)
    subjects = [list(same) for _, same in groupby(outcomes, key=lambda outcome: outcome.subject.name)]
    if len(subjects) <= _FIGURES:
        columns = max(30, min(60, (style.columns or 80) - 20))
        for same in subjects:
            drawn = figure([o.verdict for o in same], columns=columns, plain=style.plain)
            text += "\n" + _escape_lines(drawn, style)
    for outcome in outcomes:
        if outcome.verdict.violated or not outcome.is_expected or len(outcomes) <= _FIGURES:
            text += "\n" + _verdict_text(outcome, style)
    return text


def _draw_table(campaign: Campaign, style: Style) -> str:
    outcomes = campaign.outcomes
    verdicts = [outcome.verdict for outcome in outcomes]
    top = max((verdict.curve[-1].epsilon for verdict in verdicts if verdict.curve), default=0.0)
    columns = [
        column("mechanism", [outcome.subject.name for outcome in outcomes], style),
        column("claim", [f"{v.epsilon:.4g}" for v in verdicts], style, number=True),
        column("verdict", [_verdict_word(outcome) for outcome in outcomes], style, firm=True),
        column(
            _escape_lines("epsilon ≥", style), [f"{v.lower_bound:.3g}" for v in verdicts], style, number=True
        ),
        column("p-value", [f"{v.p_value:.2g}" for v in verdicts], style, number=True),
        column(
            f"p-value at 0 to {top:.3g}", [strip(v, plain=style.plain) for v in verdicts], style, firm=True
        ),
        column("s", [f"{v.seconds:.1f}" for v in verdicts], style, number=True),
    ]
    return draw(columns, style)


def _verdict_word(outcome: Outcome) -> str:
    text = "not private" if outcome.verdict.violated else "passes"
    return text if outcome.is_expected else text.upper()


def _verdict_text(outcome: Outcome, style: Style) -> str:
    sentence = _escape_lines(outcome.verdict.words(), style)
    return textwrap.fill(sentence, width=min(style.columns or 100, 100), subsequent_indent="  ") + "\n"


def _escape_lines(text: str, style: Style) -> str:
    """Escape control characters in each line; spell comparisons out where the encoding lacks them."""
    if style.plain:
        text = text.replace("≥", ">=").replace("≤", "<=")
    return "\n".join(escape_controls(line, style.encoding) for line in text.split("\n"))


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
    wrong = sum(not outcome.is_expected for outcome in campaign.outcomes)
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
            parts.append(_render_subject(list(same)))
    head = tag("title", "dpsql audit") + tag("style", _STYLE)
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    page = tag("html", tag("head", meta, head), tag("body", *(f"\n{part}" for part in parts)), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _render_subject(outcomes: Sequence[Outcome]) -> str:
    subject, verdicts = outcomes[0].subject, [outcome.verdict for outcome in outcomes]
    heads = ("claim", "verdict", "epsilon at least", "p-value", "seconds")
    facts = table((tag("th", head) for head in heads), map(_render_cells, outcomes))
    drawn = curve_svg([p_values(verdict, f"claims {verdict.epsilon:.4g}") for verdict in verdicts])
    words = (tag("p", escape(verdict.words()), class_="words") for verdict in verdicts)
    opened = {"open": ""} if any(verdict.violated for verdict in verdicts) else {}
    return tag(
        "article",
        tag("h3", escape(subject.name)),
        tag("p", escape(subject.about), class_="about"),
        tag("div", drawn, facts, class_="row"),
        tag("details", tag("summary", "closest events"), *words, **opened),
    )


def _render_cells(outcome: Outcome) -> list[str]:
    verdict = outcome.verdict
    text = ("not private" if verdict.violated else "passes") + ("" if outcome.is_expected else ", unexpected")
    mark = {"class_": "bad"} if verdict.violated else {}
    numbers = (f"{verdict.lower_bound:.4g}", f"{verdict.p_value:.2g}", f"{verdict.seconds:.2f}")
    first = [tag("td", f"{verdict.epsilon:.4g}"), tag("td", text, **mark)]
    return [*first, *(tag("td", number) for number in numbers)]
