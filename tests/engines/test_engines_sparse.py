"""Domains of which only groups with rows are counted, on each engine: the same counts as DuckDB's."""

from __future__ import annotations

import duckdb
from support.stores import Store

from tests.narrow import present, private
from tests.support.exact import exact_of

POLICY = """
[budget]
epsilon = 1000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
not_null = ["page", "code", "site"]
[tables.visits.domain]
page = { table = "pages", column = "page" }
code = { from = 0, to = 999999999 }
site = ["b", "a", "c"]
[tables.pages]
source = "pages.parquet"
public = true
"""
TABLES = {
    "visits": (
        "SELECT i % 20 AS user_id, 'p' || (i % 7) AS page, CAST(i % 11 * 90000000 AS INTEGER) AS code, "
        "substr('abcd', 1 + i % 4, 1) AS site FROM range(500) AS r(i)"
    ),
    "pages": "SELECT 'p' || i AS page FROM range(5) AS r(i)",
}
ASKED = (
    "page, upper(site) AS s, code, COUNT(DISTINCT user_id) AS n FROM visits "
    "GROUP BY page, s, code ORDER BY n DESC LIMIT 5"
)
EXACT = (
    "SELECT page, upper(site) AS s, code, COUNT(DISTINCT user_id) AS n FROM visits "
    "WHERE page < 'p5' AND site < 'd' GROUP BY ALL ORDER BY ALL"
)


def test_the_listed_groups_are_those_with_rows(store: Store) -> None:
    with duckdb.connect() as connection:
        for name, query in TABLES.items():
            connection.execute(f"CREATE TABLE {name} AS {query}")
        expected = connection.sql(EXACT).fetchall()
        session = store.session(store.policy(POLICY, store.put(connection, TABLES)))
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {ASKED}"
    prepared = private(session.prepare(text))
    counts = exact_of(prepared.counting.count())
    positions = present(counts.positions)
    keys = counts.keys_at(positions)
    rows = zip(*(c.to_pylist() for c in keys), counts.at(0, positions).tolist(), strict=True)
    assert sorted(rows) == expected
    assert len(session.run(text).table) == 5
