"""Averages of integers within a unit: rounded as a quotient of whole numbers, whatever the machine has."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.support.exact import exact_of
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.r]
source = "r.parquet"
unit = "u"
"""
LARGE = 9007199254740993
"""2^53 + 1: not a DOUBLE."""
ROWS = (
    "(1, 1), (1, 2), (1, 2), (2, -1), (2, -2), (3, NULL), "
    f"(4, {LARGE}), (4, {LARGE}), (4, {LARGE}), (5, {-LARGE}), (5, {2 - LARGE}), (5, {2 - LARGE}), "
    "(6, 9223372036854775807), (6, 9223372036854775807), (7, -9223372036854775808), (7, 0)"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("means")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE r (u BIGINT, b BIGINT)")
        connection.execute(f"INSERT INTO r VALUES {ROWS}")
        connection.execute(f"COPY r TO '{folder}/r.parquet'")
    with open_world(folder, POLICY) as opened:
        yield opened


@pytest.mark.parametrize(
    ("call", "means"),
    {
        "AVG(b)": (5 / 3, -1.5, None, 2.0**53, -(2.0**53), 2.0**63, -(2.0**62)),
        "AVG(DISTINCT b)": (1.5, -1.5, None, 2.0**53, -(2.0**53), 2.0**63, -(2.0**62)),
        "AVG(b) FILTER (WHERE b > 1)": (2.0, None, None, 2.0**53, None, 2.0**63, None),
    }.items(),
)
@pytest.mark.sampled(2, rest="longer")
def test_averages_of_a_unit(session: Session, call: str, means: tuple[float | None, ...]) -> None:
    for unit, mean in enumerate(means, 1):
        there = "a IS NULL" if mean is None else f"a = CAST({mean!r} AS DOUBLE)"
        inner = f"SELECT u, {call} AS a FROM r WHERE u = {unit} GROUP BY u"
        plan = private(session.prepare(f"SELECT COUNT(*) AS n FROM ({inner}) AS t WHERE {there}")).plan
        assert int(exact_of(engine_of(session).count(plan.compiled)).n[0][0]) == 1, (call, unit)


def test_averages_in_a_window(session: Session) -> None:
    inner = "SELECT u, b, AVG(b) OVER (PARTITION BY u ORDER BY b ROWS 1 PRECEDING) AS a FROM r WHERE u = 1"
    for mean, rows in ((1.0, 1), (1.5, 1), (2.0, 1)):
        statement = f"SELECT COUNT(DISTINCT u) AS n FROM ({inner}) AS t WHERE a = CAST({mean} AS DOUBLE)"
        plan = private(session.prepare(statement)).plan
        assert int(exact_of(engine_of(session).count(plan.compiled)).n[0][0]) == rows
