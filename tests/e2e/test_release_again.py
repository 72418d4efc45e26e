"""An earlier answer, read back by its number: the same rows, at no cost, and nobody else's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dpsql
from dpsql.cli import main

DATA = Path(dpsql.__file__).parent.parent / "data"
ASKED = "SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic TOP 3"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    for name in ("clinic.toml", "visits.parquet", "patients.parquet", "diagnoses.parquet"):
        shutil.copy(DATA / name, tmp_path)
    return tmp_path / "clinic.toml"


def test_a_release_is_read_back_by_its_number(policy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with dpsql.connect(policy, analyst="alice") as con:
        first = con.execute(ASKED).release
        spent = con.budget().spent
        assert first is not None
        assert first.number is not None
        again = con.release(first.number)
        assert again.rows == first.rows
        assert again.charge == first.charge
        # Each answer has the receipt of what it cost, also when it is given again.
        assert again.receipt == first.receipt
        reused = con.execute(ASKED).release
        assert reused is not None
        assert reused.reused is not None
        assert reused.receipt == first.receipt
        assert con.budget().spent == spent
    with (
        dpsql.connect(policy, analyst="bob") as con,
        pytest.raises(dpsql.ProgrammingError, match="no release"),
    ):
        con.release(first.number)
    assert first is not None
    assert (
        main(["-p", str(policy), "--analyst", "alice", "--format", "csv", "release", str(first.number)]) == 0
    )
    lines = capfd.readouterr().out.splitlines()
    assert main(["-p", str(policy), "budget", "--receipt", first.receipt]) == 0
    told = ["-p", str(policy), "--analyst", "alice", "--format", "csv", "-c", f"SHOW RELEASE {first.number}"]
    assert main(told) == 0
    assert f'""receipt"":""{first.receipt}""' in capfd.readouterr().out.replace(": ", ":")
    assert lines[0] == "clinic,n"
    assert [line.partition(",")[0] for line in lines[1:]] == first.rows.column("clinic").to_pylist()
    assert main(["-p", str(policy), "--analyst", "bob", "release", str(first.number)]) == 1
    assert "no release" in capfd.readouterr().err


def test_the_budget_says_who_and_what_spent(policy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for analyst, limit in (("alice", 3), ("bob", 4)):
        with dpsql.connect(policy, analyst=analyst) as con:
            con.execute(
                f"SELECT clinic FROM visits GROUP BY clinic TOP {limit} BY COUNT(DISTINCT patient_id)"
            )
    assert main(["-p", str(policy), "budget"]) == 0
    out = capfd.readouterr().out
    assert "by analyst" in out
    assert "by mechanism" in out
    assert "alice" in out
    assert "bob" in out
