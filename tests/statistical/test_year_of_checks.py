"""A year of checks on the shipped clinic, with five real changes: found, false, charged, and plain answers.

The forecast is a private release of the year before, so nothing of the private rows is expected by other
ways. The checks of the year are asked of the product once; with what they compare, the mechanism is then run
many times, for rates.
"""

from __future__ import annotations

import datetime
import os
import time
from dataclasses import dataclass, field
from fractions import Fraction
from math import log, sqrt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, NoiseSource
from dpsql.kernel.public_order import in_public_order
from dpsql.noise import SeededEntropy
from dpsql.policy import load
from dpsql.session import Session
from tests.served import clinic

EPSILON, MISSES = 2, 8
DAY = datetime.timedelta(days=1)
FIRST = datetime.date(2024, 1, 1)
WEEKS = 52
CHANGES = {
    "a day is lost": ("day", datetime.date(2024, 3, 5)),
    "a day is there twice, under other patients": ("day", datetime.date(2024, 5, 14)),
    "half of a day is lost": ("day", datetime.date(2024, 7, 9)),
    "a clinic's week is lost": ("week", datetime.date(2024, 9, 9)),
    "a clinic's week is there twice, under other patients": ("week", datetime.date(2024, 11, 11)),
}
"""What is changed, and the first day of it."""
BY_DAY = """CHECK year SELECT COUNT(DISTINCT patient_id) AS n FROM visits
    WHERE visit_date = ? EXPECT n = ? TOLERANCE ?"""
BY_CLINIC = """CHECK year SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits
    WHERE visit_date BETWEEN ? AND ? GROUP BY clinic EXPECT n FROM forecast"""


def changed_rows() -> str:
    """The visits of the clinic with the five changes."""
    others = "patient_id + 10000000"
    return f"""
    WITH visits AS (SELECT * FROM 'visits.parquet'), kept AS (
        SELECT * FROM visits WHERE visit_date <> DATE '2024-03-05'
        AND NOT (visit_date = DATE '2024-07-09' AND visit_id % 2 = 0)
        AND NOT (clinic = 'West Gate' AND visit_date BETWEEN DATE '2024-09-09' AND DATE '2024-09-15'))
    SELECT * FROM kept UNION ALL
    SELECT * REPLACE (visit_id + 10000000 AS visit_id, {others} AS patient_id) FROM visits
    WHERE visit_date = DATE '2024-05-14'
    OR (clinic = 'Harbour Street' AND visit_date BETWEEN DATE '2024-11-11' AND DATE '2024-11-17')"""


@dataclass
class Year:
    """What was asked in the year, and what was compared."""

    statistics: list[Fraction] = field(default_factory=list)
    real: list[bool] = field(default_factory=list)
    charged: Fraction = Fraction(0)
    off: list[str] = field(default_factory=list)
    plain: Fraction = Fraction(0)
    """The epsilon of the same year of plain answers that would find as much."""


def tolerance(plan: CheckStreamPlan, expected: float) -> int:
    """Far enough that nothing is off by chance: the noise of the checks, and four deviations of the data."""
    return round(plan.margin(366 + WEEKS * 20) + 4 * sqrt(max(expected, 1)) + 0.08 * expected)


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Year:
    folder = tmp_path_factory.mktemp("year")
    policy = clinic(folder, epsilon=10)
    os.chdir(folder)
    duckdb.sql(f"COPY ({changed_rows()}) TO 'changed.parquet'")
    (folder / "changed.parquet").replace(folder / "visits.parquet")
    found, plan = Year(), CheckStreamPlan.plan(EPSILON, MISSES)
    with policy.open("a") as file:
        file.write('\n[tables.forecast]\nsource = "forecast.parquet"\npublic = true\n')
    write_forecast(folder, {}, plan)
    session = Session(load(policy), "ann")
    by_day, by_clinic = forecasts(session)
    write_forecast(folder, by_clinic, plan)
    session.close()
    session = Session(load(policy), "ann")
    given: list[Fraction] = []
    check = CheckStream.check

    def record(stream: CheckStream, statistic: Fraction) -> Fraction | None:
        given.append(statistic)
        return check(stream, statistic)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckStream, "check", record)
        session.run(f"OPEN CHECKS year OPTIONS (epsilon = {EPSILON}, misses = {MISSES}, at_once = 20)")
        for number in range(366):
            ask_day(session, found, given, FIRST + number * DAY, by_day, plan)
    session.run("CLOSE STREAM year")
    row = session.run("SHOW STREAMS").table.to_pylist()[0]
    found.charged, found.statistics = Fraction(row["charged"]), given
    found.plain = price_of_plain_answers(session, plan)
    session.close()
    return found


def write_forecast(folder: Path, by_clinic: dict[str, float], plan: CheckStreamPlan) -> None:
    rows = by_clinic or {"West Gate": 0.0}
    expected = [round(each) for each in rows.values()]
    table = {"clinic": list(rows), "n": expected, "tolerance": [tolerance(plan, each) for each in expected]}
    pq.write_table(pa.table(table), folder / "forecast.parquet")
    old = time.time() - 60
    os.utime(folder / "forecast.parquet", (old, old))


def forecasts(session: Session) -> tuple[dict[tuple[int, int], float], dict[str, float]]:
    """What the year before was like: patients of a day by month and weekday, and of a week by clinic."""
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, max_groups_contributed = 16)"
    of_days = session.run(
        f"SELECT {options} visit_date AS day, COUNT(DISTINCT patient_id) AS n FROM visits "
        "WHERE visit_date < DATE '2024-01-01' GROUP BY day"
    ).table.to_pylist()
    sums: dict[tuple[int, int], list[float]] = {}
    for row in of_days:
        sums.setdefault((row["day"].month, row["day"].isoweekday()), []).append(row["n"])
    by_day = {place: max(sum(each) / len(each), 0.0) for place, each in sums.items()}
    of_clinics = session.run(
        f"SELECT {options.replace('groups_contributed = 16', 'rows_contributed = 30')} clinic, COUNT(*) AS n "
        "FROM visits WHERE visit_date < DATE '2024-01-01' GROUP BY clinic"
    ).table.to_pylist()
    return by_day, {row["clinic"]: row["n"] / WEEKS for row in of_clinics}


def ask_day(
    session: Session,
    found: Year,
    given: list[Fraction],
    day: datetime.date,
    by_day: dict[tuple[int, int], float],
    plan: CheckStreamPlan,
) -> None:
    wanted = round(by_day[day.month, day.isoweekday()])
    asked: list[tuple[str, list[Any]]] = [(BY_DAY, [day, wanted, tolerance(plan, wanted)])]
    if day.isoweekday() == 7:
        asked.append((BY_CLINIC, [day - 6 * DAY, day]))
    for text, values in asked:
        kind = "day" if text is BY_DAY else "week"
        first = day if kind == "day" else values[0]
        before = len(given)
        rows = session.run(text, values).table.to_pylist()
        for row in rows[: len(given) - before]:
            clinics = {"a clinic's week is lost": "West Gate"}
            real = any(
                (kind, first) == change
                and (kind == "day" or row["clinic"] == clinics.get(name, "Harbour Street"))
                for name, change in CHANGES.items()
            )
            found.real.append(real)
            if row["checked"] == "off":
                found.off.append(f"{first} {row.get('clinic', '')}{'' if real else ' (nothing had changed)'}")


def price_of_plain_answers(session: Session, plan: CheckStreamPlan) -> Fraction:
    """The same numbers with intervals that hold for all of them, as wide as the margin of the checks."""
    numbers = 366 + WEEKS * 20
    error = plan.margin(numbers) * log(20) / log(numbers / 0.05)  # that of one number
    options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (error = {error:.1f})"
    one = session.prepare(
        f"SELECT {options} COUNT(DISTINCT patient_id) AS n FROM visits WHERE visit_date = DATE '2024-03-05'"
    )
    week = session.prepare(
        f"SELECT {options} clinic, COUNT(DISTINCT patient_id) AS n FROM visits "
        "WHERE visit_date BETWEEN DATE '2024-03-04' AND DATE '2024-03-10' GROUP BY clinic"
    )
    return 366 * one.price.epsilon + WEEKS * week.price.epsilon


@pytest.mark.slow
def test_the_changes_are_found_and_little_is_charged(year: Year) -> None:
    plan = CheckStreamPlan.plan(EPSILON, MISSES)
    steps = np.array([float(each) for each in year.statistics]).round().astype(np.int64)
    real = np.array(year.real)
    runs = 4000
    off = plan.run(in_public_order(np.tile(steps, (runs, 1))), NoiseSource(SeededEntropy(5)))
    hit = np.zeros((runs, len(steps)), dtype=bool)
    for place in range(MISSES):
        there = off.index[:, place] >= 0
        hit[np.flatnonzero(there), off.index[there, place]] = True
    found, false = hit[:, real].sum(1).mean(), hit[:, ~real].sum(1).mean()
    per_miss = plan.check_epsilon + plan.answer_epsilon
    charged = float(plan.threshold_epsilon) + float(per_miss) * hit.sum(1).mean()
    print(
        f"{len(steps)} checks: once off {year.off}; found {found:.2f} of {real.sum()}, false {false:.3f}, "
        f"charged {charged:.2f} of {EPSILON} (that run: {float(year.charged):.2f}); "
        f"as plain answers {float(year.plain):.1f}"
    )
    assert real.sum() == 5
    assert found >= 4.9
    assert false <= 0.1
    assert charged < EPSILON
    assert year.plain > 10 * EPSILON
