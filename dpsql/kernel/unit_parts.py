"""Parts of units by a value: their numbers, and sets of them. Each unit is in exactly one part.

The part of a unit follows from a value that it has once and for all: the day, week, month, quarter or year of
a date, such as the week of its sign-up, or the value itself, such as its country. Parts are numbered in the
order of time, or of whole numbers, so that a set of parts is a few ranges of numbers. Two parts are of no
value: those of units whose value is NULL, and those of units without a value.
All dates before the year 1000 are one part, and all after the year 2999, infinite ones too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field
from datetime import date, timedelta
from typing import Final, Literal, get_args

from dpsql.errors import InternalError
from dpsql.lazy_dataclass import dataclass

Every = Literal["day", "week", "month", "quarter", "year"]
"""How long a part is; a week begins on Monday."""

EVERY: Final[tuple[Every, ...]] = get_args(Every)

PartIs = Every | Literal["value"]
"""What a part of units is: a period, or one value."""

PARTS: Final = 1 << 20
"""Numbers of parts lie below this."""
NULL_PART: Final = PARTS - 2
"""The part of units whose value is NULL."""
NO_HOME: Final = PARTS - 1
"""The part of units that have no row with a value."""
EARLIER: Final = 0
"""The part of all dates before those that are told apart."""
LATER: Final = PARTS - 3
"""The part of all dates after those that are told apart."""

FIRST_DAY: Final = date(1000, 1, 1)
LAST_DAY: Final = date(2999, 12, 31)
"""The first and the last day that are told apart."""
_ZERO: Final = 1 << 19
"""The number of the part in which 1970 begins."""
_EPOCH = date(1970, 1, 1).toordinal()
_MONDAY = date(1969, 12, 29).toordinal()
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True, slots=True)
class PartSet:
    """A set of parts: ranges of their numbers, both ends included, in order and apart from each other.

    >>> a, b = PartSet.of((3, 5), (9, 9)), PartSet.of((5, 9))
    >>> (a & b).ranges, (a | b).ranges, (b - a).ranges, 9 in a, a <= a | b
    (((5, 5), (9, 9)), ((3, 9),), ((6, 8),), True, True)
    """

    ranges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        last = -2
        for low, high in self.ranges:
            if not last + 1 < low <= high < PARTS:
                raise InternalError("ranges of parts are in order, and not next to each other")
            last = high

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> PartSet:
        """Return the set of the parts in ranges, which may overlap; some may be empty."""
        found: list[tuple[int, int]] = []
        for low, high in sorted(each for each in ranges if each[0] <= each[1]):
            if found and low <= found[-1][1] + 1:
                found[-1] = found[-1][0], max(found[-1][1], high)
            else:
                found.append((low, high))
        return cls(tuple(found))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, part: int) -> bool:
        place = bisect_right(self.ranges, (part, PARTS)) - 1
        return place >= 0 and self.ranges[place][0] <= part <= self.ranges[place][1]

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)

    def __or__(self, other: PartSet) -> PartSet:
        return PartSet.of(*self.ranges, *other.ranges)

    def __and__(self, other: PartSet) -> PartSet:
        pairs = ((a, b) for a in self.ranges for b in other.ranges)
        return PartSet.of(*((max(a[0], b[0]), min(a[1], b[1])) for a, b in pairs))

    def __sub__(self, other: PartSet) -> PartSet:
        starts = [0, *(high + 1 for _, high in other.ranges)]
        ends = [*(low - 1 for low, _ in other.ranges), PARTS - 1]
        return self & PartSet.of(*zip(starts, ends, strict=True))

    def __le__(self, other: PartSet) -> bool:
        return self & other == self


ALL_PARTS: Final = PartSet(((0, PARTS - 1),))
NO_PARTS: Final = PartSet(())


def both_parts(one: PartSet | None, other: PartSet | None) -> PartSet | None:
    """Return the parts that are in both of two sets; None stands for all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def either_parts(one: PartSet | None, other: PartSet | None) -> PartSet | None:
    """Return the parts that are in one of two sets; None stands for all."""
    return None if one is None or other is None else one | other


class Numbering:
    """Numbers the parts of units, and names them."""

    __slots__ = ()

    def words(self, parts: PartSet) -> str:
        """Say which parts are in a set.

        >>> weeks = Calendar("week")
        >>> one = weeks.parse("2026-W48")
        >>> weeks.words(PartSet.of((one, one))), weeks.words(PartSet.of((one, LATER), (NO_HOME, NO_HOME)))
        ('2026-W48', 'from 2026-W48, no row')
        """
        return ", ".join(self.range_words(ends) for each in parts.ranges for ends in self.split(each))

    def split(self, ends: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield what of a range has values, then the parts that have none, each alone."""
        low, high = ends
        if low <= LATER:
            yield from self._split_values(low, min(high, LATER))
        for part in (NULL_PART, NO_HOME):
            if low <= part <= high:
                yield part, part

    def _split_values(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        yield low, high

    def range_words(self, ends: tuple[int, int]) -> str:
        """Say which parts are in one of the ranges that `split` yields."""
        if ends == (NULL_PART, NULL_PART):
            return "NULL"
        return "no row" if ends == (NO_HOME, NO_HOME) else self._value_words(*ends)

    def _value_words(self, low: int, high: int) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class WholeNumbers(Numbering):
    """Numbers the parts of whole numbers: each is a part, but for those far from 0.

    >>> numbers = WholeNumbers()
    >>> numbers.words(PartSet.of((numbers.number(-3), numbers.number(7)))), numbers.number(10**12) == LATER
    ('-3 .. 7', True)
    """

    def number(self, value: int) -> int:
        """Return the number of the part that a value is."""
        return min(max(_ZERO + value, EARLIER), LATER)

    def value(self, number: int) -> int:
        """Return the value that a part is, if it is one alone."""
        if not EARLIER < number < LATER:
            raise InternalError("this part is no single value")
        return number - _ZERO

    def _value_words(self, low: int, high: int) -> str:
        if low == EARLIER:
            return "every value" if high == LATER else f"up to {self.value(high)}" if high else "far below 0"
        if high == LATER:
            return f"from {self.value(low)}" if low < LATER else "far above 0"
        return f"{self.value(low)}" if low == high else f"{self.value(low)} .. {self.value(high)}"


_NAMED: Final = 8
"""So many values are named in words."""


@dataclass(frozen=True, slots=True)
class ListedValues(Numbering):
    """Numbers the parts of listed values. All numbers that no listed value has are *outside*, as one part.

    A value that is not listed yet will have one of these numbers: what was charged to *outside* before then
    is charged to it. So no number is given to two values (`ledger.caps`).

    >>> lands = ListedValues((("DE", 0), ("FR", 1)))
    >>> lands.words(ALL_PARTS), lands.words(lands.equal("FR")), lands.equal("XX") == lands.outside
    ('DE, FR, outside the declared values, NULL, no row', 'FR', True)
    """

    values: tuple[tuple[str | bool, int], ...]
    _numbers: dict[str | bool, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_numbers", dict(self.values))
        numbers = {*self._numbers.values()}
        if not len(self._numbers) == len(numbers) == len(self.values) or not all(
            0 <= each < LATER for each in numbers
        ):
            raise InternalError("two listed values have one number")

    @property
    def listed(self) -> PartSet:
        """The parts of all listed values."""
        return PartSet.of(*((number, number) for _, number in self.values))

    @property
    def outside(self) -> PartSet:
        """The numbers of all values that are not listed; a truth value is TRUE or FALSE."""
        if self.values and isinstance(self.values[0][0], bool):
            return NO_PARTS
        return PartSet.of((EARLIER, LATER)) - self.listed

    def equal(self, value: str | bool) -> PartSet:
        """Return the parts of units with this value."""
        number = self._numbers.get(value)
        return self.outside if number is None else PartSet(((number, number),))

    def _split_values(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        here = PartSet(((low, high),))
        yield from (here & self.listed).ranges
        yield from (here & (PartSet.of((EARLIER, LATER)) - self.listed)).ranges

    def _value_words(self, low: int, high: int) -> str:
        found = [str(value) for value, number in self.values if low <= number <= high]
        more = [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
        return ", ".join([*found[:_NAMED], *more]) or "outside the declared values"


@dataclass(frozen=True, slots=True)
class Calendar(Numbering):
    """Numbers the parts of one length, and names them.

    >>> weeks = Calendar("week")
    >>> number = weeks.number(date(2026, 11, 29))
    >>> weeks.name(number), weeks.first_day(number), weeks.parse("2026-W48") == number
    ('2026-W48', datetime.date(2026, 11, 23), True)
    """

    every: Every

    def number(self, day: date) -> int:
        """Return the number of the part that a day is in."""
        if day < FIRST_DAY:
            return EARLIER
        return self._number(day) if day <= LAST_DAY else LATER

    def _number(self, day: date) -> int:
        if self.every == "day":
            return _ZERO + day.toordinal() - _EPOCH
        if self.every == "week":
            return _ZERO + (day.toordinal() - _MONDAY) // 7
        return _ZERO + ((day.year - 1970) * 12 + day.month - 1) // _MONTHS[self.every]

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last part that is one period: before is `EARLIER`, behind is `LATER`."""
        return self._number(FIRST_DAY), self._number(LAST_DAY)

    def first_day(self, number: int) -> date:
        """Return the first day of a part that is one period, or the day after the last one of them.

        Of the first of them it is the first day that is told apart, where that lies within a longer period.
        """
        least, most = self.ends
        if not least <= number <= most + 1:
            raise InternalError("this part has no first day")
        if number == most + 1:
            return LAST_DAY + timedelta(days=1)
        raw = number - _ZERO
        if self.every == "day":
            found = date.fromordinal(_EPOCH + raw)
        elif self.every == "week":
            found = date.fromordinal(_MONDAY + 7 * raw)
        else:
            month = raw * _MONTHS[self.every]
            found = date(1970 + month // 12, month % 12 + 1, 1)
        return max(found, FIRST_DAY)

    def name(self, number: int) -> str:
        """Return the name of a part that is one period, such as `2026-W48` or `2026-11`."""
        if self.every == "week":  # that of its Monday, or of the first day that is told apart
            year, week, _ = self.first_day(number).isocalendar()
            return f"{year}-W{week:02}"
        day = self.first_day(number)
        if self.every == "day":
            return day.isoformat()
        if self.every == "month":
            return f"{day.year}-{day.month:02}"
        return f"{day.year}-Q{day.month // 3 + 1}" if self.every == "quarter" else str(day.year)

    def parse(self, name: str) -> int | None:
        """Return the number of the part with a name; None if there is none."""
        match = _SHAPES[self.every].fullmatch(name)
        if match is None:
            return None
        year, *rest = map(int, match.groups())
        try:
            day = {
                "day": lambda: date(year, *rest),
                "week": lambda: date.fromisocalendar(year, rest[0], 1),
                "month": lambda: date(year, rest[0], 1),
                "quarter": lambda: date(year, 3 * rest[0] - 2, 1),
                "year": lambda: date(year, 1, 1),
            }[self.every]()
        except ValueError:
            return None
        return self.number(day) if FIRST_DAY <= day <= LAST_DAY else None

    def _value_words(self, low: int, high: int) -> str:
        least, most = self.ends
        if low < least and high > most:
            return f"every {self.every}"
        if high < least:
            return f"before {self.name(least)}"
        if low > most:
            return f"after {self.name(most)}"
        if low < least:
            return f"up to {self.name(high)}"
        if high > most:
            return f"from {self.name(low)}"
        return self.name(low) if low == high else f"{self.name(low)} .. {self.name(high)}"


_YEAR = "([0-9]{4})"
_SHAPES: Final = {
    every: re.compile(_YEAR + shape, re.ASCII)
    for every, shape in {
        "day": "-([0-9]{2})-([0-9]{2})",
        "week": "-W([0-9]{2})",
        "month": "-([0-9]{2})",
        "quarter": "-Q([1-4])",
        "year": "",
    }.items()
}
