"""What a report asks, and which marginals it may measure: groupings below its statements, calendar blocks.

A marginal that is measured has no unit in two of its numbers. Running totals have one in many, so that what
they add up is measured in their place: the smallest sets of values that they tell apart, such as days, and
weeks, months, quarters and years of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from dpsql.estimates.reports.column_atoms import Bools, ColumnAtoms
from dpsql.estimates.reports.marginals import Axis, Marginal
from dpsql.estimates.value_sets import AFTER_ALL, BEFORE_ALL, Cut, ValueSet, unite
from dpsql.lazy_dataclass import dataclass

_MOST_SETS = 64
MOST_CANDIDATES = 256
"""Of more groupings, only those of the statements themselves are candidates."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One statement of a report: its numbers, and the parts of the data that it sums."""

    marginal: Marginal
    """The numbers: in a report by parts, without the condition on the part."""
    window: int | None = 1
    """How many parts it sums, counted from the last one; None: all since the beginning."""
    weight: Fraction = Fraction(1)
    """How much its mean variance counts."""
    shown: bool = True
    """Whether the statement shows its numbers; else it shows only what SQL adds up of them, and they count
    for little."""

    def __post_init__(self) -> None:
        if (self.window is not None and self.window < 1) or self.weight <= 0:
            raise ValueError("a statement reads at least one part and has a positive weight")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A marginal that may be measured: of each part, or of each block of so many parts when it is over."""

    marginal: Marginal
    parts: int = 1

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError("a block has at least one part")


def list_candidates(
    statements: Sequence[Wanted], blocks: Sequence[int] = (), universe: Mapping[str, ValueSet] | None = None
) -> tuple[Candidate, ...]:
    """Return the marginals worth measuring: the statements' groupings, coarser ones, and blocks.

    With `universe`, the values that rows may have in some columns, what conditions on a column leave is one
    more group of it, which costs nothing.

    >>> sex = Axis.of_groups("sex", ["f", "m"])
    >>> [each.marginal.columns for each in list_candidates([Wanted(Marginal((sex,)))])]
    [('sex',), ()]
    """
    own = list(dict.fromkeys(_order(each.marginal) for each in statements))
    finer = _list_finer_axes(own, universe or {})
    options = [_list_options(each, finer) for each in own]
    if sum(math.prod(len(axes) for axes in each) for each in options) > MOST_CANDIDATES:
        options = [[axes[:1] for axes in each] for each in options]
    found = dict.fromkeys(
        Marginal(tuple(axis for axis in axes if axis is not None))
        for each in options
        for axes in product(*each)
    )
    longer = {
        _order(each.marginal)
        for each in statements
        if each.window is None and all(axis.is_apart() for axis in each.marginal.axes)
    }
    long = [Candidate(each, parts) for parts in blocks if parts > 1 for each in found if each in longer]
    return (*(Candidate(each) for each in found), *long)


def _order(marginal: Marginal) -> Marginal:
    """Return a marginal with its axes in the order of their columns' names."""
    return Marginal(tuple(sorted(marginal.axes, key=lambda axis: axis.column)))


def _list_options(marginal: Marginal, finer: Mapping[str, Sequence[Axis]]) -> list[list[Axis | None]]:
    """Return for each axis of a statement what may be measured on its column; of equal axes the first."""
    found = []
    for axis in marginal.axes:
        equal = {frozenset(each.rows): each for each in finer[axis.column]}
        options = [equal.get(frozenset(each.rows), each) for each in _list_axes(axis)]
        options += [each for each in finer[axis.column] if _refines(each, axis)]
        first: dict[frozenset[ValueSet], Axis] = {}
        for each in options:
            first.setdefault(frozenset(each.rows), each)
        found.append([*first.values(), None])
    return found


def _list_finer_axes(
    marginals: Sequence[Marginal], universe: Mapping[str, ValueSet]
) -> dict[str, list[Axis]]:
    """Return for each column the axes whose sets are apart, and that of all their sets together.

    Conditions that no unit meets together are measured at once for the price of one.
    """
    found: dict[str, list[Axis]] = {}
    for marginal in marginals:
        for axis in marginal.axes:
            known = found.setdefault(axis.column, [])
            if axis.is_apart() and axis not in known:
                known.append(axis)
    for column, axes in found.items():
        together = _divide(column, axes)
        if together is not None and column in universe:
            rest = universe[column] - unite(together.rows)
            if rest:
                together = Axis(column, (*together.rows, rest), (*together.labels, "other values"))
        if together is not None and all(set(together.rows) != set(axis.rows) for axis in axes):
            axes.append(together)
    return found


def _divide(column: str, axes: Sequence[Axis]) -> Axis | None:
    """Return the axis of all sets that some axes tell apart; None if there are many."""
    pieces: dict[ValueSet, str] = {}
    for axis in axes:
        for row, label in zip(axis.rows, axis.labels, strict=True):
            rest, divided = row, dict[ValueSet, str]()
            for piece, name in pieces.items():
                inside = piece & row
                if inside and inside != row:
                    divided[inside] = name if inside == piece else f"{name} and {label}"
                elif inside:
                    divided[inside] = label
                if piece - row:
                    divided[piece - row] = name
                rest -= piece
            pieces = divided | ({rest: label} if rest else {})
            if len(pieces) > _MOST_SETS:
                return None
    return Axis(column, tuple(pieces), tuple(pieces.values())) if pieces else None


def _refines(finer: Axis, axis: Axis) -> bool:
    """Return whether each set of an axis is a union of sets of another."""
    if len(finer.rows) <= len(axis.rows):
        return False
    return all(row == unite(each for each in finer.rows if each <= row) for row in axis.rows)


def _list_axes(axis: Axis) -> Iterator[Axis]:
    """Yield an axis whose sets are apart; of one whose sets overlap, what they consist of, and blocks of it.

    There are blocks where each set is a run of neighbours, as running totals and moving sums are.
    """
    if axis.is_apart():
        yield axis
        return
    pieces, held = _divide_in_order(axis.rows)
    starts = [_start_of(each) for each in pieces]
    labels = ["NULL" if each is None else str(each) for each in starts]
    yield Axis(axis.column, tuple(pieces), tuple(labels))
    places = [np.flatnonzero(row) for row in held]
    if any(len(row) and row[-1] - row[0] >= len(row) for row in places):
        return
    seen = {len(pieces)}
    for begins in _list_block_starts(starts):
        if 1 < len(begins) < len(pieces) and len(begins) not in seen:
            seen.add(len(begins))
            blocks = tuple(unite(pieces[low:high]) for low, high in pairwise([*begins, len(pieces)]))
            yield Axis(axis.column, blocks, tuple(labels[each] for each in begins))


def count_pieces(marginal: Marginal) -> float:
    """Return of how many numbers that can be measured a number of a marginal is the sum, in the mean.

    >>> so_far = tuple(ValueSet.of_range(1, end) for end in (2, 3, 4))
    >>> count_pieces(Marginal((Axis("day", so_far, ("a", "b", "c")),)))
    2.0
    """
    overlapping = [axis for axis in marginal.axes if not axis.is_apart()]
    return math.prod(float(_divide_in_order(axis.rows)[1].sum(axis=1).mean()) for axis in overlapping)


def _divide_in_order(rows: Sequence[ValueSet]) -> tuple[list[ValueSet], Bools]:
    """Return the finest sets that some sets consist of, in order, and which of them each of these has."""
    atoms = ColumnAtoms.of(rows, unite(rows))
    ends, intervals = (
        [BEFORE_ALL, *atoms.cuts, AFTER_ALL],
        [list[tuple[Cut, Cut]]() for _ in range(atoms.size)],
    )
    for place, atom in enumerate(atoms.atom[:-1].tolist()):
        if atom >= 0:
            intervals[atom].append((ends[place], ends[place + 1]))
    pieces = [unite([ValueSet(tuple(each), place == atoms.atom[-1])]) for place, each in enumerate(intervals)]
    order = sorted(range(len(pieces)), key=lambda place: pieces[place].first or AFTER_ALL)
    return [pieces[place] for place in order], atoms.locate(rows)[0][:, order]


def _start_of(values: ValueSet) -> Any:  # noqa: ANN401  a value of a column, of any ordered type
    """Return the least value of a set; None: it has none."""
    first = values.first
    return None if first is None or first == BEFORE_ALL else first[1]


def _list_block_starts(starts: Sequence[Any]) -> Iterator[list[int]]:
    """Yield the places at which longer periods begin, of values in order; what has no value ends the last."""
    known = [each for each in starts if each is not None]
    if known and all(isinstance(each, date) for each in known):
        for number in (_week, _month, _quarter, _year):
            yield [
                place
                for place, each in enumerate(known)
                if not place or number(each) != number(known[place - 1])
            ]
        return
    for power in (1 / 3, 1 / 2, 2 / 3):
        yield [*range(0, len(starts), max(1, round(len(starts) ** power)))]


def _week(day: date) -> object:
    return (day.toordinal() - 1) // 7


def _month(day: date) -> object:
    return day.year, day.month


def _quarter(day: date) -> object:
    return day.year, (day.month - 1) // 3


def _year(day: date) -> object:
    return day.year
