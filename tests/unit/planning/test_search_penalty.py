"""For what the noise of a searched bound is weighed: the groups that are shown, and averages."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from dpsql.planning.bound_search import BoundSearches
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import private

POLICY = """
[budget]
epsilon = 10
default_epsilon = 0.25
[tables.visits]
source = "visits.parquet"
unit = "patient_id"
not_null = ["ward"]
domain.ward = { from = 1, to = 400, complete = true }
bounds.minutes = { from = 0, to = 60 }
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("penalty")
    with duckdb.connect() as made:
        rows = "SELECT i % 50 AS patient_id, i % 400 + 1 AS ward, i % 60 AS minutes FROM range(800) t(i)"
        made.execute(f"COPY ({rows}) TO '{folder}/visits.parquet'")
    (folder / "dpsql.toml").write_text(POLICY)
    return Session(load(folder / "dpsql.toml"))


@pytest.mark.parametrize(
    ("statement", "times"),
    [
        ("SELECT COUNT(*) AS n FROM visits", 1),
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", 400),
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 4", 40),
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 1", 20),
        ("SELECT AVG(minutes) AS m FROM visits", 34),
        ("SELECT AVG(minutes) AS m, COUNT(*) AS n FROM visits", 1),
        ("SELECT ward, AVG(minutes) AS m FROM visits GROUP BY ward", 34 * 400),
        ("SELECT ward, AVG(minutes) AS m FROM visits GROUP BY ward HAVING COUNT(*) > 9", 400),
    ],
)
def test_the_penalty_follows_from_what_is_shown(session: Session, statement: str, times: int) -> None:
    prepared = session.prepare(statement.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY", 1))
    method = private(prepared).method
    assert isinstance(method, BoundSearches)
    noise, search = Fraction(141_421_356, 10**8) * times / method.first_epsilon, method.search(0)
    assert search.penalty == 5 / (2 * method.epsilon)
    assert search.enough == max(2 * (noise - search.penalty), 0)
