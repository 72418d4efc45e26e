"""A number and its excess on all small databases: the worst loss of the noise that releases both.

The law of the box is that of `mechanisms.box`: the probability of a release w is proportional to
e^(-rate range(w - q, 0)), with a constant that does not depend on the exact numbers q.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import Box, Gaussian, Laplace, RungBins
from dpsql.kernel.tree import Column, Item, Scan, Scores, Select, Sums, duckdb_sql

SIZES = range(1, 9)
UNITS = 4
BOUNDS = (1, 2, 4, 8, 16)
EPSILON = Fraction(1, 2)
Database = tuple[int, ...]
Pair = Callable[[Database, int], tuple[int, int]]


def search_of(databases: Iterator[Database], sums: Sums) -> dict[Database, RungBins]:
    """The search of some multisets of what units have, as the engine counts it: of all in one query."""
    total = Column("r", "a", stored=True)
    own = Select((Item(total, "t"),), Scan("r", "r"))
    sql = duckdb_sql(Scores(own, BOUNDS, by_excess=True, wide=False, sums=sums, signed=True))
    assert sql.count('main."r"') == 1
    sql = sql.replace('main."r"', "(SELECT a FROM every WHERE every.d = each.d)")
    every = list(databases)
    rows: dict[int, list[tuple[int, ...]]] = {}
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute(
            "CREATE TABLE every AS SELECT d, unnest(units) AS a "
            "FROM (SELECT unnest($1::INTEGER[]) AS d, unnest($2::BIGINT[][]) AS units)",
            [[*range(len(every))], [list(database) for database in every]],
        )
        listed = f"(SELECT unnest(range({len(every)})) AS d) AS each"
        for place, *row in connection.execute(f"SELECT * FROM {listed}, LATERAL ({sql})").fetchall():
            rows.setdefault(place, []).append(tuple(row))
    return {
        database: RungBins(*np.array(rows.get(place, []), dtype=np.int64).reshape(-1, sums.value).T)
        for place, database in enumerate(every)
    }


@pytest.fixture(scope="module")
def counted() -> dict[Database, RungBins]:
    """The search of every multiset of at most four sizes up to eight, as the engine counts it."""
    return search_of(databases(UNITS), Sums.SIZES)


def databases(most: int) -> Iterator[Database]:
    for units in range(most + 1):
        yield from itertools.combinations_with_replacement(SIZES, units)


def neighbours() -> Iterator[tuple[Database, Database]]:
    for database in databases(UNITS - 1):
        for size in SIZES:
            yield database, tuple(sorted((*database, size)))


def worst(pair: Pair, place: int, *, monotone: bool = True) -> float:
    """Return the largest log-ratio of the box of two numbers, over neighbours and releases on its grid."""
    bound = BOUNDS[place]
    box = Box.plan(2, EPSILON, sensitivity=[bound, bound], monotone=monotone)
    assert box.pads == monotone
    step, reach = box.unit // bound, UNITS * 4 * bound + 2
    ends = np.unique(np.concatenate([np.arange(-reach, reach + 1), [-20 * reach, 20 * reach]]))
    first, second = np.meshgrid(ends, ends)

    def spread(numbers: tuple[int, int]) -> NDArray[np.int64]:
        off = (first - numbers[0], second - numbers[1])
        if not monotone:
            return np.maximum(*map(np.abs, off))
        return np.maximum(np.maximum(*off), 0) - np.minimum(np.minimum(*off), 0)

    moves = {(pair(a, place), pair(b, place)) for a, b in neighbours()}
    most = max(int(np.abs(spread(one) - spread(other)).max()) for one, other in moves)
    return float(box.rate * most * step)


def clipped_and_excess(counted: dict[Database, RungBins]) -> Pair:
    return lambda database, place: (
        counted[database].clipped(BOUNDS, place),
        counted[database].excess(BOUNDS, place),
    )


def test_they_are_those_of_the_definition(counted: dict[Database, RungBins]) -> None:
    for database, bins in counted.items():
        for place, times in ((0, 1), (0, 3), (1, 1), (1, 3), (2, 1), (2, 3), (3, 1)):
            bound = BOUNDS[place]
            assert bins.clipped(BOUNDS, place) == sum(min(c, bound) for c in database)
            excess = sum(min(max(c - bound, 0), times * bound) for c in database)
            assert bins.excess(BOUNDS, place, times=times) == excess


@pytest.mark.parametrize("place", range(3))
def test_both_in_one_box_cost_epsilon(counted: dict[Database, RungBins], place: int) -> None:
    assert worst(clipped_and_excess(counted), place) == float(EPSILON)


@pytest.mark.parametrize("place", range(3))
def test_an_excess_that_is_not_cut_is_noticed(counted: dict[Database, RungBins], place: int) -> None:
    bound = BOUNDS[place]

    def uncut(database: Database, place: int) -> tuple[int, int]:
        return counted[database].clipped(BOUNDS, place), sum(max(c - bound, 0) for c in database)

    # Beyond 2B is none of the sizes if B is 4.
    assert (worst(uncut, place) > 1.4 * EPSILON) == (2 * bound < max(SIZES))


@pytest.mark.parametrize("place", range(3))
def test_an_excess_that_moves_the_other_way_is_noticed(counted: dict[Database, RungBins], place: int) -> None:
    def opposite(database: Database, place: int) -> tuple[int, int]:
        clipped, excess = clipped_and_excess(counted)(database, place)
        return clipped, -excess

    assert worst(opposite, place) == 2 * EPSILON
    assert worst(opposite, place, monotone=False) == float(EPSILON), "what a cube is for"


@pytest.mark.parametrize("place", range(3))
def test_an_excess_by_itself_costs_epsilon(counted: dict[Database, RungBins], place: int) -> None:
    most = 3 * BOUNDS[place]
    noise = Laplace.plan(1, EPSILON, sensitivity=most)

    def moves(times: int) -> set[int]:
        each = ((counted[d].excess(BOUNDS, place, times=times) for d in pair) for pair in neighbours())
        return {other - one for one, other in each}

    assert min(moves(3)) == 0
    assert Fraction(max(moves(3))) / noise.scale <= EPSILON
    if place == 0:
        assert Fraction(max(moves(7))) / noise.scale > EPSILON, "an excess that is cut at too many bounds"


@pytest.mark.parametrize("times", [1, 3])
def test_sums_that_are_cut_by_their_limit_still_move_up_by_little(times: int) -> None:
    """Totals near 2^60 of many units in one row: an addition never lowers the excess."""
    bound, place = 1 << 58, 1
    bounds = tuple(1 << power for power in range(57, 64))

    def excess(units: Sequence[int]) -> int:
        rows = []
        for exceeded in range(len(bounds) + 1):
            own = [u for u in units if sum(u > b for b in bounds) == exceeded]
            last = bounds[exceeded - 1] if exceeded else 0
            limit = 1 << 60
            beyond = min(sum(own) - last * len(own), limit)
            rows.append((exceeded, len(own), 0, min(sum(own), limit), beyond))
        return RungBins(*np.array(rows, dtype=np.int64).T).excess(bounds, place, times=times)

    units: list[int] = []
    for extra in (0, 1, 5, 1 << 57, (1 << 58) - 1, 3, 1 << 59, 1 << 60, 7, 1 << 58):
        before = excess(units)
        units.append(bound + extra)
        assert 0 <= excess(units) - before <= times * bound


FEW = 3
SIGNED = (*range(-8, 0), *SIZES)


@pytest.fixture(scope="module")
def signed() -> dict[Database, RungBins]:
    """The search of every multiset of at most three totals of either sign."""
    every = (itertools.combinations_with_replacement(SIGNED, units) for units in range(FEW + 1))
    return search_of(itertools.chain(*every), Sums.SIGNED)


def cut(total: int, bound: int) -> int:
    return max(-bound, min(total, bound))


def moves(searched: dict[Database, RungBins], pair: Pair, place: int) -> set[tuple[int, int]]:
    """Return by how much a unit more moves two numbers, in any database."""
    found = set()
    units = max(map(len, searched))
    for database in searched:
        if len(database) == units:
            continue
        for total in {each for every in searched for each in every}:
            more = tuple(sorted((*database, total)))
            one, other = pair(database, place), pair(more, place)
            found.add((other[0] - one[0], other[1] - one[1]))
    return found


def leading(searched: dict[Database, RungBins]) -> Pair:
    return lambda database, place: (
        searched[database].clipped(BOUNDS, place),
        searched[database].lead(BOUNDS, place),
    )


def test_a_lead_is_that_of_the_definition(
    counted: dict[Database, RungBins], signed: dict[Database, RungBins]
) -> None:
    for searched in (counted, signed):
        for database, bins in searched.items():
            for place in range(4):
                bound = BOUNDS[place]
                own = [(cut(c, bound), cut(c, 2 * bound) - cut(c, bound)) for c in database]
                assert bins.clipped(BOUNDS, place) == sum(a for a, _ in own)
                assert bins.lead(BOUNDS, place) == sum(2 * e - a for a, e in own)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("which", ["counted", "signed"])
@pytest.mark.sampled(5)
def test_gaussian_noise_of_each_costs_its_share(
    which: str, place: int, request: pytest.FixtureRequest
) -> None:
    """The cost of the two noises over all moves of a unit is at most the sum of both, and reaches it."""
    searched, bound = request.getfixturevalue(which), BOUNDS[place]
    noises = [Gaussian.plan(1, rho, sensitivity=bound) for rho in (Fraction(17, 20), Fraction(3, 20))]

    def cost(pair: Pair) -> Fraction:
        return max(
            sum(
                (
                    Fraction((moved * (noise.unit // bound)) ** 2, 2 * noise.own)
                    for moved, noise in zip(each, noises, strict=True)
                ),
                Fraction(0),
            )
            for each in moves(searched, pair, place)
        )

    assert 1 - Fraction(1, 1000) < cost(leading(searched)) <= 1

    def without_the_number(database: Database, place: int) -> tuple[int, int]:
        clipped, lead = leading(searched)(database, place)
        return clipped, lead + clipped

    assert cost(without_the_number) > Fraction(7, 5), "2 E alone moves by 2 B"

    def uncut(database: Database, place: int) -> tuple[int, int]:
        own = [cut(c, bound) for c in database]
        return sum(own), 2 * sum(database) - 3 * sum(own)

    # Beyond 2B is none of the sizes if B is 4.
    assert (cost(uncut) > Fraction(6, 5)) == (2 * bound < max(SIZES))


def test_a_sign_that_is_left_out_is_noticed(signed: dict[Database, RungBins]) -> None:
    """Of absolute excesses the lead would move by 3 B."""

    def absolute(database: Database, place: int) -> tuple[int, int]:
        clipped = signed[database].clipped(BOUNDS, place)
        return clipped, 2 * signed[database].excess(BOUNDS, place) - clipped

    assert max(abs(lead) for _, lead in moves(signed, absolute, 1)) == 3 * BOUNDS[1]
    assert max(abs(lead) for _, lead in moves(signed, leading(signed), 1)) == BOUNDS[1]


def test_a_lead_of_sums_that_are_cut_by_their_limit_moves_by_at_most_the_bound() -> None:
    """Totals near 2^60 of many units of both signs in one row, as the query cuts their sums."""
    place, bounds = 1, tuple(1 << power for power in range(57, 64))
    bound, limit = bounds[place], 1 << 60

    def lead(units: Sequence[int]) -> int:
        rows = []
        for exceeded in range(len(bounds) + 1):
            own = [u for u in units if sum(abs(u) > b for b in bounds) == exceeded]
            last, below = bounds[exceeded - 1] if exceeded else 0, sum(u < 0 for u in own)
            every = (sum(own), sum(map(abs, own)) - last * len(own), sum(own) - last * (len(own) - 2 * below))
            total, beyond, net = (cut(each, limit) for each in every)
            rows.append((exceeded, len(own), 0, total, beyond, below, net))
        return RungBins(*np.array(rows, dtype=np.int64).T).lead(bounds, place)

    units: list[int] = []
    for total in (*[bound + 5, bound * 2 - 1, -bound - 1, bound * 2] * 5, *[1 - bound * 2] * 12, 7, bound):
        before = lead(units)
        units.append(total)
        assert abs(lead(units) - before) <= bound
