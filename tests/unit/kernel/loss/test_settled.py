"""What is charged for a mechanism that has run: never less than what its outcome realised allows."""

from fractions import Fraction

import pytest

from dpsql.errors import InternalError
from dpsql.kernel.loss import BoundedRange, Gaussian, PrivacyLoss, settle

parse = PrivacyLoss.parse


@pytest.mark.parametrize(
    ("reserved", "realised", "charged"),
    [
        ("pure 1", "pure 1", "pure 1"),
        ("pure 1", "pure 1/4", "sum 1/4 of 1"),
        ("pure 1", "pure 1/4 + pure 1/8 x 2", "sum 1/2 of 1"),
        ("pure 1", "pure 1/4 + pure 3/4", "pure 1"),
        ("pure 1", "none", "none"),
        ("pure 1 + delta 1/9", "pure 1/2 + delta 1/9", "sum 1/2 of 1 + delta 1/9"),
        ("pure 1 + delta 1/9", "delta 1/9", "delta 1/9"),
        ("pure 1 + delta 1/9", "pure 1 + delta 1/18", "pure 1 + delta 1/18"),
        ("pure 1/5 x 10", "pure 1/5 x 3", "pure 1/5 x 3"),
        ("pure 1/5 x 10", "none", "none"),
        ("pure 1/5 x 10", "pure 1/10 x 3", "sum 1/10 of 1/5 x 3"),
        ("pure 1 + pure 2", "pure 1/2 + pure 1", "sum 1/2 of 1 + sum 1 of 2"),
        ("pure 1 + pure 2", "sum 1/2 of 1 + pure 2", "sum 1/2 of 1 + pure 2"),
        ("pure 1 + pure 2", "pure 1/2", "sum 1/2 of 1"),
        ("range 1/5 x 10", "range 1/5 x 4", "range 1/5 x 4"),
        ("pure 1 + gauss 1/8", "pure 1/2 + gauss 1/8", "sum 1/2 of 1 + gauss 1/8"),
        ("pure 1 + gauss 1/8", "pure 1", "pure 1"),
        ("gauss 1/8 x 3", "gauss 1/8", "gauss 1/8"),
        ("none", "none", "none"),
    ],
)
def test_what_is_charged(reserved: str, realised: str, charged: str) -> None:
    assert str(settle(parse(reserved), parse(realised))) == charged


@pytest.mark.parametrize(
    ("reserved", "realised"),
    [
        ("pure 1", "pure 2"),
        ("pure 1", "pure 1/2 + pure 3/4"),
        ("pure 1", "gauss 1/8"),
        ("pure 1", "pure 1 + delta 1/9"),
        ("none", "pure 1"),
        ("pure 1 + pure 1", "pure 1/2 + pure 1/2 + pure 1/2"),
        ("pure 1 x 2", "pure 1 x 3"),
        ("pure 1 x 2", "pure 2"),
        ("range 1", "range 1/2"),
        ("range 1", "pure 1/2"),
        ("range 1 x 2", "range 1 x 3"),
        ("gauss 1/8", "gauss 1/16"),
        ("gauss 1/8", "pure 1"),
        ("pure 1 + gauss 1/8", "gauss 1/8"),
    ],
)
def test_more_than_was_reserved_and_what_does_not_correspond_is_refused(reserved: str, realised: str) -> None:
    with pytest.raises(InternalError):
        settle(parse(reserved), parse(realised))


def test_a_stream_is_refunded_by_basic_composition_alone() -> None:
    reserved = parse("pure 1")
    charged = settle(reserved, parse("pure 1/4"), stream=True)
    assert str(charged) == "stream 1/4 of 1"
    assert charged.cost(Fraction(4)) == reserved.cost(Fraction(4))
    assert charged.epsilon == Fraction(1, 4)
    assert str(settle(reserved, PrivacyLoss(), stream=True)) == "stream 0 of 1"
    assert settle(reserved, reserved, stream=True) == reserved
    with pytest.raises(InternalError):
        settle(parse("pure 1 x 2"), parse("pure 1"), stream=True)


@pytest.mark.parametrize("order", [Fraction(65, 64), Fraction(4), Fraction(500)])
def test_nothing_is_charged_below_the_cost_that_is_proven(order: Fraction) -> None:
    reserved = Fraction(13, 10)
    for steps in range(1, 131):
        realised = Fraction(steps, 100)
        charged = settle(PrivacyLoss.of(reserved), PrivacyLoss.of(realised))
        assert charged.epsilon == realised
        assert charged.cost(order) == min(PrivacyLoss.of(reserved).cost(order), realised)


def test_parts_of_noise_and_range_are_not_lowered() -> None:
    loss = PrivacyLoss((BoundedRange(Fraction(1)), Gaussian(Fraction(1, 8))))
    assert settle(loss, loss) == loss
