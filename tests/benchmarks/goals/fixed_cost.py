"""What every statement costs beside the ledger's two durable writes, however small its table is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count

import duckdb

from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.release import Run
from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.events import top
from tests.benchmarks.measures import Figure, Goal, judged
from tests.narrow import engine_of, private

from . import Setting

TITLE = "fixed cost of a statement"
GOAL = "at most 5 ms of processor time, which others only add to, beside the ledger's two durable writes"

EVERY = 8
"""Statements for each round that the whole benchmark has: one takes some milliseconds."""


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure statements that no part of the program has seen, in turn with the parts of them."""
    session, number = Session(load(setting.tiny.small_policy("fixed"))), count(10_000)
    raw, file = duckdb.connect(), setting.tiny.events()

    def statement() -> str:
        condition = f"events WHERE user_id <> {next(number)}"
        return top("item, COUNT(DISTINCT user_id) AS n", condition, "ORDER BY n DESC LIMIT 10")

    prepared = private(session.prepare(statement()))
    plan, method, engine = prepared.plan, prepared.method, engine_of(session)
    counts = engine.count(plan.compiled)

    def charge() -> None:
        reservation = session.ledger.reserve(
            analyst="benchmark",
            statement=prepared.text,
            selection="TopK",
            mechanism=method.quote.mechanism,
            charge=method.quote.charge,
        )
        charged = method.quote.charge
        session.ledger.settle(reservation, charged, release=b"r" * 1000, reuse_key=f"{next(number):064x}")

    works: dict[str, Callable[[], object]] = {
        "the whole statement": lambda: session.run(statement()),
        "parse, analyse, compile, price": lambda: session.prepare(statement()),
        "the engine": lambda: engine.count(plan.compiled),
        "the mechanism": lambda: method.run(Run(counts, Spending(method.quote.loss))),
        "the ledger's two durable writes": charge,
        "DuckDB alone, the exact counts": lambda: raw.sql(
            f"SELECT item, COUNT(DISTINCT user_id) AS n FROM '{file}' GROUP BY item"
        ).to_arrow_table(),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(EVERY * setting.rounds + 3):
        for name, work in works.items():
            begin, busy = time.perf_counter(), time.process_time()
            work()
            took[name].append((time.perf_counter() - begin, time.process_time() - busy))
    middle = {name: 1e3 * statistics.median(wall for wall, _ in found[3:]) for name, found in took.items()}
    least = {name: 1e3 * min(busy for _, busy in found[3:]) for name, found in took.items()}
    beside = least["the whole statement"] - least["the ledger's two durable writes"]
    yield judged(Figure(TITLE, "beside the ledger, least processor time", "ms", beside), Goal("ours", 5))
    for name in works:
        yield Figure(TITLE, f"  {name}, on the clock", "ms", middle[name])
        yield Figure(TITLE, f"  {name}, processor", "ms", least[name])
    session.close()
