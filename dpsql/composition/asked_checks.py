"""Asks one check of a stream, or one question of a stream of exact answers.

A check is counted, its numbers are checked in order, and those that are off are answered. A question is a
statement as those that name FIRST_STABLE; the test is the stream's, and its price is paid.

The parts of a stream are those of the policy's parts of units that it may ask about, and is charged to. They
are fixed when it is opened: ALL of them, future ones too, or those of the days in `parts`. A unit of another
part changes nothing that such a stream counts, so it costs that unit nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsql.analysis import complete_options
from dpsql.composition.checked_numbers import Expected, bound_of, expected_of, plan_stream, statistic_of
from dpsql.composition.composed_statements import run_composed
from dpsql.composition.model_numbers import state_of
from dpsql.composition.planned_answers import StatementPlanner, plan_answer
from dpsql.composition.planned_count import PlannedCount
from dpsql.composition.prepared import PreparedComposed, PreparedQuestion
from dpsql.composition.running import count_and_run
from dpsql.errors import InternalError, ProgrammingError
from dpsql.kernel.charged_work import CheckResult
from dpsql.kernel.ledger.lasting_streams import StreamTerms
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import CheckStreamPlan, StableAnswers, StableStream
from dpsql.kernel.release import Run
from dpsql.kernel.stable_questions import ask_stable
from dpsql.kernel.unit_parts import Calendar, PartSet
from dpsql.language import Ask, OpenChecks, OpenStable, StatementText
from dpsql.planning import build_rows
from dpsql.planning.method import NoisyResult
from dpsql.planning.stable_selections import BOUNDS, NAME, add_cells, notes_of, question_of, say_answer
from dpsql.release import places_of
from dpsql.release.check_answers import CheckAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpsql.composition.model_numbers import ModelNumbers
    from dpsql.composition.planned_count import PlannedCount
    from dpsql.composition.prepared import PreparedCheck
    from dpsql.database import Engines
    from dpsql.estimates import ModelWeights
    from dpsql.kernel.ledger.lasting_streams import StoredStream
    from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan
    from dpsql.language import OpenChecks
    from dpsql.policy import Policy
    from dpsql.release import Release


class AskedCheck:
    """One check: what is counted, checked and answered, under its stream's charge."""

    def __init__(
        self,
        planner: StatementPlanner,
        prepared: PreparedCheck,
        opened: OpenChecks,
        last: pa.Table | None,
        most: int,
        models: ModelNumbers | None,
        weights: ModelWeights | None,
    ) -> None:
        """`last` has what is known of earlier checks of the series; `most` misses may be used.

        `models` have what is expected, if the check expects that; `weights` are those of the stream's models.
        """
        self._planner, self._prepared, self._opened = planner, prepared, opened
        self._last, self._most = last, most
        self._models, self._weights = models, weights

    def ask(self, stream: CheckStream, confirm: Callable[[], None]) -> CheckResult:
        """Count the check's groups, compare and maybe release them; return the answer as it is stored."""
        prepared = self._prepared
        counting, before = prepared.counting, stream.used
        parts = parts_of_stream(self._opened, counting.policy)
        run = Run(counting.count(unchanged=True), Spending(stream.plan.loss, parts))
        confirm()
        rows = run.every()
        keys = run.keys(rows)
        groups = len(rows) - counting.plan.outside
        shown = [key.slice(0, groups) for key in keys]
        expected = expected_of(
            prepared, shown, groups, self._opened.tolerance, self._last, self._guess if self._models else None
        )
        statistics = [statistic_of(prepared, each) for each in expected]
        gaps = run.check_all(stream, rows.take(_places(expected)), statistics, self._most)
        answers = {
            i: self._answer(stream.plan, [key[expected[i].place].as_py() for key in keys])
            for i, gap in enumerate(gaps)
            if gap is not None and stream.plan.answer_epsilon
        }
        table = self._table(stream.plan, keys, expected, gaps, answers)
        notes = self._notes(groups, expected, len(gaps))
        weights = self._learn(table, expected, answers, stream.plan)
        state = None if weights is None else state_of(self._opened, weights)
        answer = replace(self.tell(stream.plan, table, notes), models=state)
        return CheckResult(stream.used - before, answer.to_bytes())

    def tell(self, plan: CheckStreamPlan, table: pa.Table, notes: tuple[str, ...]) -> CheckAnswer:
        """Return the answer of a check as it is stored, with what later ones expect as LAST."""
        del plan
        return CheckAnswer(table, notes, self._keep_last(table))

    def _guess(self, keys: tuple[Any, ...]) -> Fraction:
        """Return what the models expect of a group."""
        if self._models is None or self._weights is None:
            raise InternalError("a stream without models has no expectation of theirs")
        return self._weights.find_median(self._models.values(keys))

    def _learn(
        self,
        table: pa.Table,
        expected: Sequence[Expected],
        answers: dict[int, Release],
        plan: CheckStreamPlan,
    ) -> ModelWeights | None:
        """Return the weights of the models after what was answered, in order."""
        weights, count = self._weights, len(self._prepared.keys)
        if weights is None or self._models is None:
            return weights
        for i, release in answers.items():
            value, guess = _number_of(release)[0], expected[i].low
            if value is None or guess is None:
                continue
            keys = tuple(table.column(place)[i].as_py() for place in range(count))
            scale = bound_of(self._prepared) / plan.answer_epsilon
            values = self._models.values(keys)
            weights = weights.learn(values, guess, Fraction(value), expected[i].tolerance, scale)
        return weights

    def _answer(self, plan: CheckStreamPlan, keys: Sequence[Any]) -> Release:
        """Release the number of a group that is off; the stream's charge has its epsilon."""
        check, engines = self._prepared.check, self._prepared.counting.engines
        made = plan_answer(self._planner, self._prepared, keys, plan.answer_epsilon, engines)
        (part,), parts = made.parts, parts_of_stream(self._opened, self._planner.policy)
        paid = count_and_run(check.source.text, part, parts)
        if paid.charge.delta or paid.charge.epsilon > plan.answer_epsilon:
            raise InternalError("an answer costs more than its miss pays for")
        return run_composed(made, (paid.value,)) if isinstance(made, PreparedComposed) else paid.value

    def _keep_last(self, table: pa.Table) -> pa.Table:
        """Return the values that were accepted or answered, and older ones of other groups."""
        keys, column = len(self._prepared.keys), self._prepared.check.column
        kept = dict[tuple[Any, ...], float]()
        if self._last is not None and self._last.schema.types[:keys] == table.schema.types[:keys]:
            rows = zip(*(self._last.column(i).to_pylist() for i in range(keys + 1)), strict=True)
            kept = {row[:-1]: row[-1] for row in rows}
        rows = zip(*(table.column(i).to_pylist() for i in range(keys + 1)), strict=True)
        kept |= {row[:-1]: row[-1] for row in rows if row[-1] is not None}
        places = [*table.column_names[:keys], column]
        columns = list(zip(*((*key, value) for key, value in kept.items()), strict=True)) or [()] * (keys + 1)
        types = [table.schema.field(i).type for i in range(keys + 1)]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        return pa.Table.from_arrays(arrays, names=places)

    def _table(
        self,
        plan: CheckStreamPlan,
        keys: Sequence[pa.Array],
        expected: Sequence[Expected],
        gaps: Sequence[Fraction | None],
        answers: dict[int, Release],
    ) -> pa.Table:
        """Return the answer: keys, value, checked, expected, low, high and gap of each group."""
        prepared, rows = self._prepared, self._opened.rows
        slack: Fraction | None = Fraction(plan.slack()) * bound_of(prepared)
        if prepared.check.kind == "average" and slack is not None:  # it is of the sum, and so of rows
            slack = None if rows is None else slack / rows
        elif prepared.check.kind == "quantile":
            slack = None
        found: list[tuple[Any, ...]] = []
        for i, each in enumerate(expected):
            ends = {end for end in (each.low, each.high) if end is not None}
            wanted = float(min(ends)) if len(ends) == 1 else None
            if i >= len(gaps):
                found.append((None, "not checked", wanted, None, None, None))
            elif gaps[i] is None:
                room = None if slack is None else each.tolerance + slack
                low = None if each.low is None or room is None else float(each.low - room)
                high = None if each.high is None or room is None else float(each.high + room)
                value = wanted if each.low is not None and each.high is not None else None
                found.append((value, "as expected", wanted, low, high, None))
            else:
                gap = gaps[i]
                assert gap is not None  # noqa: S101  as above
                shown = _number_of(answers[i]) if i in answers else (None, None, None)
                if each.unknown:
                    found.append((shown[0], "answered", None, *shown[1:], None))
                    continue
                found.append((shown[0], "off", wanted, *shown[1:], float(gap)))
        at = _places(expected)
        names = (prepared.check.column, "checked", "expected", "low", "high", "gap")
        columns = list(zip(*found, strict=True)) or [()] * len(names)
        table = pa.table(
            {
                name: pa.array(column, pa.string() if name == "checked" else pa.float64())
                for name, column in zip(names, columns, strict=True)
            }
        )
        for place, (name, key) in enumerate(zip(prepared.keys, keys, strict=True)):
            table = table.add_column(place, name, key.take(pa.array(at, pa.int64())))
        return table

    def _notes(self, groups: int, expected: Sequence[Expected], checked: int) -> tuple[str, ...]:
        """Say what is not checked, and what the checked number leaves out."""
        plan = self._prepared.counting.plan
        notes = [f"assumed: {each}" for each in plan.assumed]
        if len(expected) < groups:
            notes.append(f"{groups - len(expected):,} groups have no expectation and are not checked")
        table = self._prepared.table
        if table is not None and len(expected) < table.num_rows:
            left = table.num_rows - len(expected)
            notes.append(f"{left:,} rows of what is expected have no number or no group")
        if checked < len(expected):
            notes.append(
                f"{len(expected) - checked:,} groups are not checked: many before them were off or answered"
            )
        if plan.outside:
            notes.append("rows whose keys are in no declared group are not checked")
        if any(count.argument is not None and count.argument.cut for count in plan.counts):
            notes.append("values are cut to their bounds: what is checked is the number of the cut ones")
        return tuple(notes)


def _places(expected: Sequence[Expected]) -> Any:  # noqa: ANN401  an array of whole numbers
    import numpy as np  # noqa: PLC0415

    return np.array([each.place for each in expected], dtype=np.int64)


def _number_of(release: Release) -> tuple[float | None, float | None, float | None]:
    """Return the one number of a release, and the ends of its interval, if it has one."""
    numbers = places_of(release).numbers
    ends = (numbers[0].low, numbers[0].high) if numbers else (None, None)
    cells = [None if place is None else release.table.column(place)[0].as_py() for place in (0, *ends)]
    value, low, high = (None if each is None else float(each) for each in cells)
    return value, low, high


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


def parts_of_stream(opened: OpenChecks, policy: Policy) -> PartSet | None:
    """Return the parts of a stream; None: all. Refuse days where the policy has no parts."""
    if opened.parts is None:
        return None
    declared = policy.unit_parts
    if declared is None:
        raise ProgrammingError("the policy has no parts of units, so a stream has none: leave parts out")
    if declared.every is None:
        raise ProgrammingError(
            f"parts of units are values of {declared.column}, and parts = '.. TO ..' names days: leave it out"
        )
    calendar = Calendar(declared.period)
    first, last = (calendar.number(day) for day in opened.parts)
    return PartSet.of((first, last))


def written_parts(opened: OpenChecks, policy: Policy) -> dict[str, Any]:
    """Return the days and parts of a stream as the ledger stores them; empty for all parts."""
    parts, declared = parts_of_stream(opened, policy), policy.unit_parts
    if parts is None or opened.parts is None or declared is None:
        return {}
    days = [day.isoformat() for day in opened.parts]
    return {
        "parts": days,
        "unit_parts": [list(ends) for ends in parts.ranges],
        "parts_by": _list_declaration(policy),
    }


def _list_declaration(policy: Policy) -> list[str]:
    """Return what the policy declares of parts, as the ledger keeps it; empty without parts."""
    found = policy.unit_parts
    return [] if found is None else [found.kind, found.table, found.column, found.every or ""]


def check_stream_parts(options: Mapping[str, Any], opened: OpenChecks, counting: PlannedCount) -> None:
    """Refuse a statement about units of other parts than its stream's, or after these were declared anew."""
    if opened.parts is None:
        return
    if options["parts_by"] != _list_declaration(counting.policy):
        raise ProgrammingError(
            f"the parts of units were declared anew since: CLOSE STREAM {opened.name}, and open another one"
        )
    parts, read = parts_of_stream(opened, counting.policy), counting.plan.unit_parts
    if parts is not None and (read is None or not read <= parts):
        first, last = opened.parts
        raise ProgrammingError(
            f"the stream {opened.name} is of the parts from {first} to {last}, and this reads others: a "
            f"condition on the date of the unit's part in WHERE, or OPEN .. OPTIONS (.., parts = ALL)"
        )
