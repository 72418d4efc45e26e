"""Sums over the first rows in an order: their answer, and how far one unit moves it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.kernel.tree import duckdb_sql
from tests.narrow import of_type
from tests.nearly_exact import NearlyExact, nearly_exact

SALES = """
CREATE TABLE sales AS
SELECT (i % 300)::BIGINT AS buyer, (i * 7 % 211)::INTEGER AS price, (i * 13 % 97)::INTEGER AS pieces,
       CASE WHEN i % 9 <> 0 THEN (i % 50 / 10)::DECIMAL(5, 2) END AS weight
FROM range(900) AS r(i);
CREATE TABLE buyers AS
SELECT i::BIGINT AS buyer, (1930 + i * 31 % 70)::INTEGER AS born FROM range(300) AS r(i);
"""
POLICY = """
[tables.sales]
source = "sales"
unit = "buyer"
bounds = { price = { from = 0, to = 300 }, pieces = { from = -10, to = 100 }, weight = { from = 0, to = 9 } }
[tables.buyers]
source = "buyers"
unit = "buyer"
unique = [["buyer"]]
bounds = { born = { from = 1900, to = 2020 } }
"""
ROWS = "FROM (SELECT {0}, ROW_NUMBER() OVER (ORDER BY {1}) AS r FROM sales) WHERE r <= 40"
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 9)"


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("sales"), SALES, POLICY, epsilon=1e8)
    yield found
    found.private.close()


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT SUM(price) AS s {ROWS.format('price', 'price DESC')}",
        f"SELECT SUM(pieces - 5) AS s {ROWS.format('pieces', 'price, pieces')}",
        f"SELECT AVG(weight) AS s {ROWS.format('weight', 'price DESC, pieces, weight')}",
        f"SELECT COUNT(weight) AS s {ROWS.format('weight', 'weight NULLS FIRST, price')}",
        "SELECT SUM(price) AS s FROM (SELECT price FROM sales WHERE pieces > 3 ORDER BY price DESC LIMIT 25)",
        "SELECT SUM(p) AS s FROM (SELECT price * 2 AS p FROM sales ORDER BY 1 DESC LIMIT 25)",
        "SELECT AVG(born) AS s FROM (SELECT * FROM buyers ORDER BY born LIMIT 30)",
        "SELECT SUM(price) AS s FROM (SELECT price FROM sales ORDER BY price LIMIT 5000)",
        "SELECT COUNT(*) AS s FROM (SELECT price FROM sales ORDER BY price LIMIT 5000)",
        f"SELECT SUM(price), AVG(price) AS a, COUNT(*) AS n {ROWS.format('price', 'price DESC')}",
    ],
)
def test_the_answer_is_that_of_duckdb(sales: NearlyExact, statement: str) -> None:
    asked = statement if "buyers" in statement else statement.replace("SELECT", OPTIONS, 1)
    assert sales.rows(asked)[0][0] == pytest.approx(float(sales.meant(statement)[0][0]), abs=0.05)


@pytest.mark.parametrize(("most", "first", "change"), [(9, 40, 9), (2, 40, 2), (9, 4, 4)])
def test_a_unit_changes_as_many_rows_as_it_keeps(
    sales: NearlyExact, most: int, first: int, change: int
) -> None:
    options = OPTIONS.replace("9", str(most))
    text = f"{options} SUM(pieces) AS s {ROWS.format('pieces', 'price DESC').replace('40', str(first))}"
    part = of_type(sales.private._session.prepare(text), PreparedPrivate)
    (found,) = part.plan.compiled.certificate.numbers
    assert (found.low, found.high) == (-110 * change, 110 * change)


def test_no_removal_moves_the_number_by_more(sales: NearlyExact) -> None:
    text = f"{OPTIONS.replace('9', '2')} SUM(pieces) AS s {ROWS.format('pieces', 'price DESC')}"
    part = of_type(sales.private._session.prepare(text.replace("40", "5")), PreparedPrivate)
    (most,) = (number.high for number in part.plan.compiled.certificate.numbers)
    sql, rng, found = duckdb_sql(part.plan.compiled.query), Random(5), set[int]()
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE all_sales (buyer BIGINT, price INTEGER, pieces INTEGER, weight DECIMAL(5, 2))"
        )
        for _ in range(40):
            rows = [
                (rng.choice((0, 1, 2, 3, None)), rng.randrange(3), rng.choice((-10, 100))) for _ in range(12)
            ]
            connection.execute("DELETE FROM all_sales")
            connection.executemany("INSERT INTO all_sales VALUES (?, ?, ?, 1)", [[*row] for row in rows])
            numbers = []
            for unit in (-1, 0, 1, 2, 3):
                connection.execute(
                    f"CREATE OR REPLACE VIEW sales AS FROM all_sales WHERE buyer IS NULL OR buyer <> {unit}"
                )
                numbers.append(connection.execute(sql).fetchall()[0][0])
            found |= {abs(numbers[0] - less) for less in numbers[1:]}
    assert max(found) == most


@pytest.mark.parametrize("name", ["RANK()", "DENSE_RANK()", "PERCENT_RANK()"])
def test_ranks_are_no_numbers_of_rows(sales: NearlyExact, name: str) -> None:
    text = ROWS.format("price", "price DESC").replace("ROW_NUMBER()", name)
    with pytest.raises(QueryRefused, match="PARTITION BY"):
        sales.private._session.prepare(f"{OPTIONS} SUM(price) AS s {text}")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"SELECT SUM(price) AS s {ROWS.format('price', 'price')}", "say how many may count"),
        (f"{OPTIONS} SUM(buyer) AS s {ROWS.format('buyer', 'price')}", "needs bounds"),
    ],
)
def test_what_has_no_bounds_is_refused(sales: NearlyExact, statement: str, said: str) -> None:
    with pytest.raises(QueryRefused, match=said):
        sales.private._session.prepare(statement)


@pytest.mark.parametrize(
    "rows",
    [
        "FROM (SELECT born FROM buyers ORDER BY born LIMIT 10%)",
        "FROM (SELECT born FROM buyers ORDER BY born LIMIT 10 PERCENT)",
        "FROM (SELECT buyer FROM buyers ORDER BY born LIMIT 10)",
    ],
)
def test_what_is_no_number_of_rows_or_no_column_of_them_is_refused(sales: NearlyExact, rows: str) -> None:
    with pytest.raises(QueryRefused):
        sales.private._session.prepare(f"SELECT SUM(born) AS s {rows}")


def test_rows_are_named_by_their_block(sales: NearlyExact) -> None:
    rows = "FROM (SELECT * FROM buyers ORDER BY born LIMIT 10)"
    sales.private._session.prepare(f"SELECT SUM(m.born) AS s {rows} AS m")
    with pytest.raises(QueryRefused):
        sales.private._session.prepare(f"SELECT SUM(buyers.born) AS s {rows} AS m")
