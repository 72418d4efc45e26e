"""The protocol of the schema database: types, constants, sizes of public relations, bound plans."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dpsql.analysis.kept_bounds import KeptLadders
from dpsql.analysis.relation import Relation
from dpsql.analysis.vocabulary import Vocabulary
from dpsql.kernel.check import Certificate
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import DomainScan, Query, Scan
from dpsql.policy import Policy
from dpsql.types import SqlType

if TYPE_CHECKING:
    import pyarrow as pa


class Catalog(Protocol):
    """The queries of the analysis to the schema database. Private tables are empty in it."""

    vocabulary: Vocabulary
    """The words that a bound plan of this engine may have."""

    confirmed: dict[str, bool]
    """Compiled statements whose bound plans were checked last, and what was found (see `binder.confirm`)."""

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

    def unique(self, table: str) -> tuple[tuple[str, ...], ...]:
        """Return the column sets of a public table that were verified to be unique."""
