"""A policy of sign-ups in weeks, for reports."""

from __future__ import annotations

import datetime as clock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.analysis import compiler
from dpsql.composition import planner
from dpsql.policy import load
from dpsql.reports import registered
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
high_water = false
[parts.user]
table = "signups"
column = "signed_up"
every = "week"
moves = "trusted"
closed_after = "1 days"
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
not_null = ["signed_up"]
domain.country = { values = ["a", "b", "c"], complete = true }
domain.channel = { values = ["x", "y"], complete = true }
domain.open = ["p", "q"]
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 3
domain.country = { values = ["a", "b", "c"], complete = true }
[tables.often]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
"""
"""Four weeks from 5 January 2026 on, of 700 users each."""


def set_clock(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    class Then(clock.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.datetime.fromisoformat(day).replace(tzinfo=tz)

    for module in (compiler, planner, registered):
        monkeypatch.setattr(module, "datetime", Then)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    set_clock(monkeypatch, "2026-02-04")
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE signups AS SELECT i AS user_id,"
            " DATE '2026-01-05' + CAST(i % 28 AS INTEGER) AS signed_up,"
            " ['a', 'b', 'c'][1 + i % 3] AS country, ['x', 'y'][1 + (i // 28) % 2] AS channel,"
            " 'p' AS open FROM range(2800) t(i)"
        )
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 2800 AS user_id, 'a' AS country FROM range(5600) t(i)"
        )
        for name in ("signups", "visits"):
            connection.execute(f"COPY {name} TO '{tmp_path / name}.parquet' (FORMAT parquet)")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[[], Session]]:
    """Opens sessions of one analyst, all closed at the end."""
    sessions: list[Session] = []

    def open_one() -> Session:
        sessions.append(Session(load(folder / "dpsql.toml"), analyst="ann"))
        return sessions[-1]

    yield open_one
    for each in sessions:
        each.close()


@pytest.fixture
def session(opened: Callable[[], Session]) -> Session:
    return opened()
