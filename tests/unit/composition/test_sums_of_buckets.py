"""Sums by buckets of the summed value: what is written for them, and what they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present

POLICY = """
[budget]
epsilon = 1e9
default_epsilon = 1e5
ledger = "t.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
not_negative = ["x", "n"]
domain = { g = [0, 1] }
"""
BUCKETS = "CASE WHEN x < 10 THEN 'a' WHEN x < 100 THEN 'b' WHEN x < 1000 THEN 'c' ELSE 'd' END"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("buckets")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    rows = "SELECT i % 997 AS u, CAST(exp(i % 89 / 10.0) AS DOUBLE) AS x, i % 89 * 50 AS n, x - 50 AS y,"
    duckdb.sql(f"COPY ({rows} i % 2 AS g FROM range(4000) r(i)) TO '{folder}/t.parquet'")
    (folder / "dpsql.toml").write_text(POLICY)
    made = Session(load(folder / "dpsql.toml"))
    yield made
    made.close()


RELATIVE = [
    f"SELECT {BUCKETS} AS k, SUM(x) AS s FROM t GROUP BY k",
    f"SELECT {BUCKETS} AS k, AVG(x) AS s FROM t GROUP BY k",
    f"SELECT {BUCKETS} AS k, ROUND(100 * SUM(x) FILTER (WHERE g = 1) / SUM(x), 1) AS s FROM t GROUP BY 1",
    f"SELECT {BUCKETS} AS k, g, SUM(x) AS s FROM t GROUP BY ALL",
    "SELECT CASE WHEN n >= 2000 THEN 'much' WHEN n BETWEEN 100 AND 1999 THEN 'some' WHEN n > 9 THEN 'little' "
    "ELSE 'none' END AS k, SUM(n) AS s FROM t GROUP BY k HAVING SUM(n) > 100 ORDER BY SUM(n)",
    "SELECT CASE WHEN y IS NULL THEN 0 WHEN -3 > y THEN 1 WHEN y >= 500 AND y < 1000 THEN 2 ELSE 3 END AS k, "
    "SUM(y) AS s FROM t GROUP BY k",
]
AS_BEFORE = [
    "SELECT CASE WHEN x < 10 THEN 'a' WHEN x < 50 THEN 'b' ELSE 'c' END AS k, SUM(x) AS s FROM t GROUP BY k",
    "SELECT CASE WHEN x < 10 THEN 'a' WHEN n < 900 THEN 'b' ELSE 'c' END AS k, SUM(x) AS s FROM t GROUP BY k",
    f"SELECT {BUCKETS} AS k, SUM(n) AS s FROM t GROUP BY k",
    f"SELECT {BUCKETS} AS k, SUM(x, contribution_bounds_per_group => (0, 99)) AS s FROM t GROUP BY k",
]


@pytest.mark.parametrize("statement", RELATIVE + AS_BEFORE[:3])
def test_sums_by_buckets_are_those_of_sql(session: Session, folder: Path, statement: str) -> None:
    found = {
        row[:-1]: row[-1]
        for row in zip(*present(session.run(statement).release).rows.to_pydict().values(), strict=True)
    }
    source = folder / "t.parquet"
    for *keys, number in present(duckdb.sql(statement.replace("FROM t", f"FROM '{source}'"))).fetchall():
        assert found[tuple(keys)] == pytest.approx(number, rel=1e-3)


@pytest.mark.parametrize(
    ("statement", "relative"), [(s, True) for s in RELATIVE] + [(s, False) for s in AS_BEFORE]
)
def test_they_are_relative_where_buckets_are_far_apart(
    session: Session, statement: str, relative: bool
) -> None:
    assert ("by bucket)" in str(session.run(f"EXPLAIN {statement}").table.to_pylist())) is relative


def test_noise_of_small_values_is_small(session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2)"
    asked = f"SELECT {options} {BUCKETS} AS k, SUM(x) AS s FROM t GROUP BY k"
    found = present(session.run(asked).release).table
    noise = dict(zip(found.column("k").to_pylist(), found.column("s_stddev").to_pylist(), strict=True))
    assert noise["b"] / noise["a"] == pytest.approx(10 / 3.2)
    assert noise["d"] == noise["c"]
    assert np.isfinite(list(noise.values())).all()


def test_the_last_bucket_has_all_that_a_bound_cuts(folder: Path) -> None:
    """The totals of all units in `d` are far above those in `a`, of which each has one."""
    rows = "SELECT i AS u, CASE WHEN i % 100 = 0 THEN 1e3 + i ELSE 5e0 END AS x FROM range(20000) r(i)"
    duckdb.sql(f"COPY ({rows}) TO '{folder}/giants.parquet'")
    policy = POLICY
    for old, new in (
        ("t.parquet", "giants.parquet"),
        ("t.sqlite", "giants.sqlite"),
        ("1e5", "0.2"),
        (', "n"]', "]"),
        ("domain", "# domain"),
    ):
        policy = policy.replace(old, new)
    (folder / "giants.toml").write_text(policy)
    giants = Session(load(folder / "giants.toml"))
    found = present(giants.run(f"SELECT {BUCKETS} AS k, SUM(x) AS s FROM t GROUP BY k").release).table
    giants.close()
    high = dict(zip(found.column("k").to_pylist(), found.column("s_high").to_pylist(), strict=True))
    wide = {k: high[k] - s for k, s in zip(high, found.column("s").to_pylist(), strict=True)}
    assert wide["d"] > 4 * wide["a"]
