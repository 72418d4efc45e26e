"""Plan, price, describe and run one statement of a client. Each step blocks: it runs in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from dpsql.composition.kept_plans import plan_key, scopes
from dpsql.composition.open_parameters import attempts
from dpsql.composition.prepared import (
    Explained,
    PreparedCommand,
    PreparedComposed,
    PreparedPrivate,
    PreparedProbe,
    PreparedPublic,
)
from dpsql.errors import Error, PriceNotAgreed, QueryRefused, QuerySyntaxError, ResultTooLarge
from dpsql.kernel.loss import Charge
from dpsql.language import OpenChecks, Query, Set, Show, Statement, StreamCommand, copy_parameters, copy_text
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_property import lazy_property
from dpsql.ledger import shown
from dpsql.release import tell_opening
from dpsql.serve.answers import (
    Answer,
    AnswerColumn,
    Described,
    Notice,
    Planned,
    columns_of,
    conform,
    empty_answer,
    messages_of,
    put_arrays_back,
)
from dpsql.serve.catalog import Route
from dpsql.serve.limits import CatalogRefused, PolicyReloaded, StatementTooLong, check_words
from dpsql.session import Session

if TYPE_CHECKING:
    from dpsql.composition.kept_plans import PlanKey
    from dpsql.composition.planner import Planner
    from dpsql.composition.prepared import Prepared
    from dpsql.engines import RunningStatement
    from dpsql.language import Options
    from dpsql.release import Release
    from dpsql.serve.answers import Description
    from dpsql.serve.catalog import SessionFacts, Signal
    from dpsql.serve.shared import Generation
    from dpsql.serve.users import User

Kind = Literal["data", "catalogue", "probe", "public", "command", "stored", "private"]
"""What a statement turned out to be; `data` until that is known."""


@dataclass(frozen=True, slots=True)
class Pending:
    """The rest of the work on a statement, after its first step, and the pool in which it runs."""

    pool: Literal["free", "heavy"]
    work: Callable[[], Answer]


class StatementRun:
    """One statement of a client, on the policy that is open at that moment (a `Generation`)."""

    def __init__(
        self,
        generation: Generation,
        defaults: Options,
        user: User,
        running: RunningStatement,
        text: str,
        parameters: Sequence[object] | None = None,
        types: Sequence[pa.DataType | None] = (),
        *,
        agreed: bool,
        most: Charge | None,
        intervals: bool,
        facts: Callable[[], SessionFacts],
        signal: Callable[[Signal], bool],
    ) -> None:
        """Keep what is needed to run a statement; nothing is begun.

        `defaults` are the options of the connection. `parameters` are the values of `$1`, .. if they are
        known, `types` those that the client announced. `agreed` says whether somebody agreed to any price of
        the connection's statements, and `most` is the largest charge of each, if somebody agreed to that.
        """
        self.generation, self.user, self.running, self._defaults = generation, user, running, defaults
        self.kind: Kind = "data"
        self.price: Charge | None = None
        self.text, self._types = copy_text(text), types
        self._parameters = parameters
        self._values = tuple(copy_parameters(parameters) or ())
        self._agreed = agreed or most is not None
        self._most = most
        self._intervals, self._facts, self._signal = intervals, facts, signal
        self._filters = scopes(generation.policy, user.analyst)
        self._own = plan_key(self.text, self._values, defaults, self._filters)

    @lazy_property
    def session(self) -> Session:
        """A session for it alone: statements of one wait for each other, in threads that others need."""
        made = Session(self.generation.database, self.user.analyst)
        made.defaults = self._defaults
        return made

    # -- what was found out before

    def is_planned(self) -> bool:
        """Return whether `quick` may answer the statement; nothing is computed for that."""
        return self._is_translated() or self._key(self._values) in self.generation.plans

    def is_described(self) -> bool:
        """Return whether `quick_description` may describe the statement; nothing is computed for that."""
        known = self._is_translated() or self._description_key() in self.generation.descriptions
        return self._parameters is None and known

    def _is_translated(self) -> bool:
        return self.generation.catalog.knows(self.text, self._types)

    def _key(self, values: tuple[object, ...]) -> PlanKey:
        """Return the key of the statement among the plans."""
        own = values is self._values
        return self._own if own else plan_key(self.text, values, self._defaults, self._filters)

    def _description_key(self) -> PlanKey:
        return *self._key(()), self._intervals, str(self._types)

    def _find_plan(self, values: tuple[object, ...]) -> Planned | None:
        return self.generation.plans.get(self._key(values), self.generation.database.engines())

    def _find_description(self) -> Description | None:
        """Return the description that was made before on the data as it is now."""
        return self.generation.descriptions.get(self._description_key(), self.generation.database.engines())

    # -- answering

    def quick(self) -> Answer | Pending | None:
        """Answer a statement from a kept plan or answer; None if the statement must be planned."""
        found = self._find_plan(self._values)
        if found is None:
            return self._ask_catalog() if self._is_translated() else None
        asked = *self._key(self._values), self._intervals, str(self._types) if self._values else ""
        if not isinstance(found.prepared, PreparedPublic):
            ledger = self.generation.database.ledger
            kept = self.generation.stored.get(asked, self.user.analyst, found.engines, ledger)
            if kept is not None:
                self.kind, self.price = "stored", Charge()
                return kept
        schema = None
        if self._values and self._types:
            described = self._find_description()
            if described is None:
                return None
            schema = described[1]
        return self._start(found.prepared, found, schema, self._most, asked=asked, plans=False)

    def begin(self) -> Answer | Pending:
        """Answer what is free and quick; return the work that is left for other statements."""
        self._check_length()
        with self.session.statement(self.running):
            found = self._find_plan(self._values)
            if found is None and self.route() is Route.CATALOG:
                return self._ask_catalog()
            made = found or self._plan(self.text, self._values)
        if isinstance(made, Answer):
            return made
        schema = self._find_announced() if self._values and self._types else None
        prepared, planned = (made.prepared, made) if isinstance(made, Planned) else (made, None)
        started = self._start(prepared, planned, schema, self._most)
        assert started is not None  # noqa: S101  it plans what has to be planned
        return started

    def prepare(self) -> Prepared:
        """Parse, analyse and price the statement, for `run`."""
        self._check_length()
        return self.session.prepare(self.text, self._values or None)

    def run(self, prepared: Prepared, most: Charge | None) -> Answer | Pending:
        """Answer the statement, which was prepared, for at most this charge."""
        versions = self.generation.database.versions
        if not isinstance(prepared, PreparedCommand) and prepared.engines.versions is not versions:
            raise PolicyReloaded("the policy was read again since the statement was prepared")
        started = self._start(prepared, None, None, most)
        assert started is not None  # noqa: S101  as above
        return started

    def _start(
        self,
        prepared: Prepared,
        planned: Planned | None,
        schema: pa.Schema | None,
        most: Charge | None,
        *,
        asked: PlanKey | None = None,
        plans: bool = True,
    ) -> Answer | Pending | None:
        """Answer a prepared statement; None if that takes planning, and `plans` is false.

        Under the key `asked` its answer is kept, if it was stored.
        """
        match prepared:
            case PreparedCommand():
                self.kind = "private" if prepared.private else "command"
                streams = isinstance(prepared.command, (OpenChecks, StreamCommand))  # checks are private
                if streams or prepared.private:
                    self.price = prepared.price
                    return Pending("heavy", lambda: self._run_command(prepared, most))
                result = self.session.execute(prepared, running=self.running)
                tag = {Show: "SHOW", Explained: "EXPLAIN"}.get(type(prepared.command), "SELECT")
                return Answer(columns_of(result.table.schema), result.table, (), result.release, tag)
            case PreparedPublic():
                self.kind = "public"

                def run_public() -> Answer:
                    result = self.session.execute(prepared, running=self.running)
                    return self._answer(result.table, None, schema)

                return Pending("free", run_public)

        def run_charged() -> Answer:
            result = self.session.execute(prepared, running=self.running, most=most)
            return self._answer_release(prepared, result.release, schema, asked)

        # Whether releases are stored is asked of the ledger each time: plans are shared and kept.
        if isinstance(prepared, PreparedPrivate):
            known = self.session.read_stored(prepared, running=self.running)
            if known is not None:
                self.kind, self.price = "stored", Charge()
                return self._answer_release(prepared, known.release, schema, asked)
        planner = self.session.planner
        self.price = planner.priced(prepared).price
        agreed = most is not None or self._agreed
        if self.price == Charge() and isinstance(prepared, PreparedComposed):
            self.kind = "stored"
            if not agreed and not (planned is not None and planned.names_epsilon):
                most = Charge()  # what is stored may not answer it any more when it runs
            return Pending("free", run_charged)
        self.kind = "private"
        if not agreed:
            named = None if planned is None else planned.names_epsilon
            if not plans and not named:
                return None
            if named is None:
                named = planner.names_price(prepared)
            if planned is not None:
                planned.names_epsilon = named
            if not named:
                raise self._not_agreed(prepared, self.price)
        return Pending("heavy", run_charged)

    def _run_command(self, prepared: PreparedCommand, most: Charge | None) -> Answer:
        """Run a statement of a stream of checks, or a report, which waits for its turn."""
        result = self.session.execute(prepared, running=self.running, most=most)
        notices = tuple(Notice("NOTICE", each) for each in result.notices)
        notices += () if result.release is None else messages_of(result.release, None)
        return self._answer(result.table, result.release, None, notices)

    def _not_agreed(self, prepared: PreparedPrivate | PreparedComposed, price: Charge) -> PriceNotAgreed:
        """Return the error that tells the price, and what to write in order to agree to it."""
        epsilon = shown(price.epsilon, up=True)
        delta = f" and delta {float(price.delta):g}" if price.delta else ""
        error = PriceNotAgreed(
            f"this costs epsilon {epsilon}{delta}, and nobody has agreed to it; nothing was charged",
            hint=f"write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) ..., or send "
            f"SET dp_epsilon = {epsilon} to agree to it for all statements of this connection",
        )
        error.rewrite = self.session.planner.with_price(prepared, epsilon, price)
        return error

    def _answer_release(
        self,
        prepared: PreparedPrivate | PreparedComposed,
        release: Release | None,
        schema: pa.Schema | None,
        asked: PlanKey | None,
    ) -> Answer:
        """Return the answer of a release; keep it under a key if the whole release was stored before."""
        with tell_opening(release):
            assert release is not None  # noqa: S101  a private statement has one
            new = any(part.reused is None for part in release.parts or (release,))
            table = self.session.rows(prepared, release, intervals=self._intervals)
            messages = messages_of(release, self.session.budget() if new else None)
            answer = self._answer(table, release, schema, messages)
            if asked is None or new:
                return answer
            keys = self.session.reuse_keys(prepared, release, running=self.running)
            return self.generation.stored.put(asked, self.user.analyst, prepared.engines, keys, answer)

    def _answer(
        self,
        table: pa.Table,
        release: Release | None,
        schema: pa.Schema | None,
        notices: tuple[Notice, ...] = (),
    ) -> Answer:
        limit = self.generation.limit
        if table.num_rows > limit.rows or table.nbytes > limit.bytes:
            raise ResultTooLarge(
                f"the result has more than {limit.rows:,} rows or {limit.bytes:,} bytes: add a LIMIT, or "
                "select fewer columns"
            )
        shown_table = table if schema is None else conform(table, schema)
        return Answer(columns_of(shown_table.schema), shown_table, notices, release)

    # -- describing

    def describe(self) -> Described:
        """Return the types of the statement's parameters and its columns; nothing is run or charged."""
        if self.route() is Route.CATALOG:
            return self._describe_by_catalog()
        kinds, schema = self._describe()
        return Described(kinds, columns_of(schema))

    def quick_description(self) -> Described | None:
        """Return the kept description of the statement; None if none is kept."""
        if self._is_translated():
            return self.describe()
        found = self._find_description()
        return None if found is None else Described(found[0], columns_of(found[1]))

    def _find_announced(self) -> pa.Schema | None:
        """Return the schema that was announced of a statement with parameters; None if there was none."""
        try:
            return self._describe(dummies=True)[1]
        except (QueryRefused, QuerySyntaxError):
            return None  # it is refused with any dummies, though not with the values that came

    def _describe(self, *, dummies: bool = False) -> Description:
        """Return the types of the parameters and the schema of the answer, with their values or dummies."""
        self._check_length()
        dummies = dummies or self._parameters is None
        with self.session.statement(self.running):
            before = self._find_description() if dummies else None
            if before is not None:
                return before
            engines = self.generation.database.engines()
            parameters = self.session.planner.parameters(self.text, self._types)
            refused: Error | None = None
            for values in attempts(parameters) if dummies else (self._values,):
                try:
                    found = tuple(each.type for each in parameters), self._schema(values)
                except (QueryRefused, QuerySyntaxError) as error:
                    refused = refused or error
                    continue
                if dummies and self._find_plan(values) is not None:
                    asked = self._description_key()
                    self.generation.descriptions.put(asked, engines, found, self.user.analyst)
                return found
        assert refused is not None  # noqa: S101  there is at least one attempt
        raise refused

    def _schema(self, values: tuple[object, ...]) -> pa.Schema:
        found = self._find_plan(values) or self._plan(self.text, values)
        if isinstance(found, Answer):
            return found.table.schema
        if not isinstance(found, Planned):
            return self.session.schema(found, intervals=self._intervals)
        if found.schema is None:
            found.schema = self.session.schema(found.prepared)
        return self.session.schema(found.prepared, intervals=True) if self._intervals else found.schema

    # -- planning

    def _check_length(self) -> None:
        most = self.generation.config.max_statement
        if len(self.text) > most or len(self.text.encode(errors="surrogatepass")) > most:
            raise StatementTooLong(f"the statement is longer than {most:,} bytes")
        check_words(self.text)

    def _plan(
        self, text: str, values: tuple[object, ...]
    ) -> Planned | PreparedCommand | PreparedPrivate | Answer:
        """Prepare a statement about data, or answer it if it is a probe of a tool."""
        planner = self.session.planner
        try:
            statement = planner.parsed(text, values or None)
        except (QueryRefused, QuerySyntaxError) as error:
            refused = error  # raised below, so that errors of other texts are no context of it
        else:
            return self._plan_parsed(text, values, statement, planner)
        raise planner.with_offer(text, refused, values or None)

    def _plan_parsed(
        self, text: str, values: tuple[object, ...], statement: Statement, planner: Planner
    ) -> Planned | PreparedCommand | PreparedPrivate | Answer:
        if isinstance(statement, Set):
            raise QueryRefused("SET is no statement here: it changes a setting of the connection")
        if isinstance(statement, Query):
            empty = self.user.preview == "empty"
            if probe := planner.probe(text, statement, previews=empty, intervals=self._intervals):
                return self._answer_probe(probe)
        prepared = planner.prepare(text, values or None, statement)
        if isinstance(prepared, PreparedCommand):
            return self.session.plan_reports(prepared)
        if isinstance(prepared, PreparedPrivate) and prepared.refines is not None:
            return prepared  # it holds what the analyst's first release was
        planned = Planned(prepared)
        if planned.may_be_kept(text, self.generation.policy.views):
            self.generation.plans.put(self._key(values), planned.engines, planned, self.user.analyst)
        return planned

    def _answer_probe(self, probe: PreparedProbe) -> Answer:
        """Answer a statement that a tool sends for columns or values; it reads no private row."""
        self.kind = "probe"
        if probe.values is not None:
            found = probe.values.engines.schema_database.run(probe.values.sql)
            what = "declared values, whether or not they occur"
            return self._answer(found, None, None, (Notice("NOTICE", what),))
        what = "rows of private tables are not shown, so this answer has columns alone"
        return empty_answer(probe.schema, *([Notice("WARNING", what)] if probe.preview else []))

    # -- the catalogue

    def route(self) -> Route:
        """Return whether the catalogue answers the statement; refuse one that it can answer only in part."""
        self._check_length()
        route = self.generation.catalog.route(self.text)
        if route is Route.BOTH:
            raise CatalogRefused("a statement reads the catalogue or the tables, not both")
        if route is Route.CATALOG:
            self.kind = "catalogue"
        return route

    def _ask_catalog(self) -> Answer | Pending:
        self.kind, catalog = "catalogue", self.generation.catalog
        values = put_arrays_back(self._parameters, self._values)
        signal = catalog.signal(self.text, values)
        if signal is not None:
            table = pa.table({signal.column: pa.array([self._signal(signal)], pa.bool_())})
            return Answer(columns_of(table.schema), table)

        def ask() -> Answer:
            with self.session.statement(self.running):
                return catalog.answer(self.text, self._facts(), values, self._types)

        return Pending("free", ask)

    def _describe_by_catalog(self) -> Described:
        catalog = self.generation.catalog
        signal = catalog.signal(self.text, tuple(self._parameters or ()))
        if signal is not None:
            return Described((), (AnswerColumn(signal.column, pa.bool_()),))
        return catalog.describe(self.text, self._facts(), self._types)
