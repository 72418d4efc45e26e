"""Engines: the schema database, which binds statements, and the private engines, which count.

The schema database, in which private tables are empty, answers everything public. A private engine runs
`CompiledQuery` objects and nothing else. Here are the `Engine` protocol and the choice of an engine by the
policy.

====================  ========================================================================
``schema_database``   the binder, the catalog and the engine of public statements
``public_queries``    where those run, and queries over released rows, which run there too
``declared_domains``  declared domains as small public tables
``duckdb``            the default engine
``remote_engine``     the base class of the others: ``postgres``, ``spark``
``writer``            the query tree as another engine's SQL
``exact_queries``     exact queries of the owner, on every engine
``worker``            runs a statement in a thread that can be interrupted; what engines raise
``process_storage``   exact counts of earlier statements in memory, folders for temporary files
====================  ========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

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
from dpsql.kernel.charged_work import CANCELLED, FAILED, Cancelled
from dpsql.kernel.counts import Counts
from dpsql.kernel.rows_first import KeptFew
from dpsql.policy import Policy, engine_kind

__all__ = [
    "CANCELLED",
    "FAILED",
    "Cancelled",
    "Engine",
    "KeptCounts",
    "ResultLimit",
    "RunningStatement",
    "UnboundQuery",
    "Untranslatable",
    "engine_notice",
    "length_check_key",
    "open_engine",
    "running_statement",
    "take_counts",
]


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

    def within_length_limit(self, table: str) -> bool:
        """Whether `vet` found no value of a private table beyond the length limit: its scan need not test."""

    def assume_within_length_limit(self, table: str, short: bool) -> None:
        """Set the result of `within_length_limit` from an earlier `vet`; it affects speed only."""

    def close(self) -> None:
        """Close the connections to the data."""


def open_engine(policy: Policy, memory: int | None = None, *, background: bool = False) -> Engine:
    """Open the private engine of a policy, with its schema database; imports the one engine that it names.

    `memory` is the most bytes that DuckDB's databases take together; None: the engine's own limits. In the
    `background` the threads that they start give way to the others of this process.
    """
    from dpsql.engines.duckdb.duckdb_settings import interruptible  # noqa: PLC0415  heavy

    with interruptible():
        match engine_kind(policy.engine):
            case "postgresql":
                from dpsql.engines.postgres.postgres_engine import PostgresEngine  # noqa: PLC0415  an extra

                return PostgresEngine(policy)
            case "spark":
                from dpsql.engines.spark.spark_engine import SparkEngine  # noqa: PLC0415  an extra

                return SparkEngine(policy)
        from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine  # noqa: PLC0415  heavy

        return DuckDBEngine(policy, memory, background=background)


def length_check_key(table: str) -> str:
    """Return the key under which the ledger stores that no value of a table exceeds the length limit."""
    return f"{table}\nlengths"  # not a table's own key: no name has a line break
