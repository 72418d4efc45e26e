"""The catalogue's data file, made once from an empty PostgreSQL 15: `tests/serve/make_catalog_data.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

from dpsql.lazy_dataclass import dataclass

SCHEMAS = {"pg_catalog": "_pgc", "information_schema": "_pgi"}
"""The two schemas of the catalogue, and the DuckDB schemas that hold them."""
ALL_SCHEMAS = ("public", *SCHEMAS)
"""The schemas that a client sees: that of the policy's tables, and those of the catalogue."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the catalogue: its OID, its kind (`r` or `v`), and its columns with their types."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a relation, in the order of its columns."""

    columns: tuple[str, ...]
    rows: list[list[object]]


@dataclass(frozen=True, slots=True)
class Data:
    """The content of the data file."""

    relations: dict[tuple[str, str], Relation]
    tables: dict[str, Rows]
    """Rows of tables of `pg_catalog` that every policy's catalogue has."""
    type_names: dict[int, str]
    """The names of types as `format_type` shows them."""
    type_oids: dict[str, int]
    elements: dict[int, int]
    """The types of arrays' elements."""
    arrays: dict[int, int]
    functions: list[list[object]]
    """OID, result, arguments, definition and signature of the functions."""
    keywords: list[list[object]]
    settings: Rows
    """The settings that PostgreSQL shows to a role without rights."""


@lru_cache(maxsize=1)
def data() -> Data:
    """Return the content of the data file, read once a process."""
    raw = json.loads((files(__package__) / "postgresql15.json").read_text(encoding="utf-8"))
    tables = {name: _rows(rows) for name, rows in raw["tables"].items()}
    types = [dict(zip(tables["pg_type"].columns, row, strict=True)) for row in tables["pg_type"].rows]
    relations = [
        Relation(schema, name, oid, kind, tuple((column, type_oid) for column, type_oid in columns))
        for schema, name, oid, kind, columns in raw["relations"]
    ]
    return Data(
        relations={(relation.schema, relation.name): relation for relation in relations},
        tables=tables,
        type_names=dict(raw["type_names"]),
        type_oids={str(row["typname"]): _int(row["oid"]) for row in types},
        elements={
            _int(row["oid"]): _int(row["typelem"])
            for row in types
            if row["typelem"] and row["typlen"] == -1 and row["typcategory"] == "A"
        },
        arrays={_int(row["oid"]): _int(row["typarray"]) for row in types if row["typarray"]},
        functions=raw["functions"],
        keywords=raw["keywords"],
        settings=_rows(raw["settings"]),
    )


def _rows(raw: dict[str, Sequence[object]]) -> Rows:
    return Rows(tuple(map(str, raw["columns"])), [list(row) for row in raw["rows"]])  # type: ignore[call-overload]


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("an OID is a number")
    return value
