"""What released numbers are made of: chosen, multiplied and joined as the numbers themselves are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dpsql.estimates.noise_laws import Law, Linear, NoiseDraw, Weighted
from dpsql.estimates.number_noises import Dispersion, Made, Quotient

LAPLACE = NoiseDraw(Law("laplace"), 2.0)
LATER = NoiseDraw(Law("gaussian"), 3.0)


def linear(place: int, *values: float, source: NoiseDraw = LAPLACE) -> Linear:
    return Linear.alone(place, np.array(values), source)


def quotient(source: NoiseDraw = LAPLACE, first: int = 0) -> Quotient:
    return Quotient(linear(first, 30.0, 8.0, 1.0, source=source), linear(1, 10.0, 4.0, -1.0), 0.0, 2.5)


def dispersion(source: NoiseDraw = LAPLACE, first: int = 0, *, root: bool = False) -> Dispersion:
    parts = (linear(first, 4.0, 9.0, 0.0, source=source), linear(1, 2.0, 1.0, 0.5), linear(2, 5.0, 3.0, 0.0))
    return Dispersion(parts, 10.0, sample=True, root=root)


def weighted(source: NoiseDraw = LAPLACE, first: int = 0) -> Weighted:
    names = ((0, first), (0, 1))
    return Weighted(np.array([1.0, 2.0, 3.0]), names, (source, LAPLACE), np.arange(6.0).reshape(3, 2))


def value_of(made: Made) -> list[float]:
    if isinstance(made, (Linear, Weighted)):
        return list(made.value)
    return list(made.compute([each.value for each in made.parts]))


def joined(one: Made, other: Made) -> Made:
    found: Made | None = one.append(other)
    assert found is not None
    return found


MAKE: list[Callable[..., Made]] = [
    lambda source=LAPLACE, first=0: linear(first, 3.0, 1.0, 2.0, source=source),
    quotient,
    dispersion,
    lambda source=LAPLACE, first=0: dispersion(source, first, root=True),
    weighted,
]


@pytest.mark.parametrize("make", MAKE, ids=["linear", "quotient", "variance", "deviation", "weighted"])
def test_rows_are_chosen_joined_and_multiplied_as_their_numbers(make: Callable[..., Made]) -> None:
    made = make()
    whole, some = value_of(made), np.array([2, 0])
    chosen = made.take(some)
    assert value_of(chosen) == pytest.approx([whole[2], whole[0]], nan_ok=True)
    assert value_of(made.scale(2.5)) == pytest.approx([2.5 * each for each in whole], nan_ok=True)
    assert value_of(joined(chosen, made)) == pytest.approx([whole[2], whole[0], *whole], nan_ok=True)


@pytest.mark.parametrize("make", MAKE, ids=["linear", "quotient", "variance", "deviation", "weighted"])
def test_only_rows_of_the_same_measured_numbers_are_joined(make: Callable[..., Made]) -> None:
    made = make()
    assert made.append(make(first=7)) is None
    for other in (each() for each in MAKE):
        if type(other) is not type(made):
            assert made.append(other) is None


@pytest.mark.parametrize("make", MAKE[:4], ids=["linear", "quotient", "variance", "deviation"])
def test_rows_keep_the_draw_that_they_are_from(make: Callable[..., Made]) -> None:
    both = joined(make(), make(LATER))
    part = both if isinstance(both, (Linear, Weighted)) else both.parts[0]
    assert isinstance(part, Linear)
    ((_, measured),) = part.terms
    assert measured.sources == (LAPLACE, LATER)
    assert measured.source.tolist() == [0, 0, 0, 1, 1, 1]
