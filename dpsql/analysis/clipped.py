"""Numbers that are sums over units, each cut at a bound: which of them a search has counted already."""

from __future__ import annotations

from dpsql.analysis.excess import uncut
from dpsql.analysis.grids import whole
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.released import ReleasedAggregate
from dpsql.analysis.released.counts import WeightedRows
from dpsql.analysis.released.sums import CappedSum
from dpsql.tree import kept


def clipped_step(count: ReleasedAggregate, ladder: Ladder, bound: int) -> int | None:
    """Return the step of a number that is the sum of what a ladder measures of units, cut at the bound.

    It is a number without keys, of the same rows, and the step is in those of the ladder. None: it is not so,
    or its step is finer. Without keys `WeightedRows` is the sum of min(rows, bound), and `CappedSum` that of
    totals cut to -bound .. bound: then neither weighs one group against another. Of a DOUBLE the rows are
    then rounded to the steps of the ladder, which are as fine as those of the number or finer.
    """
    if len(count.parts) != 1 or ladder.by_row:
        return None
    (part,) = count.parts
    if isinstance(part, WeightedRows):
        rows = ladder.of is Contribution.ROWS and ladder.row == kept(whole(1), part.row)
        return 1 if rows and part.most == bound else None
    if not isinstance(part, CappedSum) or ladder.of is not Contribution.TOTAL or ladder.row is None:
        return None
    size = part.grid.step / ladder.step
    if part.most * size != bound:
        return None
    if size == 1 and part.row == (ladder.row,) and part.scale == ladder.scale:
        return 1
    fine = ladder.fine is not None and size >= 1 and size.denominator == 1
    return int(size) if fine and uncut(part.row[0]) == uncut(ladder.row) else None
