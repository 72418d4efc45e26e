"""The session of one analyst: parses, analyses, prices, charges and runs statements."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from dpsql import info
from dpsql.analysis import complete, is_private, public_sql, surveyed
from dpsql.answers import choose, details, least_epsilon, rows
from dpsql.checked import CheckedCounts, MedianCounts, plain_array
from dpsql.database import Database
from dpsql.engines import RunningStatement, running_statement
from dpsql.errors import (
    Fix,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    QueryRefused,
    QuerySyntaxError,
)
from dpsql.exclusive import Turn
from dpsql.language import (
    Describe,
    Explain,
    Options,
    Query,
    Refine,
    Set,
    Show,
    parse,
    plain,
    plain_text,
    plain_whole,
)
from dpsql.prepared import (
    Explained,
    PlannedCount,
    Prepared,
    PreparedCommand,
    PreparedPrivate,
    PreparedPublic,
)
from dpsql.privacy import Charge, exact
from dpsql.refining import Refining
from dpsql.release import (
    Release,
    charged_again,
    check_wrapper,
    from_bytes,
    present,
    question,
    reuse_key,
    to_bytes,
)
from dpsql.rewriting import hinted, rewrite
from dpsql.running import Paid, Running
from dpsql.versions import CHANGING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import ArrayLike

    from dpsql.database import Engines
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy
    from dpsql.privacy import Number


_ATTEMPTS = 5
_Stream = TypeVar("_Stream", CheckedCounts, MedianCounts)


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The rows of a statement; `release` is None for a statement that reads nothing private."""

    table: pa.Table
    release: Release | None = None


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
        self._streams: list[CheckedCounts | MedianCounts] = []
        try:
            self.analyst = self.ledger.admitted("analyst" if analyst is None else analyst)
        except BaseException:
            self._leave()
            raise
        budget = self.policy.budget
        self.defaults = Options(
            epsilon=budget.default_epsilon, delta=budget.default_delta, confidence=Fraction(95, 100)
        )
        self.database.users.add(self)

    def check(self) -> None:
        """Raise `InterfaceError` if the session is closed, or belongs to another process."""
        self.turn.check()
        if self.closed:
            raise InterfaceError("the connection is closed")

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Run one statement in this block, which `cancel` stops and others wait for."""
        with self.turn:
            self.check()
            with running_statement(RunningStatement()) as self._running:
                yield

    # -- statements

    def run(self, text: str, parameters: Parameters = None) -> StatementResult:
        """Run one statement and return its result."""
        words, values = plain_text(text), plain(parameters)
        with self.statement():
            return self._execute(self._prepare(words, values))

    def prepare(self, text: str, parameters: Parameters = None) -> Prepared:
        """Parse, analyse and price one statement; raises `Error` if it is wrong or refused."""
        words, values = plain_text(text), plain(parameters)
        with self.statement():
            return self._prepare(words, values)

    def execute(self, prepared: Prepared) -> StatementResult:
        """Charge and run a prepared statement."""
        with self.statement():
            return self._execute(prepared)

    def _prepare(self, text: str, parameters: Parameters) -> Prepared:
        """Prepare a statement; the error of one that is refused has a statement that would be accepted."""
        try:
            return self._prepared(text, parameters)
        except (QueryRefused, QuerySyntaxError) as error:
            refused = error
        refused.obstacles = hinted(text, refused)
        offer = rewrite(text, refused, lambda changed: self._prepared(changed, parameters))
        if offer is not None:
            refused.rewrite, refused.obstacles = offer
        raise refused

    def _prepared(self, text: str, parameters: Parameters) -> Prepared:
        engines, statement = self.database.engines(), parse(text, parameters)
        match statement:
            case Query():
                return self._plan(text, statement, engines)
            case Explain():
                explained = Explained(self._plan(text, statement.query, engines), statement.json)
                return PreparedCommand(text, explained)
            case Refine():
                return self._plan_refinement(text, statement, engines, parameters)
            case Describe():
                info.describe(statement, self.policy, engines.schema_database)
        return PreparedCommand(text, statement)

    def _plan(self, text: str, query: Query, engines: Engines) -> PreparedPrivate | PreparedPublic:
        try:
            if is_private(query, self.policy):
                return self._plan_private(text, query, engines)
            return PreparedPublic(text, public_sql(query, self.policy), engines)
        except QueryRefused as error:
            refused = error
        refused.obstacles = surveyed(refused, query, self.policy, engines.schema_database, self.defaults)
        refused.node = None
        raise refused

    def _plan_refinement(
        self, text: str, refine: Refine, engines: Engines, parameters: Parameters
    ) -> PreparedPrivate:
        found = Refining.of(refine, self.ledger, self.policy, self.analyst, parameters)
        asked = self._plan_private(text, found.query, engines, found.defaults(self.defaults))
        return found.plan(text, asked, self.policy)

    def _plan_private(
        self, text: str, query: Query, engines: Engines, defaults: Options | None = None
    ) -> PreparedPrivate:
        options = complete(query.options, defaults or self.defaults)
        if options.epsilon is None and options.error is None:
            raise query.source.refuse(
                "the statement gives no epsilon and the policy has no default",
                None,
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) ...",
                Fix("1", option="epsilon", guess="1"),
            )
        counting = PlannedCount.of(query, self.policy, engines, options)
        if options.error is not None:
            most = self.policy.budget.max_epsilon_per_query
            counting = counting.at_epsilon(least_epsilon(counting.plan, most))
        plan = counting.plan
        method = choose(plan)
        check_wrapper(query, [o.name for o in plan.outputs])
        key = reuse_key(plan, self.policy, engines.versions)
        asked_before = not options.fresh and self.ledger.find(key, self.analyst) is not None
        price = Charge() if asked_before else method.quote.charge
        return PreparedPrivate(text, query, counting, method, key, price)

    def _execute(self, prepared: Prepared) -> StatementResult:
        match prepared:
            case PreparedPrivate():
                return self._private(prepared)
            case PreparedPublic():
                return StatementResult(prepared.engines.schema_database.run(prepared.sql))
            case PreparedCommand():
                return StatementResult(self._command(prepared.command))

    def _command(self, command: Explained | Show | Describe | Set) -> pa.Table:
        match command:
            case Explained():
                return info.explain(command.prepared, self.budget(), json=command.json)
            case Show():
                return info.show(command, self.policy, self.ledger, self.analyst)
            case Describe():
                return info.describe(command, self.policy, self.database.engines().schema_database)
            case Set():
                self.defaults = command.apply(self.defaults)
                return info.empty()

    # -- private statements: reuse, or vet, charge, count, add noise and settle

    def _private(self, prepared: PreparedPrivate) -> StatementResult:
        if prepared.counting.engines.versions is not self.database.versions:
            raise InterfaceError("a statement runs on the database on which it was prepared")
        for _ in range(_ATTEMPTS):
            release = self._stored(prepared)
            if release is None and prepared.counting.unchanged():
                release = self._release(prepared)
            if release is not None:
                return StatementResult(present(prepared.query, release.rows), release)
            if prepared.refines is not None:
                break
            prepared = self._plan_private(prepared.text, prepared.query, self.database.engines())
        raise OperationalError(CHANGING)

    def _stored(self, prepared: PreparedPrivate) -> Release | None:
        """Return the stored release of the same question on the same data; None if there is none."""
        if prepared.plan.options.fresh or prepared.refines is not None:
            return None
        stored = self.ledger.find(prepared.key, self.analyst)
        if stored is None and self.policy.share_releases:
            stored = self.ledger.share(prepared.key, self.analyst)
        if stored is None:
            return None
        return replace(from_bytes(stored.payload), reused=stored.when, number=stored.number)

    def _release(self, prepared: PreparedPrivate) -> Release:
        """Charge and run a private statement; settle its charge and store its release."""
        plan, quote, again = prepared.plan, prepared.method.quote, ""
        if not plan.options.fresh and prepared.refines is None:
            before = self.ledger.asked(question(prepared.key), prepared.text, self.analyst)
            again = charged_again(prepared.key, before)
        self.database.vet(prepared.counting.engines, plan.compiled.tables)
        run = Running(
            self.ledger,
            analyst=self.analyst,
            statement=prepared.text,
            selection=type(plan.selection).__name__,
            mechanism=quote.mechanism,
            charge=quote.charge,
            refines=prepared.refines,
        )
        release, number = run.finish(lambda: _noisy(prepared))
        return replace(release, number=number, charged_again=again)

    # -- streams of checked counts

    def checked(self, *, tolerance: Number, epsilon: Number, misses: int) -> CheckedCounts:
        """Open a stream of counts answered by guesses; its largest charge is reserved now."""
        wanted = exact(tolerance), exact(epsilon), plain_whole(misses)
        with self.statement():
            return self._keep(CheckedCounts(self, *wanted))

    def median_oracle(
        self, hypotheses: ArrayLike, *, tolerance: Number, epsilon: Number, misses: int | None = None
    ) -> MedianCounts:
        """Open a stream of counts guessed by the median of hypotheses."""
        wanted = plain_array(hypotheses), exact(tolerance), exact(epsilon), plain_whole(misses)
        with self.statement():
            return self._keep(MedianCounts(self, *wanted))

    def _keep(self, stream: _Stream) -> _Stream:
        """Remember an open stream, which is settled when the session closes."""
        self._streams = [*(other for other in self._streams if other.open), stream]
        return stream

    def plan_count(self, text: str, parameters: Parameters) -> PlannedCount:
        """Analyse a count for a stream, which runs it as a statement and charges for it; vet its source."""
        engines, query = self.database.engines(), parse(text, parameters)
        if not isinstance(query, Query) or not is_private(query, self.policy):
            raise ProgrammingError("a checked count is one count of a private table without GROUP BY")
        options = complete(
            query.options, replace(self.defaults, epsilon=self.defaults.epsilon or Fraction(1))
        )
        counting = PlannedCount.of(query, self.policy, engines, options)
        self.database.vet(engines, counting.plan.compiled.tables)
        return counting

    # -- the rest

    def budget(self) -> Budget:
        """Return what the analyst may still spend."""
        self.check()
        return self.ledger.budget(self.analyst)

    def release(self, number: int) -> Release:
        """Return one of the analyst's own releases, by its number; it costs nothing."""
        self.check()
        return replace(from_bytes(self.ledger.release(number, self.analyst)), number=number)

    def cancel(self) -> None:
        """Stop the statement that runs, from another thread; what was charged stays charged."""
        self.check()
        self._running.cancel()

    def close(self) -> None:
        """Settle open streams, and close a database that the session opened; wait for a running statement."""
        with self.turn:
            if self.closed:
                return
            self.closed = True
            try:
                for stream in self._streams:
                    stream.settle()
            finally:
                self._leave()

    def _leave(self) -> None:
        self.database.users.discard(self)
        if self._owns_database:
            self.database.close()


def _noisy(prepared: PreparedPrivate) -> Paid[Release]:
    """Count and run the mechanism; called by `Running.finish` after the charge was written."""
    plan, method, engines = prepared.plan, prepared.method, prepared.counting.engines
    counts = prepared.counting.count(unchanged=prepared.refines is not None)
    answer = method.run(counts)
    shown = rows(plan, answer, counts, engines.schema_database.calculate)
    release = Release(
        rows=shown,
        table=details(plan, answer, shown),
        charge=answer.charge,
        statement=prepared.text,
        scale=method.quote.scale,
        **info.words(plan, method, prepared.refines, answer.notes),
    )
    # Where a file may change while it is counted, the answer is for this statement alone.
    key = prepared.key if prepared.refines is None and prepared.counting.unchanged() else None
    return Paid(release, release.charge, to_bytes(release), key)
