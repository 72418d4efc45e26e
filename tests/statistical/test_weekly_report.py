"""The weekly dashboard as a report: what it errs over a year through the real code, and what each week bears.

Six statements a week: sign-ups of the week in all, by country, by channel; since the beginning by country and
in all; of the last four weeks by channel. One by one, in one budget, they err by 441 at epsilon 1.
"""

from __future__ import annotations

import datetime as clock
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.policy import load
from dpsql.session import Session
from tests.statistical.test_weekly_dashboard import COUNTRIES, FIRST, POLICY

WEEKS = 52
SELECT = "SELECT WITH DIFFERENTIAL_PRIVACY"
PERIODS = (
    "date_trunc('week', signed_up) = :part",
    f"signed_up >= DATE '{FIRST}' AND signed_up < :part + INTERVAL 7 DAY",
    f"signed_up >= greatest(:part - INTERVAL 21 DAY, DATE '{FIRST}') AND signed_up < :part + INTERVAL 7 DAY",
)
ASKED = (("", 0), ("country", 0), ("channel", 0), ("country", 1), ("", 1), ("channel", 2))
"""The key and the period of each statement."""


def statement(key: str, period: int, start: str = SELECT) -> str:
    named, group = (f"{key}, ", f" GROUP BY {key}") if key else ("", "")
    return f"{start} {named}COUNT(*) AS n FROM signups WHERE {PERIODS[period]}{group}"


@pytest.mark.slow
def test_a_year_of_a_report_errs_little_and_each_week_bears_its_budget(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TABLE signups AS SELECT i AS user_id, DATE '{FIRST}' + CAST(i % {7 * WEEKS} AS INTEGER)"
            f" AS signed_up, 'c' || hash(i) % {COUNTRIES} AS country, 'h' || hash(i + 0.5) % 6 AS channel"
            " FROM range(40000) t(i)"
        )
        connection.execute(f"COPY signups TO '{tmp_path / 'signups.parquet'}' (FORMAT parquet)")
        policy = POLICY.replace('moves = "trusted"', 'moves = "trusted"\nclosed_after = "1 days"')
        (tmp_path / "dpsql.toml").write_text(policy + 'not_null = ["signed_up"]\n')
        session = Session(load(tmp_path / "dpsql.toml"), analyst="ann")
        script = ";\n".join(statement(*each) for each in ASKED)
        session.reports.register(
            session.reports.plan_registration("weekly", script, share=1, per="NUMBER"), keep=True
        )
        errors: list[float] = []
        inside: list[bool] = []
        for week in range(WEEKS):
            monday = FIRST + clock.timedelta(days=7 * week)
            year, number, _ = monday.isocalendar()
            answers = session.reports.execute(session.reports.plan_run("weekly", f"{year}-W{number:02}"))
            for (key, period), answer in zip(ASKED, answers, strict=True):
                text = statement(key, period, "SELECT").replace(":part", f"DATE '{monday}'")
                true = {row.get(key): row["n"] for row in connection.sql(text).to_arrow_table().to_pylist()}
                assert answer.release is not None
                for row in answer.release.table.to_pylist():
                    exact: Any = true.get(row.get(key), 0)
                    errors.append(row["n"] - exact)
                    inside.append(row["n_low"] <= exact <= row["n_high"])
        assert session.budget().spent.epsilon <= 1
        assert session.ledger.total_in_sequence() <= WEEKS  # type: ignore[operator]  # every loss has an epsilon
        assert session.ledger.check() == []
        session.close()
    assert len(errors) == 1976
    assert (
        float(np.sqrt(np.mean(np.square(errors)))) <= 10.5
    )  # 8.4 in the mean, and running totals go together
    assert np.mean(inside) > 0.85
