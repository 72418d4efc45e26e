"""COUNT(x) counts what SQL counts, NaN included, alone and beside each aggregate of x."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.session import Session
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e9
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "user_id"
rows_per_unit = 4
domain = { k = ["a", "b"] }
not_null = ["k"]
bounds = { x = { from = 0, to = 10 }, n = { from = 0, to = 1000 } }
[tables.one]
source = "one.parquet"
unit = "user_id"
unique = [["user_id"]]
domain = { k = ["a", "b"] }
not_null = ["k"]
bounds = { x = { from = 0, to = 10 } }
"""
CELLS = (
    "CASE WHEN i % 50 = 0 THEN 'nan'::DOUBLE WHEN i % 33 <> 1 THEN (i % 10) / 4 END AS x, i % 1000 AS n, "
    "CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END AS k FROM range(6000) AS r(i)"
)
BESIDE = (
    "",
    "AVG(x)",
    "SUM(x)",
    "STDDEV(x)",
    "VARIANCE(x), SUM(x)",
    "COUNT(*)",
    "COUNT(*), AVG(x)",
    "COUNT(*), STDDEV(x), SUM(x)",
    "MEDIAN(x)",
    "AVG(x) FILTER (WHERE n > 3)",
    "AVG(n)",
    "SUM(x, contribution_bounds => AUTO)",
    "AVG(x, contribution_bounds_per_group => (0, 10))",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("nan")
    for table, unit in (("t", "i // 4"), ("one", "i")):
        duckdb.sql(f"COPY (SELECT {unit} AS user_id, {CELLS}) TO '{folder}/{table}.parquet'")
    with open_world(folder, POLICY) as opened:
        yield opened


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("table", ["t", "one"])
@pytest.mark.sampled(5)
def test_a_count_is_the_same_beside_each_aggregate(session: Session, table: str, beside: str) -> None:
    calls = ["COUNT(x)", *(c for c in beside.replace("), ", ")|").split("|") if c)]
    listed = ", ".join(f"{call} AS c{i}" for i, call in enumerate(calls))
    options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6)"
    whole = session.run(f"{options} {listed} FROM {table}").table.to_pylist()
    groups = session.run(f"{options} k, {listed} FROM {table} GROUP BY k ORDER BY k").table.to_pylist()
    truth = duckdb.execute(
        f"SELECT k, COUNT(x), COUNT(*) FROM (SELECT {CELLS}) GROUP BY k ORDER BY k"
    ).fetchall()
    assert [round(row["c0"]) for row in groups] == [row[1] for row in truth]
    assert round(whole[0]["c0"]) == sum(row[1] for row in truth)
    for place, call in enumerate(calls):
        if call == "COUNT(*)":
            assert [round(row[f"c{place}"]) for row in groups] == [row[2] for row in truth]


def test_an_average_has_its_own_number_of_rows(session: Session) -> None:
    """It is that of the values that are numbers: NaN neither counts there nor makes the average NaN."""
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6) COUNT(x) AS n, AVG(x) AS a FROM t"
    (row,) = session.run(text).table.to_pylist()
    (truth,) = duckdb.execute(f"SELECT AVG(x) FROM (SELECT {CELLS}) WHERE NOT isnan(x)").fetchall()[0]
    assert row["a"] == pytest.approx(truth, abs=1e-4)


def test_counts_of_rows_share_the_noise_of_the_average(session: Session) -> None:
    """A count of values that may be NaN is a sum of moments, as that of other values is."""
    for column in ("x", "n"):
        prepared = session.prepare(
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT({column}), AVG({column}) FROM t"
        )
        assert isinstance(prepared, PreparedPrivate)
        plan = prepared.plan
        assert len({count.noise_group for count in plan.counts}) == 1
        assert len(plan.counts) == (3 if column == "x" else 2)
