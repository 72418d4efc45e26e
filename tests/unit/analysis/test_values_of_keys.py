"""Keys that are computed of numbers have DuckDB's values, and its types where no value needs a wider one."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.nearly_exact import NearlyExact, nearly_exact

NUMBERS = """
CREATE TABLE seen AS
SELECT (u * 100 + r)::BIGINT AS person, i::INTEGER AS i, i::BIGINT AS b, (i % 100)::SMALLINT AS s,
       (abs(i) % 3)::UTINYINT AS t, d::DECIMAL(10, 2) AS d, x::DOUBLE AS x, w::BIGINT AS w
FROM (VALUES (1, 0, 0.05, 0.5, 9007199254740993), (2, 1, 1.15, 1.5, 1), (3, 2, 2.50, 2.5, -9007199254740993),
             (4, -1, -0.50, -0.5, 150), (5, 3, 2.68, 2.675, 250), (6, -3, -2.55, -2.5, -150),
             (7, 150, 150.50, 150.0, -250), (8, -150, -150.51, 0.1, 7), (9, 5, 4.35, 1e9, 8),
             (10, NULL, NULL, NULL, NULL)) AS v(r, i, d, x, w), range(30) AS q(u)
"""
POLICY = """
[tables.seen]
source = "seen"
unit = "person"
unique = [["person"]]
"""
SAME = (
    "CAST(i - 0.5 AS INTEGER)",
    "CAST((i + 1) * 0.5 AS INTEGER)",
    "CAST(-i * 1.5 AS BIGINT)",
    "CAST(b * 0.5 AS INTEGER)",
    "CAST(b + 0.5 AS INTEGER)",
    "CAST(x - 0.5 AS INTEGER)",
    "CAST(d * 0.5 AS INTEGER)",
    "i - 0.5",
    "3 - d",
    "i + d",
    "s * d",
    "CAST(d * 100 AS INTEGER)",
    "floor(d * 100)::INTEGER",
    "round(w)",
    "trunc(w, -1)",
    "round(w, -2)",
    "bit_count(i)",
    "bit_count(s)",
    "bit_count(w)",
    "~t",
    "coalesce(i, 0.5)",
    "CAST(coalesce(i, 0.5) AS INTEGER)",
    "CAST(greatest(i, 0.5) AS INTEGER)",
    "CAST(CASE WHEN i > 1 THEN i ELSE 2.5 END AS INTEGER)",
    "CAST(if(i > 1, d, b) AS INTEGER)",
    "CAST(nullif(b * 0.5, 0) AS INTEGER)",
    "CAST(abs(b * 0.5) AS INTEGER)",
    "CAST(coalesce(d, 0) AS VARCHAR)",
    "CAST(least(i, 0.25) AS VARCHAR)",
    "d % 1",
    "i % 0.7",
    "floor(coalesce(d, 0) * 100)::INTEGER",
)


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT i * 0.5 AS v FROM seen UNION ALL SELECT i FROM seen",
        "SELECT person, max(b * 0.5) AS v FROM seen GROUP BY person",
        "SELECT min(b * 0.5) OVER (PARTITION BY person) AS v FROM seen",
        "SELECT v FROM (SELECT person, b * 0.5 AS v FROM seen GROUP BY person, v)",
    ],
)
def test_columns_of_subqueries_are_rounded_as_decimals(seen: NearlyExact, rows: str) -> None:
    for number in (1, 2, 3):
        seen.agrees(f"SELECT COUNT(*) AS n FROM ({rows}) WHERE v::INTEGER = {number}")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("keys"), NUMBERS, POLICY)
    yield found
    found.private.close()


@pytest.mark.parametrize("key", SAME)
def test_keys_have_the_values_and_types_of_duckdb(seen: NearlyExact, key: str) -> None:
    statement = f"SELECT {key} AS k, COUNT(*) AS n FROM seen GROUP BY k"
    seen.agrees(statement)
    found = seen.private.execute(statement).fetch_arrow_table()
    assert duckdb.from_arrow(found).types[0] == seen.plain.sql(statement).types[0]


@pytest.mark.parametrize("key", ["d * 3", "floor((i + 1) * 1.15)", "round(i, -2)", "i // 7", "i + 3"])
def test_keys_of_a_wider_type_have_the_values_of_duckdb(seen: NearlyExact, key: str) -> None:
    """What is computed of whole numbers is a BIGINT, and a product has the digits that it needs."""
    seen.agrees(f"SELECT {key} AS k, COUNT(*) AS n FROM seen GROUP BY k")
