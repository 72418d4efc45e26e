"""Run outer queries over released tables many times."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from dpsql.engines import public_queries


def over(
    connection: duckdb.DuckDBPyConnection,
    types: Mapping[str, public_queries.Columns],
    released: Mapping[str, pa.Table],
    sql: str,
) -> pa.Table:
    """Run an outer query as the product does, without the thread of its own that takes most of the time."""
    with connection.cursor() as cursor:
        public_queries.load_released(cursor, types, released)
        return public_queries.fetch_rows(cursor, sql, None)
