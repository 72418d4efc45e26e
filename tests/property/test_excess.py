"""What one unit moves of an excess, on random tables: compiled statements on tables with and without a unit.

A statement over one copy of a table is compared with the same statement over a copy that lacks a unit: the
excess moves by 0 to its sensitivity, never down; so does the number that its bound cuts, where both are in
one box. All are compared with the whole numbers of Python.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.analysis.cut_contributions import find_excesses
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.kernel.counts import Counts
from dpsql.planning.bound_search import BoundSearches
from dpsql.session import Session
from tests.narrow import of_type, private
from tests.support.exact import exact_of, excess_of, known_of
from tests.support.world import open_world

USERS = 5
POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
default_delta = 1e-9
ledger = "ledger.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
[tables.orders.domain]
region = ["a", "b"]
[tables.orders.bounds]
price = { from = 0, to = 9 }
"""
STATEMENTS = (
    "COUNT(*) AS n FROM orders WHERE {copy}",
    "COUNT(*) FILTER (amount > 5) AS n FROM orders WHERE {copy}",
    "SUM(amount) AS n FROM orders WHERE {copy}",
    "SUM(abs(amount)) AS n, COUNT(*) AS m FROM orders WHERE {copy}",
    "SUM(ratio) AS n FROM orders WHERE {copy}",
    "SUM(price) AS n FROM orders WHERE {copy}",
    "AVG(price) AS n, COUNT(*) AS m FROM orders WHERE {copy}",
    "region, COUNT(*) AS n FROM orders WHERE {copy} GROUP BY region",
    "region, SUM(amount) AS n FROM orders WHERE {copy} GROUP BY region",
    "region, SUM(price) AS n, AVG(price) AS a FROM orders WHERE {copy} GROUP BY region",
    "amount, COUNT(*) AS n FROM orders WHERE {copy} GROUP BY amount",
    "amount, COUNT(DISTINCT user_id) AS n, SUM(price) AS m FROM orders WHERE {copy} GROUP BY amount",
    "price, COUNT(*) AS n FROM orders WHERE {copy} GROUP BY price ORDER BY n DESC LIMIT 2",
    "amount, region, COUNT(*) AS n FROM orders WHERE {copy} GROUP BY 1, 2 HAVING COUNT(*) > 1",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Copy u of the rows lacks user u; copy 0 has all of them."""
    folder, rng = tmp_path_factory.mktemp("excess"), Random(35)
    rows = []
    for user in range(1, USERS + 1):
        for _ in range(rng.choice((1, 2, 3, 5, 9, 17, 40))):
            amount = rng.choice((None, 0, 1, -7, 20, 3_000_000_000, rng.randrange(-50, 90)))
            rows.append((user, rng.choice("abc"), amount, rng.random() * 100 - 20, rng.randrange(12)))
    copies = [(copy, *row) for copy in range(USERS + 1) for row in rows if row[0] != copy]
    names = ("copy", "user_id", "region", "amount", "ratio", "price")
    table = pa.table({name: list(c) for name, c in zip(names, zip(*copies, strict=True), strict=True)})
    with open_world(folder, POLICY, orders=table) as opened:
        yield opened


def searched(session: Session, rest: str, copy: int) -> tuple[PreparedPrivate, BoundSearches, list[Counts]]:
    text = rest.format(copy=f"copy = {copy}")
    prepared = session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {text}")
    found = private(prepared.parts[0]) if isinstance(prepared, PreparedComposed) else private(prepared)
    counts = [found.counting.count(search.compiled) for search in found.plan.ladders]
    return found, of_type(found.method, BoundSearches), counts


@pytest.mark.parametrize("rest", STATEMENTS)
@pytest.mark.sampled(5)
def test_no_unit_moves_an_excess_by_more_than_its_bound(session: Session, rest: str) -> None:
    whole, _, every = searched(session, rest, 0)
    others = [searched(session, rest, user)[2] for user in range(1, USERS + 1)]
    reached, moved = defaultdict[int, int](int), 0
    for place, search in enumerate(whole.plan.ladders):
        if not search.ladder.by_excess:
            continue
        for rung in range(0, len(search.ladder.bounds) - 1, 1 if search.ladder.top < 40 else 5):
            at = [min(rung, len(each.ladder.bounds) - 1) for each in whole.plan.ladders]
            bounded = whole.counting.with_bounds(tuple(at))
            own = [e for e in find_excesses(bounded.plan, whole.plan.ladders, at) if e.search == place]
            for excess in own:
                here = excess_of(excess, every)
                for without in others:
                    there = excess_of(excess, without)
                    assert 0 <= here - there <= excess.most
                    reached[rung] = max(reached[rung], (here - there) * 2 // max(excess.most, 1))
                    moved += here > there
    assert moved > 0
    assert max(reached.values()) == 2, "some unit moves it by all of its bound"


@pytest.mark.parametrize(("rest", "least"), [(STATEMENTS[0], 0), (STATEMENTS[1], 5)])
def test_a_number_and_its_excess_are_all_rows(session: Session, rest: str, least: int) -> None:
    """Of A + E nothing is missing if no unit has more than twice the bound; else something is."""
    whole, method, every = searched(session, rest, 0)
    path = whole.counting.policy.path
    assert path is not None
    rows = pq.read_table(path.parent / "orders.parquet").to_pylist()
    sizes = Counter(r["user_id"] for r in rows if not r["copy"] and (not least or (r["amount"] or 0) > least))
    for rung, bound in enumerate(whole.plan.ladders[0].ladder.bounds[:-1]):
        bounded = whole.counting.with_bounds((rung,))
        counts = known_of(method, bounded.plan, (rung,), every)
        assert counts is not None
        (excess,) = find_excesses(bounded.plan, whole.plan.ladders, (rung,))
        both = int(counts.n[0][0]) + excess_of(excess, every)
        assert both == sum(min(size, 2 * bound) for size in sizes.values())
        assert (both == sizes.total()) == (2 * bound >= max(sizes.values()))
        assert int(counts.n[0][0]) == exact_of(bounded.count()).n[0][0]
