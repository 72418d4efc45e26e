"""What the comparison of the catalogue with PostgreSQL shares with its tests: tables, statements, answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpsql.language import split_script
from dpsql.policy import BudgetPolicy, ParquetSource, Policy, Table, UnitColumn
from dpsql.serve.catalog import SessionFacts, UnknownQuestion
from dpsql.serve.catalog.catalog import PgCatalog
from dpsql.types import SqlType, column_type

TABLES = {
    "visits": {
        "patient_id": "BIGINT",
        "clinic": "VARCHAR",
        "diagnosis_code": "VARCHAR",
        "visit_date": "DATE",
    },
    "diagnoses": {"code": "VARCHAR", "diagnosis": "VARCHAR"},
}


OIDS = {"visits": 16386, "diagnoses": 16391}
"""The OIDs of the tables in the PostgreSQL whose answers are kept."""


@dataclass(frozen=True)
class Statement:
    """A numbered statement of `catalogue.sql`, and the tool that sends it."""

    number: int
    origin: str
    text: str


def statements(path: Path) -> list[Statement]:
    """Read the numbered statements of a file."""
    parts = re.split(r"(?m)^-- \[(\d+)\] (.*)\n", path.read_text(encoding="utf-8"))
    found = []
    for i in range(1, len(parts), 3):
        texts = split_script(parts[i + 2].rsplit("\n;", 1)[0]) or [""]  # a server splits, too
        found += [Statement(int(parts[i]), parts[i + 1], text) for text in texts]
    return found


@dataclass(frozen=True)
class Result:
    """The names, types and rows of an answer; or the error instead."""

    names: tuple[str, ...] = ()
    oids: tuple[int, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    error: str = ""


def policy() -> Policy:
    """Return the policy of the two tables."""
    columns = {name: {c: column_type(kind) for c, kind in kinds.items()} for name, kinds in TABLES.items()}
    source = ParquetSource(Path("none.parquet"))
    return Policy(
        BudgetPolicy(epsilon=Fraction(1), ledger=Path("none.sqlite")),
        {
            "visits": Table("visits", source, unit=UnitColumn("patient_id"), columns=columns["visits"]),
            "diagnoses": Table("diagnoses", source, public=True, columns=columns["diagnoses"]),
        },
    )


class Declared:
    """The columns of the two tables."""

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        """Return the columns of a table."""
        return tuple((name, column_type(kind)) for name, kind in TABLES[table].items())


def ours(catalog: PgCatalog, facts: SessionFacts, text: str) -> Result:
    """Return the catalogue's answer to a statement, or its error."""
    try:
        answer = catalog.answer(text, facts)
    except UnknownQuestion as problem:
        return Result(error=f"unknown: {problem.shape}")
    except Exception as problem:  # noqa: BLE001  a crash is a finding, too
        return Result(error=f"{type(problem).__name__}: {problem}")
    oids = tuple(column.oid or 0 for column in answer.columns)
    ids = [oid in (28, 29) for oid in oids]  # psycopg reads them as texts
    rows = tuple(
        tuple(str(cell) if text else cell for cell, text in zip(row.values(), ids, strict=True))
        for row in table_rows(answer.table)
    )  # fmt: skip
    return Result(tuple(column.name for column in answer.columns), oids, rows)


def table_rows(table: Any) -> list[dict[int, object]]:
    named = table.rename_columns([str(place) for place in range(table.num_columns)])
    return named.to_pylist()


def plain(value: object) -> object:
    """Return a value so that those of both sides compare."""
    if isinstance(value, (list, tuple)):
        return tuple(plain(one) for one in value)
    if isinstance(value, str) and value.startswith("{") and value.endswith("}") and len(value) > 1:
        return tuple(part.strip('"') for part in value[1:-1].split(",")) if value != "{}" else ()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return value
