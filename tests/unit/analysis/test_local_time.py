"""AT TIME ZONE as it is compiled and run by DuckDB, against the standard library on the pinned database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpsql.analysis.syntax_rules import find_steps, move_time
from dpsql.analysis.typed_expression import Span
from dpsql.kernel.tree import Column, duckdb_sql, guarded, utc_time_sql
from dpsql.policy import zones
from dpsql.types import TIMESTAMP, TIMESTAMPTZ, SqlType
from tests.unit.test_zones import FIRST, LAST, of_local, offset, rules

SESSIONS = ("UTC", "America/New_York", "Asia/Kathmandu")
EXTREMES = (
    "TIMESTAMP 'infinity', TIMESTAMP '-infinity', NULL, TIMESTAMP '290309-12-22 (BC) 00:00:00', "
    "TIMESTAMP '294247-01-10 04:00:54.775806', TIMESTAMP '0044-03-15 (BC) 12:00:00'"
)


def opened(zone: str) -> duckdb.DuckDBPyConnection:
    """Return a connection whose session has a zone of its own."""
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    return connection


@pytest.fixture(params=SESSIONS)
def session(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    with opened(request.param) as connection:
        yield connection


def compiled(name: str, of: SqlType, span: Span | None = None) -> str:
    return duckdb_sql(guarded(move_time(Column("", "c"), find_steps(of, zones.zone(name), span))))


def moved(session: duckdb.DuckDBPyConnection, sql: str, seconds: np.ndarray) -> np.ndarray:
    """Return the seconds by which an expression moves each time."""
    session.register("given", pa.table({"s": pa.array(seconds)}))
    found = session.sql(
        f"SELECT epoch_us({sql}) - epoch_us(c) FROM (SELECT make_timestamp(s * 1000000) AS c FROM given)"
    )
    return np.asarray(found.fetchnumpy().popitem()[1]) // zones.SECOND


@pytest.mark.parametrize(
    ("every", "instants"), [(120, 300), pytest.param(1, 100_000, marks=pytest.mark.slow)]
)
def test_every_zone_on_duckdb_is_as_the_standard_library_says(every: int, instants: int) -> None:
    generator, sessions = np.random.default_rng(5), [opened(zone) for zone in SESSIONS]
    for name in zones.names()[::every]:
        known, starts = rules(name), zones.zone(name).of_instants(FIRST, LAST).starts
        near = [t + d for t in starts for d in (-1, 0)]
        at = np.concatenate([generator.integers(FIRST, LAST, instants), np.array(near, dtype=np.int64)])
        expected = [offset(known, t) for t in at.tolist()]
        for session in sessions:
            assert moved(session, compiled(name, TIMESTAMPTZ), at).tolist() == expected, name
        at = at[(at > FIRST + zones.DAY) & (at < LAST - zones.DAY)]
        expected = [-of_local(known, t) for t in at.tolist()]
        for session in sessions:
            assert moved(session, compiled(name, TIMESTAMP), at).tolist() == expected, name
    for session in sessions:
        session.close()


@pytest.mark.parametrize("of", [TIMESTAMP, TIMESTAMPTZ])
@pytest.mark.sampled(3, rest="longer")
def test_no_time_makes_it_fail_and_infinity_stays(session: duckdb.DuckDBPyConnection, of: SqlType) -> None:
    for name in ("Europe/Berlin", "Pacific/Kiritimati", "Pacific/Niue", "UTC"):
        sql = compiled(name, of)
        rows = session.sql(
            f"SELECT {sql} = c, isinf({sql}) FROM (SELECT unnest([{EXTREMES}]) AS c)"
        ).fetchall()
        assert rows[:3] == [(True, True), (True, True), (None, None)]


def test_the_changes_are_those_of_the_declared_range() -> None:
    year = Span.of_days(date(2024, 1, 1), date(2024, 12, 31))
    assert compiled("Europe/Berlin", TIMESTAMPTZ, year) == (
        "(CASE WHEN c < TIMESTAMP '2024-10-27 01:00:00' THEN CASE WHEN c < TIMESTAMP '2024-03-31 01:00:00' "
        "THEN TRY(c + INTERVAL '3600 second') ELSE TRY(c + INTERVAL '7200 second') END "
        "ELSE TRY(c + INTERVAL '3600 second') END)"
    )
    assert compiled("UTC", TIMESTAMPTZ) == "(c)"


def test_an_instant_is_its_time_of_utc_in_every_session(session: duckdb.DuckDBPyConnection) -> None:
    times = f"[{EXTREMES}, TIMESTAMP '2024-07-02 10:00:00.5']"
    kinds = f"SELECT timezone('UTC', c) AS c FROM (SELECT unnest({times}) AS c)"
    assert session.sql(f"SELECT typeof(c) FROM ({kinds})").fetchall()[0] == ("TIMESTAMP WITH TIME ZONE",)
    found = session.sql(
        f"SELECT {utc_time_sql('c')} IS NOT DISTINCT FROM timezone('UTC', c), typeof({utc_time_sql('c')}) "
        f"FROM ({kinds})"
    ).fetchall()
    assert found == [(True, "TIMESTAMP")] * 7
