"""QUALIFY of a statement without GROUP BY is read of its one released row, as SQL reads it."""

from __future__ import annotations

import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e6
default_epsilon = 1000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
"""


session = world_fixture(
    POLICY, scope="function", visits="SELECT i AS user_id, i % 7 AS ms FROM range(300) t(i)"
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("ROW_NUMBER() OVER () = 1", 1),
        ("ROW_NUMBER() OVER () > 1", 0),
        ("SUM(COUNT(DISTINCT user_id)) OVER () > 1000", 0),
        ("ROW_NUMBER() OVER (ORDER BY COUNT(DISTINCT user_id)) <= 3", 1),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_condition_on_the_one_row_decides_whether_it_is_shown(
    session: Session, condition: str, rows: int
) -> None:
    for listed in ("COUNT(DISTINCT user_id) AS n", "COUNT(DISTINCT user_id) + 1 AS n"):
        answer = session.run(f"SELECT {listed} FROM visits QUALIFY {condition}")
        assert present(answer.release).table.num_rows == rows


@pytest.mark.parametrize(
    "condition", ["ROW_NUMBER() OVER (PARTITION BY user_id) = 1", "SUM(ms) OVER () > 5", "FALSE"]
)
@pytest.mark.sampled(3, rest="longer")
def test_what_sql_refuses_of_the_one_row_is_refused(session: Session, condition: str) -> None:
    with pytest.raises(QueryRefused):
        session.run(f"SELECT COUNT(DISTINCT user_id) AS n FROM visits QUALIFY {condition}")
    assert session.budget().spent.epsilon == 0
