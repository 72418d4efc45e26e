"""Sets of values of one column: what a condition or a group of a released number takes in.

A set is a union of intervals of the column's ordered values, and may hold NULL. A list of values is a union
of intervals of one value each, so that lists, ranges and their complements are compared alike, whatever the
size of the column's domain. Nothing here reads data: the sets are those of the statements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from dpsql.lazy_dataclass import dataclass

Cut = tuple[int, Any, int]
"""A place between values, ordered as a tuple: before all (-1), after all (1), or 0 with a value and whether
it lies before that value (0) or after it (1)."""

BEFORE_ALL: Final[Cut] = (-1, 0, 0)
AFTER_ALL: Final[Cut] = (1, 0, 0)


def cut_before(value: Any) -> Cut:  # noqa: ANN401  a value of a column, of any ordered type
    """Return the place before a value."""
    return 0, int(value) if isinstance(value, bool) else value, 0


def cut_after(value: Any) -> Cut:  # noqa: ANN401  as above
    """Return the place after a value: of whole numbers and dates, the place before the next one."""
    if isinstance(value, int):
        return 0, int(value) + 1, 0
    if isinstance(value, date) and not isinstance(value, datetime) and value < date.max:
        return 0, value + timedelta(days=1), 0
    return 0, value, 1


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A set of values of one column, all of one type: intervals in order and apart from each other, and NULL.

    >>> few, young = ValueSet.of_values([17, 18, 30, None]), ValueSet.of_range(None, 20)
    >>> (few & young) == ValueSet.of_range(17, 19), 30 in few - young, few - young <= few
    (True, True, True)
    """

    intervals: tuple[tuple[Cut, Cut], ...]
    null: bool = False

    @classmethod
    def of_values(cls, values: Iterable[Any]) -> ValueSet:
        """Return the set of some values; None stands for NULL.

        Whole numbers and dates are followed by a next value. A column of real numbers is given as floats.
        """
        listed = list(values)
        there = [(cut_before(each), cut_after(each)) for each in listed if each is not None]
        return cls(_join(there), len(there) < len(listed))

    @classmethod
    def of_range(cls, low: object, high: object, *, closed: bool = False) -> ValueSet:
        """Return the values from `low` to below `high`, or up to it; None for an open end, without NULL."""
        start = BEFORE_ALL if low is None else cut_before(low)
        end = AFTER_ALL if high is None else cut_after(high) if closed else cut_before(high)
        return cls(_join([(start, end)]))

    @classmethod
    def everything(cls) -> ValueSet:
        """Return the set of all values and NULL."""
        return cls(((BEFORE_ALL, AFTER_ALL),), null=True)

    def __bool__(self) -> bool:
        return self.null or bool(self.intervals)

    def __contains__(self, value: object) -> bool:
        return self.holds(None if value is None else cut_before(value))

    @property
    def first(self) -> Cut | None:
        """The place before the least value; None if NULL is all there is."""
        return self.intervals[0][0] if self.intervals else None

    def holds(self, place: Cut | None) -> bool:
        """Return whether the value behind a place is in the set; None stands for NULL."""
        if place is None:
            return self.null
        at = bisect_right(self.intervals, place, key=lambda interval: interval[0]) - 1
        return at >= 0 and place < self.intervals[at][1]

    def __or__(self, other: ValueSet) -> ValueSet:
        return ValueSet(_join([*self.intervals, *other.intervals]), self.null or other.null)

    def __and__(self, other: ValueSet) -> ValueSet:
        found: list[tuple[Cut, Cut]] = []
        mine, theirs = self.intervals, other.intervals
        i = j = 0
        while i < len(mine) and j < len(theirs):
            low, high = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if low < high:
                found.append((low, high))
            if mine[i][1] <= theirs[j][1]:
                i += 1
            else:
                j += 1
        return ValueSet(tuple(found), self.null and other.null)

    def __sub__(self, other: ValueSet) -> ValueSet:
        return self & other.complement()

    def __le__(self, other: ValueSet) -> bool:
        return self & other == self

    def complement(self) -> ValueSet:
        """Return the set of all values that this one has not."""
        ends = [BEFORE_ALL, *(cut for interval in self.intervals for cut in interval), AFTER_ALL]
        pairs = zip(ends[::2], ends[1::2], strict=True)
        return ValueSet(tuple((low, high) for low, high in pairs if low < high), not self.null)

    @property
    def known(self) -> ValueSet:
        """The set without NULL."""
        return ValueSet(self.intervals)

    def to_data(self) -> list[Any]:
        """Return the set as values that JSON has, exactly."""
        return [[[write_cut(low), write_cut(high)] for low, high in self.intervals], self.null]

    @classmethod
    def of_data(cls, data: Sequence[Any]) -> ValueSet:
        """Return the set that `to_data` wrote."""
        intervals, null = data
        return cls(tuple((read_cut(low), read_cut(high)) for low, high in intervals), bool(null))

    def cuts(self) -> list[Cut]:
        """Return the ends of the set's intervals, in ascending order."""
        return [cut for interval in self.intervals for cut in interval]


def unite(sets: Iterable[ValueSet]) -> ValueSet:
    """Return the union of sets."""
    listed = list(sets)
    return ValueSet(_join([part for each in listed for part in each.intervals]), any(s.null for s in listed))


def are_apart(sets: Sequence[ValueSet]) -> bool:
    """Return whether no value is in two of the sets."""
    parts = sorted(part for each in sets for part in each.intervals)
    in_order = all(one[1] <= next_one[0] for one, next_one in pairwise(parts))
    return in_order and sum(each.null for each in sets) <= 1


def _join(intervals: list[tuple[Cut, Cut]]) -> tuple[tuple[Cut, Cut], ...]:
    """Return intervals in order, with those joined that overlap or touch."""
    found: list[tuple[Cut, Cut]] = []
    for low, high in sorted(each for each in intervals if each[0] < each[1]):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


_TYPES: Final = {
    "int": (int, lambda value: value, int),
    "float": (float, float.hex, float.fromhex),
    "decimal": (Decimal, str, Decimal),
    "text": (str, str, str),
    "time": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
}


def write_cut(cut: Cut) -> list[Any]:
    """Return a cut as values of JSON, exactly.

    >>> write_cut(cut_before(date(2026, 1, 5))), read_cut(write_cut(cut_after(0.1)))
    ([0, 'date', '2026-01-05', 0], (0, 0.1, 1))
    """
    place, value, side = cut
    if place:
        return [place]
    for name, (kind, write, _) in _TYPES.items():
        if isinstance(value, kind):
            return [0, name, write(value), side]  # type: ignore[operator]  # of the type's own value
    raise ValueError(f"values of type {type(value).__name__} cannot be written")


def read_cut(data: Sequence[Any]) -> Cut:
    """Return the cut that `write_cut` wrote."""
    if data[0]:
        return int(data[0]), 0, 0
    return 0, _TYPES[data[1]][2](data[2]), int(data[3])  # type: ignore[operator]  # as above
