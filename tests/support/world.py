"""Small worlds to test on: tables as Parquet files with a policy beside them, and a session on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session

Rows: TypeAlias = "str | pa.Table | dict[str, Any]"
"""The rows of a table: a SELECT, a table of Arrow, or lists of values by column."""


def write_world(folder: Path, policy: str, **tables: Rows) -> Path:
    """Write rows as `NAME.parquet`, and the policy; return the policy's path."""
    folder.mkdir(exist_ok=True)
    for name, rows in tables.items():
        if isinstance(rows, str):
            duckdb.sql(f"COPY ({rows}) TO '{folder / name}.parquet'")
        else:
            pq.write_table(pa.table(rows), folder / f"{name}.parquet")
    path = folder / "dpsql.toml"
    path.write_text(policy, "utf-8")
    return path


@contextmanager
def open_world(folder: Path, policy: str, **tables: Rows) -> Iterator[Session]:
    """Write a world, and open a session on it.

    It opens two databases, which takes as long as twenty statements: a module whose tests neither look at
    charges nor change the files shares one. `keep = 0` under `[engine]` keeps a test from being answered from
    what another one counted.
    """
    with closing(Session(load(write_world(folder, policy, **tables)))) as session:
        yield session


def world_fixture(policy: str, scope: Any = "module", **tables: Rows) -> Any:
    """Return a fixture: a session on a world of the module, or of each test, in its `tmp_path`."""

    @pytest.fixture(scope=scope)
    def fixture(request: pytest.FixtureRequest) -> Iterator[Session]:
        own = request.getfixturevalue("tmp_path" if scope == "function" else "tmp_path_factory")
        folder: Path = own if scope == "function" else own.mktemp("world")
        with open_world(folder, policy, **tables) as session:
            yield session

    return fixture


def accepted(
    session: Session, statement: Callable[[], str], number: int
) -> Iterator[tuple[str, PreparedPrivate]]:
    """Yield that many of the statements that a generator writes and the session accepts as one release."""
    while number:
        text = statement()
        try:
            prepared = session.prepare(text)
        except QueryRefused:
            continue
        if not isinstance(prepared, PreparedPrivate):
            continue
        number -= 1
        yield text, prepared
