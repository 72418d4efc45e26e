"""Outer columns that are bare references to a measure keep its error bar; others have none."""

from __future__ import annotations

import pytest
import sqlglot

from dpsql.composition.hidden_columns import trace
from dpsql.language import Query, parse
from tests.narrow import of_type

COLUMNS = {"r0": ("page", "n"), "r1": ("n",), "pages": ("page", "kind")}

TRACED: list[tuple[str, list[tuple[str, str] | None]]] = [
    ("SELECT page, n FROM r0", [("r0", "page"), ("r0", "n")]),
    ("SELECT n AS m, n + 1 FROM r0", [("r0", "n"), None]),
    ("SELECT * FROM r0", [("r0", "page"), ("r0", "n")]),
    ("SELECT a.*, b.n AS b FROM r0 a CROSS JOIN r1 b", [("r0", "page"), ("r0", "n"), ("r1", "n")]),
    ("SELECT a.n, b.n AS b FROM r0 a, r1 b", [("r0", "n"), ("r1", "n")]),
    ("SELECT * FROM r0 JOIN pages USING (page)", [("r0", "page"), ("r0", "n"), ("pages", "kind")]),
    ("SELECT kind, n FROM r0 LEFT JOIN pages USING (page)", [("pages", "kind"), ("r0", "n")]),
    ("SELECT n FROM r0 SEMI JOIN pages USING (page)", [("r0", "n")]),
    ("SELECT n FROM r0 WHERE n > 3 ORDER BY n LIMIT 2 OFFSET 1", [("r0", "n")]),
    ("SELECT n, LAG(n) OVER (ORDER BY n) FROM r0 QUALIFY LAG(n) OVER (ORDER BY n) < 3", [("r0", "n"), None]),
    ("SELECT m FROM (SELECT n AS m FROM r0 WHERE n > 1) AS s", [("r0", "n")]),
    ("SELECT x FROM (SELECT n FROM r0) AS s(x)", [("r0", "n")]),
    ("SELECT x FROM r1 AS s(x)", [("r1", "n")]),
    ("WITH s AS (SELECT * FROM r0) SELECT * FROM s", [("r0", "page"), ("r0", "n")]),
    ("WITH s(p, c) AS (SELECT * FROM r0) SELECT a.c, b.c FROM s a, s b", [("r0", "n"), ("r0", "n")]),
    ("WITH s AS (SELECT * FROM r0), t AS (SELECT n FROM s) SELECT n FROM t", [("r0", "n")]),
    ("SELECT n, COUNT(*) OVER () FROM r0", [("r0", "n"), None]),
    ("SELECT n, (SELECT n FROM r1) AS t FROM r0", [("r0", "n"), None]),
    ("SELECT s.c FROM (SELECT COUNT(*) AS c FROM r0) AS s", [None]),
    ("SELECT n FROM r0, r1", [None]),
    ("SELECT s.n FROM (SELECT DISTINCT n FROM r0) AS s", [None]),
    ("SELECT s.n FROM (SELECT n FROM r0 UNION ALL SELECT n FROM r1) AS s", [None]),
    ("SELECT s.n, r1.n AS m FROM (SELECT n FROM r0 GROUP BY n) AS s, r1", [None, ("r1", "n")]),
    ("SELECT i, r1.n FROM range(3) t(i), r1", [None, ("r1", "n")]),
    ("SELECT n FROM range(3) t(i), r1", [None]),
    ("WITH r0 AS (SELECT * FROM r0) SELECT n FROM r0", [None]),
]  # fmt: skip
UNTRACED = [
    "SELECT DISTINCT n FROM r0",
    "SELECT n FROM r0 GROUP BY n",
    "SELECT n FROM r0 UNION ALL SELECT n FROM r1",
    "SELECT n FROM r0 NATURAL JOIN pages",
    "SELECT s, n FROM (SELECT n FROM r0) AS s",
    "SELECT n, struct_pack(s.*) FROM (SELECT n FROM r0) AS s",
    "SELECT * EXCLUDE (page) FROM r0",
    "SELECT *, n FROM range(3), r1",
    "SELECT 1",
]


def columns(name: str) -> tuple[str, ...] | None:
    return COLUMNS.get(name)


@pytest.mark.parametrize(("text", "origins"), TRACED)
def test_columns_are_traced(text: str, origins: list[tuple[str, str] | None]) -> None:
    tree = sqlglot.parse_one(text, dialect="duckdb")
    traced = trace(tree, columns)
    assert traced is not None
    assert [traced.origin(i) for i in range(len(traced.columns))] == origins
    assert tree.sql("duckdb") == sqlglot.parse_one(text, dialect="duckdb").sql("duckdb"), "it is not changed"


def test_a_query_that_draws_numbers_is_not_copied() -> None:
    query = of_type(parse("SELECT n, random() FROM r0"), Query)
    assert trace(query.tree, columns) is None


@pytest.mark.parametrize("text", UNTRACED)
def test_what_is_not_a_combination_of_rows_has_no_trace(text: str) -> None:
    traced = trace(sqlglot.parse_one(text, dialect="duckdb"), columns)
    assert traced is None or not any(traced.origin(i) for i in range(len(traced.columns)))
