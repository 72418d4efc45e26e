"""Run outer queries over released tables many times."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from dpsql.engines import over_releases


def over(
    connection: duckdb.DuckDBPyConnection,
    types: Mapping[str, over_releases.Columns],
    released: Mapping[str, pa.Table],
    sql: str,
) -> pa.Table:
    """Run an outer query as the product does, without the thread of its own that takes most of the time."""
    with connection.cursor() as cursor:
        over_releases.load(cursor, types, released)
        return over_releases.fetch(cursor, sql, None)
