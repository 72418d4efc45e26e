"""Asks one check of a stream: counts it, checks its numbers in order, and answers those that are off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsql.composition.checked_numbers import Expected, bound_of, expected_of, statistic_of
from dpsql.composition.composed_statements import run_composed
from dpsql.composition.model_numbers import state_of
from dpsql.composition.planned_answers import StatementPlanner, plan_answer
from dpsql.composition.prepared import PreparedComposed
from dpsql.composition.running import count_and_run
from dpsql.composition.stream_parts import parts_of_stream
from dpsql.errors import InternalError
from dpsql.kernel.charged_work import CheckResult
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.release import Run
from dpsql.release import places_of
from dpsql.release.check_answers import CheckAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.composition.model_numbers import ModelNumbers
    from dpsql.composition.prepared import PreparedCheck
    from dpsql.estimates import ModelWeights
    from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan
    from dpsql.language import OpenChecks
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
