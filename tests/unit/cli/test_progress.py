"""Progress is shown on a terminal alone, is removed at its end, and tells an analyst the time alone."""

from __future__ import annotations

import io
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from dpsql.cli import main
from dpsql.cli import narrate as progress_module
from dpsql.cli.narrate import Progress, pause_progress, progress, set_progress


class Terminal(io.StringIO):
    """A terminal that keeps what is written, and tells when a line was drawn."""

    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__()
        self.drawn, self._terminal = threading.Event(), terminal
        self._lines: list[str] = []

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        done = super().write(text)
        if text.startswith("\rdpsql:"):
            self._lines.append(text.strip())
            self.drawn.set()
        return done

    def lines(self) -> list[str]:
        return list(self._lines)


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Return a function that makes a terminal of stderr; pytest takes the stream back before each phase."""
    monkeypatch.setattr(Progress.__init__, "__defaults__", (0.001,))
    monkeypatch.setattr(progress_module, "_TICK", 0.001)

    def terminal() -> Terminal:
        made = Terminal()
        monkeypatch.setattr(sys, "stderr", made)
        return made

    return terminal


def test_the_line_is_drawn_and_removed(attach: Callable[[], Terminal]) -> None:
    terminal = attach()
    with progress("reading"):
        assert terminal.drawn.wait(30)
        set_progress("hashing t", 1_200_000, 5_000_000)
        terminal.drawn.clear()
        assert terminal.drawn.wait(30)
        with pause_progress():
            terminal.write("asked: ")
            terminal.drawn.clear()
        assert terminal.drawn.wait(30)
    assert "dpsql: reading, 0 s" in terminal.lines()
    assert any(line.startswith("dpsql: hashing t, 1.2 MB of 5.0 MB, ") for line in terminal.lines())
    assert re.search(r"\r *\r$", terminal.getvalue())
    assert re.search(r"\r *\rasked: ", terminal.getvalue()), "a question has a line of its own"
    set_progress("nothing is shown any more")


def test_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, before = Terminal(terminal=False), threading.active_count()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress("reading"):
        assert threading.active_count() == before
        set_progress("hashing", 1, 2)
    assert pipe.getvalue() == ""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT i % 7000 AS u, i % 10 AS x FROM range(70000) r(i)) TO '{tmp_path}/visits.parquet'"
        )
    path = tmp_path / "dpsql.toml"
    table = "[tables.visits]\nsource = 'visits.parquet'\nunit = 'u'\n"
    path.write_text(f"[budget]\nepsilon = 10\ndefault_epsilon = 1\n[analysts.ann]\nepsilon = 9\n{table}")
    return path


SHOWN_TO_ANALYSTS = re.compile(
    r"dpsql: (opening the data|counting|verifying visits, once for this version), \d+ s"
)


def test_an_analyst_is_told_the_time_alone(attach: Callable[[], Terminal], policy: Path) -> None:
    terminal = attach()
    for where in ("x = 3", "x = 77"):
        statement = f"SELECT WITH DIFFERENTIAL_PRIVACY COUNT(DISTINCT u) FROM visits WHERE {where}"
        assert main(["-p", str(policy), "--analyst", "ann", "-c", statement]) == 0
    assert terminal.lines(), "something was drawn"
    assert [line for line in terminal.lines() if not SHOWN_TO_ANALYSTS.fullmatch(line)] == []


def test_the_owner_is_told_bytes(
    policy: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = []

    def noted(*arguments: object) -> None:
        words.append(arguments)

    monkeypatch.setattr("dpsql.cli.check_and_audit.set_progress", noted)
    assert main(["-p", str(policy), "check"]) == 0
    size = (policy.parent / "visits.parquet").stat().st_size
    assert ("hashing visits", size, size) in words
    assert ("reading visits", None, size) in words
    assert "tables.visits" in capfd.readouterr().out
