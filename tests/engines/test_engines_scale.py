"""A million groups and 50 million rows through one statement: Spark in this process, and DuckDB beside it.

By hand: `pytest -m scale tests/engines -s`. It needs a gigabyte of disk and some minutes.
"""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.analysis import CompiledQuery
from dpsql.kernel.counts import Counts
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of
from tests.support.exact import exact_of

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
not_null = ["item"]
[tables.visits.domain]
item = {{ table = "items", column = "item" }}
[tables.items]
source = "items.parquet"
public = true
"""
ASKED = "SELECT item, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY item ORDER BY n DESC LIMIT 10"
OWN = (
    "SELECT COUNT(*) AS c, SUM(n) AS s FROM "
    "(SELECT item, COUNT(DISTINCT user_id) AS n FROM {} GROUP BY item) AS t"
)


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
def test_a_million_groups_of_fifty_million_rows(folder: Path) -> None:
    found = {}
    for name in ("duckdb", "spark"):
        session = Session(load(folder / f"{name}.toml"))
        counted, took = _kept(session)
        begun = time.perf_counter()
        release = session.run(ASKED).release
        whole = time.perf_counter() - begun
        assert release is not None
        assert release.rows.num_rows == 10
        order = np.argsort(exact_of(counted[0]).keys.column("k0").to_numpy())
        found[name] = exact_of(counted[0]).n[0][order]
        assert len(order) == GROUPS
        print(f"\n{name}: answered in {whole:.1f} s, of which the engine counted {took[0]:.1f} s", flush=True)
        before = time.perf_counter()
        if name == "spark":
            engine_of(session).session.sql(OWN.format(f"parquet.`{folder}/visits.parquet`")).toArrow()  # type: ignore[attr-defined]  # SparkEngine
        else:
            with duckdb.connect() as connection:
                connection.sql(OWN.format(f"'{folder}/visits.parquet'")).to_arrow_table()
        own = time.perf_counter() - before
        print(f"{name}: its own exact query {own:.1f} s, ratio {took[0] / own:.2f}", flush=True)
        session.close()
    assert (found["duckdb"] == found["spark"]).all()
    assert found["spark"].sum() > ROWS // 2


def _kept(session: Session) -> tuple[list[Counts], list[float]]:
    """Keep what the engine counts, and how long it took."""
    counted: list[Counts] = []
    took: list[float] = []
    count = engine_of(session).count

    def keep(compiled: CompiledQuery) -> Counts:
        begun = time.perf_counter()
        counted.append(count(compiled))
        took.append(time.perf_counter() - begun)
        return counted[-1]

    engine_of(session).count = keep  # type: ignore[method-assign]  # the test listens
    return counted, took
