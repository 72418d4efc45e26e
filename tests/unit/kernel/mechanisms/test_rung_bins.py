"""Figures of units by the bounds that they exceed: scores and sums that follow, and what one unit moves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dpsql.kernel.mechanisms import FULL, RungBins, excess_score, excess_scores
from dpsql.kernel.mechanisms.ladder import LIMIT

BOUNDS = (1, 2, 4, 8, 16, 32)
SIZES = (-33, -18, -17, -16, -3, -1, 0, 1, 2, 5, 9, 16, 17, 18, 20, 32, 35, 100)


def binned(units: Sequence[int], bounds: Sequence[int] = BOUNDS, *, signed: bool = True) -> RungBins:
    """Return the figures of units, as the query of a search counts them."""
    rows: dict[int, list[int]] = {}
    for unit in units:
        exceeded = sum(abs(unit) > bound for bound in bounds)
        last = bounds[exceeded - 1] if exceeded else 0
        score = excess_score(abs(unit), last) if exceeded else 0
        row = rows.setdefault(exceeded, [0] * 5)
        for place, more in enumerate((1, score, unit, abs(unit) - last, unit < 0)):
            row[place] = max(-LIMIT, min(row[place] + more, LIMIT))
    listed = [[exceeded, *row] for exceeded, row in rows.items()]
    columns = np.array(listed, dtype=np.int64).reshape(-1, 6).T
    return RungBins(*(columns if signed else columns[:5]))


def clipped(units: Sequence[int], bound: int) -> int:
    return sum(max(-bound, min(unit, bound)) for unit in units)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_they_give_what_the_units_give(count: int) -> None:
    for units in itertools.combinations_with_replacement(SIZES, count):
        bins, sizes = binned(units), [abs(unit) for unit in units]
        assert bins.scores(len(BOUNDS)).tolist() == [*excess_scores(sizes, BOUNDS)[:-1], 0]
        for place, bound in enumerate(BOUNDS):
            assert bins.clipped(BOUNDS, place) == clipped(units, bound)
            for times in (1, 3):
                beyond = sum(min(max(size - bound, 0), times * bound) for size in sizes)
                if (times + 1) * bound in BOUNDS:
                    assert bins.excess(BOUNDS, place, times=times) == beyond
                else:
                    with pytest.raises(ValueError, match="not in"):
                        bins.excess(BOUNDS, place, times=times)
        if min(units, default=0) >= 0:
            alone = binned(units, signed=False)
            assert [alone.clipped(BOUNDS, place) for place in range(6)] == [clipped(units, b) for b in BOUNDS]


Sum = Callable[[RungBins, int], int]
ALONE = [(size,) for size in SIZES]
"""Each unit alone."""


def moved(sum_of: Sum, units: Sequence[Sequence[int]] = ALONE) -> float:
    """Return by how many times the bound one unit more moves a sum at most."""
    return max(
        abs(sum_of(binned([*each, more]), place) - sum_of(binned(each), place)) / bound
        for each in units
        for more in SIZES
        for place, bound in enumerate(BOUNDS[:-1])
    )


FAR = ((LIMIT - 1,), (LIMIT - 1, 20), (1 - LIMIT, -18), (LIMIT, -LIMIT, 9))
"""Units of which sums reach the limit."""


@pytest.mark.parametrize("units", [ALONE, FAR])
def test_one_unit_moves_a_sum_by_at_most_the_bound(units: Sequence[Sequence[int]]) -> None:
    assert moved(lambda bins, place: bins.clipped(BOUNDS, place), units) == 1
    assert moved(lambda bins, place: bins.excess(BOUNDS, place), units) == 1


@pytest.mark.parametrize("units", [ALONE, FAR])
def test_one_unit_never_lowers_an_excess(units: Sequence[Sequence[int]]) -> None:
    """Sums that are cut to their limit are of what is beyond a bound, not of all that units have."""
    for each, more in itertools.product(units, SIZES):
        for place, bound in enumerate(BOUNDS[:-2]):
            before, after = (binned(u).excess(BOUNDS, place, times=3) for u in (each, [*each, more]))
            assert 0 <= after - before <= 3 * bound


def test_mutants_move_more() -> None:
    """What a unit above the bound has is not what it counts; a sum of another bound has another bound."""

    def whole(bins: RungBins, place: int) -> int:
        assert bins.totals is not None
        return int(bins.totals.sum())

    assert moved(whole) > 1
    assert moved(lambda bins, place: bins.clipped(BOUNDS, place + 1)) > 1
    assert moved(lambda bins, place: bins.excess(BOUNDS, place) + bins.clipped(BOUNDS, place)) > 1


def test_one_unit_moves_all_scores_the_same_way_by_at_most_one_unit() -> None:
    for units in itertools.combinations_with_replacement(SIZES, 2):
        for more in SIZES:
            steps = binned([*units, more]).scores(6) - binned(units).scores(6)
            assert ((steps >= 0) & (steps <= FULL)).all()


def test_a_search_alone_has_no_sums() -> None:
    with pytest.raises(ValueError, match="not known"):
        replace(binned([3, 5]), totals=None).clipped(BOUNDS, 0)
    with pytest.raises(ValueError, match="not known"):
        replace(binned([3, 5]), beyond=None).excess(BOUNDS, 0)


FINE = 4
"""In how many steps totals have a unit at the last bound that it exceeds."""


def in_steps(units: Sequence[int]) -> RungBins:
    """Return figures of units whose totals are in steps of their own, rounded towards zero."""
    bins = binned(units)
    assert bins.totals is not None
    sizes = [max(BOUNDS[place - 1] // FINE, 1) if place else 1 for place in bins.exceeded.tolist()]
    rows = zip(bins.totals.tolist(), sizes, strict=True)
    return replace(
        bins, totals=np.array([abs(t) // s * (1 if t > 0 else -1) for t, s in rows], dtype=np.int64)
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_totals_in_steps_move_a_sum_in_steps_by_at_most_the_bound(count: int) -> None:
    """One unit more moves it by the bound in steps; what is rounded is less than a step for each bound."""
    for units in itertools.combinations_with_replacement(SIZES, count):
        for place, bound in enumerate(BOUNDS):
            step = max(bound // (2 * FINE), 1)
            more, less = (
                in_steps(each).clipped(BOUNDS, place, step=step, fine=FINE) for each in (units, units[1:])
            )
            assert abs(more - less) <= bound // step
            assert abs(more - clipped(units, bound) / step) < len(BOUNDS)
