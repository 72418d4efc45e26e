# ruff: noqa: E501  statements and lists of values read better unbroken
"""Ten statements on three engines: identical exact counts, identical charges, releases that differ by noise."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from support.stores import Store

from dpsql import Release
from dpsql.kernel.counts import Counts
from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.support.exact import exact_of
from tests.support.world import open_world

DATA = Path(__file__).parents[2] / "data"

TEN = {
    "top-k": "SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5",
    "a public table names the keys": "SELECT d.diagnosis, COUNT(DISTINCT v.patient_id) AS n FROM visits v "
    "JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY d.diagnosis ORDER BY n DESC LIMIT 8",
    "threshold": "SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic HAVING n >= 3000 LIMIT 6",
    "hybrid": "SELECT d.diagnosis, COUNT(DISTINCT v.patient_id) AS n FROM visits v "
    "JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY d.diagnosis HAVING n >= 6000 ORDER BY n DESC LIMIT 8",
    "one count": "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE visit_date >= DATE '2024-07-01'",
    "computed keys": "SELECT date_trunc('month', visit_date) AS month, COUNT(DISTINCT patient_id) AS n FROM visits "
    "WHERE minutes > 20 GROUP BY 1 ORDER BY n DESC LIMIT 4",
    "two private tables, a CTE": "WITH old AS (SELECT patient_id, region FROM patients WHERE birth_year < 1960) "
    "SELECT o.region, COUNT(DISTINCT v.patient_id) AS n, COUNT(DISTINCT v.patient_id) FILTER (WHERE v.minutes > 30) "
    "AS m FROM visits v JOIN old o ON v.patient_id = o.patient_id GROUP BY o.region ORDER BY n DESC LIMIT 4",
    "per unit first": "SELECT CASE WHEN k > 12 THEN 'often' WHEN k > 6 THEN 'some' ELSE 'few' END AS how, COUNT(*) AS n "
    "FROM (SELECT patient_id, COUNT(*) AS k FROM visits GROUP BY patient_id) t GROUP BY 1 ORDER BY n DESC LIMIT 2",
    "latest visit of each": "SELECT clinic, COUNT(*) AS n FROM (SELECT patient_id, clinic FROM visits QUALIFY "
    "ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date DESC, visit_id) = 1) t GROUP BY clinic "
    "ORDER BY n DESC LIMIT 3",
    "unknown domain": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-7) cost, COUNT(DISTINCT patient_id) AS n "
    "FROM visits WHERE note IS NULL OR note NOT LIKE '%x%' GROUP BY cost ORDER BY n DESC LIMIT 3",
}

BUDGET = {"epsilon = 10\n": "epsilon = 1000\n", "clinic-ledger.sqlite": "ledger.sqlite"}


def text() -> str:
    found = (DATA / "clinic.toml").read_text("utf-8")
    for old, new in BUDGET.items():
        found = found.replace(old, new)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """DuckDB's session."""
    policy = text()
    for name in ("patients", "visits", "diagnoses"):
        policy = policy.replace(f'"{name}.parquet"', f"'{DATA / name}.parquet'")
    with open_world(tmp_path_factory.mktemp("clinic"), policy) as session:
        yield session


@pytest.fixture(scope="module")
def away(store: Store) -> Iterator[Session]:
    """The engine's session; public tables are files beside it in one case, its own tables in the other."""
    with duckdb.connect() as connection:
        names = ("patients", "visits", "diagnoses")
        sources = store.put(connection, {n: f"SELECT * FROM '{DATA / n}.parquet'" for n in names})
    session = store.session(store.policy(text(), sources))
    yield session
    session.close()


@pytest.mark.parametrize("statement", TEN.values(), ids=TEN)
def test_three_engines_count_and_charge_the_same(statement: str, home: Session, away: Session) -> None:
    ours, theirs = private(home.prepare(statement)), private(away.prepare(statement))
    assert ours.plan.compiled.sql == theirs.plan.compiled.sql
    assert ours.price == theirs.price
    ours_counted, counts = (
        engine_of(home).count(ours.plan.compiled),
        engine_of(away).count(theirs.plan.compiled),
    )
    assert exact_of(ours_counted).keys.schema == exact_of(counts).keys.schema
    a, b = rows(ours_counted), rows(counts)
    assert a == b
    one, other = home.execute(ours).release, away.execute(theirs).release
    assert one is not None
    assert other is not None
    assert one.charge == other.charge
    assert one.charge.epsilon <= Fraction(1)
    assert (one.mechanism, one.scale, one.guarantee) == (other.mechanism, other.scale, other.guarantee)
    assert one.rows.schema == other.rows.schema
    for release, found in ((one, a), (other, b)):
        _differs_by_noise_alone(release, found)


def rows(counts: Counts) -> dict[tuple[object, ...], tuple[int, ...]]:
    keys = list(zip(*(c.to_pylist() for c in exact_of(counts).keys.columns), strict=True)) or [()]
    return dict(zip(keys, zip(*(n.tolist() for n in exact_of(counts).n), strict=True), strict=True))


def _differs_by_noise_alone(release: Release, found: dict[tuple[object, ...], tuple[int, ...]]) -> None:
    """Each released count is within 60 scales of the exact one: an honest release misses with e^-30 or less."""
    width = len(release.keys)
    table = [tuple(row.values()) for row in release.rows.to_pylist()]
    assert table
    for row in table:
        for shown, count in zip(row[width:], found[row[:width]], strict=True):
            assert abs(shown - count) <= 60 * max(release.scale, 2.0), (row, count)


def test_the_same_statement_again_is_free(away: Session) -> None:
    statement = TEN["one count"]
    away.run(statement)
    spent = away.budget().spent
    assert away.prepare(statement).price.epsilon == 0
    assert away.run(statement).release is not None
    assert away.budget().spent == spent


def test_explain_shows_what_the_engine_runs(away: Session, store: Store) -> None:
    shown = dict(
        zip(*away.run("EXPLAIN " + TEN["two private tables, a CTE"]).table.to_pydict().values(), strict=True)
    )
    sql = shown["compiled_sql"]
    assert "public rows" in sql
    assert ("`t1`" if store.name == "Spark" else '"t1"') in sql
