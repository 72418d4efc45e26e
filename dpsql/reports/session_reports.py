"""The reports of one analyst: planned, registered, run, shown, and the statements that do so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from dpsql.analysis.unit_periods import check_report
from dpsql.composition import Releasing
from dpsql.composition.prepared import PreparedCommand, PreparedComposed, PreparedReport
from dpsql.composition.show_describe import schema_of
from dpsql.errors import BudgetExceeded, Error, InterfaceError, OperationalError, ProgrammingError
from dpsql.estimates.reports.report_plan import Per
from dpsql.kernel.loss import Charge, Number, exact
from dpsql.kernel.unit_parts import ALL_PARTS, Calendar, PartSet
from dpsql.language import ReportCommand, copy_text
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import StoredReport, shown
from dpsql.release import COMPUTED, Release, places_of, tell_opening
from dpsql.release.reuse import CHANGING
from dpsql.reports.answers import answer_report, answer_run
from dpsql.reports.planned import PlannedReport, plan_statements
from dpsql.reports.registered import PlannedRegistration, ReportText, plan_registration, share_of
from dpsql.reports.report_runs import PlannedRun, check_told, plan_run
from dpsql.session_api import StatementResult

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dpsql.composition.planner import Planner
    from dpsql.database import Database
    from dpsql.ledger import Ledger


class _Session(Protocol):
    """The part of a session that reports use."""

    analyst: str
    ledger: Ledger
    database: Database

    @property
    def planner(self) -> Planner:
        """The planner of the session."""

    def statement(self) -> AbstractContextManager[None]:
        """Open a block in which one statement runs."""

    def release(self, number: int) -> Release:
        """Return one of the analyst's own releases."""


class SessionReports:
    """The reports of a session."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    # -- once, without a name

    def plan(self, texts: Sequence[str], epsilon: Number, *, per: Per = "STATEMENT") -> PlannedReport:
        """Plan and price statements that share one epsilon, and are answered from one estimate."""
        words, amount = [copy_text(text) for text in texts], exact(epsilon)
        with self._session.statement():
            check_report(self._session.planner.policy)
            planner = self._session.planner
            planned = plan_statements(planner, words, amount, per)
            measured = [(each.table, each.query) for each in planned.measured]
            catalog = planner.database.engines().schema_database
            check_told(planned.statements, measured, planner.policy, catalog)
            return planned

    def run(self, planned: PlannedReport) -> list[StatementResult]:
        """Measure what is not stored, under one reservation, and return the answer of each statement."""
        with self._session.statement():
            releases = self._release(planned.prepared, ())
            with tell_opening(*releases):
                return answer_report(planned, releases, self._session.planner.policy)

    # -- registered

    def plan_registration(
        self,
        name: str,
        script: str,
        *,
        epsilon: Number | None = None,
        share: Number | None = None,
        per: Per = "STATEMENT",
    ) -> PlannedRegistration:
        """Plan a report before it is registered: at an epsilon, or at a share of each part's budget."""
        with self._session.statement():
            planner = self._session.planner
            check_report(planner.policy)
            amount = exact(epsilon) if epsilon is not None else share_of(planner, exact(share or 0))
            return plan_registration(planner, copy_text(name), copy_text(script), amount, per)

    def register(self, planned: PlannedRegistration, *, keep: bool = False) -> StoredReport:
        """Register a report before its first answer; `keep` what a run costs in each part for it."""
        text, analyst = planned.text, self._session.analyst
        stored = text.to_stored(analyst, planned.own if keep else None)
        blocks = text.list_blocks(analyst, planned.of_blocks if keep else None)
        return self._session.ledger.register_report(stored, blocks)

    def plan_run(self, name: str, part: str | None = None, at_release: int | None = None) -> PlannedRun:
        """Plan and price a run of a registered report, for a part of units if it has them.

        With `at_release` it measures nothing, and looks at releases up to that one: the same answer again.
        """
        with self._session.statement():
            check_report(self._session.planner.policy)
            return plan_run(self._session.planner, self.find(name), part, at_release)

    def execute(self, planned: PlannedRun) -> list[StatementResult]:
        """Run a planned report: measure what is missing, and return each statement's answer."""
        with self._session.statement():
            return self._execute(planned)

    def find(self, name: str) -> StoredReport:
        """Return one of the analyst's registered reports."""
        own = {
            each.name: each
            for each, _ in self._session.ledger.reports()
            if each.analyst == self._session.analyst and "(" not in each.name
        }
        if name in own:
            return own[name]
        known = f"you have {', '.join(own)}" if own else "dpsql report add registers one"
        raise ProgrammingError(f"you have no report {name[:60]!r}\nHint: {known}")

    def history(self, name: str) -> ReportHistory:
        """Return what the page of a report shows; nothing is charged."""
        stored, session = self.find(name), self._session
        text = ReportText.of(stored)
        texts = tuple(each.replace("$part", ":part") for each in text.texts)
        measured = next(parts for each, parts in session.ledger.reports() if each.number == stored.number)
        calendar = session.ledger.parts.calendar if text.every and session.ledger.parts is not None else None
        parts = [calendar.name(each) for each in newest_parts(measured, calendar)] if calendar else [None]
        answers, shown = list[list[StatementResult]](), list[str | None]()
        for part in parts if measured else ():
            planned = self.plan_run(name, part)
            if planned.price == Charge():
                shown.append(part)
                answers.append(self.execute(planned))
        last = shown[-1] if shown else None
        after, price = None, None
        if calendar is not None and last is not None:
            number = calendar.parse(last)
            after = None if number is None else calendar.name(number + 1)
            with suppress(Error):
                price = self.plan_run(name, after).price
        lines: tuple[Release | None, ...] = ()
        if calendar is not None and len(answers) > 1:
            numbers = [calendar.parse(part or "") or 0 for part in shown]
            lines = follow_numbers([calendar.first_day(each) for each in numbers], answers)
        return ReportHistory(name, texts, last, tuple(answers[-1]) if answers else (), after, price, lines)

    def _execute(self, planned: PlannedRun, most: Charge | None = None) -> list[StatementResult]:
        try:
            releases = self._release(planned.prepared, planned.numbers, most)
        except BudgetExceeded as error:
            if not planned.has_blocks:
                raise _add_hint(error, planned) from None
            stored = self.find(planned.text.name)
            planned = plan_run(self._session.planner, stored, planned.part, with_blocks=False)
            releases = self._release(planned.prepared, planned.numbers, most)
        with tell_opening(*releases):
            catalog = self._session.database.engines().schema_database
            policy = self._session.planner.policy
            return answer_run(planned, releases, self._session.release, policy, catalog)

    def _release(
        self, prepared: PreparedComposed | None, numbers: tuple[int | None, ...], most: Charge | None = None
    ) -> tuple[Release, ...]:
        if prepared is None:
            return ()
        session = self._session
        if prepared.engines.versions is not session.database.versions:
            raise InterfaceError("a report runs on the database on which it was planned")
        releasing = Releasing(session.database, session.ledger, session.analyst, most, numbers)
        found = releasing.releases(prepared)
        if found is None:
            raise OperationalError(CHANGING)
        return found

    # -- statements

    def prepare(self, text: str, command: ReportCommand) -> PreparedCommand:
        """Plan what a statement of reports does, within the statement that runs."""
        planner, price = self._session.planner, Charge()
        planned: PlannedRegistration | PlannedRun | None = None
        if command.what in ("CREATE", "EXECUTE"):
            check_report(planner.policy, command.source)
        if command.what == "CREATE":
            epsilon = planner.defaults.epsilon if command.epsilon is None else command.epsilon
            if epsilon is None:
                raise command.source.refuse(
                    "the report gives no epsilon and the policy has no default",
                    None,
                    f"CREATE REPORT {command.name} OPTIONS (epsilon = 0.5) AS ..",
                )
            planned = plan_registration(planner, command.name, command.text, epsilon, command.per)
        elif command.what == "EXECUTE":
            run = plan_run(planner, self.find(command.name), command.part, command.at_release)
            if command.statement is not None and not 1 <= command.statement <= len(run.statements):
                raise ProgrammingError(f"report {command.name} has {len(run.statements)} statements")
            planned, price = run, run.price
        return PreparedCommand(text, PreparedReport(command, planned), price)

    def command(self, prepared: PreparedReport, most: Charge | None = None) -> StatementResult:
        """Run a statement of reports, which is planned, for `most` at most."""
        command = prepared.statement
        match prepared.planned:
            case PlannedRegistration() as registration:
                self.register(registration)
                return StatementResult(self.explain(command.name), notices=tuple(registration.words()))
            case PlannedRun() as run:
                answers = self._execute(run, most)
                if command.statement is not None or len(answers) == 1:
                    return answers[(command.statement or 1) - 1]
                said = (word for each in answers if each.release for word in each.release.warnings)
                return StatementResult(table_of(answers), notices=tuple(dict.fromkeys(said)))
        if command.what == "EXPLAIN":
            return StatementResult(self.explain(command.name, command.part))
        if self.find(command.name).kept is not None:
            raise ProgrammingError(
                f"a part of each budget is kept for report {command.name}: its owner ends it"
                f" (dpsql report end {command.name})"
            )
        self._session.ledger.end_report(command.name)
        return StatementResult(self.show())

    def schema(self, prepared: PreparedReport) -> pa.Schema:
        """Return the columns of the answer of a statement of reports."""
        command, run = prepared.statement, prepared.planned
        if isinstance(run, PlannedRun):
            if command.statement is not None or len(run.statements) == 1:
                return schema_of(run.statements[(command.statement or 1) - 1].prepared)
            return table_of(()).schema
        if command.what == "DROP":
            return self.show().schema
        return pa.schema([("property", pa.string()), ("value", pa.string())])

    # -- tables

    def show(self) -> pa.Table:
        """Return the analyst's reports: what a run costs, what is kept, and which parts are measured."""
        session, names = self._session, ("report", "statements", "epsilon", "kept", "since", "measured")
        rows, every = [], session.ledger.reports()
        for each, parts in every:
            if each.analyst != session.analyst or "(" in each.name:
                continue
            text, calendar = ReportText.of(each), session.ledger.parts
            measured = (
                ""
                if not parts
                else "all"
                if parts == ALL_PARTS or calendar is None
                else session.ledger.name_parts(parts)
            )
            losses = [one.kept for one, _ in every if one is each or one.name.startswith(f"{each.name} (")]
            amount = sum((loss.epsilon or Fraction(0) for loss in losses if loss is not None), Fraction(0))
            kept = "" if each.kept is None else shown(amount, up=True)
            rows.append((each.name, len(text.texts), shown(text.epsilon, up=True), kept, each.at, measured))
        kinds = [pa.int64() if name == "statements" else pa.string() for name in names]
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        return pa.table({n: pa.array(v, k) for n, v, k in zip(names, columns, kinds, strict=True)})

    def explain(self, name: str, part: str | None = None) -> pa.Table:
        """Return what a report measures, its errors and statements; with a part, the price of its run."""
        stored = self.find(name)
        text = ReportText.of(stored)
        rows = [("report", name), ("digest", text.digest[:16]), ("since", stored.at)]
        rows += [("each", text.every)] if text.every else []
        rows.append(("epsilon", shown(text.epsilon, up=True)))
        for plan in text.plans:
            rows += [("measured", words) for words in plan.lines(text.every)]
            rows.append(("predicted error", f"{plan.deviation:.3g}"))
            rows.append(("one by one", f"{plan.even:.3g}"))
            if plan.added is not None:
                rows.append(("error of numbers that are only added up", f"{plan.added:.3g}"))
        if part is not None or text.every is None:
            run = plan_run(self._session.planner, stored, part)
            rows.append(("price of this run", shown(run.price.epsilon, up=True)))
            if run.parts is not None:
                rows.append(("to be measured", self._session.ledger.name_parts(run.parts)))
        rows += [
            (f"statement {i}", each.replace("$part", ":part").replace("\n", " "))
            for i, each in enumerate(text.texts, 1)
        ]
        return pa.table({"property": [key for key, _ in rows], "value": [value for _, value in rows]})


def _add_hint(error: BudgetExceeded, planned: PlannedRun) -> BudgetExceeded:
    """Return the error with what to do where the budget of a part pays for no measurement any more."""
    every = planned.text.every
    if every is None or planned.prepared is None:
        return error
    return BudgetExceeded(
        f"{error}\nHint: a run that failed stays charged, and answers that add up that {every} wait for it."
        f" Raise the budget; or end {planned.text.name} and register a report whose statements begin after"
        f" that {every}, with at most half of the budget if it shall pay for a second run",
        error.requested,
        error.remaining,
        scope=error.scope,
    )


def _to_float(value: Any) -> float | None:  # noqa: ANN401  a number of any type
    return None if value is None else float(value)


def table_of(answers: Sequence[StatementResult]) -> pa.Table:
    """Return all numbers of several answers as one table, a row each."""
    rows: list[tuple[Any, ...]] = []
    for place, answer in enumerate(answers, 1):
        if answer.release is None:
            continue
        release = answer.release
        places, table = places_of(release), release.table
        keys = [table.column(each) for each in places.keys]
        for row in range(table.num_rows):
            label = ", ".join(str(key[row].as_py()) for key in keys)
            for number in places.numbers:
                found = [
                    None if at is None else _to_float(table.column(at)[row].as_py())
                    for at in (number.place, *number.details)
                ]
                rows.append((place, label, table.column_names[number.place], *found))
    names = ("statement", "keys", "number", "value", "stddev", "low", "high")
    kinds = [pa.int64(), pa.string(), pa.string(), *[pa.float64()] * 4]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(v, k) for n, v, k in zip(names, columns, kinds, strict=True)})


MOST_PARTS = 26
"""Of so many parts, the newest ones, a history shows numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ReportHistory:
    """What the page of a report shows."""

    name: str
    texts: tuple[str, ...]
    """The report and its statements."""
    part: str | None
    answers: tuple[StatementResult, ...]
    """The newest part that was measured, by name, and the answers of its run; None: none was."""
    next_part: str | None
    price: Charge | None
    """The part after it, and what its run costs; None: it is not over yet, or cannot run."""
    lines: tuple[Release | None, ...]
    """For each statement with one row, its numbers from part to part; None for the others."""


def newest_parts(measured: PartSet, calendar: Calendar) -> list[int]:
    """Return the newest parts that were measured, in order."""
    least, most = calendar.ends
    known = measured & PartSet.of((least, most))
    every = [part for low, high in reversed(known.ranges) for part in range(high, low - 1, -1)]
    return sorted(every[:MOST_PARTS])


def follow_numbers(
    days: Sequence[date], answers: Sequence[Sequence[StatementResult]]
) -> tuple[Release | None, ...]:
    """Return, for each statement, its numbers from part to part, as a release with the first days as keys."""
    return tuple(_follow(days, [each[i].release for each in answers]) for i in range(len(answers[-1])))


def _follow(days: Sequence[date], releases: Sequence[Release | None]) -> Release | None:
    found = [each for each in releases if each is not None and each.table.num_rows == 1]
    if len(found) < len(releases) or any(
        places_of(each).keys or not places_of(each).numbers for each in found
    ):
        return None
    last = found[-1]
    columns: dict[str, pa.Array] = {"from": pa.array(days, pa.date32())}
    details: dict[str, pa.Array] = {}
    names = [last.table.column_names[number.place] for number in places_of(last).numbers]
    for place, name in enumerate(names):
        shown = [places_of(each).numbers[place] for each in found]
        columns[name] = pa.array(
            [e.table.column(n.place)[0].as_py() for e, n in zip(found, shown, strict=True)]
        )
        for end, kind in enumerate(("stddev", "low", "high")):
            at = [number.details[end] for number in shown]
            values = [
                None if own is None else each.table.column(own)[0].as_py()
                for each, own in zip(found, at, strict=True)
            ]
            details[f"{name}_{kind}"] = pa.array(values, pa.float64())
    rows = pa.table(columns)
    return replace(
        last,
        rows=rows,
        table=pa.table(columns | details),
        keys=("from",),
        counts=tuple(names),
        places=None,
        together=None,
        parts=(),
        outside=None,
        noises=None,
        warnings=(),
        assumed=(),
        properties={COMPUTED: f"{len(found)} runs"},
    )
