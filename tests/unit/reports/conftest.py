"""A policy of sign-ups in weeks, for reports."""

from __future__ import annotations

import datetime as clock
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dpsql.analysis import compiler
from dpsql.composition import planner
from dpsql.policy import load
from dpsql.reports import registered
from dpsql.session import Session
from tests.support.world import write_world

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


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files and the policy, which no test changes."""
    made = tmp_path_factory.mktemp("written")
    write_world(
        made,
        POLICY,
        signups="SELECT i AS user_id, DATE '2026-01-05' + CAST(i % 28 AS INTEGER) AS signed_up, "
        "['a', 'b', 'c'][1 + i % 3] AS country, ['x', 'y'][1 + (i // 28) % 2] AS channel, "
        "'p' AS open FROM range(2800) t(i)",
        visits="SELECT i % 2800 AS user_id, 'a' AS country FROM range(5600) t(i)",
    )
    return made


@pytest.fixture
def folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    set_clock(monkeypatch, "2026-02-04")
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="module")
def unchanged(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session for the tests of a module that neither charge nor register anything."""
    made = tmp_path_factory.mktemp("unchanged")
    shutil.copytree(written, made, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patched:
        set_clock(patched, "2026-02-04")
        with closing(Session(load(made / "dpsql.toml"), analyst="ann")) as session:
            yield session
            assert session.ledger.entries() == []
            assert session.ledger.reports() == []


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
