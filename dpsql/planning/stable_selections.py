"""Selections whose exact answer no single unit could change: keys without noise, or no row.

A statement that names FIRST_STABLE is answered by one stability test (`kernel.stable_questions`), a list of
them (FIRST STABLE .. ELSE ..) by one after the other, up to the first that passes. Those of an open stream
(OPEN STABLE) are the same; the stream has their tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Self

import numpy as np

from dpsql.analysis import Plan, bound_on_rows
from dpsql.errors import Fix, InternalError, QueryRefused
from dpsql.estimates.predictions import clear_gap
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import FirstStable, StableAnswers, StableStream
from dpsql.kernel.release import Run
from dpsql.kernel.stable_questions import (
    StableAbove,
    StableAnswer,
    StableQuantile,
    StableQuestion,
    StableTop,
    ask_stable,
)
from dpsql.language import AboveThreshold, Scalar, TopK
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests
from dpsql.planning.method import KeepsQuote, NoisyResult, Quote
from dpsql.planning.plan_requests import refuse_option

NAME = "FIRST_STABLE"
BOUNDS = ("max_rows_contributed", "max_groups_contributed")
"""The options of a SELECT whose test is another one's."""
SET_NOTE = "the rows are a set, in the order of their keys: DP_RANK() in the select list asks for a list"


def refuse(plan: Plan, message: str, hint: str | None = None) -> QueryRefused:
    """Return the refusal of a statement that cannot be answered without noise."""
    at = plan.options.at.get("mechanism")
    return plan.query.source.refuse(f"an exact answer is of keys: {message}", at, hint)


def question_of(plan: Plan) -> tuple[int, StableQuestion]:
    """Return the place of the deciding number and the question that a statement asks exactly."""
    if plan.ladders or plan.partitions is not None:
        raise refuse(plan, "bounds that are searched, and selections in partitions, have noise")
    for output in plan.outputs:
        if output.kind not in ("key", "quantile", "rank"):
            raise refuse(
                plan,
                f"{output.name[:60]} is a number, which one {plan.unit} changes everywhere",
                "leave it out of the select list, or ask with noise",
            )
    if plan.cells is not None:
        return 1, _quantile_of(plan)
    if plan.values is not None or plan.existence is not None or plan.outside:
        raise refuse(plan, "all groups, or values, are asked for", "ORDER BY COUNT(..) DESC LIMIT 1")
    selection = plan.selection
    match selection:
        case TopK(threshold=None):
            if plan.sparse and (selection.lowest or selection.k >= plan.groups):
                raise refuse(
                    plan,
                    f"of {plan.groups:,} groups only those with rows are counted, which are private",
                    "ORDER BY COUNT(..) DESC LIMIT 1",
                )
            listed = any(output.kind == "rank" for output in plan.outputs)
            question: StableQuestion = StableTop(selection.k, listed=listed, lowest=selection.lowest)
        case AboveThreshold(limit=None, order=()) if plan.domain_size is not None:
            step, strict = plan.counts[selection.count].step, selection.strict
            level = selection.threshold / step
            question = StableAbove(floor(level) + 1 if strict else ceil(level))
            if question.threshold < 1:
                raise refuse(plan, "every group reaches that threshold", "HAVING COUNT(..) >= 100")
        case TopK() | AboveThreshold():
            raise refuse(
                plan,
                "a threshold selects among all groups of declared keys, without ORDER BY and LIMIT",
                "HAVING COUNT(..) >= 100 alone, or ORDER BY COUNT(..) DESC LIMIT 3 alone",
            )
        case _:
            raise refuse(plan, "nothing is selected here", "ORDER BY COUNT(..) DESC LIMIT 1")
    count = plan.counts[selection.count]
    if count.argument is not None or len(count.parts) != 1 or not count.monotone:
        raise refuse(plan, "groups are compared by counts alone", "ORDER BY COUNT(DISTINCT ..) DESC LIMIT 1")
    return selection.count, question


def _quantile_of(plan: Plan) -> StableQuantile:
    found = {output.quantile for output in plan.outputs}
    quantile = next(iter(found))
    if len(found) > 1 or quantile is None or not isinstance(plan.selection, Scalar):
        raise refuse(plan, "one quantile of all rows", "SELECT MEDIAN(..) FROM .. without GROUP BY")
    if not 0 < quantile.q < 1:
        raise refuse(plan, "an extreme is one unit's value", "a quantile between 0 and 1")
    return StableQuantile(quantile.q)


def moved_by(plan: Plan, place: int, question: StableQuestion) -> int:
    """Return the most by which one unit changes a question's distance to instability."""
    if isinstance(question, StableQuantile):
        if plan.cells is None:
            raise InternalError("a quantile has cells")
        return max(plan.cells.most, 1)
    return max(plan.counts[place].bound, 1)


def needed_lead(plan: Plan, tests: FirstStable | StableAnswers, moved: int) -> float:
    """Return how far ahead an answer must be to be shown, at the level of the statement's intervals.

    Of groups it is a lead in counts, of a quantile a distance in rows.
    """
    found = clear_gap(tests, plan_requests.confidence_of(plan))
    if found is None:
        raise InternalError("a stability test has a distance")
    return moved * (found + 1)


def notes_of(plan: Plan, place: int, question: StableQuestion) -> tuple[str, ...]:
    """Return the notes of an exact answer: an unordered set, rounded values, bounds on rows."""
    found = []
    if isinstance(question, StableTop) and question.k > 1 and not question.listed:
        found.append(SET_NOTE)
    bound = None if isinstance(question, StableQuantile) else bound_on_rows(plan.counts[place])
    if isinstance(question, StableQuantile) and plan.cells is not None:
        step = plan.cells.cells.grid.step
        bound = None if plan.cells.single else plan.cells.most
        if step != 1:
            found.append(f"values are rounded to steps of {float(step):g}")
    if bound is not None:
        found.append(f"of each {plan.unit} at most {bound:,} rows count: it is exact for these")
    if plan.groups_kept is not None:
        found.append(f"of each {plan.unit} at most {plan.groups_kept} groups counted, chosen by a hash")
    return tuple(found)


def delta_of(plan: Plan) -> Fraction:
    """Return the delta of a statement; refuse a statement without a delta."""
    if plan.options.delta is None:
        raise refuse_option(
            plan,
            "mechanism",
            "an exact answer needs a delta: the chance that one is shown which a unit could change",
            "OPTIONS (.., delta = 1e-6)",
            Fix("1e-6", option="delta", guess="1e-6"),
        )
    return plan.options.delta


@dataclass(frozen=True, slots=True)
class StableSelection(KeepsQuote):
    """Shows the exact answer of a statement if it is stable, else no row."""

    plan: Plan
    place: int
    question: StableQuestion
    mechanism: FirstStable

    @classmethod
    def of(cls, plan: Plan, queries: int = 1) -> Self:
        """Plan the test of a statement, one of so many; raises `ValueError` if a scale is too large."""
        place, question = question_of(plan)
        for name in ("measure", "measure_strategy", "candidates", "intervals"):
            if name in plan.options.at:
                raise plan.query.source.refuse(
                    f"option {name} has no meaning for an exact answer", plan.options.at[name], "leave it out"
                )
        if plan.options.noise not in (None, "LAPLACE"):
            raise refuse_option(
                plan, "noise", "the noise of stability tests is one-sided, or LAPLACE", "leave noise out"
            )
        mechanism = FirstStable.plan(
            queries,
            plan.epsilon_division.pure_epsilon(),
            delta_of(plan),
            noise="laplace" if plan.options.noise == "LAPLACE" else "one-sided",
        )
        return cls(plan, place, question, mechanism)

    def compute_quote(self) -> Quote:
        """Return the price, and how far ahead an answer must be to be shown."""
        plan, mechanism, first = self.plan, self.mechanism, self.mechanism.tests.threshold_epsilon
        moved = moved_by(plan, self.place, self.question)
        needed = needed_lead(plan, mechanism, moved)
        return Quote(
            Charge(plan.price, mechanism.loss.delta),
            "stability test",
            float(mechanism.tests.scale * moved),
            f"all for the test; {float(first):.3g} if nothing is shown",
            None,
            None,
            needed,
            (
                "no noise: the answer is exact, or there is no row",
                self.say_needed(),
                *notes_of(plan, self.place, self.question),
            ),
            divided=None if plan.epsilon_division.order is None else mechanism.loss,
        )

    def say_needed(self) -> str:
        """Return the sentence that says how far ahead the answer must be."""
        level = float(plan_requests.confidence_of(self.plan))
        needed = needed_lead(self.plan, self.mechanism, moved_by(self.plan, self.place, self.question))
        what = "rows" if isinstance(self.question, StableQuantile) else "counts"
        return f"it is shown ({level:.0%}) if it leads by about {needed:.4g} {what}"

    def run(self, run: Run) -> NoisyResult:
        """Test the answer, and show it if it passes."""
        found = ask_stable(run, StableStream(self.mechanism), self.place, self.question)
        result = NoisyResult(found.rows, (None,) * len(self.plan.counts), notes=say_answer(self.plan, found))
        return add_cells(self.plan, result, found.cell)


@dataclass(frozen=True, slots=True)
class StableList(StableSelection):
    """Shows the exact answer of the first statement of a list that has a stable one, else no row."""

    others: tuple[StableSelection, ...] = ()
    """The statements behind the first one, with its mechanism."""

    @classmethod
    def of_plans(cls, plans: Sequence[Plan]) -> StableList:
        """Plan the tests of several statements, at the price of the first; `ValueError` as for one."""
        first, *others = (StableSelection.of(plan, len(plans)) for plan in plans)
        tests = first.mechanism
        return cls(
            first.plan,
            first.place,
            first.question,
            tests,
            others=tuple(replace(each, mechanism=tests) for each in others),
        )

    def compute_quote(self) -> Quote:
        """Return the price of the list, and how far ahead each answer must be to be shown."""
        quote = StableSelection.compute_quote(self)
        said = ["no noise: the first answer that is stable is shown, exactly, or there is no row"]
        for place, each in enumerate((self, *self.others), 1):
            own = (StableSelection.say_needed(each), *notes_of(each.plan, each.place, each.question))
            said += [f"SELECT {place}: {text}" for text in own]
        return replace(quote, mechanism="stability tests", notes=tuple(said))

    def run_first(self, runs: Sequence[Run]) -> tuple[int, NoisyResult]:
        """Test the answers in order, up to a stable one; return the place of the last, and what is shown."""
        stream, every = StableStream(self.mechanism), (self, *self.others)
        place, found = -1, None
        while found is None or (not found.stable and place + 1 < len(every)):
            place += 1
            found = ask_stable(runs[place], stream, every[place].place, every[place].question)
        plan, notes = every[place].plan, say_answer(every[place].plan, found)
        if found.stable:
            before = "" if not place else ": no answer before it is stable"
            notes = (f"this is the answer of SELECT {place + 1} of {len(every)}{before}", *notes)
        result = NoisyResult(found.rows, (None,) * len(plan.counts), notes=notes)
        return place, add_cells(plan, result, found.cell)


def say_answer(plan: Plan, found: StableAnswer) -> tuple[str, ...]:
    """Return the note that explains an empty exact answer; nothing for one with rows."""
    if not found.stable:
        return (f"unstable: one {plan.unit} more or less might change the answer, so no row is shown",)
    return () if len(found.rows) else ("stable: no group reaches the threshold, which is the exact answer",)


def add_cells(plan: Plan, result: NoisyResult, cell: np.ndarray) -> NoisyResult:
    """Return the result with the cell of its quantile, if it has one."""
    quantiles = {output.quantile for output in plan.outputs if output.quantile is not None}
    return replace(result, cells=dict.fromkeys(quantiles, cell)) if quantiles else result
