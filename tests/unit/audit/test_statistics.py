"""The audit's statistics against SciPy, and its p-values under the null and beside it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dpsql.audit.statistics import (
    GroupSequentialTest,
    binomial_quantiles,
    draw_strata,
    draw_uniforms,
    fisher_p_values,
    lower_bound,
    p_value,
    poisson_excess,
)
from dpsql.noise import SeededEntropy

AT = draw_strata(SeededEntropy(1))


@pytest.mark.parametrize("n", [1, 3, 50, 1000, 500_000])
def test_fishers_test_is_scipys(n: int) -> None:
    rng = np.random.default_rng(n)
    c2 = np.minimum(rng.integers(0, n + 1, 60), rng.integers(0, 2 * n + 1, 60))
    c1 = np.clip(c2 + (rng.normal(size=60) * 5 * np.sqrt(c2 + 1)).astype(int), 0, n)
    for a, b in zip(c1, c2, strict=True):
        expected = stats.hypergeom.sf(a - 1, 2 * n, n, a + b)
        assert fisher_p_values(np.array([a]), int(b), n)[0] == pytest.approx(expected, rel=1e-6, abs=1e-250)


def test_fishers_test_agrees_with_scipys_table_test() -> None:
    table = [[30, 470], [12, 488]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert fisher_p_values(np.array([30]), 12, 500)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "p"), [(0, 0.3), (7, 0.9), (50, 0.02), (10_000, 0.22), (400_000, 0.8)])
def test_binomial_quantiles_are_scipys(n: int, p: float) -> None:
    at = (np.arange(400) + 0.5) / 400
    assert (binomial_quantiles(n, p, at) == stats.binom.ppf(at, n, p)).all()


def test_a_binomial_with_certain_success_is_constant() -> None:
    assert (binomial_quantiles(9, 1.0, AT) == 9).all()


def test_uniforms_stay_inside_and_fill_the_interval() -> None:
    drawn = draw_uniforms(20_000, SeededEntropy(2))
    assert 0 < drawn.min() < drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-9
    assert (np.floor(draw_strata(SeededEntropy(3), 50) * 50) == np.arange(50)).all()


@pytest.mark.parametrize("mean", [0.001, 0.5, 40.0, 25_000.0])
def test_what_delta_allows_is_exceeded_with_the_stated_chance_at_most(mean: float) -> None:
    q, chance = poisson_excess(mean)
    assert stats.binom.sf(q, 500_000, mean / 500_000) <= chance
    assert q < mean + 8 * np.sqrt(mean) + 30


@pytest.mark.parametrize(("epsilon", "q"), [(0.2, 0.3), (0.7, 0.02), (1.5, 0.1), (0.7, 0.4)])
@pytest.mark.sampled(4)
def test_a_true_claim_is_rejected_no_more_often_than_stated(epsilon: float, q: float) -> None:
    # At the border of the hypothesis, 1,500 times. False alarm of this test: 1e-9.
    rng, n, alpha = np.random.default_rng(7), 2_000, 0.05
    c1, c2 = rng.binomial(n, np.exp(epsilon) * q, 1_500), rng.binomial(n, q, 1_500)
    rejected = sum(p_value(int(a), int(b), n, epsilon, AT) <= alpha for a, b in zip(c1, c2, strict=True))
    assert rejected <= stats.binom.isf(1e-9, 1_500, alpha)


def test_a_false_claim_is_rejected() -> None:
    # e^1.2 where e^0.7 is claimed: 12 standard deviations.
    rng, n = np.random.default_rng(8), 20_000
    c1, c2 = int(rng.binomial(n, np.exp(1.2) * 0.05)), int(rng.binomial(n, 0.05))
    assert p_value(c1, c2, n, 0.7, AT) < 1e-6
    assert p_value(c2, c1, n, 0.7, AT) == 1.0


def test_the_p_value_rises_with_epsilon_and_the_bound_is_where_it_crosses() -> None:
    counts = (6_000, 2_500, 100_000)
    curve = [p_value(*counts, epsilon, AT) for epsilon in np.linspace(0.05, 1.6, 60)]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(curve))
    assert curve[0] < 1e-100
    assert curve[-1] == 1.0
    bound = lower_bound(*counts, 1e-3, AT)
    assert 0.75 < bound < np.log(6_000 / 2_500)
    assert p_value(*counts, bound, AT) <= 1e-3 < p_value(*counts, bound + 1e-3, AT)


def test_no_difference_bounds_nothing() -> None:
    assert lower_bound(500, 500, 10_000, 1e-3, AT) == 0.0
    assert lower_bound(0, 0, 10_000, 1e-3, AT) == 0.0


def test_an_event_on_one_side_only_bounds_epsilon_by_its_count() -> None:
    assert 5 < lower_bound(50_000, 0, 500_000, 1e-4, AT) < np.log(50_000)


def test_delta_is_taken_off() -> None:
    n = 500_000
    # 2.2% against nothing: no epsilon explains it at delta 0, half a delta does not, delta 2.3% does.
    assert p_value(11_000, 0, n, 5.0, AT) < 1e-15
    assert p_value(11_000, 0, n, 5.0, AT, delta=0.011) < 1e-6
    assert p_value(11_000, 0, n, 5.0, AT, delta=0.023) == 1.0
    assert lower_bound(11_000, 0, n, 1e-4, AT, delta=0.023) == 0.0


def test_with_delta_a_true_claim_is_hardly_ever_rejected() -> None:
    rng, n, delta = np.random.default_rng(9), 5_000, 0.02
    c1, c2 = rng.binomial(n, np.exp(0.5) * 0.1 + delta, 300), rng.binomial(n, 0.1, 300)
    rejected = sum(
        p_value(int(a), int(b), n, 0.5, AT, delta=delta) <= 0.05 for a, b in zip(c1, c2, strict=True)
    )
    assert rejected <= stats.binom.isf(1e-9, 300, 0.05)


def test_two_looks_reject_what_either_rejects_at_half_the_level() -> None:
    clear, dull = (6_000, 2_500, 100_000), (600, 500, 10_000)
    both, one = GroupSequentialTest((dull, clear), AT, 0.0), GroupSequentialTest((dull,), AT, 0.0)
    assert both.p_value(0.5) == 2 * p_value(*clear, 0.5, AT)
    assert both.lower_bound(0.01) == lower_bound(*clear, 0.005, AT)
    assert one.p_value(0.0) == pytest.approx(2 * p_value(*dull, 0.0, AT))
    assert both.backward(0.5) == 1.0
