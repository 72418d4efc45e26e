"""A release refined through the command line: its price, once each, only while the data are the same."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.cli import main

POLICY = """
[budget]
epsilon = 5
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.csv"
unit = "user_id"
columns = {user_id = "BIGINT", minutes = "INTEGER"}
"""
ASKED = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(DISTINCT user_id) AS n FROM visits "
    "WHERE minutes > 10"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"{i},{10 + i % 3}\n" for i in range(900))
    (tmp_path / "visits.csv").write_text("user_id,minutes\n" + rows)
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path


Capture = pytest.CaptureFixture[str]


def run(capfd: Capture, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, with a session of its own on the ledger's file."""
    capfd.readouterr()
    code = main(["-p", "dpsql.toml", *args])
    return subprocess.CompletedProcess((), code, *capfd.readouterr())


def run_apart(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, as people do."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DPSQL_")}
    return subprocess.run(
        [sys.executable, "-m", "dpsql.cli", "-p", "dpsql.toml", *args],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, float]:
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    return {name: float(value) for name, value in row.items()}


def spent(capfd: Capture) -> float:
    return float(json.loads(run(capfd, "--format", "json", "budget").stdout)["spent"]["epsilon"])


def test_refine_refine_again_and_what_is_refused(
    folder: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("DPSQL_")]:
        monkeypatch.delenv(name)
    csv_of = ("--format", "csv", "-c")
    answer(run(capfd, *csv_of, ASKED))
    answer(run_apart(folder, *csv_of, "REFINE RELEASE 1 TO 0.3"))
    assert spent(capfd) == 0.3
    last = answer(run(capfd, *csv_of, "refine release 2 to 2;"))
    assert spent(capfd) == 2
    assert last["n"] == pytest.approx(600, abs=20), "40 scales of 1/2: e^-40"
    twice = run(capfd, "-c", "REFINE RELEASE 1 TO 3")
    assert twice.returncode != 0
    assert "release 1 was refined before, and a release is refined once" in twice.stderr
    assert "release 2" in twice.stderr
    data = (folder / "visits.csv").read_text()
    (folder / "visits.csv").write_text(data.replace("\n5,12\n", "\n5,10\n"))
    changed = run(capfd, "-c", "REFINE RELEASE 3 TO 4")
    assert changed.returncode != 0
    assert "release 3 cannot be refined: the data changed" in changed.stderr
    assert spent(capfd) == 2
    (folder / "visits.csv").write_text(data)
    priced = run(capfd, "--dry-run", "-c", "REFINE RELEASE 3 TO 4")
    assert "epsilon 2" in priced.stderr
    answer(run(capfd, *csv_of, "REFINE RELEASE 3 TO 4"))
    assert spent(capfd) == 4
    assert run_apart(folder, "budget", "check").returncode == 0
