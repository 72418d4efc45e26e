"""Plan, price, describe and run one statement of a client. Each step blocks: it runs in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dpsql.analysis import is_private, public_sql
from dpsql.errors import Error, QueryRefused, QuerySyntaxError, ResultTooLarge
from dpsql.language import Query, Set, Show, Statement, plain, plain_text
from dpsql.lazy_dataclass import dataclass
from dpsql.prepared import (
    Explained,
    PreparedCommand,
    PreparedComposed,
    PreparedPrivate,
    PreparedPublic,
    scopes,
)
from dpsql.privacy import Charge
from dpsql.release import told
from dpsql.serve.agreement import names_epsilon, not_agreed
from dpsql.serve.answer import Answer, Column, Notice, columns_of
from dpsql.serve.catalog.facts import Route
from dpsql.serve.describe import ends, schema_of, with_ends
from dpsql.serve.errors import CatalogueRefused, PolicyReloaded, StatementTooLong
from dpsql.serve.limits import check_words
from dpsql.serve.notices import notices_of
from dpsql.serve.placeholders import arrays, attempts, conformed, parameters_of
from dpsql.serve.plan_cache import Planned, key
from dpsql.serve.probes import DECLARED, DeclaredValues, NoRows, Preview, probe_of

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.engines import RunningStatement
    from dpsql.planning import Planner
    from dpsql.prepared import Prepared
    from dpsql.release import Release
    from dpsql.serve.catalog.facts import CatalogAnswer, Facts, Signal
    from dpsql.serve.generation import Generation
    from dpsql.serve.plan_cache import Description, Key
    from dpsql.serve.user import User
    from dpsql.session import Session

Kind = Literal["data", "catalogue", "probe", "public", "command", "stored", "private"]
"""What a statement turned out to be; `data` until that is known."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What is left to do for a statement, and in which pool."""

    pool: Literal["free", "heavy"]
    work: Callable[[], Answer]


class StatementRun:
    """One statement of a client, on the policy that is open at that moment (a `Generation`)."""

    def __init__(
        self,
        generation: Generation,
        session: Session,
        user: User,
        running: RunningStatement,
        *,
        agreed: bool,
        most: Charge | None,
        intervals: bool,
        facts: Callable[[], Facts],
        signal: Callable[[Signal], Answer],
    ) -> None:
        """Begin nothing yet.

        `agreed` says whether somebody agreed to any price of the connection's statements, and `most` is the
        largest charge of each, if somebody agreed to that.
        """
        self.generation, self.session, self.user, self.running = generation, session, user, running
        self.kind: Kind = "data"
        self.price: Charge | None = None
        self._agreed = agreed or most is not None
        self._most = most
        self._intervals = intervals
        self._facts = facts
        self._signal = signal
        self._filters = scopes(generation.policy, user.analyst)

    # -- answering

    def key(self, text: str, parameters: Sequence[object]) -> Key:
        """Return the key of a statement among the plans."""
        return self._key(plain_text(text), tuple(plain(parameters) or ()))

    def _key(self, text: str, values: tuple[object, ...]) -> Key:
        return key(text, values, self.session.defaults, self._filters)

    def quick(
        self, text: str, parameters: Sequence[object], types: Sequence[pa.DataType | None]
    ) -> Answer | Pending | None:
        """Answer a statement as `begin` does, if it needs no planning; None if it does."""
        words, values = plain_text(text), tuple(plain(parameters) or ())
        found = self._known(words, values)
        if found is None and self.generation.catalogue.knows(text, types):
            self.kind = "catalogue"
            return self._of_catalogue(words, arrays(parameters, values), types)
        if found is None:
            return None
        kept = self._kept_answer(words, values, types, found)
        if kept is not None:
            self.kind, self.price = "stored", Charge()
            return kept
        asked = self._answer_key(words, values, types)
        schema = None
        if values and types:
            described = self.described_before(words, types)
            if described is None:
                return None
            schema = described[1]
        return self._of_prepared(found.prepared, found, schema, self._most, asked=asked, plans=False)

    def _answer_key(self, text: str, values: tuple[object, ...], types: Sequence[pa.DataType | None]) -> Key:
        return *self._key(text, values), self._intervals, str(types) if values else ""

    def _kept_answer(
        self, text: str, values: tuple[object, ...], types: Sequence[pa.DataType | None], found: object
    ) -> Answer | None:
        """Return the answer that is kept for a plan; None if none is."""
        if not isinstance(found, Planned) or isinstance(found.prepared, PreparedPublic):
            return None
        asked, ledger = self._answer_key(text, values, types), self.generation.database.ledger
        return self.generation.stored.get(asked, self.user.analyst, found.engines, ledger)

    def begin(
        self, text: str, parameters: Sequence[object], types: Sequence[pa.DataType | None]
    ) -> Answer | Pending:
        """Answer what is free and quick; return the work that is left for other statements."""
        self._check_length(text)
        words, values = plain_text(text), tuple(plain(parameters) or ())
        with self.session.statement(self.running):
            found = self._known(words, values) or self._routed(
                words, values, arrays(parameters, values), types
            )
        if isinstance(found, (Answer, Pending)):
            return found
        schema = self._announced(words, types) if values and types else None
        planned = found if isinstance(found, Planned) else None
        prepared = found.prepared if isinstance(found, Planned) else found
        made = self._of_prepared(prepared, planned, schema, self._most)
        assert made is not None  # noqa: S101  it plans what has to be planned
        return made

    def _routed(
        self,
        text: str,
        values: tuple[object, ...],
        with_arrays: tuple[object, ...],
        types: Sequence[pa.DataType | None],
    ) -> Planned | PreparedCommand | PreparedPrivate | Answer | Pending:
        """Prepare a statement that was not prepared before; answer it, if that needs no further work."""
        if self.route(text) is Route.CATALOGUE:
            return self._of_catalogue(text, with_arrays, types)
        return self._plan(text, values)

    def prepare(self, text: str, parameters: Sequence[object]) -> Prepared:
        """Parse, analyse and price a statement, for `run`."""
        self._check_length(text)
        return self.session.prepare(text, parameters or None)

    def run(self, prepared: Prepared, most: Charge | None) -> Answer | Pending:
        """Answer a statement that was prepared, for at most this charge."""
        versions = self.generation.database.versions
        if not isinstance(prepared, PreparedCommand) and prepared.engines.versions is not versions:
            raise PolicyReloaded("the policy was read again since the statement was prepared")
        made = self._of_prepared(prepared, None, None, most)
        assert made is not None  # noqa: S101  as above
        return made

    def _of_prepared(
        self,
        prepared: Prepared,
        planned: Planned | None,
        schema: pa.Schema | None,
        most: Charge | None = None,
        *,
        asked: Key | None = None,
        plans: bool = True,
    ) -> Answer | Pending | None:
        """Answer a prepared statement; None if that takes planning, and `plans` is false.

        Under the key `asked` its answer is kept, if it was stored.
        """
        match prepared:
            case PreparedCommand():
                self.kind = "command"
                result = self.session.execute(prepared, running=self.running)
                tag = {Show: "SHOW", Explained: "EXPLAIN"}.get(type(prepared.command), "SELECT")
                return Answer(columns_of(result.table.schema), result.table, (), result.release, tag)
            case PreparedPublic():
                self.kind = "public"

                def public() -> Answer:
                    result = self.session.execute(prepared, running=self.running)
                    return self._answer(result.table, None, schema)

                return Pending("free", public)
        return self._of_private(prepared, planned, schema, most, asked, plans=plans)

    def _of_private(
        self,
        prepared: PreparedPrivate | PreparedComposed,
        planned: Planned | None,
        schema: pa.Schema | None,
        most: Charge | None,
        asked: Key | None,
        *,
        plans: bool,
    ) -> Answer | Pending | None:
        def stored() -> Answer | None:
            result = self.session.stored(prepared, running=self.running)
            return None if result is None else self._kept(prepared, result.release, schema, asked)

        def charged() -> Answer:
            result = self.session.execute(prepared, running=self.running, most=most)
            return self._kept(prepared, result.release, schema, asked)

        # Whether releases are stored is asked of the ledger each time: plans are shared and kept.
        known = stored() if isinstance(prepared, PreparedPrivate) else None
        if known is not None:
            self.kind, self.price = "stored", Charge()
            return known
        planner = self.session.planner
        self.price = planner.priced(prepared).price
        agreed = most is not None or self._agreed
        if self.price == Charge() and isinstance(prepared, PreparedComposed):
            self.kind = "stored"
            if not agreed and not (planned is not None and planned.names_epsilon):
                most = Charge()  # what is stored may not answer it any more when it runs
            return Pending("free", charged)
        self.kind = "private"
        if not agreed:
            if not plans and (planned is None or not planned.names_epsilon):
                return None
            if not names_epsilon(prepared, planner, planned):
                raise not_agreed(prepared, self.price, planner)
        return Pending("heavy", charged)

    def _kept(
        self,
        prepared: PreparedPrivate | PreparedComposed,
        release: Release | None,
        schema: pa.Schema | None,
        asked: Key | None,
    ) -> Answer:
        """Return the answer of a release; keep it under a key if all of it was stored before."""
        with told(release):
            answer = self._released(prepared, release, schema)
            if asked is None or release is None or _charged(release):
                return answer
            keys = self.session.reuse_keys(prepared, release, running=self.running)
            return self.generation.stored.put(asked, self.user.analyst, prepared.engines, keys, answer)

    def _released(
        self,
        prepared: PreparedPrivate | PreparedComposed,
        release: Release | None,
        schema: pa.Schema | None,
    ) -> Answer:
        assert release is not None  # noqa: S101  a private statement has one
        table = with_ends(release, ends(prepared)) if self._intervals else release.rows
        notices = notices_of(release, self.session.budget() if _charged(release) else None)
        return self._answer(table, release, schema, notices)

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
        shown_table = table if schema is None else conformed(table, schema)
        return Answer(columns_of(shown_table.schema), shown_table, notices, release)

    # -- describing

    def _announced(self, text: str, types: Sequence[pa.DataType | None]) -> pa.Schema | None:
        """Return the schema that was announced of a statement with parameters; None if there was none."""
        try:
            return self.described(text, types)[1]
        except (QueryRefused, QuerySyntaxError):
            return None  # it is refused with any dummies, though not with the values that came

    def described(
        self, text: str, types: Sequence[pa.DataType | None], values: Sequence[object] | None = None
    ) -> tuple[tuple[pa.DataType, ...], pa.Schema]:
        """Return the types of a statement's parameters, and the schema of its answer; nothing is run.

        `values` are those of the parameters, if they are known.
        """
        self._check_length(text)
        words = plain_text(text)
        with self.session.statement(self.running):
            before = self.described_before(words, types) if values is None else None
            if before is not None:
                return before
            engines = self.generation.database.engines()
            parameters = parameters_of(words, self.generation.policy, engines.schema_database, types)
            given = [tuple(plain(values) or ())] if values is not None else attempts(parameters)
            refused: Error | None = None
            for dummies in given:
                try:
                    found = tuple(each.type for each in parameters), self._schema(words, dummies)
                except (QueryRefused, QuerySyntaxError) as error:
                    refused = refused or error
                    continue
                if values is None and self._known(words, dummies) is not None:
                    asked = self.description_key(words, types)
                    self.generation.descriptions.put(asked, engines, found, self.user.analyst)
                return found
        assert refused is not None  # noqa: S101  there is at least one attempt
        raise refused

    def description_key(self, text: str, types: Sequence[pa.DataType | None]) -> Key:
        """Return the key of a statement among the descriptions."""
        return *self._key(plain_text(text), ()), self._intervals, str(types)

    def described_before(self, text: str, types: Sequence[pa.DataType | None]) -> Description | None:
        """Return the description of a statement that was described before on the data as it is now."""
        engines = self.generation.database.engines()
        return self.generation.descriptions.get(self.description_key(text, types), engines)

    def _schema(self, text: str, values: tuple[object, ...]) -> pa.Schema:
        found = self._known(text, values) or self._plan(text, values)
        if isinstance(found, Answer):
            return found.table.schema
        if not isinstance(found, Planned):
            return schema_of(found, intervals=self._intervals)
        plain_schema = found.schema
        if plain_schema is None:
            plain_schema = found.schema = schema_of(found.prepared)
        return schema_of(found.prepared, intervals=True) if self._intervals else plain_schema

    # -- planning

    def _check_length(self, text: str) -> None:
        most = self.generation.config.max_statement
        if len(text) > most or len(text.encode(errors="surrogatepass")) > most:
            raise StatementTooLong(f"the statement is longer than {most:,} bytes")
        check_words(text)

    def _known(self, text: str, values: tuple[object, ...]) -> Planned | None:
        """Return the plan of a statement that was prepared before."""
        generation = self.generation
        engines = generation.database.engines()
        return generation.plans.get(self._key(text, values), engines)

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
            return self._parsed(text, values, statement)
        raise planner.with_offer(text, refused, values or None)

    def _parsed(
        self, text: str, values: tuple[object, ...], statement: Statement
    ) -> Planned | PreparedCommand | PreparedPrivate | Answer:
        """Prepare a statement that was parsed, or answer a probe."""
        planner = self.session.planner
        if isinstance(statement, Set):
            raise QueryRefused("SET is no statement here: it changes a setting of the connection")
        if isinstance(statement, Query) and is_private(statement, self.generation.policy):
            with suppress(RecursionError):  # no tool nests so deeply
                probed = self._probed(text, statement, planner)
                if probed is not None:
                    return probed
        prepared = planner.prepare(text, values or None, statement)
        if isinstance(prepared, PreparedCommand):
            return prepared
        if isinstance(prepared, PreparedPrivate) and prepared.refines is not None:
            return prepared  # it holds what the analyst's first release was
        planned = Planned(prepared)
        asked, views = self._key(text, values), self.generation.policy.views
        self.generation.plans.put(asked, planned, views, self.user.analyst)
        return planned

    def _probed(self, text: str, query: Query, planner: Planner) -> Answer | Planned | None:
        """Answer a statement that a tool sends for columns or values; None for others."""
        engines = self.generation.database.engines()
        database = engines.schema_database
        match probe_of(query, self.generation.policy, database):
            case NoRows(columns):
                self.kind = "probe"
                return _empty(self._columns(text, query, columns, planner))
            case Preview() if self.user.preview == "empty":
                self.kind = "probe"
                schema = database.schema(public_sql(query, self.generation.policy, database), text)
                what = "rows of private tables are not shown, so this answer has columns alone"
                return replace(_empty(schema), notices=(Notice("WARNING", what),))
            case DeclaredValues(values):
                self.kind = "probe"
                prepared = planner.query(text, values, engines)
                assert isinstance(prepared, PreparedPublic)  # noqa: S101  it reads no private table
                found = database.run(prepared.sql)
                return self._answer(found, None, None, (Notice("NOTICE", DECLARED),))
        return None

    def _columns(self, text: str, query: Query, columns: Query, planner: Planner) -> pa.Schema:
        """Return the columns of a statement without rows: as it would release them, or as the tables are."""
        engines = self.generation.database.engines()
        epsilon = planner.defaults.epsilon or Fraction(1)
        try:
            some = replace(planner, defaults=replace(planner.defaults, epsilon=epsilon))
            return schema_of(some.query(text, columns, engines), intervals=self._intervals)
        except QueryRefused:
            database = engines.schema_database
            return database.schema(public_sql(query, self.generation.policy, database), text)

    # -- the catalogue

    def route(self, text: str) -> Route:
        """Return whether the catalogue answers a statement; refuse one that it can answer only in part."""
        self._check_length(text)
        route = self.generation.catalogue.route(text)
        if route is Route.BOTH:
            raise CatalogueRefused("a statement reads the catalogue or the tables, not both")
        if route is Route.CATALOGUE:
            self.kind = "catalogue"
        return route

    def _of_catalogue(
        self, text: str, values: tuple[object, ...], types: Sequence[pa.DataType | None]
    ) -> Answer | Pending:
        signal = self.generation.catalogue.signal(text, values)
        if signal is not None:
            return self._signal(signal)

        def asked() -> Answer:
            with self.session.statement(self.running):
                return _of_catalogue(self.generation.catalogue.answer(text, self._facts(), values, types))

        return Pending("free", asked)


def _charged(release: Release) -> bool:
    """Return whether a part of a release is new, and so was charged."""
    return any(part.reused is None for part in release.parts or (release,))


def _of_catalogue(found: CatalogAnswer) -> Answer:
    columns = tuple(Column(each.name, each.type, each.oid) for each in found.columns)
    return Answer(columns, found.table, changes=found.changes)


def _empty(schema: pa.Schema) -> Answer:
    return Answer(columns_of(schema), schema.empty_table())
