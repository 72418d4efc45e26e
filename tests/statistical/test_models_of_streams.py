"""Ad-hoc counts of the shipped clinic, expected by the year before: how many are answered, and how well.

400 random conjunctions ask for patients of the second year; the rows of the first, at other dates, are the
model, times 11 scales. The first statements are asked of the product; with what they compare, the production
classes are then run many times, for rates. They are also answered with hypotheses discarded, as printed.
"""

from __future__ import annotations

import os
import time
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpsql.estimates import ModelWeights
from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, NoiseSource
from dpsql.mechanisms import Laplace
from dpsql.noise import SeededEntropy
from dpsql.policy import load
from dpsql.session import Session
from tests.served import clinic

EPSILON, MISSES, QUESTIONS, RUNS, ASKED = 1, 8, 400, 12, 6
SCALES = [Fraction(each, 100) for each in range(90, 111, 2)]
YEAR = "DATE '2024-01-01'"


class Workload:
    """Random conjunctions, as SQL and as masks of the rows."""

    def __init__(self, path: Path, seed: int) -> None:
        rows = pq.read_table(path)
        self.rows = rows.filter(pc.is_valid(rows["patient_id"]))
        self.rng = np.random.default_rng(seed)
        column = {name: self.rows[name].to_pylist() for name in ("clinic", "diagnosis_code")}
        self.texts = {
            name: np.unique([each or "" for each in values], return_inverse=True)
            for name, values in column.items()
        }
        self.units = np.unique(self.rows["patient_id"].to_numpy(), return_inverse=True)[1]
        self.minutes = self.rows["minutes"].to_numpy(zero_copy_only=False).astype(float)
        self.cost = self.rows["cost"].cast("float64").to_numpy(zero_copy_only=False)
        self.old = pc.year(self.rows["visit_date"]).to_numpy() == 2023

    def condition(self) -> tuple[str, np.ndarray]:
        rng, kind = self.rng, int(self.rng.integers(0, 4))
        if kind < 2:
            name = ("clinic", "diagnosis_code")[kind]
            known, places = self.texts[name]
            there = np.flatnonzero(known != "")
            size = int(rng.integers(len(there) // 4, 3 * len(there) // 4))
            chosen = rng.choice(there, size, replace=False)
            listed = ", ".join(f"'{known[i]}'" for i in chosen)
            return f"{name} IN ({listed})", np.isin(places, chosen)
        if kind == 2:
            least = int(rng.choice([10, 15, 20, 30]))
            return f"minutes >= {least}", self.minutes >= least
        most = int(rng.integers(30, 90))
        return f"cost < {most}", self.cost < most

    def draw(self) -> tuple[str, int, int]:
        """A conjunction, and how many patients it has in the first and in the second year."""
        chosen = [self.condition() for _ in range(int(self.rng.integers(2, 4)))]
        mask = np.logical_and.reduce([each[1] for each in chosen])
        rows = (self.units[mask & year] for year in (self.old, ~self.old))
        old, new = (int(np.count_nonzero(np.bincount(each))) for each in rows)
        return " AND ".join(each[0] for each in chosen), old, new


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("models")
    policy = clinic(found, epsilon=10)
    rows = found / "visits.parquet"
    moved = (
        f"SELECT * REPLACE ((visit_date + 365)::DATE AS visit_date) FROM '{rows}' WHERE visit_date < {YEAR}"
    )
    duckdb.sql(f"COPY ({moved}) TO '{found}/year_before.parquet'")
    old = time.time() - 60
    os.utime(found / "year_before.parquet", (old, old))
    with policy.open("a") as file:
        file.write(
            '\n[tables.year_before]\nsource = "year_before.parquet"\npublic = true\nstands_for = "visits"\n'
        )
    return found


def answer(
    drawn: list[tuple[str, int, int]], tolerance: int, seed: int, *, discard: bool
) -> tuple[int, list[float]]:
    """How many questions are answered until the misses are used up, and the errors of the answers."""
    plan, source = CheckStreamPlan.plan(EPSILON, MISSES), NoiseSource(SeededEntropy(seed))
    stream, weights = CheckStream(plan, source), ModelWeights.equal(len(SCALES))
    left, errors = [True] * len(SCALES), list[float]()
    noise = Laplace.plan(1, plan.answer_epsilon)
    for _, old, new in drawn:
        values = [old * scale for scale in SCALES]
        if discard:
            known = sorted(value for value, there in zip(values, left, strict=True) if there)
            if not known:
                break
            guess = known[(len(known) - 1) // 2]
        else:
            guess = weights.find_median(values)
        if stream.exhausted:
            break
        if stream.check(abs(new - guess) - tolerance) is None:
            errors.append(float(guess - new))
            continue
        said = Fraction(float(noise.run(np.array([new]), source).value[0]))
        errors.append(float(said - new))
        weights = weights.learn(values, guess, said, Fraction(tolerance), 1 / plan.answer_epsilon)
        left = [
            there and abs(value - said) <= tolerance and abs(value - said) < abs(guess - said)
            for there, value in zip(left, values, strict=True)
        ]
    return len(errors), errors


@pytest.mark.slow
def test_more_is_answered_than_by_discarding_and_better_than_by_plain_counts(folder: Path) -> None:
    workload = Workload(folder / "visits.parquet", 4)
    drawn = [workload.draw() for _ in range(QUESTIONS)]
    found: dict[tuple[int, bool], tuple[float, float]] = {}
    for tolerance in (300, 500):
        for discard in (True, False):
            runs = [answer(drawn, tolerance, seed, discard=discard) for seed in range(RUNS)]
            errors = np.array([error for _, each in runs for error in each])
            rms = float(np.sqrt(np.mean(errors**2)))
            found[tolerance, discard] = float(np.mean([n for n, _ in runs])), rms
            what = "discarding" if discard else "weights"
            print(f"within {tolerance}, {what}: {found[tolerance, discard][0]:.0f} answered, rmse {rms:.0f}")
    assert found[300, False][0] > 2 * found[300, True][0]
    assert found[500, False][0] >= 0.85 * 393
    assert found[500, False][1] <= 1.15 * 118
    assert found[500, False][1] < 566 / 3  # 400 Laplace counts at epsilon 1


@pytest.mark.slow
def test_the_product_expects_what_is_simulated(folder: Path) -> None:
    workload = Workload(folder / "visits.parquet", 4)
    session = Session(load(folder / "clinic.toml"), "ann")
    scales = ", ".join(str(float(scale)) for scale in SCALES)
    session.run(
        f"OPEN CHECKS m OPTIONS (epsilon = 2, misses = {MISSES}, tolerance = 100000, models = 'year_before', "
        f"scales = '{scales}')"
    )
    weights = ModelWeights.equal(len(SCALES))
    for _ in range(ASKED):
        text, old, _ = workload.draw()
        (row,) = session.run(
            f"ASK m SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE visit_date >= {YEAR} AND {text}"
        ).table.to_pylist()
        assert row["expected"] == float(weights.find_median([old * scale for scale in SCALES])), text
        assert row["checked"] == "as expected"
    session.close()
