# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Counts of different public values, and extremes of them, beside counts of private rows."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e12
max_epsilon_per_query = 1e9
default_epsilon = 1000000
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 5
[tables.views]
source = "views.parquet"
unit = "person"
trust_source = true
[tables.ads]
source = "ads.parquet"
public = true
unique = [["ad"]]
[tables.groups]
source = "groups.parquet"
public = true
unique = [["g"]]
"""
DATA = {
    "views": "SELECT i // 3 AS person, i % 7 AS ad, i % 11 AS ms FROM range(900) t(i)",
    "ads": "SELECT i AS ad, i % 4 AS g, ['x', 'y', NULL][1 + i % 3] AS kind, i * 1.5::DOUBLE AS bid FROM range(12) t(i)",
    "groups": "SELECT i AS g, CASE WHEN i < 2 THEN 'a' WHEN i < 4 THEN NULL ELSE 'b' END AS plan FROM range(6) t(i)",
}
session = world_fixture(POLICY, **DATA)
SQL = [
    "SELECT a.kind, COUNT(DISTINCT a.ad) AS ads, MAX(a.bid) AS top, COUNT(v.person) AS n FROM ads a LEFT JOIN views v ON v.ad = a.ad GROUP BY a.kind",
    "SELECT plan, COUNT(DISTINCT g.g) AS groups, COUNT(DISTINCT a.ad) AS ads, COUNT(v.person) AS n FROM groups g LEFT JOIN ads a ON a.g = g.g LEFT JOIN views v ON v.ad = a.ad AND v.ms > 3 GROUP BY plan",
    "SELECT COUNT(DISTINCT kind) AS kinds, COUNT(v.person) AS n FROM ads a LEFT JOIN views v ON v.ad = a.ad WHERE bid > 2",
    "SELECT kind, COUNT(v.person) / COUNT(DISTINCT a.ad) AS per, COUNT(DISTINCT v.person) AS n FROM ads a LEFT JOIN views v ON v.ad = a.ad GROUP BY 1 HAVING COUNT(DISTINCT a.ad) > 1 ORDER BY COUNT(DISTINCT a.ad) DESC, 1",
]


@pytest.mark.parametrize("sql", SQL)
def test_the_answer_is_that_of_plain_sql(session: Session, sql: str) -> None:
    with duckdb.connect() as con:
        for name, rows in DATA.items():
            con.execute(f"CREATE TABLE {name} AS {rows}")
        wanted = con.execute(sql).fetchall()
    release = present(session.run(sql).release)
    found = {row[0]: row[1:] for row in zip(*release.rows.to_pydict().values(), strict=True)}
    for key, *numbers in wanted:
        if numbers[-1]:  # a plan whose groups have no ads is not shown
            other = key if key in found else next(iter(found))
            assert [float(v) for v in found[other]] == [pytest.approx(float(v), abs=0.5) for v in numbers]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.kind, AVG(a.bid) AS bid, COUNT(v.person) AS n FROM ads a LEFT JOIN views v ON v.ad = a.ad GROUP BY a.kind",
        "SELECT a.kind, COUNT(a.ad) AS ads, COUNT(v.person) AS n FROM ads a LEFT JOIN views v ON v.ad = a.ad GROUP BY a.kind",
    ],
)
def test_numbers_that_depend_on_how_often_a_row_is_repeated_are_refused(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused, match="belong to no unit"):
        session.prepare(sql)


def test_groups_of_public_rows_that_no_private_row_can_match_are_told(session: Session) -> None:
    """Plan b has groups without ads: no view can be of it, and SQL shows it with 0."""
    release = present(session.run(SQL[1].replace("COUNT(DISTINCT g.g) AS groups, ", "")).release)
    said = "1 group of public rows, which no private row can match, not shown: in SQL the counts are 0"
    assert said in map(str, release.assumed)
    assert said not in map(str, present(session.run(SQL[0]).release).assumed)
