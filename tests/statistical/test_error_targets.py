"""Statements that ask for an error have it: released numbers lie within it as often as their level says.

The seed of the statements is fixed; the noise is the system's. A false alarm has probability below 1e-8.
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

from dpsql.errors import BudgetExceeded
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import present

BUDGETS = {"pure": "epsilon = 1e9\ndelta = 0.5", "zcdp": 'epsilon = 10\ndelta = 1e-6\naccounting = "zcdp"'}
"""By accounting. Under `zcdp` small statements are laid out by cost and large ones by epsilon."""
ALARM = 1e-9
CLINICS = 12
TABLES = f"""
[tables.visits]
source = "visits.parquet"
unit = "patient_id"
[tables.visits.domain]
clinic.values = [{", ".join(f'"c{i}"' for i in range(CLINICS))}]
clinic.complete = true
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
ALONE = ("count", "rows", "sum")
"""Kinds of one number, which has Laplace or Gaussian noise of its own."""


class Asking:
    """Runs statements, each on an open session; with a new ledger when the last one's budget is spent."""

    def __init__(self, folder: Path, accounting: str) -> None:
        self.folder, self.budget, self.opened = folder, BUDGETS[accounting], 0
        drawn = random.Random(1)
        rows = [
            (p, f"c{drawn.randrange(CLINICS)}", drawn.randrange(200)) for p in range(3000) for _ in range(3)
        ]
        names = ("patient_id", "clinic", "cost")
        pq.write_table(
            pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), folder / "visits.parquet"
        )
        self.session = self.open()

    def open(self) -> Session:
        self.opened += 1
        ledger = f'[budget]\n{self.budget}\nledger = "{self.opened}.sqlite"'
        (self.folder / "dpsql.toml").write_text(ledger + TABLES)
        return Session(load(self.folder / "dpsql.toml"))

    def run(self, text: str) -> Release:
        try:
            return present(self.session.run(text).release)
        except BudgetExceeded:
            self.session.close()
            self.session = self.open()
            return present(self.session.run(text).release)


@pytest.fixture
def asking(tmp_path: Path, accounting: str) -> Iterator[Asking]:
    made = Asking(tmp_path, accounting)
    yield made
    made.session.close()


def truth(folder: Path, sql: str) -> dict[object, tuple[float, ...]]:
    """The exact numbers by group; of a statement without groups under None."""
    with duckdb.cursor() as plain:
        plain.execute(f"CREATE TEMP VIEW visits AS SELECT * FROM '{folder / 'visits.parquet'}'")
        plain_sql = sql.partition(" ORDER BY")[0]
        found = plain.execute(f"SELECT {plain_sql}").fetchall()
    keyed = sql.startswith("clinic")
    return {(row[0] if keyed else None): row[int(keyed) :] for row in found}


def half_met(level: float, law: str) -> float:
    """How often noise is within half of what it is within as often as `level`."""
    if law == "Gaussian":
        return 2 * stats.norm.cdf(stats.norm.ppf((1 + level) / 2) / 2) - 1
    return 1 - (1 - level) ** 0.5


@pytest.mark.parametrize(
    ("accounting", "level", "statements"),
    [
        ("pure", 0.95, 6),
        ("zcdp", 0.95, 6),
        *(pytest.param("pure", level, 480, marks=pytest.mark.slow) for level in (0.8, 0.95)),
        *(pytest.param("zcdp", level, 720, marks=pytest.mark.slow) for level in (0.8, 0.95)),
    ],
)
def test_released_numbers_lie_within_the_error(
    asking: Asking, accounting: str, level: float, statements: int
) -> None:
    """In at least as many statements as the level says, by the first number of their first row.

    Rows of one statement share noise, so one number stands for each.
    """
    drawn, met = random.Random(7), 0
    near: dict[str, list[bool]] = {"Laplace": [], "Gaussian": []}
    for asked in range(statements):
        kind = list(KINDS)[asked % len(KINDS)]
        sql = KINDS[kind].format(low=drawn.randrange(100))
        error = float(f"{10 ** drawn.uniform(0.7, 2):.3g}") * (200 if kind == "sum" else 1)
        options = f"error = {error}, confidence = {level}, fresh = TRUE"
        if kind in ("rows", "sum"):
            options += ", max_rows_contributed = 3"
        release = asking.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {sql}")
        exact = truth(asking.folder, sql)
        row = release.rows.to_pylist()[0]
        key = row.get("clinic")
        off = abs(row["n"] - exact[key][0])
        met += off <= error
        if kind in ALONE:
            near[release.mechanism.split()[0]].append(off <= error / 2)
    # As many as the level says, or more: simultaneous intervals and those of several numbers are wider.
    assert met >= stats.binom.ppf(ALARM, statements, level)
    # One number is within half the error as often as the law of its noise says, up to 1% for the digits of
    # epsilon and the grid. In full, noise of half the scale, from too large an epsilon, would be seen.
    for law, found in near.items():
        half = half_met(level, law)
        assert stats.binom.ppf(ALARM, len(found), half - 0.01) <= sum(found)
        assert sum(found) <= stats.binom.isf(ALARM, len(found), half + 0.01)
    # Under zcdp, small statements have Gaussian noise, and large ones and sums have Laplace noise.
    law = "Laplace" if accounting == "pure" else "Gaussian"
    assert bool(near["Gaussian"]) == (accounting == "zcdp")
    most = stats.binom.isf(ALARM, len(near[law]), half_met(level, law) + 0.01)
    assert statements < 480 or most < level * len(near[law])


@pytest.mark.slow
@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_a_default_error_is_met_by_a_batch(asking: Asking) -> None:
    """The same statements by `SET dp_error`, with the error of a sum in rows of its largest value."""
    met, asked = 0, 0
    for low in range(20):
        for kind in ("count", "all groups", "top-k", "sum"):
            sql = KINDS[kind].format(low=low)
            clause = " WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 3)" * (kind == "sum")
            asking.session.run("SET dp_error = 40")
            row = asking.run(f"SELECT{clause} {sql}").rows.to_pylist()[0]
            exact = truth(asking.folder, sql)[row.get("clinic")][0]
            met += abs(row["n"] - exact) <= (8000 if kind == "sum" else 40)
            asked += 1
    assert met >= stats.binom.ppf(ALARM, asked, 0.95)
