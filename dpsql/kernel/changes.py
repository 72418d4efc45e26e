"""How far one unit can change the numbers of a counting query, and those that a mechanism takes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpsql.errors import InternalError
from dpsql.kernel.unit_parts import PartSet, either_parts
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NumberChange:
    """How far one unit more can change a number."""

    low: int
    high: int
    """In each group by at least `low`, at most 0, and by at most `high`, at least 0."""
    total: int | None = None
    """In all groups together by at most this, without signs; None: that has no bound."""

    def __post_init__(self) -> None:
        if not self.low <= 0 <= self.high:
            raise InternalError("a unit that is not there changes nothing")

    @property
    def most(self) -> int:
        """The most by which one unit changes the number in a group, up or down."""
        return max(-self.low, self.high)


@dataclass(frozen=True, slots=True)
class UnitChanges:
    """What is proved of how one unit changes the groups of a counting query."""

    numbers: tuple[NumberChange | None, ...]
    """Its numbers, in order; None for a column that is the cell of a row."""
    public: bool = True
    """Whether the groups are those of a public domain, of which one that is missing counts 0. Else they are
    those that have rows."""
    declared: bool = True
    """Whether all groups of a public domain are there, once."""
    decides: int | None = None
    """Which number is more than 0 in the groups that are there, where they are not public."""
    listed: int | None = None
    """So many of these are there at most, those with the largest numbers; None: all are."""
    groups: int | None = None
    """In at most how many groups a unit changes anything; None: that has no bound."""
    grouped: tuple[tuple[frozenset[str], int], ...] = ()
    """For sets of key columns, in how many combinations of their values one unit is at most."""
    one_row: bool = False
    """Whether a unit changes one row alone."""
    one_cell: bool = False
    """Whether it changes one cell of each group."""
    every_group: bool = False
    """Whether all groups of a public domain are there, with cells in at least one row each."""
    cells: tuple[int, int] | None = None
    """The least and the greatest cell of a row, whatever the rows are; None: nothing is known."""
    together: tuple[tuple[frozenset[int], int, int | None], ...] = ()
    """Numbers of which all changes in a group add up to at most so much, without signs; and the same in all
    groups, None: that has no bound."""
    bounds: tuple[int, ...] = ()
    fine: int | None = None
    """Of a search of bounds: as its certificate has them."""
    parts: PartSet | None = None
    """The parts of units that change anything; None: all."""

    def number(self, place: int) -> NumberChange:
        """Return how one unit changes the number at a place; `InternalError` if nothing is proved of it."""
        found = self.numbers[place]
        if found is None:
            raise InternalError("nothing is proved of this number")
        return found

    def of(self, places: tuple[int, ...], groups: int, *, by_group: bool = False) -> Taken:
        """Return how a unit changes these numbers of so many groups, which may be chosen by what is released.

        They stand number by number, or (`by_group`) group by group.
        """
        numbers = tuple(map(self.number, places))
        once = len({*places}) == len(places)
        found = [(groups * each, total) for all_, each, total in self.together if once and all_ >= {*places}]
        own = [most if total is None else min(most, total) for most, total in found]
        return Taken(numbers, groups, by_group, min(own, default=None))

    def within(self, keys: Iterable[int]) -> int | None:
        """Return in how many combinations of values of some keys one unit is at most; None: no bound."""
        names = {f"k{place}" for place in keys}
        found = [most for by, most in self.grouped if names <= by]
        return min(found if self.groups is None else [*found, self.groups], default=None)

    def beside(self, others: UnitChanges) -> UnitChanges:
        """Return the changes of these numbers, then those of other numbers: of one group each."""
        parts = either_parts(self.parts, others.parts)
        return replace(self, numbers=self.numbers + others.numbers, parts=parts)


@dataclass(frozen=True, slots=True)
class Taken:
    """How far one unit changes what a mechanism takes: some numbers of each of a given number of groups."""

    numbers: tuple[NumberChange, ...]
    groups: int
    by_group: bool = False
    together: int | None = None
    """What all changes of these numbers add up to at most; None: what those of each do."""

    @property
    def low(self) -> int:
        """The least change of any number, at most 0."""
        return min((each.low for each in self.numbers), default=0)

    @property
    def high(self) -> int:
        """The greatest change of any number, at least 0."""
        return max((each.high for each in self.numbers), default=0)

    @property
    def most(self) -> int:
        """The greatest change of any of the numbers, up or down."""
        return max(-self.low, self.high)

    @property
    def span(self) -> int:
        """By how much the changes of two groups can differ."""
        return self.high - self.low

    @property
    def totals(self) -> tuple[int, ...]:
        """The most by which each number changes in all of the groups together."""
        every = [(self.groups * each.most, each.total) for each in self.numbers]
        return tuple(most if total is None else min(most, total) for most, total in every)

    @property
    def total(self) -> int:
        """The most that all changes of one unit add up to, without signs."""
        found = sum(self.totals)
        return found if self.together is None else min(found, self.together)

    def steps(self, each: tuple[int, ...]) -> list[tuple[NumberChange, int, int]] | None:
        """Return each number with the total of its changes and the size of its steps.

        `each` are the steps of values in turn, repeated until there is one a value. None: the groups of a
        number do not have the same.
        """
        kinds, size = len(self.numbers), len(self.numbers) * self.groups
        if not size:
            return []
        if len(each) == 1:
            own = [{*each}] * kinds
        elif self.by_group and len(each) == kinds:
            own = [{step} for step in each]
        elif not self.by_group and len(each) == size:
            own = [{*each[j * self.groups : (j + 1) * self.groups]} for j in range(kinds)]
        else:
            return None
        if any(len(found) > 1 for found in own):
            return None
        return list(zip(self.numbers, self.totals, map(min, own), strict=True))
