"""The shell on a real terminal (a pseudo-terminal), as somebody would use it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data"
SECONDS = 60


class Terminal:
    """`dpsql` at the other end of a pseudo-terminal."""

    def __init__(self, folder: Path, *args: str) -> None:
        text = (DATA / "clinic.toml").read_text("utf-8")
        policy = folder / "clinic.toml"
        policy.write_text(re.sub(r'source = "(.+?)"', rf'source = "{DATA.as_posix()}/\1"', text), "utf-8")
        env = {
            **{k: v for k, v in os.environ.items() if k != "NO_COLOR"},
            "TERM": "xterm",
            "COLUMNS": "100",
            "LINES": "40",
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PYTHONIOENCODING": "utf-8",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        self.seen = ""
        for _ in range(
            3
        ):  # a crowded machine may take its time over a start; a shell that never starts fails
            self._start(args, policy, env)
            if select.select([self.fd], [], [], SECONDS)[0]:
                return
            self.process.kill()
            self.process.wait(SECONDS)
            os.close(self.fd)
        raise AssertionError("the shell does not start")

    def _start(self, args: tuple[str, ...], policy: Path, env: dict[str, str]) -> None:
        self.fd, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dpsql.cli", "-p", str(policy), *args],
            stdin=other,
            stdout=other,
            stderr=other,
            env=env,
            start_new_session=True,
        )
        os.close(other)

    def wait(self, pattern: str) -> str:
        """Read until the pattern shows up; return everything since the last call."""
        deadline = time.monotonic() + SECONDS
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"waited for {pattern!r}, saw {self.seen!r}"
            data = os.read(self.fd, 65536)
            # Escape sequences position the cursor between the letters; the letters are what is tested.
            self.seen += re.sub(
                r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|\r", "", data.decode("utf-8", "replace")
            )
        seen, self.seen = self.seen, ""
        return seen

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def end(self) -> int:
        """Wait for the shell to end."""
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:  # the other end is closed
            pass
        return self.process.wait(SECONDS)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.process.kill()
    made.process.wait(SECONDS)
    os.close(made.fd)


def test_a_session_at_the_terminal(terminal: Terminal) -> None:
    terminal.wait(r"epsilon 10 left\)>")
    terminal.type("SELECT clinic, COUNT(DISTINCT patient_id) AS n\rFROM visits GROUP BY clinic TOP 3;\r")
    seen = terminal.wait(r"epsilon 9.75 left\)>")
    assert "│ Coast Road" in seen
    assert re.search(r"\d ± \d|\d \(\d[\d,]* to \d", seen), "a range, of either shape"
    assert "█" in seen
    terminal.type(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) COUNT(DISTINCT patient_id) FROM visits;\r"
    )
    terminal.wait(r"epsilon 9.75 left\)>")
    terminal.type("SELECT code FROM dia\t")
    terminal.wait("diagnoses")
    terminal.type(" ORDER BY code LIMIT 1;\r")
    terminal.wait(r"│ [A-Z]\d+\S* +│(?s:.)*left\)>")
    terminal.type("SELECT 1 FROM diagnoses WHERE chapter='Resp\t")
    terminal.wait("Respiratory'")
    terminal.type(";\r")
    terminal.wait(r"left\)>")
    terminal.type("SET dp_epsilon = 2;\rSELECT 41 + 1 AS answer;\r")
    assert "answer" in terminal.wait(r"│ +42 │(?s:.)*left\)>")
    terminal.type("SELCT 1;\r")
    assert "did you mean SELECT" in terminal.wait(r"Hint.*(?s:.)*left\)>")
    terminal.type("\x04")
    assert terminal.end() == 0


@pytest.fixture
def guide(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path, "demo")
    yield made
    made.process.kill()
    made.process.wait(SECONDS)
    os.close(made.fd)


def test_the_tour_waits_for_its_visitor(guide: Terminal) -> None:
    seen = guide.wait("q leaves: ")
    assert "│ diagnosis" in seen
    assert "[1 of 11]" in seen
    assert "[2 of 11]" not in seen
    guide.type("\r")
    seen = guide.wait("q leaves: ")
    assert "[2 of 11]" in seen
    assert re.search(r"│ +visits │", seen)
    guide.type("q\r")
    seen = guide.wait("dpsql -p ")
    assert "[3 of 11]" not in seen
    assert guide.end() == 0
