"""Values on a public grid by the exponential mechanism: quantiles, several in one run, and extremes.

Extremes are values near the largest and the smallest, which several units reach.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import BoundedRange, Number, PrivacyLoss, PureDP, exact
from dpsql.kernel.mechanisms.mechanism import SYSTEM, Cells, Mechanism, NoiseSource, positive, whole
from dpsql.kernel.mechanisms.weights import MOST_CELLS, Histogram, Histograms, Ramps, given, level, most_rows
from dpsql.lazy_dataclass import dataclass

PARTS = 256
"""Into how many parts a cell's rows may be split between two quantiles, if there are several."""

_DENOMINATOR = 10_000
"""Quantiles are rounded to fractions of at most this denominator."""


@dataclass(frozen=True, slots=True)
class Quantile(Mechanism["Cells[Quantile]"]):
    """Chooses cells of a public grid near quantiles of the rows, for all groups at the price of one.

    Notes
    -----
    *One quantile* q = a/b. Let a group have n rows, and n(<g), n(<=g) of them in cells before g, and up to g.
    A cell's distance is by how much the rank a n/b lies outside of its ranks, times b:

        d(g) = max(0, b n(<g) - a n, a n - b n(<=g)),

    and it has probability proportional to e^(-d/scale), scale = 2 C max(a, b - a)/epsilon. *Private:* one row
    more moves b n(<g) - a n by b - a or -a, and a n - b n(<=g) by a or a - b; so d moves by at most
    max(a, b - a), up or down, and r rows move it by r times that. Numerator and sum of a probability change
    by a factor of at most e^(epsilon r/(2 C)) each. The draws of the groups are independent, and a unit's
    rows in all groups are at most C: the product changes by at most e^epsilon. A cell's rows are cut at a
    public bound, so that integers do not overflow: 2^40 for one median on 2^20 cells.

    *Several:* the middle one first, then those below it among the rows before it and those above it among the
    rest, likewise; there are `levels` = ceil(log2(m + 1)) levels for m quantiles, each at epsilon/levels.
    So that rows of one cell can be on both sides, every row lies in 256 equal parts of its cell. A split is
    before one of the parts: with n rows in a range, and n' of them before the split, fractions of rows
    included, its distance is abs(b n' - a n). The quantiles of a range are relative to those at its ends.
    *Private:* a row that is in a range by a weight of w moves b n' - a n by at most w max(a, b - a). The
    ranges of a level are disjoint, so the weights of a row add up to at most 1 in all of them, and the
    factors of a level multiply to at most e^(epsilon/levels). The sum of a range's probabilities changes by
    one factor for all of its candidates, so the log-ratios of a level lie in an interval of that length.
    Where a range lies follows from the splits of earlier levels; this holds even if all splits were released.
    (Kaplan, Schnapp and Stemmer 2022; the fractions are ours, without which quantiles of rows with equal
    values would not converge.)

    *Exact:* candidates of equal or of equally spaced distances are drawn by `Ramps`.
    *Order:* the law depends on the grid, which is public, and on which group is which.
    """

    losses = (PureDP, BoundedRange)

    cells: int
    """Number of cells of the grid."""
    quantiles: tuple[Fraction, ...]
    """Numbers from 0 to 1, as asked for."""
    rows_per_unit: int
    """C, how many rows one unit has at most, in all groups together."""
    epsilon: Fraction
    """Budget of one level: `levels` mechanisms see each row."""

    @classmethod
    def plan(
        cls,
        cells: int,
        epsilon: Number,
        *,
        quantiles: Sequence[Number] = (Fraction(1, 2),),
        rows_per_unit: int = 1,
    ) -> Quantile:
        """Plan quantiles on a grid of cells, of a public number of groups.

        >>> from fractions import Fraction
        >>> plan = Quantile.plan(1 << 16, 1)
        >>> round(plan.rank_errors(Fraction(95, 100))[0], 1)
        14.1
        """
        budget, most = positive(epsilon, "epsilon"), whole(rows_per_unit, "rows_per_unit")
        if whole(cells, "cells") > MOST_CELLS:
            raise ValueError("a grid has at most 2^20 cells")
        asked = tuple(exact(one).limit_denominator(_DENOMINATOR) for one in quantiles)
        if not asked or min(asked) < 0 or max(asked) > 1:
            raise ValueError("quantiles must lie between 0 and 1, and there must be one")
        levels = len(set(asked)).bit_length()
        each = budget / levels
        made = cls(cells, asked, most, each, loss=PrivacyLoss((BoundedRange(each, levels),)))
        for _, relative in made.targets():
            exact_noise.rate(made.scale(relative), 0)
        return made

    @property
    def parts(self) -> int:
        """Into how many parts a cell is split: 1 for a single quantile."""
        return PARTS if len(set(self.quantiles)) > 1 else 1

    def scale(self, q: Fraction) -> Fraction:
        """Return the scale of distances for a quantile of a range, a whole row being `parts`."""
        largest = max(q.numerator, q.denominator - q.numerator) * self.parts
        return 2 * self.rows_per_unit * largest / self.epsilon

    def targets(self) -> list[tuple[Fraction, Fraction]]:
        """Return the different quantiles in ascending order, and each relative to those that bound its range.

        The ranges are those of a binary search: the middle one of a list splits it.
        """
        found: dict[Fraction, Fraction] = {}

        def search(some: list[Fraction], low: Fraction, high: Fraction) -> None:
            if some:
                middle = some[len(some) // 2]
                part = (middle - low) / (high - low) if high > low else Fraction(1, 2)
                found[middle] = part.limit_denominator(_DENOMINATOR)
                search(some[: len(some) // 2], low, middle)
                search(some[len(some) // 2 + 1 :], middle, high)

        search(sorted(set(self.quantiles)), Fraction(0), Fraction(1))
        return sorted(found.items())

    def rank_errors(self, confidence: Fraction) -> list[float]:
        """Predict by how many rows the rank of each quantile is off at most, in one group.

        A cell's rank is off by as much as the quantile's rank lies outside of the ranks of the cell's rows.
        Of one quantile it is a bound: the best cell is not off, and all others together have at most `cells`
        e^(-error/scale) of its probability. Of several, a quantile also has a part of the errors of those
        that bound its range, and cells have few rows each, in comparison with the scale.
        """
        doubt = math.log(self.cells / (1 - confidence))
        errors: dict[Fraction, float] = {}

        def search(some: list[tuple[Fraction, Fraction]], low: float, high: float) -> None:
            if some:
                q, part = some[len(some) // 2]
                own = 2 * self.rows_per_unit * float(max(part, 1 - part) / self.epsilon) * doubt
                errors[q] = math.hypot(own, (1 - part) * low, part * high)
                search(some[: len(some) // 2], low, errors[q])
                search(some[len(some) // 2 + 1 :], errors[q], high)

        search(self.targets(), 0.0, 0.0)
        return [errors[q] for q in self.quantiles]

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        All rows of a unit in all groups are at most C.
        """
        part = next(iter(self.loss.parts), None)
        levels = len(set(self.quantiles)).bit_length()
        paid = part is not None and part.times >= levels and (part.epsilon or 0) >= self.epsilon
        return paid and taken.low == 0 and taken.total <= self.rows_per_unit

    def run(self, counts: Histograms | ArrayLike, source: NoiseSource = SYSTEM) -> Cells[Quantile]:
        """Choose cells for each group, or for an array with a number of rows for every cell."""
        histograms = given(counts, self.cells)
        rows = sum(len(rows) for _, rows in histograms)
        cell = np.zeros((rows, len(self.quantiles)), dtype=np.int64)
        places = {q: place for place, (q, _) in enumerate(self.targets())}
        asked = [places[q] for q in self.quantiles]
        for histogram, which in histograms:
            cell[which] = self._draw(histogram, len(which), source.bits)[:, asked]
        one = not isinstance(counts, Histograms) and np.ndim(counts) == 1
        return Cells(self, cell[0] if one else cell)

    def _draw(self, histogram: Histogram, size: int, entropy: exact_noise.Entropy) -> NDArray[np.int64]:
        """Draw the different quantiles of a group, in order, `size` times."""
        targets = [part for _, part in self.targets()]
        if self.parts == 1:
            ramps = near_rank(histogram, targets[0], self.cells)
            return ramps.pick(self.scale(targets[0]), size, entropy)[:, None]
        found = np.zeros((size, len(targets)), dtype=np.int64)

        def search(trials: NDArray[np.intp], first: int, last: int, low: int, high: int) -> None:
            """Draw quantiles `first` to below `last` in the range from part `low` to below `high`."""
            if first == last or not len(trials):
                return
            middle = (first + last) // 2
            ramps = splits(histogram, targets[middle], self.cells, low, high)
            found[trials, middle] = ramps.pick(self.scale(targets[middle]), len(trials), entropy)
            for at in np.unique(found[trials, middle]).tolist() if last - first > 1 else ():
                there = trials[found[trials, middle] == at]
                search(there, first, middle, low, at)
                search(there, middle + 1, last, at, high)

        search(np.arange(size), 0, len(targets), 0, self.cells * self.parts)
        return found // self.parts


def near_rank(histogram: Histogram, q: Fraction, cells: int) -> Ramps:
    """Return the distances of all cells from the rank of one quantile, as in `Quantile`."""
    a, b = q.numerator, q.denominator
    number, cell = histogram.cut_to(most_rows(cells, b)), histogram.cell
    up_to = np.append(0, np.cumsum(number))
    rank = a * int(up_to[-1])
    inside = np.maximum(0, np.maximum(b * up_to[:-1] - rank, rank - b * up_to[1:]))
    between = np.abs(b * up_to - rank)
    start = np.append(0, cell + 1)
    gaps = np.append(cell, cells) - start
    return level(
        np.concatenate([cell, start]),
        np.concatenate([np.ones_like(cell), gaps]),
        np.concatenate([inside, between]),
    )


def splits(histogram: Histogram, q: Fraction, cells: int, low: int, high: int) -> Ramps:
    """Return the distances of all splits of a range of parts, as in `Quantile`.

    They are before the parts from `low` to `high`, the one after the last part of the grid left out.
    """
    a, b = q.numerator, q.denominator
    number = histogram.cut_to(most_rows(cells, b * PARTS))
    start, end = (np.clip(cell * PARTS, low, high) for cell in (histogram.cell, histogram.cell + 1))
    kept = start < end
    start, end, number = start[kept], end[kept], number[kept]
    before = np.append(0, np.cumsum(number * (end - start)))
    z = b * before - a * int(before[-1])
    gap = np.append(low, end)
    last = high + (high < cells * PARTS)
    flat = level(gap, np.append(start, last) - gap, np.abs(z))
    slope, first = b * number, z[:-1]
    # How many splits in a cell are below the rank: their distances decrease.
    under = np.clip(-(first // np.maximum(slope, 1)), 0, end - start)
    falling, rising = under > 0, under < end - start
    return Ramps(
        np.concatenate([flat.start, (start + under - 1)[falling], (start + under)[rising]]),
        np.concatenate([flat.step, np.full(falling.sum(), -1), np.ones(rising.sum(), dtype=np.int64)]),
        np.concatenate([flat.length, under[falling], (end - start - under)[rising]]),
        np.concatenate(
            [flat.distance, -(first + (under - 1) * slope)[falling], (first + under * slope)[rising]]
        ),
        np.concatenate([flat.slope, slope[falling], slope[rising]]),
    )


_BEYOND = 20
"""The cell is beyond the largest value of all units with a probability of at most 1 in this."""


@dataclass(frozen=True, slots=True)
class Extreme(Mechanism["Cells[Extreme]"]):
    """Chooses a cell of a public grid that about `units` units reach: near the largest value of a group.

    Each unit counts once in a group, in the cell of its own largest value; with `lowest`, of its smallest.

    Notes
    -----
    Let n(>=g) be the units whose largest cell is g or above, and n(>g) those above. The distance of a cell is
    how far `units` lies outside of the two, d(g) = max(0, n(>g) - units, units - n(>=g)), and its probability
    is proportional to e^(-d/scale). Of many units with one largest value, that value is best, even if far
    more units have it. *Private:* a unit more moves both numbers by 0 or 1, the distance by at most 1, up or
    down, and so a probability by a factor of at most e^(2/scale); it is in at most m groups, and the factors
    multiply to at most e^(2 m/scale) = e^epsilon. The change of the sum of a group's probabilities is the
    same for all cells, so all log-ratios lie in an interval of length epsilon: the range is bounded by it. A
    cell's units are cut at a public bound, at least 2^41, so that integers do not overflow.

    *Beyond the largest value* d(g) is `units`. With at least so many units some cell has a distance of 0, and
    all cells beyond have at most `cells` e^(-units/scale) of its probability together. `units` is the least
    number for which this is at most 1/20.

    *Order:* the law depends on the grid, which is public, and on which group is which.
    """

    losses = (PureDP, BoundedRange)

    cells: int
    """Number of cells of the grid."""
    scale: Fraction
    """In units: 2 m/epsilon, m the number of groups that one unit may be in."""
    units: int
    """How many units are to reach the cell."""
    lowest: bool
    """Whether the smallest value is asked for."""

    @classmethod
    def plan(cls, cells: int, epsilon: Number, *, lowest: bool = False, groups_per_unit: int = 1) -> Extreme:
        """Plan the choice of a cell for each of a public number of groups.

        >>> Extreme.plan(1 << 16, 1).units
        29
        """
        budget, m = positive(epsilon, "epsilon"), whole(groups_per_unit, "groups_per_unit")
        if whole(cells, "cells") > MOST_CELLS:
            raise ValueError("a grid has at most 2^20 cells")
        scale = 2 * m / budget
        exact_noise.rate(scale, 0)
        units = max(1, math.ceil(float(scale) * math.log(_BEYOND * cells)))
        return cls(cells, scale, units, lowest, loss=PrivacyLoss((BoundedRange(budget),)))

    def most_units(self, confidence: Fraction) -> float:
        """Predict how many units reach the cell at most; at least 1 does, except in one run of 20."""
        return self.units + float(self.scale) * math.log(self.cells / (1 - confidence))

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for counts that one unit changes so far.

        A unit is in one cell of each of m groups.
        """
        units = taken.low == 0 and taken.high <= 1
        return units and 2 * taken.total <= (self.loss.epsilon or 0) * self.scale

    def run(self, counts: Histograms | ArrayLike, source: NoiseSource = SYSTEM) -> Cells[Extreme]:
        """Choose a cell for each group, or for an array with a number of units for every cell."""
        histograms = given(counts, self.cells)
        cell = np.zeros((sum(len(rows) for _, rows in histograms), 1), dtype=np.int64)
        for histogram, which in histograms:
            ramps = near_reach(histogram, self.units, self.cells, lowest=self.lowest)
            cell[which, 0] = ramps.pick(self.scale, len(which), source.bits)
        one = not isinstance(counts, Histograms) and np.ndim(counts) == 1
        return Cells(self, cell[0] if one else cell)


def near_reach(histogram: Histogram, units: int, cells: int, *, lowest: bool) -> Ramps:
    """Return the distances of all cells from being reached by a given number of units, as in `Extreme`."""
    number, cell = histogram.cut_to(most_rows(cells, 1)), histogram.cell
    reach = np.append(0, np.cumsum(number)) if lowest else np.append(np.cumsum(number[::-1])[::-1], 0)
    beyond, up_to = np.minimum(reach[:-1], reach[1:]), np.maximum(reach[:-1], reach[1:])
    inside = np.maximum(0, np.maximum(beyond - units, units - up_to))
    start = np.append(0, cell + 1)
    gaps = np.append(cell, cells) - start
    return level(
        np.concatenate([cell, start]),
        np.concatenate([np.ones_like(cell), gaps]),
        np.concatenate([inside, np.abs(reach - units)]),
    )
