"""AT TIME ZONE on PostgreSQL and Spark is as the standard library reads the pinned database.

Whatever zone the engine's sessions have by default: no function of the engine knows about zones here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from support.stores import PostgresStore, Store

from dpsql.analysis.syntax_rules import find_steps, move_time
from dpsql.engines.remote_engine import RemoteEngine
from dpsql.engines.spark.spark_connection import open_session
from dpsql.engines.writer import write
from dpsql.kernel import tree
from dpsql.policy import zones
from dpsql.types import TIMESTAMP, TIMESTAMPTZ, SqlType
from tests.unit.test_zones import EPOCH, FIRST, LAST, rules

SESSIONS = ("UTC", "America/New_York", "Asia/Kathmandu")
BATCH = 3
"""How many zones one statement has, each with two columns."""
POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[tables.at]
source = "at.parquet"
unit = "id"
columns = { id = "BIGINT", t = "TIMESTAMPTZ", l = "TIMESTAMP" }
"""
BERLIN = {
    "2024-03-31 00:59:59": "2024-03-31 01:59:59",
    "2024-03-31 01:00:00": "2024-03-31 03:00:00",
    "2024-10-27 00:30:00": "2024-10-27 02:30:00",
    "2024-10-27 01:30:00": "2024-10-27 02:30:00",
}
"""Instants with Berlin's local times."""
BERLIN_LOCAL = {
    "2024-03-31 01:59:59": "2024-03-31 00:59:59",
    "2024-03-31 02:30:00": "2024-03-31 01:30:00",  # skipped: the offset before
    "2024-03-31 03:30:00": "2024-03-31 01:30:00",
    "2024-10-27 01:59:59": "2024-10-26 23:59:59",
    "2024-10-27 02:30:00": "2024-10-27 01:30:00",  # doubled: the later instant
    "2024-10-27 03:00:00": "2024-10-27 02:00:00",
}
"""Local times of Berlin with the instants that they are read as."""


def moments(names: tuple[str, ...], count: int) -> np.ndarray:
    """Return microseconds since 1970: random ones, and those at every change, as instant and local time."""
    drawn = np.random.default_rng(8).integers(FIRST, LAST, count) * zones.SECOND
    near = set()
    for name in names:
        steps = zones.zone(name).of_instants(FIRST, LAST)
        for start, before, after in zip(steps.starts, steps.offsets, steps.offsets[1:], strict=False):
            near |= {start + moved for moved in (0, before, after)}
    inside = [at * zones.SECOND + d for at in near if FIRST < at < LAST for d in (-1, 0)]
    return np.unique(np.concatenate([drawn + 123_456, np.array(inside, dtype=np.int64)]))


@functools.cache
def expected(names: tuple[str, ...], count: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the local time of each moment and the instant of each local time, as `zoneinfo` has them."""
    at = moments(names, count)
    whole = at // zones.SECOND
    times = [EPOCH + timedelta(seconds=int(second)) for second in whole]
    made = {}
    for name in names:
        zone = rules(name)
        of_instants = [_seconds(time.astimezone(zone).utcoffset()) for time in times]
        # The later of two instants has the smaller offset; so has the time before a skipped hour.
        of_local = [
            min(_seconds(time.replace(tzinfo=zone, fold=fold).utcoffset()) for fold in (0, 1))
            for time in times
        ]
        made[name] = (at + np.array(of_instants) * zones.SECOND, at - np.array(of_local) * zones.SECOND)
    return made


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return offset.days * zones.DAY + offset.seconds


@contextmanager
def default_zone(store: Store, zone: str) -> Iterator[None]:
    """Give new sessions of the engine a zone that dpsql did not choose."""
    if isinstance(store, PostgresStore):
        store.execute(f"ALTER ROLE owner SET TimeZone = '{zone}'")
        try:
            yield
        finally:
            store.execute("ALTER ROLE owner RESET TimeZone")
        return
    base: Any = open_session(store.engine)
    settings, java = base.sparkContext._jsc.sc().conf(), base.sparkContext._jvm.java.util.TimeZone
    before = java.getDefault()
    java.setDefault(java.getTimeZone(zone))
    settings.set("spark.sql.session.timeZone", zone)
    try:
        assert base.newSession().conf.get("spark.sql.session.timeZone") == zone
        yield
    finally:
        java.setDefault(before)
        settings.remove("spark.sql.session.timeZone")


def ran(engine: RemoteEngine, moved: list[tuple[SqlType, str]]) -> list[np.ndarray]:
    """Return each column's moments in microseconds, in the order of the rows' numbers."""
    columns = {TIMESTAMPTZ: "t", TIMESTAMP: "l"}
    read = tuple(tree.Item(tree.Column("b", name, stored=True), name) for name in ("id", "t", "l"))
    table = tree.Derived(tree.Select(read, tree.Scan("at", "b")), "t1")
    items = [tree.Item(tree.Column("t1", "id"), "id")]
    for i, (of, name) in enumerate(moved):
        steps = find_steps(of, zones.zone(name), None)
        items.append(tree.Item(move_time(tree.Column("t1", columns[of]), steps), f"x{i}"))
    query = tree.Select(tuple(items), table)
    found = engine._run(write(query, engine.dialect, engine.schema_database, engine._private, {}))
    order = np.argsort(found.column(0).to_numpy())
    return [
        column.cast(pa.timestamp("us")).to_numpy().astype(np.int64)[order] for column in found.columns[1:]
    ]


@contextmanager
def opened(store: Store, at: np.ndarray, zone: str = "UTC") -> Iterator[RemoteEngine]:
    """Open the engine over a table of moments, as instants and as local times, with sessions of a zone."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", pa.table({"id": np.arange(len(at)), "us": at}))
        rows = "SELECT id, make_timestamptz(us) AS t, make_timestamp(us) AS l FROM given"
        sources = store.put(connection, {"at": rows})
    with default_zone(store, zone):
        schema_database, engine = store.open(store.policy(POLICY, sources))
        try:
            yield engine
        finally:
            engine.close()
            schema_database.close()


@pytest.mark.parametrize(("every", "count"), [(40, 300), pytest.param(1, 100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("session", SESSIONS)
def test_every_zone_is_as_the_standard_library_reads_it(
    store: Store, session: str, every: int, count: int
) -> None:
    # Many names have the rules of another.
    distinct = {zones.zone(n).of_instants(FIRST, LAST): n for n in zones.names()}
    names = tuple(sorted(distinct.values()))[::every]
    at = moments(names, count)
    inner = (at > (FIRST + zones.DAY) * zones.SECOND) & (at < (LAST - zones.DAY) * zones.SECOND)
    known = expected(names, count)
    with opened(store, at, session) as engine:
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            found = ran(engine, [(of, name) for name in batch for of in (TIMESTAMPTZ, TIMESTAMP)])
            for i, name in enumerate(batch):
                local, instants = known[name]
                assert np.array_equal(found[2 * i], local), name
                assert np.array_equal(found[2 * i + 1][inner], instants[inner]), name


def test_doubled_and_skipped_hours_of_berlin(store: Store) -> None:
    for of, pairs in ((TIMESTAMPTZ, BERLIN), (TIMESTAMP, BERLIN_LOCAL)):
        given, wanted = (np.array([_micros(text) for text in texts]) for texts in (pairs, pairs.values()))
        with opened(store, given) as engine:
            assert ran(engine, [(of, "Europe/Berlin")])[0].tolist() == wanted.tolist()


def _micros(text: str) -> int:
    return round((datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH).total_seconds()) * zones.SECOND
