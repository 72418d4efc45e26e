"""Outer queries that do not bind: the refusal is in words of dpsql, at its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 10
default_epsilon = 1
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = ["a", "b"]
"""
COUNTED = "(SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("visits")
    duckdb.sql(f"COPY (SELECT i AS user_id, 'a' AS page FROM range(9) t(i)) TO '{folder}/visits.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


@pytest.mark.parametrize(
    ("statement", "message", "at"),
    [
        (f"SELECT page, m FROM {COUNTED}", "there is no column m", "m"),
        (
            f"SELECT page, upper(n) FROM {COUNTED}",
            "upper is not allowed with (DOUBLE): released numbers",
            "upper",
        ),
        (f"SELECT page, n - page FROM {COUNTED}", "- is not allowed with (DOUBLE, VARCHAR)", "-"),
        (f"SELECT page, n, SUM(n) FROM {COUNTED} GROUP BY page", "n is neither grouped nor aggregated", None),
        (f"SELECT n FROM {COUNTED} s, {COUNTED} t", "column n is in several relations", None),
    ],
)
def test_what_does_not_bind_is_said_in_words(
    session: Session, statement: str, message: str, at: str | None
) -> None:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(statement)
    error = caught.value
    assert error.message.startswith(message)
    assert "argument types" not in error.message
    if at is not None:
        assert statement[(error.col or 0) - 1 :].startswith(at)
