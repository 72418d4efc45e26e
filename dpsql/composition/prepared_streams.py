"""Prepares the statements of streams: what they ask, what they cost. Nothing is read or charged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dpsql.composition.asked_questions import plan_opened, prepare_question
from dpsql.composition.boards import expect_best
from dpsql.composition.checked_numbers import prepare_check
from dpsql.composition.model_numbers import check_models
from dpsql.composition.planned_answers import CheckPlanner
from dpsql.composition.prepared import PreparedCommand, PreparedQuestion
from dpsql.composition.refused_with_periods import check_stream
from dpsql.composition.stream_parts import parts_of_stream
from dpsql.errors import QueryRefused
from dpsql.kernel.loss import Charge
from dpsql.language import Ask, Check, OpenChecks, StreamCommand

if TYPE_CHECKING:
    from dpsql.database import Database, Engines

StreamStatement = Ask | Check | OpenChecks | StreamCommand


class StreamPlanner(CheckPlanner, Protocol):
    """The part of a planner that streams use."""

    @property
    def database(self) -> Database:
        """The database, with the ledger."""

    @property
    def analyst(self) -> str:
        """The analyst whose streams the planner opens, asks and closes."""


def prepare_stream_statement(
    planner: StreamPlanner, text: str, statement: StreamStatement, engines: Engines
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


def _find_question(planner: StreamPlanner, ask: Ask, engines: Engines) -> PreparedQuestion | None:
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
