"""Prepares the statements of streams, and rebuilds that which opened one. Nothing is read or charged."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpsql.analysis.unit_periods import check_stream
from dpsql.composition.asked_checks import (
    opened_stable,
    parts_of_stream,
    plan_opened,
    prepare_question,
    stable_terms,
)
from dpsql.composition.boards import expect_best, list_options, opened_scores
from dpsql.composition.checked_numbers import prepare_check
from dpsql.composition.model_numbers import check_models
from dpsql.composition.planned_answers import StatementPlanner
from dpsql.composition.prepared import PreparedCommand, PreparedQuestion
from dpsql.errors import QueryRefused
from dpsql.kernel.ledger.lasting_streams import StoredStream, StreamTerms
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import CheckStreamPlan, StableAnswers
from dpsql.language import Ask, Check, OpenChecks, OpenStable, StatementText, StreamCommand

if TYPE_CHECKING:
    from dpsql.database import Engines

StreamStatement = Ask | Check | OpenChecks | StreamCommand


def prepare_stream_statement(
    planner: StatementPlanner, text: str, statement: StreamStatement, engines: Engines
) -> PreparedCommand:
    """Prepare OPEN, CHECK, ASK, REFILL or CLOSE of a stream; a refill costs what opening it did."""
    check_stream(planner.policy, statement)
    if isinstance(statement, Ask):
        question = _find_question(planner, statement, engines)
        if question is not None:
            return PreparedCommand(text, question)
        if isinstance(statement.check, QueryRefused):
            raise statement.check
        statement = statement.check
    if isinstance(statement, Check):
        return PreparedCommand(text, prepare_check(planner, expect_best(planner, statement), engines))
    if isinstance(statement, OpenChecks):
        check_models(statement, planner.policy)
        parts_of_stream(statement, planner.policy)
        return PreparedCommand(text, statement, plan_opened(statement).loss.charge)
    found = planner.database.ledger.streams.find(planner.analyst, statement.name)
    again = statement.what == "refill" and found is not None
    return PreparedCommand(text, statement, found.terms.charge if again and found else Charge())


def _find_question(planner: StatementPlanner, ask: Ask, engines: Engines) -> PreparedQuestion | None:
    """Return the question of exact answers that ASK is; None: it is a check of what models expect.

    A stream that is not open yet, as in a file that opens it, has the kind of what is asked: exact answers
    have keys alone, and what models expect is a number.
    """
    stream = planner.database.ledger.streams.find(planner.analyst, ask.name)
    if stream is not None:
        exact = stream.terms.options["kind"] == "stable"
        return prepare_question(planner, ask, engines) if exact else None
    try:
        return prepare_question(planner, ask, engines)
    except QueryRefused:
        return None


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
