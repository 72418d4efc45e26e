"""What a stream of checks promises: slack and margin, against simulated rounds of the production class.

Fixed seeds. A share of 95% that is in truth reached is rejected with a chance below 1e-6 (a normal bound of
4.9 standard deviations of the runs).
"""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, NoiseSource
from dpsql.noise import SeededEntropy

ROUNDS = 1_500
OFF = 4.9 * sqrt(0.05 * 0.95 / ROUNDS)


@pytest.mark.parametrize(("misses", "answers"), [(1, Fraction(1, 3)), (4, Fraction(0))])
def test_what_is_as_expected_is_within_the_slack(misses: int, answers: Fraction) -> None:
    """The least statistic beyond the slack is off in 95% of rounds when it is asked first."""
    plan = CheckStreamPlan.plan(1, misses, answers=answers)
    source = NoiseSource(SeededEntropy(3))
    beyond = Fraction(plan.slack()).limit_denominator(10**6)
    missed = 0
    for _ in range(ROUNDS):
        stream = CheckStream(plan, source)
        missed += stream.check(beyond) is None
    assert missed / ROUNDS <= 0.05 + OFF


@pytest.mark.parametrize("checks", [20])
def test_numbers_within_the_margin_are_all_as_expected(checks: int) -> None:
    """All of so many checks, in 95% of rounds; and the margin is not twice as large as needed."""
    plan = CheckStreamPlan.plan(1, 2)
    source = NoiseSource(SeededEntropy(4))
    found = {}
    for share in (1, 2):
        within = -Fraction(plan.margin(checks) / share).limit_denominator(10**6)
        alarms = 0
        for _ in range(ROUNDS // 3):
            stream = CheckStream(plan, source)
            alarms += any(stream.check(within) is not None for _ in range(checks) if not stream.exhausted)
        found[share] = 3 * alarms / ROUNDS
    assert found[1] <= 0.05 + OFF * sqrt(3)
    assert found[2] > 0.3


def test_the_law_of_the_gap() -> None:
    """A statistic far beyond: the gap is it, with noise of mean 0 and the variance of both noises."""
    plan = CheckStreamPlan.plan(1, 1)
    source = NoiseSource(SeededEntropy(5))
    gaps = []
    for _ in range(ROUNDS):
        gap = CheckStream(plan, source).check(Fraction(10_000))
        assert gap is not None
        gaps.append(float(gap) - 10_000)
    variance = float(plan.scale) ** 2 + float(plan.threshold_scale) ** 2
    assert abs(np.mean(gaps)) < 4.9 * sqrt(variance / ROUNDS)
    assert 0.75 < np.var(gaps) / variance < 1.3
