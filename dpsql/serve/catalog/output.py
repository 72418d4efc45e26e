"""The columns of an answer as clients are given them: OIDs that have names become the names."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.build import Names
from dpsql.serve.catalog.facts import CatalogColumn
from dpsql.serve.catalog.objects import ANALYST, OWNER


def presented(table: pa.Table, columns: Sequence[CatalogColumn], known: Names, user: str) -> pa.Table:
    """Return the rows with PostgreSQL's names of columns, each column of the Arrow type of its OID."""
    arrays = [_column(table.column(place), one.oid, known, user) for place, one in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=[one.name for one in columns])


def _column(column: pa.ChunkedArray, oid: int, known: Names, user: str) -> pa.ChunkedArray | pa.Array:
    target = pg_types.arrow_type(oid)
    if oid in pg_types.NAMED_OIDS:
        shown = _shown(pg_types.NAMED_OIDS[oid], known, user)
        return pa.array([_name(value, shown) for value in column.to_pylist()], pa.string())
    item = pg_types.element(oid)
    if item in pg_types.NAMED_OIDS:
        shown = _shown(pg_types.NAMED_OIDS[item], known, user)
        lists = column.to_pylist()
        named = [None if one is None else [_name(value, shown) for value in one] for one in lists]
        return pa.array(named, pa.list_(pa.string()))
    if oid in (pg_types.INT2VECTOR, pg_types.OIDVECTOR):
        vectors = column.to_pylist()
        texts = [None if one is None else " ".join(map(str, one)) for one in vectors]
        return pa.array(texts, pa.string())
    if oid in (pg_types.RECORD, pg_types.RECORD_ARRAY) or pa.types.is_struct(column.type):
        return pa.array([_record(value) for value in column.to_pylist()], pa.string())
    return column if column.type == target else column.cast(target)


def _shown(kind: str, known: Names, user: str) -> dict[int, str]:
    return {OWNER: "dpsql", ANALYST: user} if kind == "role" else known.shown[kind]


def _name(value: int | None, shown: dict[int, str]) -> str | None:
    if value is None:
        return None
    return shown.get(value, "-" if value == 0 else str(value))


def _record(value: object) -> str | None:
    """Return a record, or an array of them, as PostgreSQL writes it."""
    if value is None:
        return None
    if isinstance(value, list):
        return "{" + ",".join(_quoted(_record(one) or "NULL") for one in value) + "}"
    if isinstance(value, dict | tuple):
        cells = value.values() if isinstance(value, dict) else value
        return "(" + ",".join("" if cell is None else _cell(str(cell)) for cell in cells) + ")"
    return str(value)


def _cell(text: str) -> str:
    plain = text and not any(character in text for character in ' ",()\\')
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
