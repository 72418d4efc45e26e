"""A whole statement over DuckDB's own exact counting query of the same groups, fetched as Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import duckdb

from dpsql.policy import load
from dpsql.session import Session

from .events import Events, top
from .measures import Figure, Goal, alone, beside

__all__ = ["end_to_end", "preparing", "sums"]

DISTINCT = "COUNT(DISTINCT user_id)"
RATIO, EXTRA = Goal("ratio", 1.05), Goal("extra", 15)


def counting(path: object, what: str = DISTINCT) -> str:
    """Return the floor: the exact counts of all groups."""
    return f"SELECT item, {what} AS n FROM '{path}' GROUP BY item"


def end_to_end(events: Events, name: str, rounds: int) -> Iterator[Figure]:
    """All selections over plain rows; then other ways to hold and declare them."""
    group, goal = f"end to end, {name}", EXTRA if name == "S" else RATIO
    session, raw = Session(load(events.policy())), duckdb.connect()
    exact = raw.sql(counting(events.events())).fetchnumpy()["n"]
    threshold = int(sorted(exact)[-30])

    def against(what: str, statement: str, floor: str, goal: Goal | None) -> Figure:
        run = beside(lambda: session.run(statement), lambda: raw.sql(floor).to_arrow_table(), rounds)
        return run.figure(group, what, goal=goal)

    floor = counting(events.events())
    largest = "ORDER BY n DESC LIMIT 10"
    counted = top(f"item, {DISTINCT} AS n", "events", largest)
    yield against("top 10 with counts", counted, floor, goal)
    keys = top("item", "events", f"ORDER BY {DISTINCT} DESC LIMIT 10")
    yield against("top 10, keys only", keys, floor, goal)
    argmax = top("item", "events", f"ORDER BY {DISTINCT} DESC LIMIT 1")
    yield against("argmax", argmax, floor, goal)
    above = top(f"item, {DISTINCT} AS n", "events", f"HAVING {DISTINCT} >= {threshold} LIMIT 10")
    yield against("10 above a threshold", above, floor, goal)
    undeclared = top(f"item, {DISTINCT} AS n", "undeclared", largest, options=", delta = 1e-9")
    yield against("top 10, the items are not declared", undeclared, floor, goal)
    texts = top(f"item, {DISTINCT} AS n", "texts", largest)
    yield against("top 10, keys as text", texts, counting(events.texts()), goal)
    pairs = top(f"item, {DISTINCT} AS n", "pairs", largest)
    yield against("top 10, pairs declared unique", pairs, counting(events.pairs(), "COUNT(*)"), EXTRA)
    pair = f"SELECT DISTINCT item, user_id FROM '{events.events()}'"
    phases = f"SELECT item, COUNT(*) AS n FROM ({pair}) GROUP BY item"
    run = beside(lambda: raw.sql(phases).to_arrow_table(), lambda: raw.sql(floor).to_arrow_table(), rounds)
    yield run.figure(group, "(DuckDB alone, the same in two phases)")
    session.close()


def sums(events: Events, name: str, rounds: int) -> Iterator[Figure]:
    """Sum, average and count of one column, over the exact count of users in the same groups."""
    group = f"sums, {name}"
    session, raw = Session(load(events.amounts_policy())), duckdb.connect()

    def exact(sql: str) -> object:
        return raw.sql(sql).to_arrow_table()

    for key in ("kind", "item"):
        floor = f"SELECT {key}, {DISTINCT} AS n FROM '{events.amounts()}' GROUP BY {key}"
        for column in ("amount", "price"):
            aggregates = f"SUM({column}) AS s, AVG({column}) AS a, COUNT({column}) AS n"
            statement = (
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE) "
                f"{key}, {aggregates} FROM amounts GROUP BY {key}"
            )
            run = beside(partial(session.run, statement), partial(exact, floor), rounds)
            yield run.figure(group, f"SUM, AVG, COUNT of {column} by {key}", goal=Goal("ratio", 2.5))
        beyond = statement.replace("fresh", "max_rows_contributed = 5, fresh")
        run = beside(partial(session.run, beyond), partial(exact, floor), rounds)
        yield run.figure(group, f"the same, most users with more rows than count, by {key}")
    session.close()


def preparing(events: Events, rounds: int) -> Iterator[Figure]:
    """Prepare longer statements."""
    group = "preparing"
    session = Session(load(events.small_policy("fixed")))
    joined = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE) e.item % 7 AS kind, "
        "COUNT(DISTINCT CASE WHEN e.item > 3 THEN e.user_id END) AS n FROM events e "
        "WHERE e.item BETWEEN 1 AND 8000 AND upper(CAST(e.item AS VARCHAR)) LIKE '%1%' "
        "GROUP BY kind ORDER BY n DESC LIMIT 3"
    )
    yield alone(group, "functions, CASE and LIKE", lambda: session.prepare(joined), rounds)
    session.close()
    amounts = Session(load(events.amounts_policy()))
    many = ", ".join(f"SUM(item + {i}) AS s{i}" for i in range(90))
    long = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE) {many} FROM amounts"
    yield alone(group, "90 sums", lambda: amounts.prepare(long), rounds, goal=Goal("ours", 50))
    amounts.close()
