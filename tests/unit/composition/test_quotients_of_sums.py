"""An average beside the sum of its values is that by the number of values, and means the average."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.composition import parts_of
from dpsql.language import Query, parse
from dpsql.session import Session
from tests.narrow import analysed_blocks
from tests.nearly_exact import NearlyExact, nearly_exact

SALES = """
CREATE TABLE sales AS
SELECT (i % 400)::BIGINT AS buyer, chr((97 + i % 3)::INTEGER) AS shop, ((i * 7) % 50)::INTEGER AS price,
       (i % 5)::INTEGER AS pieces,
       CASE WHEN i % 11 = 0 THEN 'nan'::DOUBLE WHEN i % 7 <> 0 THEN (i * 3) % 40 / 4 END AS weight,
       (1950 + i % 60)::INTEGER AS born
FROM range(4000) AS r(i)
"""
POLICY = """
[tables.sales]
source = "sales"
unit = "buyer"
not_null = ["shop"]
domain = { shop = ["a", "b", "c"] }
bounds = { price = { from = 0, to = 100 }, weight = { from = 0, to = 50 }, born = { from = 1900, to = 2020 } }
"""


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("sales"), SALES, POLICY, epsilon=1e8)
    yield found
    found.private.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT SUM(price) AS s, AVG(price) AS a FROM sales",
        "SELECT shop, SUM(price) AS s, AVG(price) AS a, 2 * AVG(price) AS t FROM sales GROUP BY shop",
        "SELECT SUM(price) FILTER (WHERE pieces > 1) AS s, AVG(price) FILTER (WHERE pieces > 1) AS a "
        "FROM sales",
        "SELECT shop, AVG(price) AS a FROM sales GROUP BY shop HAVING SUM(price) > 0 ORDER BY a",
        "SELECT SUM(born) AS s, AVG(born) AS a FROM sales",
        "SELECT AVG(pieces) AS a FROM sales",
        "SELECT AVG(pieces) - AVG(pieces) FILTER (WHERE shop = 'a') AS d, COUNT(*) AS n FROM sales",
        "SELECT ROUND(AVG(pieces), 2) AS a FROM sales WHERE price > 20",
        "SELECT shop, AVG(pieces) AS a, COUNT(*) AS n FROM sales GROUP BY shop",
        "SELECT AVG(n) AS a FROM (SELECT buyer, COUNT(*) AS n FROM sales GROUP BY buyer)",
        "SELECT shop, 2 * SUM(pieces) AS t FROM sales GROUP BY shop HAVING SUM(pieces) > 10",
    ],
)
def test_both_are_those_of_duckdb(sales: NearlyExact, statement: str) -> None:
    sales.agrees(statement, within=0.5)


def test_no_sum_or_average_has_nan(sales: NearlyExact) -> None:
    statement = "SELECT SUM(weight) AS s, AVG(weight) AS a FROM sales"
    sales.agrees(statement, also=f"{statement} WHERE NOT isnan(weight)")


@pytest.mark.parametrize(
    ("asked", "quotient"),
    [
        ("SUM(price), AVG(price)", True),
        ("SUM(price) FILTER (WHERE pieces > 1), AVG(price) FILTER (WHERE pieces > 1)", True),
        ("SUM(price), AVG(price) FILTER (WHERE pieces > 1)", False),
        ("SUM(born), AVG(born)", False),
        ("SUM(price), AVG(price), STDDEV(price)", False),
        ("AVG(price)", False),
        ("AVG(pieces)", True),
        ("AVG(pieces), STDDEV(pieces)", False),
        ("AVG(pieces * pieces) - AVG(pieces) * AVG(pieces)", False),
        ("AVG(n) FROM (SELECT buyer, COUNT(*) AS n FROM sales GROUP BY buyer)", True),
    ],
)
def test_which_averages_are_quotients(sales: NearlyExact, asked: str, quotient: bool) -> None:
    session, source = sales.private._session, "" if "FROM" in asked else " FROM sales"
    query = parse(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {asked}{source}")
    assert isinstance(query, Query)
    (part,) = [e for e in parts_of(query, analysed_blocks(session)).releases if not e.constant]
    released = part.query.tree.sql().upper()
    assert ("FN_COUNT(" in released) == quotient
    assert ("FN_AVG(" in released) != quotient


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("AVG(price * weight)", True),
        ("AVG(price * weight), AVG(price)", True),
        ("AVG(price * weight) - AVG(price) * AVG(weight)", False),
        ("CORR(price, weight)", False),
    ],
)
def test_moments_of_pairs_keep_the_bounds_of_their_columns(
    sales: NearlyExact, asked: str, searched: bool
) -> None:
    session: Session = sales.private._session
    answer = session.run(f"SELECT {asked} FROM sales").release
    assert answer is not None
    assert ("outside 0 to 5,000 are cut" in str(answer.assumed)) != searched


@pytest.mark.parametrize(
    ("asked", "centres"),
    [
        ("AVG(pieces)", 1),
        ("AVG(pieces), AVG(weight * pieces), COUNT(*)", 2),
        ("AVG(pieces) - AVG(pieces) FILTER (WHERE shop = 'a')", 1),
        ("AVG(pieces), SUM(pieces)", 0),
        ("AVG(price)", 0),
        ("AVG(n) FROM (SELECT buyer, COUNT(*) AS n FROM sales GROUP BY buyer)", 0),
        ("AVG(n) FROM (SELECT buyer, 5 - COUNT(*) AS n FROM sales GROUP BY buyer)", 1),
        ("shop, AVG(pieces) FROM sales GROUP BY shop", 0),
    ],
)
def test_which_averages_are_distances_from_a_centre(sales: NearlyExact, asked: str, centres: int) -> None:
    session, source = sales.private._session, "" if "FROM " in asked else " FROM sales"
    query = parse(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {asked}{source}")
    assert isinstance(query, Query)
    found = [each for each in parts_of(query, analysed_blocks(session)).releases if each.constant]
    assert len(found) == (centres > 0)
    assert sum("FN_SUM(" in item.sql().upper() for e in found for item in e.query.tree.expressions) == centres


def test_a_centre_is_a_part_of_epsilon_and_asked_once(sales: NearlyExact) -> None:
    session: Session = sales.private._session
    statement = "SELECT AVG(weight * pieces) AS a FROM sales"
    first, again = session.run(statement).release, session.run(statement).release
    assert first is not None
    assert again is not None
    assert first.selection == "2 releases"
    assert again.reused is not None
    assert again.table.equals(first.table)
    assert "a_low" in first.table.column_names
    assert not first.warnings
    assert "weight * pieces - AVG(weight" in str(first)
