"""What one person bears of a year where a unit is what one did in one period: k by the calendar."""

from __future__ import annotations

import math
import multiprocessing
import shutil
import sqlite3
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from dpsql.errors import BudgetExceeded
from dpsql.kernel.ledger import person_totals
from dpsql.kernel.ledger.caps import PartBudgets
from dpsql.kernel.ledger.events import LadderRequest, Request, Settled
from dpsql.kernel.ledger.person_totals import MOST, periods_by_year
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.unit_parts import EVERY, NULL_PART, Calendar, Every, PartSet
from dpsql.ledger import Ledger, Opening
from dpsql.ledger.verification import find_problems

WEEKS = Calendar("week")
YEARS = Calendar("year")
PARTS = PartBudgets("patient", WEEKS, "patient weeks", periods=True)


def opened(path: Path, epsilon: str = "1", person: Charge | None = None, delta: str = "0") -> Ledger:
    return Ledger.open(
        path,
        policy_id="p",
        total=Charge(Fraction(epsilon), Fraction(delta)),
        parts=PARTS,
        person=person,
        high_water=False,
        max_failures=1000,
    )


def weeks(first: str, number: int = 1) -> PartSet:
    low = WEEKS.number(date.fromisoformat(first))
    return PartSet.of((low, low + number - 1))


def ask(
    ledger: Ledger, epsilon: str, parts: PartSet | None, *, delta: str = "0", of_person: bool = False
) -> None:
    charge = Charge(Fraction(epsilon), Fraction(delta))
    request = Request("s", "m", charge, parts=parts, of_person=of_person)
    reservation = ledger.reserve_all(analyst="ann", statement="SELECT", requests=[request])
    ledger.settle_all(reservation, [Settled(charge, b"x", None)])


def borne(ledger: Ledger, year: int) -> Fraction | None:
    with ledger._store.read() as connection:
        found = person_totals.borne_by_year(connection, ledger._caps)
    place = YEARS.number(date(year, 1, 1))
    return next(totals.epsilon for low, high, totals in found if low <= place <= high)


@pytest.mark.parametrize("every", EVERY)
def test_periods_of_a_year_are_those_that_begin_in_it(every: Every) -> None:
    calendar, random = Calendar(every), Random(every)
    for _ in range(60):
        day = date(2018, 1, 1) + timedelta(days=random.randrange(4000))
        low = calendar.number(day)
        high = low + random.choice([0, 1, 5, 60, 400])
        parts = (
            PartSet.of((low, high), (NULL_PART, NULL_PART))
            if random.random() < 0.5
            else PartSet.of((low, high))
        )
        brute: dict[int, int] = {NULL_PART: 1} if NULL_PART in parts else {}
        for part in range(low, high + 1):
            year = YEARS.number(date(calendar.first_day(part).year, 1, 1))
            brute[year] = brute.get(year, 0) + 1
        found = periods_by_year(parts, every)
        listed = {year: k for a, b, k in found for year in range(a, b + 1)}
        late = YEARS.number(date(2100, 1, 1))
        assert {y: k for y, k in listed.items() if y < late} == {y: k for y, k in brute.items() if y < late}
        assert all(listed[year] >= k for year, k in brute.items())


def test_no_year_has_more_periods_than_is_said() -> None:
    for every in EVERY:
        calendar = Calendar(every)
        for year in range(1000, 3000):
            first = person_totals._begin(calendar, year)
            after = calendar.ends[1] + 1 if year == 2999 else person_totals._begin(calendar, year + 1)
            assert after - first <= MOST[every]


def test_a_person_bears_k_times_and_two_years_apart(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", epsilon="2", person=Charge(Fraction(5)))
    ask(ledger, "0.5", weeks("2026-12-21", 4))  # two weeks begin in 2026, two in 2027
    ask(ledger, "0.25", weeks("2026-12-21", 1))
    assert (borne(ledger, 2026), borne(ledger, 2027)) == (Fraction("1.25"), Fraction(1))
    ask(ledger, "0.5", None, of_person=True)
    assert (borne(ledger, 2026), borne(ledger, 2030)) == (Fraction("1.75"), Fraction("0.5"))
    ledger.close()


def test_what_is_too_much_for_a_person_is_refused_and_nothing_is_charged(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", person=Charge(Fraction(5)))
    with pytest.raises(
        BudgetExceeded, match="costs a patient in 12 weeks epsilon 6, but only 5 of what a patient"
    ):
        ask(ledger, "0.5", weeks("2026-03-02", 12))
    assert ledger.budget().spent.epsilon == 0
    ask(ledger, "0.4", weeks("2026-03-02", 12))
    with pytest.raises(BudgetExceeded, match=r"only 0\.2 of what a patient may bear of 2026 is left"):
        ask(ledger, "0.5", weeks("2026-08-03"))
    ask(ledger, "0.2", weeks("2026-08-03"))
    ask(ledger, "0.5", weeks("2027-08-02"))
    with pytest.raises(BudgetExceeded, match="week 2026-W10"):
        ask(ledger, "0.7", weeks("2026-03-02"))  # of the week itself too little is left
    ledger.close()


def test_what_is_charged_to_all_parts_is_of_all_weeks_of_a_year(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", person=Charge(Fraction(60)))
    ask(ledger, "1", None)
    assert [borne(ledger, year) for year in (2026, 2027, 1950)] == [52, 52, 53]
    ledger.close()


def test_a_delta_is_that_of_groups(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", delta="1e-6", person=Charge(Fraction(20), Fraction(1, 10**4)))
    ask(ledger, "0.5", weeks("2026-03-02", 4), delta="1e-8")
    with ledger._store.read() as connection:
        found = person_totals.borne_by_year(connection, ledger._caps)
    (delta,) = {float(totals.delta) for _, _, totals in found if totals.delta}
    assert delta == pytest.approx(4 * math.exp(1.5) * 1e-8)
    with pytest.raises(BudgetExceeded, match="delta"):
        ask(ledger, "0.5", weeks("2026-06-01", 22), delta="1e-9")
    ledger.close()


def test_sums_are_those_of_all_entries(tmp_path: Path) -> None:
    """Random charges, failures and settlings: brute force over every year and entry."""
    random, path = Random(1), tmp_path / "ledger"
    ledger = opened(path, epsilon="100", person=Charge(Fraction(900)))
    expected: dict[int, Fraction] = dict.fromkeys(range(2024, 2028), Fraction(0))
    for _ in range(60):
        start = date(2024, 1, 1) + timedelta(days=random.randrange(1200))
        parts = None if random.random() < 0.1 else weeks(start.isoformat(), random.choice([1, 2, 10, 60]))
        of_person, epsilon = random.random() < 0.2, Fraction(random.randrange(1, 9), 10)
        request = Request("s", "m", Charge(epsilon), parts=None if of_person else parts, of_person=of_person)
        try:
            reservation = ledger.reserve_all(analyst="ann", statement="SELECT", requests=[request])
        except BudgetExceeded:
            continue
        paid = epsilon
        if random.random() < 0.3:
            ledger.fail(reservation)
        else:
            paid = epsilon / random.choice([1, 2])
            ledger.settle_all(reservation, [Settled(Charge(paid), b"x", None)])
        for year in expected:
            begun = {
                part
                for part in range(WEEKS.number(date(year, 1, 1)), WEEKS.number(date(year, 12, 31)) + 1)
                if WEEKS.first_day(part).year == year and (parts is None or part in parts)
            }
            expected[year] += paid * (1 if of_person else len(begun))
    assert {year: borne(ledger, year) for year in expected} == expected
    ledger.close()
    with sqlite3.connect(path) as connection:
        assert find_problems(connection) == []


def test_the_sums_are_found_where_the_limit_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path)
    ask(ledger, "0.5", weeks("2026-03-02", 4))
    ledger.close()
    later = opened(path, person=Charge(Fraction(3)))
    with pytest.raises(BudgetExceeded, match="only 1 of what a patient may bear of 2026"):
        ask(later, "0.3", weeks("2026-03-02", 4))
    later.close()


def test_a_process_with_an_older_policy_adds_to_what_a_person_bears(tmp_path: Path) -> None:
    """It takes the person for the unit, whatever another process declares meanwhile."""
    path = tmp_path / "ledger"
    older = Ledger.open(path, policy_id="p", total=Charge(Fraction(9)), high_water=False)
    newer = opened(path, epsilon="9", person=Charge(Fraction(5)))
    ask(newer, "0.5", weeks("2026-03-02", 2))
    ask(older, "0.25", None)
    assert borne(newer, 2026) == Fraction("1.25")
    assert newer.check() == []
    older.close()
    newer.close()


def test_other_parts_leave_what_a_person_bore(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened(path, person=Charge(Fraction(20)))
    ask(ledger, "0.5", weeks("2026-03-02", 20))
    ledger.close()
    months = PartBudgets("patient", Calendar("month"), "patient months", periods=True)
    later = Ledger.open(
        path,
        policy_id="p",
        total=Charge(Fraction(1)),
        parts=months,
        person=Charge(Fraction(20)),
        high_water=False,
    )
    spent = borne(later, 2026)
    assert spent is not None
    assert spent >= 10
    later.close()


def opened_every(path: Path, every: Every, person: Charge | None = None) -> Ledger:
    parts = PartBudgets("patient", Calendar(every), f"patient {every}", periods=True)
    total = Charge(Fraction(9))
    return Ledger.open(path, policy_id="p", total=total, parts=parts, person=person, high_water=False)


@pytest.mark.parametrize(
    ("every", "later"), [("day", "week"), ("week", "month"), ("month", "year"), ("year", "week")]
)
@pytest.mark.parametrize("person", [None, Charge(Fraction(900))])
def test_longer_periods_leave_what_a_person_bore(
    tmp_path: Path, every: Every, later: Every, person: Charge | None
) -> None:
    path, periods, calendar = tmp_path / "ledger", 0.9 * MOST[every], Calendar(every)
    ledger, first = opened_every(path, every, person), calendar.number(date(2026, 1, 8))
    ask(ledger, "0.5", PartSet.of((first, first + int(periods))))
    bore = borne(ledger, 2026)
    ledger.close()
    changed = opened_every(path, later, Charge(Fraction(900)))
    assert borne(changed, 2026) == bore
    assert changed.check() == []
    changed.close()


@pytest.mark.parametrize("kept", [False, True])
def test_sums_may_be_larger_than_any_limit(tmp_path: Path, kept: bool) -> None:
    """Nothing limits them without the section: no statement is refused, and the ledger can be opened."""
    path = tmp_path / "ledger"
    if kept:
        limited = opened_every(path, "day", Charge(Fraction(900)))
        ask(limited, "1", None, of_person=True)
        limited.close()
    ledger = opened_every(path, "day")
    for _ in range(2):
        ask(ledger, "4", None)
    bore = borne(ledger, 2026)
    assert bore == 8 * 365 + kept
    ledger.close()
    changed = opened_every(path, "week", Charge(Fraction(900)))
    later = borne(changed, 2026)
    assert later is not None
    assert later >= bore
    with pytest.raises(BudgetExceeded):
        ask(changed, "0.1", weeks("2026-03-02"))
    changed.close()


def test_a_ladder_stays_one_of_shorter_periods(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = opened_every(path, "day")
    loss = PrivacyLoss.of(Fraction("0.1"))
    ledger.reserve_ladders([LadderRequest("visits", "rows", "v", "dpsql bounds visits", loss)])
    ledger.close()
    changed = opened_every(path, "year", Charge(Fraction(900)))
    ask(changed, "0.1", None)
    assert borne(changed, 2026) == Fraction("36.7")
    changed.close()


def random_charges(ledger: Ledger, every: Every, random: Random, expected: dict[int, Fraction]) -> None:
    calendar = Calendar(every)
    for _ in range(random.randrange(4)):
        first = calendar.number(date(2025, 6, 1) + timedelta(days=random.randrange(800)))
        last, epsilon = first + random.choice([0, 0, 4, 39]), Fraction(random.randrange(1, 9), 10)
        ask(ledger, str(epsilon), PartSet.of((first, last)))
        for year in expected:
            begun = sum(calendar.first_day(part).year == year for part in range(first, last + 1))
            expected[year] += epsilon * begun


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.sampled(3, rest="longer")
def test_a_restored_ledger_whose_periods_changed_bears_what_was_lost(tmp_path: Path, seed: int) -> None:
    """Random charges, changes of the periods and of the section; then a copy goes on alone."""
    random, path, mark = Random(seed), tmp_path / "ledger", tmp_path / "mark"
    expected: dict[int, Fraction] = dict.fromkeys(range(2025, 2028), Fraction(0))

    def opened_again(opening: Opening = Opening.USE) -> Ledger:
        parts = PartBudgets("patient", Calendar(every), f"patient {every}", periods=True)
        person = random.choice([None, Charge(Fraction(900))])
        return Ledger.open(
            path,
            policy_id="p",
            total=Charge(Fraction(900)),
            parts=parts,
            person=person,
            high_water=mark,
            opening=opening,
        )

    every = random.choice(EVERY)
    for step in range(4):
        ledger = opened_again()
        random_charges(ledger, every, random, expected)
        ledger.close()
        every = random.choice(EVERY)
        if step == 1:
            shutil.copy(path, tmp_path / "copy")
    shutil.copy(tmp_path / "copy", path)
    mark.rename(tmp_path / "away")
    ledger = opened_again()
    random_charges(ledger, every, random, expected)
    ledger.close()
    (tmp_path / "away").replace(mark)
    ledger = opened_again(Opening.ACCEPT)
    random_charges(ledger, every, random, expected)
    for year, least in expected.items():
        bore = borne(ledger, year)
        assert bore is not None
        assert bore >= least
    assert ledger.check() == []
    ledger.close()


def test_a_mark_tells_of_charges_that_are_in_no_sum_of_persons(tmp_path: Path) -> None:
    """What came after the periods changed is in the policy's total alone."""
    path, mark = tmp_path / "ledger", tmp_path / "mark"

    def opened_again(every: Every, opening: Opening = Opening.USE) -> Ledger:
        parts = PartBudgets("patient", Calendar(every), f"patient {every}", periods=True)
        total = Charge(Fraction(9))
        return Ledger.open(path, policy_id="p", total=total, parts=parts, high_water=mark, opening=opening)

    ledger = opened_again("week")
    ask(ledger, "0.1", weeks("2026-03-02"))
    ledger.close()
    opened_again("month").close()
    shutil.copy(path, tmp_path / "copy")
    ledger, first = opened_again("month"), Calendar("month").number(date(2026, 1, 8))
    ask(ledger, "0.5", PartSet.of((first, first + 11)))
    ledger.close()
    shutil.copy(tmp_path / "copy", path)
    mark.rename(tmp_path / "away")
    opened_again("month").close()  # it goes on alone
    (tmp_path / "away").replace(mark)
    ledger = opened_again("month", Opening.ACCEPT)
    bore = borne(ledger, 2026)
    assert bore is not None
    assert bore >= Fraction("6.1")
    ledger.close()


def test_a_ladder_is_borne_as_often_as_a_year_has_weeks(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger", person=Charge(Fraction(20)))
    wide = LadderRequest("visits", "rows", "v", "dpsql bounds visits", PrivacyLoss.of(Fraction("0.5")))
    with pytest.raises(BudgetExceeded):
        ledger.reserve_ladders([wide])
    narrow = LadderRequest("visits", "rows", "v", "dpsql bounds visits", PrivacyLoss.of(Fraction("0.1")))
    ledger.reserve_ladders([narrow])
    ask(ledger, "0.1", weeks("2026-03-02", 1))
    assert borne(ledger, 2026) == Fraction("5.4")
    ledger.close()


def _compete(path: Path, barrier: object, results: object, mode: str) -> None:
    ledger = opened(path, epsilon="1", person=Charge(Fraction(4)))
    barrier.wait()  # type: ignore[attr-defined]
    won = 0
    try:
        for week in range(3):
            first = (date(2026, 3, 2) + timedelta(days=7 * week)).isoformat()
            try:
                ask(ledger, "0.5", weeks(first, 2) if mode == "person" else weeks(first))
                won += 1
            except BudgetExceeded:
                pass
    finally:
        ledger.close()
    results.put(won)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("mode", "most"), [("person", 4), ("week", 6)])
def test_eight_processes_exceed_neither_budget(tmp_path: Path, mode: str, most: int) -> None:
    path = tmp_path / "ledger"
    opened(path, person=Charge(Fraction(4))).close()
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(8), context.Queue()
    processes = [context.Process(target=_compete, args=(path, barrier, results, mode)) for _ in range(8)]
    for process in processes:
        process.start()
    won = sum(results.get(timeout=40) for _ in processes)
    for process in processes:
        process.join()
    ledger = opened(path, person=Charge(Fraction(4)))
    spent = borne(ledger, 2026)
    assert spent is not None
    assert spent <= 4
    assert 0 < won <= most
    assert spent == won * (1 if mode == "person" else Fraction(1, 2))
    for low, high, budget in ((each.low, each.high, each.budget) for each in ledger.budget_by_parts()):
        assert budget.spent.epsilon <= 1, (low, high)
    ledger.close()
