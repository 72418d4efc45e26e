"""Shares, predictions and p-values before and after spending."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from dpsql.estimates import (
    BoxNoise,
    ErrorModel,
    GapNoise,
    LaplaceNoise,
    Noise,
    Strategy,
    distinguishable_gap,
    exponential_mechanism_p_value,
    measuring_share,
    p_value,
    sparse_vector_error,
    split_measuring,
)
from dpsql.estimates.box_law import own_variance, reference_variance
from dpsql.kernel.mechanisms.measure import pads

EPSILON = Fraction(7, 10)


def predicted(
    strategy: Strategy, k: int, share: Fraction, noise: Noise = "exponential", *, steps: int = 1
) -> float:
    """Squared standard deviation of k counts at this share; selecting pays for k noises of `steps`."""
    scale = steps * k / (EPSILON * (1 - share))
    drawn = LaplaceNoise(k / (EPSILON * share), total=strategy == "ANCHOR")
    unit = float(EPSILON * share) ** -2
    m = pads(k)
    box = BoxNoise(own_variance(k + m) * unit, reference_variance(k, m) * unit)
    measuring = box if strategy == "BOX" else drawn
    return float(ErrorModel(GapNoise(noise, scale), k, measuring).stddev().max()) ** 2


@pytest.mark.parametrize(
    ("k", "each", "anchor", "box"),
    [(2, 33, 50, 61), (5, 53, 69, 84), (10, 60, 76, 90), (25, 64, 82, 93), (100, 66, 85, 95)],
)
def test_reductions_of_squared_error_against_the_gap_free_baseline(
    k: int, each: int, anchor: int, box: int
) -> None:
    """At the share of each strategy; BOX at one half."""
    baseline = 2 * (k / (EPSILON / 2)) ** 2
    cases: tuple[tuple[Strategy, int], ...] = (("EACH", each), ("ANCHOR", anchor), ("BOX", box))
    for strategy, percent in cases:
        share = Fraction(1, 2) if strategy == "BOX" else measuring_share(strategy, k)
        assert round(100 * (1 - predicted(strategy, k, share) / float(baseline))) == percent


def test_reductions_tend_to_two_thirds_and_seven_eighths_and_with_a_box_to_all_but_a_25th() -> None:
    k = 10**6
    baseline = 2 * (k / (EPSILON / 2)) ** 2
    cases: tuple[tuple[Strategy, Fraction, float], ...] = (
        ("EACH", Fraction(1, 2), 2 / 3),
        ("ANCHOR", measuring_share("ANCHOR", k), 7 / 8),
        ("BOX", Fraction(1, 2), 1 - 1 / 26),
        ("BOX", Fraction(1, 3), 0.929),
    )
    for strategy, share, limit in cases:
        assert 1 - predicted(strategy, k, share) / float(baseline) == pytest.approx(limit, abs=2e-3)


@pytest.mark.parametrize("k", [2, 3, 10, 100])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("noise", ["exponential", "geometric", "laplace"])
def test_no_share_is_better_for_an_anchor(k: int, monotone: bool, noise: Noise) -> None:
    steps = 1 if monotone else 2
    share = measuring_share("ANCHOR", k, monotone=monotone, noise=noise)
    best = predicted("ANCHOR", k, share, noise, steps=steps)
    for percent in range(1, 100):
        assert predicted("ANCHOR", k, Fraction(percent, 100), noise, steps=steps) >= best * (1 - 2e-5)


def test_a_box_gets_one_half_for_few_groups_and_one_third_for_more() -> None:
    for k in (1, 2, 10):
        assert measuring_share("BOX", k) == Fraction(1, 2)
    for k in (11, 25, 1000):
        assert measuring_share("BOX", k) == Fraction(1, 3)
        assert measuring_share("BOX", k, domain_size=9) == Fraction(1, 2)
    for k in (1, 10, 1000):
        assert measuring_share("EACH", k) == Fraction(1, 2)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_domain_no_larger_than_k_is_selected_whole_with_one_gap_less(n: int) -> None:
    share = measuring_share("ANCHOR", n, domain_size=n)
    assert share == measuring_share("ANCHOR", n + 5, domain_size=n)

    def whole(percent: Fraction) -> float:
        scale, drawn = (n - 1) / (EPSILON * (1 - percent)), n / (EPSILON * percent)
        model = ErrorModel(GapNoise("exponential", scale), n, LaplaceNoise(drawn, total=True))
        return float(model.stddev().max()) ** 2

    for percent in range(1, 100):
        assert whole(Fraction(percent, 100)) >= whole(share) * (1 - 2e-5)
    assert measuring_share("ANCHOR", n, domain_size=n + 1) == measuring_share("ANCHOR", n)
    assert measuring_share("ANCHOR", n, domain_size=1) == Fraction(1, 2)
    for k, size in ((0, None), (n, 0)):
        with pytest.raises(ValueError, match="domain"):
            measuring_share("BOX", k, domain_size=size)


def test_shares_are_short_decimals() -> None:
    for k in (2, 3, 10, 1000, 10**6):
        share = measuring_share("ANCHOR", k)
        assert 0 < share <= Fraction(1, 2)
        assert float(f"{float(share):.3g}") == float(share)
        ratio = (2 / (k * (k - 1))) ** (1 / 3)
        assert float(share) == pytest.approx(ratio / (1 + ratio), rel=6e-3)


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
