"""Shares, predictions and p-values before and after spending."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from dpsql.estimates import (
    Noise,
    anchor_share,
    choose_measuring,
    choose_strategy,
    distinguishable_gap,
    exponential_mechanism_p_value,
    p_value,
    sparse_vector_error,
    split_measuring,
)

EPSILON = Fraction(7, 10)


@pytest.mark.parametrize(
    ("k", "each", "anchor"), [(2, 33, 50), (5, 53, 69), (10, 60, 76), (25, 64, 82), (50, 65, 84)]
)
def test_reductions_of_squared_error_against_the_gap_free_baseline(k: int, each: int, anchor: int) -> None:
    baseline = 2 * (k / (EPSILON / 2)) ** 2
    cases: tuple[tuple[Literal["EACH", "ANCHOR"], int], ...] = (("EACH", each), ("ANCHOR", anchor))
    for strategy, percent in cases:
        plan = choose_measuring(k, EPSILON, strategy=strategy)
        assert round(100 * (1 - plan.predicted_stddev**2 / float(baseline))) == percent


def test_reductions_tend_to_two_thirds_and_seven_eighths() -> None:
    k = 10**6
    baseline = 2 * (k / (EPSILON / 2)) ** 2
    cases: tuple[tuple[Literal["EACH", "ANCHOR"], float], ...] = (("EACH", 2 / 3), ("ANCHOR", 7 / 8))
    for strategy, limit in cases:
        plan = choose_measuring(k, EPSILON, strategy=strategy)
        assert 1 - plan.predicted_stddev**2 / float(baseline) == pytest.approx(limit, abs=2e-3)


@pytest.mark.parametrize("k", [2, 3, 10, 100])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("noise", ["exponential", "geometric", "laplace"])
def test_no_share_is_better_for_an_anchor(k: int, monotone: bool, noise: Noise) -> None:
    best = choose_measuring(k, EPSILON, monotone=monotone, noise=noise, strategy="ANCHOR")
    assert best.measuring_epsilon / EPSILON == anchor_share(k, monotone=monotone, noise=noise)
    for percent in range(1, 100):
        other = choose_measuring(
            k, EPSILON, monotone=monotone, noise=noise, strategy="ANCHOR", measure=Fraction(percent, 100)
        )
        assert other.predicted_stddev >= best.predicted_stddev * (1 - 1e-5)


@pytest.mark.parametrize("k", [1, 2, 5, 7, 60, 10_000])
@pytest.mark.parametrize("strategy", ["AUTO", "EACH", "ANCHOR"])
@pytest.mark.parametrize("measure", [None, Fraction(1, 3), Fraction(0)])
def test_the_two_parts_add_up_exactly_and_give_the_scales(
    k: int, strategy: Literal["AUTO", "EACH", "ANCHOR"], measure: Fraction | None
) -> None:
    plan = choose_measuring(k, EPSILON, sensitivity=3, monotone=False, measure=measure, strategy=strategy)
    assert plan.selection_epsilon + plan.measuring_epsilon == EPSILON
    assert plan.selection_epsilon > 0
    assert plan.selection_scale * plan.selection_epsilon == 2 * k * 3
    if measure == 0:
        assert plan.strategy == "NONE"
        assert plan.measuring_scale is None
        assert plan.predicted_stddev == plan.half_width() == math.inf
    else:
        assert plan.measuring_scale is not None
        assert plan.measuring_scale * plan.measuring_epsilon == k * 3
        assert strategy in ("AUTO", plan.strategy)


def test_auto_takes_an_anchor_at_its_share_and_compares_at_a_given_one() -> None:
    for k in (1, 2, 3, 6, 7, 10, 50, 1000):
        for noise in ("exponential", "laplace"):
            for monotone in (True, False):
                plan = choose_measuring(k, EPSILON, noise=noise, monotone=monotone)
                assert plan.strategy == "ANCHOR"
                assert plan.measuring_epsilon == EPSILON * anchor_share(k, monotone=monotone, noise=noise)
    half = {k: choose_measuring(k, EPSILON, measure=Fraction(1, 2)).strategy for k in range(1, 20)}
    assert all(half[k] == ("EACH" if k >= 7 else "ANCHOR") for k in half)
    for k in range(1, 20):
        chosen = choose_measuring(k, EPSILON, measure=Fraction(1, 2))
        for strategy in ("EACH", "ANCHOR"):
            other = choose_measuring(k, EPSILON, measure=Fraction(1, 2), strategy=strategy)
            assert chosen.predicted_stddev <= other.predicted_stddev * (1 + 1e-8)


def test_each_gets_one_half_unless_told() -> None:
    assert choose_measuring(10, EPSILON, strategy="EACH").measuring_epsilon == EPSILON / 2
    told = choose_measuring(10, EPSILON, strategy="EACH", measure=Fraction(1, 5))
    assert told.measuring_epsilon == EPSILON / 5


def test_one_group_gets_one_half_and_the_plain_count() -> None:
    plan = choose_measuring(1, EPSILON)
    assert plan.measuring_epsilon == plan.selection_epsilon == EPSILON / 2
    assert plan.predicted_stddev == pytest.approx(math.sqrt(2) / 0.35)
    assert plan.half_width() == pytest.approx(math.log(20) / 0.35)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_domain_no_larger_than_k_is_selected_whole_with_one_gap_less(n: int) -> None:
    for k in (n, n + 5):
        plan = choose_measuring(k, EPSILON, domain_size=n)
        assert plan.k == n
        assert plan.selection_scale * plan.selection_epsilon == n - 1
        assert plan.measuring_scale is not None
        assert plan.measuring_scale * plan.measuring_epsilon == n
        for percent in range(1, 100):
            other = choose_measuring(
                k, EPSILON, domain_size=n, strategy="ANCHOR", measure=Fraction(percent, 100)
            )
            assert other.predicted_stddev >= plan.predicted_stddev * (1 - 1e-5)
    assert choose_measuring(n, EPSILON, domain_size=n + 1) == choose_measuring(n, EPSILON)
    one = choose_measuring(n, EPSILON, domain_size=1)
    assert (one.k, one.measuring_epsilon) == (1, EPSILON / 2)
    with pytest.raises(ValueError, match="domain"):
        choose_measuring(n, EPSILON, domain_size=0)


def test_without_gaps_every_count_stands_alone() -> None:
    plan = choose_measuring(10, EPSILON, gaps=False)
    assert (plan.strategy, plan.measuring_epsilon) == ("EACH", EPSILON / 2)
    assert plan.predicted_stddev == pytest.approx(math.sqrt(2) * 10 / 0.35)
    assert plan.half_width() == pytest.approx(10 * math.log(20) / 0.35)
    with pytest.raises(ValueError, match="ANCHOR needs"):
        choose_measuring(10, EPSILON, gaps=False, strategy="ANCHOR")


def test_half_width_is_near_two_deviations() -> None:
    plan = choose_measuring(10, EPSILON)
    assert 1.8 < plan.half_width() / plan.predicted_stddev < 2.2
    assert plan.half_width(0.5) < plan.half_width(0.99)


def test_shares_are_short_decimals() -> None:
    for k in (2, 3, 10, 1000, 10**6):
        share = anchor_share(k)
        assert 0 < share <= Fraction(1, 2)
        assert float(f"{float(share):.3g}") == float(share)
        ratio = (2 / (k * (k - 1))) ** (1 / 3)
        assert float(share) == pytest.approx(ratio / (1 + ratio), rel=6e-3)


def test_strategy_at_fixed_scales_knows_the_threshold() -> None:
    assert choose_strategy("exponential", 20, 10, measuring_scale=20) == "EACH"
    assert choose_strategy("exponential", 10, 5, measuring_scale=10) == "ANCHOR"
    assert choose_strategy("exponential", 20, 10, measuring_scale=200) == "ANCHOR"
    # a sharp threshold fixes the shared reference, so the total tells nothing more
    assert choose_strategy("exponential", 10, 5, measuring_scale=10, threshold_scale=0.01) == "EACH"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "positive"),
        ({"epsilon": Fraction(0)}, "positive"),
        ({"sensitivity": 0}, "positive"),
        ({"measure": Fraction(1)}, "measuring share"),
        ({"measure": Fraction(-1, 9)}, "measuring share"),
        ({"strategy": "BOTH"}, "strategy"),
        ({"noise": "gaussian"}, "noise"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_measuring(**{"k": 3, "epsilon": EPSILON, **arguments})


def test_several_counts_split_in_proportion_to_c_to_the_two_thirds() -> None:
    assert split_measuring(EPSILON, [5]) == (EPSILON,)
    assert split_measuring(EPSILON, [1, 1, 1]) == (EPSILON / 3,) * 3
    assert split_measuring(EPSILON, [1, 8, 27]) == tuple(EPSILON * w / 14 for w in (1, 4, 9))
    bounds = [1, 2, 3, 7, 100]
    parts = split_measuring(EPSILON, bounds)
    assert sum(parts) == EPSILON

    def total(split: Sequence[Fraction]) -> float:
        return sum((c / float(e)) ** 2 for c, e in zip(bounds, split, strict=True))

    for i in range(5):
        for j in range(5):
            moved = list(parts)
            moved[i] -= parts[i] / 20
            moved[j] += parts[i] / 20
            assert total(moved) >= total(parts)
    for wrong in ([], [0], [-1, 2]):
        with pytest.raises(ValueError, match="bound"):
            split_measuring(EPSILON, wrong)


def test_gap_told_apart() -> None:
    assert distinguishable_gap("exponential", 10) == pytest.approx(10 * math.log(10))
    assert distinguishable_gap("geometric", 10) == distinguishable_gap("exponential", 10)
    told = distinguishable_gap("laplace", 10) / 10
    assert (2 + told) / 4 * math.exp(-told) == pytest.approx(0.05)
    assert distinguishable_gap("exponential", 10, 0.3) == 0


def test_sparse_vector_error_is_the_union_bound() -> None:
    assert sparse_vector_error(4, 10, 1000) == pytest.approx(14 * math.log(1001 / 0.05))
    assert sparse_vector_error(4, 10, 1000, branches=4, confidence=0.9) == pytest.approx(14 * math.log(40010))
    for n, b in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="positive"):
            sparse_vector_error(1, 1, n, branches=b)


def test_p_values() -> None:
    np.testing.assert_allclose(p_value([0, 10, 30.0], Fraction(10)), np.exp([0, -1, -3.0]))
    np.testing.assert_allclose(p_value([[5.0]], 10, "geometric"), [[math.exp(-0.5)]])
    with pytest.raises(ValueError, match="Laplace"):
        p_value([1.0], 10, "laplace")
    with pytest.raises(ValueError, match="noise must be"):
        p_value([1.0], 10, "normal")  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ValueError, match="scale"):
        p_value([1.0], 0)
    for call in (p_value, exponential_mechanism_p_value):
        for gap in (-1.0, math.nan):
            with pytest.raises(ValueError, match="never negative"):
                call([gap], 10)


def test_p_values_of_the_exponential_mechanism() -> None:
    found = exponential_mechanism_p_value([0, 10 * math.log(39), 1e6], 10)
    np.testing.assert_allclose(found, [1, 0.05, 0], atol=1e-15)
