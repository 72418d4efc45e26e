"""Steps in each of several partitions of the groups, of which one unit is in few.

*Private, where all rows of a unit are in one partition.* Take two data sets that differ in one unit. All
partitions but that of the unit have equal counts in both, so that their outputs have equal laws, and the
noise of each partition is independent. The output of the unit's partition has the privacy loss of its own
steps, and so has the whole.

*Private, else.* The query counts a unit in at most m partitions. The others have equal counts with and
without the unit. The steps of those m compose: the cost is at most that of the largest one, m times.

The number of partitions is public, and the same steps run in all of them, also in those without rows. Those
of declared groups, and their order, are in the counts. Of others it is private which partitions have rows, so
that all are listed by whoever asks, who knows nothing but public values and releases. A group in none of them
is left out: whether it is follows from its keys alone, so the list may be any, and nothing fails by it. Runs
come in a random order, those without rows among them. A unit that is alone in a partition then takes the
place of one without rows, whichever that is, and the partitions of all others are where they were. What is
released is put in the order of the keys of its partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpsql.errors import InternalError
from dpsql.kernel import noise as exact_noise
from dpsql.kernel.counts import Counts, Exact, exact
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.release import Rows, Run, positions_of, released_at, with_cells
from dpsql.kernel.sealed import Sealed, seal, unseal, without_frames
from dpsql.kernel.sorting import ranks

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class Parted(Sealed):
    """The partitions of the groups of a run.

    Attributes
    ----------
    runs
        The steps of each.
    sizes
        The number of groups of each; None where that is private.
    """

    __slots__ = ("run", "runs", "sizes")
    run: Run
    runs: tuple[Run, ...]
    sizes: tuple[int | None, ...]

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

        def divided() -> tuple[NDArray[np.int64], list[tuple[int, int]], list[Counts]]:
            own = exact(run.counts)
            rows, starts = _by_partition(own, keys, listed)
            number = len(starts) if listed is None else listed.num_rows
            if times < number and (within is None or within > times):
                raise InternalError("one unit is in more partitions than are charged")
            every, ends = own.part(rows), [*starts.tolist(), *[len(rows)] * (number - len(starts) + 1)]
            pairs = [*pairwise(ends)]
            if not own.changes.declared:
                pairs = [pairs[place] for place in exact_noise.ranks(number).tolist()]
            return rows, pairs, [seal(Counts(), every.slice(*pair)) for pair in pairs]

        rows, pairs, parts = without_frames(divided)
        made = cls()
        made.run = run
        spent = run.spending.parts(len(parts), times)
        made.runs = tuple(Run(part, own) for part, own in zip(parts, spent, strict=True))
        made.sizes = tuple(None if size is None else end - start for start, end in pairs)
        starts = tuple(start for start, _ in pairs)
        del pairs
        return seal(made, _Divided(rows, tuple(parts), starts))

    def joined(self, rows: Iterable[Rows]) -> tuple[Rows, list[int]]:
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


def _by_partition(
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
