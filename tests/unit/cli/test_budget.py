"""`dpsql budget` over a real ledger, and its chart."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.errors import OperationalError
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.ledger import LadderRequest, Ledger
from dpsql.policy import load
from dpsql.render.grid import Style
from dpsql.render.plots import chart

POLICY = """
[budget]
epsilon = 10
delta = 1e-6
ledger = "ledger.sqlite"
[analysts.ada]
epsilon = 2
delta = 1e-7
[analysts."*"]
epsilon = 10
delta = 1e-6
[tables.visits]
source = "visits.csv"
unit = "patient_id"
columns = { patient_id = "BIGINT" }
"""

Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "dpsql.toml"
    path.write_text(POLICY)
    (tmp_path / "visits.csv").write_text("patient_id\n1\n")
    return path


@pytest.fixture
def shell(policy: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "100")

    def go(*args: str) -> tuple[int, str, str]:
        code = main(["-p", str(policy), *args])
        out, err = capfd.readouterr()
        return code, out, err

    return go


def spend(policy: Path, analyst: str, charge: Charge, statement: str = "SELECT 1") -> None:
    with Ledger.of(load(policy)) as ledger:
        reservation = ledger.reserve(
            analyst=analyst, statement=statement, selection="top-k", mechanism="noisy top-k", charge=charge
        )
        ledger.settle(reservation, charge, release=b"", reuse_key=None)


def test_an_unspent_budget(shell: Shell) -> None:
    code, out, err = shell("budget")
    assert code == 0
    assert err.endswith("ledger.sqlite: nothing is spent yet\n")
    assert shell("budget") == (0, out, "")
    assert out.splitlines()[3:5] == [
        "│ epsilon │     0 │        10 │    10 │",
        "│ delta   │     0 │      1e-6 │  1e-6 │",
    ]
    assert out.splitlines()[-1] == "nothing was asked yet"


def test_what_is_spent_is_rounded_up_and_what_is_left_down(shell: Shell, policy: Path) -> None:
    spend(policy, "ada", Charge(Fraction(1, 3), Fraction(1, 10**9)), "SELECT\n  '\x1b[31m'")
    spend(policy, "bob", Charge(Fraction(1, 2)))
    code, out, _ = shell("budget")
    assert code == 0
    assert "│ epsilon │ 0.8334 │     9.166 │    10 │" in out
    assert "│ delta   │   1e-9 │   9.99e-7 │  1e-6 │" in out
    assert r"SELECT '\x1b[31m'" in out
    assert "│     2 │" in out
    # Whether a statement came to an end is for the owner's eyes.
    assert "settled" not in out


def test_one_analysts_budget(shell: Shell, policy: Path) -> None:
    spend(policy, "ada", Charge(Fraction(1, 2)))
    spend(policy, "bob", Charge(Fraction(1)))
    code, out, _ = shell("--analyst", "ada", "budget")
    assert code == 0
    assert "│ epsilon │   0.5 │       1.5 │     2 │" in out
    assert "bob" not in out


def test_json_is_exact_too(shell: Shell, policy: Path) -> None:
    spend(policy, "ada", Charge(Fraction(1, 3)))
    spend(policy, "bob", Charge(Fraction(2, 3), Fraction(1, 10**9)))
    for args in (("budget", "--json"), ("--format", "json", "budget")):
        code, out, _ = shell(*args)
        assert code == 0
        found = json.loads(out)
        assert found["spent"]["epsilon"] == 1
        assert found["remaining"]["exact"] == {"epsilon": "9", "delta": "999/1000000000"}
        assert [e["analyst"] for e in found["entries"]] == ["ada", "bob"]
        assert found["entries"][0]["epsilon"] == 0.3334
        assert found["entries"][0]["exact"]["epsilon"] == "1/3"
        assert "state" not in found["entries"][0]


def test_the_report_goes_to_a_file(shell: Shell, tmp_path: Path) -> None:
    code, out, _ = shell("-o", str(tmp_path / "b.json"), "budget", "--json")
    assert (code, out) == (0, "")
    assert json.loads((tmp_path / "b.json").read_text())["total"]["epsilon"] == 10
    assert shell("-o", str(tmp_path / "no" / "b"), "budget")[0] == ExitCode.USAGE
    assert shell("--format", "csv", "budget")[0] == ExitCode.USAGE


def fail(policy: Path, analyst: str, times: int) -> None:
    with Ledger.of(load(policy)) as ledger:
        for _ in range(times):
            ledger.fail(
                ledger.reserve(
                    analyst=analyst,
                    statement="SELECT 1",
                    selection="top-k",
                    mechanism="noisy top-k",
                    charge=Charge(Fraction(1, 10)),
                )
            )


@pytest.mark.parametrize("who", [(), ("--analyst", "ada")])
def test_clearing_failures_lets_an_analyst_ask_again(
    shell: Shell, policy: Path, who: tuple[str, ...]
) -> None:
    fail(policy, "ada", 3)
    with pytest.raises(OperationalError):
        fail(policy, "ada", 1)
    code, out, err = shell(*who, "budget", "--clear-failures")
    assert (code, out) == (0, "")
    assert "cleared" in err
    fail(policy, "ada", 1)


def test_clearing_another_analysts_failures_helps_nobody_else(shell: Shell, policy: Path) -> None:
    fail(policy, "ada", 3)
    shell("--analyst", "bob", "budget", "--clear-failures")
    with pytest.raises(OperationalError):
        fail(policy, "ada", 1)


def test_check_finds_a_sound_ledger_sound(shell: Shell, policy: Path) -> None:
    spend(policy, "ada", Charge(Fraction(1, 3)))
    code, out, err = shell("budget", "check")
    assert (code, out) == (0, "")
    assert "sound" in err


def test_check_finds_a_changed_total(shell: Shell, policy: Path) -> None:
    spend(policy, "ada", Charge(Fraction(1, 3)))
    with sqlite3.connect(policy.parent / "ledger.sqlite") as connection:
        connection.execute("UPDATE total SET epsilon = '0/1' WHERE name = 'policy'")
    connection.close()
    code, _, err = shell("budget", "check")
    assert code == ExitCode.DATABASE
    assert err.startswith("dpsql: error: the total of policy")


def test_the_check_goes_through_all_events(shell: Shell, policy: Path) -> None:
    spend(policy, "ada", Charge(Fraction(1, 3)))
    spend(policy, "ada", Charge(Fraction(1, 3)))
    assert shell("budget", "--check")[0] == 0
    with sqlite3.connect(policy.parent / "ledger.sqlite") as connection:
        connection.execute("DROP TRIGGER event_is_final")
        connection.execute("UPDATE event SET record = replace(record, '1/3', '1/4') WHERE n = 4")
    connection.close()
    for command in (("budget", "--check"), ("budget", "check")):
        code, _, err = shell(*command)
        assert code == ExitCode.DATABASE
        assert "dpsql: error: event 4 is not what it was when it was written" in err
    assert shell("budget")[0] == 0, "the newest events are as they were"


def test_a_receipt_is_known_by_its_ledger_alone(shell: Shell, policy: Path) -> None:
    spend(policy, "ada", Charge(Fraction(1, 3)))
    code, head, err = shell("budget", "--head")
    assert (code, err) == (0, "")
    number, digits = head.strip().split("-")
    assert (number, len(digits)) == ("5", 16)
    assert json.loads(shell("budget", "--json")[1])["head"] == head.strip()
    spend(policy, "ada", Charge(Fraction(1, 3)))
    code, out, err = shell("budget", "--receipt", head)
    assert (code, out) == (0, "")
    assert "has event 5" in err
    other = f"5-{'0' * 16}"
    for receipt, says in (
        (f"99-{digits}", "has no event 99, its newest is 7-"),
        (other, f"event 5 of the ledger is {head.strip()}"),
    ):
        code, out, err = shell("budget", "--receipt", receipt)
        assert (code, out) == (ExitCode.QUERY_FAILED, "")
        assert says in err
    for wrong in ("", "4", "x-1", f"{number}-", "--no"):
        assert shell("budget", f"--receipt={wrong}")[0] == ExitCode.USAGE
    assert shell("budget", "--head", "--check")[0] == ExitCode.USAGE


def test_a_damaged_ledger_is_a_database_error(shell: Shell, policy: Path) -> None:
    (policy.parent / "ledger.sqlite").write_bytes(b"nonsense" * 1000)
    for command in (("budget",), ("budget", "check")):
        code, out, err = shell(*command)
        assert (code, out) == (ExitCode.DATABASE, "")
        assert err.startswith("dpsql: error: the ledger ")


@pytest.mark.parametrize("args", [("budget", "--json", "check"), ("budget", "nonsense"), ("budget", "--no")])
def test_usage(shell: Shell, args: tuple[str, ...]) -> None:
    code, out, err = shell(*args)
    assert (code, out) == (ExitCode.USAGE, "")
    assert "Hint: dpsql budget" in err


def test_many_entries_are_cut_in_the_report_alone(shell: Shell, policy: Path) -> None:
    for _ in range(25):
        spend(policy, "bob", Charge(Fraction(1, 100)))
    out = shell("budget")[1]
    assert out.splitlines()[-1] == "the latest 20 of 25 entries; --json has all"
    assert len(json.loads(shell("budget", "--json")[1])["entries"]) == 25


# -- the chart

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_chart() -> None:
    charges = [
        (START, Fraction(1)),
        (START + timedelta(days=1), Fraction(4)),
        (START + timedelta(days=2), Fraction(5)),
    ]
    assert chart(charges, Fraction(10), Style(46)).splitlines() == [
        "10 ┤                                        █",
        "   │                                        █",
        "   │                    ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄█",
        "   │                    █████████████████████",
        "   │▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄█████████████████████",
        " 0 ┼─────────────────────────────────────────",
        "    2026-03-01 12:00         2026-03-03 12:00",
    ]


def test_chart_in_ascii_and_of_one_moment() -> None:
    drawn = chart([(START, Fraction(1, 100))], Fraction(10), Style(30, "ascii")).splitlines()
    assert drawn == [
        "10 +",
        "   |",
        "   |",
        "   |",
        "   |#########################",
        " 0 +-------------------------",
        "    2026-03-01 12:00",
    ]


def test_no_chart() -> None:
    assert chart([], Fraction(10), Style(80)) == ""
    assert chart([(START, Fraction(1))], Fraction(0), Style(80)) == ""
    assert chart([(START, Fraction(1))], Fraction(10), Style(12)) == ""


def test_a_budget_of_two_sums(shell: Shell, policy: Path) -> None:
    lines = ("epsilon = 10", "delta = 1e-6")
    text = policy.read_text().replace("\n".join(lines), "\n".join([*lines, 'accounting = "zcdp"']), 1)
    policy.write_text(text)
    spend(policy, "ada", Charge(Fraction(1, 10)))
    code, out, _ = shell("budget")
    assert code == 0
    assert [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()[3:7]] == [
        ["epsilon", "10", "0.1", "300 more of 0.1"],
        ["delta", "1e-6", "5e-7 conversion, 0 unknown domains", "5e-7"],
        ["basic way", "10", "0.1", "99 more of 0.1"],
        ["order way", "5.89065", "0.0195234", "300 more of 0.1 (alpha 3.98437)"],
    ]
    found = json.loads(shell("budget", "--json")[1])
    assert found["accounting"] == "zcdp"
    assert found["order_way"]["alpha"] == 3.984375
    assert found["entries"][0]["loss"] == "pure 1/10"


def test_kept_ladders_are_listed_and_count_for_each_analyst(policy: Path, shell: Shell) -> None:
    with Ledger.of(load(policy)) as ledger:
        half = Fraction(1, 2)
        loss = PrivacyLoss.of(half / 2, times=2)
        asked = [
            LadderRequest("visits", what, "v1", "dpsql bounds visits", loss) for what in ("rows", "cost")
        ]
        kept, _ = ledger.reserve_ladders(asked)
        ledger.settle_ladder(kept, b"bins")
    code, out, _ = shell("--analyst", "ada", "budget")
    assert code == ExitCode.OK
    lines = [" ".join(line.replace("│", " ").split()) for line in out.splitlines()]
    assert any(line.startswith("epsilon 1 1 2") for line in lines), out
    when = f"{datetime.now(UTC):%Y}"
    assert any(line.startswith(f"1 {when}") and line.endswith("visits rows 0.5 yes") for line in lines), out
    assert any(line.endswith("visits cost 0.5 no") for line in lines), out
    assert "each budget has paid for all of them" in out
    code, out, _ = shell("--analyst", "new", "budget", "--json")
    found = json.loads(out)
    assert found["spent"]["exact"]["epsilon"] == "1"
    assert [(each["measure"], each["kept"], each["epsilon"]) for each in found["ladders"]] == [
        ("rows", True, 0.5),
        ("cost", False, 0.5),
    ]
    assert shell("budget", "--check")[0] == ExitCode.OK
