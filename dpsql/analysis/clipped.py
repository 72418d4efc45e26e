"""Numbers that are sums over units, each cut at a bound: which of them a search has counted already."""

from __future__ import annotations

from dpsql.analysis.grids import whole
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.released import ReleasedAggregate
from dpsql.analysis.released.counts import WeightedRows
from dpsql.analysis.released.sums import CappedSum
from dpsql.tree import kept


def is_clipped(count: ReleasedAggregate, ladder: Ladder, bound: int) -> bool:
    """Return whether a number without keys is the sum of what a ladder measures of units, cut at the bound.

    Both are of the same rows, in the same steps. Without keys `WeightedRows` is the sum of min(rows, bound),
    and `CappedSum` that of totals cut to -bound .. bound: then neither weighs one group against another.
    """
    if len(count.parts) != 1 or ladder.by_row:
        return False
    (part,) = count.parts
    if isinstance(part, WeightedRows):
        return (
            ladder.of is Contribution.ROWS and ladder.row == kept(whole(1), part.row) and part.most == bound
        )
    if not isinstance(part, CappedSum) or ladder.of is not Contribution.TOTAL:
        return False
    same = part.row == (ladder.row,) and part.scale == ladder.scale and part.grid.step == ladder.step
    return same and part.most == bound
