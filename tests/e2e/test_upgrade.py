"""Policies and ledgers of earlier versions go on: nothing is to be edited, and what was spent and released
stays.

`upgrade/0.1` was written by version 0.1.0 (ledger version 2), `upgrade/0.2` by the last version before 1.0.0
(ledger version 8): each is the clinic's policy of that time, and a dump of the ledger after the same three
statements; in 0.2 also an average and kept bounds.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.kernel.ledger.schema import VERSION
from dpsql.policy import load
from dpsql.session import Session

ROOT = Path(__file__).parents[2]
OLD = Path(__file__).parent / "upgrade"
SPENT = {"0.1": Fraction(5, 2), "0.2": Fraction(15, 4)}
"""Of ten: by alice; 0.2 has another default epsilon, and one more statement and kept bounds for 1 each."""
STATEMENTS = {"0.1": 3, "0.2": 4}


@pytest.fixture(params=sorted(SPENT))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def policy(tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The old policy and ledger beside the data, on a machine that has not seen them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for file in (ROOT / "data").glob("*.parquet"):
        shutil.copy(file, tmp_path)
    shutil.copy(OLD / version / "clinic.toml", tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "clinic-ledger.sqlite")) as connection:
        connection.executescript((OLD / version / "ledger.sql").read_text())
    return tmp_path / "clinic.toml"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_old_policy_and_ledger_go_on(policy: Path, version: str) -> None:
    with dpsql.connect(policy, analyst="alice") as con:
        assert con.budget().spent.epsilon == SPENT[version]
        releases = con.execute("SHOW RELEASES").fetchall()
        assert len(releases) == STATEMENTS[version]
        answer = con.execute(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) sex, COUNT(*) AS n FROM patients "
            "GROUP BY sex"
        ).fetchall()
        assert {row[0] for row in answer if row[0]} == {"F", "M", "X"}
        assert con.budget().spent.epsilon == SPENT[version] + Fraction(1, 2)
        large = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, fresh = TRUE) COUNT(*) FROM patients"
        for _ in range(int((10 - con.budget().spent.epsilon) / 2)):
            con.execute(large)
        with pytest.raises(dpsql.BudgetExceeded):
            con.execute(large)
    with contextlib.closing(sqlite3.connect(policy.with_name("clinic-ledger.sqlite"))) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_old_ledger_holds_together_and_has_its_answers(policy: Path, version: str) -> None:
    with contextlib.closing(Session(load(policy), "alice")) as session:
        assert session.ledger.check() == []
        stored = [session.ledger.release(number, "alice") for number in range(1, STATEMENTS[version] + 1)]
        assert all(stored)


def test_a_ledger_of_a_later_version_is_refused_unchanged(policy: Path, version: str) -> None:
    path = policy.with_name("clinic-ledger.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(dpsql.Error, match="newer dpsql"):
        dpsql.connect(policy, analyst="alice").execute("SHOW PRIVACY BUDGET")
    assert path.read_bytes() == before
