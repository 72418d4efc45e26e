"""Counts of units and of rows in one statement: each has the noise that suits it, where both gain."""

from __future__ import annotations

import pytest

from dpsql.analysis import divide_by_noise
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1000
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 20
[tables.visits.domain]
month.values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
month.complete = true
"""
VISITS = "SELECT i % 500 AS user_id, 1 + hash(i) % 12 AS month FROM range(6000) t(i)"
BOTH = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({}) month, COUNT(*) AS n, COUNT(DISTINCT user_id) AS users"


session = world_fixture(POLICY, visits=VISITS)


def widths(session: Session, rest: str, options: str = "epsilon = 1") -> tuple[float, float]:
    """Return the half widths of the numbers of rows and of users in the first group."""
    made = session.run(f"{BOTH.format(options)} FROM visits GROUP BY month {rest}")
    first = present(made.release).table.slice(0, 1).to_pylist()[0]
    return (first["n_high"] - first["n_low"]) / 2, (first["users_high"] - first["users_low"]) / 2


def test_each_count_of_all_groups_has_the_noise_that_suits_it(session: Session) -> None:
    rows, users = widths(session, "")
    box_rows, box_users = widths(session, "", "epsilon = 1, mechanism = BOX")
    laplace_rows, laplace_users = widths(session, "", "epsilon = 1, mechanism = LAPLACE")
    assert rows < box_rows / 2.5
    assert users < 1.3 * box_users
    assert users < laplace_users / 2
    assert rows < 1.6 * laplace_rows


def test_measuring_selected_groups_divides_them_too(session: Session) -> None:
    rows, users = widths(session, "ORDER BY users DESC LIMIT 8")
    box_rows, box_users = widths(
        session, "ORDER BY users DESC LIMIT 8", "epsilon = 1, measure_strategy = BOX"
    )
    assert rows < box_rows / 1.5
    assert users < 1.5 * box_users


def test_both_parts_cost_what_the_statement_costs(session: Session) -> None:
    release = present(session.run(f"{BOTH.format('epsilon = 0.25')} FROM visits GROUP BY month").release)
    assert release.mechanism == "box noise on every group, Laplace on every group"
    assert str(release.charge.epsilon) == "1/4"


@pytest.mark.parametrize(
    ("totals", "groups", "expected"),
    [
        ([12, 20], 12, [[0], [1]]),
        ([12, 20], 1, [[0, 1]]),
        ([12, 240], 12, [[0, 1]]),
    ],
    ids=["rows are few in all", "one group", "rows are many in each"],
)
def test_counts_are_apart_where_both_gain(
    session: Session, totals: list[int], groups: int, expected: list[list[int]]
) -> None:
    plan = private(session.prepare(f"{BOTH.format('epsilon = 1')} FROM visits GROUP BY month")).plan
    counts = sorted(plan.counts, key=lambda count: count.bound)
    assert divide_by_noise(counts, [0, 1], totals, groups) == expected
