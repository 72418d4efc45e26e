"""What every catalogue has: PostgreSQL's own rows and types, and the closed list of functions.

The data file was made once from an empty PostgreSQL 15 by `tests/serve/make_catalog_data.py`; each function
is a DuckDB macro of `functions.sql`, which says how it is written, or an aggregate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dpsql.lazy_dataclass import dataclass

SCHEMAS = {"pg_catalog": "_pgc", "information_schema": "_pgi"}
"""The two schemas of the catalogue, and the DuckDB schemas that hold them."""
ALL_SCHEMAS = ("public", *SCHEMAS)
"""The schemas that a client sees: that of the policy's tables, and those of the catalogue."""

Row = dict[str, Any]
"""A row of a relation, by the names of its columns; a column that is missing is NULL."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the catalogue: its OID, its kind (`r` or `v`), and its columns with their types."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Data:
    """The content of the data file."""

    relations: dict[tuple[str, str], Relation]
    tables: dict[str, list[Row]]
    """Rows of tables of `pg_catalog` that every policy's catalogue has."""
    type_names: dict[int, str]
    """The names of types as `format_type` shows them."""
    type_oids: dict[str, int]
    elements: dict[int, int]
    """The types of arrays' elements."""
    arrays: dict[int, int]
    functions: list[list[Any]]
    """OID, result, arguments, definition and signature of the functions."""
    keywords: list[list[Any]]
    settings: list[Row]
    """The settings that PostgreSQL shows to a role without rights."""


@lru_cache(maxsize=1)
def data() -> Data:
    """Return the content of the data file, read once a process."""
    raw = json.loads((files(__package__) / "postgresql15.json").read_text(encoding="utf-8"))
    tables = {name: _records(rows) for name, rows in raw["tables"].items()}
    types = tables["pg_type"]
    arrays = [row for row in types if row["typelem"] and row["typlen"] == -1 and row["typcategory"] == "A"]
    relations = [
        Relation(schema, name, oid, kind, tuple(map(tuple, columns)))
        for schema, name, oid, kind, columns in raw["relations"]
    ]
    return Data(
        relations={(relation.schema, relation.name): relation for relation in relations},
        tables=tables,
        type_names=dict(raw["type_names"]),
        type_oids={row["typname"]: row["oid"] for row in types},
        elements={row["oid"]: row["typelem"] for row in arrays},
        arrays={row["oid"]: row["typarray"] for row in types if row["typarray"]},
        functions=raw["functions"],
        keywords=raw["keywords"],
        settings=_records(raw["settings"]),
    )


def _records(raw: Mapping[str, Any]) -> list[Row]:
    return [dict(zip(raw["columns"], row, strict=True)) for row in raw["rows"]]


PREFIX = "pgf_"
"""Prefix of the macros of DuckDB."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the types of its arguments and its result, and the body of its macro."""

    name: str
    arguments: tuple[str, ...]
    """Names of types; `any` for an argument of any type."""
    result: str
    body: str
    returns_set: bool = False
    """Whether it returns rows; the macro returns a list of them."""
    fields: tuple[tuple[str, ...], ...] = ()
    """Names and types of the columns of the rows of a function that returns records."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the macro's parameters."""
        return tuple("abcdefghij"[: len(self.arguments)])


AGGREGATES = {
    **dict.fromkeys(("count", "row_number", "rank", "dense_rank"), "int8"),
    **dict.fromkeys(("min", "max"), "extreme"),
    "sum": "sum",
    "avg": "float8",
    "array_agg": "array",
    "string_agg": "text",
    **dict.fromkeys(("bool_and", "bool_or", "every"), "bool"),
    **dict.fromkeys(("lag", "lead", "first_value", "last_value"), "same"),
}
"""The aggregates and window functions, and the types of their results; `every` is DuckDB's `bool_and`."""

_LINE = re.compile(
    r"(?P<name>\w+)\((?P<arguments>[^)]*)\) -> "
    r"(?P<set>setof )?(?P<result>[\w\[\]\" ]+)(?:\((?P<fields>[^)]*)\))?: (?P<body>.*)"
)


def _read_functions(text: str) -> Mapping[tuple[str, int], Function]:
    found = {}
    text = re.sub(r"(?m)^--.*\n", "", text)
    for line in filter(None, re.sub(r"\n +", " ", text).splitlines()):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"not a line of a table of functions: {line}")
        body = match["body"]
        if "SELECT" in body:  # its sources must not be taken for those of the question
            body = re.sub(r"\bAS ([a-z])\b", r"AS pg_source_\1", body)
            body = re.sub(r"(?<![\w'])([a-z])\.(\w)", r"pg_source_\1.\2", body)
        arguments = tuple(filter(None, match["arguments"].split(", ")))
        fields = tuple(tuple(part.split(" ")) for part in filter(None, (match["fields"] or "").split(", ")))
        found[match["name"], len(arguments)] = Function(
            match["name"], arguments, match["result"], body, match["set"] is not None, fields
        )
    return found


FUNCTIONS = _read_functions((files(__package__) / "functions.sql").read_text(encoding="utf-8"))
"""The functions with macros, by name and number of arguments."""
