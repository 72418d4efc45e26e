"""Kept ladders in the ledger's file: append-only, checked, marked, spent after the file was lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import InternalError, OperationalError, PolicyError
from dpsql.kernel.loss import Charge, Filter
from dpsql.ledger import Ledger
from dpsql.ledger.ledger import Opening
from tests.kept_ladders import (
    Open,
    asked,
    cost,
    keep,
    newest_of,
    numbered,
    reserve,
    reserve_one,
    spent,
)


def raw(path: Path, *changes: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for change in changes:
            connection.execute(change)


def test_a_ladder_is_append_only(open_ledger: Open, tmp_path: Path) -> None:
    ledger = open_ledger()
    keep(ledger, "1/4")
    reserve_one(ledger, asked("1/4"))
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as connection:
        for change in (
            "DELETE FROM bounds",
            "UPDATE bounds SET payload = x'00' WHERE number = 1",
            "UPDATE bounds SET state = 'reserved', payload = NULL, event = NULL WHERE number = 1",
            *(
                f"UPDATE bounds SET {name} = 'x' WHERE number = 2"
                for name in ("loss", "version", "measure", "source")
            ),
        ):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(change)
    assert ledger.check() == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DELETE FROM bounds WHERE number = 1", "ladder 1 is missing"),
        ("DELETE FROM bounds WHERE number = 2", "the total of bounds is not the sum"),
        ("UPDATE bounds SET loss = 'pure 1/100' WHERE number = 1", "the total of bounds is not the sum"),
        ("UPDATE bounds SET loss = 'x' WHERE number = 1", "unreadable"),
        ("UPDATE bounds SET version = 'v2' WHERE number = 2", "ladder 2 is missing or not what it was"),
        ("UPDATE bounds SET payload = x'00' WHERE number = 1", "ladder 1 is missing or not what it was"),
        ("UPDATE bounds SET event = 2 WHERE number = 1", "ladder 1 is missing or not what it was"),
        ("UPDATE bounds SET state = 'failed' WHERE number = 2", "have not ended are not those of the events"),
        ("UPDATE bounds SET state = 'reserved' WHERE number = 3", "ladder 3 has not failed"),
        (
            "INSERT INTO bounds VALUES (9, '', '', '', '', '', 'none', '', 'failed', NULL, NULL)",
            "the table bounds has 4 rows, and the events tell of 3",
        ),
        ("DELETE FROM total WHERE name = 'bounds'", "the total of bounds"),
        ("UPDATE total SET epsilon = '1/100' WHERE name = 'bounds'", "the total of bounds"),
    ],
)
def test_check_finds_what_was_tampered_with(
    open_ledger: Open, tmp_path: Path, change: str, says: str
) -> None:
    ledger = open_ledger()
    keep(ledger, "1/4")
    reserve_one(ledger, asked("1/4"))
    ledger.fail_ladder(reserve_one(ledger, asked("1/4")))
    reserve(ledger, "1/4")
    assert ledger.check() == []
    raw(tmp_path / "ledger.sqlite", change)
    found = open_ledger(opening=Opening.INSPECT).check()
    assert any(says in problem for problem in found), found


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM total WHERE name = 'bounds'", "UPDATE total SET epsilon = '0/1' WHERE name = 'bounds'"],
)
def test_what_all_ladders_cost_is_compared_whenever_the_file_is_opened(
    open_ledger: Open, tmp_path: Path, change: str
) -> None:
    ledger = open_ledger()
    keep(ledger, "1/4")
    ledger.settle(reserve(ledger, "1/4"), cost("1/4"))
    ledger.close()
    raw(tmp_path / "ledger.sqlite", change)
    with pytest.raises(OperationalError, match="its totals are not those of event"):
        open_ledger()


def test_ladders_that_were_lost_with_the_ledger_count_for_analysts_who_come_later(
    open_ledger: Open, tmp_path: Path
) -> None:
    ledger = open_ledger()
    keep(ledger, "1/4")
    reserve(ledger, "1/10")
    ledger.close()
    older = (tmp_path / "ledger.sqlite").read_bytes()
    ledger = open_ledger()
    keep(ledger, "1/2")
    held = reserve_one(ledger, asked("1/8"))
    number = ledger.settle(reserve(ledger, "1/10", "bob"), cost("1/10"), release=b"x")
    ledger.close()
    (tmp_path / "ledger.sqlite").write_bytes(older)
    with pytest.raises(OperationalError, match="older than the mark"):
        open_ledger()
    ledger = open_ledger(opening=Opening.ACCEPT)
    assert ledger.accepted is not None
    assert ledger.accepted["bounds"].epsilon == Fraction(5, 8)
    lost = Fraction(7, 8)
    assert [spent(ledger, who) for who in ("ann", "bob", "new")] == [lost + Fraction(1, 10)] * 2 + [lost]
    assert spent(ledger) == lost + Fraction(1, 5)
    assert [each.number for each in ledger.ladders()] == [1]
    with pytest.raises(InternalError, match="no such ladder"):
        ledger.settle_ladder(held, b"bins")
    assert ledger.check() == []
    assert number == 1
    assert spent(open_ledger(), "later") == lost


def test_a_lost_ladder_costs_at_most_its_epsilon_at_an_analysts_order(
    open_ledger: Open, tmp_path: Path
) -> None:
    whole, own = (Charge(Fraction(epsilon), Fraction(1, 10**6)) for epsilon in (4, 1))
    given: dict[str, object] = {
        "total": whole,
        "analysts": {"ann": own, "*": whole},
        "filter_of": lambda budget: Filter.of(budget, "zcdp"),
    }
    open_ledger(**given).close()
    older = (tmp_path / "ledger.sqlite").read_bytes()
    ledger = open_ledger(**given)
    keep(ledger, "1/20")
    ledger.settle(reserve(ledger, "1/10", "bob"), cost("1/10"), release=b"x")
    before = ledger.budget("new").cost
    ledger.close()
    (tmp_path / "ledger.sqlite").write_bytes(older)
    ledger = open_ledger(opening=Opening.ACCEPT, **given)
    assert ledger.budget("new").cost == before, "the order is the one that the mark tells of"
    assert ledger.budget("ann").cost == Fraction(1, 20), "what others asked does not count"
    assert ledger.check() == []


def test_a_ledger_that_is_made_anew_from_its_mark_has_the_ladders(open_ledger: Open, tmp_path: Path) -> None:
    ledger = open_ledger()
    keep(ledger, "1/4")
    ledger.close()
    for file in tmp_path.glob("ledger.sqlite*"):
        file.unlink()
    ledger = open_ledger(opening=Opening.ACCEPT)
    assert spent(ledger) == spent(ledger, "new") == Fraction(1, 4)
    keep(ledger, "1/4")
    assert spent(ledger) == spent(ledger, "new") == Fraction(1, 2)
    assert ledger.check() == []
    ledger.close()
    with pytest.raises(PolicyError, match=r"cost epsilon 0\.5"):
        open_ledger(analysts={"ann": cost("1/4")})


def test_a_ladder_that_was_being_measured_when_the_ledger_was_restored_is_none(
    open_ledger: Open, tmp_path: Path
) -> None:
    ledger = open_ledger()
    held = reserve_one(ledger, asked("1/4"))
    ledger.close()
    older = (tmp_path / "ledger.sqlite").read_bytes()
    ledger = open_ledger()
    keep(ledger, "1/4")
    ledger.close()
    (tmp_path / "ledger.sqlite").write_bytes(older)
    ledger = open_ledger(opening=Opening.ACCEPT)
    with pytest.raises(InternalError, match="twice"):
        ledger.settle_ladder(held, b"bins")
    assert [each.state for each in ledger.ladder_charges()] == ["cancelled"]
    assert spent(ledger, "ann") == Fraction(1, 2)
    assert ledger.check() == []


def test_a_ladder_is_in_the_mark_before_it_is_shown(
    open_ledger: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger()
    held = reserve_one(ledger, asked("1/4"))
    with Ledger.open(
        tmp_path / "ledger.sqlite",
        policy_id="p",
        total=cost("10"),
        analysts={"*": cost("10")},
        high_water=tmp_path / "mark",
    ) as other:

        def fails(*given: object) -> None:
            raise OSError(28, "No space left on device")

        from dpsql.ledger.mark import MarkFile

        with monkeypatch.context() as full:
            full.setattr(MarkFile, "write", fails)
            with pytest.raises(OSError, match="No space"):
                ledger.settle_ladder(held, b"bins")
            for ask in (
                other.ladders,
                lambda: newest_of(other, "visits", "rows"),
                lambda: numbered(other, 1),
            ):
                with pytest.raises(OSError, match="No space"):
                    ask()
        assert [each.payload for each in other.ladders()] == [b"bins"]
        assert other.head().hash in (next(iter(tmp_path.glob("mark*"))).read_text())
