# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Percentiles that people spell by ranks over all rows: which are quantiles, and which are refused."""

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
default_epsilon = 1e6
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 5
[tables.pay]
source = "pay.parquet"
unit = "person_id"
trust_source = true
[tables.pay.domain]
team.values = ["a", "b", "c"]
team.complete = true
[tables.pay.bounds]
income = { from = 0, to = 400 }
age = { from = 0, to = 100 }
"""
PAY = (
    "SELECT i // 2 AS person_id, ['a', 'b', 'c'][1 + i % 3] AS team, (i * 7919 % 331 // 3 * 3)::INTEGER AS income, "
    "CASE WHEN i % 10 <> 0 THEN (i * 31 % 97)::INTEGER END AS age FROM range(6001) t(i)"
)
RANKED = "(SELECT team, income, ROW_NUMBER() OVER (ORDER BY income) AS rn, COUNT(*) OVER () AS n FROM pay)"
BY_TEAM = "(SELECT team, income, ROW_NUMBER() OVER (PARTITION BY team ORDER BY income) AS rn, COUNT(*) OVER (PARTITION BY team) AS n FROM pay)"
LIKE_SQL = [
    f"SELECT MIN(CASE WHEN rn < 0.25 * n THEN 9999 ELSE income END) AS q, MIN(CASE WHEN rn < n * 0.75 THEN 9999 ELSE income END) AS r FROM {RANKED}",
    f"SELECT MIN(income) FILTER (WHERE rn >= 0.9 * n) AS q FROM {RANKED}",
    f"SELECT MIN(CASE WHEN rn >= 0.9 * n THEN income END) AS q, COUNT(*) AS n FROM {RANKED}",
    f"SELECT team, MIN(CASE WHEN rn < 0.5 * n THEN 9999 ELSE income END) AS q FROM {BY_TEAM} GROUP BY team ORDER BY team",
    "SELECT MIN(CASE WHEN rn < 0.5 * m THEN 9999 ELSE income END) AS q FROM (SELECT income, ROW_NUMBER() OVER (ORDER BY income) AS rn, (SELECT COUNT(*) FROM pay WHERE income > 30) AS m FROM pay WHERE income > 30)",
    "SELECT r.team, MIN(CASE WHEN rn < 0.5 * size THEN 9999 ELSE income END) AS q FROM (SELECT team, income, ROW_NUMBER() OVER (PARTITION BY team ORDER BY income) AS rn FROM pay) AS r JOIN (SELECT team, COUNT(*) AS size FROM pay GROUP BY team) AS s ON r.team = s.team GROUP BY r.team ORDER BY r.team",
    f"SELECT AVG(income) AS q FROM {RANKED} WHERE rn IN (FLOOR((n + 1) / 2.0), CEIL((n + 1) / 2.0))",
    "SELECT MAX(CASE WHEN tile = 3 THEN income END) AS q FROM (SELECT income, NTILE(4) OVER (ORDER BY income) AS tile FROM pay)",
    "WITH r AS (SELECT income, ROW_NUMBER() OVER (ORDER BY income) AS rn, COUNT(*) OVER () AS n FROM pay) SELECT MIN(CASE WHEN rn < 0.5 * n THEN 9999 ELSE income END) AS q FROM r",
]


session = world_fixture(POLICY, pay=PAY)


def exact(session: Session, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as con:
        con.execute(f"CREATE VIEW pay AS FROM '{present(session.policy.path).parent / 'pay.parquet'}'")
        return con.execute(sql).fetchall()


@pytest.mark.parametrize("sql", LIKE_SQL)
@pytest.mark.sampled(4, rest="longer")
def test_the_answer_is_that_of_plain_sql(session: Session, sql: str) -> None:
    """Ties are heavy: each income is that of some 55 rows."""
    found = [tuple(row.values()) for row in session.run(sql).table.to_pylist()]
    wanted = exact(session, sql)
    assert len(found) == len(wanted)
    for row, true in zip(found, wanted, strict=True):
        for a, b in zip(row, true, strict=True):
            assert a == b if isinstance(b, str) else a == pytest.approx(b, abs=0.5)


@pytest.mark.parametrize("name", ["PERCENT_RANK", "CUME_DIST"])
@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
@pytest.mark.sampled(5, rest="longer")
def test_rows_beyond_a_relative_rank_are_counted(session: Session, name: str, q: float) -> None:
    sql = f"WITH r AS (SELECT person_id, income, {name}() OVER (ORDER BY income) AS p FROM pay) SELECT COUNT(*) AS n FROM r WHERE p >= {q}"
    (row,) = session.run(sql).table.to_pylist()
    ((true,),) = exact(session, sql)
    assert abs(row["n"] - float(str(true))) <= (60 if name == "PERCENT_RANK" else 0.5), (
        "one value has up to 60 rows"
    )


def test_rows_without_a_value_have_no_part_and_the_answer_says_so(session: Session) -> None:
    ranked = (
        "(SELECT age, ROW_NUMBER() OVER (ORDER BY age NULLS FIRST) AS rn, COUNT(*) OVER () AS n FROM pay{})"
    )
    sql = f"SELECT MIN(CASE WHEN rn < 0.5 * n THEN 9999 ELSE age END) AS q FROM {ranked}"
    release = present(session.run(sql.format("")).release)
    assert "percentiles are of the rows that have age" in release.warnings
    ((true,),) = exact(session, "SELECT QUANTILE_DISC(age, 0.5) FROM pay")
    assert release.rows.to_pylist()[0]["q"] == pytest.approx(true, abs=0.5)
    for where in (" WHERE age > 3", " WHERE age IS NOT NULL"):
        assert not any(
            "percentiles" in each for each in present(session.run(sql.format(where)).release).warnings
        )


SHARE = "SELECT MIN(CASE WHEN rn < 0.5 * n THEN 9999 ELSE income END) AS q FROM "
REFUSED = [
    SHARE
    + "(SELECT income, ROW_NUMBER() OVER (ORDER BY income) AS rn, (SELECT COUNT(*) FROM pay) AS n FROM pay WHERE income > 9)",
    SHARE + "(SELECT income, ROW_NUMBER() OVER (ORDER BY income DESC) AS rn, COUNT(*) OVER () AS n FROM pay)",
    SHARE + "(SELECT income, ROW_NUMBER() OVER (ORDER BY age) AS rn, COUNT(*) OVER () AS n FROM pay)",
    SHARE
    + "(SELECT income, ROW_NUMBER() OVER (PARTITION BY team ORDER BY income) AS rn, COUNT(*) OVER () AS n FROM pay)",
    SHARE
    + "(SELECT income, ROW_NUMBER() OVER (ORDER BY income) AS rn, COUNT(*) OVER (PARTITION BY team) AS n FROM pay)",
    SHARE + "(SELECT income, RANK() OVER (ORDER BY income) AS rn, COUNT(*) OVER () AS n FROM pay)",
    SHARE + f"{BY_TEAM}",
    f"SELECT MIN(CASE WHEN rn < 0.5 * n THEN 9999 ELSE income END) + MAX(rn) AS q FROM {RANKED}",
    "SELECT MAX(CASE WHEN tile = 4 THEN income END) AS q FROM (SELECT income, NTILE(4) OVER (ORDER BY income DESC, age) AS tile FROM pay)",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_other_ranks_stay_refused(session: Session, sql: str) -> None:
    """Among them the rank of another population, or of the other end."""
    with pytest.raises(QueryRefused, match=r"window over private rows"):
        session.prepare(sql)
