"""Conversions of texts over released rows are tried before the charge; failures have no engine's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import OperationalError, QueryRefused
from dpsql.session import Session
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 10
delta = 1e-3
default_epsilon = 1
default_delta = 1e-6
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = ["a", "b"]
year = ["2023", "2024"]
[tables.codes]
source = "codes.parquet"
public = true
"""
ROWS = "(SELECT page, year, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, year)"
CITIES = "(SELECT city, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY city)"


@contextmanager
def opened_in(folder: Path) -> Iterator[Session]:
    duckdb.sql(
        "COPY (SELECT i AS user_id, 'a' AS page, '2024' AS year, '7' AS city FROM range(900) t(i)) "
        f"TO '{folder}/visits.parquet'"
    )
    duckdb.sql(f"COPY (SELECT 'a' AS page, '1' AS code, '5x' AS bad) TO '{folder}/codes.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session of which nothing is charged."""
    with opened_in(tmp_path_factory.mktemp("tried")) as session:
        yield session


@pytest.mark.parametrize(
    ("statement", "message", "at", "hint"),
    [
        (f"SELECT page AND year FROM {ROWS}", "a condition must be BOOLEAN, year is", "year", "year = '..'"),
        (f"SELECT n FROM {ROWS} WHERE page", "a condition must be BOOLEAN, page is", "page", "page = '..'"),
        (f"SELECT CASE WHEN page THEN 1 END FROM {ROWS}", "a condition must be", "page THEN", "page = '..'"),
        (f"SELECT CAST(page AS INT), n FROM {ROWS}", "a text of page may not be", "CAST", "TRY_CAST"),
        (f"SELECT page::DATE FROM {ROWS}", "a text of page", "page::", "TRY_CAST(page AS DATE)"),
        (f"SELECT n FROM {ROWS} ORDER BY CAST(page AS INT)", "a text of page", "CAST", "TRY_CAST"),
        (f"SELECT n FROM {ROWS} QUALIFY MAX(page::INT) OVER () > 3", "a text of page", "page::", None),
        (
            f"SELECT page FROM {ROWS} WHERE page = DATE '2024-01-01'",
            "a text of page may not be a valid DATE",
            "page = DATE",
            "TRY_CAST(page AS DATE)",
        ),
        (f"SELECT strptime(page, '%Y') FROM {ROWS}", "a text of page", "strptime", "try_strptime"),
        (f"SELECT date_trunc(page, DATE '2024-01-01') FROM {ROWS}", "date_trunc reads no part", None, None),
        (f"SELECT CAST(city AS INT), n FROM {CITIES}", "a text of city", "CAST", "TRY_CAST"),
        (f"SELECT CAST('abc' AS INT), n FROM {ROWS}", "this text is not a valid INTEGER", "'abc'", None),
        (f"SELECT n, c.bad::INT FROM {ROWS} s JOIN codes c USING (page)", "a text of bad", "c.bad", None),
        (f"SELECT x::INT FROM (SELECT page AS x FROM {ROWS} UNION SELECT 'c')", "a text of x", "x::", None),
        (
            f"SELECT COUNT(*) FROM visits WHERE user_id > (SELECT page::INT FROM {ROWS} ORDER BY n LIMIT 1)",
            "a text of page",
            "page::",
            "TRY_CAST(page AS INT)",
        ),
        (
            "SELECT CAST(page AS INT), COUNT(*) FROM visits GROUP BY page",
            "a text of page",
            "CAST",
            "TRY_CAST",
        ),
        (
            f"WITH s AS {ROWS} SELECT a.n FROM s a JOIN s b ON a.n = CAST(b.page AS INT)",
            "a text of page may not be a valid INTEGER",
            "CAST",
            "TRY_CAST",
        ),
        (
            f"WITH s AS {ROWS} SELECT CAST(v AS INT) FROM (SELECT year v FROM s UNION SELECT page FROM s)",
            "a text of v may not be a valid INTEGER",
            "CAST",
            "TRY_CAST",
        ),
    ],
)
def test_what_may_fail_is_refused_before_the_charge(
    session: Session, statement: str, message: str, at: str | None, hint: str | None
) -> None:
    with pytest.raises(QueryRefused) as caught:
        session.run(statement)
    assert caught.value.message.startswith(message)
    if at is not None:
        assert statement[(caught.value.col or 0) - 1 :].startswith(at)
    if hint is not None:
        assert caught.value.hint == hint
    assert session.budget().spent.epsilon == 0


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT CAST(year AS INT), n FROM {ROWS}",
        f"SELECT year::INT + 1 AS y, SUM(n) FROM {ROWS} GROUP BY ALL",
        f"SELECT CAST(substr(s.year, 3) AS INT), n FROM {ROWS} s ORDER BY year::DOUBLE",
        f"SELECT CAST(year AS DECIMAL(10, 1)), n FROM {ROWS}",
        "SELECT CAST(year AS INT), COUNT(*) FROM visits GROUP BY year",
        f"SELECT CAST(c.code AS INT), n FROM {ROWS} s JOIN codes c USING (page)",
        f"SELECT TRY_CAST(page AS INT), n FROM {ROWS}",
        f"SELECT CAST('12' AS INT), n FROM {ROWS}",
        f"WITH s AS {ROWS} SELECT a.n FROM s a JOIN s b ON CAST(a.year AS INT) = CAST(b.year AS INT) + 1",
        f"WITH s AS {ROWS} SELECT CAST(a.year AS INT), b.n FROM s a LEFT JOIN s b ON a.n > b.n",
        f"WITH s AS {ROWS} SELECT CAST(year AS INT) FROM (SELECT year FROM s UNION ALL SELECT year FROM s)",
    ],
)
def test_what_no_value_fails_is_accepted(session: Session, statement: str) -> None:
    session.prepare(statement)


@pytest.mark.parametrize(
    "column", ["CAST(n * 1e300 AS INT)", "CAST(CASE WHEN n > 3 THEN 'secret' ELSE 'hidden' END AS INT)"]
)
def test_a_failure_after_the_charge_has_no_words_of_the_engine(tmp_path: Path, column: str) -> None:
    statement = "SELECT page, year, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, year"
    with opened_in(tmp_path) as session:
        with pytest.raises(OperationalError) as caught:
            session.run(f"SELECT page, {column} FROM {ROWS}")
        assert session.prepare(statement).price.epsilon == 0
    told = str(caught.value)
    assert "a value is not a valid one of the type" in told
    assert "costs nothing when it is asked again" in told
    assert "release 1" in told
    assert not any(word in told for word in ("secret", "hidden", "e+30", "Conversion", "INT32"))
