"""Numbers that follow from what a search of a bound has counted: sums of units cut at a bound, and beyond it.

A search counts the units by how many bounds they exceed, so a unit is in one row. Its certificate has the
bounds, so that what one adds to the sums of its row is what `tree.Scores` claims; how far it moves each of
these numbers follows (proofs: `RungBins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from dpsql.errors import InternalError
from dpsql.kernel.changes import NumberChange, Taken, UnitChanges
from dpsql.kernel.counts import Counts, Exact, Order, exact, no_keys
from dpsql.kernel.mechanisms import Bins, RungBins
from dpsql.kernel.mechanisms.bins import Binned
from dpsql.kernel.release import Run
from dpsql.kernel.sealed import seal, without_frames
from dpsql.kernel.step_costs import Spending
from dpsql.kernel.tree import Above

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
    """A number of a search.

    Attributes
    ----------
    of
        What it is the sum of.
    search
        The place of the search.
    bounds, place
        The bounds of the search, and the place of B among them.
    times
        Of an excess; 0: nothing is known of it, and it is 0.
    size
        What a step of it is, in steps of the search: B is a whole number of them.
    fine
        As `RungBins.clipped` takes it.
    """

    of: Of
    search: int
    bounds: tuple[int, ...]
    place: int
    times: int = 1
    size: Fraction = Fraction(1)
    fine: int | None = None

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

    def counted() -> Counts:
        found = [exact(search.counts) for search in searches]
        bins = [RungBins(*each.n) for each in found]
        numbers = [np.array([each.exact(bins[each.search])], dtype=np.int64) for each in figures]
        changes = [
            each.change(searches[each.search].changes, signed=len(found[each.search].n) >= _SIGNED)
            for each in figures
        ]
        own = UnitChanges(tuple(changes))
        return seal(Counts(), Exact(no_keys(1), tuple(numbers), own, order))

    return Run(without_frames(counted), spending)


def joined_run(run: Run, other: Run) -> Run:
    """Return the numbers of one group without keys, and behind them those of another, as one run."""

    def joined() -> Counts:
        one, more = exact(run.counts), exact(other.counts)
        if one.size != 1 or more.size != 1 or one.keys.num_columns:
            raise InternalError("these numbers are not of one group")
        return seal(Counts(), Exact(one.keys, one.n + more.n, run.changes.beside(other.changes), one.order))

    return Run(without_frames(joined), run.spending)


def _of_one_group(counts: Counts) -> bool:
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
    known = len(one) == len(changes) and all(map(_of_one_group, above))
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
