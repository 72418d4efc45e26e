"""The laws of quantiles and extremes as they are drawn, their rank errors, and that they converge.

Seeds are fixed. Each test of a law has a false-alarm rate of 1e-9 over seeds and must reject epsilon x 0.7
and x 1.3. A share of runs is compared with its bound at 7 standard errors, with the same meaning.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dpsql.kernel.mechanisms import Extreme, Histograms, NoiseSource, Quantile
from dpsql.kernel.mechanisms.weights import Weights
from dpsql.noise import SeededEntropy

ALARM = 1e-9
TRIALS = 40_000
COUNTS = [0, 3, 0, 0, 2, 1, 0]


def source(seed: int) -> NoiseSource:
    return NoiseSource(SeededEntropy(seed))


def p_value(seen: NDArray[np.int64], mass: NDArray[np.float64]) -> float:
    """Return the p-value of a chi-square test; thin cells are put together."""
    expected = mass * seen.sum()
    thin = expected < 20
    seen, expected = (np.append(part[~thin], part[thin].sum()) for part in (seen, expected))
    kept = expected > 0
    return float(chi2.sf(((seen - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum() - 1))


def normal(distance: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    weight = np.exp(-(distance - distance.min()) / scale)
    return np.asarray(weight / weight.sum())


def one_quantile(counts: list[int], q: float, scale: float) -> NDArray[np.float64]:
    """Return the law of one quantile in rows, by its definition."""
    up_to = np.cumsum(counts)
    rank = q * up_to[-1]
    return normal(np.maximum(0, np.maximum(up_to - counts - rank, rank - up_to)), scale)


@pytest.mark.parametrize(
    ("q", "epsilon", "limit"), [("0.5", 1, 1), ("0.5", 2, 3), ("0.9", 3, 1), ("0.25", "0.4", 1), ("0", 1, 1)]
)
def test_the_law_of_one_quantile(q: str, epsilon: int | str, limit: int) -> None:
    plan = Quantile.plan(len(COUNTS), epsilon, quantiles=[q], rows_per_unit=limit)
    found = plan.run(np.tile(COUNTS, (TRIALS, 1)), source(1)).cell[:, 0]
    seen = np.bincount(found, minlength=len(COUNTS))
    part = float(q)
    for factor in (0.7, 1.0, 1.3):
        scale = 2 * limit * max(part, 1 - part) / float(epsilon) / factor
        assert (p_value(seen, one_quantile(COUNTS, part, scale)) > ALARM) == (factor == 1.0)


@pytest.mark.parametrize("lowest", [False, True])
def test_the_law_of_an_extreme(*, lowest: bool) -> None:
    counts = [0, 5, 0, 4, 9, 0, 3, 0]
    plan = Extreme.plan(len(counts), 3, lowest=lowest)
    assert plan.units == math.ceil(2 / 3 * math.log(160))
    found = plan.run(np.tile(counts, (TRIALS, 1)), source(2)).cell[:, 0]
    reach = np.cumsum(counts) if lowest else np.cumsum(counts[::-1])[::-1]
    distance = np.maximum(0, np.maximum(reach - counts - plan.units, plan.units - reach))
    for factor in (0.7, 1.0, 1.3):
        law = normal(distance, 2 / 3 / factor)
        assert (p_value(np.bincount(found, minlength=len(counts)), law) > ALARM) == (factor == 1.0)


def split_law(
    counts: list[int], parts: int, q: Fraction, scale: float, low: int, high: int
) -> NDArray[np.float64]:
    """Return the law of a split of a range of parts, by its definition: scale in whole rows."""
    before = np.append(0, np.cumsum(np.repeat(counts, parts) / parts))
    last = high + (high < len(counts) * parts)
    return normal(np.abs(before[low:last] - before[low] - float(q) * (before[high] - before[low])), scale)


def test_the_law_of_three_quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, counts, quantiles = 4, [2, 0, 5, 1], ["0.2", "0.5", "0.8"]
    monkeypatch.setattr(sys.modules["dpsql.kernel.mechanisms.quantile"], "PARTS", parts)
    size, end = len(counts), len(counts) * parts
    plan = Quantile.plan(size, 4, quantiles=quantiles)
    found = plan.run(np.tile(counts, (TRIALS, 1)), source(3)).cell
    assert (np.diff(found, axis=1) >= 0).all()
    seen = np.bincount(found @ [size * size, size, 1], minlength=size**3)
    for factor in (0.7, 1.0, 1.3):
        each = 2 / factor  # of the two levels
        law = np.zeros((size, size, size))
        top = split_law(counts, parts, Fraction(1, 2), 2 * 0.5 / each, 0, end)
        for at, chance in enumerate(top):
            left = split_law(counts, parts, Fraction(2, 5), 2 * 0.6 / each, 0, at)
            right = split_law(counts, parts, Fraction(3, 5), 2 * 0.6 / each, at, end)
            for i, j in product(range(len(left)), range(len(right))):
                law[i // parts, at // parts, (at + j) // parts] += chance * left[i] * right[j]
        assert law.sum() == pytest.approx(1)
        assert (p_value(seen, law.ravel()) > ALARM) == (factor == 1.0)


def test_groups_are_drawn_as_if_alone_and_one_after_another() -> None:
    groups = 1_000
    entry = np.arange(groups)
    both = Histograms(
        groups,
        np.concatenate([entry, entry, entry[::2]]),
        np.concatenate([np.full(groups, 4), np.full(groups, 1), np.full(groups // 2, 5)]),
        np.concatenate([np.full(groups, 2), np.full(groups, 3), np.full(groups // 2, 1)]),
    )
    plan = Quantile.plan(len(COUNTS), 1)
    found = plan.run(both, source(4)).cell[:, 0]
    assert plan.loss.charge.epsilon == 1
    for start, counts in ((0, COUNTS), (1, [0, 3, 0, 0, 2, 0, 0])):
        seen = np.bincount(found[start::2], minlength=len(COUNTS))
        assert p_value(seen, one_quantile(counts, 0.5, 1.0)) > ALARM


def test_a_group_without_rows_is_any_cell() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    empty = Histograms(300, nothing, nothing, nothing)
    even = np.full(5, 1 / 5)
    for found in (
        Quantile.plan(5, 1).run(empty, source(5)).cell,
        Extreme.plan(5, 1).run(empty, source(5)).cell,
    ):
        assert p_value(np.bincount(found[:, 0], minlength=5), even) > ALARM
    first, _, last = Quantile.plan(5, 1, quantiles=["0.1", "0.5", "0.9"]).run(empty, source(6)).cell.T
    assert (first <= last).all()


@pytest.mark.parametrize("scale", [0.3, 5.0, 70.0])
def test_weights_of_several_candidates(scale: float) -> None:
    """An entry that stands for several is drawn as often as they are together."""
    distance, copies = np.array([3, 0, 40, 7, 0, 1000]), np.array([1, 2, 10_000, 4, 1, 2**20])
    drawn = Weights(distance, 1 / Fraction(scale), copies=copies).pick(TRIALS, SeededEntropy(7))
    mass = copies * np.exp(-distance / scale)
    assert p_value(np.bincount(drawn, minlength=6), mass / mass.sum()) > ALARM


def off(values: NDArray[np.int64], cell: NDArray[np.int64], q: float) -> NDArray[np.float64]:
    """Return by how many rows the rank of each group's cell is off."""
    rank = q * values.shape[1]
    below, up_to = (values < cell[:, None]).sum(axis=1), (values <= cell[:, None]).sum(axis=1)
    return np.maximum(0, np.maximum(below - rank, rank - up_to))


def histograms(values: NDArray[np.int64]) -> Histograms:
    key, number = np.unique((np.arange(len(values))[:, None] << 20) + values, return_counts=True)
    return Histograms(len(values), key >> 20, key & ((1 << 20) - 1), number)


SEVERAL = [["0.5"], ["0.99"], ["0.25", "0.5", "0.75"], ["0.1", "0.2", "0.5", "0.9"]]


@pytest.mark.parametrize("quantiles", SEVERAL)
@pytest.mark.parametrize("limit", [1, 4])
@pytest.mark.sampled(5)
def test_rank_errors_are_within_the_prediction(quantiles: list[str], limit: int) -> None:
    cells, runs, rows = 1 << 16, 150, 3_000
    rng = np.random.default_rng(8)
    values = np.minimum(rng.lognormal(9, 1, (runs, rows)).astype(np.int64), cells - 1)
    plan = Quantile.plan(cells, 1, quantiles=quantiles, rows_per_unit=limit)
    found = plan.run(histograms(values), source(9)).cell
    for column, (q, most) in enumerate(zip(quantiles, plan.rank_errors(Fraction(95, 100)), strict=True)):
        error = off(values, found[:, column], float(q))
        assert (error > most).mean() <= 0.05 + 7 * math.sqrt(0.05 * 0.95 / runs)
        assert np.quantile(error, 0.95) > most / 20  # the prediction is no more than that


@pytest.mark.parametrize("runs", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_quartiles_cost_less_than_one_after_another(runs: int) -> None:
    """Mean rank errors of quartiles, of 5,000 rows at epsilon 1, are below those of three at a third each."""
    rng, cells = np.random.default_rng(10), 1 << 16
    values = np.minimum(rng.lognormal(9, 1, (runs, 5_000)).astype(np.int64), cells - 1)
    quartiles = ["0.25", "0.5", "0.75"]
    together = Quantile.plan(cells, 1, quantiles=quartiles).run(histograms(values), source(11)).cell
    for column, q in enumerate(quartiles):
        alone = Quantile.plan(cells, Fraction(1, 3), quantiles=[q]).run(histograms(values), source(12)).cell
        assert off(values, together[:, column], float(q)).mean() < off(values, alone[:, 0], float(q)).mean()


@pytest.mark.parametrize("quantiles", [["0.5"], ["0.25", "0.5", "0.75"], ["0.1", "0.3", "0.35", "0.9"]])
@pytest.mark.sampled(3)
def test_equal_values_converge_to_the_exact_quantiles(quantiles: list[str]) -> None:
    """Half of the rows have one value, and every cell has many: with much budget no cell is off."""
    rng = np.random.default_rng(13)
    values = np.where(rng.random((50, 20_000)) < 0.5, 17, rng.integers(0, 40, (50, 20_000)))
    found = Quantile.plan(50, 10**5, quantiles=quantiles).run(histograms(values), source(14)).cell
    for column, q in enumerate(quantiles):
        assert (off(values, found[:, column], float(q)) <= 40).all()  # 1/512 of the rows of a cell
        exact = np.quantile(values, float(q), axis=1, method="inverted_cdf")
        assert (found[:, column] == exact).mean() >= 0.9


def test_a_cell_of_half_the_rows_is_the_median_and_not_the_one_before() -> None:
    counts = np.zeros(1_000, dtype=np.int64)
    counts[[100, 900]] = 450, 550
    found = Quantile.plan(1_000, 5).run(np.tile(counts, (500, 1)), source(15)).cell
    assert (found == 900).all()


def test_a_maximum_is_reached_by_about_the_units_it_says() -> None:
    cells, runs, units = 1 << 16, 300, 10_000
    rng = np.random.default_rng(16)
    values = np.minimum(rng.lognormal(7, 1, (runs, units)).astype(np.int64), cells - 1)
    plan = Extreme.plan(cells, 1)
    found = plan.run(histograms(values), source(17)).cell
    reach = (values >= found).sum(axis=1)
    assert (reach == 0).mean() <= 0.05
    assert (reach > plan.most_units(Fraction(95, 100))).mean() <= 0.05
    assert abs(np.median(reach) - plan.units) < 5


@pytest.mark.parametrize("lowest", [False, True])
def test_an_extreme_value_of_many_units_is_found(*, lowest: bool) -> None:
    """Grades from 1 to 5 on a grid up to 50: far more units have the best one than are to reach it."""
    counts = np.zeros(50, dtype=np.int64)
    counts[1:6] = 300, 200, 500, 400, 700
    found = Extreme.plan(50, 1, lowest=lowest).run(np.tile(counts, (500, 1)), source(19)).cell
    assert (found == (1 if lowest else 5)).mean() > 0.95


@pytest.mark.parametrize("cells", [1, 2, 1 << 20])
def test_any_counts_any_budget(cells: int) -> None:
    last = np.iinfo(np.int64).max
    cell = np.array([0, cells - 1])[: min(cells, 2)]
    for number in (last, 1 << 40, 1):
        rows = Histograms(2, np.zeros_like(cell), cell, np.full_like(cell, number))
        for epsilon in ("1e-3", 1, "1e9", "1e300"):
            for quantiles in (["0.5"], ["0.9999"], ["0", "0.3333", "0.9999", "1"]):
                found = Quantile.plan(cells, epsilon, quantiles=quantiles).run(rows, source(18)).cell
                assert ((found >= 0) & (found < cells)).all()
                assert (np.diff(found, axis=1) >= 0).all()
            found = Extreme.plan(cells, epsilon).run(rows, source(18)).cell
            assert ((found >= 0) & (found < cells)).all()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0, 1), {}),
        (((1 << 20) + 1, 1), {}),
        ((5, 0), {}),
        ((5, 1), {"quantiles": []}),
        ((5, 1), {"quantiles": ["1.5"]}),
        ((5, 1), {"rows_per_unit": 0}),
        ((5, "1e-20"), {}),
    ],
)
def test_refusals(arguments: tuple[int, int | str], options: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Quantile.plan(*arguments, **options)  # type: ignore[arg-type]  # wrong on purpose
