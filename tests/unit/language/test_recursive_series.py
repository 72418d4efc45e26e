"""Recursive tables that count up are series with the same values."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.language import MARK, Query, parse

NUMBERS = [
    f"WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + {step} FROM s WHERE n {word} {last}) "
    "SELECT n FROM s"
    for first, step, word, last in [
        (1, 1, "<", 5),
        (1, 2, "<=", 5),
        (1, 3, "<", 5),
        (7, 2, "<=", 5),
        (5, 1, "<", 5),
    ]
]
DAYS = [
    f"WITH RECURSIVE s AS (SELECT DATE '{first}' AS d UNION ALL SELECT d + INTERVAL {step} FROM s "
    f"WHERE d {word} '{last}') SELECT d FROM s"
    for first, step, word, last in [
        ("2024-01-01", "1 DAY", "<", "2024-01-05"),
        ("2024-01-31", "1 DAY", "<=", "2024-03-01"),
        ("2024-01-01", "7 DAY", "<", "2024-02-01"),
        ("2024-01-15", "1 MONTH", "<", "2024-12-31"),
        ("2024-01-28", "1 MONTH", "<=", "2024-03-28"),
        ("2024-02-28", "1 YEAR", "<", "2028-02-29"),
        ("2024-05-01", "1 DAY", "<", "2024-01-01"),
    ]
]


def read(text: str) -> str:
    query = parse(text)
    assert isinstance(query, Query)
    return query.tree.sql("duckdb", normalize_functions=False).replace(MARK, "")


@pytest.mark.parametrize("text", [*NUMBERS, *DAYS])
def test_a_series_has_the_values_that_the_recursion_has(text: str) -> None:
    made = read(text)
    assert "RECURSIVE" not in made
    assert sorted(duckdb.execute(made).fetchall()) == sorted(duckdb.execute(text).fetchall())


@pytest.mark.parametrize(
    "text",
    [
        "WITH RECURSIVE s AS (SELECT DATE '2024-01-31' AS d UNION ALL SELECT d + INTERVAL 1 MONTH FROM s "
        "WHERE d < '2024-05-01') SELECT d FROM s",
        "WITH RECURSIVE s AS (SELECT DATE '2024-01-01' AS d UNION ALL SELECT d + INTERVAL 900 YEAR FROM s "
        "WHERE d < '9999-12-31') SELECT d FROM s",
        "WITH RECURSIVE s AS (SELECT 1 AS n UNION SELECT n + 1 FROM s WHERE n < 5) SELECT n FROM s",
        "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n <> 5) SELECT n FROM s",
        "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + n FROM s WHERE n < 5) SELECT n FROM s",
        "WITH RECURSIVE a AS (SELECT * FROM s), s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s "
        "WHERE n < 5) SELECT n FROM a",
        "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s TABLESAMPLE 10 PERCENT "
        "WHERE n < 5) SELECT n FROM s",
        "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 5 LIMIT 2) "
        "SELECT n FROM s",
        "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM other.s WHERE n < 5) SELECT n FROM s",
        "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s AS s(m) WHERE n < 5) "
        "SELECT n FROM s",
    ],
)
def test_others_stay_recursive(text: str) -> None:
    assert "RECURSIVE" in read(text)
