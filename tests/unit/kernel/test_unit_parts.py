"""The numbers of parts, and sets of them."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

import pytest

from dpsql.errors import InternalError
from dpsql.kernel.unit_parts import (
    ALL_PARTS,
    EARLIER,
    EVERY,
    LATER,
    NO_HOME,
    NULL_PART,
    PARTS,
    Calendar,
    Every,
    PartSet,
)


@pytest.mark.parametrize("every", EVERY)
def test_each_day_is_in_one_part_and_parts_are_in_the_order_of_days(every: Every) -> None:
    calendar = Calendar(every)
    least, most = calendar.ends
    assert EARLIER < least < most < LATER
    before, day = EARLIER, date(995, 1, 1)
    random = Random(every)
    while day < date(3010, 1, 1):
        number = calendar.number(day)
        assert number >= before
        if least <= number <= most:
            first = calendar.first_day(number)
            assert first <= day < calendar.first_day(number + 1)
            assert calendar.parse(calendar.name(number)) == number or first == date(1000, 1, 1)
        before, day = number, day + timedelta(days=random.randrange(1, 400))
    assert calendar.number(date.min) == EARLIER
    assert calendar.number(date.max) == LATER


def test_a_week_begins_on_monday_and_has_the_name_of_its_year() -> None:
    weeks = Calendar("week")
    monday = date(2026, 11, 23)
    numbers = {weeks.number(monday + timedelta(days=each)) for each in range(7)}
    assert numbers == {weeks.parse("2026-W48")}
    assert weeks.number(monday + timedelta(days=7)) == numbers.pop() + 1
    assert weeks.name(weeks.number(date(2027, 1, 1))) == "2026-W53"
    assert weeks.parse("2027-W53") is None
    assert weeks.parse("2026-48") is None


@pytest.mark.parametrize(
    ("every", "name"),
    [("day", "2026-11-29"), ("month", "2026-11"), ("quarter", "2026-Q4"), ("year", "2026")],
)
def test_a_part_has_a_name(every: Every, name: str) -> None:
    calendar = Calendar(every)
    number = calendar.number(date(2026, 11, 29))
    assert (calendar.name(number), calendar.parse(name)) == (name, number)


def test_sets_of_parts_are_those_of_their_numbers() -> None:
    random, size = Random(1), 40
    for _ in range(500):
        ends = [sorted(random.choices(range(size), k=2)) for _ in range(random.randrange(4))]
        other = [sorted(random.choices(range(size), k=2)) for _ in range(random.randrange(4))]
        a, b = (PartSet.of(*((low, high) for low, high in each)) for each in (ends, other))
        x, y = ({n for low, high in each for n in range(low, high + 1)} for each in (ends, other))
        assert {n for n in range(size) if n in a} == x
        assert {n for n in range(size) if n in a | b} == x | y
        assert {n for n in range(size) if n in a & b} == x & y
        assert (a <= b, bool(a), len(a)) == (x <= y, bool(x), len(x))


@pytest.mark.parametrize("ranges", [((2, 1),), ((1, 2), (3, 4)), ((3, 4), (1, 1)), ((0, PARTS),), ((-1, 0),)])
def test_ranges_that_are_no_set_are_refused(ranges: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(InternalError):
        PartSet(ranges)


def test_parts_that_are_no_period_have_words_of_their_own() -> None:
    weeks = Calendar("week")
    here = weeks.parse("2026-W48")
    assert here is not None
    assert weeks.words(ALL_PARTS) == "every week, NULL, no row"
    assert weeks.words(PartSet.of((0, here), (NULL_PART, NO_HOME))) == "up to 2026-W48, NULL, no row"
    assert weeks.words(PartSet.of((here, here + 1))) == "2026-W48 .. 2026-W49"
    ends = [(here, LATER), (NULL_PART, NULL_PART), (NO_HOME, NO_HOME)]
    assert [*weeks.split((here, NO_HOME))] == ends
