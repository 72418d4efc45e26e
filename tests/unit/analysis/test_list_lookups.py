"""Subqueries over the items of a list, and series in FROM, count what DuckDB counts, and fail on no row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 1e12
default_epsilon = 1000000
max_epsilon_per_query = 1000000
[tables.events]
source = "events.parquet"
unit = "person"
unique = [["person"]]
"""
ROWS = """
SELECT i AS person, i % 7 AS n, DATE '2024-01-01' + (i % 40)::INTEGER AS day, CASE i % 9
  WHEN 0 THEN NULL
  WHEN 1 THEN []
  ELSE [{'key': 'page', 'value': {'text': 'p' || i % 3, 'number': NULL::BIGINT}},
        {'key': 'session', 'value': {'text': NULL, 'number': (i % 5)::BIGINT}},
        {'key': CASE WHEN i % 4 > 0 THEN 'page' END, 'value': {'text': 'q', 'number': 3}}]
  END AS items
FROM range(300) t(i)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("lists")
    duckdb.sql(f"COPY ({ROWS}) TO '{folder}/events.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


def exact(condition: str, rows: str = "events") -> int:
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE events AS {ROWS}")
        return int(present(engine.execute(f"SELECT COUNT(*) FROM {rows} WHERE {condition}").fetchone())[0])


def asked(session: Session, condition: str, rows: str = "events") -> float:
    answer = session.run(f"SELECT COUNT(*) AS n FROM {rows} WHERE {condition}").table
    return float(answer.column("n")[0].as_py())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            "(SELECT e.value.text FROM UNNEST(items) AS e WHERE e.key = 'page') = 'p1'",
            "list_filter(items, lambda e: e.key = 'page')[1].value.text = 'p1'",
        ),
        (
            "(SELECT value.number FROM UNNEST(items) WHERE key = 'session') > 2",
            "list_filter(items, lambda e: e.key = 'session')[1].value.number > 2",
        ),
        ("(SELECT key FROM UNNEST(items)) IS NULL", "items[1].key IS NULL"),
        (
            "EXISTS (SELECT 1 FROM UNNEST(items) AS e WHERE e.value.number = 3)",
            "coalesce(len(list_filter(items, lambda e: e.value.number = 3)) > 0, false)",
        ),
        (
            "NOT EXISTS (SELECT 1 FROM UNNEST(items) AS e WHERE e.value.text = 'p2')",
            "NOT coalesce(len(list_filter(items, lambda e: e.value.text = 'p2')) > 0, false)",
        ),
        ("NOT EXISTS (SELECT * FROM UNNEST(items))", "coalesce(len(items), 0) = 0"),
        (
            "n || (SELECT value.text FROM UNNEST(items) WHERE key = 'page') = '4p1'",
            "n || list_filter(items, lambda e: e.key = 'page')[1].value.text = '4p1'",
        ),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_subquery_over_a_list_counts_what_duckdb_counts(session: Session, written: str, meant: str) -> None:
    wanted = exact(meant)
    assert 0 < wanted < 300
    assert round(asked(session, written)) == wanted


def test_that_the_first_of_several_items_is_taken_is_told(session: Session) -> None:
    statement = "SELECT COUNT(*) FROM events WHERE (SELECT key FROM UNNEST(items)) = 'a'"
    plan = of_type(session.prepare(statement), PreparedPrivate).plan
    assert any("the first is taken" in str(each) for each in plan.assumed)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("(SELECT value FROM UNNEST(items) WHERE key = 'a') IS NULL", "a list of STRUCT"),
        ("(SELECT value.other FROM UNNEST(items)) = 'a'", "no column"),
        ("(SELECT value.text FROM UNNEST(items) WHERE value.number = n) = 'a'", "no column"),
        ("(SELECT value.text FROM UNNEST(day)) = 'a'", "UNNEST does not take DATE"),
        ("(SELECT key FROM UNNEST(items) ORDER BY key LIMIT 1) = 'a'", "not supported here"),
    ],
)
def test_what_is_no_value_of_an_item_is_refused(session: Session, condition: str, said: str) -> None:
    with pytest.raises(QueryRefused, match=said):
        session.prepare(f"SELECT COUNT(*) FROM events WHERE {condition}")


@pytest.mark.parametrize(
    ("series", "meant"),
    [
        ("generate_series(1, 5) AS s(x)", "generate_series(1, 5) AS s(x)"),
        ("generate_series(5, 1, -2) AS s(x)", "generate_series(5, 1, -2) AS s(x)"),
        ("range(4) AS s(x)", "range(4) AS s(x)"),
        ("range(2, 6, 3) AS s(x)", "range(2, 6, 3) AS s(x)"),
        ("UNNEST(GENERATE_ARRAY(1, 5, 2)) AS s(x)", "range(1, 6, 2) AS s(x)"),
        ("(SELECT UNNEST(range(3)) AS x) AS s", "range(3) AS s(x)"),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_series_of_numbers_is_a_public_relation(session: Session, series: str, meant: str) -> None:
    condition = "events.n = s.x AND person % 3 > 0"
    wanted = exact(condition, f"events, {meant}")
    assert wanted
    assert round(asked(session, condition, f"events, {series}")) == wanted


@pytest.mark.parametrize(
    ("series", "days"),
    [
        ("generate_series(DATE '2024-01-03', DATE '2024-01-09', INTERVAL 2 DAY) AS s(d)", (3, 5, 7, 9)),
        ("UNNEST(GENERATE_DATE_ARRAY('2024-01-03', '2024-01-05')) AS s(d)", (3, 4, 5)),
        ("UNNEST(GENERATE_DATE_ARRAY('2024-01-03', '2024-01-12', INTERVAL 1 WEEK)) AS s(d)", (3, 10)),
        ("range(DATE '2024-01-03', DATE '2024-01-05', INTERVAL 1 DAY) AS s(d)", (3, 4)),
        (
            "(SELECT generate_series('2024-01-03'::DATE, DATE '2024-01-04', '1 day'::INTERVAL)::DATE AS d) s",
            (3, 4),
        ),
        ("generate_series(DATE '2024-01-01', DATE '2024-03-31', INTERVAL 1 MONTH) AS s(d)", (1, 32)),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_series_of_days_is_a_public_relation(session: Session, series: str, days: tuple[int, ...]) -> None:
    wanted = exact(" OR ".join(f"day = DATE '2023-12-31' + {n}" for n in days))
    assert wanted
    assert round(asked(session, "events.day = s.d", f"events, {series}")) == wanted


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ("range(100001) AS s(x)", "at most 100,000 rows"),
        (
            "generate_series(DATE '0001-01-01', DATE '9999-01-01', INTERVAL 1 DAY) AS s(x)",
            "at most 100,000 rows",
        ),
        ("range(1, 5, 0) AS s(x)", "is not 0"),
        ("range(1.5) AS s(x)", "whole numbers"),
        ("range(events.n) AS s(x)", "takes constants"),
    ],
)
def test_what_is_no_short_series_of_constants_is_refused(session: Session, series: str, said: str) -> None:
    with pytest.raises(QueryRefused, match=said):
        session.prepare(f"SELECT COUNT(*) FROM events, {series}")
