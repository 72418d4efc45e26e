"""Public relations travel: DuckDB computes them on the schema database, the engine gets their rows.

So domains, images of expressions over them, public tables and lists mean in every engine what they mean in
DuckDB, and only the private part of a statement is translated.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from dpsql.engines.translate.value import Column, Untranslatable, kind_of
from dpsql.types import NULL, SqlType, column_type

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Public", "Shown", "is_public", "travelling"]

FIRST_DAY, LAST_DAY = date(1, 1, 1), date(9999, 12, 31)
"""Days that every engine holds alike; others do not travel."""

MOST_BYTES = 1 << 28
"""The most that travels with one statement."""


class Shown(Protocol):
    """The schema database, as the translation uses it."""

    def run(self, sql: str) -> pa.Table:
        """Run a public statement."""

    def evaluate(self, expression: str) -> object:
        """Compute a constant; `ValueError` if it raises."""

    def type_of(self, expression: str) -> SqlType:
        """Return the type of a constant; `ValueError` if it is not allowed."""


@dataclass(frozen=True, slots=True)
class Public:
    """A public relation's rows, with its columns' types; `sql` is what DuckDB computed."""

    name: str
    sql: str
    rows: pa.Table
    columns: tuple[Column, ...]


def is_public(node: exp.Expr, private: Collection[str]) -> bool:
    """Whether a relation names no private table and nothing outside itself."""
    inside = {
        str(n.args["alias"].name) for n in node.find_all(exp.Table, exp.Subquery, exp.Values) if _named(n)
    }
    tables = [n for n in node.find_all(exp.Table) if n.db == "main"]
    if any(t.name in private for t in tables):
        return False
    return all(not c.table or c.table in inside for c in node.find_all(exp.Column))


def _named(node: exp.Expr) -> bool:
    return node.args.get("alias") is not None


def travelling(schema_database: Shown, name: str, sql: str) -> Public:
    """Compute a public relation and check that the engine can hold its values as DuckDB does."""
    described = schema_database.run(f"DESCRIBE {sql}")
    rows = schema_database.run(sql)
    columns, arrays = [], []
    for i, (label, text) in enumerate(
        zip(described.column(0).to_pylist(), described.column(1).to_pylist(), strict=True)
    ):
        kind = _type(text)
        array, spread = _checked(rows.column(i), kind)
        columns.append(Column(str(label), kind, spread))
        arrays.append(array)
    made = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
    if made.nbytes > MOST_BYTES:
        raise Untranslatable(
            f"the public rows this statement needs are more than {MOST_BYTES >> 20} MB",
            "a smaller domain or public table",
        )
    return Public(name, sql, made, tuple(columns))


def _type(text: str) -> SqlType:
    if text in ("NULL", '"NULL"'):
        return NULL
    try:
        kind = column_type(text)
    except ValueError:
        raise Untranslatable(f"public values of type {text[:40]} stay in DuckDB") from None
    if kind.name == "ENUM":
        raise Untranslatable("ENUM values stay in DuckDB", "declare the column VARCHAR")
    kind_of(kind)
    return kind


def _checked(column: pa.ChunkedArray, kind: SqlType) -> tuple[pa.Array, tuple[float, float] | None]:
    array = column.combine_chunks()
    if kind.name in ("DATE", "TIMESTAMP"):
        return _dates(array, kind)
    if kind.name == "VARCHAR" and pc.any(pc.match_substring(array, "\0")).as_py():
        raise Untranslatable("a public text has a NUL character, which the engine does not hold")
    return array, None


def _dates(array: pa.Array, kind: SqlType) -> tuple[pa.Array, tuple[float, float]]:
    low, high = FIRST_DAY, LAST_DAY
    if kind.name == "TIMESTAMP":
        low, high = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
    inside = pc.and_(
        pc.greater_equal(array, pa.scalar(low, array.type)), pc.less_equal(array, pa.scalar(high, array.type))
    )
    if pc.all(inside).as_py() not in (True, None):
        raise Untranslatable("a public date lies outside the years 1 to 9999, which not every engine holds")
    return array, (1, 9999)
