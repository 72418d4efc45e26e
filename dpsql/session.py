"""The session of one analyst: parses, analyses, prices, charges and runs statements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from dpsql import info
from dpsql.analysis import Plan, analyse, complete, is_private, public_sql
from dpsql.answers import choose, details, rows
from dpsql.checked import CheckedCounts, MedianCounts, plain_array
from dpsql.engines import Cancelled, Untranslatable, length_check_key, open_engine
from dpsql.errors import InternalError, OperationalError, ProgrammingError
from dpsql.exclusive import Turn
from dpsql.language import (
    Describe,
    Explain,
    Options,
    Query,
    Set,
    Show,
    Statement,
    parse,
    plain,
    plain_text,
    plain_whole,
)
from dpsql.ledger import Ledger
from dpsql.privacy import Charge, exact
from dpsql.release import (
    Release,
    charged_again,
    check_wrapper,
    from_bytes,
    present,
    question,
    reuse_key,
    source_version,
    tables_read,
    to_bytes,
)
from dpsql.running import Paid, Running, sealed
from dpsql.versions import CHANGING, Stamps, Versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import ArrayLike

    from dpsql.answers import Method
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy, Table
    from dpsql.privacy import Number

__all__ = ["Prepared", "Session", "StatementResult"]

_ATTEMPTS = 5
_CHANGED = "the data changed while it was counted, so there is no answer; the charge is kept, ask again"
_Stream = TypeVar("_Stream", CheckedCounts, MedianCounts)


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The rows of a statement; `release` is None for a statement that reads nothing private."""

    table: pa.Table
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement parsed, analysed and priced; nothing is charged yet and no private data was read."""

    text: str
    statement: Statement
    private: bool
    price: Charge
    plan: Plan | None = None
    method: Method | None = None
    key: str = ""
    public: str = ""
    counting: str = ""
    """The SQL text that the private engine will run."""
    reads: tuple[Table, ...] = ()
    stamps: Stamps = ()
    """The files of the tables it reads, as they were when it was planned and its key was made."""


class Session:
    """Runs the statements of one analyst under one policy, in the process that opened it.

    Threads may share it: their statements wait for each other. Only `cancel` does not wait.
    """

    def __init__(self, policy: Policy, analyst: str = "analyst") -> None:
        self.policy = policy
        self.turn = Turn("connection")
        self._streams: list[CheckedCounts | MedianCounts] = []
        budget = policy.budget
        self.ledger = Ledger.open(
            budget.ledger,
            policy_id=policy.id,
            total=budget.total,
            per_query=budget.max_epsilon_per_query,
            analysts={name: a.charge for name, a in policy.analysts.items()},
            max_failures=budget.max_failures,
            max_failures_total=budget.max_failures_total,
            max_cancelled=budget.max_cancelled,
            max_cancelled_total=budget.max_cancelled_total,
        )
        self.versions = Versions(policy, self.ledger)
        try:
            self.analyst = self.ledger.admitted(analyst)
            self._open()
        except BaseException:
            self.ledger.close()
            raise
        self.defaults = Options(
            epsilon=budget.default_epsilon, delta=budget.default_delta, confidence=Fraction(95, 100)
        )

    def _open(self) -> None:
        """Open the databases; open them again if a file that they keep open changed meanwhile."""
        for _ in range(_ATTEMPTS):
            stamps, held = self.versions.stamps(), self.versions.held()
            schema_database, engine = open_engine(self.policy)
            if self.versions.held() == held:
                self.schema_database, self.engine, self._stamps = schema_database, engine, stamps
                return
            engine.close()
            schema_database.close()
        raise OperationalError(CHANGING)

    def _follow(self) -> None:
        """Open the databases again if a file changed, so that they hold the data that reuse keys name."""
        if self.versions.stamps() == self._stamps:
            return
        before = self.engine
        self._open()
        if self.policy.engine != "duckdb":
            # Only here: a count of another thread may still run on the old one, and DuckDB's is closed by
            # the last one that lets go of it.
            before.close()

    def run(self, text: str, parameters: Parameters = None) -> StatementResult:
        """Run one statement and return its result."""
        return self.execute(self.prepare(text, parameters))

    def prepare(self, text: str, parameters: Parameters = None) -> Prepared:
        """Parse, analyse and price one statement; raises `Error` if it is wrong or refused."""
        words, values = plain_text(text), plain(parameters)
        with self.turn:
            return self._parsed(words, values)

    def _parsed(self, text: str, parameters: Parameters) -> Prepared:
        self._follow()
        statement = parse(text, parameters)
        if isinstance(statement, Query):
            return self._prepare(text, statement)
        if isinstance(statement, Explain):
            inner = self._prepare(text, statement.query)
            return replace(inner, statement=statement, private=False, price=Charge())
        if isinstance(statement, Describe):
            info.describe(statement, self.policy, self.schema_database)
        return Prepared(text, statement, private=False, price=Charge())

    def _prepare(self, text: str, query: Query) -> Prepared:
        if not is_private(query, self.policy):
            public = public_sql(query, self.policy)
            return Prepared(text, query, private=False, price=Charge(), public=public)
        options = complete(query.options, self.defaults)
        if options.epsilon is None:
            raise query.source.refuse(
                "the statement gives no epsilon and the policy has no default",
                None,
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) ...",
            )
        plan = analyse(query, self.policy, self.schema_database, options)
        counting = self._translated(query, plan)
        method = choose(plan)
        check_wrapper(query, [o.name for o in plan.outputs])
        key = reuse_key(plan, self.policy, self.versions)
        asked_before = not options.fresh and self.ledger.find(key, self.analyst) is not None
        price = Charge() if asked_before else method.quote.charge
        reads = tables_read(self.policy, plan.compiled.tables)
        stamps = self._opened_on(reads)
        return Prepared(
            text, query, True, price, plan, method, key, counting=counting, reads=reads, stamps=stamps
        )

    def _opened_on(self, tables: Iterable[Table]) -> Stamps:
        """Return the files of these tables as they were when the databases were opened."""
        files = {str(file) for file in self.versions.files(tables)}
        return tuple(stamp for stamp in self._stamps if stamp[0] in files)

    def _current(self, prepared: Prepared) -> Prepared:
        """Return the statement, planned again if a file changed since it was prepared."""
        for _ in range(_ATTEMPTS):
            if self.versions.stamps(prepared.reads) == prepared.stamps:
                return prepared
            self._follow()
            if isinstance(prepared.statement, Query):
                prepared = self._prepare(prepared.text, prepared.statement)
        raise OperationalError(CHANGING)

    def _translated(self, query: Query, plan: Plan) -> str:
        """Write the counting SQL for the private engine; refuse what the engine cannot do exactly."""
        try:
            return self.engine.translate(plan.compiled)
        except Untranslatable as problem:
            raise query.source.refuse(problem.message, None, problem.hint) from None

    def execute(self, prepared: Prepared) -> StatementResult:
        """Charge and run a prepared statement."""
        with self.turn:
            return self._executed(prepared)

    def _executed(self, prepared: Prepared) -> StatementResult:
        match prepared.statement:
            case Query() if prepared.private:
                return self._private(prepared)
            case Query():
                return StatementResult(self.schema_database.run(prepared.public))
            case Explain() as statement:
                plan, method, budget = prepared.plan, prepared.method, self.budget()
                sql = prepared.counting or prepared.public
                return StatementResult(info.explain(plan, method, budget, sql, json=statement.json))
            case Show() as statement:
                return StatementResult(info.show(statement, self.policy, self.ledger, self.analyst))
            case Describe() as statement:
                return StatementResult(info.describe(statement, self.policy, self.schema_database))
            case Set() as statement:
                self.defaults = statement.apply(self.defaults)
                return StatementResult(info.empty())

    def _private(self, prepared: Prepared) -> StatementResult:
        answer = self._stored(prepared)
        if answer is None:
            current = self._current(prepared)
            answer = self._stored(current) if current is not prepared else None
            prepared = current
        if answer is not None:
            return answer
        plan, method = prepared.plan, prepared.method
        if plan is None or method is None:
            raise InternalError("a private statement is prepared with its plan and method")
        again = ""
        if not plan.options.fresh:
            before = self.ledger.asked(question(prepared.key), prepared.text, self.analyst)
            again = charged_again(prepared.key, before)
        self._vet(plan)
        run = Running.reserve(
            self.ledger,
            analyst=self.analyst,
            statement=prepared.text,
            selection=type(plan.selection).__name__,
            mechanism=method.quote.mechanism,
            charge=method.quote.charge,
        )
        release, number = run.finish(lambda: self._release(prepared, plan, method))
        release = replace(release, number=number, charged_again=again)
        return StatementResult(present(prepared.statement, release.rows), release)

    def _stored(self, prepared: Prepared) -> StatementResult | None:
        """Return the stored release of the same question on the same data; None if there is none."""
        if prepared.plan is None or prepared.plan.options.fresh:
            return None
        stored = self.ledger.find(prepared.key, self.analyst)
        if stored is None and self.policy.share_releases:
            stored = self.ledger.share(prepared.key, self.analyst)
        if stored is None:
            return None
        release = replace(from_bytes(stored.payload), reused=stored.when, number=stored.number)
        return StatementResult(present(prepared.statement, release.rows), release)

    def _vet(self, plan: Plan) -> None:
        """Check, once for each version of the data, that the sources can be read as the policy declares."""
        for name in plan.compiled.tables:
            table = self.policy.table(name)
            if table is None or table.public or table.trust_source:
                continue
            version = source_version(self.policy, table, self.versions)
            if not self.ledger.vetted(name, version):
                if not self._readable(name):
                    raise OperationalError(
                        f"table {name} cannot be read as declared: the owner runs `dpsql check`"
                    )
                if self.versions.stamps([table]) != self._opened_on([table]):
                    raise OperationalError(CHANGING)
                self.ledger.vet(name, version)
                if self.engine.within_length_limit(name):
                    self.ledger.vet(length_check_key(name), version)
            else:
                self.engine.assume_within_length_limit(
                    name, self.ledger.vetted(length_check_key(name), version)
                )

    def _readable(self, name: str) -> bool:
        return sealed(lambda: self.engine.vet(name), otherwise=False)

    def _release(self, prepared: Prepared, plan: Plan, method: Method) -> Paid[Release]:
        """Count and run the mechanism; called by `Running.finish` after the charge was written."""
        counts = self.engine.count(plan.compiled)
        self.confirm_vetted(plan)
        answer = method.run(counts)
        shown = rows(plan, answer, counts, self.schema_database.calculate)
        release = Release(
            rows=shown,
            table=details(plan, answer, shown),
            charge=answer.charge,
            statement=prepared.text,
            scale=method.quote.scale,
            **info.words(plan, method),
        )
        # Where a file may change while it is counted, the answer is for this statement alone.
        unchanged = self.versions.stamps(prepared.reads) == prepared.stamps
        return Paid(release, release.charge, to_bytes(release), prepared.key if unchanged else None)

    def confirm_vetted(self, plan: Plan) -> None:
        """Raise `Cancelled` if a file was replaced since it was vetted; between the count and its noise.

        Nobody has looked whether the facts that the noise rests on hold in the new file. That a file was
        replaced is the owner's doing, so no failure. Files with `trust_source` are never vetted.
        """
        reads = tables_read(self.policy, plan.compiled.tables)
        vetted = [table for table in reads if table.public or not table.trust_source]
        if self.versions.stamps(vetted) != self._opened_on(vetted):
            raise Cancelled(_CHANGED)

    def plan_count(self, text: str, parameters: Parameters) -> Plan:
        """Analyse a count for a stream, which holds the turn and charges for it; check its source."""
        self._follow()
        query = parse(text, parameters)
        if not isinstance(query, Query) or not is_private(query, self.policy):
            raise ProgrammingError("a checked count is one count of a private table without GROUP BY")
        options = complete(
            query.options, replace(self.defaults, epsilon=self.defaults.epsilon or Fraction(1))
        )
        plan = analyse(query, self.policy, self.schema_database, options)
        self._translated(query, plan)
        self._vet(plan)
        return plan

    def checked(self, *, tolerance: Number, epsilon: Number, misses: int) -> CheckedCounts:
        """Open a stream of counts answered by guesses; its largest charge is reserved now."""
        wanted = exact(tolerance), exact(epsilon), plain_whole(misses)
        with self.turn:
            return self._keep(CheckedCounts(self, *wanted))

    def median_oracle(
        self,
        hypotheses: ArrayLike,
        *,
        tolerance: Number,
        epsilon: Number,
        misses: int | None = None,
    ) -> MedianCounts:
        """Open a stream of counts guessed by the median of hypotheses."""
        wanted = plain_array(hypotheses), exact(tolerance), exact(epsilon), plain_whole(misses)
        with self.turn:
            return self._keep(MedianCounts(self, *wanted))

    def _keep(self, stream: _Stream) -> _Stream:
        """Remember an open stream, which is settled when the session closes."""
        self._streams = [*(other for other in self._streams if other.open), stream]
        return stream

    def budget(self) -> Budget:
        """Return what the analyst may still spend."""
        self.turn.check()
        return self.ledger.budget(self.analyst)

    def release(self, number: int) -> Release:
        """Return one of the analyst's own releases, by its number; it costs nothing."""
        self.turn.check()
        return replace(from_bytes(self.ledger.release(number, self.analyst)), number=number)

    def cancel(self) -> None:
        """Stop the statement that runs, from another thread; what was charged stays charged."""
        self.turn.check()
        try:
            self.engine.cancel()
        finally:
            self.schema_database.cancel()

    def close(self) -> None:
        """Settle open streams, then close the engine and the ledger; waits for a running statement."""
        with self.turn:
            try:
                for stream in self._streams:
                    stream.settle()
            finally:
                self._streams.clear()
                self.engine.close()
                self.schema_database.close()
                self.ledger.close()
