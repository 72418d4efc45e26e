"""The session of one analyst: the product on one page, from the text of a statement to its answer.

`Session.run` prepares a statement and executes it. Of one that reads private tables these are the steps:

1. ``composition.planner`` calls those up to 5. ``language`` parses the text: options, and the tree of the
   rest.
2. ``composition.statement_parts`` takes it apart into its releases, and the outer query over what they
   release.
3. ``analysis`` makes the plan of each release: the counting query, sealed. ``kernel.check`` proves how far
   one privacy unit changes each number.
4. ``planning`` chooses the method of a release: its mechanisms (``kernel.mechanisms``), its price, its
   predicted errors (``estimates``).
5. ``composition.composed_statements`` binds the outer query. The statement is a
   ``composition.prepared.PreparedPrivate``, or a `PreparedComposed` of several: nothing is charged, and no
   private row was read.
6. ``composition.running`` finds the releases that are stored (``release.reuse``), and reserves the largest
   charge of the others (``kernel.ledger``).
7. ``database`` counts them on the data's engine (``engines``); ``kernel.counts`` seals what it has counted.
8. The method proposes steps, and ``kernel.release`` runs them: what comes out is differentially private.
9. ``planning.result_table`` makes columns of it, with estimates and intervals (``estimates``).
10. ``kernel.charged_work`` settles the charge and stores the release (``release``).
    ``composition.composed_statements`` runs the outer query over the released rows.

Public statements run in the schema database (``engines``). EXPLAIN, SHOW and DESCRIBE are answered by
``composition.explain`` and ``composition.show_describe``; streams of checks by ``check_streams``.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.analysis import CompiledQuery
from dpsql.composition import Releasing
from dpsql.composition.planner import Planner
from dpsql.composition.prepared import (
    Command,
    Explained,
    Prepared,
    PreparedCheck,
    PreparedCommand,
    PreparedComposed,
    PreparedPrivate,
    PreparedPublic,
    PreparedQuestion,
    PreparedReport,
)
from dpsql.database import Database
from dpsql.engines import RunningStatement, running_statement
from dpsql.errors import InterfaceError, InternalError, OperationalError, ProgrammingError, QueryRefused
from dpsql.kernel.loss import Charge
from dpsql.language import (
    Describe,
    OpenChecks,
    Options,
    ReportCommand,
    Set,
    Show,
    StreamCommand,
    copy_parameters,
    copy_text,
)
from dpsql.release import Release, from_bytes, renew_words, tell_opening, write_cell
from dpsql.release.reuse import CHANGING
from dpsql.session_api import StatementResult, Turn

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dpsql.check_streams import CheckStreams
    from dpsql.kernel.facts import Facts
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy
    from dpsql.reports import SessionReports
    from dpsql.uploads import Uploads


_ATTEMPTS = 5


class Session:
    """Runs the statements of one analyst on a database, which other sessions may use at the same time.

    Given a policy in place of a database, the session opens one for itself and closes it. Threads may share
    a session: their statements wait for each other. Only `cancel` does not wait.
    """

    def __init__(
        self, database: Database | Policy | str | os.PathLike[str], analyst: str | None = None
    ) -> None:
        self._owns_database = not isinstance(database, Database)
        self.database = database if isinstance(database, Database) else Database(database)
        self.database.check()
        self.policy, self.ledger = self.database.policy, self.database.ledger
        self.turn = Turn("connection")
        self.closed = False
        self._running = RunningStatement()
        self._beside: tuple[CompiledQuery, ...] = ()
        self._streams: CheckStreams | None = None
        self._reports: SessionReports | None = None
        self._uploads: Uploads | None = None
        try:
            self.analyst = self.ledger.check_analyst("analyst" if analyst is None else analyst)
        except BaseException:
            self._leave()
            raise
        budget = self.policy.budget
        self.defaults = Options(
            epsilon=budget.default_epsilon,
            delta=budget.default_delta,
            confidence=Fraction(95, 100),
            dialect=self.policy.defaults.dialect,
        )
        self.database.users.add(self)

    @property
    def max_epsilon_per_query(self) -> Fraction | None:
        """The policy's cap on the epsilon of one statement."""
        return self.policy.budget.max_epsilon_per_query

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages for whoever opened the ledger, in sentences."""
        return self.ledger.messages

    def check(self) -> None:
        """Raise `InterfaceError` if the session is closed, or belongs to another process."""
        self.turn.check()
        if self.closed:
            raise InterfaceError("the connection is closed")

    @property
    def reports(self) -> SessionReports:
        """The reports of the analyst."""
        if self._reports is None:
            from dpsql.reports import SessionReports  # noqa: PLC0415  few sessions have reports

            self._reports = SessionReports(self)
        return self._reports

    @property
    def _checks(self) -> CheckStreams:
        if self._streams is None:
            from dpsql.check_streams import CheckStreams  # noqa: PLC0415  few sessions have streams

            self._streams = CheckStreams(self)
        return self._streams

    @property
    def planner(self) -> Planner:
        """The planner that prepares the statements of the session, with its defaults now."""
        return Planner(self.database, self.analyst, self.defaults)

    @contextmanager
    def statement(self, running: RunningStatement | None = None) -> Iterator[None]:
        """Open a block in which one statement runs, which `cancel` stops and others wait for.

        It is `running`, if that is given: then it may also be cancelled before the block begins.
        """
        with self.turn:
            self.check()
            with running_statement(running or RunningStatement()) as self._running:
                self._running.beside = self._beside
                yield

    @contextmanager
    def together(self, statements: Sequence[Prepared]) -> Iterator[None]:
        """Let prepared statements, which are executed in this block, be counted by few queries.

        What one query counts for several of them is kept in memory, and is given to each only when its own
        charge is reserved.
        """
        self._beside = tuple(query for one in statements for query in _queries_to_count(one))
        try:
            yield
        finally:
            self._beside = ()

    # -- statements

    def run(self, text: str, parameters: Parameters = None) -> StatementResult:
        """Run one statement and return its result."""
        words, values = copy_text(text), copy_parameters(parameters)
        with self.statement():
            return self._execute(self._prepare(words, values))

    def prepare(self, text: str, parameters: Parameters = None) -> Prepared:
        """Parse, analyse and price one statement; raises `Error` if it is wrong or refused."""
        words, values = copy_text(text), copy_parameters(parameters)
        with self.statement():
            return self._prepare(words, values)

    def _prepare(self, text: str, parameters: Parameters) -> Prepared:
        prepared = self.planner.prepare(text, parameters)
        return self.plan_reports(prepared) if isinstance(prepared, PreparedCommand) else prepared

    def plan_reports(self, prepared: PreparedCommand) -> PreparedCommand:
        """Return a statement of reports with what is planned of it, within its block; any other as it is."""
        if isinstance(prepared.command, ReportCommand):
            return self.reports.prepare(prepared.text, prepared.command)
        return prepared

    @contextmanager
    def pricing(self) -> Iterator[None]:
        """Undo each SET of the block at its end: prices depend on it, although it has not run yet."""
        before = self.defaults
        try:
            yield
        finally:
            self.defaults = before

    def execute(
        self, prepared: Prepared, *, running: RunningStatement | None = None, most: Charge | None = None
    ) -> StatementResult:
        """Charge and run a prepared statement; see `statement` for `running`.

        With `most`, raise `PriceNotAgreed` instead of charging more than that: what was stored when the
        statement was priced may not answer it any more, for instance because the data changed.
        """
        with self.statement(running):
            own = _queries_to_count(prepared)
            self._beside = self._running.beside = tuple(q for q in self._beside if q not in own)
            return self._execute(prepared, most)

    def read_stored(
        self, prepared: PreparedPrivate | PreparedComposed, *, running: RunningStatement | None = None
    ) -> StatementResult | None:
        """Return the result of a private statement whose releases are all stored; None for any other."""
        with self.statement(running):
            releases = self._open_releasing(prepared).stored(prepared)
            return None if releases is None else _result_of(prepared, releases)

    def schema(self, prepared: Prepared, *, intervals: bool = False) -> pa.Schema:
        """Return the columns of a statement's answer, with the ends of intervals if they are shown."""
        from dpsql.composition.show_describe import schema_of  # noqa: PLC0415  an answer has them itself

        match prepared:
            case PreparedCommand(command=PreparedReport() as report):
                return self.reports.schema(report)
            case PreparedCommand(command=Show(what="reports")):
                return self.reports.show().schema
        return schema_of(prepared, intervals=intervals)

    def rows(
        self, prepared: PreparedPrivate | PreparedComposed, release: Release, *, intervals: bool
    ) -> pa.Table:
        """Return the rows of a statement's release, with the columns that `schema` has."""
        from dpsql.composition.show_describe import ends, with_ends  # noqa: PLC0415  as in `schema`

        return with_ends(release, ends(prepared)) if intervals else release.rows

    def reuse_keys(
        self,
        prepared: PreparedPrivate | PreparedComposed,
        release: Release,
        *,
        running: RunningStatement | None = None,
    ) -> tuple[str, ...]:
        """Return the keys under which the releases of a statement are stored, given its release."""
        with self.statement(running):
            return self._open_releasing(prepared).keys(prepared, release.parts or (release,))

    def _execute(self, prepared: Prepared, most: Charge | None = None) -> StatementResult:
        match prepared:
            case PreparedPrivate() | PreparedComposed():
                return self._private(prepared, most)
            case PreparedPublic():
                try:
                    return StatementResult(prepared.engines.schema_database.run(prepared.sql, prepared.text))
                except (QueryRefused, ProgrammingError) as error:
                    failed = error
                refused = (
                    self.planner.explain_unbound(prepared) if type(failed) is ProgrammingError else failed
                )
                if isinstance(refused, QueryRefused):
                    raise self.planner.with_offer(prepared.text, refused)
                raise failed
            case PreparedCommand(command=Show(what="release") as show):
                release = self.release(show.number)
                return StatementResult(write_cell(release), release)
            case PreparedCommand():
                return self._command(prepared.command, most)

    def _command(self, command: Command, most: Charge | None) -> StatementResult:
        match command:
            case PreparedCheck():
                return self._checks.check(command)
            case PreparedQuestion():
                return self._checks.ask(command)
            case OpenChecks():
                return self._checks.open(command, most)
            case StreamCommand():
                return self._checks.command(command, most)
            case PreparedReport():
                return self.reports.command(command, most)
            case ReportCommand():
                raise InternalError("a statement of reports is planned before it runs")
        return StatementResult(self._facts(command))

    def _facts(self, command: Explained | Show | Describe | Set) -> pa.Table:
        from dpsql.composition.explain import certificate_table, explain  # noqa: PLC0415  no answer needs it
        from dpsql.composition.show_describe import empty_table, show_facts  # noqa: PLC0415  as here

        match command:
            case Explained():
                if isinstance(command.prepared, PreparedCommand):
                    return self._checks.explain(command.prepared, json=command.form == "JSON")
                if command.form == "CERTIFICATE":
                    return certificate_table(command.prepared)
                budget = self.planner.budget_for(command.prepared)
                return explain(command.prepared, budget, json=command.form == "JSON")
            case Show(what="streams"):
                return self._checks.show()
            case Show(what="stream"):
                return self._checks.show_one(command.name)
            case Show(what="reports"):
                return self.reports.show()
            case Show():
                return show_facts(command, self.policy, self.ledger, self.analyst)
            case Describe():
                return self.planner.described(command)
            case Set():
                self.defaults = command.apply(self.defaults)
                return empty_table()

    # -- private statements

    def _private(self, prepared: PreparedPrivate | PreparedComposed, most: Charge | None) -> StatementResult:
        """Obtain the releases of a statement, and run its outer query over them."""
        releasing = self._open_releasing(prepared, most)
        for _ in range(_ATTEMPTS):
            releases = releasing.releases(prepared)
            if releases is not None:
                return _result_of(prepared, releases)
            if prepared.parts[0].refines is not None:
                break
            self.database.plans.clear()  # they are of data that are not there any more
            again = self.planner.query(prepared.text, prepared.query, self.database.engines())
            assert not isinstance(again, PreparedPublic)  # noqa: S101  the policy is as before
            prepared = again
        raise OperationalError(CHANGING)

    def _open_releasing(
        self, prepared: PreparedPrivate | PreparedComposed, most: Charge | None = None
    ) -> Releasing:
        if prepared.engines.versions is not self.database.versions:
            raise InterfaceError("a statement runs on the database on which it was prepared")
        return Releasing(self.database, self.ledger, self.analyst, most)

    # -- the rest

    def upload(self, name: str, rows: pa.Table, key: str | None = None) -> int:
        """Keep a public table under a name for statements that the session prepares from now on."""
        from dpsql.uploads import Uploads  # noqa: PLC0415  few sessions upload

        with self.statement():
            self._uploads = self._uploads or Uploads(self.database, self.analyst)
            self.database = self._uploads.add(name, rows, key)
            self.policy = self.database.policy
        return int(rows.num_rows)

    @property
    def facts(self) -> Facts:
        """The facts that the owner declares of the data as they are now, as the kernel has them."""
        return self.database.engines().facts

    def budget(self) -> Budget:
        """Return what the analyst may still spend."""
        self.check()
        return self.ledger.budget(self.analyst)

    def budget_by_parts(self) -> Budget:
        """Return what the analyst may still spend, with that of each part of units, if there are any."""
        return replace(self.budget(), listed=tuple(self.ledger.budget_by_parts(self.analyst)))

    def release(self, number: int) -> Release:
        """Return one of the analyst's own releases, by its number; it costs nothing."""
        self.check()
        stored = self.ledger.release(number, self.analyst)
        found = replace(from_bytes(stored.payload), number=number, receipt=str(stored.event))
        return renew_words(found, self.ledger.describe_renewals())

    def cancel(self) -> None:
        """Stop the statement that runs, from another thread; what was charged stays charged."""
        self.check()
        self._running.cancel()

    def close(self) -> None:
        """Close a database that the session opened; wait for a running statement."""
        with self.turn:
            if self.closed:
                return
            self.closed = True
            self._leave()

    def _leave(self) -> None:
        if self._uploads is not None:
            self.database = self._uploads.close()
        self.database.users.discard(self)
        if self._owns_database:
            self.database.close()


def _queries_to_count(prepared: Prepared) -> tuple[CompiledQuery, ...]:
    """Return the queries that count a statement, as far as they are known and not stored."""
    if not isinstance(prepared, (PreparedPrivate, PreparedComposed)):
        return ()
    charged = (p for p in prepared.parts if p.price != Charge() and not p.values and not p.plan.ladders)
    return tuple(part.plan.compiled for part in charged)


def _result_of(
    prepared: PreparedPrivate | PreparedComposed, releases: tuple[Release, ...]
) -> StatementResult:
    """Return the result of a private statement, given its releases."""
    with tell_opening(*releases):
        if isinstance(prepared, PreparedPrivate):
            release = releases[0]
        else:
            from dpsql.composition.composed_statements import run_composed  # noqa: PLC0415  not for one

            release = run_composed(prepared, releases)
    return StatementResult(release.rows, release)
