"""`con.budget().parts` and `.of(part)`: in this process and on a server, for each kind of parts."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.composition.release_words import add_exact_facts
from dpsql.dbapi import Connection
from dpsql.errors import NotSupportedError, ProgrammingError
from dpsql.session import Session
from tests.support.world import open_world
from tests.unit.remote.conftest import remote_of, wire_to

POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
high_water = false
[parts.user]
table = "signups"
PARTS
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
domain.land = ["DE", "FR"]
domain.cohort = { from = -1, to = 2 }
domain.paid = "BOOLEAN"
"""
SIGNUPS = """SELECT i AS user_id, ['DE', 'FR', 'IT', NULL][1 + i % 4] AS land, i % 4 - 1 AS cohort,
DATE '2026-01-05' + ((i % 21)::INTEGER) AS signed_up, i % 2 = 0 AS paid FROM range(840) t(i)"""
WEEKS = 'column = "signed_up"\nevery = "week"\nuntil = false\nmoves = "trusted"'
ASK = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) COUNT(*) AS n FROM signups WHERE {}"


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def connected(session: Session, place: str, monkeypatch: pytest.MonkeyPatch) -> Connection:
    return Connection(session if place == "local" else remote_of(wire_to(session, monkeypatch)))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    sessions: list[Any] = []

    def make(parts: str, place: str, *asked: tuple[str, str]) -> Connection:
        opened = open_world(tmp_path, POLICY.replace("PARTS", parts), signups=SIGNUPS)
        sessions.append(opened)
        session = opened.__enter__()
        for epsilon, where in asked:
            session.run(ASK.format(epsilon, where))
        return connected(session, place, monkeypatch)

    yield make
    for each in sessions:
        each.__exit__(None, None, None)


def test_each_week_has_its_budget(world: Any, place: str) -> None:
    con = world(
        WEEKS,
        place,
        ("0.25", "signed_up < DATE '2026-01-12'"),
        ("0.5", "signed_up = DATE '2026-01-06'"),
        ("0.125", "signed_up BETWEEN DATE '2026-01-19' AND DATE '2026-02-01'"),
    )
    budget = con.budget()
    assert budget.spent.epsilon == Fraction(3, 4), "that of the fullest week"
    assert [(each.words, each.budget.remaining.epsilon) for each in budget.parts] == [
        ("up to 2026-W01", Fraction(3, 4)),
        ("2026-W02", Fraction(1, 4)),
        ("2026-W03", 1),
        ("2026-W04 .. 2026-W05", Fraction(7, 8)),
        ("from 2026-W06", 1),
        ("NULL", 1),
        ("no row", 1),
    ]
    named = ["1999-W01", "2026-W02", date(2026, 1, 11), datetime(2026, 1, 20, 12), "2026-W05", None, "no row"]
    left = [budget.of(each).remaining.epsilon for each in named]
    assert left == [Fraction(each) for each in ("0.75", "0.25", "0.25", "0.875", "0.875", "1", "1")]
    assert budget.of("2026-W02").more(Fraction(1, 8)) == 2
    assert "0.75 of 1 spent" in repr(budget.parts[1])
    assert repr(pickle.loads(pickle.dumps(budget)).of("2026-W02")) == repr(budget.of("2026-W02"))
    shown = con.sql("SHOW PRIVACY BUDGET BY PARTS ALL").fetchall()
    assert [row[0] for row in shown[:-1]] == [each.words for each in budget.parts]
    for wrong in ("2026-W54", "2026-02", "week 2", 7, True):
        with pytest.raises(ProgrammingError, match=r"no part of units is named .*\nHint: .* 2026-W48"):
            budget.of(wrong)


def test_later_statements_do_not_change_it(world: Any, place: str) -> None:
    con = world(WEEKS, place)
    before = con.budget()
    con.sql(ASK.format("0.5", "signed_up = DATE '2026-01-06'"))
    assert before.of("2026-W02").spent.epsilon == 0
    assert con.budget().of("2026-W02").spent.epsilon == Fraction(1, 2)


def test_values_are_named_as_they_are(world: Any, place: str) -> None:
    budget = world('column = "land"', place, ("0.5", "land = 'FR'")).budget()
    left = [budget.of(each).remaining.epsilon for each in ("DE", "FR", "outside the declared values", None)]
    assert left == [1, Fraction(1, 2), 1, 1]
    with pytest.raises(ProgrammingError, match="no part of units is named 'IT'"):
        budget.of("IT")


def test_whole_numbers_are_parts(world: Any, place: str) -> None:
    budget = world('column = "cohort"', place, ("0.5", "cohort = 1")).budget()
    assert [budget.of(each).remaining.epsilon for each in (1, "1", -1)] == [Fraction(1, 2), Fraction(1, 2), 1]


def test_numbers_of_whole_numbers_in_an_older_ledger_are_not_taken(tmp_path: Path) -> None:
    with open_world(tmp_path, POLICY.replace("PARTS", 'column = "cohort"'), signups=SIGNUPS) as session:
        session.ledger.number_values([-1, 0, 1, 2])  # type: ignore[list-item]
        session.run(ASK.format("0.5", "cohort = 1"))
        table = session.run("SHOW PRIVACY BUDGET BY PARTS").table
        assert table["part"].to_pylist()[:3] == ["up to 0", "1", "from 2"]


def test_truth_values_are_parts(world: Any, place: str) -> None:
    budget = world('column = "paid"', place, ("0.5", "paid")).budget()
    assert [budget.of(each).remaining.epsilon for each in (True, False)] == [Fraction(1, 2), 1]


def test_without_parts_there_are_none(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = POLICY.replace('[parts.user]\ntable = "signups"\nPARTS\n', "")
    with open_world(tmp_path, whole, signups=SIGNUPS) as session:
        budget = connected(session, place, monkeypatch).budget()
        assert budget.parts == ()
        with pytest.raises(ProgrammingError, match="divides no units into parts"):
            budget.of("2026-W02")


def test_a_server_that_tells_no_parts_is_said_so(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.composition.show_describe.add_exact_facts", _only_budgets)
    with closing(world(WEEKS, "remote")) as con:
        budget = con.budget()
        assert budget.remaining.epsilon == 1
        with pytest.raises(NotSupportedError, match="SHOW PRIVACY BUDGET BY PARTS"):
            _ = budget.parts
        with pytest.raises(NotSupportedError, match="SHOW PRIVACY BUDGET BY PARTS"):
            budget.of("2026-W02")


def _only_budgets(table: Any, name: str, facts: dict[str, object]) -> Any:
    return add_exact_facts(table, name, facts) if name == "budget" else table
