"""What the ledger has of how a stream is opened, and the statement that is read of it again."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

from dpsql.composition.asked_questions import opened_stable, plan_opened, stable_terms
from dpsql.composition.boards import list_options, opened_scores
from dpsql.kernel.ledger.lasting_streams import StoredStream, StreamTerms
from dpsql.kernel.mechanisms import CheckStreamPlan, StableAnswers
from dpsql.language import OpenChecks, OpenStable, StatementText


def opened_as(stream: StoredStream) -> OpenChecks:
    """Rebuild the statement that opened a stream from the terms in the ledger."""
    days = stream.terms.options.get("parts")
    parts = None if days is None else (date.fromisoformat(days[0]), date.fromisoformat(days[1]))
    return replace(_opened_as(stream), parts=parts)


def _opened_as(stream: StoredStream) -> OpenChecks:
    known, terms = stream.terms.options, stream.terms
    if known["kind"] == "stable":
        return opened_stable(stream)
    tolerance, rows = (None if (text := known.get(name)) is None else Fraction(text) for name in _AMOUNTS)
    plain = OpenChecks(
        StatementText(terms.statement),
        terms.name,
        terms.charge.epsilon,
        terms.misses,
        Fraction(known["answers"]),
        known["sides"],
        tolerance,
        known["at_once"],
        tuple(known.get("models", ())),
        tuple(map(Fraction, known.get("scales", ()))),
        rows=rows,
    )
    return opened_scores(plain, known)


_AMOUNTS = ("tolerance", "rows")


def terms_of(opened: OpenChecks, plan: CheckStreamPlan | StableAnswers) -> StreamTerms:
    """Return the terms on which a stream is opened, as the ledger stores them."""
    if isinstance(opened, OpenStable) and isinstance(plan, StableAnswers):
        return stable_terms(opened, plan)
    assert isinstance(plan, CheckStreamPlan)  # noqa: S101  of all other kinds
    tolerance = opened.tolerance
    options: dict[str, Any] = {
        "kind": "checks",
        "answers": str(opened.answers),
        "sides": opened.sides,
        "tolerance": None if tolerance is None else str(tolerance),
        "at_once": opened.at_once,
        **({} if opened.rows is None else {"rows": str(opened.rows)}),
        **list_options(opened),
    }
    if opened.models:
        options |= {"models": [*opened.models], "scales": [*map(str, opened.scales)]}
    each = plan.check_epsilon + plan.answer_epsilon
    return StreamTerms(opened.name, opened.misses, plan.threshold_epsilon, each, opened.source.text, options)


def plan_stored(stream: StoredStream) -> CheckStreamPlan | StableAnswers:
    """Return the plan of a stream, with the share of its threshold that it was opened with."""
    terms = stream.terms
    return plan_opened(opened_as(stream), terms.first / terms.charge.epsilon)
