# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Different values of a key that the owner says is of one unit each: joined as rows of units, true or not."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from tests.narrow import of_type
from tests.support.exact import exact_of
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e9
max_epsilon_per_query = 1e6
default_epsilon = 1
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 50
[tables.events]
source = "events.parquet"
unit = "user_id"
trust_source = true
owned = ["visit"]
"""
TRUE = "SELECT i % 7 AS user_id, i % 7 * 10 + i % 3 AS visit, i % 4 AS kind FROM range(60) t(i)"
FALSE = "SELECT i % 7 AS user_id, i % 5 AS visit, i % 4 AS kind FROM range(60) t(i) UNION ALL SELECT 8, NULL, 3 UNION ALL SELECT 9, NULL, 3"
"""A visit of several users, and rows of two users without a visit."""
STATEMENTS = [
    "WITH bought AS (SELECT DISTINCT visit FROM events WHERE kind = 3) SELECT COUNT(DISTINCT user_id) FROM events e LEFT JOIN bought b ON e.visit = b.visit WHERE b.visit IS NULL",
    "SELECT COUNT(DISTINCT e.user_id) FROM events e JOIN (SELECT DISTINCT visit, kind FROM events WHERE kind > 1) b ON e.visit = b.visit WHERE e.kind = 0",
    "WITH v AS (SELECT visit, COUNT(*) AS n FROM events GROUP BY visit), b AS (SELECT DISTINCT visit FROM events WHERE kind = 3) SELECT COUNT(*) FROM v LEFT JOIN b ON v.visit = b.visit WHERE b.visit IS NULL",
]


def count(folder: Path, rows: str, statement: str) -> int:
    """Return the exact number that a statement is answered with, but for its noise."""
    with open_world(folder, POLICY, events=rows) as session:
        prepared = of_type(session.prepare(statement), PreparedPrivate)
        return int(exact_of(prepared.counting.count()).n[0][0])


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.sampled(3, rest="longer")
def test_the_number_is_that_of_sql_if_the_declaration_is_true(tmp_path: Path, statement: str) -> None:
    with duckdb.cursor() as raw:
        raw.execute(f"CREATE TEMP TABLE events AS {TRUE}")
        (exact,) = raw.execute(statement).fetchall()[0]
    assert count(tmp_path / "whole", TRUE, statement) == exact


@pytest.mark.parametrize("statement", STATEMENTS[:2])
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.longer)])
@pytest.mark.sampled(3, rest="longer")
def test_one_unit_moves_the_number_by_one_if_the_declaration_is_false(
    tmp_path: Path, statement: str, every: int
) -> None:
    """Only rows of one user meet, whoever else has the same visit."""
    whole = count(tmp_path / "whole", FALSE, statement)
    for user in range(0, 10, every):
        less = count(tmp_path / f"{user}", f"SELECT * FROM ({FALSE}) WHERE user_id <> {user}", statement)
        assert 0 <= whole - less <= 1


@pytest.mark.parametrize("column", ["kind", "user_id % 3", "visit % 2", "kind, user_id % 2"])
def test_different_values_of_many_units_are_no_rows_of_units(tmp_path: Path, column: str) -> None:
    statement = (
        f"SELECT COUNT(*) FROM events e JOIN (SELECT DISTINCT {column} AS k FROM events) b ON e.kind = b.k"
    )
    with open_world(tmp_path / "whole", POLICY, events=TRUE) as session, pytest.raises(QueryRefused):
        session.prepare(statement)
