"""What a report asks, and which marginals it may measure: groupings below its statements, calendar blocks.

A marginal that is measured has no unit in two of its numbers. Running totals have one in many, so that
periods are measured in their place: the shortest that the totals tell apart, and weeks, months, quarters and
years of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from dpsql.estimates.reports.marginals import Axis, Marginal
from dpsql.estimates.value_sets import ValueSet, unite
from dpsql.lazy_dataclass import dataclass

_MOST_SETS = 64
MOST_CANDIDATES = 256
"""Of more groupings, only those of the statements themselves are candidates."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One statement of a report: its numbers, and the parts of the data that it sums.

    Attributes
    ----------
    marginal
        The numbers: in a report by parts, without the condition on the part.
    window
        How many parts it sums, counted from the last one; None: all since the beginning.
    weight
        How much its mean variance counts.
    """

    marginal: Marginal
    window: int | None = 1
    weight: Fraction = Fraction(1)

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
    statements: Sequence[Wanted],
    blocks: Sequence[int] = (),
    universe: Mapping[str, ValueSet] | None = None,
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
    """Return for each axis of a statement what may be measured on its column."""
    found = []
    for axis in marginal.axes:
        options = dict.fromkeys(_list_axes(axis))
        options |= dict.fromkeys(each for each in finer[axis.column] if _refines(each, axis))
        found.append([*options, None])
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
    """Yield an axis whose sets are apart; of running totals, their periods and calendar blocks."""
    if axis.is_apart():
        yield axis
        return
    borders = sorted({cut for row in axis.rows for cut in row.cuts()})
    values = [value for place, value, _ in borders if not place]
    if len(values) < len(borders) or any(len(row.intervals) != 1 for row in axis.rows):
        raise ValueError(f"the sets of {axis.column} overlap, and are no running totals")
    yield Axis.of_ranges(axis.column, values, [str(each) for each in values[:-1]])
    seen = {len(values) - 1}
    for starts in _list_block_starts(values):
        if 1 < len(starts) < len(values) - 1 and len(starts) not in seen:
            seen.add(len(starts))
            yield Axis.of_ranges(axis.column, [*starts, values[-1]], [str(each) for each in starts])


def _list_block_starts(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the borders at which longer periods begin."""
    periods = list(pairwise(values))
    if isinstance(values[0], date):
        for number in (_week, _month, _quarter, _year):
            yield [
                low
                for place, (low, _) in enumerate(periods)
                if not place or number(low) != number(values[place - 1])
            ]
        return
    count = len(periods)
    for power in (1 / 3, 1 / 2, 2 / 3):
        yield list(values[:-1][:: max(1, round(count**power))])


def _week(day: date) -> object:
    return (day.toordinal() - 1) // 7


def _month(day: date) -> object:
    return day.year, day.month


def _quarter(day: date) -> object:
    return day.year, (day.month - 1) // 3


def _year(day: date) -> object:
    return day.year
