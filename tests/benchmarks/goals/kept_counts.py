"""The second fresh statement over the same groups: another k, another threshold, another analyst."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import duckdb

from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.events import top
from tests.benchmarks.measures import Figure, Goal, beside
from tests.benchmarks.statements import DISTINCT, counting

from . import Setting

TITLE = "kept counts"
GOAL = "at most 15 ms at any size, and at M a hundred times faster than DuckDB's exact query"


def figures(setting: Setting) -> Iterator[Figure]:
    """Compare statements over groups that an earlier one has counted with DuckDB's exact count of them."""
    events, group, places = setting.events, f"{TITLE}, {setting.size}", itertools.count(11)
    events.events()
    time.sleep(2.5)  # counts of a file that was just written are not kept
    session = Session(load(events.small_policy("kept", '"256 MB"')), "alice")
    other, raw, floor = Session(session.database, "bob"), duckdb.connect(), counting(events.events())
    session.run(top(f"item, {DISTINCT} AS n", "events", "ORDER BY n DESC LIMIT 10"))
    selected = (
        ("another k", session, f"item, {DISTINCT} AS n", "ORDER BY n DESC LIMIT {}"),
        ("keys only", session, "item", f"ORDER BY {DISTINCT} DESC LIMIT {{}}"),
        ("the smallest", session, f"item, {DISTINCT} AS n", "ORDER BY n LIMIT {}"),
        ("above a threshold", session, f"item, {DISTINCT} AS n", f"HAVING {DISTINCT} >= 10{{}} LIMIT 10"),
        ("another analyst", other, f"item, {DISTINCT} AS n", "ORDER BY n DESC LIMIT {}"),
    )
    for what, asking, listed, rest in selected:

        def again(asking: Session = asking, listed: str = listed, rest: str = rest) -> object:
            return asking.run(top(listed, "events", rest.format(next(places))))

        run = beside(again, lambda: raw.sql(floor).to_arrow_table(), setting.rounds)
        yield run.figure(group, what, goal=Goal("ours", 15))
    session.close()
