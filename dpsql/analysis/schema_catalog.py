"""What the analysis asks of the schema database: types, constants, sizes of public relations, bound plans.

They are facts of a version of the engine, so they come from the engine's package as data, not from this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dpsql.analysis.bound_ladders import KeptLadders
from dpsql.analysis.compiled_relation import Relation
from dpsql.errors import EngineNotTested, Error, InternalError
from dpsql.kernel.check import Certificate
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import DomainScan, Query, Scan
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import CsvSource, Policy, engine_kind
from dpsql.types import SqlType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words that bound plans of counting SQL are made of, in the tested versions of the engine."""

    expressions: Collection[str]
    """Classes of expressions."""
    operators: Collection[str]
    windows: Collection[str]
    """Window functions."""
    plans: Collection[str]
    """Nodes of plans."""
    functions: Collection[str]
    """Functions and aggregates by the names that the plan has; none is volatile."""
    untested: str = ""
    """Which engine is installed and which one to install, if the installed one was not tested; else empty."""

    def refuse(self, what: str) -> Error:
        """Return the error that a bound plan has something that is not allowed; nothing was run or charged.

        With an engine that was tested it is a bug of dpsql. Another engine may plan a right statement so.
        """
        if self.untested:
            return EngineNotTested(f"{self.untested}; {what}, so nothing was run or charged")
        return InternalError(f"this is a bug of dpsql, nothing was run or charged: {what}")


class Catalog(Protocol):
    """The queries of the analysis to the schema database. Private tables are empty in it."""

    vocabulary: Vocabulary
    """The words that a bound plan of this engine may have."""

    confirmed: dict[str, bool]
    """Compiled statements whose bound plans were checked last, and what was found (`confirm`)."""

    certified: dict[str, tuple[Facts, Certificate]]
    """Certificates of compiled statements that were made last, and from which facts."""

    relations: dict[str, tuple[Policy, Relation]]
    """The declared tables that were compiled, by their names, each with the policy that declares it."""

    kept_ladders: KeptLadders | None
    """The kept ladders of the tables; None: there are none."""

    time_zone: str
    """The zone in which a time without an offset is read where an instant is wanted."""

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        """Return the names and types of a declared table's columns, in declared order."""

    def facts(self, policy: Policy, tables: tuple[str, ...]) -> Facts:
        """Return what the owner declares of some tables, as the kernel takes it."""

    def stored_types(self, source: Scan | DomainScan) -> Mapping[str, SqlType]:
        """Return the types of a declared table or domain, as a query has them; none for an unknown name."""

    def has_instants(self, table: str) -> bool:
        """Return whether a declared table has a column of type TIMESTAMPTZ; False for an unknown name."""

    def has_generated_column(self, table: str) -> bool:
        """Return whether a table computes a column when it is read: every reading may find other values."""

    def type_of(self, expression: str) -> SqlType:
        """Return the type of a constant expression; `ValueError` if it does not bind or is not allowed."""

    def evaluate(self, expression: str) -> object:
        """Return the value of a constant expression; `ValueError` if it raises."""

    def count(self, relation: str) -> int:
        """Return the number of rows of a public relation (a SELECT)."""

    def run(self, sql: str, text: str | None = None) -> pa.Table:
        """Return the rows of a public relation (a SELECT)."""

    def plan(self, sql: str) -> object:
        """Return the engine's own bound plan of a compiled statement, as parsed JSON."""

    def not_null(self, table: str, column: str) -> bool:
        """Return whether no row of a private table that has a unit has NULL in a column.

        The policy or the source's schema says so, and it is tested for each version of the data.
        """

    def not_negative(self, table: str, column: str) -> bool:
        """Return whether no row of a private table that has a unit has a value below 0 in a column.

        The policy says so, of the column or of its complete domain, and it is tested as `not_null` is.
        """

    def complete(self, table: str, column: str) -> bool:
        """Return whether no row of a private table that has a unit has a value outside of a column's domain.

        The policy says so, and it is tested as `not_null` is, or the type has no other values.
        """

    def domain(self, table: str, column: str) -> Query | None:
        """Return a query of columns v and o (its order) over a column's declared domain, or None."""

    def span(self, table: str, column: str) -> tuple[date, date] | None:
        """Return the first and the last day of a TIMESTAMP column's declared range, or None."""

    def integers(self, table: str, column: str) -> tuple[int, int] | None:
        """Return the ends of a column's declared range of integers that is too long for a list, or None."""

    def extent(self, table: str, column: str) -> tuple[Fraction, Fraction] | None:
        """Return the smallest and the largest public value of a column as numbers, or None.

        These are the values of a public table's column, or those of a declared domain. Of dates they are days
        since 1970, of timestamps microseconds; NaN and infinity do not count.
        """

    def describe_over(
        self, types: Mapping[str, tuple[tuple[str, SqlType], ...]], sql: str
    ) -> tuple[tuple[str, str], ...]:
        """Return names and types of the columns of SQL over released relations with these columns."""

    def unique(self, table: str) -> tuple[tuple[str, ...], ...]:
        """Return the column sets of a public table that were verified to be unique."""


def has_stable_reads(names: Iterable[str], policy: Policy, catalog: Catalog) -> bool:
    """Return whether the private tables among `names` have the same rows whenever one statement reads them.

    A bound that rests on two readings of a unit's rows holds only then. PostgreSQL gives a statement one
    snapshot; so does a database file of DuckDB, but for a column that it computes when it is read. Of other
    files, a statement ends without an answer if they were replaced while it read them (see
    `PlannedCount.count`); CSV files with `trust_source` are not looked at, since they may grow at any time.
    Spark promises nothing.
    """
    kind = engine_kind(policy.engine)
    if kind != "duckdb":
        return kind == "postgresql"
    private = [t for t in map(policy.table, names) if t is not None and not t.public]
    return not any(
        (isinstance(t.source, CsvSource) and t.trust_source) or catalog.has_generated_column(t.name)
        for t in private
    )
