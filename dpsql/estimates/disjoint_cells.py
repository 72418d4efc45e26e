"""Cells of rows, told apart by the values of single columns, and which of them make up another one.

A cell is the rows whose values lie in one set for each of some columns. Several cells that are disjoint and
together are another cell have numbers that add up to its number. Which are taken depends on the cells alone
and their order, never on numbers: `compose_cell` takes the shortest beginning of a list from which a cell can
be made up at all, and from that always the earlier one first. So what is released later changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.lazy_dataclass import dataclass

Value = str | bool
"""A value of a column without an order: texts, truth values."""
Token = int | str | None
"""A value by which sets are told apart: a number, a name as text, True for all other names, None for NULL."""

_LOW, _HIGH = -(1 << 80), 1 << 80
_MOST_TRIES: Final = 20_000
"""So many cells are tried for one that is made up of others."""


@dataclass(frozen=True, slots=True)
class Values:
    """A set of values of a column, and whether NULL is one of them.

    Attributes
    ----------
    ranges
        Of a column of dates, moments or whole numbers: ranges of numbers, both ends included, in order and
        apart. None: the column has names.
    names
        The values of another column.
    others
        Whether all values are meant but `names`.
    null
        Whether NULL is among the values.
    """

    ranges: tuple[tuple[int, int], ...] | None
    names: frozenset[Value] = frozenset()
    others: bool = False
    null: bool = False

    @classmethod
    def of_ranges(cls, *ranges: tuple[int | None, int | None], null: bool = False) -> Values:
        """Return the numbers in ranges, which may overlap; None stands for no end.

        >>> Values.of_ranges((3, 5), (None, 3)) == Values.of_ranges((None, 5))
        True
        """
        known = ((_LOW if a is None else a, _HIGH if b is None else b) for a, b in ranges)
        found: list[tuple[int, int]] = []
        for low, high in sorted(each for each in known if each[0] <= each[1]):
            if found and low <= found[-1][1] + 1:
                found[-1] = found[-1][0], max(found[-1][1], high)
            else:
                found.append((low, high))
        return cls(tuple(found), null=null)

    @classmethod
    def of_names(cls, names: Iterable[Value], *, others: bool = False, null: bool = False) -> Values:
        """Return these values, or all others."""
        return cls(None, frozenset(names), others, null)

    @property
    def every(self) -> Values:
        """All values of the same column."""
        return Values.of_names((), others=True, null=True) if self.ranges is None else EVERY_NUMBER

    @property
    def known(self) -> Values:
        """The same values without NULL."""
        return Values(self.ranges, self.names, self.others)

    def __bool__(self) -> bool:
        return self.null or self.others or bool(self.names if self.ranges is None else self.ranges)

    def __and__(self, other: Values) -> Values:
        null = self.null and other.null
        if self.ranges is not None and other.ranges is not None:
            pairs = ((a, b) for a in self.ranges for b in other.ranges)
            found = (pair for pair in ((max(a[0], b[0]), min(a[1], b[1])) for a, b in pairs))
            return Values.of_ranges(*found, null=null)
        if self.others and other.others:
            return Values.of_names(self.names | other.names, others=True, null=null)
        if self.others or other.others:
            names, without = (other, self) if self.others else (self, other)
            return Values.of_names(names.names - without.names, null=null)
        return Values.of_names(self.names & other.names, null=null)

    def __or__(self, other: Values) -> Values:
        return self.every - ((self.every - self) & (self.every - other))

    def __sub__(self, other: Values) -> Values:
        null = self.null and not other.null
        if self.ranges is not None:
            gaps, low = list[tuple[int, int]](), _LOW
            for start, end in other.ranges or ():
                gaps.append((low, start - 1))
                low = end + 1
            found = self & Values.of_ranges(*gaps, (low, _HIGH))
            return Values(found.ranges, null=null)
        rest = Values.of_names(other.names, others=not other.others)
        return Values.of_names((self & rest).names, others=(self & rest).others, null=null)

    def __le__(self, other: Values) -> bool:
        return not self - other

    def first(self) -> Token:
        """Return one of the values: the least number, or a name, else what no cell tells apart, else NULL."""
        if self.ranges:
            return self.ranges[0][0]
        if self.names and not self.others:
            return str(min(self.names, key=str))
        return True if self.others else None

    def has(self, token: Token) -> bool:
        """Return whether a value that `first` has returned, of a set of the same column, is in this one."""
        if token is None:
            return self.null
        if token is True:
            return self.others
        if self.ranges is None:
            return (token in {str(name) for name in self.names}) is not self.others
        return any(low <= int(token) <= high for low, high in self.ranges)

    def facts(self) -> dict[str, Any]:
        """Return the set as values that JSON has."""
        if self.ranges is None:
            return {"names": sorted(self.names, key=str), "others": self.others, "null": self.null}
        ends = [[None if a == _LOW else a, None if b == _HIGH else b] for a, b in self.ranges]
        return {"ranges": ends, "null": self.null}

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Values:
        """Return the set that `facts` was made of."""
        if "ranges" in facts:
            return cls.of_ranges(*map(tuple, facts["ranges"]), null=facts["null"])
        return cls.of_names(facts["names"], others=facts["others"], null=facts["null"])

    def ends(self) -> Iterator[tuple[int | None, int | None]]:
        """Yield the ranges; None stands for no end."""
        for low, high in self.ranges or ():
            yield None if low == _LOW else low, None if high == _HIGH else high


EVERY_NUMBER: Final = Values.of_ranges((None, None), null=True)
NULL_NAME: Final = Values.of_names((), null=True)

Cell = Mapping[str, Values]
"""The values of each column; a column that is not named has every value."""


def meet(cell: Cell, other: Cell) -> Cell | None:
    """Return the rows that are in both cells; None: there can be none."""
    found = dict(cell)
    for column, values in other.items():
        found[column] = found[column] & values if column in found else values
    return None if any(not values for values in found.values()) else found


def is_within(cell: Cell, other: Cell) -> bool:
    """Return whether all rows of a cell are in another one."""
    return all(cell.get(column, values.every) <= values for column, values in other.items())


def subtract(cell: Cell, inner: Cell) -> list[Cell]:
    """Return disjoint cells that have the rows of a cell without those of one within it."""
    found, here = list[Cell](), dict(cell)
    for column, values in inner.items():
        whole = here.get(column, values.every)
        rest = whole - values
        if rest:
            found.append({**here, column: rest})
        here[column] = values
    return found


def compose_cell(cell: Cell, listed: Sequence[Cell]) -> list[int] | None:
    """Return the places of disjoint cells of a list that are a cell together; None if there are none.

    They are found in the shortest beginning of the list that has such cells.
    """
    within = [place for place, each in enumerate(listed) if is_within(each, cell)]
    found: list[int] | None = None
    while (again := _cover(cell, [listed[place] for place in within])) is not None:
        found = [within[place] for place in again]
        within = within[: max(again)]
    return None if found is None else sorted(found)


def find_missing(cell: Cell, listed: Iterable[Cell]) -> list[Cell]:
    """Return disjoint cells that have the rows of a cell which are in no cell of a list."""
    left = [cell]
    for each in listed:
        if is_within(each, cell):
            left = [rest for piece in left for rest in _without(piece, each)]
    return left


def join_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return disjoint cells with those joined that differ in the values of one column alone.

    >>> a, b = ({"x": Values.of_names([name]), "y": Values.of_ranges((1, 2))} for name in "ab")
    >>> join_cells([a, b]) == [{"x": Values.of_names("ab"), "y": Values.of_ranges((1, 2))}]
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
        self.sets: list[list[Values | None]] = []
        self.places: list[NDArray[np.int64]] = []
        for column in self.columns:
            known: dict[Values | None, int] = {}
            found = [known.setdefault(each.get(column), len(known)) for each in listed]
            self.sets.append([*known])
            self.places.append(np.array(found, dtype=np.int64))
        self.size = len(listed)

    def find(self, cell: Cell) -> list[int]:
        there = np.ones(self.size, dtype=bool)
        for column, sets, places in zip(self.columns, self.sets, self.places, strict=True):
            known = cell.get(column)
            every = next((each.every for each in sets if each is not None), None)
            values = known or every
            if values is not None:
                token = values.first()
                held = np.array([each is None or each.has(token) for each in sets])
                there &= held[places]
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
