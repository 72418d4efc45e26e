"""Statements whose bounds a search finds can be answered with each bound, before anything is charged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.analysis.cut_contributions import find_excesses
from dpsql.kernel.loss.composing import is_within
from dpsql.planning.bound_search import BoundSearches
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e6
delta = 1e-6
accounting = "{}"
ledger = "{}.sqlite"
[tables.payments]
source = "payments.parquet"
unit = "user_id"
[tables.payments.domain]
method = ["a", "b"]
"""
USERS, ROWS = 2_000, 3
EXACT = USERS * ROWS * 80.25

_NARROW = "SUM(amount, contribution_bounds_per_row => (0, 500))"
_WIDE = "SUM(late, contribution_bounds_per_row => (-7, 1000000000))"
STATEMENTS = [
    f"{_NARROW} AS n FROM payments",
    f"{_WIDE} AS n FROM payments",
    f"{_NARROW} AS n, {_WIDE} AS m, COUNT(*) AS r FROM payments",
    f"{_NARROW} AS n, AVG(late, contribution_bounds_per_row => (0, 1)) AS m FROM payments",
    f"method, {_NARROW} AS n, {_WIDE} AS m FROM payments GROUP BY method",
    "SUM(amount) AS n, COUNT(*) AS r FROM payments",
]


@pytest.fixture(scope="module", params=["pure", "zcdp"])
def session(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("every_bound")
    users = [user for user in range(USERS) for _ in range(ROWS)]
    columns = {
        "user_id": users,
        "amount": [80.25] * len(users),
        "late": [user % 2 for user in users],
        "method": ["ab"[user % 2] for user in users],
    }
    with open_world(folder, POLICY.format(request.param, request.param), payments=columns) as opened:
        yield opened


@pytest.mark.parametrize("rest", STATEMENTS)
@pytest.mark.parametrize("epsilon", ["0.001", "0.5"])
@pytest.mark.sampled(6)
def test_each_bound_has_a_method_within_what_was_quoted(session: Session, rest: str, epsilon: str) -> None:
    """All first and all last bounds, and each of a search with the middle ones of the others."""
    found = private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) {rest}"))
    method = of_type(found.method, BoundSearches)
    sizes = [len(each.ladder.bounds) for each in method.plan.ladders]
    middle = tuple(size // 2 for size in sizes)
    places = {(0,) * len(sizes), tuple(size - 1 for size in sizes)}
    for search, size in enumerate(sizes):
        places |= {(*middle[:search], place, *middle[search + 1 :]) for place in range(size)}
    for each in sorted(places):
        plan = found.counting.with_bounds(each).plan
        answers = method.within_quote(plan, find_excesses(plan, method.plan.ladders, each))
        if method.plan.epsilon_division.order is not None:
            assert is_within(answers.quote.loss, method.first.quote.loss)


def test_a_sum_of_values_within_bounds_is_answered(session: Session) -> None:
    """A unit moves the sum by 2^32 steps and the number of rows beyond the bound by 4."""
    options = "OPTIONS (epsilon = 0.5)"
    answer = session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY {options} {STATEMENTS[0]}")
    row = present(answer.release).table.to_pylist()[0]
    assert row["n_low"] - 0.2 * EXACT < EXACT < row["n_high"] + 0.2 * EXACT
    assert abs(row["n"] / EXACT - 1) < 0.4
