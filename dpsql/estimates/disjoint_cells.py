"""Cells of rows, told apart by the values of single columns, and which of them make up another one.

A cell is the rows whose values lie in one set for each of some columns. Several cells that are disjoint and
together are another cell have numbers that add up to its number. Which are taken depends on the cells alone
and their order, never on numbers: `compose_cell` takes the shortest beginning of a list from which a cell can
be made up at all, and from that always the earlier one first. So what is released later changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.value_sets import ValueSet

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
