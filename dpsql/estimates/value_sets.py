"""Sets of values of one column: what a condition or a group of a released number takes in.

A set is a union of intervals of the column's ordered values, and may hold NULL. A list of values is a union
of intervals of one value each, so that lists, ranges and their complements are compared alike, whatever the
size of the column's domain. Nothing here reads data: the sets are those of the statements.

A cell is the rows whose values lie in one set for each of some columns. Several cells that are disjoint and
together are another cell have numbers that add up to its number. Which are taken depends on the cells alone
and their order, never on numbers: `compose_cell` takes the shortest beginning of a list from which a cell can
be made up at all, and from that always the earlier one first. So what is released later changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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


_MOST_TRIES: Final = 20_000
"""So many cells are tried for one that is made up of others."""


EVERY: Final = ValueSet.everything()
"""The values of a column that a cell does not name."""

Cell = Mapping[str, ValueSet]
"""The values of each column; a column that is not named has every value."""


def meet(cell: Cell, other: Cell) -> Cell | None:
    """Return the rows that are in both cells; None: there can be none."""
    found = dict(cell)
    for column, values in other.items():
        found[column] = found[column] & values if column in found else values
    return None if any(not values for values in found.values()) else found


def is_within(cell: Cell, other: Cell) -> bool:
    """Return whether all rows of a cell are in another one."""
    return all(cell.get(column, EVERY) <= values for column, values in other.items())


def subtract(cell: Cell, inner: Cell) -> list[Cell]:
    """Return disjoint cells that have the rows of a cell without those of one within it."""
    found, here = list[Cell](), dict(cell)
    for column, values in inner.items():
        rest = here.get(column, EVERY) - values
        if rest:
            found.append({**here, column: rest})
        here[column] = values
    return found


def compose_cell(cell: Cell, listed: Sequence[Cell]) -> list[int] | None:
    """Return the places of listed, disjoint cells that make up a cell; None if there are none.

    They are found in the shortest beginning of the list that has such cells.
    """
    within = [place for place, each in enumerate(listed) if is_within(each, cell)]
    found: list[int] | None = None
    while (again := _cover(cell, [listed[place] for place in within])) is not None:
        found = [within[place] for place in again]
        within = within[: max(again)]
    return None if found is None else sorted(found)


def find_missing(cell: Cell, listed: Iterable[Cell]) -> list[Cell]:
    """Return disjoint cells for the rows of a cell that no listed cell within it has."""
    left = [cell]
    for each in listed:
        if is_within(each, cell):
            left = [rest for piece in left for rest in _without(piece, each)]
    return left


def join_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return disjoint cells with those joined that differ in the values of one column alone.

    >>> a, b = ({"x": ValueSet.of_values(name), "y": ValueSet.of_range(1, 3)} for name in "ab")
    >>> join_cells([a, b]) == [{"x": ValueSet.of_values("ab"), "y": ValueSet.of_range(1, 3)}]
    True
    """
    found = list[Cell]()
    for cell in cells:
        joined: Cell | None = cell
        while joined is not None:
            made, joined = joined, None
            for place, other in enumerate(found):
                apart = [c for c in {**made, **other} if made.get(c) != other.get(c)]
                if len(apart) == 1 and apart[0] in made and apart[0] in other:
                    joined = {**made, apart[0]: other[apart[0]] | made[apart[0]]}
                    del found[place]
                    break
        found.append(made)
    return found


def _cover(cell: Cell, listed: Sequence[Cell]) -> list[int] | None:
    """Return the places of disjoint cells that are a cell together, the earlier ones first."""
    if find_missing(cell, listed):
        return None
    index, tries = _Index(listed), 0
    waiting: list[tuple[list[Cell], list[int]]] = [([cell], [])]
    while waiting:
        left, taken = waiting.pop()
        if not left:
            return taken
        tries += 1
        if tries > _MOST_TRIES:
            return None
        more = []
        for place in index.find(left[-1]):
            rest = _take(left, listed[place])
            if rest is not None:
                more.append((rest, [*taken, place]))
        waiting += reversed(more)
    return None


class _Index:
    """Finds the cells of a list that have the first row of another cell."""

    def __init__(self, listed: Sequence[Cell]) -> None:
        self.columns = sorted({column for each in listed for column in each})
        self.sets: list[list[ValueSet]] = []
        self.places: list[NDArray[np.int64]] = []
        for column in self.columns:
            known: dict[ValueSet, int] = {}
            found = [known.setdefault(each.get(column, EVERY), len(known)) for each in listed]
            self.sets.append([*known])
            self.places.append(np.array(found, dtype=np.int64))
        self.size = len(listed)

    def find(self, cell: Cell) -> list[int]:
        there = np.ones(self.size, dtype=bool)
        for column, sets, places in zip(self.columns, self.sets, self.places, strict=True):
            first = cell.get(column, EVERY).first
            there &= np.array([each.holds(first) for each in sets])[places]
        return [int(place) for place in np.flatnonzero(there)]


def _take(open_cells: Iterable[Cell], cell: Cell) -> list[Cell] | None:
    """Return open cells without a cell that lies in them; None if some of it does not."""
    left, inside = list[Cell](), [cell]
    for each in open_cells:
        both = meet(each, cell)
        if both is None:
            left.append(each)
            continue
        left += subtract(each, both)
        inside = [rest for piece in inside for rest in _without(piece, each)]
    return None if inside else left


def _without(cell: Cell, other: Cell) -> list[Cell]:
    both = meet(cell, other)
    return [cell] if both is None else subtract(cell, both)
