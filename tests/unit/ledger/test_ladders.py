"""Kept ladders: charged to the policy, to each analyst and to each group, of now and of later."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import BudgetExceeded, InterfaceError, InternalError, PolicyError
from dpsql.kernel.ledger import limits
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss
from dpsql.ledger import GroupCap, LadderRequest
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

MILLIONTH = Fraction(1, 10**6)


# --- what is charged, and what is kept -------------------------------------------------------------------


def test_a_ladder_is_charged_before_it_is_measured_and_kept_after(open_ledger: Open) -> None:
    ledger = open_ledger()
    held = reserve_one(ledger, asked("1/4"))
    assert [spent(ledger, who) for who in (None, "ann", "bob")] == [Fraction(1, 4)] * 3
    assert (ledger.ladders(), newest_of(ledger, "visits", "rows")) == ([], None), "nothing was measured yet"
    found = ledger.settle_ladder(held, b"bins")
    assert (found.number, found.payload, found.event) == (1, b"bins", ledger.head())
    assert (found.source, found.measure, found.version) == ("visits", "rows", "v1")
    assert found.loss == PrivacyLoss.of(Fraction(1, 8), times=2)
    assert [spent(ledger, who) for who in (None, "ann", "bob")] == [Fraction(1, 4)] * 3
    assert [ledger.ladders(), newest_of(ledger, "visits", "rows"), numbered(ledger, 1)] == [
        [found],
        found,
        found,
    ]
    assert (
        newest_of(ledger, "visits", "total cost")
        is newest_of(ledger, "bills", "rows")
        is numbered(ledger, 2)
        is None
    )
    assert (ledger.entries(), ledger.releases("ann")) == ([], []), "no analyst's"
    assert ledger.check() == []


def test_a_newer_ladder_leaves_the_older_one_as_it_was(open_ledger: Open) -> None:
    """A stored answer keeps the ladder it was made with: its key has that ladder's number."""
    ledger = open_ledger()
    first, other, second = (
        keep(ledger, "1/4"),
        keep(ledger, "1/4", "total cost"),
        keep(ledger, "1/8", payload=b"2"),
    )
    unfinished = reserve_one(ledger, asked("1/8"))
    newest = newest_of(ledger, "visits", "rows")
    assert newest is not None
    assert (newest.number, newest.payload) == (second, b"2")
    older = numbered(ledger, first)
    assert older is not None
    assert (older.payload, older.measure) == (b"bins", "rows")
    assert [each.number for each in ledger.ladders()] == [first, other, second]
    ledger.fail_ladder(unfinished)
    states = [(each.number, each.state) for each in ledger.ladder_charges()]
    assert states == [(1, "settled"), (2, "settled"), (3, "settled"), (4, "failed")]
    assert spent(ledger) == Fraction(3, 4), "what failed stays charged"
    assert ledger.count_failures("ann") == 0, "it is no analyst's failure"
    assert ledger.check() == []


def test_several_ladders_are_charged_together_or_not_at_all(open_ledger: Open) -> None:
    ledger = open_ledger(analysts={"ann": cost("1"), "*": cost("10")})
    requests = [asked("2/5"), asked("2/5", "total cost")]
    held = ledger.reserve_ladders(requests)
    assert [each.request for each in held] == requests
    before = ledger.head()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve_ladders([asked("1/10"), asked("1/5", "highest cost")])
    assert caught.value.scope == "analyst ann"
    assert (ledger.head(), spent(ledger)) == (before, Fraction(4, 5))
    ledger.settle_ladder(held[1], b"c")
    assert [each.measure for each in ledger.ladders()] == ["total cost"]
    assert ledger.check() == []


def test_a_reservation_ends_once_and_by_its_own_process(
    open_ledger: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger()
    held = reserve_one(ledger, asked("1/4"))
    with monkeypatch.context() as other:
        other.setattr(limits, "current", lambda: "elsewhere|1|1")
        with pytest.raises(InterfaceError, match="process that made it"):
            ledger.settle_ladder(held, b"bins")
    with pytest.raises(InternalError, match="not empty"):
        ledger.settle_ladder(held, b"")
    with pytest.raises(InternalError, match="no such ladder"):
        ledger.settle_ladder(type(held)(held.number, asked("1/5")), b"bins")
    ledger.settle_ladder(held, b"bins")
    for end in (lambda: ledger.settle_ladder(held, b"other"), lambda: ledger.fail_ladder(held)):
        with pytest.raises(InternalError, match="twice"):
            end()
    assert [each.payload for each in ledger.ladders()] == [b"bins"]
    assert ledger.check() == []


@pytest.mark.parametrize(
    "loss",
    [
        PrivacyLoss(),
        PrivacyLoss.of(Fraction(0)),
        PrivacyLoss.gaussian(Fraction(1, 100)),
        PrivacyLoss.of(Fraction(1), MILLIONTH),
    ],
)
def test_only_a_pure_loss_is_one_of_a_ladder(open_ledger: Open, loss: PrivacyLoss) -> None:
    ledger = open_ledger()
    with pytest.raises(InternalError, match="pure"):
        reserve_one(ledger, LadderRequest("visits", "rows", "v1", "s", loss))
    with pytest.raises(InternalError, match="no ladder"):
        ledger.reserve_ladders([])
    assert ledger.ladder_charges() == []


def test_any_text_can_be_written_down(open_ledger: Open) -> None:
    ledger = open_ledger()
    odd = LadderRequest(
        "v\ud800", "rows'; --\0", "v", "dpsql bounds \N{SNOWMAN}\udcff", PrivacyLoss.of(Fraction(1, 4))
    )
    found = ledger.settle_ladder(reserve_one(ledger, odd), b"bins")
    assert (found.source, found.measure) == ("v\\ud800", odd.measure)
    assert newest_of(ledger, found.source, odd.measure) == found
    assert ledger.check() == []


# --- every scope has to admit it -------------------------------------------------------------------------


def test_every_cap_has_to_admit_it_and_those_that_do_not_are_named(open_ledger: Open) -> None:
    caps = {"ann": cost("1"), "bob": cost("3"), "*": cost("2")}
    groups = {"team": GroupCap(("bob", "cem"), cost("3/2")), "all": GroupCap(("ann", "bob"), cost("9"))}
    ledger = open_ledger(analysts=caps, groups=groups)
    reserve(ledger, "1/2", "ann")
    reserve(ledger, "9/10", "cem")
    reserve(ledger, "3/2", "dan")
    with pytest.raises(BudgetExceeded) as caught:
        reserve_one(ledger, asked("7/10"))
    error = caught.value
    assert "analyst ann (0.5 left), analyst dan (0.5 left), group team (0.6 left)\nHint: raise" in str(error)
    assert error.scope == "analyst ann"
    assert (error.requested[0], error.remaining[0]) == (Fraction(7, 10), Fraction(1, 2))
    with pytest.raises(BudgetExceeded, match=r"each new analyst \(\*\) \(2 left\)"):
        reserve_one(ledger, asked("11/5"))
    assert (ledger.ladder_charges(), spent(ledger)) == ([], Fraction(29, 10)), "nothing was charged"
    with pytest.raises(BudgetExceeded, match="the policy's budget"):
        reserve_one(ledger, asked("8"))
    keep(ledger, "1/2")
    assert ledger.budget("ann").remaining == ledger.budget("dan").remaining == cost("0")
    assert ledger.budget("cem").remaining == cost("1/10"), "what is left of the group"
    assert ledger.check() == []


def test_the_cap_on_one_statement_does_not_bind_the_owner(open_ledger: Open) -> None:
    ledger = open_ledger(per_query=Fraction(1, 10))
    assert keep(ledger, "1/2") == 1


def test_a_policy_without_analysts_has_its_budget_alone(open_ledger: Open) -> None:
    ledger = open_ledger(analysts={})
    keep(ledger, "9")
    with pytest.raises(BudgetExceeded) as caught:
        reserve_one(ledger, asked("2"))
    assert caught.value.scope == "policy"
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "2")
    reserve(ledger, "1")
    assert ledger.check() == []


def test_a_group_has_each_ladder_once(open_ledger: Open) -> None:
    """What its members know together has the one release once; what they ask counts for each."""
    ledger = open_ledger(groups={"team": GroupCap(("ann", "bob", "cem"), cost("1"))})
    keep(ledger, "3/5")
    for left, who in (("2/5", "ann"), ("3/10", "bob"), ("1/5", "cem")):
        assert ledger.budget(who).remaining == cost(left)
        assert spent(ledger, who) == Fraction(3, 5)
        reserve(ledger, "1/10", who)
    assert ledger.budget("cem").remaining == cost("1/10")
    with pytest.raises(BudgetExceeded) as caught:
        reserve(ledger, "1/5", "bob")
    assert caught.value.scope == "group team"
    assert ledger.check() == []


# --- enumeration: no new name, account or group is without the ladders -----------------------------------


def test_no_account_is_without_the_ladders(open_ledger: Open) -> None:
    ledger = open_ledger(analysts={"ann": cost("1"), "bob": cost("1"), "*": cost("1")})
    reserve(ledger, "1/5")
    keep(ledger, "1/2")
    for name in ("new", "Ann", "ann ", "*x", "bounds", "analyst ann", "policy", 'group ["team", "ann"]'):
        assert spent(ledger, name) == Fraction(1, 2), name
        with pytest.raises(BudgetExceeded) as caught:
            reserve(ledger, "51/100", name)
        assert caught.value.scope == f"analyst {name}"
        reserve(ledger, "1/4", name)
        assert spent(ledger, name) == Fraction(3, 4), name
    assert spent(ledger, "bob") == Fraction(1, 2)
    assert ledger.check() == []
    # Deleted, while more is charged, and made again; renamed; listed alone; under another cap.
    ledger = open_ledger(analysts={"bob": cost("1"), "ann2": cost("1")})
    keep(ledger, "1/4")
    assert spent(ledger, "ann2") == spent(ledger, "bob") == Fraction(3, 4)
    ledger = open_ledger(analysts={"ann": cost("1"), "*": cost("4/5")})
    assert (spent(ledger), spent(ledger, "ann")) == (Fraction(59, 20), Fraction(19, 20)), (
        "1/5 and the ladders"
    )
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "1/10")
    assert ledger.check() == []


def test_no_group_is_without_the_ladders(open_ledger: Open) -> None:
    ledger = open_ledger()
    keep(ledger, "1/2")
    reserve(ledger, "1/4", "ann")
    teams = {
        "team": GroupCap(("ann", "bob"), cost("1")),
        "second": GroupCap(("ann", "bob"), cost("4/5")),
        "new": GroupCap(("xan", "yve"), cost("3/5")),
    }
    ledger = open_ledger(groups=teams)
    assert ledger.budget("bob").remaining == cost("1/20")
    assert ledger.budget("xan").remaining == cost("1/10")
    with pytest.raises(BudgetExceeded) as caught:
        reserve(ledger, "1/8", "xan")
    assert caught.value.scope == "group new"
    ledger = open_ledger(groups={"renamed": GroupCap(("ann",), cost("1"))})
    assert ledger.budget("ann").remaining == cost("1/4")
    assert ledger.check() == []


@pytest.mark.parametrize(
    ("given", "key", "least"),
    [
        ({"analysts": {"ann": cost("3/10"), "*": cost("1")}}, "analysts.ann", "0.3"),
        ({"analysts": {"*": cost("2/5")}}, 'analysts."*"', "0.4"),
        ({"groups": {"team": GroupCap(("ann",), cost("1/3"))}}, "groups.team", "0.333333"),
        ({"total": cost("1/10")}, "budget", "0.1"),
    ],
)
def test_a_cap_below_the_ladders_is_an_error_of_the_policy(
    open_ledger: Open, tmp_path: Path, given: dict[str, object], key: str, least: str
) -> None:
    keep(open_ledger(), "1/2")
    with pytest.raises(PolicyError, match=r"kept ladders of this ledger cost epsilon 0\.5") as caught:
        open_ledger(**given)
    assert str(caught.value).startswith(f"{key}: ")
    assert f"this one is epsilon {least}" in str(caught.value)
    assert open_ledger(opening=Opening.INSPECT, **given).check() == [], "the owner may look"
    at_the_sum = {**given, "analysts": {"*": cost("1/2")}, "total": cost("1/2"), "groups": {}}
    assert open_ledger(**at_the_sum).budget("ann").remaining == cost("0")


# --- costs at an order -----------------------------------------------------------------------------------


def test_costs_at_an_order_have_the_ladders(open_ledger: Open) -> None:
    whole, own = Charge(Fraction(4), MILLIONTH), Charge(Fraction(1), MILLIONTH)
    given: dict[str, object] = {
        "total": whole,
        "analysts": {"ann": own, "*": whole},
        "groups": {"team": GroupCap(("ann", "bob"), own)},
        "filter_of": lambda budget: Filter.of(budget, "zcdp"),
    }
    ledger = open_ledger(**given)
    loss = PrivacyLoss.of(Fraction(1, 40), times=2)
    reserve(ledger, "1/20", "ann")
    keep(ledger, "1/20")
    keep(ledger, "1/20", "total cost")

    def costs(*names: str) -> list[Fraction]:
        found = [ledger.budget(name) for name in names]
        assert all(each.alpha is not None and each.cost is not None for each in found)
        return [each.cost / loss.cost(each.alpha) for each in found if each.cost and each.alpha]

    one = PrivacyLoss.of(Fraction(1, 20))
    (order,) = {ledger.budget("ann").alpha, ledger.budget("ann").scopes[1].filter.order_way.order}  # type: ignore[union-attr]
    assert order is not None
    extra = one.cost(order) / loss.cost(order)
    assert costs("bob", "new") == [2, 2]
    assert costs("ann") == [2 + extra]
    team = ledger.budget("bob").scopes[1]
    assert (team.name, team.totals.cost) == ("group team", (2 + extra) * loss.cost(order))
    assert ledger.check() == []
    ledger = open_ledger(total=cost("10"))  # and at no order
    assert ledger.budget("bob").spent == cost("1/10")
    ledger = open_ledger(**given)
    assert costs("ann", "bob") == [2 + extra, 2]
    assert ledger.check() == []


def test_many_small_ladders_fit_as_many_small_statements_do(open_ledger: Open) -> None:
    """Their losses are pure: an analyst's cap of epsilon 1 pays for more than 100 of 1/100 each."""
    own = Charge(Fraction(1), MILLIONTH)
    given: dict[str, object] = {
        "total": Charge(Fraction(10), MILLIONTH),
        "analysts": {"ann": own},
        "filter_of": lambda budget: Filter.of(budget, "zcdp"),
    }
    ledger = open_ledger(**given)
    small = LadderRequest("visits", "rows", "v1", "s", PrivacyLoss.of(Fraction(1, 100)))
    ledger.reserve_ladders([small] * 462)
    with pytest.raises(BudgetExceeded):
        reserve_one(ledger, small)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "1/100")
    open_ledger(**given)
    with pytest.raises(
        PolicyError, match=r"analysts\.ann: the kept ladders of this ledger cost epsilon 4\.62"
    ):
        open_ledger(**{**given, "analysts": {"ann": Charge(Fraction(9, 10), MILLIONTH)}})
