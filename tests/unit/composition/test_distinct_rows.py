# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Different rows that are counted: as DISTINCT compares them, with NULL as a value, and bounded for each unit."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.analysis import Contribution
from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e12
max_epsilon_per_query = 1e9
default_epsilon = 10000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
unique = [["visit"]]
[tables.visits.domain]
page.values = ["a", "b", "c", "d"]
day = { from = 2024-01-01, to = 2024-01-31 }
"""
VISITS = (
    "SELECT i // 4 AS user_id, ['a', 'b', NULL, 'c', '1:a', '1:a1:b', '-', ''][1 + i % 8] AS page, "
    "CASE WHEN i % 5 <> 1 THEN i % 7 END AS ms, ['b', '1:b', NULL, '-', 'a1:b'][1 + i * 3 % 5] AS note, "
    "DATE '2024-01-01' + (i % 3)::INTEGER AS day, i AS visit FROM range(4000) t(i)"
)
BOUND = ", contribution_bounds_per_group => (0, 9)"
COUNTED = [
    "COUNT(*) AS n FROM (SELECT DISTINCT page, ms FROM visits)",
    "COUNT(*) AS n FROM (SELECT DISTINCT page, note FROM visits WHERE ms > 2)",
    "COUNT(*) AS n FROM (SELECT DISTINCT page FROM visits)",
    "COUNT(*) AS n FROM (SELECT DISTINCT ON (page) page, ms FROM visits)",
    "COUNT(*) AS n FROM (SELECT DISTINCT ON (page, ms) note FROM visits ORDER BY page, ms, day DESC)",
    "COUNT(*) AS n FROM (SELECT DISTINCT v.day, v.ms + 1 AS m FROM visits v JOIN visits w USING (visit) WHERE w.ms < 5)",
    "COUNT(*) AS n FROM (SELECT page AS p, day FROM visits GROUP BY p, day ORDER BY p)",
    "COUNT(DISTINCT (page, note)) AS n FROM visits",
    "COUNT(DISTINCT ROW(page, ms)) AS n FROM visits WHERE day > DATE '2024-01-01'",
]


session = world_fixture(POLICY, visits=VISITS)


@pytest.mark.parametrize("counted", COUNTED)
@pytest.mark.sampled(3, rest="longer")
def test_rows_are_counted_as_distinct_compares_them(session: Session, counted: str) -> None:
    bounded = (
        counted.replace("(*)", f"(*{BOUND})")
        if "(*)" in counted
        else counted.replace(" AS n", "").replace(")) FROM", f"){BOUND}) AS n FROM")
    )
    (row,) = session.run(f"SELECT {bounded}").table.to_pylist()
    with duckdb.connect() as con:
        con.execute(f"CREATE VIEW visits AS FROM '{present(session.policy.path).parent / 'visits.parquet'}'")
        wanted = con.execute(f"SELECT {counted}").fetchone()
    assert row["n"] == pytest.approx(present(wanted)[0], abs=0.5)


def test_a_unit_moves_the_number_by_its_bound(session: Session) -> None:
    made = of_type(
        session.prepare(f"SELECT COUNT(*{BOUND}) FROM (SELECT DISTINCT page, ms FROM visits)"),
        PreparedPrivate,
    )
    (change,) = made.plan.compiled.certificate.numbers
    assert (change.low, change.high) == (0, 9)


def test_a_bound_that_nobody_says_is_searched(session: Session) -> None:
    made = of_type(
        session.prepare("SELECT COUNT(*) FROM (SELECT DISTINCT page, ms FROM visits)"), PreparedPrivate
    )
    assert [search.ladder.of for search in made.plan.ladders] == [Contribution.VALUES]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT DISTINCT page, ms FROM visits LIMIT 3)",
        "SELECT COUNT(DISTINCT page, ms) FROM visits",
        "SELECT COUNT(*) FROM (SELECT DISTINCT ON (page) ms AS page FROM visits ORDER BY page)",
        "SELECT COUNT(ms) FROM (SELECT DISTINCT ON (page) page, ms FROM visits ORDER BY page, ms)",
        "SELECT * FROM (SELECT DISTINCT page, ms FROM visits)",
    ],
)
def test_other_uses_of_different_rows_are_refused(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(sql)
