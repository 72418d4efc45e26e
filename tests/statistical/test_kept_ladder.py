"""Totals measured with the bound of a kept ladder: their error against the best constant bound, and coverage.

The best bound knows the data. Noise is drawn from fixed seeds by the mechanisms themselves. Coverage: if
intervals covered the exact total with probability .95 (they cover more), a test would fail with probability
1e-9, over seeds. Errors: a rung that is too large is rare and costs much, so that a ratio has no simple law.
With 100 other seeds, of 600 ratios of 300 runs one was above the 2.5 that is allowed here, 2.62.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpsql.estimates import count_offset
from dpsql.kernel.mechanisms import NoiseSource
from dpsql.noise import SeededEntropy
from tests.kept_ladders import interval_of
from tests.statistical.kept_totals import Parts, Sizes, released, simulated, simulated_groups

DATA = Path(__file__).parents[2] / "data"
KEPT = Fraction(1, 2)
"""The epsilon of ladders."""


@cache
def visits(key: str) -> Parts:
    """Return the visits of the patients of the clinic, by a column."""
    table = pq.read_table(DATA / "visits.parquet", columns=["patient_id", key])
    table = table.filter(table["patient_id"].is_valid())
    unit, group = (places(table[name]) for name in ("patient_id", key))
    return Parts(unit, group, np.ones(len(unit), dtype=np.int64))


def places(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return for each row the place of its value among the different ones; NULL is one."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy().astype(np.int64)


def flights() -> Sizes:
    """Return the numbers of flights of the aircraft."""
    column = pq.read_table(DATA / "flights.parquet", columns=["tailnum"])["tailnum"].drop_null()
    return np.bincount(places(column)).astype(np.int64)


def drawn(law: Callable[[np.random.Generator], object]) -> Sizes:
    """Return sizes drawn with a fixed seed."""
    return np.ceil(np.asarray(law(np.random.default_rng(1)), dtype=np.float64)).astype(np.int64)


SHAPES: dict[str, Callable[[], Sizes]] = {
    "clinic visits": lambda: visits("clinic").sizes,
    "flights": flights,
    "all of one size": lambda: np.full(5_000, 1_000),
    "two sizes": lambda: np.repeat([50, 1_000], [20_000, 2_500]),
    "lognormal": lambda: drawn(lambda rng: 100 * rng.lognormal(3, 1, 20_000)),
    "small numbers": lambda: drawn(lambda rng: 1 + rng.poisson(2, 30_000)),
    "six octaves": lambda: drawn(lambda rng: 2 ** rng.uniform(0, 6, 10_000)),
}


def fewest(runs: int) -> int:
    """Return the number of covered runs that intervals of 95% fall below with probability 1e-9."""
    return int(binom.ppf(1e-9, runs, 0.95))


@pytest.mark.parametrize("times", [2, 5])
@pytest.mark.parametrize("shape", ["clinic visits", "all of one size", "small numbers"])
@pytest.mark.sampled(4)
def test_a_total_is_covered_and_near_the_best(shape: str, times: int) -> None:
    runs, sizes = 300, SHAPES[shape]()
    found = simulated(sizes, KEPT, KEPT / times, runs, NoiseSource(SeededEntropy(times)))
    assert found.covered * runs >= fewest(runs)
    assert found.ratio <= 2.5
    assert found.width <= 5


@pytest.mark.parametrize(("bound", "noise_covers"), [(20, False), (1_000, True)])
def test_any_bound_has_an_interval_that_covers_what_it_cuts(bound: int, noise_covers: bool) -> None:
    runs, sizes, epsilon = 300, visits("clinic").sizes, KEPT / 2
    exact, clipped = int(sizes.sum()), int(np.minimum(sizes, bound).sum())
    half = count_offset(bound / epsilon, 0.95)
    noise = np.random.default_rng(3).laplace(0, bound / float(epsilon), runs)
    ladders = list(released(sizes, KEPT, runs, NoiseSource(SeededEntropy(3))))
    ends = [interval_of(ladder, clipped + z, half, bound) for ladder, z in zip(ladders, noise, strict=True)]
    assert sum(low <= exact <= high for low, high in ends) >= fewest(runs)
    alone = sum(abs(clipped + z - exact) <= half for z in noise.tolist())
    assert (alone >= fewest(runs)) == noise_covers
    assert noise_covers or alone == 0


def test_the_total_of_a_ladder_is_near() -> None:
    ladders = released(visits("clinic").sizes, KEPT, 300, NoiseSource(SeededEntropy(4)))
    ratios = np.array([ladder.total for ladder in ladders]) / visits("clinic").sizes.sum()
    assert abs(ratios.mean() - 1) < 0.02
    assert 0 < ratios.std() < 0.03


@pytest.mark.parametrize("key", ["clinic", "visit_date"])
def test_groups_get_back_what_is_cut(key: str) -> None:
    runs = 10
    found = simulated_groups(visits(key), KEPT, KEPT / 2, runs, NoiseSource(SeededEntropy(5)))
    assert found.covered >= 0.95 > found.by_noise
    assert found.ratio <= 1.1
    assert found.added < min(0.015, found.unshifted)


@pytest.mark.slow
@pytest.mark.parametrize(("times", "worst", "mean"), [(1, 3, 2), (2, 2.5, 1.8), (5, 2, 1.5), (10, 2, 1.4)])
def test_totals_of_all_shapes(times: int, worst: float, mean: float) -> None:
    runs, ratios = 3_000, []
    for seed, shape in enumerate(SHAPES):
        found = simulated(SHAPES[shape](), KEPT, KEPT / times, runs, NoiseSource(SeededEntropy(seed)))
        assert found.covered * runs >= fewest(runs), shape
        ratios.append(found.ratio)
    assert max(ratios) <= worst, ratios
    assert math.exp(np.log(ratios).mean()) <= mean, ratios


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1)])
@pytest.mark.parametrize("key", ["clinic", "visit_date", "diagnosis_code"])
def test_groups_of_the_clinic(key: str, epsilon: Fraction) -> None:
    found = simulated_groups(visits(key), KEPT, epsilon, 100, NoiseSource(SeededEntropy(7)))
    assert found.covered >= 0.96
    assert found.ratio <= 1.2
    assert found.added <= 0.015


@pytest.mark.slow
def test_a_group_that_has_all_that_is_cut_is_seldom_covered() -> None:
    """Intervals of groups assume that the cut lies at most twice as densely in a group: false here."""
    light, heavy = np.arange(12_000), np.arange(12_000, 12_060)
    unit = np.concatenate([light, heavy])
    group = np.concatenate([light % 12, np.zeros(60, dtype=np.int64)])
    number = np.concatenate([1 + light % 20, np.full(60, 300)])
    parts = Parts(unit, group, number)
    covered = []
    for ladder in released(parts.sizes, KEPT, 200, NoiseSource(SeededEntropy(8))):
        bound = ladder.choose_bound(KEPT / 2, groups=12)
        half = count_offset(bound / (KEPT / 2), 0.95)
        shared = ladder.divide_by_shares(parts.clipped(bound), half, bound)
        covered.append(shared.high >= parts.clipped(math.inf))
    assert np.mean([each[0] for each in covered]) < 0.5
    assert np.mean([each[1:].mean() for each in covered]) > 0.99
