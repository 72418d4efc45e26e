"""A clinic's dashboard over weeks, where a unit is a patient in one week: how far it errs, cut included."""

from __future__ import annotations

import shutil
from datetime import date, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.policy import load
from dpsql.session import Session

DATA = Path(__file__).parents[2] / "data"
WEEKS, RUNS = 12, 4


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The shipped clinic, with the two lines of the documents."""
    text = (DATA / "clinic.toml").read_text()
    for old, new in (
        ("epsilon = 10\ndelta = 1e-5\nmax", "epsilon = 1\nhigh_water = false\ndelta = 1e-5\nmax"),
        ("max_epsilon_per_query = 2\n", ""),
        ('unique = [["visit_id"]]\n', UNIT),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    text = text.replace('[analysts."*"]', "").replace("epsilon = 10\ndelta = 1e-5\n", "")
    for name in ("patients", "visits", "diagnoses"):
        shutil.copy(DATA / f"{name}.parquet", tmp_path)
    (tmp_path / "clinic.toml").write_text(text)
    return tmp_path / "clinic.toml"


UNIT = """unique = [["visit_id"]]
unit_period = { column = "visit_date", every = "week" }
rows_per_unit = 3
"""


def test_a_week_errs_by_little_and_what_is_added_up_goes_on(policy: Path) -> None:
    weekly, to_date = list[float](), list[float]()
    for _ in range(RUNS):
        session = Session(load(policy))
        so_far: dict[str, float] = {}
        for first in (date(2024, 9, 2) + timedelta(days=7 * week) for week in range(WEEKS)):
            where = f"date_trunc('week', visit_date) = DATE '{first}'"
            rows = session.run(
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) clinic, COUNT(*) AS n FROM visits"
                f" WHERE {where} GROUP BY clinic"
            ).table
            exact = dict(
                duckdb.execute(
                    f"SELECT clinic, COUNT(*) FROM '{policy.parent / 'visits.parquet'}'"
                    f" WHERE patient_id IS NOT NULL AND {where} GROUP BY 1"
                ).fetchall()
            )
            told = dict(zip(*(column.to_pylist() for column in rows.columns[:2]), strict=True))
            for clinic, n in exact.items():
                weekly.append(told[clinic] - n)
                so_far[clinic] = so_far.get(clinic, 0) + told[clinic] - n
                to_date.append(so_far[clinic])
        assert session.ledger.budget().spent.epsilon == 1
        session.close()
        for file in policy.parent.glob("*ledger*"):
            file.unlink()
    errors = [float(np.sqrt(np.mean(np.square(each)))) for each in (weekly, to_date)]
    assert errors[0] <= 5, errors
    assert errors[1] <= 14, errors  # each clinic's sum of up to twelve weeks
