"""The command line as a process, on the clinic that comes with dpsql."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands import Commands

DATA = Path(__file__).parents[2] / "data"


def top(k: int, epsilon: str) -> str:
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) d.diagnosis, "
        "COUNT(DISTINCT v.patient_id) AS patients "
        "FROM visits v JOIN diagnoses d ON d.code = v.diagnosis_code "
        f"GROUP BY d.diagnosis TOP {k}"
    )


SLOW = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT a.patient_id) AS n FROM visits a "
    + " ".join(f"JOIN visits {x} ON {x}.patient_id = a.patient_id" for x in "bcde")
    + " WHERE "
    + " + ".join(f"{x}.minutes" for x in "abcde")
    + " < 0"
)


class Shell:
    """Runs `dpsql` on a clinic with a budget of its own."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.folder = folder
        self._command = commands.command
        self.policy = folder / "clinic.toml"
        text = (DATA / "clinic.toml").read_text("utf-8")
        self.policy.write_text(
            re.sub(r'source = "(.+?)"', rf'source = "{DATA.as_posix()}/\1"', text), "utf-8"
        )
        self.env = {
            **{k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "DPSQL_POLICY")},
            "PYTHONIOENCODING": "utf-8",
            "TMPDIR": str(folder),
        }

    def __call__(self, *args: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, "-p", str(self.policy), *args],
            capture_output=True,
            encoding="utf-8",
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            env={**self.env, **env},
            timeout=120,
            check=False,
        )

    def budget(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("budget", "--json").stdout)
        return found

    def states(self) -> list[str]:
        with closing(sqlite3.connect(self.folder / "clinic-ledger.sqlite")) as connection:
            return [state for (state,) in connection.execute("SELECT state FROM entry ORDER BY entry")]


@pytest.fixture
def shell(tmp_path: Path, commands: Commands) -> Shell:
    return Shell(tmp_path, commands)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_question_its_price_and_the_same_question_again(shell: Shell) -> None:
    first = shell("-c", top(5, "1"))
    assert first.returncode == 0, first.stderr
    answers = rows(first.stdout)
    assert len(answers) == 5
    assert list(answers[0]) == ["diagnosis", "patients"]
    # The clinic's commonest diagnosis is far ahead of the noise: scale 10, and over 10,000 patients.
    assert 8_000 < float(answers[0]["patients"]) < 14_000
    assert "dpsql: epsilon 1 of 10 · " in first.stderr
    assert "dpsql: epsilon 9 of 10 left" in first.stderr
    again = shell("-c", top(5, "1"))
    assert again.stdout == first.stdout
    assert "asked before" in again.stderr
    assert shell.budget()["spent"]["exact"] == {"epsilon": "1", "delta": "0"}
    assert shell("budget", "check").returncode == 0


def test_a_table_for_people(shell: Shell) -> None:
    done = shell("--format", "table", "-c", top(3, "2"), COLUMNS="100")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("┌─")
    # The value lies anywhere in its interval: not in the middle, both ends are shown.
    shown = r"(?:± [\d.]+|\([\d,.]+ to [\d,.]+\))"
    assert re.fullmatch(rf"│ .+ │ +[\d,.]+ +{shown} +│ +[\d,.]+ │ █+▒* +│", lines[3])
    spread = r" · 95% (?:± [\d.]+(?: to [\d.]+)?|intervals)"
    assert re.fullmatch(f"epsilon 2 of 10 · noisy top-k with gap{spread}", lines[-1])
    plain = shell("--format", "table", "-c", top(3, "2"), COLUMNS="100", PYTHONIOENCODING="ascii")
    assert plain.stdout.isascii()
    assert re.search(r"\+/-| to ", plain.stdout)


def test_a_batch_that_does_not_fit_costs_nothing(shell: Shell) -> None:
    script = shell.folder / "report.sql"
    script.write_text(";\n".join(top(k, "2") for k in range(1, 7)) + ";\n")
    done = shell("-f", str(script))
    assert (done.returncode, done.stdout) == (5, "")
    assert "the 6 statements together ask for epsilon 12, but only epsilon 10" in done.stderr
    assert shell.budget()["entries"] == []
    dry = shell("--dry-run", "-f", str(script))
    assert dry.returncode == 5
    assert [row["epsilon"] for row in rows(dry.stdout)] == ["2.0"] * 6
    assert [row["place"] for row in rows(dry.stdout)] == [f"{script}:{i}" for i in range(1, 7)]
    assert shell.budget()["entries"] == []
    partial = shell("--partial", "--format", "jsonl", "-f", str(script))
    assert partial.returncode == 5
    assert len(partial.stdout.splitlines()) == 1 + 2 + 3 + 4 + 5
    assert shell.budget()["remaining"]["epsilon"] == 0


def test_one_wrong_statement_and_nothing_runs(shell: Shell) -> None:
    for wrong, code in (("SELECT patient_id FROM visits", 4), ("SELCT 1", 1), ("DROP TABLE visits", 4)):
        done = shell("-c", top(3, "1"), "-c", wrong)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert "dpsql: error: " in done.stderr
        assert "^" in done.stderr
        assert "nothing was run" in done.stderr
    assert shell.budget()["entries"] == []


def test_more_than_one_statement_may_take(shell: Shell) -> None:
    done = shell("-c", "SELECT 1 AS a", "-c", top(3, "2.5"))
    assert (done.returncode, done.stdout) == (5, "")
    assert "allows one epsilon 2" in done.stderr


def test_settings_hold_for_the_statements_behind_them(shell: Shell) -> None:
    asked = "SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic TOP 2"
    done = shell("--dry-run", "-c", f"{asked}; SET dp_epsilon = 0.5; {asked}")
    assert [row["epsilon"] for row in rows(done.stdout)] == ["0.25", "0.0", "0.5"]


def test_files_of_every_format(shell: Shell) -> None:
    parquet, arrow = shell.folder / "a.parquet", shell.folder / "a.arrow"
    assert shell("--format", "parquet", "-o", str(parquet), "-c", top(4, "1")).returncode == 0
    assert shell("--format", "arrow", "-o", str(arrow), "-c", top(4, "1")).returncode == 0
    assert pq.read_table(parquet).equals(pa.ipc.open_file(arrow).read_all())
    done = shell("--format", "json", "-c", top(4, "1"))
    assert json.loads(done.stdout) == pq.read_table(parquet).to_pylist()


def test_free_statements_cost_nothing(shell: Shell) -> None:
    done = shell(
        *("--format", "markdown", "-c", f"EXPLAIN {top(3, '1')}; SHOW TABLES; DESCRIBE visits"),
        *("-c", "SHOW PRIVACY BUDGET; SHOW RELEASES; SELECT COUNT(*) AS n FROM diagnoses; SELECT 1"),
    )
    assert done.returncode == 0, done.stderr
    assert "| visits" in done.stdout
    assert "300 |" in done.stdout
    assert shell.budget()["entries"] == []


def test_a_broken_policy_is_a_usage_error(shell: Shell) -> None:
    shell.policy.write_text("[budget]\nepsilon = 1\nepsilonn = 2\n")
    done = shell("-c", "SELECT 1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dpsql: error: clinic.toml: ")
    assert "Hint: " in done.stderr


def test_a_read_that_ends_early_is_no_bug(shell: Shell) -> None:
    command = [
        sys.executable,
        "-m",
        "dpsql.cli",
        "-p",
        str(shell.policy),
        "-c",
        "SELECT * FROM range(2000000)",
    ]
    shell.budget()  # which announces the new ledger
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=shell.env) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == b"range\r\n"
        running.stdout.close()
        complaints = running.stderr.read()
        assert running.wait(60) == 1
    assert complaints == b""


@pytest.mark.parametrize("as_shell", [False, True])
def test_ctrl_c_stops_the_statement_and_keeps_the_charge(shell: Shell, *, as_shell: bool) -> None:
    shell("budget")
    asked = [] if as_shell else ["-c", SLOW, "-c", "SELECT 1"]
    with subprocess.Popen(
        [sys.executable, "-m", "dpsql.cli", "-p", str(shell.policy), *asked],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=shell.env,
    ) as running:
        assert running.stdin is not None
        if as_shell:
            running.stdin.write(f"{SLOW};\nSELECT 1;\n")
            running.stdin.flush()
        deadline = time.monotonic() + 60
        while "reserved" not in shell.states():
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, ""), err
    assert "stays charged" in err
    assert "Traceback" not in err
    assert shell.states() == ["cancelled"]
    assert shell.budget()["spent"]["epsilon"] == 1


def test_the_demo(shell: Shell) -> None:
    done = shell("demo", COLUMNS="100")
    assert done.returncode == 0, done.stderr
    answers = [part.splitlines() for part in done.stdout.split("\n\n")]
    assert len(answers) == 11
    # The main answer comes first.
    assert len(answers[0]) == 3 + 5 + 1 + 1
    assert "│ diagnosis " in answers[0][1]
    # The value lies anywhere in its interval: not in the middle, both ends are shown.
    assert re.search(r" ± [\d,.]+ | \([\d,.]+ to [\d,.]+\) ", answers[0][3])
    assert "█" in answers[0][3]
    assert answers[0][-1].startswith("epsilon 1 of 10 · noisy top-k with gap")
    # Without the ladder a search finds a bound, with it the range has what it leaves out.
    assert re.search(r"│ +(39|40)\d,\d00 (±|\()", answers[1][3])
    assert answers[2][0] == "visits: rows of a patient (ladder 1, epsilon 0.5)"
    assert any(re.match(r"│ above [\d,]+ +│ +-?\d+ ± 12 │", line) for line in answers[2])
    assert answers[3][0] == "visits.cost: total of cost of a patient (ladder 2, epsilon 0.5)"
    assert re.search(r"│ (39[5-9]|40\d),\d00 (\(39\d,\d00 to 4\d\d,\d00\)|± [2-9],\d00) │ █", answers[4][3])
    assert answers[4][5].startswith("left out: rows of a patient beyond ")
    assert re.search(r"│ +1,\d{3},000 (±|\()", answers[5][3])
    assert re.search(r"│ \d\d(\.\d+)? (± \d(\.\d+)?|\(\d\d(\.\d+)? to \d\d(\.\d+)?\)) +│ █", answers[5][3])
    assert re.fullmatch(r"│ +4\d(\.\d+)? │", answers[6][3])
    assert "rank off by at most" in answers[6][-1]
    assert answers[7][-1].startswith("epsilon 0.5 of 10 · box noise on every group")
    assert re.search(r"2023-\d\d-01|2024-\d\d-01", answers[8][3])
    assert "noisy max" in answers[8][-1]
    assert any("compiled_sql" in line for line in answers[9])
    assert all("…" not in line for line in answers[9])
    assert "remaining" in answers[10][1]
    assert [f"[{i} of 11]" in done.stderr for i in range(13)] == [False, *[True] * 11, False]
    assert "values of cost outside 0 to 200 are cut (policy)" in done.stderr
    assert "dpsql: error: the rows of a private table are counted, never shown" in done.stderr
    assert "cost nothing" in done.stderr
    assert "q leaves" not in done.stderr
    (folder,) = shell.folder.glob("dpsql-demo-*")
    assert f"dpsql -p {folder / 'clinic.toml'}" in done.stderr
    assert {"clinic.toml", "visits.parquet", "clinic-ledger.sqlite"} <= {
        file.name for file in folder.iterdir()
    }


def test_a_pipe_of_statements_and_commands(shell: Shell) -> None:
    done = shell(stdin=f".mode jsonl\n{top(2, '1')};\n.budget\nSELECT\n 1 AS a;\n.quit\nSELECT 2;\n")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 2 + 2 + 1
    assert answers[-1] == {"a": 1}
    assert answers[2]["remaining"] == "9"


def test_an_answer_does_not_wait_for_pandas(shell: Shell) -> None:
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "dpsql.cli",
        "-p",
        str(shell.policy),
        "-c",
        top(1, "1"),
    ]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", env=shell.env, timeout=120, check=False
    )
    assert done.returncode == 0
    assert len(rows(done.stdout)) == 1
    loaded = {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert {"duckdb", "pyarrow", "numpy", "sqlglot"} <= loaded
    # That pandas was looked for is listed as well, so what counts are its parts.
    assert not [name for name in loaded if name.startswith(("pandas.", "sqlalchemy.", "prompt_toolkit."))]


def test_a_file_of_eighty_statements_works_unattended(shell: Shell) -> None:
    script = shell.folder / "nightly.sql"
    asked = [
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.05) clinic, COUNT(DISTINCT patient_id) AS n "
        f"FROM visits WHERE minutes >= {i} GROUP BY clinic TOP 1"
        if i % 2
        else f"SELECT {i} AS i, COUNT(*) AS n FROM diagnoses -- the {i}th; free"
        for i in range(80)
    ]
    script.write_text("\n;\n".join(asked))
    answers = shell.folder / "answers.jsonl"
    done = shell("--format", "jsonl", "-o", str(answers), "-f", str(script))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-500:]
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    assert len(found) == 80
    assert [one["i"] for one in found[::2]] == list(range(0, 80, 2))
    assert "dpsql: statement 80 of 80" in done.stderr
    assert shell.budget()["spent"]["exact"]["epsilon"] == "2"
    # Once more it is free, and the same.
    again = shell("--format", "jsonl", "-f", str(script))
    assert again.stdout == answers.read_text()
    assert shell.budget()["spent"]["exact"]["epsilon"] == "2"
