"""Budgets that start anew over the same rows: each renewal is a scope, and all count in the lifetime."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dpsql.errors import BudgetExceeded, OperationalError, PolicyError, ProgrammingError
from dpsql.kernel.ledger import charging, lasting_streams, renewals, scopes, totals
from dpsql.kernel.ledger.events import LadderRequest, RefinementStep, Request, Settled
from dpsql.kernel.ledger.lasting_streams import CheckRequest, StreamTerms
from dpsql.kernel.ledger.renewal_rows import Last
from dpsql.kernel.ledger.renewals import Renewal, RenewalTerms
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, Totals
from dpsql.kernel.unit_parts import EVERY, Calendar, Every
from dpsql.ledger import GroupCap, Ledger, Opening
from dpsql.ledger.verification import find_problems

MAY = datetime(2026, 5, 14, 12, tzinfo=UTC)
MONTHLY = RenewalTerms("month", Fraction(3))


class Clock:
    """The clock by which budgets start anew, as a test sets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = MAY
        monkeypatch.setattr(renewals, "now", lambda: self.now)

    def set(self, day: str) -> None:
        self.now = datetime.fromisoformat(day).replace(tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def opened(
    path: Path,
    terms: RenewalTerms | None = MONTHLY,
    epsilon: str = "1",
    delta: str = "1e-6",
    *,
    zcdp: bool = False,
    mark: Path | bool = False,
    opening: Opening = Opening.USE,
    analysts: dict[str, Charge] | None = None,
    groups: dict[str, GroupCap] | None = None,
) -> Ledger:
    return Ledger.open(
        path,
        policy_id="p",
        total=Charge(Fraction(epsilon), Fraction(delta)),
        renewal=terms,
        high_water=mark,
        max_failures=1000,
        filter_of=(lambda cap: Filter.of(cap, "zcdp")) if zcdp else Filter.of,
        opening=opening,
        analysts=analysts or {},
        groups=groups or {},
    )


def ask(ledger: Ledger, epsilon: str, realised: str | None = None, *, analyst: str = "ann") -> int:
    charge = Charge(Fraction(epsilon))
    reservation = ledger.reserve_all(
        analyst=analyst, statement="SELECT", requests=[Request("s", "m", charge)]
    )
    found = charge if realised is None else Charge(Fraction(realised))
    return ledger.settle_all(reservation, [Settled(found, b"x", None)])[0][0]


def seen(ledger: Ledger) -> tuple[object, ...]:
    """Return what is spent of the budget, what of the lifetime, and how often it has started anew."""
    budget = ledger.budget()
    assert budget.renewal is not None
    return budget.spent.epsilon, budget.renewal.spent, budget.renewal.times


def test_each_month_has_the_whole_budget_until_the_lifetime_is_reached(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l") as ledger:
        ask(ledger, "1")
        with pytest.raises(
            BudgetExceeded, match="only 0 of the budget is left until it starts anew on 2026-06-01"
        ):
            ask(ledger, "0.1")
        clock.set("2026-06-01")
        assert seen(ledger) == (0, 1, 1)
        ask(ledger, "0.7")
        assert seen(ledger) == (Fraction(7, 10), Fraction(17, 10), 1)
        clock.set("2026-09-30")  # two months without a statement begin no scope
        ask(ledger, "1")
        clock.set("2026-10-01")
        with pytest.raises(BudgetExceeded, match=r"0\.3 is left of the lifetime of the budget") as error:
            ask(ledger, "0.31")
        assert error.value.scope == "lifetime"
        ask(ledger, "0.3")
        assert ledger.budget().remaining.epsilon == 0
        assert ledger.check() == []
    words = "the budget has started anew 3 times since 1 May 2026 over the same rows"
    with opened(tmp_path / "l") as ledger:
        assert ledger.describe_renewals() == f"{words}: all releases together are (3, 3e-6)-DP"


def test_a_clock_that_is_set_back_starts_nothing(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l", RenewalTerms("month", None)) as ledger:
        clock.set("2026-07-02")
        ask(ledger, "1")
        for day in ("2026-06-30", "2026-05-14", "1969-01-01", "0009-01-01", "2026-07-31"):
            clock.set(day)
            with pytest.raises(BudgetExceeded):
                ask(ledger, "0.001")
        clock.set("2031-01-01")  # forward: one scope, however many months there are between
        ask(ledger, "1")
        with pytest.raises(BudgetExceeded):
            ask(ledger, "0.001")
        clock.set("2026-08-05")
        with pytest.raises(BudgetExceeded):
            ask(ledger, "0.001")
        assert seen(ledger) == (1, 2, 2)
        for day in ("9999-12-31", "3000-01-01"):  # the last day that is told apart is in the last period
            clock.set(day)
        ask(ledger, "1")
        with pytest.raises(BudgetExceeded):
            ask(ledger, "0.001")
        assert seen(ledger)[2] == 3
        assert ledger.check() == []


@pytest.mark.parametrize("every", EVERY)
def test_periods_begin_as_the_calendar_says(tmp_path: Path, clock: Clock, every: Every) -> None:
    calendar = Calendar(every)
    first = calendar.first_day(calendar.number(MAY.date()) + 1)
    with opened(tmp_path / "l", RenewalTerms(every, None)) as ledger:
        ask(ledger, "1")
        clock.now = datetime(first.year, first.month, first.day, tzinfo=UTC) - timedelta(microseconds=1)
        with pytest.raises(BudgetExceeded, match=f"anew on {first}"):
            ask(ledger, "0.1")
        clock.now += timedelta(microseconds=1)
        ask(ledger, "1")
        assert ledger.budget().renewal is not None


def test_what_was_reserved_before_a_start_lowers_the_lifetime_alone(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l") as ledger:
        request = Request("s", "m", Charge(Fraction(1)))
        before = ledger.reserve_all(analyst="ann", statement="SELECT", requests=[request])
        clock.set("2026-06-02")
        ask(ledger, "0.9")
        ledger.settle_all(before, [Settled(Charge(Fraction(1, 10)), b"x", None)])
        assert seen(ledger) == (Fraction(9, 10), 1, 1)
        assert ledger.check() == []


def test_caps_of_analysts_and_groups_and_ladders_stay(tmp_path: Path, clock: Clock) -> None:
    caps = {"ann": Charge(Fraction(3, 2)), "bob": Charge(Fraction(9))}
    groups = {"both": GroupCap(("ann", "bob"), Charge(Fraction(2)))}
    with opened(tmp_path / "l", RenewalTerms("day", None), analysts=caps, groups=groups) as ledger:
        ask(ledger, "1")
        clock.set("2026-05-15")
        with pytest.raises(BudgetExceeded, match="of your own budget is left"):
            ask(ledger, "0.6")
        ask(ledger, "0.5")
        ladder = LadderRequest("t", "m", "v", "dpsql bounds", PrivacyLoss.of(Fraction(1, 2)))
        with pytest.raises(BudgetExceeded):
            ledger.reserve_ladders([ladder])
        clock.set("2026-05-16")
        with pytest.raises(BudgetExceeded, match="group both"):
            ask(ledger, "0.6", analyst="bob")
        assert ledger.check() == []
    with opened(tmp_path / "l", RenewalTerms("day", None)) as ledger:
        (kept,) = ledger.reserve_ladders([ladder])
        ledger.settle_ladder(kept, b"x")
        assert seen(ledger)[:2] == (Fraction(1, 2), 2)
        clock.set("2026-05-17")
        assert seen(ledger)[:2] == (0, 2)
        ask(ledger, "1")
        assert ledger.check() == []


def test_a_refinement_of_an_earlier_renewal_is_refused(tmp_path: Path, clock: Clock) -> None:
    def refine(ledger: Ledger, number: int, total: str) -> None:
        request = Request("s", "m", Charge(Fraction(1, 4)), RefinementStep(number, Fraction(total)))
        reservation = ledger.reserve_all(analyst="ann", statement="REFINE", requests=[request])
        ledger.settle_all(reservation, [Settled(Charge(Fraction(1, 4)), b"x", None)])

    with opened(tmp_path / "l") as ledger:
        number = ask(ledger, "1/4")
        refine(ledger, number, "1/2")
        clock.set("2026-06-01")
        with pytest.raises(OperationalError, match="before the budget started anew"):
            refine(ledger, number + 1, "3/4")
        assert seen(ledger)[1] == Fraction(1, 2)


def stream_of(ledger: Ledger) -> lasting_streams.StoredStream:
    terms = StreamTerms("daily", 4, Fraction(1, 10), Fraction(1, 10), "OPEN CHECKS daily", {})
    return ledger.streams.open("ann", terms, lambda *_: "seal", None)


def test_open_streams_are_closed_when_the_budget_starts_anew(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l") as ledger:
        stream = stream_of(ledger)
        begun = ledger.streams.begin(stream.entry, CheckRequest("CHECK", "k", "s", 1), None)
        ledger.streams.finish(begun, 1, b"x")
        assert [each.said for each in ledger.streams.list("ann")] == ["open"]
        clock.set("2026-06-01")
        with pytest.raises(ProgrammingError, match="REFILL STREAM daily charges it again"):
            ledger.streams.begin(stream.entry, CheckRequest("CHECK", "l", "s", 1), None)
        assert [each.said for each in ledger.streams.list("ann")] == ["closed by a renewal"]
        ask(ledger, "1")
        found = ledger.streams.find("ann", "daily")
        assert found is not None
        assert found.state == "closed"
        assert seen(ledger) == (1, Fraction(6, 5), 1)
        assert ledger.check() == []


def test_a_stream_with_a_running_check_answers_no_further_one(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l") as ledger:
        stream = stream_of(ledger)
        begun = ledger.streams.begin(stream.entry, CheckRequest("CHECK", "k", "s", 1), None)
        clock.set("2026-06-01")
        ask(ledger, "1")
        found = ledger.streams.find("ann", "daily")
        assert found is not None
        assert (found.state, found.said) == ("open", "closed by a renewal")
        ledger.streams.finish(begun, 1, b"x")
        with pytest.raises(
            ProgrammingError, match="has started anew since the stream was opened: REFILL STREAM daily"
        ):
            ledger.streams.begin(stream.entry, CheckRequest("CHECK", "l", "s", 1), None)
        ledger.streams.close(stream.entry)
        assert seen(ledger) == (1, Fraction(6, 5), 1)
        assert ledger.check() == []


def test_gaussian_noise_and_costs_count_in_each_renewal_and_in_the_lifetime(
    tmp_path: Path, clock: Clock
) -> None:
    loss = PrivacyLoss.gaussian(Fraction(1, 1000))
    request = Request("s", "m", Charge(Fraction(1, 5)), loss=loss)

    def fill(ledger: Ledger) -> int:
        n = 0
        while True:
            try:
                reservation = ledger.reserve_all(analyst="ann", statement="SELECT", requests=[request])
            except BudgetExceeded:
                return n
            ledger.settle_all(reservation, [Settled(loss, b"x", None)])
            n += 1

    with opened(tmp_path / "l", RenewalTerms("month", Fraction(2)), zcdp=True) as ledger:
        first = fill(ledger)
        assert first == Filter.of(Charge(Fraction(1), Fraction(1, 10**6)), "zcdp").more(Totals(), loss)
        clock.set("2026-06-01")
        assert fill(ledger) == first
        found = [first, first]
        for month in range(7, 13):
            clock.set(f"2026-{month:02}-01")
            found.append(fill(ledger))
        assert found[-1] == 0
        budget = Filter.of(Charge(Fraction(1), Fraction(1, 10**6)), "zcdp")
        limit = RenewalTerms("month", Fraction(2)).limit(budget)
        assert limit is not None
        assert limit.order_way is not None
        assert sum(found) * loss.cost(limit.order_way.order) <= limit.order_way.limit
        assert ledger.check() == []
        assert "(2, 2e-6)-DP" in ledger.describe_renewals()
    with opened(tmp_path / "l", RenewalTerms("month", Fraction(2)), "1", "1e-5", zcdp=True) as ledger:
        assert ledger.check() == []  # at other orders


def test_gaussian_noise_before_the_section_or_above_a_lowered_lifetime_is_promised(
    tmp_path: Path, clock: Clock
) -> None:
    """It has no epsilon, so only its costs tell that a sum of budgets, or a lifetime, is no promise."""
    loss, unlimited = PrivacyLoss.gaussian(Fraction(1, 100)), RenewalTerms("month", None)

    def fill(ledger: Ledger) -> None:
        request = Request("s", "m", Charge(Fraction(1, 5)), loss=loss)
        with suppress(BudgetExceeded):
            while True:
                reservation = ledger.reserve_all(analyst="ann", statement="SELECT", requests=[request])
                ledger.settle_all(reservation, [Settled(loss, b"x", None)])

    def promised(ledger: Ledger) -> tuple[float, float]:
        renewal = ledger.budget().renewal
        assert renewal is not None
        return float(renewal.together.epsilon), float(renewal.together.delta)

    with opened(tmp_path / "before", None, "10", zcdp=True) as ledger:
        fill(ledger)
    with opened(tmp_path / "before", unlimited, zcdp=True) as ledger:
        assert promised(ledger)[0] > 10
        clock.set("2026-06-02")
        ask(ledger, "0.1")
        assert promised(ledger)[0] > 10
    with opened(tmp_path / "before", unlimited) as ledger:
        assert promised(ledger) == (2, 1)  # nothing is known of Gaussian noise without costs
    clock.set("2026-05-02")
    with opened(tmp_path / "low", unlimited, "5", zcdp=True) as ledger:
        for month in (5, 6, 7):
            clock.set(f"2026-{month:02}-02")
            fill(ledger)
        assert promised(ledger) == (15, 3e-6)
    with opened(tmp_path / "low", RenewalTerms("month", Fraction(5)), "5", zcdp=True) as ledger:
        assert promised(ledger) == (15, 3e-6)
    with opened(tmp_path / "low", RenewalTerms("month", Fraction(14)), "5", zcdp=True) as ledger:
        assert promised(ledger) == (14, 2.8e-6)


def test_many_small_statements_that_costs_admit_are_promised_as_the_budget(
    tmp_path: Path, clock: Clock
) -> None:
    for lifetime in (None, Fraction(6)):
        with opened(tmp_path / f"{lifetime}", RenewalTerms("month", lifetime), "5", zcdp=True) as ledger:
            for _ in range(150):
                ask(ledger, "0.05")
            assert "together are (5, 1e-6)-DP" in ledger.describe_renewals()
            renewal = ledger.budget().renewal
            assert renewal is not None
            assert renewal.spent is not None
            assert renewal.spent < 5  # and not 150 times 0.05, which leaves nothing of the lifetime
            for _ in range(208):
                ask(ledger, "0.05")


def test_the_lifetime_is_a_filter_at_the_budgets_order() -> None:
    """The constants of a lifetime are those with which `Filter` proves its promise."""
    budget = Filter.of(Charge(Fraction(1), Fraction(1, 10**6)), "zcdp")
    limit = RenewalTerms("month", Fraction(24)).limit(budget)
    assert limit is not None
    assert limit.order_way is not None
    assert budget.order_way is not None
    a, b = float(limit.order_way.order), float(limit.order_way.order) - 1
    for each in (budget, limit):
        assert each.order_way is not None
        x = b * float(each.order_way.limit - each.epsilon)
        assert 2.718281828459045**x / a * (1 - 1 / a) ** b <= float(each.conversion_delta) * (1 + 1e-9)
    assert limit.delta == 24 * budget.delta
    assert limit.mechanism_delta > 24 * budget.mechanism_delta
    assert RenewalTerms("month", None).limit(budget) is None


def test_a_section_that_is_new_or_came_back_begins_with_everything(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l", None, "3") as ledger:
        ask(ledger, "2")
    with opened(tmp_path / "l", RenewalTerms("month", None), "3") as ledger:
        assert seen(ledger) == (2, 2, 0)
        clock.set("2026-06-01")
        ask(ledger, "3")
    with opened(tmp_path / "l", None, "3") as ledger:  # off: all that was released counts in one budget
        with pytest.raises(BudgetExceeded):
            ask(ledger, "0.1")
        assert ledger.budget().renewal is None
        assert "started anew once since 1 May 2026" in ledger.describe_renewals()
        assert "(6, 2e-6)-DP" in ledger.describe_renewals()
    with opened(tmp_path / "l", None, "9") as ledger:
        ask(ledger, "4")
        assert "(12, 2e-6)-DP" in ledger.describe_renewals()
        assert ledger.check() == []
    with opened(tmp_path / "l", RenewalTerms("week", None), "9") as ledger:
        assert seen(ledger) == (9, 9, 1)
        with pytest.raises(BudgetExceeded):
            ask(ledger, "0.1")
        clock.set("2026-06-08")
        ask(ledger, "9")
        assert ledger.check() == []


def test_a_change_of_the_period_starts_nothing(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l", RenewalTerms("month", None)) as ledger:
        ask(ledger, "1")
    for every in ("day", "week", "year", "day"):
        with opened(tmp_path / "l", RenewalTerms(every, None)) as ledger:
            assert seen(ledger)[0] == 1
            with pytest.raises(BudgetExceeded):
                ask(ledger, "0.1")
    clock.set("2026-05-15")
    with opened(tmp_path / "l", RenewalTerms("day", None)) as ledger:
        ask(ledger, "1")
        assert ledger.check() == []


def test_a_process_that_has_read_another_policy_starts_nothing(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l", None) as old, opened(tmp_path / "l", RenewalTerms("day", None)) as other:
        ask(other, "1/2")
        with opened(tmp_path / "l", RenewalTerms("month", None)) as ledger:
            ask(old, "1/4")  # it counts in the open renewal, too
            assert seen(ledger)[:2] == (Fraction(3, 4), Fraction(3, 4))
            clock.set("2026-05-20")
            with pytest.raises(BudgetExceeded):
                ask(other, "1/2")
            clock.set("2026-06-20")
            with pytest.raises(BudgetExceeded):
                ask(old, "1/2")
            ask(ledger, "1")
            assert ledger.check() == []


def test_of_two_processes_one_starts_the_budget_anew(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l") as one, opened(tmp_path / "l") as other:
        clock.set("2026-06-01")
        ask(one, "1/2")
        ask(other, "1/2")
        for each in (one, other):
            with pytest.raises(BudgetExceeded):
                ask(each, "1/100")
        assert seen(one) == seen(other) == (1, 1, 1)


def restored(tmp_path: Path, clock: Clock, *, lost: bool) -> Ledger:
    """Return a ledger that goes on from an older copy, or from its mark alone, of one with three renewals."""
    path, mark, terms = tmp_path / "l", tmp_path / "mark", RenewalTerms("month", Fraction(9))
    with opened(path, terms, mark=mark) as ledger:
        ask(ledger, "0.3")
    shutil.copy(path, tmp_path / "copy")
    clock.set("2026-06-01")
    with opened(path, terms, mark=mark) as ledger:
        ask(ledger, "1")
        clock.set("2026-07-01")
        ask(ledger, "0.8")
    for old in tmp_path.glob("l*"):
        old.unlink()
    if not lost:
        shutil.copy(tmp_path / "copy", path)
    return opened(path, terms, mark=mark, opening=Opening.ACCEPT)


@pytest.mark.parametrize("lost", [False, True])
def test_an_older_copy_begins_no_period_twice(tmp_path: Path, clock: Clock, *, lost: bool) -> None:
    with restored(tmp_path, clock, lost=lost) as ledger:
        spent, whole, times = seen(ledger)
        assert (whole, times) == (Fraction(21, 10), 2)
        assert spent == (whole if lost else Fraction(18, 10))
        with pytest.raises(BudgetExceeded):
            ask(ledger, "0.1")
        assert "(3, 3e-6)-DP" in ledger.describe_renewals()
        clock.set("2026-08-01")
        ask(ledger, "1")
        assert seen(ledger) == (1, Fraction(31, 10), 3)
        assert "(4, 4e-6)-DP" in ledger.describe_renewals()
        assert ledger.check() == []
        assert Path(tmp_path / "mark").exists()


def test_two_copies_promise_what_both_have_spent(tmp_path: Path, clock: Clock) -> None:
    path, mark, terms = tmp_path / "l", tmp_path / "mark", RenewalTerms("month", None)
    with opened(path, terms, mark=mark) as ledger:
        ask(ledger, "0.1")
    shutil.copy(path, tmp_path / "copy")
    shutil.copy(mark, tmp_path / "mark copy")
    for where in (mark, tmp_path / "mark copy"):
        with opened(path, terms, mark=where) as ledger:
            ask(ledger, "0.9")
        shutil.copy(tmp_path / "copy", path)
        for rest in ("l-wal", "l-shm"):
            (tmp_path / rest).unlink(missing_ok=True)
    with opened(path, terms, mark=tmp_path / "mark", opening=Opening.ACCEPT) as ledger:
        assert seen(ledger)[0] == 1
        assert ledger.check() == []


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.sampled(3, rest="longer")
def test_no_period_gives_more_than_its_budget_however_copies_go_on(
    tmp_path: Path, clock: Clock, seed: int
) -> None:
    """Each answer that was shown counts, also those that only a lost ledger or another copy of it had."""
    random, path, terms = Random(seed), tmp_path / "l", RenewalTerms("week", None)
    copies, told = list[Path](), dict[str, Fraction]()
    ledger = opened(path, terms, mark=tmp_path / "mark")
    for step in range(25):
        what = random.random()
        if what < 0.3:
            clock.now += timedelta(days=random.choice([-9, 1, 5, 7, 15]))
        elif what < 0.6:
            ledger.close()
            if what < 0.45 or not copies:
                copies.append(tmp_path / f"copy{step}")
                shutil.copy(path, copies[-1])
                ledger = opened(path, terms, mark=tmp_path / "mark")
                continue
            for old in tmp_path.glob("l*"):
                old.unlink()
            if random.random() < 0.75:
                shutil.copy(random.choice(copies), path)
            ledger = opened(path, terms, mark=tmp_path / "mark", opening=Opening.ACCEPT)
        else:
            epsilon = Fraction(random.randint(1, 9), 10)
            with suppress(BudgetExceeded):
                ask(ledger, str(epsilon))
                with ledger._store.read() as connection:
                    found = renewals.find(connection)
                assert found is not None
                told[found.start] = told.get(found.start, Fraction(0)) + epsilon
        budget = ledger.budget().renewal
        assert budget is not None
        assert budget.spent is not None
        assert sum(told.values()) <= min(budget.spent, budget.together.epsilon)
        assert max(told.values(), default=0) <= 1
    assert ledger.check() == []
    ledger.close()


def _spend_until_refused(ledger: Ledger, epsilon: str) -> Fraction:
    n = 0
    with suppress(BudgetExceeded):
        while True:
            ask(ledger, epsilon)
            n += 1
    return n * Fraction(epsilon)


@pytest.mark.parametrize("starter", ["old", "new"])
@pytest.mark.parametrize("zcdp", [False, True])
def test_a_process_with_an_older_larger_budget_spends_no_more_than_the_budget_of_the_month(
    tmp_path: Path, clock: Clock, starter: str, *, zcdp: bool
) -> None:
    terms = RenewalTerms("month", None)
    with opened(tmp_path / "l", terms, "10", zcdp=zcdp) as old:
        ask(old, "1")
        with opened(tmp_path / "l", terms, "3", zcdp=zcdp) as new:
            clock.set("2026-06-01")
            ask({"old": old, "new": new}[starter], "0.5")
            told = new.describe_renewals()
            assert "together are (13, 2e-6)-DP" in told  # May's ten, and June's three
            assert _spend_until_refused(old, "0.5") == Fraction(5, 2)
            assert seen(new)[:2] == (3, 4)
            assert new.describe_renewals() == old.describe_renewals() == told
            assert old.budget().remaining.epsilon == 0
            assert old.check() == []


def test_a_process_with_an_older_smaller_budget_keeps_it(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "l", RenewalTerms("month", None)) as old:
        ask(old, "1/2")
        with opened(tmp_path / "l", RenewalTerms("month", None), "3") as new:
            clock.set("2026-06-01")
            assert _spend_until_refused(old, "1/4") == 1
            assert "together are (6, 2e-6)-DP" in old.describe_renewals()  # the larger one of May holds
            assert _spend_until_refused(new, "1/4") == 2
            assert new.check() == []


@pytest.mark.parametrize("zcdp", [False, True])
def test_a_lowered_lifetime_holds_for_a_process_that_has_read_a_larger_one(
    tmp_path: Path, clock: Clock, *, zcdp: bool
) -> None:
    with opened(tmp_path / "l", RenewalTerms("day", None), zcdp=zcdp) as old:
        ask(old, "1")
        with opened(tmp_path / "l", RenewalTerms("day", Fraction(2)), zcdp=zcdp) as new:
            spent = Fraction(1)
            for day in range(15, 25):
                clock.set(f"2026-05-{day}")
                spent += _spend_until_refused(old, "1/2")
            assert spent == 2
            assert "together are (2, 2e-6)-DP" in new.describe_renewals()
            renewal = old.budget().renewal
            assert renewal is not None
            assert renewal.lifetime == 2
    with opened(tmp_path / "l", None) as none, opened(tmp_path / "l", RenewalTerms("day", Fraction(2))):
        assert _spend_until_refused(none, "1/4") == 0


def test_deltas_and_costs_of_a_process_with_another_accounting_are_those_of_the_ledger(
    tmp_path: Path, clock: Clock
) -> None:
    terms, loss = RenewalTerms("month", None), PrivacyLoss.gaussian(Fraction(1, 1000))
    gaussian = Request("s", "m", Charge(Fraction(1, 5)), loss=loss)
    with opened(tmp_path / "l", terms, delta="8e-6", zcdp=True) as old:
        with opened(tmp_path / "l", terms, delta="4e-6") as new:
            clock.set("2026-06-01")
            with pytest.raises(BudgetExceeded):  # it has no epsilon, and the ledger's policy adds epsilons
                old.reserve_all(analyst="ann", statement="SELECT", requests=[gaussian])
            each = Request("s", "m", Charge(Fraction(1, 8), Fraction(3, 10**6)))
            old.reserve_all(analyst="ann", statement="SELECT", requests=[each])
            with pytest.raises(BudgetExceeded):
                old.reserve_all(analyst="ann", statement="SELECT", requests=[each])
            assert "together are (2, 1.2e-5)-DP" in new.describe_renewals()
        with opened(tmp_path / "l", terms, delta="8e-6", zcdp=True):
            old.reserve_all(analyst="ann", statement="SELECT", requests=[gaussian])


@pytest.mark.parametrize("other_first", [False, True])
def test_the_starts_that_another_ledgers_mark_tells_are_counted(
    tmp_path: Path, clock: Clock, *, other_first: bool
) -> None:
    """They were budgets over the same rows, whichever ledger had more of them, or the later one."""
    terms, times = RenewalTerms("week", None), dict[str, Any]()
    for name, first in (("own", ["14", "20", "28"]), ("other", ["14", "21"])):
        days = [*first, "29" if (name == "other") is other_first else "14"]  # the later one, in the same week
        clock.now = MAY
        with opened(tmp_path / name, terms, mark=tmp_path / f"mark of {name}") as ledger:
            for day in days:
                clock.set(f"2026-05-{day}")
                with suppress(BudgetExceeded):
                    ask(ledger, "0.25")
            times[name] = seen(ledger)[2]
    clock.set("2026-05-29")
    assert times == {"own": 2, "other": 2 if other_first else 1}
    (tmp_path / "mark of own").unlink()
    shutil.copy(tmp_path / "mark of other", tmp_path / "mark of own")
    with opened(tmp_path / "own", terms, mark=tmp_path / "mark of own", opening=Opening.ACCEPT) as ledger:
        told = times["own"] + times["other"] + 1
        assert seen(ledger)[2] == told
        assert f"started anew {told} times since 11 May 2026" in ledger.describe_renewals()
        assert f"together are ({told + 1}, {told + 1}e-6)-DP" in ledger.describe_renewals()
        assert ledger.check() == []


def test_of_two_copies_that_went_on_alone_all_starts_are_counted(tmp_path: Path, clock: Clock) -> None:
    path, mark, terms = tmp_path / "l", tmp_path / "mark", RenewalTerms("week", None)
    with opened(path, terms, mark=mark) as ledger:
        ask(ledger, "1")
    shutil.copy(path, tmp_path / "copy")
    with opened(path, terms, mark=mark) as ledger:
        for day in ("2026-05-18", "2026-05-25"):
            clock.set(day)
            ask(ledger, "1")
    for old in tmp_path.glob("l*"):
        old.unlink()
    shutil.copy(tmp_path / "copy", path)
    with opened(path, terms) as ledger:  # without a mark
        for day in ("2026-06-01", "2026-06-08", "2026-06-15"):
            clock.set(day)
            ask(ledger, "1")
    with opened(path, terms, mark=mark, opening=Opening.ACCEPT) as ledger:
        assert seen(ledger)[1:] == (7, 5)  # the first one twice: whether both have it is not known
        assert "started anew 5 times since 11 May 2026" in ledger.describe_renewals()
        assert ledger.check() == []


@dataclass
class Model:
    """What a ledger should hold: the entries, each with its scope, and the budgets."""

    epsilon: Fraction
    terms: RenewalTerms | None
    start: date
    scope: int = 0
    entries: list[tuple[int, Fraction]] = field(default_factory=list)
    """The scope of each entry and what it is charged."""
    base: int = 0
    """The entries before it do not count in the open scope."""

    def begins(self, today: date) -> bool:
        if self.terms is None:
            return False
        calendar = Calendar(self.terms.every)
        return calendar.first_day(calendar.number(today)) > self.start

    def admits(self, epsilon: Fraction, today: date) -> bool:
        whole = sum((charged for _, charged in self.entries), Fraction(0))
        base = len(self.entries) if self.begins(today) else self.base
        open_one = whole if self.terms is None else sum((c for _, c in self.entries[base:]), Fraction(0))
        lifetime = None if self.terms is None else self.terms.lifetime
        return open_one + epsilon <= self.epsilon and (lifetime is None or whole + epsilon <= lifetime)

    def enter(self, epsilon: Fraction, today: date) -> int:
        if self.begins(today):
            assert self.terms is not None
            calendar = Calendar(self.terms.every)
            self.start = calendar.first_day(calendar.number(today))
            self.scope, self.base = self.scope + 1, len(self.entries)
        self.entries.append((self.scope, epsilon))
        return len(self.entries) - 1

    def declare(self, terms: RenewalTerms | None, today: date) -> None:
        if terms is not None and self.terms is None:
            self.base = 0
        if terms is not None and (self.terms is None or terms.every != self.terms.every):
            calendar = Calendar(terms.every)
            first = calendar.first_day(calendar.number(today))
            self.start = max(self.start, first)
        self.terms = terms


def walk(path: Path, clock: Clock, seed: int, steps: int = 60) -> None:
    """Let a ledger and its model do the same random things; fail where they differ, or too much is spent."""
    random = Random(seed)
    terms = RenewalTerms(random.choice(EVERY[:3]), random.choice([None, Fraction(2), Fraction(5, 2)]))
    clock.now = MAY
    calendar = Calendar(terms.every)
    model = Model(Fraction(1), terms, calendar.first_day(calendar.number(MAY.date())))
    ledger, running = opened(path, terms), dict[int, object]()
    for _ in range(steps):
        what, today = random.random(), clock.now.date()
        if what < 0.3:
            clock.now += timedelta(days=random.choice([-40, -8, -1, 1, 6, 8, 31, 40]))
        elif what < 0.38:
            terms = replace(
                terms,
                every=random.choice(EVERY[:3]),
                lifetime=random.choice([None, Fraction(2), Fraction(4)]),
            )
            chosen = random.choice([terms, terms, None])
            ledger.close()
            try:
                ledger = opened(path, chosen)
            except PolicyError:  # the ladders of all renewals are more than one budget
                ledger = opened(path, model.terms)
            else:
                model.declare(chosen, today)
        elif what < 0.75 or not running:
            epsilon = Fraction(random.randint(1, 6), 8)
            admitted = model.admits(epsilon, today)
            request = Request("s", "m", Charge(epsilon))
            try:
                if random.random() < 0.15:
                    ladder = LadderRequest("t", "m", "v", "dpsql bounds", PrivacyLoss.of(epsilon))
                    ledger.settle_ladder(ledger.reserve_ladders([ladder])[0], b"x")
                    assert admitted, "a ladder"
                    model.enter(epsilon, today)
                    continue
                made = ledger.reserve_all(analyst="ann", statement="SELECT", requests=[request])
            except BudgetExceeded:
                assert not admitted, "refused"
                continue
            assert admitted, "admitted"
            running[model.enter(epsilon, today)] = made
        else:
            entry = random.choice([*running])
            scope, epsilon = model.entries[entry]
            kept = epsilon if random.random() < 0.3 else epsilon / 2
            if kept == epsilon:
                ledger.fail(running.pop(entry))  # type: ignore[arg-type]
            else:
                ledger.settle_all(running.pop(entry), [Settled(Charge(kept), b"x", None)])  # type: ignore[arg-type]
            model.entries[entry] = scope, kept
    whole = sum((charged for _, charged in model.entries), Fraction(0))
    shown = ledger.budget()
    if shown.renewal is not None:
        assert shown.renewal.spent == whole
        assert shown.renewal.times == model.scope + model.begins(clock.now.date())
        assert shown.renewal.together.epsilon >= min(whole, shown.renewal.lifetime or whole)
    problems = ledger.check()
    ledger.close()
    assert problems == []


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.sampled(3, rest="longer")
def test_no_sequence_spends_more_than_a_scope_or_the_lifetime_admits(
    tmp_path: Path, clock: Clock, seed: int
) -> None:
    walk(tmp_path / "l", clock, seed)


def _any_start_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    other = property(lambda self: self.every is not None and renewals._start_of(self.every) != self.start)
    monkeypatch.setattr(Renewal, "is_over", other)


def _old_entries_lower_the_open_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charging, "policy_names", lambda connection, _=None: totals.policy_names(connection))


def _the_lifetime_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RenewalTerms, "limit", lambda *_: None)


def _skipped_periods_give_their_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    def admits(self: scopes.ScopeBudget, loss: PrivacyLoss) -> bool:
        wider = replace(self.filter, epsilon=2 * self.filter.epsilon) if self.renews else self.filter
        return wider.admits(self.totals, loss)

    monkeypatch.setattr(scopes.ScopeBudget, "admits", admits)


def _a_new_section_begins_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    write = renewals._write

    def write_nothing(connection: object, after: Renewal, total: object) -> None:
        carried = after.last == Last() and after.times
        write(connection, after, totals.Stored(Totals()) if carried else total)  # type: ignore[arg-type]

    monkeypatch.setattr(renewals, "_write", write_nothing)


def _ladders_count_in_the_lifetime_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.kernel.ledger import kept_results

    monkeypatch.setattr(kept_results, "policy_names", lambda _: ["policy"])


def _what_is_charged_counts_in_the_open_renewal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    names = totals.policy_names
    monkeypatch.setattr(scopes, "policy_names", lambda connection: names(connection)[-1:])


@pytest.mark.parametrize(
    "mutate",
    [
        _any_start_counts,
        _old_entries_lower_the_open_renewal,
        _the_lifetime_has_no_limit,
        _skipped_periods_give_their_budgets,
        _a_new_section_begins_with_nothing,
        _ladders_count_in_the_lifetime_alone,
        _what_is_charged_counts_in_the_open_renewal_alone,
    ],
)
def test_a_wrong_rule_is_found_in_an_ordinary_run(
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    mutate: Callable[[pytest.MonkeyPatch], None],
) -> None:
    mutate(monkeypatch)
    found = 0
    for seed in range(25):
        try:
            walk(tmp_path / f"l{seed}", clock, seed)
        except (AssertionError, OperationalError):
            found += 1
            break
    assert found


def test_a_mark_that_is_not_followed_is_found(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewals, "follow", lambda *_: None)
    with restored(tmp_path, clock, lost=False) as ledger:
        ask(ledger, "1")  # a second budget in July
        assert seen(ledger)[1] == Fraction(31, 10)


def test_kept_ladders_above_the_budget_are_no_error(tmp_path: Path, clock: Clock) -> None:
    ladder = LadderRequest("t", "m", "v", "dpsql bounds", PrivacyLoss.of(Fraction(1)))
    terms = RenewalTerms("day", None)
    for day in ("2026-05-14", "2026-05-15"):
        clock.set(day)
        with opened(tmp_path / "l", terms) as ledger:
            ledger.settle_ladder(ledger.reserve_ladders([ladder])[0], b"x")
    with opened(tmp_path / "l", terms, "3/2") as ledger:
        assert seen(ledger)[:2] == (1, 2)
    with pytest.raises(PolicyError, match="the kept ladders of this ledger cost epsilon 2"):
        opened(tmp_path / "l", None)
    with opened(tmp_path / "l", terms) as ledger, ledger._store.read() as connection:
        assert find_problems(connection) == []
