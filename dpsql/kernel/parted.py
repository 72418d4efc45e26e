"""Steps in each of several partitions (`Parted`), and on numbers that follow from a search (`Figure`).

*Numbers of a search.* They are sums over units of what each has, cut at a bound, and beyond it. A search
counts the units by how many bounds they exceed, so a unit is in one row. Its certificate has the bounds, so
that what one adds to the sums of its row is what `tree.Scores` claims; how far it moves each of these numbers
follows (proofs: `RungBins`).

*Partitions: private, where all rows of a unit are in one.* Take two data sets that differ in one unit. All
partitions but that of the unit have equal counts in both, so that their outputs have equal laws, and the
noise of each partition is independent. The output of the unit's partition has the privacy loss of its own
steps, and so has the whole.

*Partitions: private, else.* The query counts a unit in at most m partitions. The others have equal counts
with and without the unit. The steps of those m compose: the cost is at most that of the largest one, m times.

*Which partitions there are.* Their number is public, and the same steps run in all of them, also in those
without rows. Those of declared groups, and their order, are in the counts. Of others it is private which
partitions have rows, so that all are listed by whoever asks, who knows nothing but public values and
releases. A group in none of them is left out: whether it is follows from its keys alone, so the list may be
any, and nothing fails by it. Runs come in a random order, those without rows among them. A unit that is alone
in a partition then takes the place of one without rows, whichever that is, and the partitions of all others
are where they were. What is released is put in the order of the keys of its partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpsql.errors import InternalError
from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import NumberChange, Taken, UnitChanges
from dpsql.kernel.counts import Counts, Exact, Order, exact, no_keys
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import Bins, RungBins
from dpsql.kernel.mechanisms.ladder import Binned
from dpsql.kernel.public_order import ranks
from dpsql.kernel.release import Rows, Run, positions_of, released_at, with_cells
from dpsql.kernel.sealed import Sealed, seal, unseal, without_frames
from dpsql.kernel.tree import Above
from dpsql.kernel.unit_parts import either_parts
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_LIMIT = 1 << 60
_SIGNED = 6
"""Counts with so many columns tell which units have less than 0."""


class Of(Enum):
    """What a figure is the sum of, over units."""

    CLIPPED = "what a unit has, cut to -B .. B"
    EXCESS = "what it has beyond B, cut at `times` B"
    LEAD = "twice what it has beyond B, cut at B, less what B leaves; both with its sign"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a search."""

    of: Of
    """What it is the sum of."""
    search: int
    """The place of the search."""
    bounds: tuple[int, ...]
    place: int
    """The bounds of the search, and the place of B among them."""
    times: int = 1
    """Of an excess; 0: nothing is known of it, and it is 0."""
    size: Fraction = Fraction(1)
    """What a step of it is, in steps of the search: B is a whole number of them."""
    fine: int | None = None
    """As `RungBins.clipped` takes it."""

    def change(self, search: UnitChanges, *, signed: bool) -> NumberChange:
        """Return how far one unit more moves it, by the bounds of the search (`RungBins`)."""
        if self.bounds != search.bounds or (self.of is not Of.EXCESS and self.fine != search.fine):
            raise InternalError("these are no bounds of the search")
        most = (self.times if self.of is Of.EXCESS else 1) * self.bounds[self.place] / self.size
        if most.denominator != 1:
            raise InternalError("a bound is a whole number of steps")
        down = self.of is Of.LEAD or (signed and self.of is Of.CLIPPED)
        return NumberChange(-int(most) if down else 0, int(most))

    def exact(self, bins: RungBins) -> int:
        """Compute it, within the limit; rounded down, it moves by no more than what is said."""
        match self.of:
            case Of.CLIPPED:
                return bins.clipped(self.bounds, self.place, step=int(self.size), fine=self.fine)
            case Of.EXCESS if not self.times:
                return 0
            case Of.EXCESS:
                whole = bins.excess(self.bounds, self.place, times=self.times)
            case Of.LEAD:
                whole = bins.lead(self.bounds, self.place, fine=self.fine)
        return max(-_LIMIT, min(int(whole // self.size), _LIMIT))


def run_of_figures(
    searches: Sequence[Run], figures: Sequence[Figure], spending: Spending, order: Order | None = None
) -> Run:
    """Return the steps of a release over numbers that follow from searches: one group without keys."""
    if not all(search.changes.one_row for search in searches):
        raise InternalError("these are no units by the bounds that they exceed")

    def count() -> Counts:
        found = [exact(search.counts) for search in searches]
        bins = [RungBins(*each.n) for each in found]
        numbers = [np.array([each.exact(bins[each.search])], dtype=np.int64) for each in figures]
        changes = [
            each.change(searches[each.search].changes, signed=len(found[each.search].n) >= _SIGNED)
            for each in figures
        ]
        parts = reduce(either_parts, (search.changes.parts for search in searches))
        own = UnitChanges(tuple(changes), parts=parts)
        return seal(Counts(), Exact(no_keys(1), tuple(numbers), own, order))

    return Run(without_frames(count), spending)


def join_runs(run: Run, other: Run) -> Run:
    """Return the numbers of one group without keys, then those of another run, as one run."""

    def join() -> Counts:
        one, more = exact(run.counts), exact(other.counts)
        if one.size != 1 or more.size != 1 or one.keys.num_columns:
            raise InternalError("these numbers are not of one group")
        return seal(Counts(), Exact(one.keys, one.n + more.n, run.changes.beside(other.changes), one.order))

    return Run(without_frames(join), run.spending)


def _has_one_group(counts: Counts) -> bool:
    """Return whether counts have one group, whatever the rows are."""
    own = exact(counts)
    return own.changes.declared and own.size == 1


def run_bins(mechanism: Bins, above: Sequence[Counts], spending: Spending) -> Binned:
    """Release how many units are in which bin, from the numbers of those above 0 and above each end.

    The numbers are of `Above`, of the same units, for the ends of the mechanism, which ascend. So a unit
    counts in the numbers of all ends below what it has, and of the differences of numbers it changes one: it
    is in one bin.
    """
    changes = [each for counts in above for each in exact(counts).changes.numbers]
    one = [each.high for each in changes if each is not None and (each.low, each.high) == (0, 1)]
    known = len(one) == len(changes) and all(map(_has_one_group, above))
    nodes = [query for query in (exact(counts).query for counts in above) if isinstance(query, Above)]
    ends = [end for node in nodes for end in node.ends]
    same = len(nodes) == len(above) and len({node.units for node in nodes}) == 1
    if not (known and same and ends == sorted((0, *mechanism.ends))):
        raise InternalError("these are no numbers of units above the ends of bins")
    if not mechanism.admits(Taken((NumberChange(0, max(one, default=0)),), 1)):
        raise InternalError("the noise is for less than one unit is known to change")
    spending.admit(mechanism.loss)

    def run() -> Binned:
        numbers = np.concatenate([number for counts in above for number in exact(counts).n])
        return mechanism.run(numbers - np.append(numbers[1:], 0))

    found = without_frames(run)
    spending.add(found.loss)
    return found


class Parted(Sealed):
    """The partitions of the groups of a run."""

    __slots__ = ("run", "runs", "sizes")
    run: Run
    runs: tuple[Run, ...]
    """The steps of each."""
    sizes: tuple[int | None, ...]
    """The number of groups of each; None where that is private."""

    @classmethod
    def of(
        cls, run: Run, keys: Sequence[int], size: int | None, times: int, listed: pa.Table | None = None
    ) -> Parted:
        """Divide groups by some keys into partitions, of which a unit is in few.

        `size` is that of the largest; None: their sizes are private. The cost is that of the largest one,
        `times`. Of groups that are not declared, the values of these keys are `listed`, in columns in their
        order.
        """
        if run.changes.declared is not (listed is None):
            raise InternalError("which partitions there are is private, and they are not listed")
        if size is not None and not run.changes.declared:
            raise InternalError("how many groups a partition has is private")
        within = run.changes.within(keys)

        def divide() -> tuple[NDArray[np.int64], list[tuple[int, int]], list[Counts]]:
            own = exact(run.counts)
            rows, starts = _sort_by_partition(own, keys, listed)
            number = len(starts) if listed is None else listed.num_rows
            if times < number and (within is None or within > times):
                raise InternalError("one unit is in more partitions than are charged")
            every, ends = own.part(rows), [*starts.tolist(), *[len(rows)] * (number - len(starts) + 1)]
            pairs = [*pairwise(ends)]
            if not own.changes.declared:
                pairs = [pairs[place] for place in exact_noise.ranks(number).tolist()]
            return rows, pairs, [seal(Counts(), every.slice(*pair)) for pair in pairs]

        rows, pairs, parts = without_frames(divide)
        made = cls()
        made.run = run
        spent = run.spending.parts(len(parts), times)
        made.runs = tuple(Run(part, own) for part, own in zip(parts, spent, strict=True))
        made.sizes = tuple(None if size is None else end - start for start, end in pairs)
        starts = tuple(start for start, _ in pairs)
        del pairs
        return seal(made, _Divided(rows, tuple(parts), starts))

    def join_rows(self, rows: Iterable[Rows]) -> tuple[Rows, list[int]]:
        """Return the released groups of all partitions, one after the other, and the places of their runs.

        Those of which no group was released come last, in the order of the runs.
        What their steps cost is a part of what the run has cost, from the first of them on.
        """
        own: _Divided = unseal(self)
        rows = [*rows]
        if any(map(with_cells, rows)):
            raise InternalError("a group of cells has no number of its own")
        found = [
            own.rows[start + positions_of(each, counts)]
            for each, counts, start in zip(rows, own.counts, own.starts, strict=True)
        ]
        self.run.spending.admit(PrivacyLoss())
        order = [*range(len(found))]
        if not self.run.changes.declared:
            order.sort(key=lambda place: own.starts[place] if len(found[place]) else len(own.rows))
        return released_at(self.run.counts, np.concatenate([found[place] for place in order])), order


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Divided:
    rows: NDArray[np.int64]
    """The positions of all groups, partition by partition."""
    counts: tuple[Counts, ...]
    starts: tuple[int, ...]
    """Where each partition starts there."""


def _sort_by_partition(
    own: Exact, keys: Sequence[int], listed: pa.Table | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of all groups of the partitions, one after the other, and where each starts."""
    size = 0 if listed is None else listed.num_rows
    code = np.zeros(size + own.size, dtype=np.int64)
    for place, i in enumerate(keys):
        column = own.keys.column(f"k{i}")
        if listed is not None:
            column = _behind(listed.column(place).cast(column.type), column)
        by = ranks(column)
        _, code = np.unique(code * (int(by.max(initial=0)) + 1) + by, return_inverse=True)
    known, code = code[:size], code[size:]
    if listed is None and own.order is not None:
        rows = own.in_order()
        _, first, at = np.unique(code[rows], return_index=True, return_inverse=True)
        rows = rows[np.argsort(first[at], kind="stable")]
    else:  # which groups are first in them is private
        rows = np.argsort(code, kind="stable")
        rows = rows if listed is None else rows[np.isin(code[rows], known)]
    changed = np.diff(code[rows], prepend=-1) != 0
    return rows, np.flatnonzero(changed)


def _behind(first: pa.ChunkedArray, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with another of the same type before it."""
    import pyarrow as pa  # noqa: PLC0415  loaded when rows are

    return pa.chunked_array([*first.chunks, *column.chunks], column.type)
