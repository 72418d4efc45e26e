"""Engines: the schema database, which binds statements, and the private engines, which count.

The schema database, in which private tables are empty, answers everything public. A private engine runs
`CompiledQuery` objects and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.engines.protocol import (
    CANCELLED,
    FAILED,
    Cancelled,
    Counts,
    Engine,
    Untranslatable,
    length_check_key,
)
from dpsql.engines.worker import Cancellation, watch_failures
from dpsql.policy import engine_kind

if TYPE_CHECKING:
    from dpsql.engines.schema_database import SchemaDatabase as SchemaDatabase
    from dpsql.policy import Policy

__all__ = [
    "CANCELLED",
    "FAILED",
    "Cancellation",
    "Cancelled",
    "Counts",
    "Engine",
    "Untranslatable",
    "length_check_key",
    "open_engine",
    "watch_failures",
]


def open_engine(policy: Policy) -> tuple[SchemaDatabase, Engine]:
    """Open the schema database and the private engine of a policy; imports the one engine that it names."""
    from dpsql.engines.duckdb.settings import interruptible  # noqa: PLC0415  heavy

    with interruptible():
        return _open(policy)


def _open(policy: Policy) -> tuple[SchemaDatabase, Engine]:
    kind = engine_kind(policy.engine)
    if kind == "postgresql":
        from dpsql.engines.postgres.engine import open_postgres  # noqa: PLC0415  an extra

        return open_postgres(policy)
    if kind == "spark":
        from dpsql.engines.spark.engine import open_spark  # noqa: PLC0415  an extra

        return open_spark(policy)
    from dpsql.engines.duckdb.engine import open_duckdb  # noqa: PLC0415  heavy

    return open_duckdb(policy)
