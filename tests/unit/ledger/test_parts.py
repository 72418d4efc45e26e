"""Charges by parts of units: each part has the whole budget, and a unit bears what is asked of its own."""

from __future__ import annotations

import itertools
import math
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dpsql.errors import BudgetExceeded, OperationalError
from dpsql.kernel.facts import Facts, Home
from dpsql.kernel.ledger import part_totals
from dpsql.kernel.ledger.caps import PartBudgets
from dpsql.kernel.ledger.scopes import Scope, ScopeBudget
from dpsql.kernel.loss import Charge, Filter, Gaussian, PrivacyLoss, Totals
from dpsql.kernel.unit_parts import ALL_PARTS, NO_HOME, PARTS, Calendar, PartSet
from dpsql.ledger import GroupCap, Ledger, Request, Reservation, Settled, list_fullest
from dpsql.ledger.ledger import Opening

WEEKS = PartBudgets("user", Calendar("week"), "signups by week")
MONTHS = PartBudgets("user", Calendar("month"), "signups by month")
ONE, HALF, THIRD = Fraction(1), Fraction(1, 2), Fraction(1, 3)
A, B = 527_000, 527_001


def opened(path: Path, **changes: object) -> Ledger:
    options: dict[str, object] = {
        "policy_id": "p",
        "total": Charge(ONE),
        "parts": WEEKS,
        "max_failures": 100,
        "high_water": path.with_name("mark"),
    }
    return Ledger.open(path, **{**options, **changes})  # type: ignore[arg-type]


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with opened(path) as made:
        yield made
        assert made.check() == []


def ask(
    ledger: Ledger, epsilon: Fraction, parts: PartSet | None, analyst: str = "ann", facts: Facts | None = None
) -> Reservation:
    asked = [Request("r", "m", Charge(epsilon), parts=parts)]
    return ledger.reserve_all(analyst=analyst, statement="s", requests=asked, facts=facts)


def only(*parts: int) -> PartSet:
    return PartSet.of(*((part, part) for part in parts))


def spent(ledger: Ledger, part: int, analyst: str | None = None) -> Fraction:
    (found,) = [each for each in ledger.budget_by_parts(analyst) if each.low <= part <= each.high]
    return found.budget.spent.epsilon


def test_each_part_has_the_whole_budget(ledger: Ledger) -> None:
    ask(ledger, ONE, only(A))
    ask(ledger, HALF, only(B))
    ask(ledger, HALF, only(B))
    with pytest.raises(BudgetExceeded, match="only 0 of the budget is left for week"):
        ask(ledger, Fraction(1, 10), only(A))
    with pytest.raises(BudgetExceeded):
        ask(ledger, Fraction(1, 10), PartSet.of((B, B + 9)))
    with pytest.raises(BudgetExceeded):
        ask(ledger, Fraction(1, 10), None)
    ask(ledger, ONE, PartSet.of((B + 1, B + 9), (NO_HOME, NO_HOME)))
    assert [spent(ledger, part) for part in (A, B + 10, NO_HOME)] == [ONE, 0, ONE]
    assert ledger.budget().spent.epsilon == ONE, "that of the fullest part"
    assert ledger.total_in_sequence() == 3


def test_thirds_are_exact_and_other_amounts_are_rounded_up(ledger: Ledger) -> None:
    for _ in range(3):
        ask(ledger, THIRD, only(A))
    odd = Fraction(1, 10**9 + 7)
    ask(ledger, odd, only(B))
    assert odd < spent(ledger, B) < odd + Fraction(1, 10**14)
    ask(ledger, ONE - 2 * odd, only(B))
    with pytest.raises(BudgetExceeded):
        ask(ledger, odd, only(B))


def test_what_is_more_than_can_be_added_up_is_refused(path: Path) -> None:
    """Many small statements may have a large sum of epsilons where costs admit them."""
    huge = lambda cap: Filter(Fraction(10**9), cap.delta, Fraction(0), None)  # noqa: E731
    with opened(path, filter_of=huge) as ledger:
        ask(ledger, Fraction(1000), only(A))
        with pytest.raises(OperationalError, match="than the ledger adds up"):
            ask(ledger, Fraction(1000), only(A))
        assert ledger.check() == []


def test_what_reads_all_parts_counts_in_each(ledger: Ledger) -> None:
    ask(ledger, HALF, None)
    ask(ledger, HALF, only(A))
    assert (spent(ledger, A), spent(ledger, B)) == (ONE, HALF)
    with pytest.raises(BudgetExceeded):
        ask(ledger, Fraction(1, 10**6), None)
    ask(ledger, HALF, only(B))


def test_what_reads_no_part_counts_in_each(ledger: Ledger) -> None:
    held = ask(ledger, HALF, PartSet(()))
    assert held.touches == (None,)
    assert (spent(ledger, A), spent(ledger, NO_HOME)) == (HALF, HALF)


def test_it_is_settled_in_its_parts(ledger: Ledger) -> None:
    held = ask(ledger, ONE, PartSet.of((A, B)))
    ledger.settle(held, Charge(THIRD), release=b"x")
    assert spent(ledger, A) == THIRD
    ask(ledger, HALF, only(A))
    ledger.fail(ask(ledger, HALF, only(B)))
    assert spent(ledger, B) >= HALF + THIRD, "what fails stays charged in full"
    with pytest.raises(BudgetExceeded):
        ask(ledger, HALF, only(B))


def test_releases_of_a_statement_are_charged_to_their_own_parts(ledger: Ledger) -> None:
    asked = [Request("r", "m", Charge(HALF), place=1, places=2, parts=only(A))]
    asked += [Request("r", "m", Charge(HALF), place=2, places=2, parts=only(A, B))]
    held = ledger.reserve_all(analyst="ann", statement="s", requests=asked)
    assert held.touches == (only(A), only(A, B))
    assert (spent(ledger, A), spent(ledger, B)) == (ONE, HALF)
    ledger.settle_all(held, [Settled(Charge(Fraction(1, 4)), b"x"), Settled(Charge(HALF), b"y")])
    assert (spent(ledger, A), spent(ledger, B)) == (Fraction(3, 4), HALF)
    with pytest.raises(BudgetExceeded):  # each would fit alone
        ledger.reserve_all(
            analyst="ann",
            statement="s",
            requests=[
                Request("r", "m", Charge(Fraction(1, 5)), place=i, places=2, parts=only(A)) for i in (1, 2)
            ],
        )
    assert spent(ledger, A) == Fraction(3, 4), "nothing was written"


def test_caps_are_kept_by_parts(path: Path) -> None:
    caps = {"ann": Charge(HALF), "bob": Charge(HALF), "cem": Charge(HALF)}
    team = {"team": GroupCap(("ann", "bob"), Charge(Fraction(3, 4)))}
    with opened(path, total=Charge(Fraction(9)), analysts=caps, groups=team) as ledger:
        ask(ledger, HALF, only(A), "ann")
        with pytest.raises(BudgetExceeded, match="of your own budget is left for week"):
            ask(ledger, Fraction(1, 8), only(A), "ann")
        ask(ledger, HALF, only(B), "bob")
        with pytest.raises(BudgetExceeded, match="of your group team is left for week"):
            ask(ledger, HALF, only(A), "bob")
        # The largest totals of both together are 1, but in no part they are more than 1/2.
        with pytest.raises(BudgetExceeded):
            ask(ledger, HALF, PartSet.of((A, B)), "bob")
        ask(ledger, Fraction(1, 4), only(A), "bob")
        ask(ledger, HALF, PartSet.of((A, B)), "cem")
        assert ledger.check() == []


def test_what_would_be_spent_without_parts_is_of_the_scope_that_is_shown(path: Path) -> None:
    """Its statements, whoever asked them where the policy's budget is shown, and what was lost."""
    with opened(path, total=Charge(Fraction(9))) as ledger:
        ask(ledger, HALF, only(A), "ann")
        ask(ledger, ONE, only(B), "bob")
        ask(ledger, ONE, None, "bob")
        assert [ledger.total_in_sequence(each) for each in ("ann", "bob", None)] == [Fraction(5, 2)] * 3
        assert ledger.budget("ann").spent.epsilon == 2
    with opened(path, total=Charge(Fraction(9)), analysts={"*": Charge(Fraction(3))}) as ledger:
        assert [ledger.total_in_sequence(each) for each in ("ann", "bob")] == [HALF, 2]
        ledger.spend_in_all_parts()
        assert [ledger.total_in_sequence(each) for each in ("ann", "bob")] == [HALF, 2], "once"


@pytest.mark.parametrize("total", [Charge(Fraction(9)), Charge(Fraction(9), Fraction(1, 10**6))])
@pytest.mark.parametrize("analysts", [{}, {"*": Charge(Fraction(3))}])
def test_the_fullest_parts_are_those_with_least_left(
    path: Path, total: Charge, analysts: dict[str, Charge]
) -> None:
    random = Random(1)
    with opened(path, total=total, analysts=analysts) as ledger:
        for part in range(A, A + 25):
            ask(ledger, Fraction(random.randrange(1, 9), 10), only(part), "ann")
        found = ledger.budget_by_parts("ann")
        left = sorted(each.budget.remaining.epsilon for each in found)
        assert [each.budget.remaining.epsilon for each in list_fullest(found, 10)] == left[:10]


def test_a_group_is_judged_part_by_part(path: Path) -> None:
    caps = {"ann": Charge(ONE), "bob": Charge(ONE)}
    team = {"team": GroupCap(("ann", "bob"), Charge(ONE))}
    with opened(path, total=Charge(Fraction(9)), analysts=caps, groups=team) as ledger:
        ask(ledger, HALF, only(A), "ann")
        ask(ledger, HALF, only(B), "bob")
        ask(ledger, HALF, PartSet.of((A, B)), "ann")  # 1 and 1, though the largest of each add up to 3/2
        assert ledger.check() == []


def test_a_shared_release_is_charged_to_its_parts(path: Path) -> None:
    with opened(path, analysts={"ann": Charge(ONE), "bob": Charge(HALF)}) as ledger:
        ledger.settle(ask(ledger, HALF, only(A), "ann"), Charge(HALF), release=b"x", reuse_key="k")
        ledger.share(["k"], "bob")
        assert [spent(ledger, part, "bob") for part in (A, B)] == [HALF, 0]
        ledger.settle(ask(ledger, HALF, only(A), "ann"), Charge(HALF), release=b"y", reuse_key="l")
        with pytest.raises(BudgetExceeded):
            ledger.share(["l"], "bob")
        assert ledger.check() == []


# --- the two sums -----------------------------------------------------------------------------------------


def test_the_two_sums_need_not_be_largest_in_one_part(path: Path) -> None:
    """Of one part the epsilons fit, of the other the costs: the largest totals of each alone would refuse."""
    total = Charge(Fraction(2), Fraction(1, 10**5))
    with opened(path, total=total, filter_of=lambda cap: Filter.of(cap, "zcdp")) as ledger:
        way = Filter.of(total, "zcdp").order_way
        assert way is not None
        noise = PrivacyLoss.gaussian(way.limit / 2 / way.order)
        asked = [Request("r", "m", Charge(HALF, Fraction(1, 10**6)), loss=noise, parts=only(A))]
        ledger.reserve_all(analyst="ann", statement="s", requests=asked)
        ask(ledger, Fraction(3, 2), only(B))
        small = [Request("r", "m", Charge(Fraction(1, 100)), parts=only(A, B))]
        ledger.reserve_all(analyst="ann", statement="s", requests=small)
        largest = ledger.budget().scopes[0]
        assert largest.totals.epsilon is None
        assert largest.totals.cost > way.limit, "of all parts together"
        assert ledger.check() == []


def test_totals_by_parts_are_those_of_a_list(tmp_path: Path) -> None:
    """Random charges, some taken away again, over ranges of parts: nodes are those of plain addition."""
    with opened(tmp_path / "l.sqlite") as ledger, ledger._store.write() as connection:
        random, kept = Random(3), list[tuple[PartSet, part_totals.Amounts]]()
        points = sorted({0, 1, 15, 16, 255, 256, 4095, 70_000, A, B, PARTS - 1, *range(500, 530)})
        for step in range(300):
            if kept and random.random() < 0.3:
                parts, less = kept.pop(random.randrange(len(kept)))
                part_totals.add(connection, "x", parts, part_totals.Amounts().minus(less))
            else:
                ends = (sorted(random.choices(points, k=2)) for _ in range(random.randrange(1, 4)))
                parts = PartSet.of(*((low, high) for low, high in ends))
                more = part_totals.Amounts(*(random.randrange(10) for _ in range(4)))
                part_totals.add(connection, "x", parts, more)
                kept.append((parts, more))
            if step % 10:
                continue
            connection.execute("INSERT OR REPLACE INTO tree VALUES ('x', NULL)")
            asked = PartSet.of(*(tuple(sorted(random.choices(points, k=2))) for _ in range(2)))
            segments = part_totals.segments(connection, [("x", None)], asked)
            assert sum(high - low + 1 for low, high, _ in segments) == len(asked)
            most = part_totals.Amounts()
            for low, high, amounts in segments:
                for part in {low, high}:
                    expected = part_totals.Amounts()
                    for parts, more in kept:
                        expected = expected.plus(more) if part in parts else expected
                    assert amounts == expected
                most = most.largest(amounts)
            assert part_totals.largest(connection, [("x", None)], asked) == most
        part_totals.forget_tree(connection, "x")


def test_a_node_that_was_changed_is_found(path: Path) -> None:
    with opened(path) as ledger:
        ask(ledger, HALF, only(A))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE node SET epsilon = 1 WHERE level = 0")
        connection.commit()
    with opened(path) as ledger:
        assert ledger.check() == [
            f"the totals by parts of {name} are not the sums of its entries"
            for name in ("analyst ann", "policy")
        ]


def test_a_root_that_was_changed_is_noticed_when_it_is_opened(path: Path) -> None:
    with opened(path) as ledger:
        ask(ledger, HALF, only(A))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE node SET below_epsilon = 1 WHERE level = 5")
        connection.commit()
    with pytest.raises(Exception, match="its totals are not those of event"):
        opened(path)


# --- the theorem, on small cases ----------------------------------------------------------------------------


def worst_loss(depth: int, charge: object) -> Fraction:
    """Return the largest loss of one unit under an analyst who asks as the answers say.

    There are two parts. A statement is randomised response on whether the unit of its parts is there, so its
    log-ratio is its epsilon for a unit of these parts, whatever the answer, and 0 for others. Answers of
    other parts decide what is asked next, so the analyst is a tree; its worst path is the worst sequence.
    """
    worst = Fraction(0)
    choices = [(parts, eps) for parts in ((A,), (B,), (A, B)) for eps in (THIRD, HALF, ONE)]
    for asked in itertools.product(choices, repeat=depth):
        totals = {A: Fraction(0), B: Fraction(0)}
        loss = {A: Fraction(0), B: Fraction(0)}
        for parts, eps in asked:
            charged = charge(totals, parts, eps)  # type: ignore[operator]
            if charged is None:
                continue
            totals = charged
            for part in parts:
                loss[part] += eps
        worst = max(worst, *loss.values())
    return worst


def every_part(
    totals: dict[int, Fraction], parts: tuple[int, ...], eps: Fraction
) -> dict[int, Fraction] | None:
    after = {part: totals[part] + eps * (part in parts) for part in totals}
    return after if all(after[part] <= ONE for part in parts) else None


def first_part(
    totals: dict[int, Fraction], parts: tuple[int, ...], eps: Fraction
) -> dict[int, Fraction] | None:
    return every_part(totals, parts[:1], eps)


def divided(totals: dict[int, Fraction], parts: tuple[int, ...], eps: Fraction) -> dict[int, Fraction] | None:
    return every_part(totals, parts, eps / len(parts))


def largest_only(
    totals: dict[int, Fraction], parts: tuple[int, ...], eps: Fraction
) -> dict[int, Fraction] | None:
    after = {part: max(totals[part], eps * (part in parts)) for part in totals}
    return after if all(after[part] <= ONE for part in parts) else None


@pytest.mark.parametrize("depth", [4, pytest.param(5, marks=pytest.mark.longer)])
def test_no_unit_bears_more_than_the_budget(depth: int) -> None:
    assert worst_loss(depth, every_part) == ONE


@pytest.mark.parametrize(("wrong", "found"), [(first_part, 2), (divided, 2), (largest_only, 4)])
def test_wrong_ledgers_are_found(wrong: object, found: int) -> None:
    assert worst_loss(4, wrong) == found


def test_the_ledger_charges_as_the_theorem_says(tmp_path: Path) -> None:
    """Random sequences of statements: the ledger admits and adds up what `every_part` does."""
    random = Random(5)
    for trial in range(6):
        with opened(tmp_path / f"{trial}.sqlite", high_water=False) as ledger:
            totals: dict[int, Fraction] = {A: Fraction(0), B: Fraction(0)}
            for _ in range(12):
                parts = random.choice([(A,), (B,), (A, B)])
                eps = random.choice([Fraction(1, 4), HALF, Fraction(1, 8)])
                after = every_part(totals, parts, eps)
                if after is None:
                    with pytest.raises(BudgetExceeded):
                        ask(ledger, eps, only(*parts))
                else:
                    ask(ledger, eps, only(*parts))
                    totals = after
                assert {part: spent(ledger, part) for part in totals} == totals
            assert ledger.check() == []


def bears_too_much(path: Path, seed: int, filter_of: Callable[[Charge], Filter]) -> bool:
    """Return whether a part admits what its own statements do not, by a model that adds up each part."""
    budget = Charge(Fraction(10), DELTA)
    random, admits = Random(seed), filter_of(budget)
    known = [A, A + 1, A + 15, A + 16, A + 300]
    node, above = A - A % 16, A - A % 256
    ranges = [(A, A), (A, A + 1), (node, node + 15), (above, above + 511), (0, A + 20)]
    totals = dict.fromkeys(known, Totals())
    with opened(path, total=budget, filter_of=filter_of, high_water=False) as ledger:
        for _ in range(25):
            low, high = random.choice(ranges)
            delta, size = random.choice([*[Fraction(0)] * 11, DELTA / 8]), random.randrange(1, 5)
            loss = PrivacyLoss.of(Fraction(size, 2), delta)
            if admits.order_way is not None:
                loss = PrivacyLoss((Gaussian(Fraction(size, 16)),), delta)
            expected = all(admits.admits(totals[part], loss) for part in known if low <= part <= high)
            asked = [Request("r", "m", Charge(ONE, delta), loss=loss, parts=PartSet(((low, high),)))]
            try:
                ledger.reserve_all(analyst="ann", statement="s", requests=asked)
            except BudgetExceeded:
                continue
            if not expected:
                return True
            for part in known:
                if low <= part <= high:
                    totals[part] += admits.amounts(loss)
    return False


DELTA = Fraction(1, 10**6)
WAYS: list[Callable[[Charge], Filter]] = [Filter.of, lambda cap: Filter.of(cap, "zcdp")]


@pytest.mark.parametrize("way", [0, 1])
def test_no_part_admits_what_its_own_statements_do_not(tmp_path: Path, way: int) -> None:
    for seed in range(12):
        assert not bears_too_much(tmp_path / f"{seed}.sqlite", seed, WAYS[way])


def without_ancestors(*of: Any, whole: bool) -> Iterator[Any]:
    """What was charged to whole nodes above a part is forgotten."""
    walk_node: Any = _WALK_NODE
    yield from walk_node(*of[:-1], part_totals.Amounts(), whole=whole)


def with_what_is_left_of_delta(scope: Scope, amounts: part_totals.Amounts) -> ScopeBudget:
    """What mechanisms left of a part's delta serves the conversion of its costs."""
    found = _BUDGET_WITH(scope, amounts)
    own, way = found.filter, found.filter.order_way
    assert way is not None
    gain = math.log((own.delta - found.totals.delta) / own.conversion_delta) / float(way.order - 1)
    return replace(found, filter=replace(own, order_way=replace(way, limit=way.limit + Fraction(gain))))


_WALK_NODE, _BUDGET_WITH = part_totals._walk_node, Scope.budget_with


@pytest.mark.parametrize(
    ("where", "what", "wrong", "way"),
    [
        (part_totals, "_walk_node", without_ancestors, 0),
        (Scope, "budget_with", with_what_is_left_of_delta, 1),
    ],
)
def test_constants_by_history_and_sums_without_ancestors_are_found(
    tmp_path: Path, where: object, what: str, wrong: object, way: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, what, wrong)
    assert any(bears_too_much(tmp_path / f"{seed}.sqlite", seed, WAYS[way]) for seed in range(40))


# --- parts that become other ones ---------------------------------------------------------------------------


def test_where_the_declaration_changes_the_largest_total_counts_everywhere(path: Path) -> None:
    with opened(path) as ledger:
        ask(ledger, HALF, only(A))
        ask(ledger, Fraction(1, 4), only(B))
        running = ask(ledger, Fraction(1, 8), only(B))
        with opened(path, parts=MONTHS) as other:
            assert {each.budget.spent.epsilon for each in other.budget_by_parts()} == {HALF}
            assert other.check() == []
            ask(other, Fraction(1, 4), only(A))
            # The first process still has the old parts: what it asks counts in all.
            ask(ledger, Fraction(1, 4), only(7))
            assert (spent(other, 8), spent(other, A)) == (Fraction(3, 4), ONE)
            with pytest.raises(BudgetExceeded):
                ask(other, Fraction(1, 10), only(A))
            ledger.settle(running, Charge(Fraction(1, 16)), release=b"x")
            assert spent(other, 8) == Fraction(3, 4), "of old parts nothing is given back"
            assert other.check() == []
    with opened(path, parts=None, total=Charge(Fraction(5, 4))) as whole:
        assert whole.budget().spent.epsilon == ONE
        assert whole.check() == []
        ask(whole, Fraction(1, 4), only(A))
        with pytest.raises(BudgetExceeded):
            ask(whole, Fraction(1, 10), only(A))


def test_where_the_column_has_another_type_the_largest_total_counts_everywhere(ledger: Ledger) -> None:
    def facts(sql_type: str) -> Facts:
        return Facts((), home=Home("user", "signups", "signed_up", "week", sql_type))

    ask(ledger, HALF, only(A), facts=facts("DATE"))
    ask(ledger, Fraction(1, 4), only(B), facts=facts("DATE"))
    assert spent(ledger, 5) == 0
    ask(ledger, Fraction(1, 4), only(B), facts=facts("TIMESTAMPTZ"))
    assert (spent(ledger, 5), spent(ledger, B)) == (HALF, Fraction(3, 4))


def test_where_units_moved_the_largest_total_counts_everywhere(ledger: Ledger) -> None:
    ask(ledger, HALF, only(A))
    assert ledger.spend_in_all_parts()["policy"].epsilon == HALF
    assert (spent(ledger, A), spent(ledger, B)) == (HALF, HALF)
    assert ledger.spend_in_all_parts() == {}, "nothing is added twice"


@pytest.mark.parametrize("changed", ["declaration", "units"])
def test_what_an_analyst_without_a_cap_asked_of_old_parts_counts_in_a_later_cap(
    path: Path, changed: str
) -> None:
    with opened(path) as ledger:
        ask(ledger, ONE, only(A), "ann")
        if changed == "units":
            ledger.spend_in_all_parts()
    parts = WEEKS if changed == "units" else MONTHS
    with opened(path, parts=parts):
        pass
    with opened(path, parts=parts, total=Charge(Fraction(9)), analysts={"ann": Charge(ONE)}) as ledger:
        with pytest.raises(BudgetExceeded):
            ask(ledger, Fraction(1, 10), only(B), "ann")
        assert ledger.check() == []


def test_a_policy_without_parts_is_charged_whole(path: Path) -> None:
    with opened(path, parts=None) as ledger:
        ask(ledger, HALF, only(A))
        assert ledger.budget().spent.epsilon == HALF
        with pytest.raises(BudgetExceeded):
            ask(ledger, ONE, only(B))
        assert not ledger.budget().by_parts
    with closing(sqlite3.connect(path)) as connection:
        for table in ("touch", "tree", "node"):
            assert connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)


# --- the mark ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone_on", [False, True])
def test_the_mark_of_a_lost_copy_loses_no_charge_of_a_part(path: Path, *, gone_on: bool) -> None:
    def settled(ledger: Ledger, epsilon: Fraction, part: int) -> None:
        ledger.settle(ask(ledger, epsilon, only(part)), Charge(epsilon), release=b"x")

    with opened(path, total=Charge(Fraction(9))) as ledger:
        settled(ledger, HALF, A)
    copy = path.read_bytes()
    with opened(path, total=Charge(Fraction(9))) as ledger:
        settled(ledger, Fraction(1, 4), B)
        before = {part: spent(ledger, part) for part in (A, B, 9)}
    for left in path.parent.glob("ledger.sqlite-*"):
        left.unlink()
    path.write_bytes(copy)
    with pytest.raises(Exception, match="older than the mark"):
        opened(path, total=Charge(Fraction(9)))
    if gone_on:
        with opened(path, total=Charge(Fraction(9)), high_water=False) as ledger:
            settled(ledger, Fraction(1, 8), B)
            before[B] += Fraction(1, 8)
    with opened(path, total=Charge(Fraction(9)), opening=Opening.ACCEPT) as ledger:
        assert all(spent(ledger, part) >= least for part, least in before.items())
        assert ledger.check() == []
    with opened(path, total=Charge(Fraction(9))) as ledger:
        assert ledger.check() == []


def test_the_mark_tells_of_the_parts_of_an_analyst_without_a_cap(path: Path) -> None:
    def settled(epsilon: Fraction) -> None:
        with opened(path, total=Charge(Fraction(9))) as ledger:
            ledger.settle(ask(ledger, epsilon, only(A), "ann"), Charge(epsilon), release=b"x")

    settled(Fraction(1, 8))
    copy = path.read_bytes()
    settled(ONE)
    for left in path.parent.glob("ledger.sqlite-*"):
        left.unlink()
    path.write_bytes(copy)
    opened(path, total=Charge(Fraction(9)), opening=Opening.ACCEPT).close()
    with opened(path, total=Charge(Fraction(9)), analysts={"ann": Charge(Fraction(5, 4))}) as ledger:
        with pytest.raises(BudgetExceeded):
            ask(ledger, HALF, only(A), "ann")
        assert ledger.check() == []


def test_every_part_is_read_where_nothing_is_said() -> None:
    assert Request("r", "m", Charge(ONE)).parts is None
    assert len(ALL_PARTS) == PARTS


# --- processes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sets", [[only(A)] * 8, [PartSet.of((A - n, A + 7 - n)) for n in range(8)]])
def test_of_many_processes_one_has_the_last_statement_of_a_part(path: Path, sets: list[PartSet]) -> None:
    with opened(path) as ledger:
        ask(ledger, HALF, only(A))
        children = []
        for parts in sets:
            child = os.fork()
            if child == 0:
                code = 2
                try:
                    ask(ledger, HALF, parts)
                    code = 0
                except BudgetExceeded:
                    code = 1
                finally:
                    os._exit(code)
            children.append(child)
        codes = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
        assert codes == [0] + [1] * 7
        assert spent(ledger, A) == ONE
        assert ledger.check() == []


def die_at(point: int, *, every: bool) -> None:
    """Kill this process at one of its next calls of the ledger's file, or of any function in C."""
    left = [point]

    def die(frame: object, event: str, argument: object) -> None:
        if event == "c_call" and (every or getattr(argument, "__name__", "") in ("execute", "executemany")):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(die)


SETS = [PartSet.of((A, B + 20)), only(A, B), PartSet.of((0, B), (NO_HOME - 1, NO_HOME)), ALL_PARTS]


@pytest.mark.parametrize(
    ("sets", "stride", "every"),
    [
        (SETS[:1], 7, False),
        pytest.param(SETS, 1, False, marks=pytest.mark.slow),
        pytest.param(SETS, 13, True, marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_step_a_charge_is_there_whole_or_not_at_all(
    path: Path, sets: list[PartSet], stride: int, *, every: bool
) -> None:
    """What the mark tells is in the ledger, whoever was killed when."""
    with opened(path):
        pass
    wide: dict[str, Any] = {"total": Charge(Fraction(900)), "max_failures": 10**6}
    before = kills = 0
    for parts in sets:
        for point in itertools.count(1, stride):
            child = os.fork()
            if child == 0:
                try:
                    with opened(path, **wide) as ledger:
                        die_at(point, every=every)
                        ledger.settle(ask(ledger, Fraction(1, 100), parts), Charge(Fraction(1, 200)))
                        sys.setprofile(None)
                    os._exit(0)
                finally:
                    os._exit(2)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with opened(path, **wide) as ledger:
                assert ledger.check() == [], point
                entries = ledger.entries()
                assert len(entries) in (before, before + 1), point
                assert spent(ledger, B) == sum(entry.charged.charge.epsilon for entry in entries)
            before = len(entries)
            if code == 0:
                break
            assert code == -signal.SIGKILL, point
            kills += 1
    assert kills * stride > 100 * len(sets)
    print(f"{kills} processes were killed")
