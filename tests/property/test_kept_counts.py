"""Counts that one query has for several statements are those that each statement counts alone."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dpsql.analysis import CompiledQuery, is_alike, merge_queries
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.engines import take_counts
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.errors import QueryRefused
from dpsql.kernel.counts import Counts
from dpsql.noise import SeededEntropy
from dpsql.policy import load
from dpsql.release import reuse
from dpsql.session import Session
from tests.narrow import engine_of
from tests.sql_fixtures import Fixture, raw_data, write
from tests.support.exact import exact_of, with_exact
from tests.support.world import open_world
from tests.unit.analysis.test_sql_fixtures import ACCEPTED

POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
default_epsilon = 4
default_delta = 1e-9
ledger = "ledger.sqlite"
{engine}
[tables.visits]
source = "visits.parquet"
unit = "user_id"
rows_per_unit = 3
groups = 2
domain.page = {{ from = 0, to = 7 }}
domain.city = ["a", "b", "c"]
bounds.ms = {{ from = 0, to = 100 }}
bounds.paid = {{ from = -5, to = 20, step = 0.5 }}
"""
NUMBERS = (
    "COUNT(DISTINCT user_id)",
    "COUNT(DISTINCT user_id) FILTER (WHERE ms > 40)",
    "COUNT(*)",
    "COUNT(*, contribution_bounds_per_group => (0, 2))",
    "COUNT_IF(ms < 30, contribution_bounds_per_group => (0, 4))",
    "COUNT(paid)",
    "SUM(ms)",
    "SUM(paid)",
    "SUM(ms, contribution_bounds_per_group => (0, 150))",
    "AVG(paid)",
    "COUNT(DISTINCT ms, contribution_bounds_per_group => (0, 3))",
)
GROUPS = {
    "no key": "",
    "a declared key": "page",
    "two declared keys": "city, page",
    "an undeclared key": "place",
}
ENDS = ("", "ORDER BY n DESC LIMIT 3", "HAVING n >= 5")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Rows with NULLs in every column, keys outside their domains, and units with many rows."""
    rng = random.Random(20)

    def cell(value: object) -> str:
        return "NULL" if rng.random() < 0.05 else repr(value)

    rows = ", ".join(
        f"({cell(int(rng.paretovariate(0.7)) % 60)}, {cell(rng.randrange(10))}, {cell(rng.choice('abcd'))}, "
        f"{cell(rng.choice('xyzw'))}, {cell(rng.randrange(-10, 130))}, {cell(rng.randrange(-20, 60) / 2)})"
        for _ in range(900)
    )
    with open_world(
        tmp_path_factory.mktemp("kept"),
        POLICY.format(engine=""),
        visits="SELECT * REPLACE (paid::DOUBLE AS paid) "
        f"FROM (VALUES {rows}) t(user_id, page, city, place, ms, paid)",
    ) as found:
        yield found


def compiled(session: Session, text: str) -> list[CompiledQuery]:
    """Return the counting queries of a statement; none if it is refused."""
    try:
        prepared = session.prepare(text)
    except QueryRefused:
        return []
    assert isinstance(prepared, (PreparedPrivate, PreparedComposed))
    return [part.plan.compiled for part in prepared.parts if not part.plan.ladders and not part.values]


def rows(counts: Counts) -> list[str]:
    """Return the groups with their numbers and places, in an order of their own."""
    keys = [column.to_pylist() for column in exact_of(counts).keys.columns]
    numbers = [[int(x) for x in n] for n in (*exact_of(counts).n, *exact_of(counts).places.values())]
    return sorted(map(repr, zip(*keys, *numbers, strict=True)))


def check(session: Session, query: CompiledQuery, others: list[CompiledQuery]) -> None:
    """Compare what is taken from one query for several with what a query counts alone."""
    engine = engine_of(session)
    wide = merge_queries(query, others, session.policy, engine.schema_database)
    found = engine.count(wide)
    for each in (query, *(o for o in others if is_alike(query, o))):
        own = take_counts(found, wide, each)
        assert rows(own) == rows(engine.count(each)), each.sql
        assert exact_of(own).order == (None if each.order is None else each.order.terms)


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.sampled(3)
def test_any_numbers_of_the_same_groups_are_counted_together(
    session: Session, groups: str, *, full: bool
) -> None:
    keys = GROUPS[groups]
    found = []
    ends = (ENDS if full else ENDS[:1]) if keys else ("",)
    for number, end in itertools.product(NUMBERS, ends):
        key = keys and f"{keys}, "
        group = keys and f"GROUP BY {keys} {end}"
        found += compiled(session, f"SELECT {key}{number} AS n FROM visits {group}")
    together = [[q for q in found if is_alike(first, q)] for first in found]
    assert max(map(len, together)) >= 3
    rng = random.Random(groups)
    for queries in rng.sample(together, 8 if full else 1):
        check(session, queries[0], rng.sample(queries, min(4, len(queries))))
    check(session, found[0], together[0])


@pytest.mark.slow
def test_every_accepted_statement_can_be_counted_with_others(tmp_path: Path) -> None:
    with raw_data() as raw:
        session = Session(load(write(tmp_path / "data", raw)))
    texts = [fixture.values[0] for fixture in ACCEPTED]
    found: dict[str, CompiledQuery] = {}
    for fixture in texts:
        assert isinstance(fixture, Fixture)
        found |= {query.sql: query for query in compiled(session, fixture.statement)}
    queries = [query for query in found.values() if query.groups is not None]
    assert len(queries) > 200
    for query in queries:
        check(session, query, queries)
    session.close()


SELECTIONS = (
    "SELECT {o} page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3",
    "SELECT {o} page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2",
    "SELECT {o} page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n LIMIT 1",
)


def test_with_the_same_noise_the_answers_are_the_same(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `keep` and without it, where the engine's groups come in the same order."""
    true = DuckDBEngine.count

    def count(made: DuckDBEngine, query: CompiledQuery) -> Counts:
        counts = true(made, query)
        order = np.argsort(exact_of(counts).keys.column("k0").to_numpy())
        places = {name: place[order] for name, place in exact_of(counts).places.items()}
        n = tuple(n[order] for n in exact_of(counts).n)
        return with_exact(counts, keys=exact_of(counts).keys.take(order), n=n, places=places)

    monkeypatch.setattr(DuckDBEngine, "count", count)
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", -60.0)  # the file is of now
    folder = session.policy.budget.ledger.parent
    noise = [
        m
        for n, m in sys.modules.items()
        if n.startswith("dpsql.kernel.noise") and hasattr(m, "SystemEntropy")
    ]
    answers: dict[str, list[object]] = {}
    for engine in ("", "[engine]\nkeep = 0"):
        text = POLICY.format(engine=engine).replace("ledger.sqlite", "other.sqlite")
        (folder / "other.toml").write_text(text)
        with Session(load(folder / "other.toml")).database as database:
            one = Session(database)
            found = answers[engine] = []
            for statement in (*SELECTIONS, SELECTIONS[0]):
                entropy = SeededEntropy(len(found))
                for module in noise:
                    monkeypatch.setattr(module, "SystemEntropy", lambda entropy=entropy: entropy)
                text = statement.format(o="WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE)")
                found.append(one.run(text).table.to_pylist())
            assert len(database.engines().kept) == (not engine)
    first, second = answers.values()
    assert first == second
    assert np.unique([repr(answer) for answer in first]).size > 1
