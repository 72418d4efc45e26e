"""The life of a charge: what may be spent, by whom, what is kept, what is given again."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import (
    BudgetExceeded,
    InterfaceError,
    InternalError,
    OperationalError,
    PolicyError,
    ProgrammingError,
)
from dpsql.kernel.ledger.totals import DamagedError, read, round_up_loss, shown, too_wide, write
from dpsql.kernel.loss import Charge, PrivacyLoss, PureDP, Realised, Stream, Totals
from dpsql.ledger import GroupCap, Ledger, Request, Reservation, Settled, StoredRelease
from tests.support.ledger_streams import ASKED, answer_check, open_stream

Open = Callable[..., Ledger]


def cost(epsilon: str, delta: str = "0") -> Charge:
    return Charge(Fraction(epsilon), Fraction(delta))


TOTAL = cost("1", "1/1000")


@pytest.fixture
def open_ledger(tmp_path: Path) -> Iterator[Open]:
    opened = []

    def make(**changes: object) -> Ledger:
        given = {"policy_id": "p", "total": TOTAL, **changes}
        ledger = Ledger.open(tmp_path / "ledger.sqlite", **given)  # type: ignore[arg-type]  # any keyword
        opened.append(ledger)
        return ledger

    yield make
    for ledger in opened:
        ledger.close()


def reserve(ledger: Ledger, epsilon: str, delta: str = "0", analyst: str = "ann") -> Reservation:
    return ledger.reserve(
        analyst=analyst,
        statement="SELECT 1",
        selection="top-k",
        mechanism="noisy top-k",
        charge=cost(epsilon, delta),
    )


def shared_release(ledger: Ledger, key: str, analyst: str) -> StoredRelease | None:
    ledger.share([key], analyst)
    return ledger.find(key, analyst)


def test_a_charge_from_reservation_to_release(open_ledger: Open) -> None:
    ledger = open_ledger()
    before = datetime.now(UTC) - timedelta(seconds=1)
    reservation = reserve(ledger, "1/3", "1/2000")
    assert reservation.loss.charge == cost("1/3", "1/2000")
    assert ledger.budget().spent == cost("1/3", "1/2000")
    number = ledger.settle(reservation, cost("1/7", "1/3000"), release=b"rows", reuse_key="k")
    budget = ledger.budget()
    assert (budget.total, budget.spent) == (TOTAL, cost("1/7", "1/3000"))
    assert budget.remaining == cost("6/7", "1/1500")
    stored = ledger.find("k", "ann")
    assert stored is not None
    assert (stored.number, stored.analyst, stored.payload) == (number, "ann", b"rows")
    assert before <= stored.when <= datetime.now(UTC)
    assert ledger.release(number, "ann").payload == b"rows"
    (info,) = ledger.releases("ann")
    assert (info.number, info.statement, info.selection, info.mechanism) == (
        number,
        "SELECT 1",
        "top-k",
        "noisy top-k",
    )
    assert info.charge.charge == cost("1/7", "1/3000")
    (entry,) = ledger.entries()
    assert (entry.reserved.charge, entry.charged.charge) == (cost("1/3", "1/2000"), cost("1/7", "1/3000"))
    assert (entry.state, entry.release, entry.shared) == ("settled", number, False)
    assert ledger.check() == []


def test_what_is_written_is_there_when_opened_again(open_ledger: Open) -> None:
    first = open_ledger()
    first.settle(reserve(first, "1/4"), cost("1/5"), release=b"a", reuse_key="k")
    kept = reserve(first, "1/4")
    first.close()
    second = open_ledger()
    assert second.budget().spent == cost("9/20")
    assert second.settle(kept, cost("1/4")) == 2
    assert second.find("k", "ann") is not None
    assert second.check() == []


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1000001/1000000", "0"), ("1/2", "1001/1000000"), ("2", "1/2")]
)
def test_the_policys_budget_binds(open_ledger: Open, epsilon: str, delta: str) -> None:
    ledger = open_ledger()
    with pytest.raises(BudgetExceeded) as caught:
        reserve(ledger, epsilon, delta)
    error = caught.value
    assert error.scope == "policy"
    assert error.requested == (Fraction(epsilon), Fraction(delta))
    assert error.remaining == (TOTAL.epsilon, TOTAL.delta)
    assert ledger.entries() == []
    assert ledger.budget().spent == Charge()


def test_the_budget_can_be_spent_to_the_last_bit_and_no_further(open_ledger: Open) -> None:
    ledger = open_ledger(max_failures=10)
    for _ in range(3):
        reserve(ledger, "1/3", "1/3000")
    assert ledger.budget().remaining == Charge()
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "1/1000000000000000000000000")
    assert ledger.budget().spent == TOTAL


def test_what_was_refunded_can_be_spent_again(open_ledger: Open) -> None:
    ledger = open_ledger()
    reservation = reserve(ledger, "1")
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "1/2")
    ledger.settle(reservation, cost("1/2"))
    reserve(ledger, "1/2")


def test_one_statements_cap_binds(open_ledger: Open) -> None:
    ledger = open_ledger(per_query=Fraction(1, 2))
    reserve(ledger, "1/4")
    with pytest.raises(BudgetExceeded, match=r"0\.6, but one statement may cost at most 0\.5") as caught:
        reserve(ledger, "3/5")
    assert caught.value.scope == "query"
    assert caught.value.remaining == (Fraction(1, 2), TOTAL.delta)
    reserve(ledger, "1/2")


def test_an_analysts_cap_binds_and_so_does_the_total(open_ledger: Open) -> None:
    # The analysts' caps add up to more than the total.
    caps = {"ann": cost("3/4", "1/4000"), "bob": cost("3/4")}
    ledger = open_ledger(analysts=caps)
    reserve(ledger, "1/2", "1/4000")
    assert ledger.budget("ann").remaining == cost("1/4", "0")
    with pytest.raises(BudgetExceeded) as caught:
        reserve(ledger, "1/2")
    assert caught.value.scope == "analyst ann"
    assert caught.value.remaining == (Fraction(1, 4), Fraction(0))
    # Bob's own cap leaves 3/4, the policy 1/2.
    budget = ledger.budget("bob")
    assert (budget.total, budget.spent, budget.remaining) == (cost("3/4"), Charge(), cost("1/2"))
    with pytest.raises(BudgetExceeded) as caught:
        reserve(ledger, "3/5", analyst="bob")
    assert caught.value.scope == "policy"
    with pytest.raises(BudgetExceeded) as caught:
        reserve(ledger, "1/5", "1/100000", analyst="bob")
    assert caught.value.scope == "analyst bob"
    # An analyst without a cap has the policy's.
    assert ledger.budget("cem") == ledger.budget()
    # The refused ones left nothing in any scope.
    assert ledger.budget().spent == cost("1/2", "1/4000")
    assert ledger.check() == []


def test_a_lowered_budget_refuses_everything(open_ledger: Open) -> None:
    reserve(open_ledger(), "1/2", "1/2000")
    lowered = open_ledger(total=cost("1/4", "1/4000"))
    assert lowered.budget().remaining == Charge()
    assert lowered.budget().spent == cost("1/2", "1/2000")
    with pytest.raises(BudgetExceeded) as caught:
        reserve(lowered, "1/1000000")
    assert caught.value.remaining == (Fraction(0), Fraction(0))
    # With only delta overspent, a statement that needs none is refused as well.
    assert open_ledger(total=cost("1", "1/4000")).budget().remaining == cost("1/2", "0")
    with pytest.raises(BudgetExceeded):
        reserve(open_ledger(total=cost("1", "1/4000")), "1/4")
    raised = open_ledger(total=cost("2", "1/1000"))
    assert raised.budget().remaining == cost("3/2", "1/2000")


@pytest.mark.parametrize(("epsilon", "delta"), [("0", "0"), ("0", "1/2000"), ("1/2", "1")])
def test_a_free_private_statement_is_a_bug(open_ledger: Open, epsilon: str, delta: str) -> None:
    with pytest.raises(InternalError):
        reserve(open_ledger(total=cost("9", "9")), epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [("1/3", "1/2000"), ("1/4", "1/1999"), ("1", "1")])
def test_settling_above_the_reservation_is_a_bug(open_ledger: Open, epsilon: str, delta: str) -> None:
    ledger = open_ledger()
    reservation = reserve(ledger, "1/4", "1/2000")
    with pytest.raises(InternalError):
        ledger.settle(reservation, cost(epsilon, delta), release=b"x", reuse_key="k")
    assert ledger.find("k", "ann") is None
    assert ledger.budget().spent == cost("1/4", "1/2000")
    assert [entry.state for entry in ledger.entries()] == ["reserved"]


def test_a_reservation_ends_once(open_ledger: Open) -> None:
    ledger = open_ledger(max_failures=10)
    ends: list[Callable[[Reservation], object]] = [
        lambda r: ledger.settle(r, cost("1/20")),
        ledger.fail,
        ledger.cancel,
    ]
    for first in ends:
        for second in ends:
            reservation = reserve(ledger, "1/10")
            first(reservation)
            spent = ledger.budget().spent
            with pytest.raises(InternalError, match="twice"):
                second(reservation)
            assert ledger.budget().spent == spent
    assert ledger.check() == []


def test_a_reservation_of_nowhere_is_a_bug(open_ledger: Open) -> None:
    ledger = open_ledger()
    mine = reserve(ledger, "1/10")
    for wrong in (Reservation(99, mine.loss), Reservation(mine.entry, PrivacyLoss.of(Fraction(1, 5)))):
        with pytest.raises(InternalError, match="no such reservation"):
            ledger.settle(wrong, cost("1/20"))


def test_failures_stay_charged_and_in_the_end_stop_the_analyst(open_ledger: Open) -> None:
    ledger = open_ledger(max_failures=2)
    for _ in range(2):
        ledger.fail(reserve(ledger, "1/10"))
    assert ledger.budget().spent == cost("1/5")
    assert ledger.count_failures("ann") == 2
    with pytest.raises(OperationalError, match="2 of your private statements have failed") as caught:
        reserve(ledger, "1/10")
    assert not isinstance(caught.value, BudgetExceeded)
    assert ledger.budget().spent == cost("1/5")
    reserve(ledger, "1/10", analyst="bob")  # nobody else's business
    again = open_ledger(max_failures=2)
    with pytest.raises(OperationalError, match="failed"):
        reserve(again, "1/10")
    again.clear_failures("bob")
    with pytest.raises(OperationalError, match="failed"):
        reserve(again, "1/10")
    again.clear_failures("ann")
    assert again.count_failures("ann") == 0
    ledger.fail(reserve(ledger, "1/10"))
    ledger.fail(reserve(ledger, "1/10"))
    ledger.clear_failures()
    reserve(ledger, "1/10")
    assert [entry.state for entry in ledger.entries("ann")].count("failed") == 4
    assert ledger.check() == []


def test_what_was_cancelled_stays_charged_and_has_a_limit_of_its_own(open_ledger: Open) -> None:
    ledger = open_ledger(max_failures=1, max_cancelled=3)
    for _ in range(3):
        ledger.cancel(reserve(ledger, "1/10"))
    assert ledger.budget().spent == cost("3/10")
    assert (ledger.count_failures("ann"), ledger.count_cancelled("ann")) == (0, 3)
    assert {entry.state for entry in ledger.entries()} == {"cancelled"}
    with pytest.raises(OperationalError, match="3 of your private statements were cancelled"):
        reserve(ledger, "1/10")
    ledger.cancel(reserve(ledger, "1/10", analyst="bob"))
    ledger.clear_failures("ann")
    assert (ledger.count_cancelled("ann"), ledger.count_cancelled("bob")) == (0, 1)
    reserve(ledger, "1/10")
    assert ledger.check() == []


def test_what_runs_holds_a_slot_and_gives_it_back(open_ledger: Open) -> None:
    ledger = open_ledger(max_failures=3)
    ledger.fail(reserve(ledger, "1/100"))
    running = [reserve(ledger, "1/100") for _ in range(2)]
    spent = ledger.budget().spent
    with pytest.raises(OperationalError, match=r"2 of your private .* are running and 1 have"):
        reserve(ledger, "1/100")
    assert ledger.budget().spent == spent
    reserve(ledger, "1/100", analyst="bob")
    ledger.settle(running[0], cost("1/100"))
    running[0] = reserve(ledger, "1/100")
    for reservation in running:
        ledger.fail(reservation)
    assert ledger.count_failures("ann") == 3
    with pytest.raises(OperationalError, match="3 of your private statements have failed"):
        reserve(ledger, "1/100")
    assert ledger.check() == []


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_many_names_share_the_limits_of_the_policy(open_ledger: Open, end: str) -> None:
    ledger = open_ledger(max_failures=2, max_failures_total=5, max_cancelled=2, max_cancelled_total=5)
    ended = 0
    for name in (f"ann {i}" for i in range(10)):
        for _ in range(2):
            try:
                getattr(ledger, end)(reserve(ledger, "1/100", analyst=name))
                ended += 1
            except OperationalError as error:
                assert "all analysts together" in str(error)  # noqa: PT017  some pass, some do not
    assert ended == 5
    ledger.clear_failures("ann 0")
    for _ in range(2):
        getattr(ledger, end)(reserve(ledger, "1/100", analyst="ann 9"))
    with pytest.raises(OperationalError, match="all analysts together"):
        reserve(ledger, "1/100", analyst="bob")
    assert ledger.check() == []


def test_what_runs_anywhere_counts_towards_the_limit_of_the_policy(open_ledger: Open) -> None:
    ledger = open_ledger(max_failures=2, max_failures_total=3)
    held = [reserve(ledger, "1/100", analyst=f"ann {i}") for i in range(3)]
    with pytest.raises(OperationalError, match="max_failures_total"):
        reserve(ledger, "1/100", analyst="bob")
    ledger.settle(held[0], cost("1/100"))
    reserve(ledger, "1/100", analyst="bob")


def test_where_analysts_are_listed_nobody_else_may_ask(open_ledger: Open) -> None:
    closed = open_ledger(analysts={"ann": cost("1/2")})
    reserve(closed, "1/100")
    for name in ("Ann", "ann ", "ａnn", "bob"):
        for refused in (
            lambda name=name: reserve(closed, "1/100", analyst=name),
            lambda name=name: closed.check_analyst(name),
            lambda name=name: closed.share(["k"], name),
        ):
            with pytest.raises(PolicyError, match="lists its analysts"):
                refused()
    assert len(closed.entries()) == 1
    open_to_all = open_ledger(analysts={"ann": cost("1/2"), "*": cost("1/10")})
    for name in ("bob", "cem"):
        reserve(open_to_all, "1/10", analyst=name)
        with pytest.raises(BudgetExceeded) as caught:
            reserve(open_to_all, "1/100", analyst=name)
        assert caught.value.scope == f"analyst {name}"
        assert open_to_all.budget(name).remaining == Charge()
    with pytest.raises(InterfaceError, match="no name of an analyst"):
        reserve(open_to_all, "1/100", analyst="*")


class Anybody(str):
    """A name that is equal to every other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("ann")


def test_a_name_compares_as_its_letters_do(open_ledger: Open) -> None:
    ledger = open_ledger(analysts={"ann": cost("1/2")})
    with pytest.raises(PolicyError, match="lists its analysts"):
        reserve(ledger, "1/100", analyst=Anybody("bob"))


def test_a_stream_costs_what_its_misses_do(open_ledger: Open) -> None:
    """It is charged in full until it is closed; misses that were used are not given back."""
    ledger = open_ledger(max_failures=10)
    held = open_stream(ledger)
    assert ledger.budget().spent == cost("1/10")
    answer_check(ledger, held, used=0)
    answer_check(ledger, held)
    assert ledger.budget().spent == cost("1/10")
    begun = ledger.streams.begin(held.entry, ASKED, None)
    with pytest.raises(InternalError, match="more misses than it could use"):
        ledger.streams.finish(begun, 2, b"rows")
    assert ledger.streams.close(held.entry).used == 2  # nobody runs that check any more
    assert ledger.budget().spent == cost("1/10")
    again = open_stream(ledger)
    answer_check(ledger, again)
    assert ledger.streams.close(again.entry).charged == Fraction(3, 40)
    assert ledger.budget().spent == cost("7/40")
    with pytest.raises(ProgrammingError, match="closed"):
        ledger.streams.begin(again.entry, ASKED, None)
    assert ledger.check() == []


def test_a_release_is_found_by_its_key_and_owner_only(open_ledger: Open) -> None:
    ledger = open_ledger()
    first = ledger.settle(reserve(ledger, "1/10"), cost("1/10"), release=b"one", reuse_key="k")
    second = ledger.settle(reserve(ledger, "1/10"), cost("1/10"), release=b"two", reuse_key="k")
    third = ledger.settle(reserve(ledger, "1/10"), cost("1/10"), release=b"three")
    nothing = ledger.settle(reserve(ledger, "1/10"), cost("1/10"), reuse_key="empty")
    assert len({first, second, third, nothing}) == 4
    found = ledger.find("k", "ann")
    assert found is not None
    assert (found.number, found.payload) == (second, b"two")
    assert ledger.find("k", "bob") is None
    assert ledger.find("K", "ann") is None
    assert ledger.find("empty", "ann") is None
    assert ledger.release(first, "ann").payload == b"one"
    assert [info.number for info in ledger.releases("ann")] == [first, second, third, nothing]
    assert ledger.releases("bob") == []
    for number, analyst in ((first, "bob"), (99, "ann"), (nothing, "ann")):
        with pytest.raises(ProgrammingError, match="no release"):
            ledger.release(number, analyst)


def test_a_shared_release_is_charged_to_the_second_analyst_alone(open_ledger: Open) -> None:
    ledger = open_ledger(analysts={"bob": cost("1/4"), "*": TOTAL})
    number = ledger.settle(reserve(ledger, "1/5"), cost("1/6"), release=b"rows", reuse_key="k")
    assert shared_release(ledger, "other", "bob") is None
    shared = shared_release(ledger, "k", "bob")
    assert shared is not None
    assert (shared.analyst, shared.payload) == ("bob", b"rows")
    assert shared.number != number
    assert ledger.budget().spent == cost("1/6")
    assert ledger.budget("bob").spent == cost("1/6")
    assert ledger.budget("bob").remaining == cost("1/12", "0")
    # It is bob's own now; asking again costs nothing, nor does it ann.
    assert shared_release(ledger, "k", "bob") == shared
    own = shared_release(ledger, "k", "ann")
    assert own is not None
    assert own.number == number
    assert ledger.budget("bob").spent == cost("1/6")
    found = ledger.find("k", "bob")
    assert found is not None
    assert found.number == shared.number
    assert ledger.release(shared.number, "bob") == shared
    assert [entry.shared for entry in ledger.entries()] == [True, False]
    ledger.settle(reserve(ledger, "1/5"), cost("1/5"), release=b"more", reuse_key="big")
    with pytest.raises(BudgetExceeded) as caught:
        shared_release(ledger, "big", "bob")
    assert caught.value.scope == "analyst bob"
    assert [info.number for info in ledger.releases("bob")] == [shared.number]
    assert shared_release(ledger, "big", "cem") is not None  # no cap of one's own: nothing binds
    assert ledger.check() == []


def test_nothing_but_the_owners_view_tells_when_an_answer_came(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.settle(reserve(ledger, "1/10"), cost("1/10"), release=b"x", reuse_key="k")
    (entry,), (info,), found = ledger.entries(), ledger.releases("ann"), ledger.find("k", "ann")
    assert found is not None
    assert entry.when == info.when == found.when


def test_entries_come_newest_first_and_can_be_limited(open_ledger: Open) -> None:
    ledger = open_ledger()
    for analyst in ("ann", "bob", "ann"):
        reserve(ledger, "1/10", analyst=analyst)
    assert [entry.entry for entry in ledger.entries()] == [3, 2, 1]
    assert [entry.entry for entry in ledger.entries("ann")] == [3, 1]
    assert [entry.entry for entry in ledger.entries(limit=2)] == [3, 2]
    assert ledger.entries(limit=0) == []


def test_any_text_can_be_written_down(open_ledger: Open) -> None:
    ledger = open_ledger()
    statement = "SELECT 'ü\0\n\ud800'; -- \U0001f600"
    ledger.reserve(analyst="ann", statement=statement, selection="", mechanism="", charge=cost("1/10"))
    assert ledger.entries()[0].statement == "SELECT 'ü\0\n\\ud800'; -- \U0001f600"
    for name in ("", "a\ud800", "a\0b", None):
        with pytest.raises(InterfaceError):
            ledger.budget(name) if name is not None else ledger.find("k", name)  # type: ignore[arg-type]


def test_a_closed_ledger_says_so(open_ledger: Open) -> None:
    with open_ledger() as ledger:
        ledger.budget()
    ledger.close()
    with pytest.raises(InterfaceError, match="closed"):
        ledger.budget()


# --- exact amounts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", ["0", "1", "7/10", "1/3", f"{10**900}/{3**1000}"])
def test_amounts_are_stored_exactly(amount: str) -> None:
    assert read(write(Fraction(amount))) == Fraction(amount)


@pytest.mark.parametrize(
    "text", ["", "1", "0.5", "1/0", "2/4", "-1/2", "1/-2", " 1/2", "01/2", "1/2\n", "१/2", None, 5, b"1/2"]
)
def test_what_is_no_amount_is_not_read(text: object) -> None:
    with pytest.raises(DamagedError):
        read(text)


def test_amounts_are_shown_rounded_against_the_analyst() -> None:
    assert shown(Fraction(1, 3), up=True) == "0.333334"
    assert shown(Fraction(1, 3), up=False) == "0.333333"
    assert shown(Fraction(5), up=True) == shown(Fraction(5), up=False) == "5"
    assert shown(Fraction(1, 10), up=False) == "0.1"
    assert shown(Fraction(1, 3 * 10**9), up=True) == "3.33334e-10"
    assert shown(Fraction(0), up=True) == "0"
    assert shown(Fraction(100000001, 100), up=False) == "1000000"


def test_awkward_fractions_cannot_make_the_ledger_slow_or_stuck(open_ledger: Open) -> None:
    # Mersenne primes as denominators: each multiplies the total's denominator.
    ledger = open_ledger(total=cost("1000"), max_failures=10)
    for exponent in (521, 607, 1279):
        reserve(ledger, f"1/{2**exponent - 1}")
    with pytest.raises(OperationalError, match="short decimal"):
        reserve(ledger, f"1/{2**2203 - 1}")
    assert ledger.budget().spent.epsilon.denominator.bit_length() == 521 + 607 + 1279
    # Nobody else is hindered: decimals are always fine, to the last of 60 places.
    for analyst in ("ann", "bob"):
        number = reserve(ledger, f"{10**60 - 1}/{10**60}", analyst=analyst)
        ledger.settle(number, cost("7/10"))
    with pytest.raises(OperationalError, match="short decimal"):
        reserve(ledger, f"1/{10**1300 + 1}", analyst="cem")
    # A realised charge that would be too wide is rounded up, never above what was reserved.
    before = ledger.budget().spent
    ledger.settle(reserve(ledger, "1/2"), cost(f"1/{2**2203 - 1}"))
    assert ledger.budget().spent.epsilon - before.epsilon == Fraction(1, 10**60)
    ledger.settle(reserve(ledger, f"3/{10**60}"), cost(f"{2**2203}/{(2**2203 - 1) * 10**60}"))
    assert ledger.check() == []


def test_rounding_up_never_goes_below_or_above() -> None:
    third, step = Fraction(1, 3), Fraction(1, 10**60)
    loss = PrivacyLoss((Realised(third, Fraction(1)), Stream(third, third + step / 9)), Fraction(1, 7))
    rounded = round_up_loss(loss)
    (first, second) = rounded.parts
    assert isinstance(first, Realised)
    assert third < first.epsilon < third + step
    assert second == PureDP(third + step / 9), "never more than was reserved"
    assert Fraction(1, 7) < rounded.delta < Fraction(1, 7) + step
    few = Totals(first.epsilon, rounded.delta)
    assert not too_wide(few, few)


def several(ledger: Ledger, *epsilons: str, analyst: str = "ann") -> Reservation:
    requests = [
        Request("top-k", "noisy top-k", cost(epsilon), place=i, places=len(epsilons))
        for i, epsilon in enumerate(epsilons, 1)
    ]
    return ledger.reserve_all(analyst=analyst, statement="SELECT 1", requests=requests)


def test_releases_of_one_statement_are_charged_and_end_together(open_ledger: Open) -> None:
    ledger = open_ledger(per_query=Fraction(1, 2), max_failures=3)
    with pytest.raises(BudgetExceeded) as caught:
        several(ledger, "1/4", "1/4", "1/100")
    assert (caught.value.scope, caught.value.requested) == ("query", (Fraction(51, 100), Fraction(0)))
    assert ledger.entries() == []
    held = several(ledger, "1/5", "1/10")
    assert held.loss.charge == cost("3/10")
    assert ledger.budget().spent == cost("3/10")
    (first, second) = held.entries
    for wrong in (Reservation(*first), Reservation(*second), Reservation(first[0], first[1], (first, first))):
        for end in (ledger.fail, ledger.cancel, lambda r: ledger.settle(r, cost("1/10"))):
            with pytest.raises(InternalError, match="together"):
                end(wrong)
    for settled in ([Settled(cost("1/10"))], [Settled(cost("1/10")), Settled(cost("1/5"))]):
        with pytest.raises(InternalError):
            ledger.settle_all(held, settled)
    assert [entry.state for entry in ledger.entries()] == ["reserved"] * 2
    numbers, event = ledger.settle_all(
        held, [Settled(cost("1/7"), b"a", "k"), Settled(cost("1/10"), b"b", "l")]
    )
    assert numbers == (1, 2)
    assert ledger.budget().spent == cost("17/70")
    assert [ledger.release(number, "ann").payload for number in numbers] == [b"a", b"b"]
    assert {ledger.release(number, "ann").event for number in numbers} == {event} == {ledger.head()}
    assert [(info.place, info.places) for info in ledger.releases("ann")] == [(1, 2), (2, 2)]
    for fails in (True, True, False):
        (ledger.fail if fails else ledger.cancel)(several(ledger, "1/100", "1/100"))
    assert (ledger.count_failures("ann"), ledger.count_cancelled("ann")) == (2, 1), (
        "two releases, one statement"
    )
    several(ledger, "1/100", "1/100")
    with pytest.raises(OperationalError, match="1 of your private statements and streams are running"):
        several(ledger, "1/100", "1/100")
    assert ledger.check() == []


def test_parts_that_were_tampered_with_are_found(open_ledger: Open, tmp_path: Path) -> None:
    ledger = open_ledger()
    several(ledger, "1/10", "1/10")
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as raw:
        for change in ("DELETE FROM part", "UPDATE part SET place = 3"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(change)
        raw.execute("UPDATE entry SET state = 'failed' WHERE entry = 2")
    assert "the releases of the statement of entry 1 did not end together" in ledger.check()


TEAM = GroupCap(("ann", "bob"), cost("1/2", "1/2000"))


def test_a_group_has_a_cap_together(open_ledger: Open) -> None:
    ledger = open_ledger(groups={"team": TEAM})
    reserve(ledger, "3/10", analyst="ann")
    reserve(ledger, "3/10", analyst="carol")  # of no group
    with pytest.raises(BudgetExceeded, match=r"only 0\.2 of the budget of your group team is left") as caught:
        reserve(ledger, "3/10", analyst="bob")
    assert caught.value.scope == "group team"
    assert caught.value.remaining == (Fraction(1, 5), Fraction(1, 2000))
    # Nothing of the refused statement was charged, in any scope.
    assert ledger.budget("bob").spent == ledger.budget().spent == cost("3/5")
    reserve(ledger, "1/5", analyst="bob")
    assert ledger.check() == []


def test_what_is_left_of_a_group_is_shown_to_its_members(open_ledger: Open) -> None:
    ledger = open_ledger(groups={"team": TEAM}, analysts={"*": cost("2/5", "1/1000")})
    reserve(ledger, "3/10", "1/4000", analyst="ann")
    assert ledger.budget("ann").remaining == cost("1/10", "1/4000")
    assert ledger.budget("bob").remaining == cost("1/5", "1/4000")
    assert ledger.budget("carol").remaining == cost("2/5", "3/4000")
    assert ledger.budget("bob").spent == cost("0")


def test_every_group_of_an_analyst_binds(open_ledger: Open) -> None:
    wide, narrow = GroupCap(("ann", "bob"), cost("1")), GroupCap(("ann", "carol"), cost("1/10"))
    ledger = open_ledger(groups={"wide": wide, "narrow": narrow})
    with pytest.raises(BudgetExceeded) as caught:
        reserve(ledger, "1/5", analyst="ann")
    assert caught.value.scope == "group narrow"
    reserve(ledger, "1/5", analyst="bob")


def test_who_joins_a_group_brings_what_was_spent(open_ledger: Open) -> None:
    before = open_ledger()
    running = reserve(before, "2/5", analyst="bob")
    after = open_ledger(groups={"team": TEAM})
    with pytest.raises(BudgetExceeded):
        reserve(after, "1/5", analyst="ann")
    before.settle(running, cost("1/5"))  # a realised charge below the reserved one leaves more to the group
    reserve(after, "1/5", analyst="ann")
    assert after.check() == []


def test_a_shared_release_counts_in_the_group(open_ledger: Open) -> None:
    ledger = open_ledger(groups={"team": TEAM})
    ledger.settle(reserve(ledger, "2/5", analyst="carol"), cost("2/5"), release=b"rows", reuse_key="k")
    assert shared_release(ledger, "k", "ann") is not None
    with pytest.raises(BudgetExceeded):
        ledger.share(["k"], "bob")
    assert ledger.find("k", "bob") is None
