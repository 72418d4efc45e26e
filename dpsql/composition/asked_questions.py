"""Questions of streams of exact answers: how such a stream is planned, and what ASK counts, tests and shows.

A question is a statement as those that name FIRST_STABLE; the test is the stream's, and its price is paid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsql.analysis import complete_options
from dpsql.composition.checked_numbers import plan_stream
from dpsql.composition.planned_answers import StatementPlanner
from dpsql.composition.planned_count import PlannedCount
from dpsql.composition.prepared import PreparedQuestion
from dpsql.composition.stream_parts import parts_of_stream
from dpsql.kernel.charged_work import CheckResult
from dpsql.kernel.ledger.lasting_streams import StreamTerms
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import CheckStreamPlan, StableAnswers, StableStream
from dpsql.kernel.release import Run
from dpsql.kernel.stable_questions import ask_stable
from dpsql.language import Ask, OpenChecks, OpenStable, StatementText
from dpsql.planning import build_rows
from dpsql.planning.method import NoisyResult
from dpsql.planning.stable_selections import BOUNDS, NAME, add_cells, notes_of, question_of, say_answer
from dpsql.release.check_answers import CheckAnswer

if TYPE_CHECKING:
    from dpsql.database import Engines
    from dpsql.kernel.ledger.lasting_streams import StoredStream

_BOUNDS = (*BOUNDS, "fresh")
"""The options of the SELECT of a question."""
_NO_DELTA = Fraction(1, 2)
"""The delta of what is counted, of which no number depends on it: the stream has its own."""


def plan_stable(opened: OpenStable, share: Fraction | None = None) -> StableAnswers:
    """Plan the stream of an OPEN STABLE statement; `share` is the threshold's, of one planned before."""
    return StableAnswers.plan(opened.questions, opened.misses, opened.epsilon, opened.delta, share=share)


def plan_opened(opened: OpenChecks, share: Fraction | None = None) -> CheckStreamPlan | StableAnswers:
    """Plan the stream that an OPEN CHECKS, BOARD, HOLDOUT or STABLE statement opens."""
    return plan_stable(opened, share) if isinstance(opened, OpenStable) else plan_stream(opened, share)


def stable_terms(opened: OpenStable, plan: StableAnswers) -> StreamTerms:
    """Return the terms of a stream of exact answers, as the ledger stores them."""
    options = {"kind": "stable", "delta": str(opened.delta), "questions": opened.questions}
    tests = plan.tests
    return StreamTerms(
        opened.name, plan.failures, tests.threshold_epsilon, tests.epsilon, opened.source.text, options
    )


def opened_stable(stream: StoredStream) -> OpenStable:
    """Rebuild the OPEN STABLE statement of a stream from its terms in the ledger."""
    terms, known = stream.terms, stream.terms.options
    delta, questions = Fraction(known["delta"]), known["questions"]
    source, charge = StatementText(terms.statement), terms.charge
    return OpenStable(source, terms.name, charge.epsilon, terms.misses, delta=delta, questions=questions)


def prepare_question(planner: StatementPlanner, ask: Ask, engines: Engines) -> PreparedQuestion:
    """Analyse a question; refuse what has no distance. Nothing is read or charged."""
    query = ask.query
    for name, at in query.options.at.items():
        if name not in _BOUNDS:
            raise query.source.refuse(
                f"the stream pays for a question, so its SELECT has no {name}",
                at,
                "it takes " + ", ".join(_BOUNDS),
            )
    usual = replace(planner.defaults, epsilon=Fraction(1), error=None, delta=_NO_DELTA)
    options = replace(complete_options(query.options, usual), mechanism=NAME)
    counting = PlannedCount.of(query, planner.policy, engines, options)
    place, question = question_of(counting.plan)
    return PreparedQuestion(ask, counting, place, question)


class AskedQuestion:
    """One question: what is counted, tested and shown, under its stream's charge."""

    def __init__(self, prepared: PreparedQuestion, opened: OpenChecks) -> None:
        self._prepared, self._opened = prepared, opened

    def ask(self, stream: StableStream, confirm: Callable[[], None]) -> CheckResult:
        """Count the question's rows, test and maybe show the answer; return it as the ledger stores it."""
        prepared, plan, before = self._prepared, self._prepared.counting.plan, stream.used
        parts = parts_of_stream(self._opened, prepared.counting.policy)
        run = Run(prepared.counting.count(unchanged=True), Spending(stream.plan.loss, parts))
        confirm()
        found = ask_stable(run, stream, prepared.place, prepared.question)
        result = add_cells(plan, NoisyResult(found.rows, (None,) * len(plan.counts)), found.cell)
        table = build_rows(plan, result, run)
        notes = (*say_answer(plan, found), *notes_of(plan, prepared.place, prepared.question))
        notes += tuple(f"assumed: {each}" for each in plan.assumed)
        none = pa.table({"none": pa.array(np.zeros(0, dtype=np.int64))})
        return CheckResult(stream.used - before, CheckAnswer(table, notes, none).to_bytes())
