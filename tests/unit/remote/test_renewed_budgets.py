"""Budgets that start anew: what guarantees, EXPLAIN and SHOW say, in this process and on a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.cli.budget import _as_json, _draw_report
from dpsql.dbapi import Connection
from dpsql.errors import BudgetExceeded, OperationalError, ProgrammingError
from dpsql.kernel.ledger import renewals
from dpsql.kernel.loss import Charge
from dpsql.render.grid import Style
from dpsql.serve.json_facts import budget_facts
from dpsql.session import Session
from tests.support.world import open_world
from tests.unit.remote.conftest import remote_of, wire_to

RENEWAL = '[budget.renewal]\nevery = "month"\nlifetime_epsilon = 24\n'
POLICY = f"""
[budget]
epsilon = 1
delta = 1e-6
ledger = "ledger.sqlite"
high_water = false
{RENEWAL}
[tables.users]
source = "users.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
domain.land = {{ values = ["DE", "FR"], complete = true }}
"""
USERS = "SELECT i AS user_id, ['DE', 'FR'][1 + i % 2] AS land FROM range(840) t(i)"
ASK = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) COUNT(*) AS n FROM users"
ALONE = "adding or removing all rows of one user changes the probability of any answer by a factor of at most"


def at(monkeypatch: pytest.MonkeyPatch, month: int) -> None:
    monkeypatch.setattr(renewals, "now", lambda: datetime(2026, month, 14, 12, tzinfo=UTC))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    at(monkeypatch, 5)
    with open_world(tmp_path, POLICY, users=USERS) as opened:
        yield opened


def told(session: Session, text: str) -> dict[str, str]:
    rows = session.run(f"EXPLAIN {text}").table
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def test_every_guarantee_says_how_often_the_budget_has_started_anew(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_yet = (
        "the budget starts anew every month over the same rows, and has not yet: all releases together are"
        " (1, 1e-6)-DP"
    )
    assert told(session, ASK.format(1))["guarantee"] == f"{ALONE} e^1; {not_yet}"
    release = session.run(ASK.format(1)).release
    assert release is not None
    assert release.guarantee == f"{ALONE} e^1; {not_yet}"
    for month in range(6, 11):
        at(monkeypatch, month)
        expected = f"(({month - 4}, {month - 4}e-6)-DP"[1:]
        words = told(session, ASK.format("0.5"))["guarantee"]
        release = session.run(f"{ASK.format('0.5')} WHERE land = 'DE' AND {month} > 0").release
        assert release is not None
        assert release.guarantee == words
        assert words.endswith(f"over the same rows: all releases together are {expected}")
    assert "the budget has started anew 5 times since 1 May 2026 over the same rows: all releases" in words
    assert "all releases together are (6, 6e-6)-DP" in words
    again = session.run(ASK.format(1)).release  # the stored one has what is true when it is shown
    assert again is not None
    assert again.guarantee.endswith("(6, 6e-6)-DP")


def test_composed_statements_and_reports_say_it_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.run(ASK.format(1))
    at(monkeypatch, 6)
    two = (
        "SELECT a.n - b.n AS d FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) AS n"
        " FROM users) a, (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) AS n FROM users"
        " WHERE land = 'DE') b"
    )
    words = "the budget has started anew once since 1 May 2026 over the same rows"
    assert told(session, two)["guarantee"].count(words) == 1
    release = session.run(two).release
    assert release is not None
    assert release.guarantee.count(words) == 1
    texts = "SELECT WITH DIFFERENTIAL_PRIVACY land, COUNT(*) AS n FROM users GROUP BY land;" + ASK.replace(
        "OPTIONS (epsilon = {}) ", ""
    )
    session.run(f"CREATE REPORT lands OPTIONS (epsilon = 0.3) AS $$ {texts} $$")
    result = session.run("EXECUTE REPORT lands STATEMENT 1").release
    assert result is not None
    assert result.guarantee.count(words) == 1
    assert session.budget().spent == Charge(Fraction(1, 2))


@pytest.mark.parametrize("place", ["local", "remote"])
def test_budgets_show_renewals(session: Session, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    session.run(ASK.format("0.4"))
    at(monkeypatch, 6)
    session.run(ASK.format("0.5"))
    connection = Connection(session if place == "local" else remote_of(wire_to(session, monkeypatch)))
    budget = connection.budget()
    found = budget.renewal
    assert found is not None
    assert (found.every, found.times, found.since) == ("month", 1, date(2026, 5, 1))
    assert (found.next_start, found.lifetime) == (date(2026, 7, 1), Fraction(24))
    assert found.spent == Fraction(9, 10)
    assert found.together == Charge(Fraction(2), Fraction(2, 10**6))
    assert found.words.startswith("the budget has started anew once since 1 May 2026")
    assert budget.remaining == Charge(Fraction(1, 2), Fraction(1, 10**6))
    facts = budget_facts(budget)
    assert facts["left"] == {"epsilon": 0.5, "delta": 1e-06}
    assert facts["renewal"]["words"] == found.words
    assert json.dumps(facts)


def test_show_and_the_command_line_tell_the_same(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.run(ASK.format("0.4"))
    shown = session.run("SHOW PRIVACY BUDGET").table.to_pylist()
    assert [tuple(row.values()) for row in shown] == [
        ("epsilon", "1", "0.4", "0.6"),
        ("delta", "1e-06", "0", "1e-06"),
        ("lifetime epsilon", "24", "0.4", "23.6"),
        ("starts anew", "every month", "not yet since 2026-05-01", "next on 2026-06-01"),
    ]
    at(monkeypatch, 6)
    assert session.run("SHOW PRIVACY BUDGET").table.to_pylist()[0]["remaining"] == "1"
    text = _draw_report(session.ledger, None, None, Style())
    assert "the budget has started anew once since 1 May 2026 over the same rows" in text
    assert json.loads(_as_json(session.ledger, None))["renewal"]["times"] == 1
    with pytest.raises(
        BudgetExceeded, match=r"only 1 of the budget is left until it starts anew on 2026-07-01"
    ):
        session.run(ASK.format("1.5"))


def test_a_refinement_waits_for_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.run(ASK.format("0.25"))
    at(monkeypatch, 6)
    with pytest.raises(OperationalError, match="was answered before the budget started anew"):
        session.run("REFINE RELEASE 1 TO 0.5")
    assert session.budget().spent.epsilon == 0


def test_streams_are_closed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.run("OPEN CHECKS daily OPTIONS (epsilon = 0.5, misses = 2)")
    check: Any = "CHECK daily SELECT COUNT(*) AS n FROM users EXPECT n = 840 TOLERANCE 100"
    session.run(check)
    at(monkeypatch, 6)
    with pytest.raises(ProgrammingError, match="REFILL STREAM daily"):
        session.run(check.replace("FROM users", "FROM users WHERE land = 'DE'").replace("840", "420"))


def test_a_stored_answer_says_how_often_the_budget_has_started_anew_by_now(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it said when it was made would be false: later releases are over the same rows."""
    first = session.run(ASK.format("0.5")).release
    assert first is not None
    assert "has not yet" in first.guarantee
    at(monkeypatch, 6)
    session.run(ASK.format("0.4"))
    words = "the budget has started anew once since 1 May 2026 over the same rows: all releases together are"
    composed = f"SELECT a.n + b.n AS m FROM ({ASK.format('0.5')}) AS a, ({ASK.format('0.4')}) AS b"
    for text in (ASK.format("0.5"), composed):
        found = session.run(text).release
        assert found is not None
        assert found.reused
        assert found.guarantee.endswith(f"; {words} (2, 2e-6)-DP")
        assert found.guarantee.count("the budget") == 1
    assert first.number is not None
    again = session.release(first.number)
    assert again.guarantee == f"{ALONE} e^0.5; {words} (2, 2e-6)-DP"
    assert again.properties["renewals"] == f"{words} (2, 2e-6)-DP"
