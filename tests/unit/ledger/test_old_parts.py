"""What was charged to old parts of units costs, at any order, what the dearest of them costs there."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from dpsql.kernel.ledger import totals
from dpsql.kernel.ledger.scopes import all_budgets
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss
from dpsql.kernel.unit_parts import PartSet
from dpsql.ledger import GroupCap, Ledger, Request, Reservation
from tests.unit.ledger.test_parts import MONTHS, WEEKS, A, B, only, opened

DELTA = Fraction(1, 10**5)
STEP = 720_720 * 10**9


@pytest.mark.parametrize("changed", ["units", "declaration", "budget"])
def test_a_group_with_another_order_goes_on_after_old_parts(path: Path, changed: str) -> None:
    def asked(ledger: Ledger) -> None:
        price = Charge(Fraction(1, 10), Fraction(1, 10**7))
        one = Request("r", "m", price, loss=PrivacyLoss.gaussian(Fraction(1, 1000)), parts=only(A))
        ledger.reserve_all(analyst="ann", statement="s", requests=[one])

    delta = Fraction(1, 10**5)
    caps: dict[str, object] = {
        "filter_of": lambda cap: Filter.of(cap, "zcdp"),
        "analysts": {"ann": Charge(Fraction(15), delta)},
        "groups": {"team": GroupCap(("ann",), Charge(Fraction(2), delta))},
    }
    if changed == "budget":
        caps.pop("groups")
    with opened(path, total=Charge(Fraction(20), delta), **caps) as ledger:
        asked(ledger)
        if changed != "declaration":
            ledger.spend_in_all_parts()
    total = Charge(Fraction(21 if changed == "budget" else 20), delta)
    parts = MONTHS if changed == "declaration" else WEEKS
    with opened(path, total=total, parts=parts, **caps) as ledger:
        asked(ledger)
        assert ledger.check() == []


@dataclass
class Asked:
    """A charge, as the owner of the policy would note it."""

    analyst: str
    parts: PartSet | None
    generation: int
    loss: PrivacyLoss
    shared: bool = False


def cost_of(asked: Iterable[Asked], order: Fraction) -> Fraction:
    """Return the cost of all: of each generation of parts the largest of any, and what all parts bear."""
    whole, parts = Fraction(0), defaultdict[tuple[int, int], int](int)
    for each in asked:
        cost = each.loss.cost(order)
        if each.parts is None:
            whole += cost
        else:
            for low, high in each.parts.ranges:
                for part in range(low, high + 1):
                    parts[each.generation, part] += math.ceil(cost * STEP)
    most: dict[int, int] = {}
    for (generation, _), steps in parts.items():
        most[generation] = max(most.get(generation, 0), steps)
    return whole + Fraction(sum(most.values()), STEP)


class Notes:
    """Random statements to a ledger whose parts become other ones, and a note of each."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random, self._path = Random(seed), path
        self.asked: list[Asked] = []
        self._running: list[tuple[Asked, Reservation, Fraction]] = []
        self._stored: list[tuple[str, Asked]] = []
        self._generation = self._budget = 0
        self._parts = WEEKS

    def opened(self) -> Ledger:
        members = ("ann", "bob")
        return opened(
            self._path,
            total=Charge(Fraction(60 + self._budget), DELTA),
            analysts={"ann": Charge(Fraction(40), DELTA), "*": Charge(Fraction(30), DELTA)},
            groups={
                "team": GroupCap(members, Charge(Fraction(20), DELTA)),
                "duo": GroupCap(members[1:], Charge(Fraction(25), DELTA)),
            },
            parts=self._parts,
            filter_of=lambda cap: Filter.of(cap, "zcdp"),
            max_failures=1000,
        )

    def ask(self, ledger: Ledger) -> None:
        random, analyst = self.random, self.random.choice(["ann", "bob", "cem"])
        parts = random.choice([None, only(A), only(B), only(A, B), PartSet.of((A - 3, A), (B + 1, B + 4))])
        epsilon = Fraction(1, random.randrange(3, 40))
        noisy = random.random() < 0.5
        loss = PrivacyLoss.gaussian(epsilon / 30) if noisy else PrivacyLoss.of(epsilon)
        one = Request("r", "m", Charge(epsilon, DELTA / 10**4), loss=loss, parts=parts)
        held = ledger.reserve_all(analyst=analyst, statement="s", requests=[one])
        self.asked.append(Asked(analyst, parts, self._generation, loss))
        self._running.append((self.asked[-1], held, Fraction(0) if noisy else epsilon / 100))

    def settle(self, ledger: Ledger) -> None:
        if not self._running:
            return
        noted, held, epsilon = self._running.pop(self.random.randrange(len(self._running)))
        key = f"key {held.entry}"
        ledger.settle(held, Charge(epsilon) if epsilon else noted.loss, release=b"x", reuse_key=key)
        charged = noted.loss
        with closing(sqlite3.connect(self._path)) as connection:
            (text,) = connection.execute(
                "SELECT charged_loss FROM entry WHERE entry = ?", (held.entry,)
            ).fetchone()
            charged = totals.read_loss(text)
        if noted.parts is None or noted.generation == self._generation:
            noted.loss = charged
        self._stored.append((key, Asked(noted.analyst, noted.parts, noted.generation, charged, shared=True)))

    def share(self, ledger: Ledger) -> None:
        if not self._stored:
            return
        key, noted = self._stored.pop()
        analyst = self.random.choice([each for each in ("ann", "bob", "cem") if each != noted.analyst])
        ledger.share([key], analyst)
        parts = noted.parts if noted.generation == self._generation else None
        self.asked.append(Asked(analyst, parts, self._generation, noted.loss, shared=True))

    def change(self, ledger: Ledger) -> None:
        self._generation += 1
        ledger.spend_in_all_parts()

    def declare(self, _ledger: Ledger) -> None:
        self._generation += 1
        self._parts = WEEKS if self._parts is MONTHS else MONTHS

    def raise_budget(self, _ledger: Ledger) -> None:
        self._budget += 1

    def compare(self, ledger: Ledger) -> None:
        with ledger._store.read() as connection:
            found = {each.name: each for each in all_budgets(connection, ledger._caps)}
        assert {"policy", "analyst ann", "group team", "group duo"} <= found.keys()
        orders = set()
        for name, each in found.items():
            assert each.filter.order_way is not None
            order = each.filter.order_way.order
            orders.add(order)
            if name == "policy":
                expected = cost_of([one for one in self.asked if not one.shared], order)
            else:
                members = {"group team": ("ann", "bob"), "group duo": ("bob",)}
                names = members.get(name, (name.removeprefix("analyst "),))
                expected = sum(
                    (cost_of([a for a in self.asked if a.analyst == one], order) for one in names),
                    Fraction(0),
                )
            assert each.totals.cost == expected, name
        assert len(orders) > 3
        assert ledger.check() == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(2, rest="longer")
def test_each_scope_bears_the_dearest_part_of_each_generation_at_its_own_order(path: Path, seed: int) -> None:
    """Random statements, settled before and after parts become other ones, shared and not."""
    notes = Notes(path, seed)
    steps = [notes.ask, notes.settle, notes.share, notes.change, notes.declare, notes.raise_budget]
    for _ in range(12):
        with notes.opened() as ledger:
            for _ in range(notes.random.randrange(1, 7)):
                step = notes.random.choices(steps, weights=[8, 5, 2, 1, 1, 1])[0]
                step(ledger)
                if step in (notes.declare, notes.raise_budget):
                    break
    with notes.opened() as ledger:
        notes.compare(ledger)
        for _ in range(3):
            notes.ask(ledger)
            notes.settle(ledger)
        notes.compare(ledger)


def test_what_is_settled_after_its_part_is_old_stays_as_it_was_reserved(path: Path) -> None:
    """Else a group that appears later would bear less than one that was there before."""
    delta = Charge(Fraction(20), DELTA)
    with opened(path, total=delta, filter_of=lambda cap: Filter.of(cap, "zcdp")) as ledger:
        one = Request("r", "m", Charge(Fraction(1)), parts=only(A))
        held = ledger.reserve_all(analyst="ann", statement="s", requests=[one])
        ledger.spend_in_all_parts()
        ledger.settle(held, Charge(Fraction(1, 1000)), release=b"x")
    team = {"team": GroupCap(("ann",), Charge(Fraction(5), DELTA))}
    with opened(path, total=delta, groups=team, filter_of=lambda cap: Filter.of(cap, "zcdp")) as ledger:
        (_, group) = ledger.budget("ann").scopes
        assert group.filter.order_way is not None
        assert group.totals.cost >= PrivacyLoss.of(Fraction(1)).cost(group.filter.order_way.order)
        assert ledger.check() == []


def test_parts_that_were_accounted_by_epsilons_have_costs_later(path: Path) -> None:
    total = Charge(Fraction(8), DELTA)
    with opened(path, total=total) as ledger:
        for part in (A, A, B):
            one = Request("r", "m", Charge(Fraction(1, 2)), parts=only(part))
            ledger.reserve_all(analyst="ann", statement="s", requests=[one])
        ledger.spend_in_all_parts()
    with opened(path, total=total, filter_of=lambda cap: Filter.of(cap, "zcdp")) as ledger:
        (policy,) = ledger.budget().scopes
        assert policy.filter.order_way is not None
        exact = 2 * PrivacyLoss.of(Fraction(1, 2)).cost(policy.filter.order_way.order)
        assert exact <= policy.totals.cost <= exact + Fraction(2, STEP)
        assert policy.totals.epsilon == 1
        assert ledger.check() == []


@pytest.mark.parametrize(("first", "second"), [(6, 20), (20, 6)])
def test_parts_that_another_process_charged_at_its_order_cost_what_they_do_here(
    path: Path, first: int, second: int
) -> None:
    """Two processes have read policies with other budgets: total and tree have costs at other orders."""
    zcdp = {"filter_of": lambda cap: Filter.of(cap, "zcdp")}
    loss = PrivacyLoss.gaussian(Fraction(1, 1000))
    one = Request("r", "m", Charge(Fraction(1, 10), DELTA / 10**4), loss=loss, parts=only(A))
    whole = Request("r", "m", Charge(Fraction(1, 100)))
    with (
        opened(path, total=Charge(Fraction(first), DELTA), **zcdp) as ledger,
        opened(path, total=Charge(Fraction(second), DELTA), **zcdp) as other,
    ):
        other.reserve_all(analyst="ann", statement="s", requests=[one])
        ledger.reserve_all(analyst="ann", statement="s", requests=[whole])
        ledger.spend_in_all_parts()
        for each in (ledger, other):
            policy, *_ = each.budget().scopes
            assert policy.filter.order_way is not None
            order = policy.filter.order_way.order
            asked = [Asked("ann", only(A), 0, loss), Asked("ann", None, 0, whole.reserved)]
            assert policy.totals.cost == cost_of(asked, order)
            assert each.check() == []
