"""Streams of checks on each engine: where a change of the data may not show, each check is asked anew."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest
from support.stores import Store

POLICY = """
[budget]
epsilon = 1000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["a", "b", "c"], complete = true }
[tables.visits.bounds]
cost = { from = 0, to = 10 }
[tables.forecast]
source = "forecast.parquet"
public = true
"""
TABLES = {
    "visits": (
        "SELECT i AS user_id, substr('abc', 1 + i % 3, 1) AS page, CAST(i % 5 AS INTEGER) AS cost "
        "FROM range(3000) AS r(i)"
    ),
    "forecast": "SELECT 'a' AS page, 1000 AS n, 100 AS tolerance",
}
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
KEPT = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 1)"
CHECKS = [
    (f"{COUNT} EXPECT n = 3000 TOLERANCE 200", ["as expected"]),
    (f"{COUNT} EXPECT n AT MOST 2000", ["off"]),
    (f"SELECT page, {COUNT[7:]} GROUP BY page EXPECT n FROM forecast", ["as expected"]),
    (f"SELECT {KEPT} AVG(cost) AS c FROM visits EXPECT c = 2 WITHIN 50%", ["as expected"]),
    (f"SELECT {KEPT} MEDIAN(cost) AS c FROM visits EXPECT c AT LEAST 3", ["off"]),
    (f"{COUNT} WHERE page = 'b' EXPECT n = LAST TOLERANCE 200", ["answered"]),
]


@pytest.mark.parametrize("version", [None, "1"])
def test_checks(store: Store, version: str | None) -> None:
    with duckdb.connect() as connection:
        for name, query in TABLES.items():
            connection.execute(f"CREATE TABLE {name} AS {query}")
        policy = store.policy(POLICY, store.put(connection, TABLES))
    session = store.session(replace(policy, data_version=version))
    session.run("OPEN CHECKS daily OPTIONS (epsilon = 500, misses = 9)")
    for text, expected in CHECKS:
        result = session.run(f"CHECK daily {text}")
        assert result.table.column("checked").to_pylist() == expected, text
    before = session.run("SHOW STREAMS").table.to_pylist()[0]["left"]
    again = session.run(f"CHECK daily {CHECKS[1][0]}")
    after = session.run("SHOW STREAMS").table.to_pylist()[0]["left"]
    is_stored = any("stored answer" in note for note in again.notices)
    assert is_stored is (before == after)
    assert is_stored or not version
    assert session.ledger.check() == []
    session.run("CLOSE STREAM daily")


def test_the_first_stable_answer_of_a_list(store: Store) -> None:
    with duckdb.connect() as connection:
        for name, query in TABLES.items():
            connection.execute(f"CREATE TABLE {name} AS {query}")
        policy = store.policy(
            POLICY.replace("ledger =", "delta = 0.1\nledger ="), store.put(connection, TABLES)
        )
    session = store.session(policy)
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6)"
    largest = "FROM visits GROUP BY k ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1"
    other = "CASE page WHEN 'a' THEN 'a' ELSE 'other' END AS k"
    text = f"FIRST STABLE SELECT {options} page AS k {largest} ELSE SELECT {other} {largest}"
    assert session.run(text).table.to_pylist() == [{"k": "other"}]
    assert session.budget().spent.epsilon == 1
    assert session.ledger.check() == []


def test_a_board_of_uploads(store: Store) -> None:
    """The rows of an upload are sent to the engine, which joins them as any public table."""
    with duckdb.connect() as connection:
        for name, query in TABLES.items():
            connection.execute(f"CREATE TABLE {name} AS {query}")
        policy = store.policy(POLICY, store.put(connection, TABLES))
    session = store.session(policy)
    session.run(
        "OPEN BOARD best OPTIONS (epsilon = 300, improvements = 3, step = 0.02, best = LOWEST, start = 0.9)"
    )
    found = []
    for every in (5, 3, 10):
        users = range(3000)
        wrong = {"user_id": [*users], "page": ["z" if i % every == 0 else "abc"[i % 3] for i in users]}
        session.upload("guess", pa.table(wrong))
        (row,) = session.run(
            f"CHECK best SELECT {KEPT} AVG(CASE WHEN g.page = v.page THEN 0 ELSE 1 END) AS loss "
            "FROM visits v JOIN guess g ON g.user_id = v.user_id"
        ).table.to_pylist()
        found.append((row["checked"], row["loss"] and round(row["loss"], 1)))
    assert found == [("new best", 0.2), ("no new best", None), ("new best", 0.1)]
    assert session.ledger.check() == []
