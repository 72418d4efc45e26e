"""CORR, COVAR and REGR are what DuckDB computes, over the rows with both values, where noise is small."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.composition.respelled_statements import FORMULAS
from dpsql.session import Session
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 1e12
default_epsilon = 1000000
max_epsilon_per_query = 1000000
[tables.t]
source = "t.parquet"
unit = "person"
unique = [["person"]]
[tables.t.domain]
k = { values = ["a", "b"], complete = true }
[tables.t.bounds]
x = { from = -10, to = 10 }
y = { from = -10, to = 10 }
"""
ROWS = """
SELECT i AS person, ['a', 'b'][1 + i % 2] AS k, CASE WHEN i % 5 > 0 THEN (i % 11 - 5.5)::DOUBLE END AS x,
  CASE WHEN i % 6 > 0 THEN (i % 11 - 4.5 + i % 3)::DOUBLE END AS y
FROM range(600) t(i)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("pairs")
    duckdb.sql(f"COPY ({ROWS}) TO '{folder}/t.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


@pytest.mark.parametrize(
    "select",
    [
        *(f"{name.upper()}(y, x) AS v FROM t" for name in FORMULAS),
        "CORR(y, x) FILTER (WHERE person % 4 > 0) AS v FROM t",
        "1 - COVAR_POP(y + 1, -x) AS v FROM t",
        "k, CORR(y, x) AS v FROM t GROUP BY k ORDER BY k",
        "k, CORR(y, x) AS v FROM t GROUP BY k ORDER BY v DESC LIMIT 1",
        "MAX(v) AS v FROM (SELECT k, REGR_SLOPE(y, x) AS v FROM t GROUP BY k)",
    ],
)
@pytest.mark.sampled(4, rest="longer")
def test_a_statistic_is_that_of_duckdb(session: Session, select: str) -> None:
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE t AS {ROWS}")
        wanted = engine.execute(f"SELECT {select}").fetchall()
    found = session.run(f"SELECT {select}").table.to_pylist()
    assert len(found) == len(wanted)
    for row, one in zip(found, wanted, strict=True):
        assert math.isclose(row["v"], one[-1], rel_tol=1e-3, abs_tol=1e-3)
        assert list(row.values())[:-1] == list(one[:-1])


@pytest.mark.parametrize("name", ["CORR", "REGR_SLOPE"])
def test_a_variance_that_is_not_above_0_gives_null(session: Session, name: str) -> None:
    answer = session.run(f"SELECT {name}(y, x) AS v FROM t WHERE person < 0").table
    value = answer.column("v")[0].as_py()
    assert value is None or abs(value) <= 1 or name == "REGR_SLOPE"


def test_a_column_without_an_alias_has_the_name_that_is_written(session: Session) -> None:
    assert session.run("SELECT CORR( y, x ) FROM t").table.column_names == ["CORR( y, x )"]
