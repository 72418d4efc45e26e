"""The privacy loss of mechanisms: the steps they consist of, and what these cost by basic composition."""

from fractions import Fraction

import pytest

from dpsql.mechanisms import Laplace, NoisyTopK
from dpsql.privacy import ApproximateDP, Charge, PrivacyLoss


def test_steps_are_kept_and_their_sum_is_exact() -> None:
    loss = PrivacyLoss.of(Fraction(1, 3), times=3) + PrivacyLoss.of(Fraction(1, 7), Fraction(1, 10**9))
    assert loss.parts == (
        ApproximateDP(Fraction(1, 3), times=3),
        ApproximateDP(Fraction(1, 7), Fraction(1, 10**9)),
    )
    assert loss.charge == Charge(Fraction(8, 7), Fraction(1, 10**9))


@pytest.mark.parametrize(
    "loss", [PrivacyLoss(), PrivacyLoss.of(Fraction(0)), PrivacyLoss.of(Fraction(5), times=0)]
)
def test_what_costs_nothing_has_no_steps(loss) -> None:
    assert loss == PrivacyLoss()
    assert loss.charge == Charge()


def test_independent_noises_are_separate_steps() -> None:
    """A unit in m groups is hidden by m noises, each for its part of epsilon: not by one for all of it."""
    plan = Laplace.plan(10, "0.6", groups_per_unit=3, sensitivity=2)
    assert plan.loss.parts == (ApproximateDP(Fraction(1, 5), times=3),)
    assert Laplace.plan(10, "0.6", total=True).loss.parts == (ApproximateDP(Fraction(3, 5)),)
    assert NoisyTopK.plan(10, 3, "0.6").loss.parts == (ApproximateDP(Fraction(3, 5)),)


def test_a_negative_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        PrivacyLoss.of(Fraction(-1))
