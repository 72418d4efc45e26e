"""Streams of checks: their scales, charges and widths."""

from fractions import Fraction

import pytest

from dpsql.kernel.changes import NumberChange, Taken
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, Direction, NoiseSource
from dpsql.noise import SeededEntropy


@pytest.mark.parametrize(
    ("misses", "answers", "direction", "margin", "slack"),
    [
        (1, Fraction(1, 3), "BOTH", 53, 11),
        (8, Fraction(1, 3), "BOTH", 319, 46),
        (16, Fraction(0), "BOTH", 417, 57),
        (4, Fraction(0), "UP", 67, 13),
    ],
)
def test_how_sharp_checks_are(
    misses: int, answers: Fraction, direction: Direction, margin: int, slack: int
) -> None:
    """Of 18,250 checks at epsilon 1, as computed by hand from scales and means."""
    plan = CheckStreamPlan.plan(1, misses, answers=answers, direction=direction)
    assert round(plan.margin(18_250)) == margin
    assert abs(plan.slack() - slack) < 0.6


def test_only_misses_are_charged() -> None:
    plan = CheckStreamPlan.plan("0.7", 2)
    stream = CheckStream(plan, NoiseSource(SeededEntropy(1)))
    assert stream.charge == Charge()
    for _ in range(200):
        assert stream.check(Fraction(-10_000)) is None
    assert stream.charge == Charge(plan.threshold_epsilon)
    for used in (1, 2):
        assert stream.check(Fraction(10_000)) is not None
        assert stream.misses_left == 2 - used
    assert stream.charge == plan.loss.charge == Charge(Fraction(7, 10))
    with pytest.raises(RuntimeError, match="misses are used up"):
        stream.check(Fraction(0))


def test_it_takes_statistics_that_move_by_one_bound() -> None:
    def taken(low: int, high: int) -> Taken:
        return Taken((NumberChange(low, high),), 1)

    ways: tuple[Direction, ...] = ("BOTH", "UP", "DOWN")
    both, up, down = (CheckStreamPlan.plan(1, 2, direction=each) for each in ways)
    assert [plan.covers(taken(-1, 1)) for plan in (both, up, down)] == [True, False, False]
    assert [plan.covers(taken(0, 1)) for plan in (both, up, down)] == [True, True, False]
    assert [plan.covers(taken(-1, 0)) for plan in (both, up, down)] == [True, False, True]
    assert not both.covers(taken(-1, 2))


def test_two_sided_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="one-sided"):
        CheckStreamPlan.plan(1, 2, noise="laplace")
    with pytest.raises(ValueError, match="answers"):
        CheckStreamPlan.plan(1, 2, answers=1)
