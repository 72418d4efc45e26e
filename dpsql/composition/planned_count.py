"""Analysed private queries, certified for all bounds and values that they may get, and counted by engines."""

from __future__ import annotations

import sys
from dataclasses import field, replace
from datetime import date, datetime
from functools import partial

from dpsql.analysis import CompiledQuery, KeptLadders, Plan, analyse, check_claims, list_marks, put_values
from dpsql.analysis.bound_ladders import IN_A_GROUP
from dpsql.analysis.released_values import Known, Value
from dpsql.database import Engines
from dpsql.engines import FAILED, Cancelled, Untranslatable
from dpsql.errors import InternalError, OperationalError
from dpsql.kernel.counts import Counts
from dpsql.kernel.loss import Filter
from dpsql.language import Options, Query
from dpsql.lazy_dataclass import dataclass
from dpsql.places import make_distinct
from dpsql.policy import ParquetSource, Policy, Table
from dpsql.release import tables_read
from dpsql.types import BIGINT, DATE, DOUBLE, TIMESTAMP, VARCHAR, SqlType

_BOUNDED = 8
"""For how many bounds a planned query is kept with them: noise finds one of a few most of the time."""
_EXTREMES: dict[SqlType, tuple[Value, ...]] = {
    DOUBLE: (None, 0.0, -sys.float_info.max, sys.float_info.max),
    BIGINT: (None, 0, -(1 << 63), (1 << 63) - 1),
    VARCHAR: (None, "", "'", "\U0010ffff" * 99),
    DATE: (None, date(1970, 1, 1), date.min, date.max),
    TIMESTAMP: (None, datetime(1970, 1, 1), datetime.min, datetime.max),
}
"""Values of each type, for which a query is certified before the value that it reads is known."""
_TRIED = 4
_CHANGED = "the data changed while it was counted, so there is no answer; the charge is kept, ask again"


@dataclass(frozen=True, slots=True)
class ReleasedValue:
    """What releases read of released rows, as SQL of the schema database: one column, of a row or a list."""

    sql: str
    releases: frozenset[int]
    """The places of the releases that it reads, among the parts."""
    type: SqlType = DOUBLE
    listed: bool = False
    note: str = ""
    """What the answer says of it."""


@dataclass(frozen=True, slots=True)
class PlannedCount:
    """An analysed private query, and the engines that count it.

    None is made of a plan that claims less than what the kernel certified of its queries.
    """

    plan: Plan
    sql: str
    """The SQL text that the private engine will run."""
    reads: tuple[Table, ...]
    """Every table whose data the answer depends on."""
    engines: Engines = field(repr=False)
    policy: Policy = field(repr=False)
    values: tuple[tuple[int, Known], ...] = ()
    """The values of earlier releases that it reads as constants, by their places, once they are known."""
    _bounded: dict[tuple[int, ...], PlannedCount] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The same query with bounds that were found, in this or an earlier run of the statement."""

    def __post_init__(self) -> None:
        check_claims(self.plan)

    @classmethod
    def of(
        cls,
        query: Query,
        policy: Policy,
        engines: Engines,
        options: Options,
        found: tuple[int, ...] = (),
        filters: tuple[Filter, ...] = (),
    ) -> PlannedCount:
        """Analyse a private query; refuse what the analysis or the engine cannot do exactly.

        `found` are the places of the bounds that were found (see `Plan.ladders`), `filters` those of the
        scopes that are charged.
        """
        plan = analyse(query, policy, engines.schema_database, options, found)
        return cls.of_plan(replace(plan, filters=filters), policy, engines)

    @classmethod
    def of_plan(cls, plan: Plan, policy: Policy, engines: Engines) -> PlannedCount:
        """Translate an analysed query; refuse what the engine cannot do exactly."""
        try:
            sql = engines.engine.translate(plan.compiled)
            for search in plan.ladders:
                engines.engine.translate(search.compiled)
        except Untranslatable as problem:
            raise plan.query.source.refuse(problem.message, None, problem.hint) from None
        return cls(plan, sql, tables_read(policy, plan.compiled.tables), engines, policy)

    def with_bounds(self, found: tuple[int, ...]) -> PlannedCount:
        """Return the query with bounds that were found; those found last are analysed once."""
        known = self._bounded.get(found)
        if known is None:
            known = self._with_bounds(found)
            if len(self._bounded) >= _BOUNDED:
                self._bounded.clear()
            self._bounded[found] = known
        return known

    def _with_bounds(self, found: tuple[int, ...]) -> PlannedCount:
        plan = self.plan
        made = PlannedCount.of(plan.query, self.policy, self.engines, plan.options, found, plan.filters)
        made = replace(made, plan=replace(made.plan, selected=plan.selected, apart=plan.apart))
        return made.with_values(self.values) if self.values else made

    def check_unknown(self) -> None:
        """Raise `NotCertified` if the query fails with any bound or released value still to be found.

        It is certified with the smallest bounds; the plan itself has the largest ones. Released values that
        it reads are nothing, and as small and as large as values of their types are; lists are empty, or
        have one value or several. The plan has a text for them.
        """
        ladders = [search.ladder for search in self.plan.ladders]
        if ladders:
            self.with_bounds((0,) * len(ladders))
        if any(ladder.of in IN_A_GROUP for ladder in ladders):  # it may be what is counted
            self.with_bounds((*(len(ladder.bounds) - 1 for ladder in ladders[:-1]), 0))
        marks = () if self.values else list_marks(self.plan.query.tree)
        for i in range(_TRIED if marks else 0):
            self.with_values(
                tuple(
                    (m.place, _EXTREMES[m.type][1 : i + 1] if m.listed else _EXTREMES[m.type][i])
                    for m in marks
                )
            )

    def with_ladders(self, ladders: KeptLadders) -> PlannedCount:
        """Return the query with bounds of other kept ladders."""
        plan, catalog = self.plan, self.engines.schema_database.with_ladders(ladders)
        made = analyse(plan.query, self.policy, catalog, plan.options)
        made = replace(made, filters=plan.filters, selected=plan.selected, apart=plan.apart)
        return replace(self, plan=made, sql=self.engines.engine.translate(made.compiled))

    def with_values(self, values: tuple[tuple[int, Known], ...]) -> PlannedCount:
        """Return the query with the values of earlier releases."""
        plan = put_values(self.plan, dict(values), self.policy, self.engines.schema_database)
        try:
            sql = self.engines.engine.translate(plan.compiled)
        except Untranslatable as problem:  # of any value: all are tried before a charge
            raise plan.query.source.refuse(problem.message, None, problem.hint) from None
        return replace(self, plan=plan, sql=sql, values=values)

    def with_options(self, options: Options) -> PlannedCount:
        """Return the query with another epsilon or error, and the options that it was analysed with."""
        return replace(self, plan=replace(self.plan, options=options))

    def unchanged(self) -> bool:
        """Return whether the source files of the query are still those for which it was planned."""
        return self.engines.is_unchanged(self.reads)

    def current(self) -> bool:
        """Return whether files and tables are as when the query was planned; asked before a charge."""
        return self.unchanged() and self.engines.engine.is_current(self.plan.compiled)

    def count(
        self, compiled: CompiledQuery | None = None, *, unchanged: bool = False, few: bool = False
    ) -> Counts:
        """Return the exact counts, of data for which the policy's facts were verified.

        They are those of the plan, or of another compiled query that belongs to it. With `few`, a step counts
        the groups that it needs.

        With `unchanged` they are those of the files for which it was planned, and of no others.

        Raises `Cancelled` if a file was replaced since it was vetted: nobody has looked whether the facts
        that the noise rests on hold in the new one. That a file was replaced is the owner's doing, so no
        failure. Files with `trust_source` are never vetted.
        """
        if not self.values and list_marks(self.plan.query.tree):
            raise InternalError("a query is counted before the values that it reads are known")
        query = compiled or self.plan.compiled
        check = partial(self.check_files, unchanged=unchanged)
        read = tables_read(self.policy, query.tables)
        counts = self.engines.count(query, read, few=check if few else None)
        if query.sparse is not None:
            listed = counts.place_in_domain(query.sparse, self.engines.schema_database.candidates)
            if listed is None:
                raise OperationalError(FAILED)
            counts = listed
        check()
        return counts

    def check_files(self, *, unchanged: bool = False) -> None:
        """Raise `Cancelled` if a file was replaced since it was vetted; see `count`."""
        reads = [
            t
            for t in self.reads
            if unchanged or t.public or not t.trust_source or isinstance(t.source, ParquetSource)
        ]
        if not self.engines.is_unchanged(reads):
            raise Cancelled(_CHANGED)


def columns_of(plan: Plan) -> tuple[tuple[str, SqlType], ...]:
    """Return names and types of the columns that a release has: keys as in the data, measures DOUBLE.

    Of two columns `n` the second one is `n_1`, as in a subquery of DuckDB.
    """
    columns = []
    for output in plan.outputs:
        kind = BIGINT if output.kind == "rank" else DOUBLE
        kind = output.quantile.type if output.quantile is not None else kind
        columns.append((output.name, plan.key_types[output.of] if output.kind == "key" else kind))
    names = make_distinct([name for name, _ in columns], fold=True)
    return tuple((name, kind) for name, (_, kind) in zip(names, columns, strict=True))
