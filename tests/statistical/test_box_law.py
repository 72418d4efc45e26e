"""The laws of box and cube noise, and of the measurements made with them, by chi-square.

Every test draws from a fixed seed. Its false-alarm rate, over seeds, is 1e-9; the same test must reject noise
of 0.7 and 1.3 times the scale, or the mistake it names.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from dpsql.estimates.predictions import half_width, stddev
from dpsql.kernel import noise
from dpsql.kernel.mechanisms import Box, NoiseSource
from dpsql.noise import SeededEntropy

module = importlib.import_module("dpsql.kernel.noise.shared_noise")
ALARM = 1e-9
DRAWS = 80_000
SCALES = [Fraction(7, 10), Fraction(1), Fraction(13, 10)]


def p_value(seen: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    """Chi-square of cell counts against probabilities; thin cells are one cell."""
    expected = law * seen.sum()
    thick = expected >= 20
    return float(
        chisquare(
            np.append(seen[thick], seen[~thick].sum()),
            np.append(expected[thick], seen.sum() - expected[thick].sum()),
        ).pvalue
    )


def side_law(rate: float, dimension: int, largest: int) -> NDArray[np.float64]:
    side = np.arange(1, largest + 1, dtype=np.float64)
    weight = np.exp(dimension * np.log(side) - rate * side)
    return np.asarray(weight / weight.sum())


def accepted(rate: Fraction, dimension: int, scale: Fraction) -> bool:
    largest = int(6 * (dimension + 8) / rate) + 60
    drawn = noise.box_side(rate / scale, dimension, DRAWS, entropy=SeededEntropy(5))
    seen = np.bincount(np.minimum(drawn, largest), minlength=largest + 1)[1:]
    return p_value(seen, side_law(float(rate), dimension, largest)) > ALARM


@pytest.mark.parametrize(
    ("rate", "dimension"),
    [
        (Fraction(1, 2), 2),
        (Fraction(1, 2), 3),
        (Fraction(1, 2), 4),
        (Fraction(2), 3),
        (Fraction(5), 2),
        (Fraction(1, 10), 1),
    ],
)
@pytest.mark.sampled(3)
def test_the_side_of_a_box(rate: Fraction, dimension: int) -> None:
    for scale in SCALES:
        assert accepted(rate, dimension, scale) == (scale == 1), scale


def test_a_side_drawn_without_the_rule_for_ties_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "check_box", lambda rate, dimension: 1)
    assert accepted(Fraction(1), 2, Fraction(1))
    monkeypatch.setattr(module, "_ties_kept", lambda equal, source: np.ones(len(equal), dtype=bool))
    assert not accepted(Fraction(1), 2, Fraction(1))


def box_law(counts: int, pads: int, rate: float, reach: int) -> dict[tuple[int, ...], float]:
    """Enumerate the law of twice the counts less the pads' ends, without noise on a true count of zero."""
    law: dict[tuple[int, ...], float] = {}
    for side, mass in enumerate(side_law(rate, counts + pads, reach), start=1):
        ends: dict[int, int] = {}
        for pad in itertools.product(range(side), repeat=pads):
            ends[max(pad) + min(pad)] = ends.get(max(pad) + min(pad), 0) + 1
        each = mass / side ** (counts + pads)
        for place in itertools.product(range(side), repeat=counts):
            for end, ways in ends.items():
                key = tuple(2 * value - end for value in place)
                law[key] = law.get(key, 0.0) + ways * each
    return law


def cube_law(counts: int, rate: float, reach: int) -> dict[tuple[int, ...], float]:
    cells = {
        tuple(2 * value for value in z): float(np.exp(-rate * max(map(abs, z))))
        for z in itertools.product(range(-reach, reach + 1), repeat=counts)
    }
    total = sum(cells.values())
    return {key: mass / total for key, mass in cells.items()}


LAWS: list[tuple[str, Callable[[], dict[tuple[int, ...], float]], int, int]] = [
    ("one count, one pad", lambda: box_law(1, 1, 1.0, 30), 1, 1),
    ("two counts, one pad", lambda: box_law(2, 1, 1.0, 25), 2, 1),
    ("one count, two pads", lambda: box_law(1, 2, 1.0, 25), 1, 2),
    ("two counts, two pads", lambda: box_law(2, 2, 1.0, 18), 2, 2),
    ("cube of two counts", lambda: cube_law(2, 1.0, 25), 2, 0),
    ("cube of three counts", lambda: cube_law(3, 1.0, 18), 3, 0),
]


@pytest.mark.parametrize(
    ("law", "counts", "pads"), [case[1:] for case in LAWS], ids=[case[0] for case in LAWS]
)
@pytest.mark.sampled(3)
def test_the_joint_law_of_a_measurement(
    law: Callable[[], dict[tuple[int, ...], float]], counts: int, pads: int
) -> None:
    expected = law()
    cells = {key: place for place, key in enumerate(expected)}
    for scale in SCALES:
        made = Box(
            (1,) * counts, 1, 1 / scale, pads, loss=Box.plan(counts, 1).loss
        )  # on whole counts, where the law can be enumerated
        runs = made.run(np.full((DRAWS, counts), 7), NoiseSource(SeededEntropy(6)))
        found = np.round((runs.value - 7) * 2).astype(np.int64)
        seen = np.zeros(len(cells) + 1, dtype=np.int64)
        unique, times = np.unique(found, axis=0, return_counts=True)
        for key, number in zip(unique.tolist(), times.tolist(), strict=True):
            seen[cells.get(tuple(key), len(cells))] += number
        whole = np.append(np.array(list(expected.values())), max(0.0, 1 - sum(expected.values())))
        assert (p_value(seen, whole) > ALARM) == (scale == 1), scale


@pytest.mark.parametrize("counts", [1, 2, 4, 10, 50])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.sampled(3)
def test_predictions_hold(counts: int, monotone: bool) -> None:
    """Standard deviation within 1.5%; coverage within .006 of nominal (4 standard errors at 40,000 runs)."""
    made = Box.plan(counts, 1, monotone=monotone)
    error = made.run(np.full((40_000, counts), 30), NoiseSource(SeededEntropy(7))).value - 30
    assert error[:, 0].std() == pytest.approx(stddev(made, 0), rel=0.02)
    for level in (Fraction(80, 100), Fraction(95, 100), Fraction(99, 100)):
        single = np.abs(error[:, 0]) <= half_width(made, level, 0)
        together = np.abs(error).max(axis=1) <= half_width(made, level, 0, simultaneous=True)
        assert single.mean() == pytest.approx(float(level), abs=0.01)
        assert together.mean() == pytest.approx(float(level), abs=0.01)


def test_unequal_bounds_share_a_grid() -> None:
    made = Box.plan(2, 1, sensitivity=(2, 3))
    error = made.run(np.zeros((40_000, 2), dtype=np.int64), NoiseSource(SeededEntropy(8))).value
    assert made.unit % 6 == 0
    assert error.std(axis=0) == pytest.approx([stddev(made, 0), stddev(made, 1)], rel=0.02)
    assert stddev(made, 1) / stddev(made, 0) == pytest.approx(1.5)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(1000)])
@pytest.mark.parametrize("bounds", [(1, 1), (2, 3), (1, 10**6), (777, 12345, 10007, 1)])
def test_one_unit_moves_every_count_within_the_unit_of_the_grid(
    bounds: tuple[int, ...], epsilon: Fraction
) -> None:
    made = Box.plan(len(bounds), epsilon, sensitivity=bounds)
    assert made.rate * made.unit == epsilon
    for place, bound in enumerate(bounds):
        steps = round(1 / made.step(place))
        assert made.step(place) == 1 / steps
        assert bound * steps <= made.unit < Fraction(102, 100) * bound * steps
        assert steps * 2**40 <= 2**60  # no count is cut off below the limit of counts


def test_bounds_that_differ_too_much_are_refused() -> None:
    with pytest.raises(ValueError, match="differ too much"):
        Box.plan(2, 1, sensitivity=(1, 2**21))


@pytest.mark.parametrize("monotone", [True, False])
def test_noise_that_is_planned_can_be_drawn(monotone: bool) -> None:
    """The plan refuses what could come near 2^62, not the run, which comes after the charge."""
    planned = 0
    for eighths in range(48 * 8, 58 * 8):
        epsilon = Fraction(1, round(2 ** (eighths / 8)))
        with suppress(ValueError):
            made = Box.plan(4, epsilon, resolution=0, monotone=monotone)
            planned += 1
    assert 0 < planned < 80
    made.run([0, 0, 0, 0], NoiseSource(SeededEntropy(1)))
