"""Refinements in the ledger: once for each release, by its owner, at no less than what they add."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import BudgetExceeded, InternalError, OperationalError
from dpsql.kernel.loss import Charge
from dpsql.ledger import Ledger, RefinementStep, Reservation


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(
        tmp_path / "ledger.sqlite", policy_id="p", total=Charge(Fraction(10)), high_water=False
    ) as made:
        yield made


def reserve(
    ledger: Ledger,
    epsilon: str,
    refines: tuple[int, str] | None = None,
    *,
    analyst: str = "ann",
    statement: str = "s",
) -> Reservation:
    return ledger.reserve(
        analyst=analyst,
        statement=statement,
        selection="Scalar",
        mechanism="m",
        charge=Charge(Fraction(epsilon)),
        refines=None if refines is None else RefinementStep(refines[0], Fraction(refines[1])),
    )


def settled(ledger: Ledger, held: Reservation, payload: bytes = b"x", key: str | None = None) -> int:
    return ledger.settle(held, held.loss.charge, release=payload, reuse_key=key)


def test_a_lineage_has_the_first_statement_and_the_epsilon_of_all(ledger: Ledger) -> None:
    first = settled(ledger, reserve(ledger, "1/10", statement="first"), b"1", "key")
    second = settled(ledger, reserve(ledger, "1/5", (first, "3/10")), b"2")
    third = settled(ledger, reserve(ledger, "2/10", (second, "1/2")), b"3")
    found = [ledger.lineage(number, "ann") for number in (first, second, third)]
    assert [(f.payload, f.epsilon, f.child, f.refined) for f in found if f is not None] == [
        (b"1", None, second, True),
        (b"2", Fraction(3, 10), third, True),
        (b"3", Fraction(1, 2), None, False),
    ]
    assert {(f.statement, f.reuse_key, f.first_epsilon, f.shared) for f in found if f is not None} == {
        ("first", "key", Fraction(1, 10), False)
    }
    assert ledger.budget().spent == Charge(Fraction(1, 2))
    assert ledger.lineage(third, "bob") is None
    assert ledger.lineage(99, "ann") is None
    assert ledger.check() == []


@pytest.mark.parametrize("end", ["settle", "fail", "cancel", "nothing"])
def test_a_release_is_refined_once_however_that_ends(ledger: Ledger, end: str) -> None:
    first = settled(ledger, reserve(ledger, "1"))
    held = reserve(ledger, "1", (first, "2"))
    if end == "settle":
        settled(ledger, held)
    elif end != "nothing":
        getattr(ledger, end)(held)
    before = ledger.entries()
    with pytest.raises(OperationalError, match="was refined by another statement; nothing was charged"):
        reserve(ledger, "2", (first, "3"))
    assert ledger.entries() == before
    assert ledger.budget().spent == Charge(Fraction(2))
    found = ledger.lineage(first, "ann")
    assert found is not None
    assert found.refined
    assert (found.child is not None) == (end == "settle")


def test_what_is_refused_uses_nothing_up(ledger: Ledger) -> None:
    first = settled(ledger, reserve(ledger, "1"))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "10", (first, "11"))
    for epsilon, total, analyst in (("1/2", "2", "ann"), ("1", "2", "bob")):
        with pytest.raises(InternalError, match="a refinement"):
            reserve(ledger, epsilon, (first, total), analyst=analyst)
    with pytest.raises(InternalError, match="not the analyst's own"):
        reserve(ledger, "1", (99, "2"))
    assert ledger.budget().spent == Charge(Fraction(1))
    settled(ledger, reserve(ledger, "1", (first, "2")))


def test_a_shared_release_is_not_refined(ledger: Ledger) -> None:
    settled(ledger, reserve(ledger, "1"), key="k")
    ledger.share(["k"], "bob")
    shared = ledger.find("k", "bob")
    assert shared is not None
    found = ledger.lineage(shared.number, "bob")
    assert found is not None
    assert found.shared
    with pytest.raises(InternalError, match="not the analyst's own"):
        reserve(ledger, "1", (shared.number, "2"), analyst="bob")


def test_its_records_stay_and_are_checked(ledger: Ledger, tmp_path: Path) -> None:
    first = settled(ledger, reserve(ledger, "1"))
    second = settled(ledger, reserve(ledger, "1", (first, "2")))
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as raw:
        for change in ("DELETE FROM refinement", "UPDATE refinement SET epsilon = '3/1'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(change)
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            raw.execute("INSERT INTO refinement VALUES (99, ?, '3/1')", (first,))
        entries = {entry.release: entry.entry for entry in ledger.entries()}
        raw.execute("DROP TRIGGER refinement_is_final")
        raw.execute("UPDATE refinement SET epsilon = '5/2'")
        entry = entries[second]
        assert ledger.check() == [
            f"entry {entry} costs less than what it adds",
            f"event 5: entry {entry} is not what it was when it was reserved",
        ]


def test_selections_of_older_versions_are_shown_in_words(ledger: Ledger) -> None:
    settled(ledger, reserve(ledger, "1/10"))
    assert [info.selection for info in ledger.releases("ann")] == ["count"]
    assert [entry.selection for entry in ledger.entries("ann")] == ["count"]
