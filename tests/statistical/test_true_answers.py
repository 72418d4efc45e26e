"""The command that measures default answers, in small; the best bounds that it compares with."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.statistical.true_answers import Exact, main
from tests.statistical.whole_data import SETS

CLINIC = SETS[0]


def test_the_best_bound_of_few_units(tmp_path: Path) -> None:
    """Ten units of one row and one of 100: a bound of B cuts 100 - B rows, and has B times the noise of 1."""
    with duckdb.connect() as own:
        rows = (
            "SELECT LEAST(i, 10) AS patient_id, 'a' AS clinic, 2.0 AS cost, 4 AS minutes FROM range(110) r(i)"
        )
        own.execute(f"COPY ({rows}) TO '{tmp_path / 'whole.parquet'}'")
    exact = Exact(CLINIC, tmp_path)
    assert (exact.answer("COUNT"), exact.answer("AVG"), exact.answer("GROUP BY")) == (110, 4, {"a": 110})
    assert exact.best("COUNT", lambda text: 64 * 3.0) == pytest.approx(((3 * 10) ** 2 + 90**2) ** 0.5)
    assert exact.best("COUNT", lambda text: 64 * 0.01) == pytest.approx(0.01 * 100, rel=0.2)
    assert exact.best("GROUP BY", lambda text: 0.0) == 0


@pytest.mark.slow  # the command of the long measurement
def test_the_command_measures_both_states(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "clinic", "gowalla", "--runs", "2", "--whole", "1", "--kinds", "COUNT"]) == 0
    said = capsys.readouterr().out.splitlines()
    (searched, kept), missing = said[1:3], said[3]
    assert searched.split()[:3] == ["clinic", "COUNT", "none"]
    assert kept.split()[:3] == ["clinic", "COUNT", "kept"]
    assert searched.endswith("of 1")
    assert "its file is not in the folder" in missing
