"""What a refusal offers as the same asks the same: DuckDB computes both, where it has both."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import present
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 10
default_epsilon = 1
[tables.stays]
source = "stays.parquet"
unit = "guest"
[tables.stays.domain]
day = { from = 2024-01-01, to = 2024-02-20 }
[tables.stays.bounds]
x = { from = -10, to = 10 }
y = { from = -10, to = 10 }
"""
ROWS = """
SELECT i % 7 AS guest,
  CASE WHEN i % 5 > 0 THEN (i % 11 - 5.5)::DOUBLE END AS x,
  CASE WHEN i % 6 > 0 THEN (i % 9 - 4.5)::DOUBLE END AS y,
  TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR AS began,
  TIMESTAMP '2024-01-03 05:00:00' + INTERVAL (3 * i) HOUR AS ended,
  DATE '2024-01-01' + i::INTEGER AS day,
  i * 86400000000 - 1 AS number
FROM range(40) t(i)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("stays")
    duckdb.sql(f"COPY ({ROWS}) TO '{folder}/stays.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


def rewritten(session: Session, statement: str) -> str:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(statement)
    assert session.prepare(present(caught.value.rewrite))
    return present(caught.value.rewrite)


def value(statement: str, **rows: object) -> object:
    """Return the number of a statement over the rows, computed by DuckDB."""
    with duckdb.cursor() as engine:
        engine.execute(f"CREATE TEMP TABLE stays AS {ROWS}")
        return present(engine.execute(re.sub(r" -- .*", "", statement)).fetchone())[0]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT CORR(x, y) FROM stays",
        "SELECT COVAR_POP(x, y) FROM stays",
        "SELECT 1 - COVAR_POP(y + 1, x) FROM stays",
        "SELECT EXTRACT(DAY FROM AVG(ended - began)) FROM stays",
        "SELECT EXTRACT(EPOCH FROM AVG(ended - began)) FROM stays",
        "SELECT COUNT(*) FROM stays WHERE EXTRACT(DAYOFYEAR FROM day) > 20",
        "SELECT COUNT(*) FROM stays WHERE MAKE_TIMESTAMP(2024, 1, 2, 3, 0, 0) > began",
        "SELECT COUNT(*) FROM stays WHERE CAST(MAKE_TIMESTAMP(number) AS DATE) > DATE '1970-01-20'",
        "SELECT MODE(day) FROM stays WHERE number = 5 * 86400000000 - 1",
    ],
)
@pytest.mark.sampled(3)
def test_the_statement_that_is_offered_has_the_same_value(session: Session, statement: str) -> None:
    wanted, found = value(statement), value(rewritten(session, statement))
    if isinstance(wanted, (int, float)):
        assert isinstance(found, (int, float))
        assert math.isclose(wanted, found, rel_tol=1e-9)
    else:
        assert found == wanted


def test_the_bucket_is_that_of_the_standard(session: Session) -> None:
    offered = rewritten(session, "SELECT COUNT(*) FROM stays WHERE WIDTH_BUCKET(x, -5, 5, 4) = 2")
    bucket = present(re.search(r"CASE .* END", offered))[0]
    with duckdb.connect() as engine:
        for x, number in (
            (-5.1, 0),
            (-5, 1),
            (-2.6, 1),
            (-2.5, 2),
            (0, 3),
            (4.9, 4),
            (5, 5),
            (6, 5),
            (None, None),
        ):
            found = engine.execute(f"SELECT {bucket} FROM (SELECT ?::DOUBLE AS x)", [x]).fetchone()
            assert present(found)[0] == number


TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.none())


@settings(max_examples=200, deadline=None)
@given(TIMES, TIMES)
@example(datetime(2083, 2, 28), datetime(2072, 2, 29))
@example(datetime(2083, 2, 28), datetime(2072, 3, 1))
def test_the_years_of_an_age_are_complete_years_between_but_for_29_february(
    later: datetime, earlier: datetime
) -> None:
    both = "date_part('year', age(?::TIMESTAMP, ?::TIMESTAMP)), date_sub('year', ?::TIMESTAMP, ?::TIMESTAMP)"
    ((of_age, between),) = duckdb.execute(f"SELECT {both}", [later, earlier, earlier, later]).fetchall()
    ends = {(later.month, later.day), (earlier.month, earlier.day)}
    assert of_age == between or (ends == {(2, 28), (2, 29)} and abs(of_age - between) == 1)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**16), 10**16))
def test_the_day_of_a_number_is_the_day_of_its_point_of_time(number: int) -> None:
    day_of = "SELECT DATE '1970-01-01' + CAST(FLOOR(? / 86400000000) AS INTEGER)"
    ((found,),) = duckdb.execute(day_of, [number]).fetchall()
    whole = datetime(1970, 1, 1) + timedelta(microseconds=number)
    day = found.date() if isinstance(found, datetime) else found
    assert isinstance(day, date)
    assert day == whole.date()
