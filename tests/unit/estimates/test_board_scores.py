"""Scores of improvements on a board: their intervals hold given that they are shown, and rows cost little."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from dpsql.estimates.scores_and_weights import find_mean, find_sum
from dpsql.kernel.mechanisms import CheckStreamPlan, NoiseSource
from dpsql.kernel.public_order import in_public_order
from dpsql.language.board_statements import BOARD_ANSWERS
from dpsql.noise import SeededEntropy

PLAN = CheckStreamPlan.plan(1, 15, answers=BOARD_ANSWERS)
ROUNDS = 40_000


@pytest.mark.parametrize("distance", [-120, -60, -20, 0, 20, 60, 150, 1000])
@pytest.mark.sampled(3, rest="longer")
def test_the_statistic_is_covered_given_that_the_check_is_off(distance: int) -> None:
    """Also of a false alarm, whose gap is noise alone: then nothing is said of how far it lies below."""
    source = NoiseSource(SeededEntropy(distance + 200))
    found = PLAN.run(in_public_order(np.full((ROUNDS, 1), distance)), source)
    gaps = found.gap[found.index[:, 0] == 0, 0]
    assert len(gaps) > 200
    ends = [find_sum(PLAN, gap, 1.0) for gap in gaps.tolist()]
    covered = np.mean([(low is None or low <= distance) and distance <= high for low, high in ends])
    assert covered >= 0.96 - 4.9 * sqrt(0.04 * 0.96 / len(gaps))
    known = np.mean([low is not None for low, _ in ends])
    assert known == 1 if distance == 1000 else known < 0.9


@pytest.mark.parametrize("distance", [0.03, 0.0526, 0.1])
def test_a_tenth_for_the_rows_makes_the_error_of_a_score_least(distance: float) -> None:
    """By the scales of plans, for a score that is better than the edge by so many bounds of a row."""

    def variance(share: float) -> float:
        plan = CheckStreamPlan.plan(1, 15, answers=Fraction(share).limit_denominator(1000))
        check = float(plan.scale) ** 2 + float(plan.threshold_scale) ** 2
        return check + 2 * (distance / float(plan.answer_epsilon)) ** 2

    ratio = np.cbrt(distance**2 / 2)
    best = float(ratio / (1 + ratio))
    shares = np.linspace(0.01, 0.6, 60).tolist()
    least = min(map(variance, shares))
    assert variance(float(BOARD_ANSWERS)) < 1.1 * least
    assert variance(best) < 1.03 * least
    assert abs(best - min(shares, key=variance)) < 0.02
    assert variance(1 / 3) > 1.3 * least


def test_a_mean_is_the_gap_by_the_rows() -> None:
    found = find_mean(PLAN, 600.0, 1.0, (1000.0, 900.0, 1100.0))
    assert found is not None
    low, high = find_sum(PLAN, 600.0, 1.0)
    assert low is not None
    assert found == pytest.approx((0.6, low / 1100, high / 900))
    assert find_mean(PLAN, 1.0, 1.0, (1000.0, 900.0, 1100.0)) == pytest.approx(
        (0.001, None, find_sum(PLAN, 1.0, 1.0)[1] / 900)
    )
    assert find_mean(PLAN, 600.0, 1.0, (50.0, -10.0, 110.0)) is None
