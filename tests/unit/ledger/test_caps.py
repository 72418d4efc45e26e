"""A process that has read another policy charges what both policies admit, with or without renewals."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import BudgetExceeded, OperationalError, PolicyError
from dpsql.kernel.ledger.caps import Caps, GroupCap
from dpsql.kernel.ledger.events import Request
from dpsql.kernel.ledger.scopes import own_scopes, policy_scopes
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss
from dpsql.ledger import Ledger
from dpsql.ledger.budgets import scopes_of
from tests.support.ledger_streams import open_stream

BIG = Charge(Fraction(10), Fraction(1, 10**6))
SMALL = Charge(Fraction(2), Fraction(1, 10**6))


def opened(path: Path, total: Charge = BIG, *, zcdp: bool = False, **given: Any) -> Ledger:
    filter_of = (lambda cap: Filter.of(cap, "zcdp")) if zcdp else Filter.of
    return Ledger.open(path / "l", policy_id="p", total=total, high_water=False, filter_of=filter_of, **given)


@contextmanager
def old_and_new(path: Path, old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[Ledger, Ledger]]:
    with opened(path, **old) as first, opened(path, **new) as last:
        yield first, last


def ask(ledger: Ledger, epsilon: str, analyst: str = "ann", delta: Fraction = Fraction(0)) -> None:
    request = Request("s", "m", Charge(Fraction(epsilon), delta))
    found = ledger.reserve_all(analyst=analyst, statement="SELECT", requests=[request])
    ledger.settle(found, request.charge)


def spend(ledger: Ledger, analyst: str = "ann") -> Fraction:
    for n in range(100):
        try:
            ask(ledger, "1/2", analyst)
        except BudgetExceeded:
            return n * Fraction(1, 2)
    raise AssertionError("it is never refused")


@pytest.mark.parametrize("zcdp", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"total": BIG}, {"total": SMALL}),
        ({"total": SMALL}, {"total": BIG}),
        ({"analysts": {"ann": BIG}}, {"analysts": {"ann": SMALL}}),
        ({"analysts": {"ann": BIG}}, {"analysts": {"*": SMALL}}),
        ({"analysts": {"*": BIG}}, {"analysts": {"ann": SMALL, "bob": BIG}}),
        ({}, {"analysts": {"*": SMALL}}),
        ({"analysts": {"*": SMALL}}, {}),
        ({"groups": {"g": GroupCap(("ann",), BIG)}}, {"groups": {"g": GroupCap(("ann",), SMALL)}}),
        ({}, {"groups": {"g": GroupCap(("ann", "bob"), SMALL)}}),
        ({"groups": {"g": GroupCap(("ann",), SMALL)}}, {"groups": {"g": GroupCap(("ann", "bob"), BIG)}}),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_the_least_of_both_is_spent(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any], *, zcdp: bool
) -> None:
    with old_and_new(tmp_path, {"zcdp": zcdp} | old, {"zcdp": zcdp} | new) as (first, last):
        assert first.budget("ann").remaining.epsilon == 2
        assert spend(first) == 2
        assert first.budget("ann").remaining.epsilon == 0
        assert last.check() == []


def test_what_one_statement_may_cost_and_who_is_listed(tmp_path: Path) -> None:
    with old_and_new(tmp_path, {}, {"per_query": Fraction(1, 4)}) as (first, _):
        with pytest.raises(BudgetExceeded, match=r"0\.25"):
            ask(first, "1/2")
        ask(first, "1/4")
    lists = {"analysts": {"ann": BIG, "bob": BIG}}, {"analysts": {"bob": BIG}}
    with old_and_new(tmp_path, *lists) as (first, last):
        with pytest.raises(PolicyError, match="none of them"):
            ask(first, "1/4")
        ask(first, "1/4", "bob")
        with opened(tmp_path, analysts={"eve": BIG}):
            for name in ("ann", "bob", "eve"):
                with pytest.raises(PolicyError, match="none of them"):
                    ask(last, "1/4", name)


def test_statements_that_may_fail(tmp_path: Path) -> None:
    with old_and_new(tmp_path, {"max_failures": 9}, {"max_failures": 1}) as (first, _):
        request = Request("s", "m", Charge(Fraction(1, 10)))
        first.fail(first.reserve_all(analyst="ann", statement="SELECT", requests=[request]))
        with pytest.raises(OperationalError, match="fail"):
            ask(first, "1/10")


def test_streams(tmp_path: Path) -> None:
    with old_and_new(tmp_path, {}, {"total": SMALL}) as (first, _):
        with pytest.raises(BudgetExceeded):
            open_stream(first, Fraction(1), Fraction(1))
        open_stream(first, Fraction(1), Fraction(1, 2))
        assert first.budget().remaining.epsilon == 0


def test_costs_add_up_in_both(tmp_path: Path) -> None:
    """Under `zcdp` many small statements are admitted by the costs of both policies, each at its order."""
    loss = PrivacyLoss.gaussian(Fraction(1, 1000))
    request = Request("s", "m", Charge(Fraction(1, 5)), loss=loss)
    with old_and_new(tmp_path, {"zcdp": True}, {"zcdp": True, "total": SMALL}) as (first, last):
        for _ in range(2):
            first.reserve_all(analyst="ann", statement="SELECT", requests=[request])
        assert last.check() == []
        with opened(tmp_path, SMALL), pytest.raises(BudgetExceeded):  # it has no epsilon
            first.reserve_all(analyst="ann", statement="SELECT", requests=[request])


def test_what_is_admitted_is_admitted_by_both(tmp_path: Path) -> None:
    """On random caps, accountings and charges before, of every scope."""
    chosen = random.Random(6)

    def draw() -> dict[str, Any]:
        def cap() -> Charge:
            return Charge(Fraction(chosen.randint(1, 3)), Fraction(chosen.choice([0, 1, 2, 4]), 10**6))

        return {
            "total": Charge(Fraction(chosen.randint(2, 4)), Fraction(chosen.randint(1, 4), 10**6)),
            "zcdp": chosen.random() < 0.5,
            "analysts": {name: cap() for name in chosen.choice([("ann",), ("ann", "bob"), ("*",), ()])},
            "groups": {"g": GroupCap(chosen.choice([("ann",), ("ann", "bob")]), cap())},
        }

    admitted = refused = 0
    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        with old_and_new(folder, draw(), draw()) as (first, last):
            for _ in range(chosen.randint(0, 3)):
                try:
                    ask(first, chosen.choice(["1/4", "1/2", "1"]))
                except BudgetExceeded:
                    break
            loss = PrivacyLoss.of(
                Fraction(chosen.randint(1, 8), 8), Fraction(chosen.choice([0, 0, 0, 1, 2]), 10**6)
            )
            with first._store.read() as connection:
                caps = first._limits.find(connection)
                found = is_admitted(connection, first._caps, loss)
                found = found and is_admitted(connection, last._caps, loss)
                scopes = scopes_of(connection, caps, "ann")
                assert all(each.budget(connection).admits(loss) for each in scopes) is found
            admitted, refused = admitted + found, refused + (not found)
            try:
                ask(first, str(loss.epsilon), delta=loss.charge.delta)
            except BudgetExceeded:
                assert not found
            else:
                assert found
    assert min(admitted, refused) > 10


def is_admitted(connection: sqlite3.Connection, caps: Caps, loss: PrivacyLoss) -> bool:
    """Whether every scope of ann's admits a loss."""
    scopes = [*policy_scopes(connection, caps), *own_scopes(connection, caps, "ann")]
    return all(each.budget(connection).admits(loss) for each in scopes)
