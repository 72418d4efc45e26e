"""The order of groups on PostgreSQL and Spark: as on DuckDB, whatever the locale and the rows' order."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb
import pytest
from support.stores import Store

from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.support.exact import exact_of

POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
default_epsilon = 10
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["d", "b", "É", "a", "C", "ä", "z"]
page.complete = true
"""
N = "COUNT(DISTINCT user_id)"
ORDERED = (
    f"SELECT page, {N} AS n FROM visits GROUP BY page HAVING n >= 4 LIMIT 3",
    f"SELECT page, {N} AS n FROM visits GROUP BY page HAVING n >= 4 ORDER BY page DESC LIMIT 3",
    f"SELECT upper(page) AS p, {N} AS n FROM visits GROUP BY p HAVING n >= 4 LIMIT 3",
    f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 7) page, {N} AS n FROM visits "
    "GROUP BY page ORDER BY page",
)
LARGEST = (
    f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, candidates = 3) free, {N} AS n FROM visits "
    "GROUP BY free ORDER BY n DESC LIMIT 2",
    f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, candidates = 3) number, {N} AS n FROM visits "
    "GROUP BY number ORDER BY n DESC LIMIT 2",
)


def copies() -> list[str]:
    """One table of equal groups, its rows in three orders."""
    rows = [f"({user}, '{page}', '{page}', {i}.5)" for i, page in enumerate("dbÉaCä") for user in range(5)]
    made = []
    for seed in range(3):
        if seed:
            Random(seed).shuffle(rows)
        made.append(f"SELECT * FROM (VALUES {', '.join(rows)}) AS r(user_id, page, free, number)")
    return made


@pytest.fixture(scope="module")
def sessions(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    """DuckDB's session first, then the engine's, one a copy."""
    home = tmp_path_factory.mktemp("home")
    made = []
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({copies()[0]}) TO '{home}/visits.parquet'")
        (home / "dpsql.toml").write_text(POLICY, "utf-8")
        made.append(Session(load(home / "dpsql.toml")))
        made += [
            store.session(store.policy(POLICY, store.put(connection, {"visits": sql}))) for sql in copies()
        ]
    yield made
    for session in made:
        session.close()


@pytest.mark.parametrize("statement", [*ORDERED, *LARGEST])
def test_groups_come_as_from_duckdb_from_every_copy(sessions: list[Session], statement: str) -> None:
    found = []
    for session in sessions:
        plan = private(session.prepare(statement)).plan
        assert (plan.compiled.order is not None) == (statement in ORDERED)
        counts = engine_of(session).count(plan.compiled)
        assert (exact_of(counts).order is None) == (plan.compiled.order is None)
        keys, numbers = exact_of(counts).keys.to_pylist(), exact_of(counts).n[0].tolist()
        rows = range(len(keys)) if exact_of(counts).order is None else exact_of(counts).in_order().tolist()
        found.append(([keys[i] for i in rows], [numbers[i] for i in rows]))
    assert all(one == found[0] for one in found)
    if statement in LARGEST:
        assert len(found[0][0]) == 4
