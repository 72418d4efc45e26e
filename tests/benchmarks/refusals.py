"""A refused statement, with all its obstacles and its rewrite, over the statement that is right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session

from .events import Events
from .measures import Figure, beside

__all__ = ["refusals"]


def refusals(events: Events, rounds: int) -> Iterator[Figure]:
    """One statement with many mistakes, and the one that is offered in its place."""
    session = Session(load(events.policy()))
    conditions = " AND ".join(f"(item <> {i} OR usr_id > {i})" for i in range(30))
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"
    counted = f"SELECT {options} itm, COUNT(DISTINCT user_id) AS n FROM events"
    wrong = f"{counted} WHERE {conditions} GROUP BY itm"
    right = wrong.replace("itm", "item").replace("usr_id", "user_id")

    def refused() -> None:
        with suppress(QueryRefused):
            session.prepare(wrong)

    run = beside(refused, lambda: session.prepare(right), rounds)
    yield run.figure("refusals", "all obstacles and the rewrite, over the right statement")
