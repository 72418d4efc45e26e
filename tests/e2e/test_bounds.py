"""`dpsql bounds` as its owner sees it: the real command, at a terminal of 80 columns and without one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from dpsql.ledger import Ledger
from dpsql.policy import load
from dpsql.render.grid import width
from tests.commands import Commands

DATA = Path(__file__).parents[2] / "data"
SECONDS = 120


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    text = (DATA / "clinic.toml").read_text("utf-8")
    text = text.replace("[budget]", "[budget]\nhigh_water = false", 1)
    path = tmp_path / "clinic.toml"
    path.write_text(re.sub(r'source = "(.+?)"', rf'source = "{DATA.as_posix()}/\1"', text), "utf-8")
    return path


def command(policy: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "dpsql.cli", "-p", str(policy), *args]


def at_terminal(policy: Path, answer: str, *args: str) -> tuple[int, str]:
    """Run the command at a terminal of 80 columns, type the answer; return its exit code and the screen."""
    ours, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        command(policy, *args),
        stdin=other,
        stdout=other,
        stderr=other,
        env={**env, "TERM": "dumb", "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,
    )
    os.close(other)
    seen, deadline, typed = b"", time.monotonic() + SECONDS, False
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.2)[0]:
                continue
            try:
                seen += os.read(ours, 65536)
            except OSError:  # the command has ended
                break
            if not typed and b"[y/N]" in seen:
                os.write(ours, answer.encode())
                typed = True
        return process.wait(SECONDS), seen.decode("utf-8")
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(ours)


def spent(policy: Path) -> str:
    with Ledger.of(load(policy)) as ledger:
        return str(ledger.budget().spent.epsilon)


def test_an_owner_at_a_terminal(policy: Path) -> None:
    code, screen = at_terminal(policy, "n\n", "bounds", "visits")
    assert (code, spent(policy)) == (130, "0"), screen
    assert "visits: epsilon 0.5" in screen
    assert "nothing was charged" in screen
    code, screen = at_terminal(policy, "y\n", "bounds", "visits", "visits.cost")
    assert (code, spent(policy)) == (0, "1"), screen
    assert "\x1b" not in re.sub(r"\x1b\[[\d;]*m", "", screen)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).rpartition("\r")[2] for line in screen.split("\r\n")]
    assert max(map(width, lines)) <= 80
    assert "visits: rows of a patient (ladder 1, epsilon 0.5)" in lines
    assert any(re.match(r"│ 3 to 4 +│ 9,[34]\d\d ± 12 │ █+▒", line) for line in lines)
    assert any(line.startswith("dpsql: charged: epsilon 0.5 each, 1 together") for line in lines)
    assert "Traceback" not in screen


def test_nobody_at_a_terminal(policy: Path, commands: Commands) -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*commands.command, "-p", str(policy), *args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            timeout=SECONDS,
            check=False,
        )

    refused = run("bounds", "visits")
    assert (refused.returncode, refused.stdout, spent(policy)) == (2, "", "0")
    assert "Hint: --yes" in refused.stderr
    assert run("bounds", "visits", "--yes").returncode == 0
    answered = run("-c", "SELECT COUNT(*) FROM visits")
    assert "left out: rows of a patient beyond " in answered.stderr
    # The exact number is 399,767; noise alone is below 8,000 at any bound up to 362.
    assert abs(float(answered.stdout.split()[1]) - 399_767) < 15_000
    assert spent(policy) == "3/4"
    assert run("bounds", "visits by visit_date", "--yes").returncode == 0
    by_day = run("-c", "SELECT visit_date, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY visit_date")
    assert "left out: groups of a patient beyond " in by_day.stderr
    assert "(in the range)" in by_day.stderr
    days = [line.split(",") for line in by_day.stdout.splitlines()[1:]]
    # The exact numbers add up to 393,620; sums with the bound of such a ladder are off by 1.3%.
    assert len(days) == 731
    assert abs(sum(float(n) for _, n in days) - 393_620) < 40_000
    assert spent(policy) == "3/2"
