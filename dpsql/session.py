"""The session of one analyst: parses, analyses, prices, charges and runs statements."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from dpsql import info
from dpsql.analysis import complete, in_order, is_private, public_sql, surveyed, with_views
from dpsql.answers import choose, least_epsilon
from dpsql.checked import CheckedCounts, MedianCounts, plain_array
from dpsql.composition import Releasing, compose, composed, describe_view, parts_of, release_blocks
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
    PreparedComposed,
    PreparedPrivate,
    PreparedPublic,
)
from dpsql.privacy import Charge, exact
from dpsql.refining import Refining
from dpsql.release import Release, from_bytes, reuse_key
from dpsql.rewriting import beside, hinted, rewrite
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
        refused.obstacles = beside(text, refused, lambda changed: self._bound(changed, parameters))
        refused.obstacles = hinted(text, refused)
        offer = rewrite(text, refused, lambda changed: self._bound(changed, parameters))
        if offer is not None:
            refused.rewrite, refused.obstacles = offer
        raise refused

    def _bound(self, text: str, parameters: Parameters) -> Prepared:
        """Prepare a statement; refuse a public one as well that the schema database cannot bind."""
        prepared = self._prepared(text, parameters)
        if isinstance(prepared, PreparedPublic):
            try:
                prepared.engines.schema_database.plan(prepared.sql)
            except ValueError:
                raise QueryRefused("this does not bind") from None
        return prepared

    def _prepared(self, text: str, parameters: Parameters) -> Prepared:
        engines = self.database.engines()
        statement = with_views(parse(text, parameters), self.policy)
        match statement:
            case Query():
                return self._plan(text, statement, engines)
            case Explain():
                explained = Explained(self._plan(text, statement.query, engines), statement.json)
                return PreparedCommand(text, explained)
            case Refine():
                return self._plan_refinement(text, statement, engines, parameters)
            case Describe():
                self._described(statement)
        return PreparedCommand(text, statement)

    def _plan(
        self, text: str, query: Query, engines: Engines
    ) -> PreparedPrivate | PreparedComposed | PreparedPublic:
        refused: list[QueryRefused] = []
        planned: list[PreparedPrivate] = []
        with self._surveyed(query, engines, refused):
            if not is_private(query, self.policy):
                sql = public_sql(query, self.policy, engines.schema_database)
                return PreparedPublic(text, sql, engines, query.views)
            parts = parts_of(query, self.policy, engines.schema_database, self.defaults)
        for part in parts.releases if not refused else ():
            with self._surveyed(part.query, engines, refused, [part.query]):
                planned.append(self._plan_private(text, part.query, engines))
        if refused:
            refused[0].obstacles = in_order(refused)
            raise refused[0]
        return compose(text, query, parts, planned, self.policy)

    @contextmanager
    def _surveyed(
        self,
        query: Query,
        engines: Engines,
        refused: list[QueryRefused],
        blocks: list[Query] | None = None,
    ) -> Iterator[None]:
        """Plan a statement or one of its releases in this block; keep its refusal, with all obstacles.

        `blocks` are the release blocks, if they are known.
        """
        try:
            yield
        except QueryRefused as error:
            catalog = engines.schema_database
            blocks = blocks or release_blocks(query, self.policy, catalog)
            error.obstacles = surveyed(error, query, blocks, self.policy, catalog, self.defaults)
            error.node = None
            refused.append(error)

    def _plan_refinement(
        self, text: str, refine: Refine, engines: Engines, parameters: Parameters
    ) -> PreparedPrivate:
        found = Refining.of(refine, self.ledger, self.policy, self.analyst, parameters)
        defaults = found.defaults(self.defaults)
        parts = parts_of(found.query, self.policy, engines.schema_database, defaults).releases
        asked = found.first(
            [part.query for part in parts], lambda query: self._plan_private(text, query, engines, defaults)
        )
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
        key = reuse_key(plan, self.policy, engines.versions, method.quote.charge)
        asked_before = not options.fresh and self.ledger.find(key, self.analyst) is not None
        price = Charge() if asked_before else method.quote.charge
        return PreparedPrivate(text, query, counting, method, key, price)

    def _execute(self, prepared: Prepared) -> StatementResult:
        match prepared:
            case PreparedPrivate() | PreparedComposed():
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
                return self._described(command)
            case Set():
                self.defaults = command.apply(self.defaults)
                return info.empty()

    def _described(self, statement: Describe) -> pa.Table:
        catalog = self.database.engines().schema_database
        view = self.policy.views.get(statement.table) if statement.table.isascii() else None
        if view is not None:
            return describe_view(view, self.policy, catalog, self.defaults)
        return info.describe(statement, self.policy, catalog)

    # -- private statements

    def _private(self, prepared: PreparedPrivate | PreparedComposed) -> StatementResult:
        """Obtain the releases of a statement, and run its outer query over them."""
        if prepared.parts[0].counting.engines.versions is not self.database.versions:
            raise InterfaceError("a statement runs on the database on which it was prepared")
        releasing = Releasing(self.database, self.ledger, self.analyst)
        for _ in range(_ATTEMPTS):
            releases = releasing.releases(prepared)
            if releases is not None:
                if isinstance(prepared, PreparedPrivate):
                    return StatementResult(releases[0].rows, releases[0])
                release = composed(prepared, releases)
                return StatementResult(release.rows, release)
            if prepared.parts[0].refines is not None:
                break
            again = self._plan(prepared.text, prepared.query, self.database.engines())
            assert not isinstance(again, PreparedPublic)  # noqa: S101  the policy is as before
            prepared = again
        raise OperationalError(CHANGING)

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
        engines, query = self.database.engines(), with_views(parse(text, parameters), self.policy)
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
