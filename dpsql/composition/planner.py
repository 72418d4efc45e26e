"""Parses, analyses and prices statements. Nothing is charged, and no private row is read."""

from __future__ import annotations

from contextlib import contextmanager, suppress
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
    put_views,
    write_public_sql,
)
from dpsql.analysis.released_values import list_marks
from dpsql.composition import ReleasePart, Releasing, parts_of, release_blocks
from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.composition.found_values import OF_NO_ROWS
from dpsql.composition.kept_plans import KeptPlans, list_parameters, plan_key, scopes
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
from dpsql.engines import Untranslatable, running_statement
from dpsql.errors import Fix, QueryRefused, QuerySyntaxError
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import Calendar
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
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.planning import choose, least_epsilon, options_of_default_error
from dpsql.release import reuse_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dpsql.composition.kept_plans import PlanKey
    from dpsql.composition.open_parameters import OpenParameter
    from dpsql.database import Database, Engines
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy

_EARLIER = 8
"""Before so many newer kept ladders an answer may have been made that is still free."""


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
        from dpsql.composition.refusals import offer_statements  # noqa: PLC0415  few are refused

        return offer_statements(self, text, refused, parameters)

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

    def explain_unbound(self, prepared: PreparedPublic) -> QueryRefused | None:
        """Return the refusal of a public statement that does not bind, as far as it is known why."""
        from dpsql.composition.unbound_statements import refuse_public  # noqa: PLC0415  few are refused

        return refuse_public(self.parsed(prepared.text), prepared)

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
                return self._first_stable(text, statement, engines)
            case Explain():
                asked = statement.query
                if isinstance(asked, (Ask, Check, OpenChecks, StreamCommand)):
                    of_stream = self._of_stream(text, asked, engines)
                    return PreparedCommand(text, Explained(of_stream, statement.form))
                if isinstance(asked, FirstStable):
                    listed = self._first_stable(text, asked, engines)
                    return PreparedCommand(text, Explained(listed, statement.form))
                planned = (
                    self._refinement(text, asked, engines, parameters)
                    if isinstance(asked, Refine)
                    else self.query(text, asked, engines)
                )
                return PreparedCommand(text, Explained(planned, statement.form))
            case Ask() | Check() | OpenChecks() | StreamCommand():
                return self._of_stream(text, statement, engines)
            case Refine():
                return self._refinement(text, statement, engines, parameters)
            case Describe():
                self.described(statement)
        return PreparedCommand(text, statement)

    def _of_stream(
        self, text: str, statement: Ask | Check | OpenChecks | StreamCommand, engines: Engines
    ) -> PreparedCommand:
        from dpsql.composition.prepared_streams import prepare_stream_statement  # noqa: PLC0415  few are

        return prepare_stream_statement(self, text, statement, engines)

    def _first_stable(self, text: str, statement: FirstStable, engines: Engines) -> PreparedPrivate:
        from dpsql.composition.first_stable import prepare_first_stable  # noqa: PLC0415  few are

        return prepare_first_stable(self, text, statement, engines)

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
            analysed = AnalysedBlocks(self.policy, engines.schema_database, self.defaults)
            parts = parts_of(query, analysed, blocks, filters)
        counted: list[PlannedCount | None] = []
        for part in parts.releases if not refused else ():
            counted.append(None)
            with self._survey_refusal(part.query, engines, refused, [part.query]):
                counted[-1] = self._counting(part.query, engines, analysed)
        plans = [counting.plan for counting in counted if counting is not None]
        if plans and len(plans) == len(counted) and parts.outer is not None:
            from dpsql.composition.selected import selected_parts  # noqa: PLC0415  few have an outer query

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
            from dpsql.analysis.advice.survey import order_obstacles  # noqa: PLC0415  few are refused

            refused[0].obstacles = order_obstacles(refused)
            raise refused[0]
        planned = _note_releases(parts.releases, planned)
        if parts.outer is None:
            return self._added(planned[0])
        from dpsql.composition.composed_statements import compose  # noqa: PLC0415  few have an outer query

        with query.source.limited_depth():
            made = compose(text, query, parts, planned, self.policy)
        # Whether a release that reads a number of another one is stored, is known with that one alone.
        return self._added(self.priced(made) if any(part.values for part in made.parts) else made)

    def _added(self, prepared: PreparedPrivate | PreparedComposed) -> PreparedPrivate | PreparedComposed:
        """Return a statement with what was added up for it, if it combines stored releases."""
        if not any(part.combines for part in prepared.parts):
            return prepared
        from dpsql.analysis.unit_periods import check_sums  # noqa: PLC0415  few combine

        check_sums(self.policy)
        return Releasing(self.database, self.database.ledger, self.analyst).added(prepared)

    @contextmanager
    def _survey_refusal(
        self, query: Query, engines: Engines, refused: list[QueryRefused], blocks: list[Query]
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
        from dpsql.composition.refining import Refining  # noqa: PLC0415  few statements refine

        found = Refining.of(refine, self.database.ledger, self.policy, self.analyst, parameters)
        defaults = found.defaults(self.defaults)
        analysed = AnalysedBlocks(self.policy, engines.schema_database, defaults)
        asked = found.first(
            [part.query for part in parts_of(found.query, analysed).releases],
            lambda query: self._priced(text, query, self._counting(query, engines, analysed), defaults),
        )
        return found.plan(text, asked, self.policy)

    def _counting(self, query: Query, engines: Engines, analysed: AnalysedBlocks) -> PlannedCount:
        """Analyse a private block: return its plan and its counting query."""
        options = complete_options(query.options, analysed.defaults)
        if options.epsilon is None and options.error is None:
            raise query.source.refuse(
                "the statement gives no epsilon and the policy has no default",
                None,
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) ...",
                Fix("1", option="epsilon", guess="1"),
            )
        plan, filters = analysed.plan(query), scopes(self.policy, self.analyst)
        plan = replace(plan, filters=filters) if plan.filters != filters else plan
        return PlannedCount.of_plan(plan, self.policy, engines)

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
            counting = counting.with_options(
                replace(counting.plan.options, epsilon=least_epsilon(counting.plan, most))
            )
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
        from dpsql.composition.show_describe import schema_of  # noqa: PLC0415  few statements are such

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
        from dpsql.composition.open_parameters import parameters_of  # noqa: PLC0415  few statements have them

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
        from dpsql.composition.show_describe import describe_table, describe_view  # noqa: PLC0415  few are

        catalog = self.database.engines().schema_database
        view = self.policy.views.get(statement.table) if statement.table.isascii() else None
        if view is not None:
            return describe_view(view, self.policy, catalog, self.defaults)
        return describe_table(statement, self.policy, catalog)


_READ = {
    False: "rows are compared with a released number: the range is of the rows that it selects",
    True: "rows are chosen by a released list: the range is of the rows that it selects",
}


def _note_releases(parts: Sequence[ReleasePart], planned: Sequence[PreparedPrivate]) -> list[PreparedPrivate]:
    """Return planned releases with what the answer says of them, and the values that they read.

    A note of the values of no rows is left out where the release shows none then.
    """
    centred = any(part.constant for part in parts)  # the centre of an average selects no rows
    said = any(part.note for part in parts)  # what a value was taken as, or what it is of

    def note(part: ReleasePart, one: PreparedPrivate) -> str:
        if part.note.endswith(OF_NO_ROWS) and one.plan.domain_size is None:
            return ""
        read = list_marks(one.plan.query.tree) if part.values and not said else ()
        return _READ[read[0].listed] if read and not centred else part.note

    return [
        replace(one, note=note(part, one), values=part.values) if part.note or part.values else one
        for part, one in zip(parts, planned, strict=True)
    ]
