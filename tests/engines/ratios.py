"""Time on each engine as a ratio to its own exact query: `python tests/engines/ratios.py [postgres] [spark]`.

Each statement is counted through dpsql, and asked of the engine itself as a person would write it; the
smallest of several times of each. Nothing is asserted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb

sys.path.append(str(Path(__file__).parent))

from support.servers import postgres
from support.stores import PostgresStore, SparkStore, Store

from dpsql.policy import load
from dpsql.session import Session

DATA = Path(__file__).parents[2] / "data"
ROUNDS = 5
ASKED = {
    "top-k of clinics": (
        "SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5",
        "SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM {visits} AS v GROUP BY clinic",
    ),
    "a join with a public table": (
        "SELECT d.diagnosis, COUNT(DISTINCT v.patient_id) AS n FROM visits v JOIN diagnoses d "
        "ON v.diagnosis_code = d.code GROUP BY d.diagnosis ORDER BY n DESC LIMIT 8",
        "SELECT d.diagnosis, COUNT(DISTINCT v.patient_id) AS n FROM {visits} AS v JOIN {diagnoses} AS d "
        "ON v.diagnosis_code = d.code GROUP BY d.diagnosis",
    ),
    "two private tables": (
        "SELECT p.region, COUNT(DISTINCT v.patient_id) AS n FROM visits v JOIN patients p "
        "ON v.patient_id = p.patient_id WHERE v.minutes > 20 GROUP BY p.region ORDER BY n DESC LIMIT 3",
        "SELECT p.region, COUNT(DISTINCT v.patient_id) AS n FROM {visits} AS v JOIN {patients} AS p "
        "ON v.patient_id = p.patient_id WHERE v.minutes > 20 GROUP BY p.region",
    ),
    "one count": (
        "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE visit_date >= DATE '2024-07-01'",
        "SELECT COUNT(DISTINCT patient_id) AS n FROM {visits} AS v WHERE visit_date >= DATE '2024-07-01'",
    ),
}
NAMES = ("patients", "visits", "diagnoses")


def best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def measure(name: str, session: Session, sources: dict[str, str], own: Callable[[str], object]) -> None:
    for what, (asked, exact) in ASKED.items():
        plan = session.prepare(asked).plan
        assert plan is not None
        ours = best(partial(session.engine.count, plan.compiled))
        theirs = best(partial(own, exact.format(**sources)))
        print(
            f"{name}: {what}: {ours * 1000:.0f} ms, itself {theirs * 1000:.0f} ms, ratio {ours / theirs:.2f}"
        )


def away(store: Store) -> None:
    with duckdb.connect() as connection:
        sources = store.put(connection, {n: f"SELECT * FROM '{DATA / n}.parquet'" for n in NAMES})
    session = store.session(store.policy((DATA / "clinic.toml").read_text("utf-8"), sources))
    engine = session.engine
    if isinstance(store, SparkStore):
        found = engine.session  # type: ignore[attr-defined]  # SparkEngine
        for name in NAMES:
            found.read.parquet(sources[name]).createOrReplaceTempView(name)
        measure("Spark", session, {n: n for n in NAMES}, lambda sql: found.sql(sql).toArrow())
    else:
        measure("PostgreSQL", session, sources, engine._con.table)  # type: ignore[attr-defined]  # PostgresEngine
    session.close()


def main() -> None:
    wanted = sys.argv[1:] or ["duckdb", "postgres", "spark"]
    with tempfile.TemporaryDirectory() as folder:
        if "duckdb" in wanted:
            path = Path(folder) / "dpsql.toml"
            text = (DATA / "clinic.toml").read_text("utf-8")
            for name in NAMES:
                text = text.replace(f'"{name}.parquet"', f"'{DATA / name}.parquet'")
            path.write_text(text, "utf-8")
            session = Session(load(path))
            with duckdb.connect() as connection:
                sources = {n: f"'{DATA / n}.parquet'" for n in NAMES}
                measure("DuckDB", session, sources, lambda sql: connection.sql(sql).to_arrow_table())
            session.close()
        if "postgres" in wanted:
            with postgres() as address:
                away(PostgresStore(Path(folder), address))
        if "spark" in wanted:
            away(SparkStore(Path(folder)))


if __name__ == "__main__":
    main()
