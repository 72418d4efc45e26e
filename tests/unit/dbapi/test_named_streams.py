"""Streams of checks in Python write the statements that SQL has for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.errors import InterfaceError, ProgrammingError
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 1000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["a", "b", "c"], complete = true }
[tables.forecast]
source = "forecast.parquet"
public = true
"""
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
GROUPS = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"


@pytest.fixture
def con(tmp_path: Path) -> Iterator[dpsql.Connection]:
    visits = "SELECT i AS user_id, ['a', 'b', 'c'][i % 3 + 1] AS page FROM range(6000) t(i)"
    path = write_world(tmp_path, POLICY, visits=visits, forecast="SELECT 'a' AS page, 2000 AS n")
    with dpsql.connect(path) as connection:
        yield connection


@pytest.mark.parametrize(
    ("sql", "given", "off"),
    [
        (COUNT, {"expect": 6000, "tolerance": 100}, False),
        (COUNT, {"expect": 5000, "within": 0.05}, True),
        (COUNT, {"expect": (5500.5, 6500)}, False),
        (COUNT, {"expect": (None, 5000)}, True),
        (COUNT, {"expect": (5000, None)}, False),
        (f"{COUNT} WHERE page = ?;", {"expect": 2000, "tolerance": "0.5e2", "parameters": ["a"]}, False),
        (GROUPS, {"table": "forecast", "tolerance": 100, "column": "n"}, False),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_what_is_expected(con: dpsql.Connection, sql: str, given: dict[str, Any], off: bool) -> None:
    daily = con.checks("daily", epsilon=300, misses=4)
    found = daily.check(sql, **given)
    assert found.off is off
    assert daily.left == 4 - off


def test_it_is_found_again_refilled_and_closed(con: dpsql.Connection) -> None:
    with pytest.raises(ProgrammingError, match="you have no stream daily"):
        con.checks("daily")
    con.checks("daily", epsilon=10, misses=1, tolerance=5000, answers="1/4")
    daily = con.checks("daily")
    assert daily.check(COUNT, "last").table.to_pylist()[0]["checked"] == "answered"
    assert daily.facts["state"] == "used up"
    daily.refill(misses=3)
    assert not daily.check(COUNT, "last").off
    assert daily.check(COUNT, "last", per="it's").notes == ()
    assert daily.left == 2
    daily.close()
    assert daily.facts["state"] == "closed"


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("dai ly", {"epsilon": 1, "misses": 1}, "is a word"),
        ("daily", {"epsilon": 1}, "its epsilon and its misses"),
        ("daily", {"misses": 1, "tolerance": 1}, "its epsilon and its misses"),
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_wrong_use(con: dpsql.Connection, name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InterfaceError, match=message):
        con.checks(name, **given)


def test_a_check_needs_one_expectation(con: dpsql.Connection) -> None:
    daily = con.checks("daily", epsilon=10, misses=1)
    for given in ({}, {"expect": 1, "table": "forecast"}, {"expect": (None, None)}):
        with pytest.raises(InterfaceError):
            daily.check(COUNT, **given)
