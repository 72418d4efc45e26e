"""Functions of several numbers that bounds have cut are least and largest inside of what was cut, too."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.composition.derived_columns import list_shifts

Leaves = list[NDArray[np.float64]]


def values(f: object, centres: list[float], sides: list[tuple[float, float]]) -> NDArray[np.float64]:
    assert callable(f)
    shifts = list_shifts(f, centres, sides)
    return np.array(
        [f([np.array([c + s]) for c, s in zip(centres, shift, strict=True)])[0] for shift in shifts]
    )


def test_corners_alone_are_enough_where_a_function_rises() -> None:
    shifts = list_shifts(lambda leaves: leaves[0] * leaves[1], [10.0, 20.0], [(1.0, 2.0), (3.0, 4.0)])
    assert sorted(shifts) == [(-1.0, -3.0), (-1.0, 4.0), (2.0, -3.0), (2.0, 4.0)]
    assert list_shifts(lambda leaves: leaves[0], [1.0, 2.0], [(0.0, 0.0), (0.0, 0.0)]) == []


@pytest.mark.parametrize(
    ("f", "least", "most"),
    [
        (lambda x: np.abs(np.log(x[0]) - np.log(x[1])), 0.0, np.log(140 / 61)),
        (lambda x: (x[0] - x[1]) ** 2, 0.0, 79.0**2),
        (lambda x: -np.abs(x[0] - x[1]), -79.0, 0.0),
    ],
)
def test_a_distance_may_be_0_inside_of_what_was_cut(f: object, least: float, most: float) -> None:
    found = values(f, [100.0, 81.0], [(15.0, 40.0), (20.0, 25.0)])
    assert found.min() == pytest.approx(least, abs=1e-3)
    assert found.max() == pytest.approx(most, abs=1e-3)


def test_three_numbers() -> None:
    found = values(
        lambda x: np.abs(x[0] * x[1] - x[2]), [10.0, 10.0, 90.0], [(2.0, 5.0), (0.0, 5.0), (0.0, 30.0)]
    )
    assert found.min() == pytest.approx(0.0, abs=1e-3)
    assert found.max() == pytest.approx(135.0)


def test_where_it_has_no_value_corners_remain() -> None:
    with np.errstate(invalid="ignore"):
        shifts = list_shifts(
            lambda x: np.full(len(x[0]), np.nan) * x[1], [1.0, 2.0], [(1.0, 1.0), (0.0, 1.0)]
        )
    assert len(shifts) == 4
