"""Statements under `accounting = "zcdp"`, run through SQL until the budget admits no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import BudgetExceeded
from dpsql.kernel.loss import Gaussian, PrivacyLoss
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present

POLICY = """
[budget]
epsilon = {epsilon}
delta = 1e-6
{accounting}
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.csv"
unit = "user_id"
columns = {{user_id = "BIGINT", page = "VARCHAR"}}
[tables.visits.domain]
page.values = [{pages}]
page.complete = true
"""
COUNT = "COUNT(DISTINCT user_id) AS n FROM visits"
BEST = "page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 5"
ZCDP = 'accounting = "zcdp"'


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    made: list[Session] = []

    def open_(accounting: str, epsilon: int = 10) -> Session:
        folder = tmp_path / f"{len(made)}"
        folder.mkdir()
        rows = "".join(f"{i},p{i % 40}\n" for i in range(400))
        (folder / "visits.csv").write_text("user_id,page\n" + rows)
        pages = ", ".join(f'"p{i}"' for i in range(40))
        (folder / "dpsql.toml").write_text(POLICY.format(accounting=accounting, epsilon=epsilon, pages=pages))
        made.append(Session(load(folder / "dpsql.toml"), "ann"))
        return made[-1]

    yield open_
    for session in made:
        session.close()


def ask(session: Session, rest: str, options: str) -> Fraction:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}, fresh = TRUE) {rest}"
    return present(session.run(text).release).charge.epsilon


def admitted(session: Session, options: str, *texts: str) -> int:
    """Return how many statements run until one is refused; each costs what it names."""
    number, wanted = 0, Fraction(options.split()[2].rstrip(","))
    while True:
        try:
            assert ask(session, texts[number % len(texts)], options) == wanted
        except BudgetExceeded:
            return number
        number += 1


def test_a_smaller_budget(opened: Callable[..., Session]) -> None:
    assert admitted(opened(ZCDP, 3), "epsilon = 0.1", COUNT, BEST) == 39
    assert admitted(opened("", 3), "epsilon = 0.1", COUNT, BEST) == 30


@pytest.mark.slow
def test_three_times_as_many_small_statements(opened: Callable[..., Session]) -> None:
    for options in ("epsilon = 0.1", "epsilon = 0.1, noise = LAPLACE"):
        session = opened(ZCDP)
        assert admitted(session, options, COUNT) == 301
        assert session.ledger.check() == []
    assert admitted(opened(""), "epsilon = 0.1", COUNT) == 100


def test_noise_without_an_epsilon_closes_the_sum_of_epsilons(opened: Callable[..., Session]) -> None:
    session = opened(ZCDP)
    ask(session, COUNT, "epsilon = 0.1")
    entry = session.ledger.entries()[-1]
    loss = entry.charged
    assert isinstance(loss, PrivacyLoss)
    assert [type(part) for part in loss.parts] == [Gaussian]
    for _ in range(6):
        ask(session, COUNT, "epsilon = 1")
    with pytest.raises(BudgetExceeded):
        ask(session, COUNT, "epsilon = 1")
    basic = opened(ZCDP)
    assert admitted(basic, "epsilon = 1, layout = BASIC", COUNT) == 10
