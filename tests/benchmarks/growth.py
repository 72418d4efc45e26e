"""How the time of a whole statement grows over the floor: with groups, with rows, with k."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb

from dpsql.policy import load
from dpsql.session import Session

from .events import Events, Size, top
from .measures import Figure, Goal, beside
from .statements import DISTINCT, counting

__all__ = ["growth"]


def growth(folder: Path, rounds: int, *, most: int) -> Iterator[Figure]:
    """Groups up to `most`, at two rows a group or a million; rows at 10,000 groups; k at a million groups."""
    for groups in (10**3, 10**4, 10**5, 10**6, 10**7):
        if groups <= most:
            size = Size(max(10**6, 2 * groups), 10**5, groups)
            goal = Goal("extra", 3000) if groups == 10**7 else None
            yield _one(
                folder / f"groups{groups}", size, 10, rounds, "with groups", f"{groups:,} groups", goal
            )
    for rows in (10**5, 10**6, 10**7):
        size = Size(rows, 10**5, 10**4)
        yield _one(folder / f"rows{rows}", size, 10, rounds, "with rows", f"{rows:,} rows", None)
    for k in (1, 10, 100, 1000):
        size = Size(2 * 10**6, 10**5, min(10**6, most))
        yield _one(folder / f"groups{size.items}", size, k, rounds, "with k", f"k = {k}", None)


def _one(folder: Path, size: Size, k: int, rounds: int, group: str, what: str, goal: Goal | None) -> Figure:
    events = Events(folder, size)
    session, raw = Session(load(events.small_policy())), duckdb.connect()
    statement = top(f"item, {DISTINCT} AS n", "events", f"ORDER BY n DESC LIMIT {k}")
    floor = counting(events.events())
    try:
        run = beside(lambda: session.run(statement), lambda: raw.sql(floor).to_arrow_table(), rounds)
    finally:
        session.close()
        raw.close()
    return run.figure(f"growth, {group}", what, goal=goal)
