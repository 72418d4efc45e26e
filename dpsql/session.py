"""The way of a statement through dpsql: language, analysis, price, ledger, engine, mechanism, release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql import info
from dpsql.analysis import Plan, analyse, complete, is_private, public_sql
from dpsql.answers import choose, details, rows
from dpsql.charge import Charge
from dpsql.checked import CheckedCounts, MedianCounts
from dpsql.engines import FAILED, Cancelled, Untranslatable, lengths, open_engine
from dpsql.errors import DatabaseError, InternalError, OperationalError, ProgrammingError
from dpsql.language import Describe, Explain, Options, Query, Set, Show, Statement, parse
from dpsql.ledger import Ledger, Reservation
from dpsql.present import check_wrapper, present
from dpsql.release import Release, from_bytes, to_bytes
from dpsql.reuse import charged_again, question, reuse_key, source_version, tables_read
from dpsql.versions import Stamps, Versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import ArrayLike

    from dpsql.answers import Method
    from dpsql.charge import Number
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy, Table

__all__ = ["Answer", "Prepared", "Session"]

_ATTEMPTS = 5
_CHANGING = "the data is being changed; nothing was charged, ask again"


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows for the analyst; `release` is None for statements that touch nothing private."""

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
    """The text that the private engine will run."""
    reads: tuple[Table, ...] = ()
    stamps: Stamps = ()
    """The files of the tables it reads, as they were when it was planned and its key was made."""


class Session:
    """One analyst's work under one policy."""

    def __init__(self, policy: Policy, analyst: str = "analyst") -> None:
        self.policy = policy
        self.analyst = analyst
        budget = policy.budget
        self.ledger = Ledger.open(
            budget.ledger,
            policy_id=policy.id,
            total=budget.total,
            per_query=budget.max_epsilon_per_query,
            analysts={name: a.charge for name, a in policy.analysts.items()},
            max_failures=budget.max_failures,
        )
        self.versions = Versions(policy, self.ledger)
        try:
            self._open()
        except BaseException:
            self.ledger.close()
            raise
        self.defaults = Options(
            epsilon=budget.default_epsilon, delta=budget.default_delta, confidence=Fraction(95, 100)
        )

    def _open(self) -> None:
        """Open the databases, on files that do not change meanwhile; the others are read by each count."""
        for _ in range(_ATTEMPTS):
            stamps, held = self.versions.stamps(), self.versions.held()
            shell, engine = open_engine(self.policy)
            if self.versions.held() == held:
                self.shell, self.engine, self._stamps = shell, engine, stamps
                return
            engine.close()
            shell.close()
        raise OperationalError(_CHANGING)

    def _follow(self) -> None:
        """Open the databases afresh if a file changed: what is read and what a key names stay the same."""
        if self.versions.stamps() == self._stamps:
            return
        before = self.engine
        self._open()
        if self.policy.engine != "duckdb":
            # Only here: a count of another thread may still run on the old one, and DuckDB's is closed by
            # the last one that lets go of it.
            before.close()

    def run(self, text: str, parameters: Parameters = None) -> Answer:
        """Answer one statement."""
        return self.execute(self.prepare(text, parameters))

    def prepare(self, text: str, parameters: Parameters = None) -> Prepared:
        """Parse, analyse and price one statement; raises what is wrong with it."""
        self._follow()
        statement = parse(text, parameters)
        if isinstance(statement, Query):
            return self._prepare(text, statement)
        if isinstance(statement, Explain):
            inner = self._prepare(text, statement.query)
            return replace(inner, statement=statement, private=False, price=Charge())
        if isinstance(statement, Describe):
            info.describe(statement, self.policy, self.shell)
        return Prepared(text, statement, private=False, price=Charge())

    def _prepare(self, text: str, query: Query) -> Prepared:
        if not is_private(query, self.policy):
            public = public_sql(query, self.policy)
            return Prepared(text, query, private=False, price=Charge(), public=public)
        options = complete(query.options, self.defaults)
        if options.epsilon is None:
            raise query.source.refuse(
                "the statement says no epsilon and the policy has no default",
                None,
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) ...",
            )
        plan = analyse(query, self.policy, self.shell, options)
        counting = self._translated(query, plan)
        method = choose(plan)
        check_wrapper(query, [o.name for o in plan.outputs])
        key = reuse_key(plan, self.policy, self.versions)
        asked_before = not options.fresh and self.ledger.find(key, self.analyst) is not None
        price = Charge() if asked_before else method.terms.charge
        reads = tables_read(self.policy, plan.compiled.tables)
        stamps = self._opened_on(reads)
        return Prepared(
            text, query, True, price, plan, method, key, counting=counting, reads=reads, stamps=stamps
        )

    def _opened_on(self, tables: Iterable[Table]) -> Stamps:
        """Return the files of these tables as they were when the databases were opened."""
        files = {file for file, _ in self.versions.stamps(tables)}
        return tuple(stamp for stamp in self._stamps if stamp[0] in files)

    def _current(self, prepared: Prepared) -> Prepared:
        """Plan a statement again if a file changed since."""
        for _ in range(_ATTEMPTS):
            if self.versions.stamps(prepared.reads) == prepared.stamps:
                return prepared
            self._follow()
            if isinstance(prepared.statement, Query):
                prepared = self._prepare(prepared.text, prepared.statement)
        raise OperationalError(_CHANGING)

    def _translated(self, query: Query, plan: Plan) -> str:
        """Write the counting SQL for the private engine; what it cannot do just so is refused, uncharged."""
        try:
            return self.engine.translate(plan.compiled)
        except Untranslatable as problem:
            raise query.source.refuse(problem.message, None, problem.hint) from None

    def execute(self, prepared: Prepared) -> Answer:
        """Charge and run what was prepared."""
        match prepared.statement:
            case Query() if prepared.private:
                return self._private(prepared)
            case Query():
                return Answer(self.shell.run(prepared.public))
            case Explain() as statement:
                plan, method, budget = prepared.plan, prepared.method, self.budget()
                sql = prepared.counting or prepared.public
                return Answer(info.explain(plan, method, budget, sql, json=statement.json))
            case Show() as statement:
                return Answer(info.show(statement, self.policy, self.ledger, self.analyst))
            case Describe() as statement:
                return Answer(info.describe(statement, self.policy, self.shell))
            case Set() as statement:
                self.defaults = statement.apply(self.defaults)
                return Answer(info.empty())

    def _private(self, prepared: Prepared) -> Answer:
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
        reservation = self.ledger.reserve(
            analyst=self.analyst,
            statement=prepared.text,
            reading=type(plan.reading).__name__,
            mechanism=method.terms.mechanism,
            charge=method.terms.charge,
        )
        release = self._release(prepared, plan, method, reservation)
        # What was counted while a file changed answers this statement, and none that is asked again.
        unchanged = self.versions.stamps(prepared.reads) == prepared.stamps
        number = self.ledger.settle(
            reservation,
            release.charge,
            release=to_bytes(release),
            reuse_key=prepared.key if unchanged else None,
        )
        release = replace(release, number=number, charged_again=again)
        return Answer(present(prepared.statement, release.rows), release)

    def _stored(self, prepared: Prepared) -> Answer | None:
        """Return the answer that was given before to the same question on the same data."""
        if prepared.plan is None or prepared.plan.options.fresh:
            return None
        stored = self.ledger.find(prepared.key, self.analyst)
        if stored is None and self.policy.share_releases:
            stored = self.ledger.share(prepared.key, self.analyst)
        if stored is None:
            return None
        release = replace(from_bytes(stored.payload), reused=stored.when, number=stored.number)
        return Answer(present(prepared.statement, release.rows), release)

    def _vet(self, plan: Plan) -> None:
        """Read a source once per data version before the first statement does, as the owner declared it."""
        for name in plan.compiled.tables:
            table = self.policy.table(name)
            if table is None or table.public or table.trust_source:
                continue
            version = source_version(self.policy, table, self.versions)
            if not self.ledger.vetted(name, version):
                if not self.engine.vet(name):
                    raise OperationalError(
                        f"table {name} cannot be read as declared: the owner runs `dpsql check`"
                    )
                if self.versions.stamps([table]) != self._opened_on([table]):
                    raise OperationalError(_CHANGING)
                self.ledger.vet(name, version)
                if self.engine.short(name):
                    self.ledger.vet(lengths(name), version)
            else:
                self.engine.assume_short(name, self.ledger.vetted(lengths(name), version))

    def _release(self, prepared: Prepared, plan: Plan, method: Method, reservation: Reservation) -> Release:
        """From here on the charge is written: whatever happens, it stays, and no error tells why."""
        known: DatabaseError | None = None
        try:
            counts = self.engine.count(plan.compiled)
            answer = method.run(counts)
            shown = rows(plan, answer, counts, self.shell.calculate)
            return Release(
                rows=shown,
                table=details(plan, answer, shown),
                charge=answer.charge,
                statement=prepared.text,
                scale=method.terms.scale,
                **info.words(plan, method),
            )
        except (KeyboardInterrupt, Cancelled):
            self.ledger.cancel(reservation)
            raise
        except Exception:  # noqa: BLE001  whatever it is, its text may carry data
            known = OperationalError(FAILED)
        self.ledger.fail(reservation)
        raise known

    def plan_count(self, text: str, parameters: Parameters = None) -> Plan:
        """Analyse a count for a stream, which pays for it itself; its source is vetted."""
        self._follow()
        query = parse(text, parameters)
        if not isinstance(query, Query) or not is_private(query, self.policy):
            raise ProgrammingError("a checked count is one count of a private table without GROUP BY")
        options = complete(
            query.options, replace(self.defaults, epsilon=self.defaults.epsilon or Fraction(1))
        )
        plan = analyse(query, self.policy, self.shell, options)
        self._translated(query, plan)
        self._vet(plan)
        return plan

    def checked(self, *, tolerance: Number, epsilon: Number, misses: int) -> CheckedCounts:
        """Open a stream of counts answered by guesses; its largest charge is reserved now."""
        return CheckedCounts(self, tolerance, epsilon, misses)

    def median_oracle(
        self,
        hypotheses: ArrayLike,
        *,
        tolerance: Number,
        epsilon: Number,
        misses: int | None = None,
    ) -> MedianCounts:
        """Open a stream of counts guessed by the median of hypotheses."""
        return MedianCounts(self, hypotheses, tolerance, epsilon, misses)

    def budget(self) -> Budget:
        """Return what the analyst may still spend."""
        return self.ledger.budget(self.analyst)

    def release(self, number: int) -> Release:
        """Read one of the analyst's own releases back, by the number it was given; it costs nothing."""
        return replace(from_bytes(self.ledger.release(number, self.analyst)), number=number)

    def cancel(self) -> None:
        """Stop the statement that runs, from another thread; what was charged stays charged."""
        try:
            self.engine.cancel()
        finally:
            self.shell.cancel()

    def close(self) -> None:
        """Let go of the data and the ledger."""
        self.engine.close()
        self.shell.close()
        self.ledger.close()
