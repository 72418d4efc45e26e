"""Cells of rows against lists of their points, and the cells that make up another one against all choices."""

from __future__ import annotations

import itertools
import json
from random import Random

import pytest

from dpsql.estimates.value_sets import (
    Cell,
    ValueSet,
    compose_cell,
    find_missing,
    is_within,
    join_cells,
    meet,
    unite,
)

NUMBERS = [-9, 0, 1, 2, 3, 4, 5, 9, None]
NAMES = ["a", "b", "c", "zz", None]
Point = tuple[object, object]


def values(rng: Random, column: str) -> ValueSet:
    null = ValueSet((), null=rng.random() < 0.3)
    if column == "x":
        ends = [None, *range(6)]
        ranges = [(rng.choice(ends), rng.choice(ends)) for _ in range(rng.randint(1, 2))]
        return unite([null, *(ValueSet.of_range(*each, closed=True) for each in ranges)])
    names = ValueSet.of_values(rng.sample("abc", rng.randint(0, 3)))
    return (names.complement().known if rng.random() < 0.4 else names) | null


def points(cell: Cell) -> set[Point]:
    every = itertools.product(NUMBERS, NAMES)
    return {p for p in every if all(c not in cell or v in cell[c] for c, v in zip("xy", p, strict=True))}


def cell(rng: Random) -> Cell:
    found = {column: values(rng, column) for column in "xy" if rng.random() < 0.8}
    return {column: each for column, each in found.items() if each}


def test_sets_of_values_are_sets() -> None:
    rng = Random(1)
    for _ in range(2000):
        for column, every in (("x", NUMBERS), ("y", NAMES)):
            a, b = values(rng, column), values(rng, column)
            here, there = ({v for v in every if v in each} for each in (a, b))
            for made, wanted in ((a & b, here & there), (a - b, here - there), (a | b, here | there)):
                assert {v for v in every if v in made} == wanted, (a, b)
            assert (a <= b) == (here <= there)
            assert ValueSet.of_data(json.loads(json.dumps(a.to_data()))) == a


def test_cells_meet_and_lie_in_each_other() -> None:
    rng = Random(2)
    for _ in range(2000):
        a, b = cell(rng), cell(rng)
        both = meet(a, b)
        assert points(a) & points(b) == (set() if both is None else points(both))
        assert is_within(a, b) == (points(a) <= points(b))


@pytest.mark.parametrize("seed", range(4))
def test_a_cell_is_made_up_of_the_earliest_disjoint_ones(seed: int) -> None:
    rng, composed = Random(seed), 0
    for _ in range(700):
        asked: Cell = {
            "x": ValueSet.of_range(0, rng.choice([1, 2]), closed=True),
            "y": ValueSet.of_values("abc"[: rng.randint(1, 2)]),
        }
        listed = list[Cell]()
        for _ in range(rng.randint(1, 7)):
            low = rng.randint(0, 2)
            made = {"x": ValueSet.of_range(low, rng.randint(low, 2), closed=True)}
            made["y"] = ValueSet.of_values(rng.sample("ab", rng.randint(1, 2)))
            listed.append(made)
        found, whole, own = compose_cell(asked, listed), points(asked), [points(each) for each in listed]
        shortest = next(
            (
                size
                for size in range(1, len(own) + 1)
                for chosen in itertools.chain(
                    *(itertools.combinations(range(size), k) for k in range(1, size + 1))
                )
                if sum(len(own[i]) for i in chosen) == len(whole)
                and set().union(*(own[i] for i in chosen)) == whole
            ),
            None,
        )
        assert (None if found is None else max(found) + 1) == shortest
        if found is not None:
            composed += 1
            assert sum(len(own[i]) for i in found) == len(whole)
            assert set().union(*(own[i] for i in found)) == whole
        within = [each for each in own if each <= whole]
        missing = join_cells(find_missing(asked, listed))
        assert [p for each in missing for p in points(each)].__len__() == len(whole - set().union(*within))
        assert set().union(*map(points, missing)) == whole - set().union(*within)
    assert composed > 100, "most lists tell nothing otherwise"


def test_what_is_listed_later_changes_nothing() -> None:
    rng = Random(7)
    asked: Cell = {"x": ValueSet.of_range(0, 5, closed=True)}
    for _ in range(300):
        ends = [(low, rng.randint(low, 5)) for low in (rng.randint(0, 5) for _ in range(10))]
        listed = [{"x": ValueSet.of_range(*each, closed=True)} for each in ends]
        answers = [compose_cell(asked, listed[:size]) for size in range(len(listed) + 1)]
        known = [each for each in answers if each is not None]
        assert all(each == known[0] for each in known)


def test_many_cells_are_composed_soon() -> None:
    """A year of weeks by twelve lands and six channels: 3,744 cells of 7,488."""
    listed = [
        {
            "d": ValueSet.of_range(7 * w, 7 * w + 6, closed=True),
            "l": ValueSet.of_values([land]),
            "c": ValueSet.of_values([channel]),
        }
        for w in range(104)
        for land in "abcdefghijkl"
        for channel in "123456"
    ]
    asked = {
        "d": ValueSet.of_range(0, 363, closed=True),
        "l": ValueSet.of_values("abcdefghijkl"),
        "c": ValueSet.of_values("123456"),
    }
    assert compose_cell(asked, listed) == [*range(3744)]
