"""A declared range over the same query undeclared: what groups without rows cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb

from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.session import Session
from tests.benchmarks.measures import Figure, Goal, beside
from tests.narrow import engine_of, private

from . import Setting

TITLE = "domains that are filled in"
GOAL = "a declared range takes at most 1.05 times the processor time of the same query undeclared"

GROUPS = (10**3, 10**5, 10**6)
ROWS = 2_000_000
POLICY = """
[engine]
keep = 0
[budget]
epsilon = 1e9
ledger = "domain_fill_{groups}.sqlite"
[tables.t]
source = "domain_fill_{groups}.parquet"
unit = "u"
trust_source = true
domain.k = {{ from = 0, to = {last} }}
"""
STATEMENT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) k, COUNT(DISTINCT u) AS n FROM t GROUP BY k"
    " ORDER BY n DESC LIMIT 10"
)
UNDECLARED = "SELECT k, COUNT(DISTINCT u) AS n FROM main.t WHERE u IS NOT NULL GROUP BY k"


def figures(setting: Setting) -> Iterator[Figure]:
    """Count all groups of a range, and those with rows, in the same database of the engine."""
    for groups in GROUPS:
        file = setting.folder / f"domain_fill_{groups}.parquet"
        with duckdb.connect() as raw:
            columns = (
                f"CAST(hash(i) % 100000 AS BIGINT) AS u, CAST(hash(i * 7 + 1) % {groups} AS BIGINT) AS k"
            )
            raw.execute(f"COPY (SELECT {columns} FROM range({ROWS}) AS r(i)) TO '{file}'")
        policy = setting.folder / f"domain_fill_{groups}.toml"
        policy.write_text(POLICY.format(groups=groups, last=groups - 1))
        session = Session(policy)
        engine, compiled = engine_of(session), private(session.prepare(STATEMENT)).plan.compiled
        assert isinstance(engine, DuckDBEngine)
        with engine._connection(counts_only=compiled.counts_only).cursor() as cursor:

            def undeclared(run: Callable[[str], duckdb.DuckDBPyConnection] = cursor.execute) -> None:
                run(UNDECLARED).fetchnumpy()

            pairs = beside(lambda: engine.count(compiled), undeclared, setting.rounds)  # noqa: B023
            yield pairs.figure(TITLE, f"{groups:,} groups", goal=Goal("work", 1.05))
        session.close()
