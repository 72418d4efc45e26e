"""Formulas over noisy moments: exact moments give exact answers, intervals have the ends they are said to."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.estimates import Average, Deviation, Formula, RowCount, SumOfRows, Variance
from dpsql.estimates.moments import largest_variance, least_variance, mean_width
from dpsql.estimates.noise_quantiles import laplace_half_width, laplace_half_widths

LEVEL = Fraction(95, 100)
LOW, HIGH = Fraction(-3), Fraction(5)
VALUES = np.array([-3.0, -1.0, 0.0, 2.5, 5.0, 5.0, 4.0])


def moments(parts: int) -> list[np.ndarray]:
    x = (VALUES + 3) / 8
    if parts == 2:
        return [np.array([(1 - x).sum()]), np.array([x.sum()])]
    return [np.array([part.sum()]) for part in ((1 - x) ** 2, 2 * x * (1 - x), x**2)]


@pytest.mark.parametrize(
    ("formula", "parts", "plain"),
    [
        (RowCount(2), 2, 7.0),
        (RowCount(3), 3, 7.0),
        (SumOfRows(LOW, HIGH), 2, VALUES.sum()),
        (SumOfRows(LOW, HIGH), 3, VALUES.sum()),
        (Average(LOW, HIGH), 2, VALUES.mean()),
        (Average(LOW, HIGH), 3, VALUES.mean()),
        (Variance(LOW, HIGH, sample=False), 3, VALUES.var()),
        (Variance(LOW, HIGH, sample=True), 3, VALUES.var(ddof=1)),
        (Deviation(LOW, HIGH, sample=False), 3, VALUES.std()),
        (Deviation(LOW, HIGH, sample=True), 3, VALUES.std(ddof=1)),
    ],
    ids=str,
)
def test_exact_moments_give_what_sql_computes(formula: Formula, parts: int, plain: float) -> None:
    found = formula.estimate(moments(parts), 1e-9, LEVEL)
    assert found.value[0] == pytest.approx(plain, rel=1e-9)
    assert found.low[0] < plain < found.high[0]
    assert found.high[0] - found.low[0] < 1e-6
    assert hash(formula) == hash(type(formula)(**{s: getattr(formula, s) for s in formula.__slots__}))


def test_what_rounds_to_no_row_has_no_average_and_no_variance_but_a_sum() -> None:
    few = [np.array([0.1, -2.0, 0.5, 0.6]), np.array([0.1, 1.0, -0.5, 0.6]), np.array([0.1, 1.0, 0.0, 0.6])]
    average = Average(LOW, HIGH).estimate(few[:2], 1.0, LEVEL)
    assert np.isnan(average.value).tolist() == [True, True, True, False]
    for formula, missing in (
        (Variance(LOW, HIGH, sample=False), [True, True, True, False]),  # of 0.3, 0, 0 and 1.8 rows
        (Variance(LOW, HIGH, sample=True), [True, True, True, False]),
        (Deviation(LOW, HIGH, sample=True), [True, True, True, False]),
    ):
        found = formula.estimate(few, 1.0, LEVEL)
        for part in (found.value, found.low, found.high):
            assert np.isnan(part).tolist() == missing
    found = SumOfRows(LOW, HIGH).estimate(few[:2], 1.0, LEVEL)
    assert found.value.tolist() == pytest.approx([0.2, 11.0, -4.0, 1.2])
    assert not np.isnan(found.low).any()


def test_no_groups_have_no_estimates() -> None:
    nothing = [np.zeros(0)] * 3
    for formula in (RowCount(3), SumOfRows(LOW, HIGH), Average(LOW, HIGH), Deviation(LOW, HIGH, sample=True)):
        assert formula.estimate(nothing, 1.0, LEVEL).value.size == 0


@pytest.mark.parametrize("weights", [(1.0, 0.3), (1.0, 0.999), (4.0, 2.5, 1.0), (0.8, 0.3, 0.2)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_partial_fractions_and_inversion_agree(weights: tuple[float, ...], confidence: float) -> None:
    by_formula = float(laplace_half_widths(np.array([weights]), confidence)[0])
    assert by_formula == pytest.approx(laplace_half_width(weights, confidence), rel=1e-3)


def test_the_quantile_of_the_mean_s_noise_is_as_published() -> None:
    """P(abs > x) = (a^2 e^(-x/a) - b^2 e^(-x/b))/(a^2 - b^2), and (1 + x/2a) e^(-x/a) for a = b."""
    for p in (0.0, 0.01, 0.2, 0.45, 0.8, 1.0):
        a, b, x = 1 - p, p, float(mean_width(2, 0.95, np.array([p]))[0])
        parts = [w * w * math.exp(-x / w) if w else 0.0 for w in (a, b)]
        assert (parts[0] - parts[1]) / (a * a - b * b) == pytest.approx(0.05, rel=1e-5)
    x = float(mean_width(2, 0.95, np.array([0.5]))[0])
    assert (1 + x) * math.exp(-2 * x) == pytest.approx(0.05, rel=1e-5)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.95, 0.9999, 1 - 1e-9])
def test_the_quantile_is_convex_and_equal_at_both_ends(parts: int, confidence: float) -> None:
    """Bisection rests on it."""
    p = (np.arange(2048) + 0.5) / 2048
    width = mean_width(parts, confidence, p)
    assert (np.diff(width, 2) > 0).all()
    np.testing.assert_allclose(width, width[::-1], rtol=1e-9)
    ends = mean_width(parts, confidence, np.array([0.0, 1.0]))
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


@pytest.mark.parametrize("parts", [2, 3])
def test_the_interval_of_an_average_has_all_that_the_noise_explains(parts: int) -> None:
    """Against a search over all means; the interval is the smallest one with all of them."""
    rng = np.random.default_rng(3)
    groups = [rng.normal(size=200) * 5 + 3 * 10.0 ** rng.uniform(-1, 2, 200) for _ in range(parts)]
    found = Average(Fraction(0), Fraction(1)).estimate(groups, 1.0, LEVEL)
    p = np.linspace(0, 1, 4001)
    width, steps = mean_width(parts, 0.95, p), np.arange(parts) / (parts - 1)
    seen = 0
    for i in np.flatnonzero(~np.isnan(found.value)):
        noise = sum((step - p) * group[i] for step, group in zip(steps, groups, strict=True))
        inside = p[np.abs(noise) <= width]
        if len(inside) > 1:
            assert found.low[i] == pytest.approx(inside[0], abs=3e-4)
            assert found.high[i] == pytest.approx(inside[-1], abs=3e-4)
            seen += 1
        assert found.low[i] <= found.value[i] <= found.high[i]
    assert seen > 100


def test_the_extremes_of_a_variance_are_those_of_all_moments_in_the_box() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        below = rng.uniform(0, 5, 3) * (rng.random(3) < 0.8)
        above = below + rng.uniform(0, 5, 3)
        axes = [np.linspace(low, high, 21) for low, high in zip(below, above, strict=True)]
        a, b, c = np.array(list(itertools.product(*axes))).T
        with np.errstate(invalid="ignore"):
            f = np.nan_to_num(np.clip((a * c - b * b / 4) / (a + b + c) ** 2, 0, 0.25))
        ends = [[np.array([x]) for x in side] for side in (below, above)]
        assert least_variance(*ends)[0] == pytest.approx(f.min(), abs=1e-12)
        assert f.max() - 1e-12 <= largest_variance(*ends)[0] <= f.max() + 0.01
