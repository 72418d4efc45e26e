"""What a query reads twice is the same both times, or it is read once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.analysis.schema_catalog import has_stable_reads
from dpsql.composition.prepared import PreparedPrivate
from dpsql.engines import Cancelled
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, of_type
from tests.support.exact import exact_of

MOST = 10
POLICY = f"""
[budget]
epsilon = 1000
default_epsilon = 1
ledger = "ledger.sqlite"
@database
[tables.visits]
unit = "user_id"
rows_per_unit = {MOST}
@source
[tables.visits.columns]
user_id = "BIGINT"
page = "VARCHAR"
chance = "DOUBLE"
[tables.visits.domain]
page = ["a", "b"]
"""
ROWS = "SELECT 1 AS user_id, 'a' AS page FROM range(16)"
BY_PAGE = "SELECT page, COUNT(*) AS n FROM visits WHERE chance < 0.5 GROUP BY page"
SOURCES = {
    "parquet": 'source = "visits.parquet"',
    "trusted parquet": 'source = "visits.parquet"\ntrust_source = true',
    "csv": 'source = "visits.csv"',
    "trusted csv": 'source = "visits.csv"\ntrust_source = true',
    "database": 'source = "main.stored"',
    "computed": 'source = "main.computed"',
}

Opened = Callable[[str], tuple[Session, PreparedPrivate]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with duckdb.connect(str(tmp_path / "data.duckdb")) as con:
        con.execute("CREATE TABLE computed (user_id BIGINT, page VARCHAR, chance DOUBLE AS (random()))")
        con.execute(f"INSERT INTO computed {ROWS}")
        con.execute(f"CREATE TABLE stored AS SELECT *, random() AS chance FROM ({ROWS})")
        for kind in ("csv", "parquet"):
            con.execute(f"COPY stored TO '{tmp_path / 'visits'}.{kind}'")
    sessions: list[Session] = []

    def made(name: str) -> tuple[Session, PreparedPrivate]:
        database = '[database]\npath = "data.duckdb"' if SOURCES[name].count("main.") else ""
        text = POLICY.replace("@source", SOURCES[name]).replace("@database", database)
        (tmp_path / "dpsql.toml").write_text(text)
        sessions.append(Session(load(tmp_path / "dpsql.toml")))
        return sessions[-1], of_type(sessions[-1].prepare(BY_PAGE), PreparedPrivate)

    yield made
    for session in sessions:
        session.close()


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.sampled(4)
def test_what_may_change_while_it_is_read_is_read_once(opened: Opened, name: str) -> None:
    prepared = opened(name)[1]
    once = name in ("trusted csv", "computed")
    assert prepared.plan.compiled.sql.count('main."visits"') == (1 if once else 2)


def test_a_unit_counts_within_its_bound_if_every_reading_computes_a_column_anew(opened: Opened) -> None:
    """Of 16 rows, eight on average count: often few in one reading, and more than the bound in another."""
    counting = opened("computed")[1].counting
    step = counting.plan.counts[0].step
    found = [int(exact_of(counting.count()).n[0].sum()) for _ in range(25)]
    assert len(set(found)) > 1
    assert max(found) * step <= MOST


def test_a_trusted_parquet_file_that_is_replaced_gives_no_answer(opened: Opened, tmp_path: Path) -> None:
    session, prepared = opened("trusted parquet")
    step = prepared.plan.counts[0].step
    assert int(exact_of(prepared.counting.count()).n[0].sum()) * step <= MOST
    shutil.copy(tmp_path / "visits.parquet", tmp_path / "other")
    (tmp_path / "other").replace(tmp_path / "visits.parquet")
    with pytest.raises(Cancelled, match="the data changed"):
        prepared.counting.count()
    assert session.run(BY_PAGE).table.num_rows == 3  # the engines are opened again


def test_only_an_engine_with_snapshots_reads_twice(opened: Opened) -> None:
    session = opened("parquet")[0]
    catalog = engine_of(session).schema_database
    addresses = {"duckdb": True, "postgresql://db/shop": True, "spark": False, "sc://host:15002": False}
    for address, wanted in addresses.items():
        policy = replace(session.policy, engine=address)
        assert has_stable_reads(["visits"], policy, catalog) == wanted
