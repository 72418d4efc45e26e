"""Quantiles and extremes on tiny grids: the loss of every output on all small neighbours, against epsilon.

The distances are those of the functions that the mechanisms draw from; that what is drawn has this law is in
``statistical/test_quantile_law.py``.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import Extreme, Quantile
from dpsql.kernel.mechanisms.quantile import PARTS, near_rank, near_reach, splits
from dpsql.kernel.mechanisms.weights import Histogram, Ramps

Rows = tuple[int, ...]
"""How many rows are in each cell, of all groups one after another."""

EPSILON = 1.0
MANY = 40


def histogram(rows: Rows) -> Histogram:
    number = np.array(rows, dtype=np.int64)
    cell = np.flatnonzero(number)
    return Histogram(cell, number[cell])


def log_law(ramps: Ramps, scale: float, first: int, size: int) -> NDArray[np.float64]:
    """Return the logarithm of the probability of each candidate."""
    distance = np.full(size, -1.0)
    for start, step, length, least, slope in zip(
        ramps.start, ramps.step, ramps.length, ramps.distance, ramps.slope, strict=True
    ):
        for i in range(length):
            at = start + step * i - first
            assert distance[at] == -1  # each candidate once
            distance[at] = least + slope * i
    assert (distance >= 0).all()
    weight = -distance / scale
    return weight - np.logaddexp.reduce(weight)


def neighbours(places: int, most: int, unit: int) -> Iterator[tuple[Rows, Rows]]:
    """Return all data of at most `most` rows, each with all that a unit of `unit` rows may add to it.

    Each is there again with `MANY` times the rows: with few, no probability moves by as much as it may.
    """
    some = [
        tuple(Counter(rows)[place] for place in range(places))
        for size in range(max(most, unit) + 1)
        for rows in itertools.combinations_with_replacement(range(places), size)
    ]
    for data in some:
        for added in some:
            if sum(data) <= most and 0 < sum(added) <= unit:
                for times in (1, MANY):
                    base = tuple(times * a for a in data)
                    yield base, tuple(a + b for a, b in zip(base, added, strict=True))


def worst(data: NDArray[np.float64], more: NDArray[np.float64]) -> float:
    return float(np.abs(data - more).max())


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)])
@pytest.mark.sampled(5)
def test_one_quantile_of_two_groups(q: Fraction, limit: int) -> None:
    """One unit has at most `limit` rows in both groups together; each group has the full epsilon."""
    cells = 3
    plan = Quantile.plan(cells, EPSILON, quantiles=[q], rows_per_unit=limit)
    loss = {1.0: 0.0, 0.5: 0.0}

    @cache
    def law(rows: Rows, factor: float) -> NDArray[np.float64]:
        return log_law(near_rank(histogram(rows), q, cells), factor * float(plan.scale(q)), 0, cells)

    for data, more in neighbours(2 * cells, 4, limit):
        for factor, most in loss.items():
            both = sum(
                worst(law(data[part], factor), law(more[part], factor))
                for part in (slice(0, cells), slice(cells, 2 * cells))
            )
            loss[factor] = max(most, both)
    assert loss[1.0] <= EPSILON + 1e-12
    assert loss[0.5] > EPSILON  # half of the scale is not enough


def losses(first: Rows, second: Rows, cells: int, parts: int, plan: Quantile, factor: float) -> float:
    """Return the largest loss of three quantiles: of the split, and of both ranges given it."""
    (_, low), (_, middle), (_, high) = plan.targets()

    @cache
    def law(rows: Rows, q: Fraction, begin: int, end: int) -> NDArray[np.float64]:
        size = end - begin + (end < cells * parts)
        ramps = splits(histogram(rows), q, cells, begin, end)
        return log_law(ramps, factor * float(plan.scale(q)), begin, size)

    def loss(q: Fraction, begin: int, end: int) -> NDArray[np.float64]:
        return np.asarray(np.abs(law(first, q, begin, end) - law(second, q, begin, end)))

    top = loss(middle, 0, cells * parts)
    return max(
        each + float(loss(low, 0, at).max()) + float(loss(high, at, cells * parts).max())
        for at, each in enumerate(top.tolist())
    )


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("quantiles", [("0.25", "0.5", "0.75"), ("0.1", "0.2", "0.9"), ("0", "0.5", "1")])
@pytest.mark.sampled(7)
def test_three_quantiles(quantiles: tuple[str, ...], limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is split between the ranges by its fractions; the shares of epsilon add up."""
    cells, parts = 2, 3
    # The package exports a function of the module's name.
    monkeypatch.setattr(sys.modules["dpsql.kernel.mechanisms.quantile"], "PARTS", parts)
    plan = Quantile.plan(cells, EPSILON, quantiles=quantiles, rows_per_unit=limit)
    assert plan.parts == parts
    pairs = list(neighbours(cells, 4, limit))
    found = {
        factor: max(losses(data, more, cells, parts, plan, factor) for data, more in pairs)
        for factor in (1.0, 0.5)
    }
    assert found[1.0] <= EPSILON + 1e-12
    assert found[0.5] > EPSILON


@pytest.mark.slow  # every day with the smaller parts of `test_three_quantiles`
def test_three_quantiles_with_the_parts_that_ship() -> None:
    plan = Quantile.plan(2, EPSILON, quantiles=["0.25", "0.5", "0.75"])
    for data in ((1, 0), (2, 1)):
        for more in ((data[0] + 1, data[1]), (data[0], data[1] + 1)):
            assert losses(data, more, 2, PARTS, plan, 1.0) <= EPSILON + 1e-12


@pytest.mark.parametrize("lowest", [False, True])
@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.sampled(5)
def test_an_extreme(units: int, *, lowest: bool) -> None:
    cells = 4
    plan = Extreme.plan(cells, EPSILON, lowest=lowest)

    def law(rows: Rows, factor: float) -> NDArray[np.float64]:
        ramps = near_reach(histogram(rows), units, cells, lowest=lowest)
        return log_law(ramps, factor * float(plan.scale), 0, cells)

    found = {
        factor: max(worst(law(data, factor), law(more, factor)) for data, more in neighbours(cells, 4, 1))
        for factor in (1.0, 0.5)
    }
    assert found[1.0] <= EPSILON + 1e-12
    assert found[0.5] > EPSILON


def test_an_extreme_of_several_groups_pays_for_each() -> None:
    assert Extreme.plan(8, 1, groups_per_unit=3).scale == 3 * Extreme.plan(8, 1).scale


def test_the_distance_of_a_cell_is_that_of_its_ranks() -> None:
    """By hand: ranks of the cells are 0..2, 2..2, 2..9, 9..9 of 9 rows; the median has rank 4.5."""
    ramps = near_rank(histogram((2, 0, 7, 0)), Fraction(1, 2), 4)
    distance = dict(zip(ramps.start.tolist(), ramps.distance.tolist(), strict=True))
    assert distance == {0: 5, 1: 5, 2: 0, 3: 9}
    assert ramps.length.tolist() == [1] * 4


def test_the_units_that_reach_a_cell() -> None:
    """By hand, for two units: up to the cells 1, 1, 4, 5, 5 units are, from them on 5, 4, 4, 1, 0."""
    for lowest, wanted in ((False, [2, 2, 0, 1, 2]), (True, [1, 1, 0, 2, 3])):
        ramps = near_reach(histogram((1, 0, 3, 1, 0)), 2, 5, lowest=lowest)
        reach = np.zeros(5, dtype=np.int64)
        for start, length, distance in zip(ramps.start, ramps.length, ramps.distance, strict=True):
            reach[start : start + length] = distance
        assert reach.tolist() == wanted
