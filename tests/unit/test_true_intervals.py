"""Intervals of whole tables cover the exact answer where a bound cuts as much as may be taken for granted.

In each case all that the answer assumes is true, and what is left out moves it nearly as far as that allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction

import pytest

from dpsql.database import Database
from dpsql.owner.ladder_releases import parse_measure, release_ladders
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import private
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 1e9
ledger = "ledger.sqlite"
[tables.dense]
source = "dense.parquet"
unit = "u"
not_null = ["g"]
bounds.x = { from = 0, to = 1 }
domain.g = { values = ["a", "b"], complete = true }
[tables.holes]
source = "holes.parquet"
unit = "u"
bounds.x = { from = 0, to = 1 }
[tables.far]
source = "far.parquet"
unit = "u"
[tables.near]
source = "near.parquet"
public = true
unique = [["k"]]
"""
DENSE = """
SELECT i // 500 AS u, 'a' AS g, .539::DOUBLE AS x FROM range(100000) AS r(i)
UNION ALL SELECT 1000 + i // 10, 'a', .5 FROM range(200000) AS r(i)
UNION ALL SELECT 100000 + i // 10, 'b', .5 FROM range(300000) AS r(i)
"""
"""Of 200 units with 500 rows in group a at most 16 count: its part that is left out is 2/3 of all."""
HOLES = """
SELECT i // 100 AS u, .58::DOUBLE AS x FROM range(10000) AS r(i)
UNION ALL SELECT 1000 + i // 20, CASE WHEN i % 20 = 0 THEN .5 END FROM range(40000) AS r(i)
"""
"""Most rows have no value to average."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("true")
    far = "SELECT i // 3 AS u, CAST(4611686018427387904 AS DOUBLE) AS k FROM range(6000) AS r(i)"
    near = "SELECT 4611686018427387904 + i AS k FROM range(200) AS r(i)"
    write_world(folder, POLICY, dense=DENSE, holes=HOLES, far=far, near=near)
    with closing(Database(load(folder / "dpsql.toml"))) as database:
        measures = [parse_measure(database, name) for name in ("dense", "holes", "far")]
        release_ladders(database, measures, Fraction(1000), "dpsql bounds")
        with closing(Session(database, "alice")) as opened:
            yield opened


def ends(session: Session, rest: str, key: str = "") -> dict[object, tuple[float, float]]:
    options = "OPTIONS (epsilon = 100, max_rows_contributed = 16)"
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY {options} {rest}"
    rows = session.run(text).table.to_pylist()
    return {row.get(key): (row["low"], row["high"]) for row in rows}


INTERVAL = "DP_INTERVAL_LOW(m) AS low, DP_INTERVAL_HIGH(m) AS high"


def test_an_average_of_a_group_has_what_is_left_out_of_the_group(session: Session) -> None:
    found = ends(session, f"g, AVG(x) AS m, {INTERVAL} FROM dense GROUP BY g", "g")
    assert found["a"][0] < 0.513 < found["a"][1]
    assert found["b"][0] < 0.5 < found["b"][1]


def test_rows_without_a_value_are_no_part_of_an_average(session: Session) -> None:
    ((low, high),) = ends(session, f"AVG(x) AS m, {INTERVAL} FROM holes").values()
    assert low < (10_000 * 0.58 + 2_000 * 0.5) / 12_000 < high


def test_a_join_that_converts_what_it_compares_is_not_the_whole_table(session: Session) -> None:
    """A DOUBLE equals many a BIGINT: the join repeats rows, though what it joins is unique."""
    joins = (
        "COUNT(*) AS n FROM far LEFT JOIN near ON far.k = near.k",
        "COUNT(*) AS n FROM far LEFT JOIN near USING (k)",
    )
    for rest in joins:
        text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {rest}"
        assert private(session.prepare(text)).plan.left_out == (None,)
    whole = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM far"
    assert private(session.prepare(whole)).plan.left_out != (None,)


def test_the_bound_of_a_searched_sum_is_shown(session: Session) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100) SUM(x) AS n, DP_BOUND(n) AS b FROM dense"
    (row,) = session.run(text).table.to_pylist()
    assert row["b"] is not None
    assert row["b"] > 0
