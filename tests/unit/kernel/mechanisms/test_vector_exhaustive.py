"""The moments of a column, by their definition: what one unit of few rows moves, and what is lost by it.

All units of at most three rows in two groups. The moments are those of the SQL that counts, written again
here: rows beyond C weigh C/r each, divided at the end and rounded down, the first moment what is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from dpsql.kernel.mechanisms import Laplace

Row = tuple[int, int]
"""Group, and steps above the lower bound, from 0 to R."""
Parts = Callable[[list[int], int, int, int, int], list[int]]

GROUPS, RANGE = 2, 3
EPSILON = Fraction(7, 10)


def units(most: int) -> Iterator[tuple[Row, ...]]:
    rows = list(itertools.product(range(GROUPS), range(RANGE + 1)))
    for size in range(1, most + 1):
        yield from itertools.combinations_with_replacement(rows, size)


def exact(steps: list[int], degree: int) -> list[int]:
    """Return the sums of the parts of unity after the first, of the rows of a group."""
    if degree == 1:
        return [sum(steps)]
    return [sum(2 * x * (RANGE - x) for x in steps), sum(x * x for x in steps)]


def weighted(steps: list[int], degree: int, rows: int, limit: int, whole: int) -> list[int]:
    """Return the moments that a unit of so many rows in all adds to a group in which it has these steps."""
    total, parts = len(steps) * whole, exact(steps, degree)
    if rows > limit:
        total, parts = total * limit // rows, [part * limit // rows for part in parts]
    return [total - sum(parts), *parts]


def rounded_up(steps: list[int], degree: int, rows: int, limit: int, whole: int) -> list[int]:
    """Return the same with every part rounded up: a unit adds more than its bound."""
    parts = exact(steps, degree)
    every = [len(steps) * whole - sum(parts), *parts]
    return [-(-part * limit // rows) for part in every] if rows > limit else every


def each_group(steps: list[int], degree: int, rows: int, limit: int, whole: int) -> list[int]:
    """Return the same with the limit in each group: in all of them a unit has more rows than that."""
    del rows
    return weighted(steps, degree, max(len(steps), 1), limit, whole)


def moves(unit: tuple[Row, ...], degree: int, limit: int, parts: Parts = weighted) -> list[int]:
    """Return what a unit adds to the moments of both groups."""
    return [
        part
        for group in range(GROUPS)
        for part in parts([x for at, x in unit if at == group], degree, len(unit), limit, RANGE**degree)
    ]


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_unit_loses_at_most_epsilon_in_all_moments_of_all_groups(degree: int, limit: int) -> None:
    most = limit * RANGE**degree
    plan = Laplace.plan(GROUPS * (degree + 1), EPSILON, groups_per_unit=1, sensitivity=most)
    assert plan.loss.charge.epsilon == EPSILON
    reached = 0
    for unit in units(3):
        added = moves(unit, degree, limit)
        assert min(added) >= 0
        assert sum(added) <= most
        # No output's probability changes by more than e^(move/scale) for each number.
        assert sum(added) / plan.scale <= EPSILON
        reached = max(reached, sum(added))
    assert reached == most


@pytest.mark.parametrize("parts", [rounded_up, each_group])
@pytest.mark.parametrize("degree", [1, 2])
def test_other_ways_to_weigh_rows_are_over_the_bound(parts: Parts, degree: int) -> None:
    limit = 1 if parts is each_group else 2
    assert max(sum(moves(unit, degree, limit, parts)) for unit in units(3)) > limit * RANGE**degree
