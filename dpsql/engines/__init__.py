"""Engines: the schema database, which binds statements, and the private engines, which count.

The schema database, in which private tables are empty, answers everything public. A private engine runs
`CompiledQuery` objects and nothing else. Here are the `Engine` protocol, what an engine does for the owner
(`OwnerTools`), and the choice of an engine by the policy.

====================  ========================================================================
``schema_database``   the binder, the catalog and the engine of public statements
``public_queries``    where those run, and queries over released rows, which run there too
``declared_domains``  declared domains as small public tables
``duckdb``            the default engine; there, ``unit_bits`` and ``faster_counts`` count faster
``remote_engine``     the base class of the others: ``postgres``, ``spark``
``writer``            the query tree as another engine's SQL
``exact_queries``     exact queries of the owner, on every engine
``worker``            runs a statement in a thread that can be interrupted; what engines raise
``process_storage``   exact counts of earlier statements in memory, folders for temporary files
====================  ========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from dpsql.analysis import CompiledQuery
from dpsql.engines.duckdb.duckdb_settings import untested_notice as engine_notice
from dpsql.engines.process_storage import KeptCounts, take_counts
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.worker import (
    ResultLimit,
    RunningStatement,
    UnboundQuery,
    Untranslatable,
    running_statement,
)
from dpsql.errors import InternalError
from dpsql.kernel.charged_work import CANCELLED, FAILED, Cancelled
from dpsql.kernel.counts import Counts
from dpsql.kernel.rows_first import KeptFew
from dpsql.policy import Policy, Table, engine_kind

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.engines.duckdb import source_schemas


class Engine(Protocol):
    """A private engine: it has the owner's data, is locked down, and runs only compiled queries.

    Several threads may run statements at once; `worker.RunningStatement` stops one of them.
    """

    schema_database: SchemaDatabase
    """The same tables, with the private ones empty."""

    def translate(self, compiled: CompiledQuery) -> str:
        """Return the SQL that `count` will run, for display.

        Raises `Untranslatable` where the engine cannot run a part of it with DuckDB's result on every value.
        The statement is then refused, and nothing is charged.
        """

    def is_current(self, compiled: CompiledQuery) -> bool:
        """Whether the tables of a query are as they were when it was translated; asked before a charge.

        An engine that reads tables as they are when a query runs has no older view of them.
        """

    def count(self, compiled: CompiledQuery) -> Counts:
        """Run a compiled query; every engine error becomes one constant `OperationalError`."""

    def count_few(
        self, compiled: CompiledQuery, check: Callable[[], None], kept: KeptFew | None = None
    ) -> Counts | None:
        """Count the groups of a compiled query where they are asked for, for a statement that selects few.

        None: the engine counts all groups as fast. `check` is called whenever groups were counted. `kept` is
        what an earlier statement has counted of the same query.
        """

    def vet(self, table: str) -> bool:
        """Read a private table once and test its declared unique facts; return whether both succeed."""

    def has_one_value(self, table: str, column: str) -> bool:
        """Whether all rows of a unit of a private table have one value in a column, or NULL in all.

        Also False if that cannot be read.
        """

    def read_part_values(self, table: str, unit: str, column: str, *, dates: bool) -> pa.Table | None:
        """Return the units of a private table as texts, each with the day or text of a column.

        None: that fails.

        They are private: they are read to be compared with those of another version of the data.
        """

    def within_length_limit(self, table: str) -> bool:
        """Whether `vet` found no value of a private table beyond the length limit: its scan need not test."""

    def assume_within_length_limit(self, table: str, short: bool) -> None:
        """Set the result of `within_length_limit` from an earlier `vet`; it affects speed only."""

    def close(self) -> None:
        """Close the connections to the data."""


def open_engine(
    policy: Policy,
    memory: int | None = None,
    *,
    background: bool = False,
    version: Callable[[str], object] = lambda table: None,
) -> Engine:
    """Open the private engine of a policy, with its schema database; imports the one engine that it names.

    `memory` is the most bytes that DuckDB's databases take together; None: the engine's own limits. In the
    `background` the threads that they start give way to the others of this process. `version` tells what is
    equal while the rows of a table are the same; None: nothing tells it.
    """
    from dpsql.engines.duckdb.duckdb_settings import interruptible  # noqa: PLC0415  heavy

    with interruptible():
        match engine_kind(policy.engine):
            case "postgresql":
                from dpsql.engines.postgres import PostgresEngine  # noqa: PLC0415  an extra

                return PostgresEngine(policy)
            case "spark":
                from dpsql.engines.spark import SparkEngine  # noqa: PLC0415  an extra

                return SparkEngine(policy)
        from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine  # noqa: PLC0415  heavy

        return DuckDBEngine(policy, memory, background=background, version=version)


class OwnerCatalog(Protocol):
    """The catalog of an engine that was reached for the owner; no row is read."""

    def describe(self) -> tuple[str, str]:
        """Return the level of a finding, and which engine it is."""

    def has(self, table: Table) -> bool:
        """Whether a declared table is in the catalog, or is a file that the engine itself reads."""

    def check_table(self, table: Table, longest: int) -> None:
        """Raise `PolicyError` if a declared table is not as the policy says."""

    def describe_statistics(self, table: Table) -> str:
        """Say what makes plans of a table slow, and what mends it; empty if nothing does."""


class OwnerTools(Protocol):
    """What an engine does for the owner alone, by its address: errors hold the engine's own words."""

    verified: str
    """What holds of a table that `OwnerCatalog.check_table` has accepted."""

    def introspect(
        self, wanted: Callable[[str, str], bool | None]
    ) -> tuple[list[source_schemas.Found], list[source_schemas.Skipped]]:
        """Return the tables that a policy may declare, and those left out.

        `wanted` says of a schema and a name whether the owner wants it: True if it was named, None if nothing
        was said.
        """

    def adapt_file(self, table: source_schemas.Found) -> source_schemas.Found:
        """Return a file's table as a policy of the engine declares it."""

    def open_catalog(self) -> AbstractContextManager[OwnerCatalog]:
        """Reach the engine; raises an error with its own words."""

    def check_policy(self, policy: Policy) -> None:
        """Raise `PolicyError` for a declaration that the engine cannot use."""

    def describe_error(self, problem: BaseException) -> str:
        """Return the engine's own words, in one line."""


def owner_tools(address: str) -> OwnerTools:
    """Return what the engine at an address does for the owner; DuckDB's has no address."""
    match engine_kind(address):
        case "postgresql":
            from dpsql.engines.postgres.postgres_owner import PostgresOwner  # noqa: PLC0415  an extra

            return PostgresOwner(address)
        case "spark":
            from dpsql.engines.spark import SparkOwner  # noqa: PLC0415  an extra

            return SparkOwner(address)
    raise InternalError("an engine without an address has no owner's tools")


def length_check_key(table: str) -> str:
    """Return the key under which the ledger stores that no value of a table exceeds the length limit."""
    return f"{table}\nlengths"  # not a table's own key: no name has a line break
