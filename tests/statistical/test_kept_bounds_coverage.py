"""Statements over all visits of the clinic with kept ladders: coverage of the exact answer, and errors.

Exact answers are those of plain SQL on the rows that have a patient. If intervals covered with probability
.95, and each run by itself, a count of covered runs would fall below `fewest` with probability 1e-9; they
cover more. Errors are compared with the best constant bound on rows, which knows the data, in the long form.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy.stats import binom

from tests.statistical.kept_answers import Asked, asked
from tests.statistical.kept_totals import best_error

DATA = Path(__file__).parents[2] / "data"
KEPT = Fraction(1, 2)
"""The epsilon of ladders."""
SHORT, LONG = 30, 200


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the clinic's policy with a ledger of its own and no end of its budget."""
    folder = tmp_path_factory.mktemp("clinic")
    for name in ("patients", "visits", "diagnoses"):
        (folder / f"{name}.parquet").symlink_to(DATA / f"{name}.parquet")
    text = (DATA / "clinic.toml").read_text(encoding="utf-8").replace("epsilon = 10\n", "epsilon = 1e6\n")
    (folder / "clinic.toml").write_text(text, encoding="utf-8")
    return folder / "clinic.toml"


@pytest.fixture(scope="module")
def short(policy: Path) -> Iterator[Asked]:
    with asked(policy, ("visits",), KEPT, SHORT) as made:
        yield made


@pytest.fixture(scope="module")
def long(policy: Path) -> Iterator[Asked]:
    with asked(policy, ("visits", "visits.cost"), KEPT, LONG) as made:
        yield made


@cache
def exact(what: str, key: str = "") -> dict[object, float]:
    """Return what plain SQL says of the rows that have a patient, by key; that of all rows is of None."""
    by = f"{key} AS k" if key else "NULL AS k"
    sql = f"SELECT {by}, {what} FROM read_parquet(?) WHERE patient_id IS NOT NULL GROUP BY k"
    with duckdb.connect() as own:
        rows = own.execute(sql, [str(DATA / "visits.parquet")]).fetchall()
    return {_day(k): float(v) for k, v in rows}


def _day(key: object) -> object:
    """Return a key as answers have it: the first day of a month is a date."""
    return date.fromisoformat(str(key)[:10]) if hasattr(key, "isoformat") else key


def whole(what: str) -> float:
    return exact(what)[None]


def fewest(runs: int) -> int:
    """Return the number of covered runs that intervals of 95% fall below with probability 1e-9."""
    return int(binom.ppf(1e-9, runs, 0.95))


def with_bound(text: str, bound: int) -> str:
    options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = {bound})"
    return text.replace("SELECT", f"SELECT {options}", 1)


COUNT = "SELECT COUNT(*) AS n FROM visits"
BY = "SELECT {0} AS k, COUNT(*) AS n FROM visits GROUP BY 1"
TOP = "SELECT diagnosis_code, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC LIMIT 10"
MONTH = "date_trunc('month', visit_date)"


def test_a_count_is_covered(short: Asked) -> None:
    found = short.answered(COUNT, "n", whole("COUNT(*)"))
    assert found.covered.sum() >= fewest(SHORT)
    assert found.error < 0.02 * whole("COUNT(*)")


def test_a_count_with_a_bound_that_cuts_a_tenth_is_covered(short: Asked) -> None:
    found = short.answered(with_bound(COUNT, 20), "n", whole("COUNT(*)"))
    assert found.covered.sum() >= fewest(SHORT)
    assert not found.by_noise.any()


def test_groups_are_covered_and_add_up(short: Asked) -> None:
    found = short.answered(BY.format("clinic"), "n", exact("COUNT(*)", "clinic"))
    assert found.covered.mean() >= 0.95 > found.by_noise.mean()
    assert found.added < 0.015


def test_the_largest_groups_are_covered(short: Asked) -> None:
    found = short.answered(TOP, "n", exact("COUNT(*)", "diagnosis_code"))
    assert found.covered.mean() >= 0.95
    assert found.added < 0.035


PATIENTS = "SELECT visit_date AS k, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY 1"


@pytest.mark.slow  # groups are covered every day
def test_patients_of_days_are_covered_and_add_up(policy: Path) -> None:
    """The bound on the days of a patient, about 11, leaves out a quarter of what all days add up to."""
    with asked(policy, ("visits by visit_date",), KEPT, SHORT) as made:
        found = made.answered(PATIENTS, "n", exact("COUNT(DISTINCT patient_id)", "visit_date"))
    print(found.covered.mean(), found.by_noise.mean(), found.error, found.added, found.width)
    assert found.covered.mean() >= 0.95 > found.by_noise.mean()
    assert found.added < 0.03
    assert found.error < 110


@pytest.mark.slow
def test_a_count_is_near_that_of_the_best_bound(long: Asked) -> None:
    """A rung that is too large is rare and costs much: `test_kept_ladder` says how often 2.5 is exceeded."""
    with duckdb.connect() as own:
        sql = "SELECT COUNT(*) FROM read_parquet(?) WHERE patient_id IS NOT NULL GROUP BY patient_id"
        sizes = own.execute(sql, [str(DATA / "visits.parquet")]).fetchall()
    found = long.answered(COUNT, "n", whole("COUNT(*)"))
    assert found.covered.sum() >= fewest(LONG)
    assert found.error <= 2.5 * best_error(np.array([size for (size,) in sizes]), 0.25)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "key"), [(BY.format("clinic"), "clinic"), (TOP, "diagnosis_code")])
def test_counts_of_groups_are_near_those_of_the_best_bound(long: Asked, text: str, key: str) -> None:
    truth = exact("COUNT(*)", key)
    found = long.answered(text, "n", truth)
    assert found.covered.mean() >= 0.95
    assert found.error <= 2 * long.best(lambda bound: with_bound(text, bound), "n", truth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "least"), [("clinic", 0.97), (MONTH, 0.97), ("diagnosis_code", 0.95), ("visit_date", 0.95)]
)
def test_all_groups_are_covered_and_add_up(long: Asked, key: str, least: float) -> None:
    found = long.answered(BY.format(key), "n", exact("COUNT(*)", key))
    assert found.covered.mean() >= least > found.by_noise.mean()
    assert found.added < 0.015


COST = "SELECT AVG(cost) AS a FROM visits"


@pytest.fixture(scope="module")
def values(policy: Path) -> Iterator[Asked]:
    with asked(policy, ("visits", "visits.cost"), KEPT, SHORT) as made:
        yield made


def test_an_average_of_cut_values_is_covered(values: Asked) -> None:
    """The bounds of the policy cut the largest costs by .50 on average."""
    found = values.answered(COST, "a", whole("AVG(cost)"))
    assert found.covered.sum() >= fewest(SHORT)
    assert found.by_noise.mean() < 0.5
    assert found.width < 3


@pytest.mark.slow
def test_averages_of_cut_values_are_covered(long: Asked) -> None:
    found = long.answered(COST, "a", whole("AVG(cost)"))
    print(found.covered.mean(), found.by_noise.mean(), found.error, found.width)
    assert found.covered.sum() >= fewest(LONG)
    by = "SELECT clinic, AVG(cost) AS a FROM visits GROUP BY 1"
    groups = long.answered(by, "a", exact("AVG(cost)", "clinic"))
    print(groups.covered.mean(), groups.by_noise.mean(), groups.error, groups.width)
    assert groups.covered.mean() >= 0.95
    rows = with_bound("SELECT SUM(cost) AS s FROM visits", 64)
    total = long.answered(rows, "s", whole("SUM(cost)"))
    print(total.covered.mean(), total.by_noise.mean(), total.error, total.width)
    assert total.covered.sum() >= fewest(LONG)


@pytest.mark.slow
def test_totals_and_averages_are_covered(long: Asked) -> None:
    total = long.answered("SELECT SUM(cost) AS s FROM visits", "s", whole("SUM(cost)"))
    assert total.covered.sum() >= fewest(LONG)
    assert total.error < 0.006 * whole("SUM(cost)")
    average = long.answered("SELECT AVG(minutes) AS a FROM visits", "a", whole("AVG(minutes)"))
    assert average.covered.sum() >= fewest(LONG)
    assert average.error < 0.2
    by = "SELECT clinic, SUM(cost) AS s FROM visits GROUP BY 1"
    groups = long.answered(by, "s", exact("SUM(cost)", "clinic"))
    assert groups.covered.mean() >= 0.97
    assert groups.added < 0.015
