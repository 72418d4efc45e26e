"""`dpsql checks run`, and what `dpsql budget` has of streams: exit codes, reports, one day after another."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.ledger import Ledger
from dpsql.policy import load
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 1000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
day = { from = 2026-01-01, to = 2026-12-31, complete = true }
page = { values = ["a", "b", "c"], complete = true }
"""
VISITS = """SELECT i AS user_id, ['a', 'b', 'c'][i % 3 + 1] AS page,
    DATE '2026-01-01' + (i % 2)::INTEGER AS day
FROM range(6000) t(i) WHERE i % 6 <> 5"""
CHECKS = """-- what every day looks like
OPEN CHECKS daily OPTIONS (epsilon = 300, misses = 6, tolerance = 100);
CHECK daily SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE day = $day GROUP BY page
  EXPECT n = 1000;
CHECK daily SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE day = $day EXPECT n AT MOST 3500;
"""
Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_world(tmp_path, POLICY, visits=VISITS)
    (tmp_path / "daily.sql").write_text(CHECKS)
    return tmp_path


@pytest.fixture
def shell(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(folder)

    def go(*args: str) -> tuple[int, str, str]:
        code = main([*args])
        return (code, *capfd.readouterr())

    return go


def test_days_one_after_the_other(shell: Shell, folder: Path) -> None:
    """The first opens the stream, which the second finds open; what was asked before is free."""
    code, out, _ = shell("checks", "run", "daily.sql", "--set", "day=2026-01-01")
    assert code == 0, out
    assert out.startswith("2 checks: 0 off, 0 in error\n")
    code, out, _ = shell("checks", "run", "daily.sql", "--set", "day=2026-01-02", "--report", "day.html")
    assert (code, int(ExitCode.OFF)) == (6, 6)
    assert "daily.sql:3" in out
    assert "off" in out
    page = (folder / "day.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "off: daily.sql:3" in page
    with Ledger.of(load(folder / "dpsql.toml")) as ledger:
        before = ledger.streams.list()[0]
    assert shell("checks", "run", "daily.sql", "--set", "day=2026-01-02")[0] == 6
    with Ledger.of(load(folder / "dpsql.toml")) as ledger:
        assert ledger.streams.list()[0] == before
        assert ledger.budget().spent.epsilon == 300
        assert ledger.check() == []


def test_a_report_as_json(shell: Shell, folder: Path) -> None:
    code, out, _ = shell(
        "--format", "json", "checks", "run", "daily.sql", "--set", "day=2026-01-02", "--report", "day.json"
    )
    found = json.loads(out)
    assert found["exit_code"] == code == 6
    assert [each["state"] for each in found["checks"]] == ["off", "as expected"]
    (off,) = [row for row in found["checks"][0]["rows"] if row["checked"] == "off"]
    assert off["page"] == "c"
    assert abs(off["n"]) < 60
    assert found["streams"][0]["left"] == 5
    later = json.loads((folder / "day.json").read_text("utf-8"))
    assert later == found


def test_an_error_comes_before_what_is_off(shell: Shell, folder: Path) -> None:
    """The other checks run all the same."""
    text = CHECKS + "CHECK daily SELECT MAX(user_id) AS n FROM visits EXPECT n = 5;\n"
    (folder / "daily.sql").write_text(text.replace("EXPECT n AT MOST 3500", "EXPECT n AT MOST 10"))
    code, out, err = shell("checks", "run", "daily.sql", "--set", "day=2026-01-01")
    assert code == ExitCode.REFUSED
    assert out.startswith("3 checks: 1 off, 1 in error\n")
    assert "daily.sql:6" in err


def test_misses_that_are_used_up(shell: Shell, folder: Path) -> None:
    (folder / "daily.sql").write_text(CHECKS.replace("misses = 6", "misses = 1"))
    assert shell("checks", "run", "daily.sql", "--set", "day=2026-01-02")[0] == ExitCode.DATABASE
    code, out, _ = shell("checks", "run", "daily.sql", "--set", "day=2026-01-01")
    assert code == ExitCode.DATABASE
    assert "REFILL STREAM daily" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["checks", "run", "nowhere.sql"], "cannot read nowhere.sql"),
        (["checks", "run", "daily.sql", "--report", "day.pdf"], "ends in .html"),
        (["checks", "run", "daily.sql", "--report", "no/day.html"], "there is no folder"),
        (["checks", "run", "daily.sql", "--set", "day"], "NAME=VALUE"),
        (["--format", "csv", "checks", "run", "daily.sql"], "as a table or as JSON"),
        (["checks", "run", "other.sql"], "the file has OPEN, CHECK"),
    ],
)
def test_wrong_use_asks_nothing(shell: Shell, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "other.sql").write_text("SELECT COUNT(*) FROM visits;")
    code, _, err = shell(*arguments)
    assert code == ExitCode.USAGE
    assert message in err
    with Ledger.of(load(folder / "dpsql.toml")) as ledger:
        assert ledger.entries() == []


def test_the_owner_lists_and_closes_streams(shell: Shell, folder: Path) -> None:
    shell("checks", "run", "daily.sql", "--set", "day=2026-01-02")
    code, out, _ = shell("budget", "--streams")
    assert code == 0
    assert "daily" in out
    (row,) = json.loads(shell("--format", "json", "budget", "--streams")[1])
    assert (row["analyst"], row["state"], row["left"]) == ("analyst", "open", 5)
    code, _, err = shell("budget", "--close-stream", "daily")
    assert code == 0
    assert "the stream daily of analyst is closed" in err
    with Ledger.of(load(folder / "dpsql.toml")) as ledger:
        assert ledger.budget().spent.epsilon < Fraction(150)
    code, _, err = shell("budget", "--close-stream", "daily")
    assert (code, "has no open stream" in err) == (ExitCode.QUERY_FAILED, True)


def test_an_upload_is_a_table_of_the_statements(shell: Shell, folder: Path) -> None:
    (folder / "p17.csv").write_text("user_id,longer\n1,true\n2,false\n")
    count = ("-c", "SELECT COUNT(*) AS n FROM p17")
    code, out, err = shell("--format", "csv", "--upload", "p17=p17.csv", *count)
    assert (code, out.split()) == (ExitCode.OK, ["n", "2"]), err
    wrong = {"p17": "NAME=FILE", "p17=nowhere.csv": "cannot be read", "visits=p17.csv": "of the policy"}
    for given, message in wrong.items():
        code, _, err = shell("--upload", given, *count)
        assert code
        assert message in err
