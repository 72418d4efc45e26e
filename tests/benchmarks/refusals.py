"""Preparing what is long: refused statements with all obstacles and a rewrite, and several releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count

from dpsql.errors import QueryRefused
from dpsql.language import parse
from dpsql.policy import load
from dpsql.session import Session

from .events import Events
from .measures import Figure, beside

__all__ = ["refusals"]

OPTIONS = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"


def refusals(events: Events, rounds: int) -> Iterator[Figure]:
    """Statements with mistakes in many places; and one of several releases over each alone.

    No text is prepared twice: a session remembers what it knew of the last ones.
    """
    session, number = Session(load(events.policy())), count()

    def prepare(text: str) -> None:
        with suppress(QueryRefused):
            session.prepare(text.replace("{}", str(next(number))))

    conditions = " AND ".join(f"(item <> {i} OR usr_id > {i})" for i in range(30))
    counted = f"SELECT {OPTIONS} itm, COUNT(DISTINCT user_id) AS n FROM events"
    wrong = f"{counted} WHERE item <> {{}} AND {conditions} GROUP BY itm"
    right = wrong.replace("itm", "item").replace("usr_id", "user_id")
    run = beside(lambda: prepare(wrong), lambda: prepare(right), rounds)
    yield run.figure("refusals", "all obstacles and the rewrite, over the right statement")

    listed = ", ".join(f"MEDAIN(item + {i})" for i in range(90))
    long = f"SELECT {OPTIONS} {listed} FROM events WHERE item <> {{}}"
    run = beside(lambda: prepare(long), lambda: parse(long.replace("{}", str(next(number)))), rounds)
    yield run.figure("refusals", "90 calls with an obstacle each, over parsing them")

    blocks = [f"(SELECT COUNT(*) AS n FROM events WHERE item % {i} > 0 AND item <> {{}})" for i in (2, 3, 5)]
    several = f"SELECT {OPTIONS} " + " + ".join(blocks) + " AS total"

    def apart() -> None:
        for block in blocks:
            prepare(f"SELECT {OPTIONS}{block[len('(SELECT') : -1]}")

    run = beside(lambda: prepare(several), apart, rounds)
    yield run.figure("refusals", "three releases and their sum, over each alone")
    session.close()
