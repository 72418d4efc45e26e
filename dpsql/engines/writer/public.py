"""Public relations: DuckDB computes them on the schema database, and the engine receives their rows.

Domains, images of expressions over them, public tables and lists thus have the same meaning in every engine,
and only the private part of a statement is translated.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.writer.value import TargetColumn, type_family
from dpsql.kernel.tree import Column, Derived, Query, Range, Scan, Unnest, Values, walk
from dpsql.lazy_dataclass import dataclass
from dpsql.types import NULL, SqlType, column_type

FIRST_DAY, LAST_DAY = date(1, 1, 1), date(9999, 12, 31)
"""The dates that every engine represents alike; other public dates are refused."""

MOST_BYTES = 1 << 28
"""The most bytes of public rows sent with one statement."""


@dataclass(frozen=True, slots=True)
class PublicRelation:
    """The rows and typed columns of a public relation; `sql` is the query that DuckDB computed."""

    name: str
    sql: str
    rows: pa.Table
    columns: tuple[TargetColumn, ...]


def is_public(query: Query, private: Collection[str]) -> bool:
    """Whether a query reads no private table and no column of an enclosing query."""
    nodes = list(walk(query))
    inside = {node.alias for node in nodes if isinstance(node, Scan | Derived | Values | Range | Unnest)}
    return not any(
        (isinstance(node, Scan) and node.table in private)
        or (isinstance(node, Column) and node.table and node.table not in inside)
        for node in nodes
    )


def compute_public(schema_database: SchemaDatabase, name: str, sql: str) -> PublicRelation:
    """Compute a public relation, and check that every engine can represent its values."""
    described = schema_database.run(f"DESCRIBE {sql}")
    rows = schema_database.run(sql)
    columns, arrays = [], []
    for i, (label, text) in enumerate(
        zip(described.column(0).to_pylist(), described.column(1).to_pylist(), strict=True)
    ):
        sql_type = _public_type(text)
        array, value_range = _check_values(rows.column(i), sql_type)
        columns.append(TargetColumn(str(label), sql_type, value_range))
        arrays.append(array)
    made = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
    if made.nbytes > MOST_BYTES:
        raise Untranslatable(
            f"the public rows this statement needs are more than {MOST_BYTES >> 20} MB",
            "a smaller domain or public table",
        )
    return PublicRelation(name, sql, made, tuple(columns))


def _public_type(text: str) -> SqlType:
    if text in ("NULL", '"NULL"'):
        return NULL
    try:
        sql_type = column_type(text)
    except ValueError:
        raise Untranslatable(f"public values of type {text[:40]} cannot be sent to the engine") from None
    if sql_type.name == "ENUM":
        raise Untranslatable("ENUM values cannot be sent to the engine", "declare the column VARCHAR")
    type_family(sql_type)
    return sql_type


def _check_values(column: pa.ChunkedArray, sql_type: SqlType) -> tuple[pa.Array, tuple[float, float] | None]:
    array = column.combine_chunks()
    if sql_type.name in ("DATE", "TIMESTAMP"):
        return _check_dates(array, sql_type)
    if sql_type.name == "VARCHAR" and pc.any(pc.match_substring(array, "\0")).as_py():
        raise Untranslatable("a public text has a NUL character, which the engine does not support")
    return array, None


def _check_dates(array: pa.Array, sql_type: SqlType) -> tuple[pa.Array, tuple[float, float]]:
    low, high = FIRST_DAY, LAST_DAY
    if sql_type.name == "TIMESTAMP":
        low, high = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
    inside = pc.and_(
        pc.greater_equal(array, pa.scalar(low, array.type)), pc.less_equal(array, pa.scalar(high, array.type))
    )
    if pc.all(inside).as_py() not in (True, None):
        raise Untranslatable(
            "a public date lies outside the years 1 to 9999, which not every engine supports"
        )
    return array, (1, 9999)
