"""HAVING with the largest number of the same groups is the group with the largest number."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.language import TopK
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 100000000
default_epsilon = 100000
ledger = "ledger.sqlite"
[tables.trips]
source = "trips.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 4
[tables.trips.domain]
bike.values = ["a", "b", "c"]
bike.complete = true
"""
TRIPS = """SELECT i % 60 AS user_id, ['a', 'a', 'b', 'a', 'b', 'c'][1 + i % 6] AS bike, i % 7 AS price
FROM range(240) t(i)"""
GROUPS = "FROM trips WHERE price < 6 GROUP BY bike"


session = world_fixture(POLICY, trips=TRIPS)


@pytest.mark.parametrize(
    "having",
    [
        f"COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n {GROUPS}))",
        f"(SELECT MIN(n) FROM (SELECT bike, COUNT(*) AS n {GROUPS}) AS g) = COUNT(*)",
        f"n = (SELECT COUNT(*) {GROUPS} ORDER BY COUNT(*) DESC LIMIT 1)",
        f"COUNT(*) = (SELECT COUNT(*) AS m {GROUPS} ORDER BY m LIMIT 1)",
        f"COUNT(*) >= ALL (SELECT COUNT(*) {GROUPS})",
        f"COUNT(*) <= ALL (SELECT COUNT(*) {GROUPS})",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_the_group_is_that_of_plain_sql(session: Session, having: str) -> None:
    sql = f"SELECT bike, COUNT(*) AS n {GROUPS} HAVING {having}"
    plain = duckdb.execute(sql.replace("FROM trips", f"FROM ({TRIPS}) AS trips")).fetchall()
    release = present(session.run(sql).release)
    assert [(row["bike"], round(row["n"])) for row in release.table.to_pylist()] == plain
    assert isinstance(private(session.prepare(sql)).plan.selection, TopK)
    assert "of groups that are equally large one is shown" in map(str, release.assumed)


@pytest.mark.parametrize(
    "having",
    [
        "COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM trips GROUP BY bike))",
        "COUNT(*) = (SELECT MAX(n) FROM (SELECT SUM(price) AS n FROM trips WHERE price < 6 GROUP BY bike))",
        f"COUNT(*) = (SELECT AVG(n) FROM (SELECT COUNT(*) AS n {GROUPS}))",
        f"COUNT(*) < (SELECT MAX(n) FROM (SELECT COUNT(*) AS n {GROUPS}))",
        f"COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n {GROUPS} HAVING COUNT(*) < 90))",
        f"COUNT(*) = (SELECT COUNT(*) {GROUPS} ORDER BY COUNT(*) DESC LIMIT 1 OFFSET 1)",
    ],
    ids=["other rows", "another number", "an average", "less than", "other groups", "the second"],
)
@pytest.mark.sampled(3, rest="longer")
def test_another_question_is_not_read_so(session: Session, having: str) -> None:
    sql = f"SELECT bike, COUNT(*) AS n {GROUPS} HAVING {having}"
    assert not hasattr(session.prepare(sql), "plan")


def test_a_percentage_of_the_groups_is_no_largest_one(session: Session) -> None:
    largest = f"(SELECT COUNT(*) {GROUPS} ORDER BY COUNT(*) DESC LIMIT 1%)"
    with pytest.raises(QueryRefused, match="percentage"):
        session.prepare(f"SELECT bike, COUNT(*) AS n {GROUPS} HAVING COUNT(*) = {largest}")
