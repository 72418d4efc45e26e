"""Decide whether the rows of tables are the same each time that one statement reads them."""

from __future__ import annotations

from collections.abc import Iterable

from dpsql.analysis.catalog import Catalog
from dpsql.policy import CsvSource, Policy, engine_kind


def read_alike(names: Iterable[str], policy: Policy, catalog: Catalog) -> bool:
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
