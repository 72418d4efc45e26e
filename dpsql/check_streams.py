"""The streams of checks of a session: opened, asked, refilled and closed by SQL.

A stream belongs to the session that opened it, and its whole epsilon is charged when it is opened. What was
not used is given back when it is closed, or when the session ends; a session that ends in another way, and a
check that fails, leave all of it charged.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from dpsql.composition.checked_numbers import (
    Expected,
    bound_of,
    check_tolerance,
    expected_of,
    plan_answer,
    plan_stream,
    statistic_of,
)
from dpsql.composition.prepared import PreparedCheck
from dpsql.composition.release_words import round_up
from dpsql.composition.running import count_and_run
from dpsql.database import Running
from dpsql.errors import InternalError, OperationalError, ProgrammingError
from dpsql.kernel.charged_work import Paid
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import CheckStream
from dpsql.kernel.release import Run
from dpsql.language import OpenChecks, StreamCommand
from dpsql.release import places_of
from dpsql.release.reuse import CHANGING
from dpsql.session_api import StatementResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.composition.planner import Planner
    from dpsql.database import Database
    from dpsql.kernel.facts import Facts
    from dpsql.ledger import Ledger
    from dpsql.release import Release

_SHOWN = ("stream", "state", "misses", "left", "epsilon", "charged")


class _Session(Protocol):
    """The part of a session that streams use."""

    analyst: str
    ledger: Ledger
    database: Database

    @property
    def planner(self) -> Planner:
        """The planner of the session."""

    @property
    def facts(self) -> Facts:
        """The facts that the owner declares of the data, as the kernel has them."""


class CheckStreams:
    """The streams of checks of one session, by name."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._open: dict[str, _Stream] = {}

    def open(self, opened: OpenChecks) -> StatementResult:
        """Open a stream: its epsilon is reserved."""
        known = self._open.get(opened.name)
        if known is not None and known.running.open:
            raise ProgrammingError(
                f"the stream {opened.name} is open: CLOSE STREAM {opened.name}, or another name"
            )
        self._open[opened.name] = _Stream(self._session, opened)
        return StatementResult(self.show(opened.name))

    def command(self, statement: StreamCommand) -> StatementResult:
        """Close a stream, which settles it; or close it and open another one of its kind."""
        stream = self._find(statement.name)
        stream.close()
        if statement.what == "refill":
            opened = stream.opened
            misses = opened.misses if statement.misses is None else statement.misses
            return self.open(replace(opened, misses=misses))
        return StatementResult(self.show(statement.name))

    def check(self, prepared: PreparedCheck) -> StatementResult:
        """Check the numbers of a statement: those that are off are answered, and use a miss each."""
        return self._find(prepared.check.name).check(prepared)

    def show(self, name: str | None = None) -> pa.Table:
        """Return the streams of the session, or one: what is left of each, and what it has cost until now."""
        rows = [each.row() for key, each in self._open.items() if name in (None, key)]
        columns = list(zip(*rows, strict=True)) or [()] * len(_SHOWN)
        kinds = [pa.int64() if what in ("misses", "left") else pa.string() for what in _SHOWN]
        return pa.table(
            {what: pa.array(values, kind) for what, values, kind in zip(_SHOWN, columns, kinds, strict=True)}
        )

    def settle(self) -> None:
        """Settle all streams that are open; the session ends."""
        for stream in self._open.values():
            if stream.running.open:
                stream.close()

    def _find(self, name: str) -> _Stream:
        found = self._open.get(name)
        if found is None:
            raise ProgrammingError(
                f"there is no stream {name[:60]} in this session: "
                f"OPEN CHECKS {name[:60]} OPTIONS (epsilon = 1, misses = 8)"
            )
        return found


class _Stream:
    """An open stream: its reservation, its threshold, and the misses that are left."""

    def __init__(self, session: _Session, opened: OpenChecks) -> None:
        self._session, self.opened = session, opened
        self._stream = CheckStream(plan_stream(opened))
        reservation = session.ledger.reserve_stream(
            analyst=session.analyst,
            statement=opened.source.text,
            selection=f"checks {opened.name}",
            mechanism="stream of checks",
            charge=self._stream.plan.loss.charge,
            facts=session.facts,
        )
        self.running = Running(session.ledger, reservation)

    def row(self) -> tuple[Any, ...]:
        """Return what SHOW STREAMS has of it."""
        stream, opened = self._stream, self.opened
        state = "closed" if not self.running.open else "used up" if stream.exhausted else "open"
        charged = stream.charge.epsilon if self.running.open or self._settled else opened.epsilon
        epsilons = round_up(opened.epsilon), round_up(charged)
        return (opened.name, state, opened.misses, stream.misses_left, *epsilons)

    _settled = False

    def close(self) -> None:
        """Settle it: what was used stays charged."""
        if not self.running.open:
            raise ProgrammingError(f"the stream {self.opened.name} is closed")
        self.running.close(self._stream.charge)
        self._settled = True

    def check(self, prepared: PreparedCheck) -> StatementResult:
        """Check the numbers of a statement, in order."""
        if not self.running.open:
            raise ProgrammingError(f"the stream {self.opened.name} is closed: OPEN CHECKS opens it again")
        if self._stream.exhausted:
            raise OperationalError(
                f"all {self.opened.misses} misses of {self.opened.name} are used up: "
                f"REFILL STREAM {self.opened.name} charges {round_up(self.opened.epsilon)} again"
            )
        self._check_side(prepared)
        check_tolerance(prepared, self.opened.tolerance)
        counting = prepared.counting
        if not counting.current():
            raise OperationalError(CHANGING)
        self._session.database.vet(counting.engines, counting.plan.compiled.tables)
        return self.running.step(lambda: self._ask(prepared))

    def _check_side(self, prepared: PreparedCheck) -> None:
        expected, sides = prepared.check.expected, self.opened.sides
        open_side = {"AT_MOST": expected.low, "AT_LEAST": expected.high}.get(sides)
        if sides != "BOTH" and (open_side is not None or expected.table or prepared.check.kind != "sum"):
            words = sides.replace("_", " ")
            raise ProgrammingError(
                f"the stream {self.opened.name} takes counts with EXPECT .. {words} alone: "
                "one that is opened without the option sides takes all checks"
            )

    def _ask(self, prepared: PreparedCheck) -> Paid[StatementResult]:
        """Count, check and answer; called under the reservation."""
        counting, stream = prepared.counting, self._stream
        run = Run(counting.count(unchanged=True), Spending(stream.plan.loss))
        self.running.confirm()
        rows = run.every()
        keys = run.keys(rows)
        groups = len(rows) - counting.plan.outside
        expected = expected_of(
            prepared, [key.slice(0, groups) for key in keys], groups, self.opened.tolerance
        )
        chosen = rows.take(_places(expected))
        gaps = run.check_all(
            stream, chosen, [statistic_of(prepared, each) for each in expected], self.opened.at_once
        )
        answers = {
            i: self._answer(prepared, [key[expected[i].place].as_py() for key in keys])
            for i, gap in enumerate(gaps)
            if gap is not None and stream.plan.answer_epsilon
        }
        table = self._table(prepared, keys, expected, gaps, answers)
        return Paid(StatementResult(table, None, self._notes(prepared, groups, len(expected))), stream.charge)

    def _answer(self, prepared: PreparedCheck, keys: Sequence[Any]) -> Release:
        """Release the number of a group that is off; the stream's charge has its epsilon."""
        check, engines = prepared.check, prepared.counting.engines
        made = plan_answer(self._session.planner, prepared, keys, self._stream.plan.answer_epsilon, engines)
        paid = count_and_run(check.source.text, made, None)  # a stream is charged to all parts of units
        if paid.charge.delta or paid.charge.epsilon > self._stream.plan.answer_epsilon:
            raise InternalError("an answer costs more than its miss pays for")
        return paid.value

    def _table(
        self,
        prepared: PreparedCheck,
        keys: Sequence[pa.Array],
        expected: Sequence[Expected],
        gaps: Sequence[Fraction | None],
        answers: dict[int, Release],
    ) -> pa.Table:
        """Return the answer: keys, value, checked, expected, low, high and gap of each group."""
        slack = Fraction(self._stream.plan.slack()) * bound_of(prepared)
        found: list[tuple[Any, ...]] = []
        for i, each in enumerate(expected):
            ends = {end for end in (each.low, each.high) if end is not None}
            wanted = float(min(ends)) if len(ends) == 1 else None
            if i >= len(gaps):
                found.append((None, "not checked", wanted, None, None, None))
            elif gaps[i] is None:
                room = None if prepared.check.kind != "sum" else each.tolerance + slack
                low = None if each.low is None or room is None else float(each.low - room)
                high = None if each.high is None or room is None else float(each.high + room)
                value = wanted if each.low is not None and each.high is not None else None
                found.append((value, "as expected", wanted, low, high, None))
            else:
                gap = gaps[i]
                assert gap is not None  # noqa: S101  as above
                shown = _number_of(answers[i]) if i in answers else (None, None, None)
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

    def _notes(self, prepared: PreparedCheck, groups: int, checked: int) -> tuple[str, ...]:
        """Say what is not checked, and what the checked number leaves out."""
        plan = prepared.counting.plan
        notes = [f"assumed: {each}" for each in plan.assumed]
        if checked < groups:
            notes.append(f"{groups - checked:,} groups have no expectation and are not checked")
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
