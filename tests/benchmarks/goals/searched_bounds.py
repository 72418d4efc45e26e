"""Counts of rows and sums without any bound, so that one is found in the statement, over the units' count.

`python -m tests.benchmarks --only searched_bounds`. The floor is DuckDB's `COUNT(DISTINCT user_id)` of the
same groups: a search has to look at the rows of each unit, as that count has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import duckdb

from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.measures import Figure, Goal, beside

from . import Setting

TITLE = "bounds that are found"
GOAL = "a default SUM or COUNT(*) takes at most 2.5 times the exact count of units"

RATIO = Goal("work", 2.5)
CALLS = {"AUTO COUNT(*)": "COUNT(*)", "AUTO SUM": "SUM(amount)", "AUTO SUM of a DOUBLE": "SUM(price)"}
POLICY = """
[engine]
keep = 0
[budget]
epsilon = 1e9
ledger = "searched.sqlite"
[tables.amounts]
source = "{file}"
unit = "user_id"
trust_source = true
not_null = ["kind"]
domain.kind = {{ from = 0, to = 9 }}
"""


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure each call over all rows, and by ten groups."""
    rows = setting.events.amounts()
    path = rows.with_name("searched.toml")
    path.write_text(POLICY.format(file=rows.name), "utf-8")
    with closing(Session(load(path))) as session, duckdb.connect() as raw:
        for what, call in CALLS.items():
            for keys, by in (("", ""), ("kind, ", " GROUP BY kind")):
                asked = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE) "
                ours = partial(session.run, f"{asked}{keys}{call} AS v FROM amounts{by}")
                exact = f"SELECT {keys}COUNT(DISTINCT user_id) AS n FROM '{rows}'{by}"
                run = beside(ours, partial(_fetched, raw, exact), setting.rounds)
                yield run.figure(
                    f"{TITLE}, {setting.size}", f"{what}{' by 10 groups' if by else ''}", goal=RATIO
                )


def _fetched(raw: duckdb.DuckDBPyConnection, sql: str) -> object:
    return raw.sql(sql).to_arrow_table()
