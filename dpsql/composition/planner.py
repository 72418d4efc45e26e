"""Parses, analyses and prices statements. Nothing is charged, and no private row is read."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

from dpsql.analysis import (
    DeclaredValues,
    NoRows,
    Preview,
    complete_options,
    find_probe,
    is_private,
    list_obstacles,
    order_obstacles,
    put_views,
    write_public_sql,
)
from dpsql.composition import (
    Releasing,
    compose,
    describe_view,
    parts_of,
    release_blocks,
    schema_of,
    selected_parts,
)
from dpsql.composition.first_stable import prepare_first_stable
from dpsql.composition.kept_plans import KeptPlans, list_parameters, plan_key, scopes
from dpsql.composition.open_parameters import OpenParameter, parameters_of
from dpsql.composition.planned_count import PlannedCount
from dpsql.composition.prepared import (
    Explained,
    Prepared,
    PreparedCommand,
    PreparedComposed,
    PreparedPrivate,
    PreparedProbe,
    PreparedPublic,
    parts_read,
)
from dpsql.composition.prepared_streams import StreamStatement, prepare_stream_statement
from dpsql.composition.refining import Refining
from dpsql.composition.refusals import Amounts, is_paid, keep_tried, rewrite, with_beside, with_own_hints
from dpsql.composition.refused_with_periods import check_sums
from dpsql.composition.show_describe import describe_table
from dpsql.engines import Untranslatable, running_statement
from dpsql.errors import Fix, QueryRefused, QuerySyntaxError
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import NO_PARTS, Calendar
from dpsql.language import (
    Ask,
    Check,
    Describe,
    Explain,
    FirstStable,
    OpenChecks,
    Options,
    Outline,
    Query,
    Refine,
    Statement,
    StreamCommand,
    parse,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import choose, least_epsilon, options_of_default_error
from dpsql.release import reuse_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dpsql.composition.kept_plans import PlanKey
    from dpsql.database import Database, Engines
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy

_EARLIER = 8
"""Before so many newer kept ladders an answer may have been made that is still free."""


@dataclass(frozen=True, slots=True)
class _Offering:
    """Tries statements that are offered: each is parsed, analysed and priced, and can be paid."""

    planner: Planner
    parameters: Parameters
    amounts: Amounts

    def analysed(self, text: str) -> Prepared:
        """Prepare a statement, whether it can be paid or not; its refusal offers amounts that are left."""
        try:
            return self.planner.bound(text, self.parameters)
        except (QueryRefused, QuerySyntaxError) as error:
            error.obstacles = self.amounts.put_into(error.obstacles)
            raise

    def __call__(self, text: str) -> Prepared:
        """Prepare a statement; refuse one that cannot be paid."""
        prepared = self.analysed(text)
        most = self.planner.policy.budget.max_epsilon_per_query
        if isinstance(prepared, (PreparedPrivate, PreparedComposed)) and not is_paid(
            prepared, self.planner.budget_for(prepared), most
        ):
            raise QueryRefused("the budget does not pay for this")
        return prepared


@dataclass(frozen=True, slots=True)
class Planner:
    """Prepares the statements of an analyst, with the defaults of a connection."""

    database: Database
    analyst: str
    defaults: Options

    @property
    def policy(self) -> Policy:
        """The policy of the database."""
        return self.database.policy

    def prepare(self, text: str, parameters: Parameters = None, parsed: Statement | None = None) -> Prepared:
        """Prepare a statement; the error of one that is refused has a statement that would be accepted.

        `parsed` is the text as `parsed` returns it, if somebody has parsed it already.
        """
        try:
            return self._prepare(text, parameters, parsed)
        except (QueryRefused, QuerySyntaxError) as error:
            refused = error
        raise self.with_offer(text, refused, parameters)

    def with_offer(
        self, text: str, refused: QueryRefused | QuerySyntaxError, parameters: Parameters = None
    ) -> QueryRefused | QuerySyntaxError:
        """Return the error of a statement with what else is refused in it and what would be accepted."""
        offering = self._offering(parameters)
        refused.obstacles = offering.amounts.put_into(refused.obstacles)
        refused.obstacles = with_beside(text, refused, offering)
        refused.obstacles = with_own_hints(text, refused)
        offer = rewrite(text, refused, offering)
        if offer is not None:
            refused.rewrite, refused.obstacles = offer
        if refused.rewrite is None:  # else the changes were tried together
            refused.obstacles = keep_tried(text, refused, offering, offering.analysed)
        return refused

    def _offering(self, parameters: Parameters) -> _Offering:
        """Return what tries the statements that are offered in the place of a refused one."""
        # Of parts of units, those of which nothing was asked are not used up.
        budget, most = self.database.ledger.budget(self.analyst, NO_PARTS), self.policy.budget
        return _Offering(self, parameters, Amounts.of(budget, most.max_epsilon_per_query))

    def budget_for(self, prepared: Prepared) -> Budget:
        """Return what may be spent on a statement: of the parts of units that it reads, the fullest one's."""
        return self.database.ledger.budget(self.analyst, parts_read(prepared))

    def bound(self, text: str, parameters: Parameters) -> Prepared:
        """Prepare a statement; refuse also a public statement that the schema database cannot bind."""
        with running_statement() as running:
            running.check()
        prepared = self._prepare(text, parameters)
        if isinstance(prepared, PreparedPublic):
            try:
                prepared.engines.schema_database.plan(prepared.sql)
            except ValueError:
                raise QueryRefused("this does not bind") from None
        return prepared

    def parsed(self, text: str, parameters: Parameters = None) -> Statement:
        """Parse a statement, and put the policy's views into it."""
        return put_views(parse(text, parameters, self.defaults.dialect), self.policy)

    def _prepare(self, text: str, parameters: Parameters, parsed: Statement | None = None) -> Prepared:
        engines = self.database.engines()
        key, plans = self._key(text, parameters), KeptPlans(self.database, self.analyst)
        if parsed is None and (found := plans.find(key, engines)) is not None:
            with running_statement() as running:
                running.check()
            return self._added(self.priced(found))
        statement = self.parsed(text, parameters) if parsed is None else parsed
        match statement:
            case Query():
                made = self.query(text, statement, engines)
                if parsed is None and not isinstance(made, PreparedPublic):
                    plans.keep(key, made)
                return made
            case FirstStable():
                return prepare_first_stable(self, text, statement, engines)
            case Explain():
                asked = statement.query
                if isinstance(asked, StreamStatement):
                    of_stream = prepare_stream_statement(self, text, asked, engines)
                    return PreparedCommand(text, Explained(of_stream, statement.form))
                if isinstance(asked, FirstStable):
                    listed = prepare_first_stable(self, text, asked, engines)
                    return PreparedCommand(text, Explained(listed, statement.form))
                planned = (
                    self._refinement(text, asked, engines, parameters)
                    if isinstance(asked, Refine)
                    else self.query(text, asked, engines)
                )
                return PreparedCommand(text, Explained(planned, statement.form))
            case Ask() | Check() | OpenChecks() | StreamCommand():
                return prepare_stream_statement(self, text, statement, engines)
            case Refine():
                return self._refinement(text, statement, engines, parameters)
            case Describe():
                self.described(statement)
        return PreparedCommand(text, statement)

    def _key(self, text: str, parameters: Parameters) -> PlanKey:
        filters = scopes(self.policy, self.analyst)
        key = plan_key(text, list_parameters(parameters), self.defaults, filters)
        parts = self.policy.unit_parts
        if parts is None or parts.every is None:
            return key
        today = datetime.now(UTC).date()  # up to which the table with the parts is read
        return (*key, Calendar(parts.period).number(today), parts.closed_parts(today))

    def query(
        self, text: str, query: Query, engines: Engines
    ) -> PreparedPrivate | PreparedComposed | PreparedPublic:
        """Prepare a parsed SELECT, into which the policy's views were put."""
        refused: list[QueryRefused] = []
        planned: list[PreparedPrivate] = []
        blocks: list[Query] = []
        with self._survey_refusal(query, engines, refused, blocks):
            if not is_private(query, self.policy):
                sql = write_public_sql(query, self.policy, engines.schema_database)
                return PreparedPublic(text, sql, engines, query.views)
            filters = scopes(self.policy, self.analyst)
            parts = parts_of(query, self.policy, engines.schema_database, self.defaults, blocks, filters)
        counted: list[PlannedCount | None] = []
        for part in parts.releases if not refused else ():
            counted.append(None)
            with self._survey_refusal(part.query, engines, refused, [part.query]):
                counted[-1] = self._counting(part.query, engines, self.defaults)
        plans = [counting.plan for counting in counted if counting is not None]
        if len(plans) == len(counted) and plans:
            plans = [*selected_parts(parts, plans, engines.schema_database)]
            counted = [
                counting and replace(counting, plan=plan)
                for counting, plan in zip(counted, plans, strict=True)
            ]
        for part, counting in zip(parts.releases, counted, strict=True) if counted else ():
            if counting is not None:
                with self._survey_refusal(part.query, engines, refused, [part.query]):
                    planned.append(self._priced(text, part.query, counting, self.defaults))
        if refused:
            refused[0].obstacles = order_obstacles(refused)
            raise refused[0]
        with query.source.limited_depth():
            made = compose(text, query, parts, planned, self.policy)
        # Whether a release that reads a number of another one is stored, is known with that one alone.
        return self._added(self.priced(made) if any(part.values for part in made.parts) else made)

    def _added(self, prepared: PreparedPrivate | PreparedComposed) -> PreparedPrivate | PreparedComposed:
        """Return a statement with what was added up for it, if it combines stored releases."""
        if not any(part.combines for part in prepared.parts):
            return prepared
        check_sums(self.policy)
        return Releasing(self.database, self.database.ledger, self.analyst).added(prepared)

    @contextmanager
    def _survey_refusal(
        self,
        query: Query,
        engines: Engines,
        refused: list[QueryRefused],
        blocks: list[Query],
    ) -> Iterator[None]:
        """Plan a statement or one of its releases in this block; keep its refusal, with all obstacles.

        `blocks` has the release blocks, if they are known when it is refused.
        """
        try:
            yield
        except QueryRefused as error:
            catalog = engines.schema_database
            blocks = blocks or release_blocks(query, self.policy, catalog)
            error.obstacles = list_obstacles(error, query, blocks, self.policy, catalog, self.defaults)
            error.node = None
            refused.append(error)

    def _refinement(
        self, text: str, refine: Refine, engines: Engines, parameters: Parameters
    ) -> PreparedPrivate:
        found = Refining.of(refine, self.database.ledger, self.policy, self.analyst, parameters)
        defaults = found.defaults(self.defaults)
        parts = parts_of(found.query, self.policy, engines.schema_database, defaults).releases
        asked = found.first(
            [part.query for part in parts], lambda query: self._release(text, query, engines, defaults)
        )
        return found.plan(text, asked, self.policy)

    def _release(self, text: str, query: Query, engines: Engines, defaults: Options) -> PreparedPrivate:
        return self._priced(text, query, self._counting(query, engines, defaults), defaults)

    def _counting(self, query: Query, engines: Engines, defaults: Options) -> PlannedCount:
        """Analyse a private block: return its plan and its counting query."""
        with running_statement() as running:
            running.check()
        options = complete_options(query.options, defaults)
        if options.epsilon is None and options.error is None:
            raise query.source.refuse(
                "the statement gives no epsilon and the policy has no default",
                None,
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) ...",
                Fix("1", option="epsilon", guess="1"),
            )
        return PlannedCount.of(
            query, self.policy, engines, options, filters=scopes(self.policy, self.analyst)
        )

    def _priced(self, text: str, query: Query, counting: PlannedCount, defaults: Options) -> PreparedPrivate:
        """Choose the method of a release, and price it.

        An answer that is stored keeps the kept ladder it was made with: a newer one makes it no dearer.
        """
        made = self._choose_method(text, query, counting, defaults)
        ladders = counting.engines.schema_database.kept_ladders
        if ladders is None or not made.reusable or made.price == Charge():
            return made
        for earlier in islice(ladders.earlier(made.plan.compiled.tables), _EARLIER):
            with suppress(QueryRefused, Untranslatable):
                before = self._choose_method(text, query, counting.with_ladders(earlier), defaults)
                if before.price == Charge():
                    return before
        return made

    def _choose_method(
        self, text: str, query: Query, counting: PlannedCount, defaults: Options
    ) -> PreparedPrivate:
        options, engines = counting.plan.options, counting.engines
        if options.error is not None and "error" not in query.options.at:
            counting = counting.with_options(options_of_default_error(counting.plan, defaults.epsilon))
        if counting.plan.options.error is not None:
            most = self.policy.budget.max_epsilon_per_query
            counting = counting.at_epsilon(least_epsilon(counting.plan, most))
        plan = counting.plan
        method = choose(plan)
        key = reuse_key(plan, self.policy, engines.versions, method.quote.charge)
        made = PreparedPrivate(text, query, counting, method, key, method.quote.charge)
        return replace(made, price=self.priced(made).price)

    def priced(self, prepared: PreparedPrivate | PreparedComposed) -> PreparedPrivate | PreparedComposed:
        """Return a prepared statement with its present price for this analyst: stored releases cost 0."""
        return Releasing(self.database, self.database.ledger, self.analyst).priced(prepared)

    def probe(self, text: str, query: Query, *, previews: bool, intervals: bool) -> PreparedProbe | None:
        """Prepare a statement that a tool sends for columns or values; None for others.

        With `previews`, one that asks for rows of private tables is such a statement, too; with `intervals`,
        the columns are those of an answer with intervals.
        """
        if not is_private(query, self.policy):
            return None
        engines = self.database.engines()
        database = engines.schema_database
        with suppress(RecursionError):  # no tool nests so deeply
            match find_probe(query, self.policy, database):
                case NoRows(columns):
                    with suppress(QueryRefused):  # then its columns are those of the tables
                        epsilon = self.defaults.epsilon or Fraction(1)
                        some = replace(self, defaults=replace(self.defaults, epsilon=epsilon))
                        return PreparedProbe(
                            schema_of(some.query(text, columns, engines), intervals=intervals)
                        )
                    return PreparedProbe(
                        database.schema(write_public_sql(query, self.policy, database), text)
                    )
                case DeclaredValues(values):
                    public = self.query(text, values, engines)
                    assert isinstance(public, PreparedPublic)  # noqa: S101  it reads no private table
                    return PreparedProbe(values=public)
                case Preview() if previews:
                    schema = database.schema(write_public_sql(query, self.policy, database), text)
                    return PreparedProbe(schema, preview=True)
        return None

    def parameters(self, text: str, types: Sequence[pa.DataType | None]) -> tuple[OpenParameter, ...]:
        """Return the parameters of a statement; `types` are those that are known."""
        return parameters_of(text, self.policy, self.database.engines().schema_database, types)

    def names_price(self, prepared: PreparedPrivate | PreparedComposed) -> bool:
        """Return whether the text of a statement says what may be charged for each of its releases.

        It does if the statement is accepted where nothing is charged by default.
        """
        if isinstance(prepared, PreparedPrivate):
            options = prepared.query.options
            named = (options.epsilon or options.error or options.combine) is not None
            return prepared.refines is not None or named
        return self._without_default().accepts(prepared)

    def accepts(self, prepared: PreparedComposed) -> bool:
        """Return whether a statement is accepted with the defaults of this planner, too."""
        try:
            self.query(prepared.text, prepared.query, self.database.engines())
        except QueryRefused:
            return False
        return True

    def with_price(
        self, prepared: PreparedPrivate | PreparedComposed, epsilon: str, price: Charge
    ) -> str | None:
        """Return the statement with its price in its text, if that is accepted and costs the same."""
        text, planner = prepared.text, self._without_default()
        added = Outline.of(text).with_options(f"epsilon = {epsilon}")
        if added is None:
            return None
        changed = text[: added[0]] + added[1] + text[added[0] :]
        try:
            statement = self.parsed(changed, prepared.query.parameters or None)
            if isinstance(statement, Query):
                again = planner.query(changed, statement, self.database.engines())
                return changed if again.price == price else None
        except (QueryRefused, QuerySyntaxError):
            pass
        return None

    def _without_default(self) -> Planner:
        """Return the planner without a default epsilon or error."""
        return replace(self, defaults=replace(self.defaults, epsilon=None, error=None))

    def described(self, statement: Describe) -> pa.Table:
        """Return the result that DESCRIBE shows of a statement."""
        catalog = self.database.engines().schema_database
        view = self.policy.views.get(statement.table) if statement.table.isascii() else None
        if view is not None:
            return describe_view(view, self.policy, catalog, self.defaults)
        return describe_table(statement, self.policy, catalog)
