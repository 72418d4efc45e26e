"""Run mechanisms on exact counts: what is released is their output, at the loss that is added up here.

A `Run` is an interactive program over the counts of one query. Its verbs are the steps; a step sees outputs
of earlier steps alone, and names groups by `Rows`, which only a step returns. Each verb

1. refuses a mechanism whose noise is for smaller changes than those that are known of the numbers, before
   anything is drawn (`Mechanism.admits`);
2. refuses what would cost more than is reserved (`Spending`);
3. runs the mechanism on the counts;
4. returns its output: positions in the counts become `Rows`, since the order of the counts is private.

*Private:* each step is one mechanism, fixed by public figures and earlier outputs, on numbers that one unit
changes by what `UnitChanges` says. So they compose adaptively, and the loss is the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from dpsql.errors import InternalError
from dpsql.kernel.changes import NumberChange, Taken, UnitChanges
from dpsql.kernel.counts import Counts, exact, groups_of, numbers_at
from dpsql.kernel.levels import Level, level_of, steps_before
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import (
    FULL,
    CheckStream,
    Existing,
    Extreme,
    Histograms,
    Ladder,
    OrderedThenSet,
    Quantile,
    Refinement,
    RungBins,
    StableSet,
    Statistic,
)
from dpsql.kernel.public_order import OrderedCounts
from dpsql.kernel.rows_first import counted_later
from dpsql.kernel.sealed import Sealed, seal, unseal, without_frames
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.kernel.mechanisms.mechanism import Mechanism

R = TypeVar("R")

_CELL, _NUMBER, _SCORES = 0, 1, 2
"""The places of the cell and of its number, where a query counts cells; and of scores, where it searches."""
_MANY = 1 << 62
"""More groups than there are."""


class Rows(Sealed):
    """Groups that a step has released, or those of a public domain, in an order that tells nothing else."""

    __slots__ = ("_size",)
    _size: int

    def __len__(self) -> int:
        return self._size

    def take(self, index: NDArray[np.int64] | slice) -> Rows:
        """Return some of the rows, by their places."""
        own = _of(self)
        places = np.arange(self._size)[index]
        if np.bincount(places).max(initial=0) > 1:  # its number would be measured twice, and counted once
            raise InternalError("a group is taken twice")
        return _rows(replace(own, positions=own.positions[places]))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Positions:
    """Where groups are in counts; of those with cells, the first row of each, and all rows in order."""

    counts: Counts
    positions: NDArray[np.int64]
    cells: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None


def _rows(found: _Positions) -> Rows:
    made = Rows()
    made._size = len(found.positions)  # noqa: SLF001  its own module
    return seal(made, found)


def _of(rows: Rows) -> _Positions:
    found: _Positions = unseal(rows)
    return found


@dataclass(frozen=True, slots=True)
class Selected(Generic[R]):
    """What a selection released: its result, with `index` counting `rows`, and the groups."""

    found: R
    rows: Rows


class Run:
    """The steps of a release over the counts of one query; `changes` are those of the counts.

    `level` is the last number that was released alone, which a further release may go on from.
    """

    __slots__ = ("changes", "counts", "level", "spending")

    def __init__(self, counts: Counts, spending: Spending) -> None:
        self.counts, self.spending = counts, spending
        self.level: Level | None = None
        self.changes = groups_of(counts).changes
        spending.check_parts(self.changes.parts)

    def __repr__(self) -> str:
        return "Run(...)"

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of all steps that have run."""
        return self.spending.loss

    # Groups and their keys.

    def every(self) -> Rows:
        """Return all groups of a public domain, in their public order."""
        if not self.changes.declared:
            raise InternalError("which groups there are is private, or not all are counted")

        def find_all() -> Rows:
            return self._hold(exact(self.counts).in_order())

        return without_frames(find_all)

    def keys(self, rows: Rows, places: Sequence[int] | None = None) -> list[pa.Array]:
        """Return the keys of all released groups, or of some."""
        return without_frames(lambda: groups_of(self.counts).keys_at(self._at(rows), places))

    def _hold(
        self, positions: NDArray[np.int64], cells: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    ) -> Rows:
        return _rows(_Positions(self.counts, positions, cells))

    def _at(self, rows: Rows) -> NDArray[np.int64]:
        return positions_of(rows, self.counts)

    # Steps.

    def _admit(self, mechanism: Mechanism[Any], taken: Taken, most: PrivacyLoss | None = None) -> None:
        """Refuse a mechanism that is not for these changes, or costs too much, before it draws anything."""
        if not mechanism.admits(taken):
            raise InternalError("the noise is for less than one unit is known to change")
        self.spending.admit(mechanism.loss if most is None else most)

    def _check_decides(self, place: int, reads: int) -> None:
        """Refuse another number than that which decides on undeclared groups, and too few of these."""
        if self.changes.public:
            return
        if self.changes.decides != place:
            raise InternalError("another number decides which groups there are")
        if self.changes.listed is not None and not 0 < reads <= self.changes.listed:
            raise InternalError("too few of the largest groups are counted")

    def measure(
        self, mechanism: Mechanism[R], places: Sequence[int], rows: Rows, *, by_group: bool = False
    ) -> R:
        """Measure numbers of released groups: number by number, or (`by_group`) group by group."""
        (found,) = self._measure([(mechanism, places)], rows, by_group=by_group)
        self.spending.add(found.loss)  # type: ignore[attr-defined]  # each result has one
        return found

    def measure_apart(self, parts: Sequence[tuple[Mechanism[R], Sequence[int]]], rows: Rows) -> list[R]:
        """Measure numbers of released groups by several mechanisms, whose equal losses are joined."""
        found = self._measure(parts, rows, by_group=False)
        self.spending.add(sum((each.loss for each in found), PrivacyLoss()).joined)  # type: ignore[attr-defined]  # as above
        return found

    def _measure(
        self, parts: Sequence[tuple[Mechanism[R], Sequence[int]]], rows: Rows, *, by_group: bool
    ) -> list[R]:
        if _of(rows).cells is not None:  # one unit may decide which of its cells a group stands for
            raise InternalError("a group of cells has no number of its own")
        every = PrivacyLoss()
        for mechanism, places in parts:
            every += mechanism.loss
            self._admit(mechanism, self.changes.of(tuple(places), len(rows), by_group=by_group), every)

        def run() -> list[R]:
            at = self._at(rows)
            return [
                mechanism.run(_numbers(self.counts, places, at, by_group=by_group))
                for mechanism, places in parts
            ]

        found = without_frames(run)
        if len(rows) == len(parts) == 1 and len(parts[0][1]) == 1 and self.changes.declared:
            (mechanism, (place,)), value = parts[0], found[0].value[0]  # type: ignore[attr-defined]  # as above
            self.level = level_of(groups_of(self.counts).query, place, mechanism, float(value))
        return found

    def select(self, mechanism: Mechanism[R], place: int) -> Selected[R]:
        """Select groups by one of the numbers; groups of a set, which has no order, come by their keys."""
        self._check_decides(place, mechanism.reads)
        if isinstance(mechanism, Existing):  # its groups come in the order of the counts
            raise InternalError("which groups exist is another step")
        self._admit(mechanism, self.changes.of((place,), _MANY))
        if not (self.changes.public or mechanism.undeclared):
            raise InternalError("this mechanism takes groups of a public domain")

        def run() -> tuple[R, Rows]:
            own = groups_of(self.counts)
            if not (self.changes.declared or mechanism.undeclared or own.domain is not None):
                raise InternalError("which groups of the domain have rows is private")
            found, at = _run_selection(mechanism, self.counts, place)
            ordered = len(at)
            if isinstance(found, (StableSet, OrderedThenSet)):
                ordered = int(found.ordered)
            at = np.concatenate([at[:ordered], at[ordered:][own.key_order(at[ordered:])]])
            return replace(found, index=np.arange(len(at))), self._hold(at)

        found, rows = without_frames(run)
        self.spending.add(found.loss)  # type: ignore[attr-defined]  # as above
        return Selected(found, rows)

    def existence(self, mechanism: Existing, place: int, *, cells: bool = False) -> Selected[Any]:
        """Release the groups with enough units, by their keys, with their noisy numbers of units.

        With `cells`, a group has a row for each of its cells, each with the number of the group. Should they
        differ, it is the largest, which one unit moves by no more than it moves one of them.
        """
        self._check_decides(place, mechanism.reads)
        self._admit(mechanism, self.changes.of((place,), _MANY))

        def run() -> tuple[Any, Rows]:
            own = exact(self.counts)
            split = own.cells_in_order(public=False) if cells else None
            first, number = np.arange(own.size), own.n[place]
            if split is not None:
                first = split[0][split[1]] if own.size else split[0]
                number = np.maximum.reduceat(number[split[0]], split[1]) if own.size else number
            found = mechanism.run(number)
            order = own.key_order(first[found.index])
            rows = self._hold(first[found.index][order], split)
            return replace(found, index=np.arange(len(order)), value=found.value[order]), rows

        found, rows = without_frames(run)
        self.spending.add(found.loss)
        return Selected(found, rows)

    def groups_of_cells(self) -> Rows:
        """Return all groups of a public domain, in order; each has a row for each of its cells.

        Without keys all rows are of one group, and it is there without rows, too.
        """
        if exact(self.counts).keys.num_columns and not self.changes.every_group:
            raise InternalError("which groups there are is private")

        def find_all() -> Rows:
            own = exact(self.counts)
            rows, starts = own.cells_in_order(public=True)
            return self._hold(rows[starts] if own.size else starts, (rows, starts))

        return without_frames(find_all)

    def draw(self, mechanism: Quantile | Extreme, groups: Rows) -> NDArray[np.int64]:
        """Choose cells for each group: one for each quantile, or extreme."""
        least, last = self.changes.cells or (0, _MANY)
        if not 0 <= least <= last < mechanism.cells:  # a cell beyond them is drawn only if it has rows
            raise InternalError("rows may be in cells beyond those of the grid")
        most = len(groups) if self.changes.one_cell else _MANY
        self._admit(mechanism, self.changes.of((_NUMBER,), most))

        def run() -> Any:  # noqa: ANN401  of either mechanism
            own, at, split = exact(self.counts), self._at(groups), _of(groups).cells
            if split is None:
                raise InternalError("these groups have no cells")
            rows, starts = split
            number = np.zeros(len(rows), dtype=np.int64)
            number[starts[1:]] = 1
            number = np.cumsum(number)
            if len(rows):
                place = np.full(own.size, -1)
                place[at] = np.arange(len(at))
                number = place[rows[starts]][number]
            there = number >= 0
            cell, counted = (own.n[i][rows][there] for i in (_CELL, _NUMBER))
            return mechanism.run(Histograms(len(at), number[there], cell, counted))

        found = without_frames(run)
        self.spending.add(found.loss)
        cells: NDArray[np.int64] = found.cell
        return cells

    def refine(self, mechanism: Refinement, place: int, before: Level) -> NDArray[np.float64]:
        """Release a number again with less noise, given its release before, as the ledger has it."""
        self._admit(mechanism, self.changes.of((place,), 1), mechanism.further)
        self._check_one_group()
        query = exact(self.counts).query
        released = [steps_before(before, query, place, mechanism)]
        found = without_frames(lambda: mechanism.again(exact(self.counts).n[place], released))
        self.spending.add(mechanism.further)
        self.level = level_of(query, place, mechanism, float(found.value[0]), before)
        return found.value

    def check_all(
        self, stream: CheckStream, rows: Rows, statistics: Sequence[Statistic], most: int
    ) -> list[Fraction | None]:
        """Check a statistic of each group, in this order, until so many are off or no misses are left.

        Each check made has an entry: by how much it is off, in what its numbers are multiplied to, or None.
        One without terms is not checked, and uses a miss.

        *Bound:* one unit moves a term by at most its factor times what it moves the number, and the largest
        of some by at most the most of these. All are divided by the largest bound, which is public.
        """
        if len(statistics) != len(rows):
            raise InternalError("each group needs one statistic")
        ends = {(each[0], each[1]) for statistic in statistics for each in statistic.terms}
        of = self.changes.number
        moves = [end * factor for place, factor in ends for end in (of(place).low, of(place).high)]
        bound = max(map(abs, moves), default=Fraction(0)) or Fraction(1)
        change = NumberChange(-int(min(moves, default=0) < 0), int(max(moves, default=0) > 0))
        before = stream.charge.epsilon
        left = PrivacyLoss.of(stream.plan.loss.charge.epsilon - before)
        self._admit(stream.plan, Taken((change,), 1), left)

        def run() -> list[Fraction | None]:
            numbers, at, found = exact(self.counts).n, self._at(rows), list[Fraction | None]()
            for position, statistic in zip(at, statistics, strict=True):
                if stream.exhausted or sum(gap is not None for gap in found) >= most:
                    break
                terms = (
                    factor * int(numbers[place][position]) + added for place, factor, added in statistic.terms
                )
                gap = stream.check(max(terms) / bound) if statistic.terms else stream.use()
                found.append(None if gap is None else gap * bound)
            return found

        found = without_frames(run)
        self.spending.add(PrivacyLoss.of(stream.charge.epsilon - before))
        return found

    def _check_one_group(self) -> None:
        """Refuse counts that may have several groups, whose order is private."""
        if not self.changes.declared or without_frames(lambda: exact(self.counts).size) != 1:
            raise InternalError("these are no numbers of one group")

    # Searches of bounds, and numbers that follow from what they have counted.

    def search(self, mechanism: Ladder, bounds: int) -> int:
        """Choose one of a given number of bounds, by the scores of units that exceed each (`RungBins`)."""
        if len(self.changes.bounds) != bounds:  # of more it would fail on some rows
            raise InternalError("these are no scores of so many bounds")
        self._admit(mechanism, Taken((NumberChange(0, score_change(self.changes)),), 1))
        found = without_frames(lambda: mechanism.run(RungBins(*exact(self.counts).n).scores(bounds)))
        self.spending.add(found.loss)
        return int(found.rung[0])


def score_change(changes: UnitChanges) -> int:
    """Return how far one unit changes the score of a bound (`RungBins.scores`), given the search's changes.

    It is in one row. To the score of a bound it adds what it adds to the row's own, or `FULL`.
    """
    units, scores = changes.number(_NUMBER), changes.number(_SCORES)
    if not (changes.one_row and units.low == scores.low == 0):
        raise InternalError("these are no units by the bounds that they exceed")
    return max(units.high * FULL, scores.high)


def with_cells(rows: Rows) -> bool:
    """Return whether groups stand for several rows each, of their cells."""
    return _of(rows).cells is not None


def released_at(counts: Counts, positions: NDArray[np.int64]) -> Rows:
    """Return the groups of counts at some positions, which a step has released."""
    return _rows(_Positions(counts, positions))


def positions_of(rows: Rows, counts: Counts) -> NDArray[np.int64]:
    """Return the positions of released groups in their counts; groups of other counts are refused."""
    found = _of(rows)
    if found.counts is not counts:
        raise InternalError("these groups were not released of these counts")
    return found.positions


def _numbers(
    counts: Counts, places: Sequence[int], rows: NDArray[np.int64], *, by_group: bool
) -> NDArray[np.int64]:
    """Return numbers of some groups in the form in which mechanisms take counts."""
    found = [numbers_at(counts, place, rows) for place in places]
    return np.stack(found, axis=1).reshape(-1) if by_group else np.concatenate(found)


def _run_selection(mechanism: Mechanism[Any], counted: Counts, place: int) -> tuple[Any, NDArray[np.int64]]:
    """Run a selection; return its result, and where the groups are."""
    if mechanism.bounded and (few := counted_later(counted)) is not None:
        if not mechanism.ordered:
            found = mechanism.run(few.bound(place))
            return found, found.index
        order = few.groups.in_public_order()
        found = mechanism.run(OrderedCounts(few.bound(place).take(order)))
        return found, order[found.index]
    own = exact(counted)
    if own.domain is not None and not mechanism.sparse:
        raise InternalError("this mechanism takes the counts of all groups")
    if mechanism.ordered:
        rows, counts = own.counts_in_order(place)
        found = mechanism.run(counts)
        return found, found.index if rows is None else rows[found.index]
    found = mechanism.run(own.n[place] if own.domain is None else own.sparse(place))
    return found, found.index
