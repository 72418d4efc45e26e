"""Queries over released rows, on a cursor of the schema database that no other thread uses.

The released rows are temporary tables of the cursor: no other cursor sees them, and they end with it. The
bound plan of a query is checked before it runs, independently of the analysis: it may scan released rows and
public data, and nothing else. Private tables are empty here, so a query over one would give a wrong answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsql.analysis.public_times import fault
from dpsql.engines.protocol import UnboundQuery
from dpsql.errors import ResultTooLarge
from dpsql.kernel.tree import DOMAIN_SCHEMA, literal_sql, quote
from dpsql.types import TIMESTAMPTZ, SqlType

if TYPE_CHECKING:
    import duckdb

    from dpsql.analysis import Vocabulary
    from dpsql.engines.worker import ResultLimit

Columns = tuple[tuple[str, SqlType], ...]
"""Names and types of a relation's columns."""

_BARE_NUMBER = re.compile(r"(:\s*-?)(nan|inf)(inity)?\b", re.IGNORECASE)
_BATCH = 10_000
"""Rows that are fetched together where the result has a limit."""
_FUNCTIONS = ("range", "generate_series", "unnest", "duckdb_tables", "duckdb_views", "duckdb_columns")
"""Table functions that read no table; the last three are those of `information_schema`."""
_JOINS = ("LOGICAL_ASOF_JOIN", "LOGICAL_POSITIONAL_JOIN")
"""Joins over released rows that private rows are not given."""


def parse_json(text: str) -> dict[str, Any]:
    """Parse JSON written by DuckDB, which writes NaN and infinity without quotes."""
    found: dict[str, Any]
    try:
        found = json.loads(text)
    except ValueError:
        found = json.loads(
            _BARE_NUMBER.sub(lambda m: m[1] + {"nan": "NaN", "inf": "Infinity"}[m[2].lower()], text)
        )
    return found


def load(
    cursor: duckdb.DuckDBPyConnection, types: Mapping[str, Columns], rows: Mapping[str, pa.Table]
) -> None:
    """Make temporary tables of the released relations; those without rows stay empty."""
    for name, columns in types.items():
        if name not in rows:
            listed = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in columns)
            cursor.execute(f"CREATE TEMP TABLE {quote(name)} ({listed})")
            continue
        # In one statement: a table that exists already takes rows several times as slowly.
        cells = ", ".join(
            f"CAST(c{i} AS {sql_type}) AS {quote(column)}" for i, (column, sql_type) in enumerate(columns)
        )
        came = ", ".join(f"c{i}" for i in range(len(columns)))
        cursor.register("dpsql_incoming", rows[name])
        cursor.execute(f"CREATE TEMP TABLE {quote(name)} AS SELECT {cells} FROM dpsql_incoming AS r({came})")
        cursor.unregister("dpsql_incoming")


def fetch(cursor: duckdb.DuckDBPyConnection, sql: str, limit: ResultLimit | None) -> pa.Table:
    """Run a query; raise `ResultTooLarge` as soon as its result exceeds the limit. No zero is negative."""
    return with_one_zero(_fetched(cursor, sql, limit))


def with_one_zero(table: pa.Table) -> pa.Table:
    """Return a result with 0 in the place of -0, which no format shall print."""
    for place, column in enumerate(table.columns):
        if pa.types.is_floating(column.type) and any(map(_has_negative_zero, column.chunks)):
            import pyarrow.compute as pc  # noqa: PLC0415  it takes longer than most queries

            made = pc.add(column, pa.scalar(0.0, column.type))
            table = table.set_column(place, table.field(place), made)
    return table


def _has_negative_zero(part: pa.Array) -> bool:
    numbers = part.to_numpy(zero_copy_only=False)  # NULL as NaN
    return bool(((numbers == 0) & np.signbit(numbers)).any())


def _fetched(cursor: duckdb.DuckDBPyConnection, sql: str, limit: ResultLimit | None) -> pa.Table:
    found = cursor.sql(sql)
    if limit is None:
        return found.to_arrow_table()
    batches, rows, size = list[pa.RecordBatch](), 0, 0
    with found.to_arrow_reader(_BATCH) as reader:
        for batch in reader:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > limit.rows or size > limit.bytes:
                raise ResultTooLarge(
                    f"the result has more than {limit.rows:,} rows or {limit.bytes:,} bytes: add a LIMIT, or "
                    "select fewer columns"
                )
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)


def check(
    cursor: duckdb.DuckDBPyConnection,
    sql: str,
    released: Mapping[str, Columns],
    public: Collection[str],
    vocabulary: Vocabulary,
    time_zone: str = "UTC",
) -> None:
    """Check that a query binds, and that its plan reads released rows and public tables only.

    Raises
    ------
    UnboundQuery
        The query does not bind, or converts times that are of no zone.
    InternalError
        It reads something that is neither released nor public.
    EngineNotTested
        So it seems in the plan of an engine that is no tested version.
    """
    text = cursor.execute(f"SELECT json_serialize_plan({literal_sql(sql)}, optimize := false)").fetchall()
    bound = parse_json(text[0][0])
    if bound.get("error"):
        raise UnboundQuery(str(bound.get("error_message")).partition("\n")[0])
    instants = any(kind == TIMESTAMPTZ for columns in released.values() for _, kind in columns)
    found = fault(bound["plans"], time_zone, instants=instants)
    if found is not None:
        raise UnboundQuery(f"{found.what}: {found.hint}")
    for node in _nodes(bound["plans"]):
        if not _allowed(node, released, public, vocabulary):
            raise vocabulary.refuse("the outer query reads neither released nor public rows")


def _nodes(plan: object) -> Iterator[dict[str, Any]]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            if "expression_class" not in node and str(node.get("type")).startswith("LOGICAL_"):
                yield node
            waiting += node.values()


def _allowed(
    node: dict[str, Any], released: Collection[str], public: Collection[str], vocabulary: Vocabulary
) -> bool:
    """Whether a node of a plan scans no table, a released one, a public one, or a public domain."""
    if node["type"] != "LOGICAL_GET":
        return node["type"] in _JOINS or node["type"] in vocabulary.plans
    path = (node.get("qname") or {}).get("path") or []
    if path[:-1] == ["system", "main"] and path[-1] in _FUNCTIONS:
        return True
    data = node.get("function_data") or {}
    place = (data.get("catalog"), data.get("schema"))
    return path == ["seq_scan"] and (
        (place == ("temp", "main") and data.get("table") in released)
        or (place == ("memory", "main") and data.get("table") in public)
        or place == ("memory", DOMAIN_SCHEMA)
    )
