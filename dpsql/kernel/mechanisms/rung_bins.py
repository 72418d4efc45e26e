"""Exact figures of units by the rungs that they exceed: what a search of a bound and sums below it need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.mechanisms.ladder import FULL

LIMIT = 1 << 60
"""Where sums are cut, as all counted sums are."""


@dataclass(frozen=True, eq=False, slots=True)
class RungBins:
    """Figures of all units that exceed equally many bounds; each bound is at least twice the one before.

    Attributes
    ----------
    exceeded
        How many bounds the units of a row exceed. Each number occurs once, or not at all.
    units
        How many units there are.
    partial
        The sum of their scores at the last bound that they exceed (`excess_score`).
    totals
        The sum of what they have, with its sign; None: it is not known, nor are the next.
    beyond
        The sum of how far they are beyond the last bound that they exceed, if that is at most `LIMIT`.
    negative
        How many of them have less than 0; None: no unit can.
    net
        As `beyond`, of each unit with the sign of what it has; None: no unit can have less than 0.
    """

    exceeded: NDArray[np.int64]
    units: NDArray[np.int64]
    partial: NDArray[np.int64]
    totals: NDArray[np.int64] | None = None
    beyond: NDArray[np.int64] | None = None
    negative: NDArray[np.int64] | None = None
    net: NDArray[np.int64] | None = None

    def scores(self, size: int) -> NDArray[np.int64]:
        """Return the scores of `size` bounds. The last one has the score 0.

        A unit above the next bound exceeds this one by more than an eighth, so it counts in full. The last
        bound is taken for enough: it is the best where most units exceed all bounds.

        >>> RungBins(*np.array([[2, 1], [3, 5], [FULL, 2 * FULL]])).scores(3) // FULL
        array([5, 1, 0])
        """
        numbers, scores = np.zeros(size + 1, dtype=np.int64), np.zeros(size + 1, dtype=np.int64)
        np.add.at(numbers, self.exceeded, self.units)
        np.add.at(scores, self.exceeded, self.partial)
        scores[1:-1] += FULL * np.cumsum(numbers[:1:-1])[::-1]
        scores[-1] = 0
        return scores[1:]

    def clipped(self, bounds: Sequence[int], place: int, *, step: int = 1, fine: int | None = None) -> int:
        """Return the sum over units of what they have, each cut to -B .. B, B being one of the bounds.

        It is in steps that divide B, and rounded down. With `fine`, `totals` of a row have steps, too: the
        last bound that its units exceed divided by `fine`, at least 1; they are rounded to whole steps.

        *Bounded:* a unit is in one row, whatever the others are. If it exceeds B, it moves the sum by B, else
        by what it has, and no cut of a sum to `LIMIT` makes that more. Where the row has a step of its own,
        the next bound is a whole number of them, at most B, and no less than what the unit has: rounded to
        whole steps, the sum moves by no more than that. So it is with the steps of the result.
        """
        return max(-LIMIT, min(self._clipped(bounds, place, fine) // step, LIMIT))

    def lead(self, bounds: Sequence[int], place: int, *, fine: int | None = None) -> int:
        """Return twice the excess over a bound B less what B leaves, both with the signs of the units.

        It is the sum over units of 2 e - a, where a is what a unit has, cut to -B .. B, and a + e the same,
        cut to -2B .. 2B. `fine` is as for `clipped`.

        *Bounded:* a unit that does not exceed B moves it by a alone, at most B. One that does moves the sum
        of a by exactly B, and that of e by at most B in the same direction, so 2 e - a by at most B. No cut
        of a sum to `LIMIT` changes that: in rows beyond B the sum of a is a number of units times B, and a
        cut makes a move of e less, and does not turn it. The rest is as for `clipped` and `excess`.
        """
        return 2 * self._excess(bounds, place, 1, self.net) - self._clipped(bounds, place, fine)

    def _clipped(self, bounds: Sequence[int], place: int, fine: int | None) -> int:
        if self.totals is None:
            raise ValueError("what units have is not known")
        total, bound = 0, bounds[place]
        negative = np.zeros_like(self.units) if self.negative is None else self.negative
        figures = (self.exceeded, self.units, self.totals, negative)
        for exceeded, units, own, below in zip(*(each.tolist() for each in figures), strict=True):
            size = max(bounds[exceeded - 1] // fine, 1) if exceeded and fine else 1
            total += bound * (units - 2 * below) if exceeded > place else size * own
        return total

    def excess(self, bounds: Sequence[int], place: int, *, times: int = 1) -> int:
        """Return the sum over units of how far they are beyond a bound B, each cut at `times` B.

        `times` is 2^k - 1 where there are k larger bounds than B, each twice the one before, the largest of
        them at most `LIMIT`.

        *Bounded:* a unit is in one row, whatever the others are. It moves the sum by 0 to `times` B, never
        down: each row adds a sum over its units of numbers from 0 on, and one that the query cuts to `LIMIT`
        moves by no more.
        """
        return self._excess(bounds, place, times, None)

    def _excess(self, bounds: Sequence[int], place: int, times: int, net: NDArray[np.int64] | None) -> int:
        """Return the sum of excesses, with signs if `net` is given."""
        if self.beyond is None or (times + 1) * bounds[place] > LIMIT:
            raise ValueError("how far units are beyond bounds is not known")
        total, bound = 0, bounds[place]
        last = bounds.index((times + 1) * bound)
        signs, own = self.units, self.beyond
        if net is not None and self.negative is not None:
            signs, own = self.units - 2 * self.negative, net
        rows = zip(self.exceeded.tolist(), signs.tolist(), own.tolist(), strict=True)
        for exceeded, units, beyond in rows:
            if exceeded > last:
                total += times * bound * units
            elif exceeded > place:
                total += beyond + (bounds[exceeded - 1] - bound) * units
        return total
