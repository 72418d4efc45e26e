"""Two sums in the ledger: epsilons, and costs at one order; a statement is admitted by either."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import BudgetExceeded, InternalError, OperationalError
from dpsql.kernel.loss import Accounting, Charge, Filter, PrivacyLoss, PureDP, Realised, Stream, Totals
from dpsql.kernel.loss.charge import pure_cost
from dpsql.ledger import (
    Budget,
    GroupCap,
    Ledger,
    Opening,
    RefinementStep,
    Request,
    Reservation,
    Settled,
    rows_of,
)
from dpsql.policy import BudgetPolicy
from tests.support.ledger_streams import answer_check, open_stream

TENTH = Charge(Fraction(1, 10))
MILLIONTH = Fraction(1, 10**6)
TEN = Charge(Fraction(10), MILLIONTH)


def filters(accounting: Accounting) -> Callable[[Charge], Filter]:
    return BudgetPolicy(TEN.epsilon, TEN.delta, accounting=accounting).filter_of


def open_at(path: Path, accounting: Accounting = "zcdp", **given: object) -> Ledger:
    settings = {
        "policy_id": "p",
        "total": TEN,
        "high_water": False,
        "max_failures": 1000,
        "filter_of": filters(accounting),
        **given,
    }
    return Ledger.open(path, **settings)  # type: ignore[arg-type]  # any keyword


def reserve(ledger: Ledger, loss: PrivacyLoss | None, analyst: str = "ann", n: int = 1) -> Reservation:
    """Reserve a loss, or n times epsilon .1."""
    requests = [Request("r", "m", TENTH, place=i + 1, places=n, loss=loss) for i in range(n)]
    return ledger.reserve_all(analyst=analyst, statement="s", requests=requests)


def total(path: Path, name: str = "policy") -> list[str | None]:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT epsilon, delta, cost, alpha FROM total WHERE name = ?"
        return list(connection.execute(query, (name,)).fetchone())


@pytest.mark.parametrize(("accounting", "most"), [("pure", 100), ("zcdp", 301)])
def test_the_same_promise_holds_for_more_small_statements(
    path: Path, accounting: Accounting, most: int
) -> None:
    with open_at(path, accounting) as ledger:
        assert ledger.budget().more("0.1") == most
        reserve(ledger, None, n=most - 1)
        assert ledger.budget().more("0.1") == 1
        reserve(ledger, None)
        assert ledger.budget("ann").more("0.1") == 0
        with pytest.raises(BudgetExceeded) as caught:
            reserve(ledger, None)
        assert caught.value.scope == "policy"
        assert caught.value.remaining[0] < Fraction(1, 10)
        assert ledger.check() == []


def test_a_budget_is_shown_by_both_sums(path: Path) -> None:
    with open_at(path) as ledger:
        reserve(ledger, None, n=87)
        assert rows_of(ledger.budget()) == [
            ("epsilon", "10", "6.56007", "214 more of 0.1"),
            ("delta", "1e-6", "5e-7 conversion, 0 unknown domains", "5e-7"),
            ("basic way", "10", "8.7", "13 more of 0.1"),
            ("order way", "5.89065", "1.69853", "214 more of 0.1 (alpha 3.98437)"),
        ]
        reserve(ledger, PrivacyLoss.of(Fraction(1, 10), Fraction(2, 10**9)))
        reserve(ledger, PrivacyLoss.gaussian(Fraction(1, 200)))
        assert rows_of(ledger.budget(), Fraction(1, 2)) == [
            ("epsilon", "10", "6.59952", "11 more of 0.5"),
            ("delta", "1e-6", "5e-7 conversion, 2e-9 unknown domains", "4.98e-7"),
            ("basic way", "10", "none", "0 more of 0.5"),
            ("order way", "5.89065", "1.73798", "11 more of 0.5 (alpha 3.98437)"),
        ]
        facts = json.loads(json.dumps(ledger.budget().facts))
        assert Budget.read(facts) == ledger.budget()
        assert Budget.read(facts).scopes == ledger.budget().scopes
        assert Budget.read(facts).more("0.5") == 11


def test_pure_policies_keep_no_costs(path: Path) -> None:
    with open_at(path, "pure") as ledger:
        ledger.settle(reserve(ledger, None), Charge(Fraction(1, 20)))
        assert total(path) == ["1/20", "0/1", None, None]
        budget = ledger.budget()
        assert (budget.accounting, budget.cost, budget.limit, budget.alpha) == ("pure", None, None, None)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, PrivacyLoss.gaussian(Fraction(1, 1000)))


def test_gaussian_noise_closes_the_basic_way(path: Path) -> None:
    with open_at(path) as ledger:
        (way,) = {filters("zcdp")(TEN).order_way}
        assert way is not None
        ledger.settle(reserve(ledger, None), TENTH)
        rho = Fraction(1, 200)
        held = reserve(ledger, PrivacyLoss.gaussian(rho))
        ledger.settle_all(held, [Settled(PrivacyLoss.gaussian(rho))])
        assert total(path)[0] is None
        assert ledger.budget().cost == way.order * rho + pure_cost(Fraction(1, 10), way.order)
        # 6 of epsilon 1 fit by their cost, and not 9.
        for _ in range(6):
            reserve(ledger, PrivacyLoss.of(Fraction(1)))
        with pytest.raises(BudgetExceeded):
            reserve(ledger, PrivacyLoss.of(Fraction(1)))
        assert ledger.check() == []


def test_what_has_no_epsilon_is_not_found_again_when_it_did_not_run(path: Path) -> None:
    """The noise was reserved and not drawn: the cost falls, but the sum of epsilons stays unknown."""
    with open_at(path) as ledger:
        loss = PrivacyLoss.of(Fraction(1, 10)) + PrivacyLoss.gaussian(Fraction(1, 100))
        ledger.settle_all(reserve(ledger, loss), [Settled(PrivacyLoss.of(Fraction(1, 10)))])
        assert total(path)[0] is None
        assert ledger.check() == []
    with open_at(path, total=Charge(Fraction(9), MILLIONTH)) as ledger:
        assert total(path)[0] is None
        assert ledger.check() == []


@pytest.mark.parametrize("realised", ["1/100", "9/100"])
def test_a_refund_is_the_smaller_of_what_was_realised_and_the_cost(path: Path, realised: str) -> None:
    epsilon = Fraction(realised)
    with open_at(path) as ledger:
        ledger.settle(reserve(ledger, None), Charge(epsilon))
        order = ledger.budget().alpha
        assert order is not None
        cost = pure_cost(Fraction(1, 10), order)
        assert Fraction(1, 100) < cost < Fraction(9, 100)
        assert ledger.budget().cost == min(epsilon, cost)
        (entry,) = ledger.entries()
        assert entry.charged == PrivacyLoss((Realised(epsilon, Fraction(1, 10)),))
        assert total(path)[0] == realised


def test_a_stream_is_refunded_in_the_basic_way_alone(path: Path) -> None:
    with open_at(path) as ledger:
        held = open_stream(ledger, Fraction(1, 1000), Fraction(99, 2000))
        before = ledger.budget().cost
        answer_check(ledger, held, used=0)
        ledger.streams.close(held.entry)
        assert ledger.budget().cost == before
        assert total(path)[0] == "1/1000"
        assert ledger.entries()[0].charged == PrivacyLoss((Stream(Fraction(1, 1000), Fraction(1, 10)),))


def test_nothing_is_settled_above_what_was_reserved(path: Path) -> None:
    reserved = PrivacyLoss.of(Fraction(1, 10), times=3)
    with open_at(path) as ledger:
        for wrong in (
            PrivacyLoss.of(Fraction(1, 10), times=4),
            PrivacyLoss.of(Fraction(3, 10)),  # as much epsilon, at a higher cost
            PrivacyLoss.gaussian(Fraction(1, 10**9)),
            PrivacyLoss.of(Fraction(1, 10), MILLIONTH),
            PrivacyLoss.of(Fraction(3, 20)),  # less in both sums, but no round has so much
        ):
            held = reserve(ledger, reserved)
            with pytest.raises(InternalError, match="more than what was reserved"):
                ledger.settle_all(held, [Settled(wrong)])
        ledger.settle_all(held, [Settled(PrivacyLoss.of(Fraction(1, 10)))])
        assert ledger.check() == []


def test_the_conversion_has_its_own_part_of_delta(path: Path) -> None:
    half = MILLIONTH / 2
    with open_at(path) as ledger:
        assert ledger.budget().remaining.delta == half
        assert ledger.budget().spent.delta == half
        reserve(ledger, PrivacyLoss.of(Fraction(1, 10), half))
        with pytest.raises(BudgetExceeded):
            reserve(ledger, PrivacyLoss.of(Fraction(1, 10), Fraction(1, 10**12)))
        reserve(ledger, None)


def test_a_cap_without_delta_adds_epsilons(path: Path) -> None:
    caps = {"ann": Charge(Fraction(1)), "bob": Charge(Fraction(1), MILLIONTH), "*": TEN}
    with open_at(path, analysts=caps) as ledger:
        assert [ledger.budget(name).more("0.01") for name in ("ann", "bob")] == [100, 462]
        with pytest.raises(BudgetExceeded) as caught:
            reserve(ledger, PrivacyLoss.gaussian(Fraction(1, 10**6)))
        assert caught.value.scope == "analyst ann"
        reserve(ledger, PrivacyLoss.gaussian(Fraction(1, 10**6)), "bob")
        assert ledger.check() == []


def test_a_group_adds_costs_at_its_own_order(path: Path) -> None:
    group = GroupCap(("ann", "bob"), Charge(Fraction(1), MILLIONTH))
    with open_at(path, groups={"team": group}) as ledger:
        assert ledger.budget("ann").more("0.01") == 462
        small = PrivacyLoss.of(Fraction(1, 100), times=230)
        reserve(ledger, small)
        reserve(ledger, small, "bob")
        assert ledger.budget("bob").more("0.01") == 2
        with pytest.raises(BudgetExceeded) as caught:
            reserve(ledger, PrivacyLoss.of(Fraction(1, 100), times=3))
        assert caught.value.scope == "group team"
        assert ledger.check() == []
    # Who joins brings what was spent; the totals are added up again.
    with open_at(path, groups={"team": GroupCap(("ann", "cem"), group.cap)}) as ledger:
        assert ledger.budget("cem").more("0.01") == 232
        assert ledger.check() == []


def test_a_changed_policy_adds_everything_up_again(path: Path) -> None:
    with open_at(path, "pure") as ledger:
        ledger.settle(reserve(ledger, None), Charge(Fraction(1, 100)))
        reserve(ledger, None, n=50)
    with open_at(path) as ledger:
        order = ledger.budget().alpha
        assert order is not None
        assert ledger.budget().cost == Fraction(1, 100) + 50 * pure_cost(Fraction(1, 10), order)
        assert ledger.check() == []
    with open_at(path, total=Charge(Fraction(3), MILLIONTH)) as ledger:
        assert ledger.budget().alpha != order
        assert ledger.budget().more("0.1") == 0, "it is lowered below what is spent"
        assert ledger.check() == []
        with closing(sqlite3.connect(path)) as connection:
            (record,) = connection.execute("SELECT record FROM event ORDER BY n DESC LIMIT 1").fetchone()
        assert json.loads(record)["totals"]["policy"] == total(path)
    with open_at(path, "pure") as ledger:
        assert total(path) == ["501/100", "0/1", None, None]
        assert ledger.check() == []


def test_users_with_different_policies_keep_the_totals_right(path: Path) -> None:
    caps = {"ann": Charge(Fraction(5), MILLIONTH)}
    with open_at(path) as one, open_at(path, "pure") as two, open_at(path, analysts=caps) as three:
        for ledger in (one, two, three, two, one):
            ledger.settle(reserve(ledger, None), Charge(Fraction(1, 100)))
            reserve(ledger, None)
            assert ledger.check() == []
        assert one.budget().spent.epsilon == three.budget().spent.epsilon
        assert two.budget().spent.epsilon == Fraction(55, 100)


def test_a_shared_release_has_both_losses_of_the_first(path: Path) -> None:
    caps = {"ann": TEN, "bob": Charge(Fraction(1), MILLIONTH)}
    loss = PrivacyLoss.of(Fraction(1))
    with open_at(path, analysts=caps) as ledger:
        held = ledger.reserve_all(
            analyst="ann", statement="s", requests=[Request("r", "m", loss.charge, loss=loss)]
        )
        ledger.settle(held, Charge(Fraction(1, 50)), release=b"x", reuse_key="k")
        ledger.share(["k"], "bob")
        first, second = (ledger.entries(name)[0] for name in ("ann", "bob"))
        assert (second.reserved, second.charged) == (first.reserved, first.charged)
        assert ledger.check() == []
        # What is refused tells nothing of the outcome: the reserved loss has to fit.
        ledger.settle(held := reserve(ledger, None), TENTH, release=b"y", reuse_key="l")
        assert held.loss.epsilon == Fraction(1, 10)
        reserve(ledger, PrivacyLoss.of(Fraction(9, 10)), "bob")
        with pytest.raises(BudgetExceeded):
            ledger.share(["l"], "bob")


def test_a_refinement_costs_the_difference_and_more_at_an_order(path: Path) -> None:
    """Given the first release, the loss of the second may be as much as both their epsilons."""
    with open_at(path) as ledger:
        number = ledger.settle(reserve(ledger, None), TENTH, release=b"x")
        before = ledger.budget().cost
        order = ledger.budget().alpha
        assert before is not None
        assert order is not None
        held = ledger.reserve(
            analyst="ann",
            statement="s",
            selection="r",
            mechanism="m",
            charge=TENTH,
            refines=RefinementStep(number, Fraction(2, 10)),
        )
        assert held.loss == PrivacyLoss((Stream(Fraction(1, 10), Fraction(3, 10)),))
        ledger.settle(held, TENTH, release=b"finer")
        assert total(path)[0] == "1/5"
        assert ledger.budget().cost == before + pure_cost(Fraction(3, 10), order)
        assert ledger.check() == []


def test_another_layout_that_fits_is_named(path: Path) -> None:
    """In the order way five rounds of .05 cost what one of .11 does; as epsilons they are .25."""
    with open_at(path, total=Charge(Fraction(1), MILLIONTH)) as ledger:
        reserve(ledger, PrivacyLoss.of(Fraction(85, 100)))
        rounds = PrivacyLoss((PureDP(Fraction(1, 20), 5),))
        with pytest.raises(BudgetExceeded, match="layout = BASIC"):
            reserve(ledger, rounds)
        reserve(ledger, None)


def test_restoring_loses_no_cost(path: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    rho = PrivacyLoss.gaussian(Fraction(1, 100))
    with open_at(path, high_water=mark) as ledger:
        ledger.settle(reserve(ledger, None), Charge(Fraction(1, 100)), release=b"x")
    copy = path.read_bytes()
    with open_at(path, high_water=mark) as ledger:
        ledger.settle_all(reserve(ledger, rho), [Settled(rho, b"x")])
        ledger.settle(reserve(ledger, None), TENTH, release=b"x")
        before = total(path)
    path.write_bytes(copy)
    with open_at(path, high_water=mark, opening=Opening.ACCEPT) as ledger:
        assert total(path) == before
        assert ledger.accepted is not None
        assert ledger.accepted["policy"].epsilon is None
        assert ledger.check() == []
        reserve(ledger, None)
        assert ledger.check() == []
    with pytest.raises(OperationalError, match="no cost at another order"):
        open_at(path, high_water=mark, total=Charge(Fraction(9), MILLIONTH))
    with open_at(path, high_water=mark) as ledger:
        assert ledger.check() == []


def test_what_was_restored_costs_at_most_its_epsilon_at_another_order(path: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with open_at(path, "pure", high_water=mark) as ledger:
        ledger.settle(reserve(ledger, None), TENTH, release=b"x")
    copy = path.read_bytes()
    with open_at(path, "pure", high_water=mark) as ledger:
        for _ in range(3):
            ledger.settle(reserve(ledger, None), TENTH, release=b"x")
    path.write_bytes(copy)
    with open_at(path, "pure", high_water=mark, opening=Opening.ACCEPT) as ledger:
        assert ledger.accepted == {name: Totals(Fraction(3, 10)) for name in ("policy", "analyst ann")}
    with open_at(path, high_water=mark) as ledger:
        order = ledger.budget().alpha
        assert order is not None
        assert ledger.budget().cost == pure_cost(Fraction(1, 10), order) + Fraction(4, 10)
        assert ledger.check() == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE total SET cost = '1/100' WHERE name = 'policy'",
        "UPDATE total SET cost = NULL, alpha = NULL WHERE name = 'policy'",
        "UPDATE total SET alpha = '4/1' WHERE name = 'policy'",
        "UPDATE total SET epsilon = NULL WHERE name = 'policy'",
    ],
)
def test_a_changed_cost_is_seen_when_the_file_is_opened(path: Path, change: str) -> None:
    with open_at(path) as ledger:
        ledger.settle(reserve(ledger, None), TENTH, release=b"x")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
    with pytest.raises(OperationalError, match="its totals are not those of event"):
        open_at(path)
    with open_at(path, opening=Opening.INSPECT) as ledger:
        assert any("the total of policy is not" in problem for problem in ledger.check())


def test_a_loss_that_was_exchanged_for_a_cheaper_one_is_found(path: Path) -> None:
    """As much epsilon in five rounds costs less, so that the sums of epsilons tell nothing."""
    with open_at(path) as ledger:
        loss = PrivacyLoss.of(Fraction(1, 10))
        ledger.settle_all(reserve(ledger, loss), [Settled(loss, b"x")])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER entry_ends_once")
        connection.execute("UPDATE entry SET charged_loss = 'pure 1/50 x 5'")
        connection.commit()
    with open_at(path, opening=Opening.INSPECT) as ledger:
        found = ledger.check()
    assert "the total of policy is not the sum of its entries" in found
    assert any("entry 1 or its release is not what it was" in problem for problem in found)
