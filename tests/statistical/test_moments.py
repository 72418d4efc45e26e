"""Averages, sums and variances from noisy moments: how often intervals cover, and the sizes of errors.

The noise is Laplace, of scale 1 in rows. Seeds are fixed; with other seeds a bound of z standard errors would
be crossed with probability 2 exp(-z^2/2), below 1e-9 for the 7 used here.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates import Average, Combined, Deviation, Formula, RowCount, SumOfRows, Variance

RUNS = 20_000
SIGMAS = 7.0
LEVEL = Fraction(95, 100)
LOW, HIGH = Fraction(-10), Fraction(40)
WIDTH = float(HIGH - LOW)

EDGE, SKEWED, MIDDLE = (1, 19), (1, 4), (1, 1)
"""The values' law on the bounds: Beta with these parameters."""


def moments(law: tuple[int, int], n: float, parts: int) -> list[float]:
    """Return the exact moments of n values of a law."""
    a, b = law
    x, squared = a / (a + b), a * (a + 1) / ((a + b) * (a + b + 1))
    if parts == 2:
        return [n * (1 - x), n * x]
    return [n * (1 - 2 * x + squared), 2 * n * (x - squared), n * squared]


def truth(formula: Formula, law: tuple[int, int], n: float) -> float:
    _, one, two = moments(law, n, 3)
    x = (two + one / 2) / n
    variance = WIDTH**2 * (two / n - x * x)
    match formula:
        case RowCount():
            return n
        case SumOfRows():
            return n * (float(LOW) + WIDTH * x)
        case Average():
            return float(LOW) + WIDTH * x
        case Variance(sample=sample):
            return variance * (n / (n - 1) if sample else 1)
        case Deviation(sample=sample):
            return math.sqrt(variance * (n / (n - 1) if sample else 1))


def estimated(
    formula: Formula, exact: list[float], seed: int, *, runs: int = RUNS, scale: float = 1.0
) -> Combined:
    """Estimate from `runs` releases of the same moments, as if each were a group."""
    rng = np.random.default_rng(seed)
    noisy = [part + rng.laplace(scale=scale, size=runs) for part in exact]
    return formula.estimate(noisy, 1.0, LEVEL)


def covered(found: Combined, true: float) -> float:
    """Return how often the interval covers, or the value is NaN."""
    slack = 1e-9 * max(1.0, abs(true))
    missed = (found.low - slack > true) | (true > found.high + slack)
    return 1 - float(missed.mean())


def near(share: float, runs: int) -> float:
    return SIGMAS * math.sqrt(share * (1 - share) / runs)


CASES: list[tuple[Formula, int]] = [
    (Average(LOW, HIGH), 2),
    (Average(LOW, HIGH), 3),
    (SumOfRows(LOW, HIGH), 2),
    (SumOfRows(LOW, HIGH), 3),
    (RowCount(2), 2),
    (RowCount(3), 3),
]


@pytest.mark.parametrize(("formula", "parts"), CASES, ids=str)
@pytest.mark.parametrize("n", [100, 10_000])
@pytest.mark.parametrize("law", [EDGE, SKEWED, MIDDLE], ids=["edge", "skewed", "middle"])
@pytest.mark.sampled(5)
def test_intervals_cover_at_their_level(formula: Formula, parts: int, n: int, law: tuple[int, int]) -> None:
    found = estimated(formula, moments(law, n, parts), n)
    assert abs(covered(found, truth(formula, law, n)) - 0.95) < near(0.95, RUNS)


@pytest.mark.slow
@pytest.mark.parametrize(("formula", "parts"), CASES, ids=str)
@pytest.mark.parametrize("n", [100, 2_000, 100_000])
@pytest.mark.parametrize("law", [EDGE, SKEWED, MIDDLE], ids=["edge", "skewed", "middle"])
def test_intervals_cover_within_half_a_percent(
    formula: Formula, parts: int, n: int, law: tuple[int, int]
) -> None:
    found = estimated(formula, moments(law, n, parts), n, runs=100_000)
    assert abs(covered(found, truth(formula, law, n)) - 0.95) < 0.005


@pytest.mark.parametrize("parts", [2, 3])
def test_an_average_nearer_to_a_bound_than_the_noise_is_covered_more_often(parts: int) -> None:
    """Where the noise lets no average within the bounds explain the moments, the interval is not empty."""
    for law, low, high in (((1, 19), 0.95, 0.975), ((1, 10**9), 0.95, 0.98)):
        found = estimated(Average(LOW, HIGH), moments(law, 20, parts), 20)
        assert low < covered(found, truth(Average(LOW, HIGH), law, 20)) < high
        assert (found.high - found.low).min() > 0


@pytest.mark.parametrize("parts", [2, 3])
def test_an_average_of_few_rows_is_covered_or_null(parts: int) -> None:
    found = estimated(Average(LOW, HIGH), moments(SKEWED, 3, parts), 3)
    assert covered(found, truth(Average(LOW, HIGH), SKEWED, 3)) > 0.95 - near(0.95, RUNS)
    whole = (found.low == float(LOW)) & (found.high == float(HIGH))
    assert whole.mean() > 0.3
    assert 0.05 < np.isnan(found.value).mean() < 0.3


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("law", [EDGE, SKEWED, MIDDLE], ids=["edge", "skewed", "middle"])
@pytest.mark.parametrize("n", [40, 1_000, 100_000])
@pytest.mark.sampled(5)
def test_variances_are_covered_at_least_at_the_level(law: tuple[int, int], n: int, *, sample: bool) -> None:
    for formula in (Variance(LOW, HIGH, sample), Deviation(LOW, HIGH, sample)):
        found = estimated(formula, moments(law, n, 3), n)
        share = covered(found, truth(formula, law, n))
        assert 0.95 - near(0.95, RUNS) < share
        if n >= 1_000:  # at 40 rows nearly every interval reaches an end of what is possible
            assert share < 0.9999 + near(0.9999, RUNS)


@pytest.mark.parametrize("formula", [Average(LOW, HIGH), SumOfRows(LOW, HIGH), RowCount(2)], ids=str)
def test_noise_of_another_scale_is_not_covered_at_the_level(formula: Formula) -> None:
    """A scale a tenth off is seen: the tests above would fail for it."""
    for scale in (0.9, 1.1):
        found = estimated(formula, moments(SKEWED, 10_000, 2), 1, scale=scale)
        assert abs(covered(found, truth(formula, SKEWED, 10_000)) - 0.95) > near(0.95, RUNS)


FIGURES: list[tuple[type[Average | Variance], tuple[int, int], float]] = [
    (Average, EDGE, 1.35),
    (Average, SKEWED, 1.18),
    (Average, MIDDLE, 0.99),
    (Variance, EDGE, 1.26),
    (Variance, SKEWED, 0.93),
    (Variance, MIDDLE, 0.59),
]


@pytest.mark.parametrize(("kind", "law", "figure"), FIGURES)
@pytest.mark.sampled(4)
def test_errors_have_the_published_sizes(
    kind: type[Average | Variance], law: tuple[int, int], figure: float
) -> None:
    """Of n rows, at scale 1 and bounds 1 apart, the standard deviation is the figure over n."""
    n, runs = 10_000, 100_000
    whole = (Fraction(0), Fraction(1))
    formula = Average(*whole) if kind is Average else Variance(*whole, False)
    found = estimated(formula, moments(law, n, 2 if kind is Average else 3), 5, runs=runs)
    assert n * found.value.std() == pytest.approx(figure, rel=0.03)
    assert n * float(np.mean(found.stddev)) == pytest.approx(figure, rel=0.03)
    bias = found.value.mean() - of_one_row(formula, law)
    assert n * abs(bias) < 0.01 + SIGMAS * figure / math.sqrt(runs)


def of_one_row(formula: Formula, law: tuple[int, int]) -> float:
    _, one, two = moments(law, 1, 3)
    mean = two + one / 2
    return mean if isinstance(formula, Average) else two - mean**2


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("law", [EDGE, SKEWED, MIDDLE], ids=["edge", "skewed", "middle"])
@pytest.mark.sampled(5)
def test_what_is_predicted_before_spending_happens(law: tuple[int, int], parts: int) -> None:
    n, scale, runs = 20_000, 1.0, 100_000
    exact, share = moments(law, n, parts), law[0] / sum(law)
    mean = Average(LOW, HIGH)
    found = estimated(mean, exact, 9, runs=runs)
    assert n * found.value.std() == pytest.approx(mean.stddev_times_n(scale, parts, share), rel=0.03)
    assert found.value.std() * n < 1.03 * mean.stddev_times_n(scale, parts)
    half = n * (found.high - found.low).mean() / 2
    assert half == pytest.approx(mean.half_width_times_n(scale, LEVEL, parts, share), rel=0.01)
    assert half < 1.01 * mean.half_width_times_n(scale, LEVEL, parts)
    sums, rows = SumOfRows(LOW, HIGH), RowCount(parts)
    for found, error, width in (
        (
            estimated(sums, exact, 9, runs=runs),
            sums.stddev(scale, parts),
            sums.half_width(scale, LEVEL, parts),
        ),
        (estimated(rows, exact, 9, runs=runs), rows.stddev(scale), rows.half_width(scale, LEVEL)),
    ):
        assert found.value.std() == pytest.approx(error, rel=0.02)
        np.testing.assert_allclose(found.stddev, error)
        np.testing.assert_allclose(found.high - found.value, width)
    if parts == 3:
        variance = Variance(LOW, HIGH, sample=False)
        assert n * estimated(variance, exact, 9).value.std() < 1.03 * variance.stddev_times_n(scale)


def test_standard_deviations_are_given_where_they_describe_the_error() -> None:
    groups: NDArray[np.float64] = np.array([1.0, 5.9, 6.1, 1000.0])
    found = Average(LOW, HIGH).estimate([groups / 2, groups / 2], 1.0, LEVEL)
    assert np.isnan(found.stddev).tolist() == [True, True, False, False]
    assert not np.isnan(found.value).any()
