"""A million groups and 50 million rows through one statement: Spark in this process, and DuckDB beside it.

By hand: `pytest -m scale tests/engines -s`. It needs a gigabyte of disk and some minutes.
"""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.policy import load
from dpsql.session import Session

GROUPS, ROWS, UNITS = 1_000_000, 50_000_000, 5_000_000
POLICY = """
{engine}
[budget]
epsilon = 10
default_epsilon = 1
ledger = "{name}.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
[tables.visits.domain]
item = {{ table = "items", column = "item" }}
[tables.items]
source = "items.parquet"
public = true
"""
ASKED = "SELECT item, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY item ORDER BY n DESC LIMIT 10"
OWN = "SELECT item, COUNT(DISTINCT user_id) AS n FROM {} GROUP BY item"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scale")
    with duckdb.connect() as connection:
        # Popular items first: the i-th of a row is the square of an even draw.
        draw = f"CAST(floor({GROUPS} * pow((hash(i) % 1000003) / 1000003.0, 2)) AS INTEGER)"
        unit = f"CAST(hash(i, 1) % {UNITS} AS INTEGER)"
        rows = f"SELECT {unit} AS user_id, {draw} AS item FROM range({ROWS}) AS r(i)"
        connection.execute(f"COPY ({rows}) TO '{made}/visits.parquet' (ROW_GROUP_SIZE 1000000)")
        items = f"SELECT CAST(i AS INTEGER) AS item FROM range({GROUPS}) AS r(i)"
        connection.execute(f"COPY ({items}) TO '{made}/items.parquet'")
    for name, engine in (("duckdb", ""), ("spark", '[database]\nengine = "spark"')):
        (made / f"{name}.toml").write_text(POLICY.format(engine=engine, name=name), "utf-8")
    return made


@pytest.mark.scale
def test_a_million_groups_of_fifty_million_rows(folder: Path):
    found = {}
    for name in ("duckdb", "spark"):
        session = Session(load(folder / f"{name}.toml"))
        begun = time.perf_counter()
        prepared = session.prepare(ASKED)
        assert prepared.plan is not None
        ready = time.perf_counter()
        counts = session.engine.count(prepared.plan.compiled)
        counted = time.perf_counter()
        release = session.execute(prepared).release
        ended = time.perf_counter()
        assert release is not None
        assert release.rows.num_rows == 10
        order = np.argsort(counts.keys.column("k0").to_numpy())
        found[name] = counts.n[0][order]
        assert len(order) == GROUPS
        if name == "spark":
            frame = session.engine.session.read.parquet(str(folder / "visits.parquet"))  # type: ignore[attr-defined]  SparkEngine
            frame.createOrReplaceTempView("own")
            before = time.perf_counter()
            session.engine.session.sql(OWN.format("own")).toArrow()  # type: ignore[attr-defined]  the same
            own = time.perf_counter() - before
        else:
            with duckdb.connect() as connection:
                before = time.perf_counter()
                connection.sql(OWN.format(f"'{folder}/visits.parquet'")).to_arrow_table()
                own = time.perf_counter() - before
        print(
            f"\n{name}: prepared in {ready - begun:.1f} s, counted in {counted - ready:.1f} s "
            f"({(counted - ready) / own:.2f} of its own exact query's {own:.1f} s), "
            f"answered again with noise in {ended - counted:.1f} s"
        )
        session.close()
    assert (found["duckdb"] == found["spark"]).all()
    assert found["spark"].sum() > ROWS // 2
