"""Statements that ask for an error have it: released numbers lie within it as often as their level says.

The seed of the statements is fixed; the noise is the system's. A false alarm has probability below 1e-9.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present

ALARM = 1e-9
CLINICS = 12
POLICY = f"""
[budget]
epsilon = 1e9
delta = 0.5
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "patient_id"
[tables.visits.domain]
clinic = [{", ".join(f'"c{i}"' for i in range(CLINICS))}]
[tables.visits.bounds]
cost = {{ from = 0, to = 200 }}
"""
N = "COUNT(DISTINCT patient_id)"
WHERE = "WHERE cost > {low}"
KINDS = {
    "count": f"{N} AS n FROM visits {WHERE}",
    "counts": f"{N} AS n, {N} FILTER (WHERE cost > 50) AS m FROM visits {WHERE}",
    "all groups": f"clinic, {N} AS n FROM visits {WHERE} GROUP BY clinic",
    "top-k": f"clinic, {N} AS n FROM visits {WHERE} GROUP BY clinic ORDER BY n DESC LIMIT 2",
    "rows": f"COUNT(*) AS n FROM visits {WHERE}",
    "sum": f"SUM(cost) AS n FROM visits {WHERE}",
}
"""Kinds of statements as the cookbook has them; each is asked of other rows every time."""
LAPLACE = ("count", "rows", "sum")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    drawn = random.Random(1)
    rows = [(p, f"c{drawn.randrange(CLINICS)}", drawn.randrange(200)) for p in range(3000) for _ in range(3)]
    names = ("patient_id", "clinic", "cost")
    pq.write_table(
        pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), tmp_path / "visits.parquet"
    )
    (tmp_path / "dpsql.toml").write_text(POLICY)
    made = Session(load(tmp_path / "dpsql.toml"))
    yield made
    made.close()


def truth(folder: Path, sql: str) -> dict[object, tuple[float, ...]]:
    """The exact numbers by group; of a statement without groups under None."""
    with duckdb.connect() as plain:
        plain.execute(f"CREATE VIEW visits AS SELECT * FROM '{folder / 'visits.parquet'}'")
        plain_sql = sql.partition(" ORDER BY")[0]
        found = plain.execute(f"SELECT {plain_sql}").fetchall()
    keyed = sql.startswith("clinic")
    return {(row[0] if keyed else None): row[int(keyed) :] for row in found}


@pytest.mark.parametrize("statements", [36, pytest.param(480, marks=pytest.mark.slow)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_released_numbers_lie_within_the_error(
    session: Session, tmp_path: Path, level: float, statements: int
) -> None:
    """In at least as many statements as the level says, by the first number of their first row.

    Rows of one statement share noise, so one number stands for each.
    """
    drawn, met, near = random.Random(7), 0, []
    for asked in range(statements):
        kind = list(KINDS)[asked % len(KINDS)]
        sql = KINDS[kind].format(low=drawn.randrange(100))
        error = float(f"{10 ** drawn.uniform(0.7, 2):.3g}") * (200 if kind == "sum" else 1)
        options = f"error = {error}, confidence = {level}, fresh = TRUE"
        if kind in ("rows", "sum"):
            options += ", max_rows_contributed = 3"
        release = present(session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {sql}").release)
        exact = truth(tmp_path, sql)
        row = release.rows.to_pylist()[0]
        key = row.get("clinic")
        off = abs(row["n"] - exact[key][0])
        met += off <= error
        if kind in LAPLACE:
            near.append(off <= error / 2)
    # As many as the level says, or more: simultaneous intervals and those of several numbers are wider.
    assert met >= stats.binom.ppf(ALARM, statements, level)
    # One number with Laplace noise is within half the error as often as its law says, up to 1% for the digits
    # of epsilon and the grid. In full, noise of half the scale, from too large an epsilon, would be seen.
    half = 1 - (1 - level) ** 0.5
    assert stats.binom.ppf(ALARM, len(near), half - 0.01) <= sum(near)
    assert sum(near) <= stats.binom.isf(ALARM, len(near), half + 0.01)
    assert statements < 480 or stats.binom.isf(ALARM, len(near), half + 0.01) < level * len(near)


def test_a_default_error_is_met_by_a_batch(session: Session, tmp_path: Path) -> None:
    """The same statements by `SET dp_error`, with the error of a sum in rows of its largest value."""
    session.run("SET dp_error = 40")
    met, asked = 0, 0
    for low in range(20):
        for kind in ("count", "all groups", "top-k", "sum"):
            sql = KINDS[kind].format(low=low)
            clause = " WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 3)" * (kind == "sum")
            row = present(session.run(f"SELECT{clause} {sql}").release).rows.to_pylist()[0]
            exact = truth(tmp_path, sql)[row.get("clinic")][0]
            met += abs(row["n"] - exact) <= (8000 if kind == "sum" else 40)
            asked += 1
    assert met >= stats.binom.ppf(ALARM, asked, 0.95)
