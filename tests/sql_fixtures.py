"""The SQL fixtures of `tests/sql`: statements with what is expected of them, and the tables they read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from dpsql.language import split_script

FOLDER = Path(__file__).parent / "sql"
TABLES = (
    "visits",
    "users",
    "pages",
    "baskets",
    "goods",
    "parcels",
    "scans",
    "refunds",
    "prices",
    "readings",
    "moments",
)


@dataclass(frozen=True)
class Fixture:
    """One paragraph of a fixture file: `-- ID what it shows`, `-- name: value` lines, the statement.

    `candidates` and `expect` say what is counted, `groups` in how many groups a unit is, `units: differ` that
    the statement looks at their numbers;
    `error`, `at` and `hint` say how it is refused, `at: word #2` at the word's second occurrence;
    `obstacles` has the beginnings of all messages, and `rewrite` the statement that is offered.
    """

    name: str
    statement: str
    notes: dict[str, str] = field(default_factory=dict)


def read(path: Path) -> list[Fixture]:
    found = []
    for paragraph in path.read_text("utf-8").split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        comments = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
        statement = "\n".join(line for line in lines if not line.startswith("--"))
        if not statement.strip():
            continue
        notes = dict(line.split(": ", 1) for line in comments[1:])
        found.append(Fixture(f"{path.stem} {comments[0]}", statement, notes))
    return found


def raw_data() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for statement in split_script((FOLDER / "data.sql").read_text("utf-8")):
        connection.execute(statement)
    return connection


def write(folder: Path, raw: duckdb.DuckDBPyConnection, **tables: str) -> Path:
    """Write the tables as the policy names them, or what is selected instead; return the policy's path."""
    folder.mkdir()
    for table in TABLES:
        raw.execute(f"COPY ({tables.get(table, f'FROM {table}')}) TO '{folder / table}.parquet'")
    (folder / "dpsql.toml").write_text((FOLDER / "policy.toml").read_text("utf-8"))
    return folder / "dpsql.toml"
