"""Statements whose bound a search finds: their error against the best constant bound, and coverage.

The best bound knows the data. If intervals covered the exact number with probability .93, the fast test would
fail with probability 1e-6 for some statement. A bound that is too large is rare and costs much, so that a
ratio has no simple law. Of 1,600 runs each, ratios were 1.83 to 2.35 (the week), and 95.0% to 96.8% were
covered; of 56 blocks of 200 runs, three had ratios above 2.5, the largest one 3.23.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from tests.statistical.searched_answers import Searching, best_constant, searching

DATA = Path(__file__).parents[2] / "data"
EPSILON = 0.25
STATEMENTS = {
    "week": "visit_date >= DATE '2024-03-04' AND visit_date < DATE '2024-03-11'",
    "month": "visit_date >= DATE '2024-03-01' AND visit_date < DATE '2024-04-01'",
    "year": "visit_date >= DATE '2024-01-01'",
    "clinic": "clinic = 'Coast Road'",
    "diagnosis": "diagnosis_code = 'I10'",
    "cost": "cost > 100",
    "all": "",
}
POLICY = """
[budget]
epsilon = 1e9
delta = 1e-5
default_epsilon = {epsilon}
default_delta = 1e-7
ledger = "ledger.sqlite"
[analysts."*"]
epsilon = 1e9
delta = 1e-5
[tables.visits]
source = "{source}"
unit = "patient_id"
unit_kind = "patient"
unique = [["visit_id"]]
not_null = ["cost"]
[tables.visits.domain]
visit_date = {{ from = 2023-01-01, to = 2024-12-31, complete = true }}
clinic = {{ values = [{clinics}], complete = true }}
diagnosis_code = {{ values = [{codes}] }}
"""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searching]:
    folder, source = tmp_path_factory.mktemp("clinic"), DATA / "visits.parquet"
    listed = [
        ", ".join(
            f'"{value}"' for (value,) in asked(f"SELECT DISTINCT {name} FROM t WHERE {name} IS NOT NULL")
        )
        for name in ("clinic", "diagnosis_code")
    ]
    policy = POLICY.format(epsilon=EPSILON, source=source, clinics=listed[0], codes=listed[1])
    (folder / "clinic.toml").write_text(policy, encoding="utf-8")
    with searching(folder / "clinic.toml") as made:
        yield made


def asked(sql: str) -> list[tuple[object, ...]]:
    """Return the rows of a query over the visits that have a patient, in table t."""
    own = f"(SELECT * FROM '{DATA / 'visits.parquet'}' WHERE patient_id IS NOT NULL)"
    return duckdb.execute(sql.replace("FROM t", f"FROM {own} t")).fetchall()


def where(name: str) -> str:
    return f" WHERE {STATEMENTS[name]}" if STATEMENTS[name] else ""


def sizes_of(name: str) -> NDArray[np.int64]:
    """Return the numbers of rows of the patients that a statement counts."""
    rows = asked(f"SELECT COUNT(*) FROM t{where(name)} GROUP BY patient_id")
    return np.array([size for (size,) in rows], dtype=np.int64)


def text(name: str, cut: str = "") -> str:
    options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (cut = {cut}) " if cut else ""
    return f"SELECT {options}COUNT(*) AS n FROM visits{where(name)}"


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.sampled(3)
def test_a_count_is_covered(clinic: Searching, name: str) -> None:
    runs, sizes = 40, sizes_of(name)
    found = clinic.answered(text(name), float(sizes.sum()), runs)
    assert found.covered * runs >= binom.ppf(1e-7, runs, 0.93)
    assert found.error <= 5 * best_constant(sizes, EPSILON)


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_count_is_covered_and_near_the_best(clinic: Searching, name: str) -> None:
    runs, sizes = 1_000, sizes_of(name)
    exact, best = float(sizes.sum()), best_constant(sizes, EPSILON)
    found, noise = (clinic.answered(text(name, cut), exact, runs) for cut in ("", "NOISE_ONLY"))
    told = f"{name}: ratio {found.error / best:.2f}, cover {found.covered:.3f}, width/(3.92 best) "
    told += f"{found.width / best / 3.92:.2f}; noise only {noise.error / best:.2f}, {noise.covered:.3f}"
    print(told)
    assert found.error <= 2.6 * best, told
    assert found.covered >= 0.93, told
    assert noise.covered <= found.covered + 0.01, told


@pytest.mark.slow
def test_the_noise_alone_covers_much_less(clinic: Searching) -> None:
    total = [0.0, 0.0]
    for name in STATEMENTS:
        exact = float(sizes_of(name).sum())
        for place, cut in enumerate(("", "NOISE_ONLY")):
            total[place] += clinic.answered(text(name, cut), exact, 60).covered / len(STATEMENTS)
    assert total[0] - total[1] >= 0.1, total


@pytest.mark.parametrize("number", ["COUNT(*)", "SUM(cost)"])
@pytest.mark.parametrize("key", ["clinic", "date_trunc('year', visit_date)", "visit_date", "diagnosis_code"])
@pytest.mark.sampled(3)
def test_groups_are_covered(clinic: Searching, key: str, number: str) -> None:
    """Of sums with signs in 731 groups 14% were covered while more groups made bounds smaller."""
    rows = asked(f"SELECT {key}, {number} FROM t GROUP BY 1")
    exact = {k.date() if isinstance(k, datetime) else k: float(str(n)) for k, n in rows}
    found = clinic.answered(f"SELECT {key} AS k, {number} AS n FROM visits GROUP BY 1", exact, 12)
    told = f"{key}, {number}: cover {found.covered:.3f}, error {found.error:.0f}, added {found.added:.4f}"
    print(told)
    assert found.covered >= 0.9, told
    if number == "SUM(cost)":
        assert found.width <= 40 * found.error, told
