"""Keys whose values belong to one unit each, though nobody has declared it: what a refusal offers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.errors import QueryRefused
from tests.nearly_exact import NearlyExact, nearly_exact

ITEMS = """
CREATE TABLE items AS
SELECT i AS item_id, i // 3 AS order_id, (i // 3) % 200 AS buyer, i % 7 AS pieces, i % 5 AS shelf
FROM range(3000) AS r(i);
CREATE TABLE shelves AS SELECT i AS shelf, i % 2 = 0 AS low FROM range(1, 6) AS r(i)
"""
POLICY = """
[tables.items]
source = "items"
unit = "buyer"
[tables.shelves]
source = "shelves"
public = true
"""


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("items"), ITEMS, POLICY, epsilon=1e8)
    yield found
    found.private.close()


def _refusal(items: NearlyExact, statement: str) -> QueryRefused:
    with pytest.raises(QueryRefused) as caught:
        items.private._session.planner.prepare(statement)
    return caught.value


@pytest.mark.parametrize(
    ("statement", "offered"),
    [
        (
            "SELECT AVG(n) AS n FROM (SELECT order_id, SUM(pieces) AS n FROM items GROUP BY order_id)",
            "SELECT AVG(n) AS n FROM "
            "(SELECT order_id, SUM(pieces) AS n, buyer FROM items GROUP BY order_id, buyer)",
        ),
        (
            "WITH o AS (SELECT i.order_id AS o, COUNT(*) AS n FROM items i GROUP BY 1) "
            "SELECT AVG(n) AS n FROM o WHERE n > 1",
            "WITH o AS (SELECT i.order_id AS o, COUNT(*) AS n, buyer FROM items i GROUP BY 1, buyer) "
            "SELECT AVG(n) AS n FROM o WHERE n > 1",
        ),
    ],
)
def test_groups_of_orders_are_groups_of_their_units(items: NearlyExact, statement: str, offered: str) -> None:
    refused = _refusal(items, statement)
    assert refused.rewrite is None, "it is the same on a condition that nobody has declared"
    (obstacle,) = refused.obstacles
    assert obstacle.hint == (
        f"{offered} -- the same if each order_id of items belongs to one buyer; else it is a group of each"
    )
    items.agrees(offered, also=statement, within=0.1)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT AVG(n) FROM (SELECT pieces, COUNT(*) AS n FROM items GROUP BY pieces)",
        "SELECT order_id, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM items GROUP BY order_id",
    ],
)
def test_other_keys_are_bounded_or_listed(items: NearlyExact, statement: str) -> None:
    (obstacle,) = _refusal(items, statement).obstacles
    assert obstacle.hint is not None
    assert obstacle.hint.startswith("OPTIONS (max_groups_contributed = 16), or list them: WHERE ")


@pytest.mark.parametrize(
    ("statement", "offered"),
    [
        (
            "SELECT AVG(n) AS a FROM (SELECT i.shelf, COUNT(*) AS n FROM items i GROUP BY i.shelf)",
            "SELECT AVG(n) AS a FROM (SELECT i.shelf, COUNT(*) AS n FROM items i "
            "WHERE i.shelf IN (SELECT shelf FROM shelves) GROUP BY i.shelf)",
        ),
    ],
)
def test_a_key_of_a_public_table_has_its_values(items: NearlyExact, statement: str, offered: str) -> None:
    refused = _refusal(items, statement)
    assert refused.rewrite is None, "rows of other shelves are left out"
    (obstacle,) = refused.obstacles
    assert obstacle.hint == f"{offered} -- asks something else: only the rows with a shelf of shelves"
    items.agrees(offered, within=0.1)


def test_a_key_that_is_not_shown_has_the_name_of_its_column(items: NearlyExact) -> None:
    (obstacle,) = _refusal(
        items, "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM items GROUP BY shelf)"
    ).obstacles
    assert "the values of shelf are not declared" in obstacle.message
    listed = "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM items GROUP BY shelf * pieces)"
    (obstacle,) = _refusal(items, listed).obstacles
    assert obstacle.hint is not None
    assert obstacle.hint.endswith("or list them in WHERE")
