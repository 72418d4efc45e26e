"""Integer arithmetic at extremes has the same whole numbers on each engine, and no row is lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import duckdb
import pytest
from fuzz.amounts import analysed
from fuzz.integers import BEYOND, COLUMNS, POLICY, UNSURE, predicates, rows
from support.stores import Store

from dpsql.session import Session
from tests.narrow import engine_of
from tests.support.exact import exact_of

BATCH = 12


@pytest.fixture(scope="module")
def session(store: Store) -> Iterator[Session]:
    with duckdb.connect() as connection:
        kinds = {"user_id": "BIGINT", **COLUMNS}
        connection.execute(f"CREATE TABLE t ({', '.join(f'{c} {k}' for c, k in kinds.items())})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [tuple(r.values()) for r in rows()])
        sources = store.put(connection, {"t": "FROM t"})
    policy = store.policy(POLICY, sources)
    store.keep(policy.tables["t"], sources["t"])
    opened = store.session(policy)
    yield opened
    opened.close()


@pytest.mark.parametrize("operators", ["+ - *", "+ * // %"])
def test_predicates_are_those_of_whole_numbers(session: Session, operators: str) -> None:
    drawn = list(islice(predicates(Random(operators), operators), 6 * BATCH))
    wrong = []
    for start in range(0, len(drawn), BATCH):
        batch = drawn[start : start + BATCH]
        texts = [text for one in batch for text in (one.text, f"NOT ({one.text})")]
        listed = ", ".join(f"COUNT(*) FILTER (WHERE {text}) AS n{i}" for i, text in enumerate(texts))
        plan = analysed(session, f"SELECT {listed} FROM t")
        found = [int(n[0]) for n in exact_of(engine_of(session).count(plan.compiled)).n]
        for one, yes, no in zip(batch, found[::2], found[1::2], strict=True):
            truth = [one.of(row) for row in rows()]
            unsure, there = truth.count(UNSURE), len(truth) - truth.count(None)
            sure, loose = truth.count(True), truth.count(BEYOND) + truth.count(UNSURE)
            if not (there - unsure <= yes + no <= there and sure <= yes <= sure + loose):
                wrong.append(f"{one.text}: {yes} and {no}; {sure}, {truth.count(False)}, {loose}")
    assert not wrong, "\n".join(wrong)


def test_what_does_not_fit_is_cut(session: Session) -> None:
    """Keys and totals of units are BIGINT."""
    kept = "SELECT x * 3 AS k, COUNT(DISTINCT user_id) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 2"
    keys = exact_of(engine_of(session).count(analysed(session, kept).compiled)).keys.column(0).to_pylist()
    assert {-(1 << 63), (1 << 63) - 1} <= set(keys)
    inner = "SELECT user_id, SUM(x * 5) AS s FROM t WHERE x <> 0 GROUP BY user_id"
    plan = analysed(session, f"SELECT COUNT(*) AS n FROM ({inner}) AS g WHERE s <> 0")
    assert int(exact_of(engine_of(session).count(plan.compiled)).n[0][0]) == sum(
        bool(row["x"]) for row in rows()
    )
