# ruff: noqa: E501  a statement stands on one line, as it is typed
"""NTILE over all rows: the rows of a bucket, how equal rows are divided, and what stays refused."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.composition.prepared import PreparedComposed
from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import of_type, present
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
unique = [["pay_id"]]
not_null = ["income", "price", "day"]
trust_source = true
[tables.pay.domain]
team.values = ["a", "b", "c"]
team.complete = true
day = { from = 2024-01-01, to = 2024-12-31 }
[tables.pay.bounds]
income = { from = 0, to = 400 }
price = { from = 0, to = 60 }
age = { from = 0, to = 100 }
score = { from = 0, to = 1 }
"""
PAY = (
    "SELECT i AS pay_id, i // 2 AS person_id, ['a', 'b', 'c'][1 + i % 3] AS team, (i * 7919 % 331 // 3 * 3)::INTEGER AS income, "
    "(i * 7919 % 6007 / 100)::DECIMAL(8, 2) AS price, CASE WHEN i % 10 <> 0 THEN (i * 31 % 97)::INTEGER END AS age, "
    "(i * 7919 % 6007) / 6007.0::DOUBLE AS score, DATE '2024-01-01' + (i * 37 % 300)::INTEGER AS day FROM range(6001) t(i)"
)
SIZES = "SELECT tile, COUNT(*) AS n FROM (SELECT person_id, NTILE({}) OVER (ORDER BY {}) AS tile FROM pay) GROUP BY tile ORDER BY tile"
BY_PERSON = (
    "SELECT person_id, MAX(day) AS last, SUM(income) AS total, COUNT(*) AS n FROM pay GROUP BY person_id"
)


session = world_fixture(POLICY, pay=PAY)


def exact(session: Session, sql: str) -> list[tuple[object, ...]]:
    with duckdb.cursor() as con:
        con.execute(f"CREATE TEMP VIEW pay AS FROM '{present(session.policy.path).parent / 'pay.parquet'}'")
        return con.execute(sql).fetchall()


def check_rows(session: Session, sql: str, off: float) -> None:
    """Compare an answer with that of plain SQL, without what NULL has in it."""
    found = [tuple(row.values()) for row in session.run(sql).table.to_pylist() if None not in row.values()]
    wanted = exact(session, sql)
    assert [row[:-1] for row in found] == [row[:-1] for row in wanted]
    for row, true in zip(found, wanted, strict=True):
        assert float(row[-1]) == pytest.approx(float(str(true[-1])), abs=off)


@pytest.mark.parametrize(
    "by",
    [
        "income",
        "day DESC",
        *(pytest.param(by, marks=pytest.mark.longer) for by in ("income DESC", "day", "price")),
    ],
)
@pytest.mark.parametrize("tiles", [3, *(pytest.param(n, marks=pytest.mark.longer) for n in (2, 10))])
@pytest.mark.sampled(3, rest="longer")
def test_equal_rows_are_divided_so_that_buckets_have_one_size(session: Session, by: str, tiles: int) -> None:
    """Each income is that of some 55 rows, each day that of 20; a cell of the grid has three at most."""
    check_rows(session, SIZES.format(tiles, by), 3)


def test_rows_of_different_values_are_in_the_buckets_of_plain_sql(session: Session) -> None:
    sql = "SELECT team, tile, COUNT(*) AS n FROM (SELECT team, NTILE(4) OVER (ORDER BY {}) AS tile FROM pay) GROUP BY ALL ORDER BY ALL"
    for by in ("price", "score DESC"):
        check_rows(session, sql.format(by), 2)


def test_the_largest_value_of_a_bucket_from_the_other_end(session: Session) -> None:
    tiles = "(SELECT income, NTILE(4) OVER (ORDER BY income DESC) AS tile FROM pay)"
    check_rows(session, f"SELECT MAX(CASE WHEN tile = 4 THEN income END) AS q FROM {tiles}", 3)


def test_buckets_are_read_as_any_column(session: Session) -> None:
    ranked = "(SELECT *, 5 - NTILE(4) OVER (ORDER BY price) AS tile FROM pay WHERE age > 10)"
    check_rows(session, f"SELECT COUNT(*) AS n FROM {ranked} WHERE tile IN (1, 3) AND income > 90", 6)
    check_rows(session, f"SELECT tile, SUM(price) AS s FROM {ranked} GROUP BY tile ORDER BY tile", 60)


def test_several_scores_of_units_are_one_release_each(session: Session) -> None:
    scored = f"SELECT person_id, NTILE(3) OVER (ORDER BY last DESC) AS r, NTILE(3) OVER (ORDER BY total) AS m FROM ({BY_PERSON})"
    sql = f"SELECT r, m, COUNT(*) AS n FROM ({scored}) GROUP BY ALL ORDER BY ALL"
    assert len(of_type(session.prepare(sql), PreparedComposed).parts) == 3
    check_rows(session, sql, 40)  # which of equal rows come first differs
    check_rows(session, f"SELECT r, COUNT(*) AS n FROM ({scored}) GROUP BY ALL ORDER BY ALL", 2)


def test_groups_are_ranked_in_the_block_that_makes_them(session: Session) -> None:
    inner = "SELECT person_id AS p, NTILE(4) OVER (ORDER BY SUM(income)) AS tile FROM pay GROUP BY {}"
    for keys in ("person_id", "1", "p", "ALL"):
        check_rows(
            session,
            f"SELECT tile, COUNT(*) AS n FROM ({inner.format(keys)}) GROUP BY tile ORDER BY tile",
            4,
        )


def test_a_clause_of_the_statement_is_read_where_it_stands(session: Session) -> None:
    sql = f"WITH people AS ({BY_PERSON}), scored AS (SELECT person_id, NTILE(4) OVER (ORDER BY last) AS q FROM people), named AS (SELECT q * 10 AS label FROM scored) SELECT label, COUNT(*) AS n FROM named GROUP BY 1 ORDER BY 1"
    check_rows(session, sql, 2)


def test_the_answer_says_what_happens_to_ties_and_to_rows_without_a_value(session: Session) -> None:
    said = present(session.run(SIZES.format(4, "age")).release).warnings
    assert (
        "tile: NTILE's buckets are between cut points that are released first; ranges are of the rows between; a hash decides which of equal rows come first; "
        "rows without a value are in none" in said
    )
    said = present(session.run(SIZES.format(4, "score")).release).warnings
    assert any("rows with one value are in one bucket" in each for each in said)


def test_the_epsilon_is_divided_evenly_over_cut_points_and_counts(session: Session) -> None:
    release = present(session.run(SIZES.format(5, "day")).release)
    assert [float(part.charge.epsilon) for part in release.parts] == [5e5, 5e5]


REFUSED = [
    "SELECT tile, COUNT(*) FROM (SELECT NTILE(4) OVER (PARTITION BY team ORDER BY income) AS tile FROM pay) GROUP BY 1",
    "SELECT tile, COUNT(*) FROM (SELECT NTILE(33) OVER (ORDER BY income) AS tile FROM pay) GROUP BY 1",
    "SELECT tile, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY income, age) AS tile FROM pay) GROUP BY 1",
    "SELECT tile, COUNT(*) FROM (SELECT person_id AS age, NTILE(4) OVER (ORDER BY income, age) AS tile FROM pay) GROUP BY 1",
    "SELECT tile, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY team) AS tile FROM pay) GROUP BY 1",
    "SELECT tile, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY income) AS tile, RANK() OVER (ORDER BY age) AS r FROM pay) WHERE r < 9 GROUP BY 1",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_other_ranks_stay_refused(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused, match=r"window over private rows"):
        session.prepare(sql)


def test_a_quantile_of_wide_bounds_says_its_steps(session: Session) -> None:
    sql = "SELECT PERCENTILE_CONT(0.5, contribution_bounds_per_row => (0, {})) WITHIN GROUP (ORDER BY income) FROM pay"
    wide, narrow = (str(session.run(sql.format(high)).release) for high in (200_000, 400))
    assert "is to the nearest 4" in wide
    assert "nearest" not in narrow
