"""An epsilon and a delta that are offered are a small part of what is left, and can be paid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import present
from tests.opened import sessions_in

COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
KEYS = "SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 3"
SPENT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) " + COUNT.removeprefix("SELECT ")
POLICY = """
[budget]
epsilon = {epsilon}
delta = {delta}
accounting = "{accounting}"
ledger = "ledger.sqlite"
{more}
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "person"
"""


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    rows = f"COPY (SELECT i AS user_id, 'x' AS note FROM range(9) t(i)) TO '{tmp_path}/visits.parquet'"
    duckdb.sql(rows)
    with sessions_in(tmp_path, policy()) as opened:
        yield opened


def policy(epsilon: str = "1", delta: str = "1e-6", accounting: str = "pure", more: str = "") -> str:
    return POLICY.format(epsilon=epsilon, delta=delta, accounting=accounting, more=more)


def refusal(session: Session, statement: str) -> QueryRefused:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(statement)
    return caught.value


@pytest.mark.parametrize(
    ("toml", "offered"),
    [
        (policy(), "0.05"),
        (policy("10"), "0.5"),
        (policy("0.3"), "0.01"),
        (policy(accounting="zcdp"), "0.05"),
        (policy(more="max_epsilon_per_query = 0.03"), "0.02"),
        (policy(more='[analysts."*"]\nepsilon = 0.1'), "0.005"),
    ],
)
@pytest.mark.sampled(3)
def test_a_twentieth_is_offered_and_runs(sessions: Callable[..., Session], toml: str, offered: str) -> None:
    session = sessions(toml=toml)
    error = refusal(session, COUNT)
    assert error.rewrite == SPENT.format(offered) + f" -- {offered} is a guess"
    assert present(session.run(error.rewrite).release).charge.epsilon == Fraction(offered)


def test_a_thousandth_of_delta_is_offered_and_runs(sessions: Callable[..., Session]) -> None:
    session = sessions(toml=policy(more="default_epsilon = 0.1"))
    error = refusal(session, KEYS)
    assert "OPTIONS (delta = 1e-9)" in present(error.hint)
    assert "(delta = 1e-9)" in present(error.rewrite)
    assert present(session.run(present(error.rewrite)).release).charge.delta == Fraction(1, 10**9)


def test_what_is_left_bounds_what_is_offered(sessions: Callable[..., Session]) -> None:
    session = sessions()
    session.run(SPENT.format("0.97"))
    error = refusal(session, COUNT)
    assert "epsilon = 0.02)" in present(error.rewrite)
    session.run(present(error.rewrite))
    assert "epsilon = 0.01)" in present(refusal(session, COUNT).rewrite)


def test_nothing_is_offered_when_nothing_is_left(sessions: Callable[..., Session]) -> None:
    session = sessions()
    session.run(SPENT.format("1"))
    error = refusal(session, COUNT)
    assert error.message.endswith("and nothing is left of the budget's epsilon")
    assert (error.hint, error.rewrite) == (None, None)
    wrong = refusal(session, SPENT.format("0.5").replace("user_id", "usr_id"))
    assert (wrong.hint, wrong.rewrite) == ("did you mean user_id?", None)


def test_no_delta_is_offered_where_the_budget_has_none(sessions: Callable[..., Session]) -> None:
    session = sessions(toml=policy(delta="0", more="default_epsilon = 0.1"))
    error = refusal(session, KEYS)
    assert error.message.endswith("so a delta is needed, and nothing is left of the budget's delta")
    assert error.hint == "the owner declares the keys in [tables.NAME.domain]"
    assert error.rewrite is None


def test_several_releases_are_offered_only_if_they_fit_together(sessions: Callable[..., Session]) -> None:
    session = sessions(toml=policy(more="default_epsilon = 0.4"))
    two = f"SELECT COUNT(DISTINCT {{}}) AS n FROM visits UNION ALL {COUNT} WHERE user_id > 3"
    assert refusal(session, two.format("usr_id")).rewrite == two.format("user_id")
    session.run(SPENT.format("0.7"))
    assert refusal(session, two.format("usr_id")).rewrite is None
