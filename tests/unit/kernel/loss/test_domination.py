"""A loss that is charged is within the parts of the reserved one: at every order it costs no more."""

import random
from collections.abc import Callable
from fractions import Fraction

import pytest

from dpsql.kernel.loss import BoundedRange, Gaussian, PrivacyLoss, PureDP, Realised, Stream, is_within
from dpsql.kernel.loss.privacy_loss import Part

parse = PrivacyLoss.parse


@pytest.mark.parametrize(
    ("charged", "reserved"),
    [
        ("none", "pure 1"),
        ("pure 1", "pure 1"),
        ("sum 1/4 of 1", "pure 1"),
        ("stream 1/4 of 1", "pure 1"),
        ("pure 1/50 x 50", "pure 1"),
        ("pure 1/5 x 3", "pure 1/5 x 10"),
        ("sum 1/9 of 1/2 + pure 1/4 x 2", "pure 1"),
        ("range 1/2 + pure 1/2", "pure 1"),
        ("range 1/5 x 4 + gauss 1/8", "range 1/5 x 10 + gauss 1/8"),
        ("gauss 1/8", "range 1/5 x 10 + gauss 1/8"),
        ("pure 1 + pure 2", "pure 2 + pure 1"),
        ("gauss 1/16 x 2", "gauss 1/8"),
        ("pure 1/2 + delta 1/9", "pure 1 + delta 1/9"),
        ("stream 1/4 of 1", "stream 1/4 of 1"),
    ],
)
def test_what_is_settled_is_within_what_was_reserved(charged: str, reserved: str) -> None:
    assert is_within(parse(charged), parse(reserved))


@pytest.mark.parametrize(
    ("charged", "reserved"),
    [
        ("pure 1", "none"),
        ("pure 2", "pure 1"),
        ("pure 1/2 x 3", "pure 1"),
        ("sum 1/4 of 2", "pure 1"),
        ("sum 1/4", "pure 1"),
        ("range 2", "pure 1"),
        ("gauss 1/1000", "pure 1"),
        ("pure 1/5", "gauss 1/8"),
        # Of the same epsilon, but a dearer mechanism than any that was reserved.
        ("pure 1/2", "pure 1/4 x 9"),
        ("pure 1/8", "range 1/4 x 10"),
        ("range 1/5 x 11", "range 1/5 x 10"),
        ("range 1", "range 1/2 + pure 1"),
        ("gauss 1/8 x 2", "gauss 1/8"),
        ("pure 1 + pure 1", "pure 1 + gauss 1"),
        ("delta 1/9", "pure 1"),
        ("pure 1 + delta 1/9", "pure 1 + delta 1/10"),
        ("pure 1/8", "stream 1/4 of 1"),
        ("stream 1/8 of 1", "stream 1/4 of 1"),
    ],
)
def test_a_part_beyond_what_was_reserved_is_noticed(charged: str, reserved: str) -> None:
    assert not is_within(parse(charged), parse(reserved))


def drawn(source: random.Random, *, reserved: bool) -> PrivacyLoss:
    found: list[Part] = []
    for _ in range(source.randint(1, 3)):
        amount, times = Fraction(source.randint(1, 24), source.choice((4, 8, 16))), source.randint(1, 4)
        makers: list[Callable[[Fraction, int], Part]] = [PureDP, BoundedRange, Gaussian]
        if not reserved:
            makers += [lambda e, n: Realised(e / 3, e, n), lambda e, n: Stream(e / 2, e, n)]
        found.append(source.choice(makers)(amount, times))
    return PrivacyLoss(tuple(found))


def test_what_is_within_costs_no_more_at_any_order() -> None:
    source, within = random.Random(3), 0
    orders = [Fraction(65, 64), Fraction(3, 2), Fraction(4), Fraction(40), Fraction(900)]
    for _ in range(4000):
        charged, reserved = drawn(source, reserved=False), drawn(source, reserved=True)
        if not is_within(charged, reserved):
            continue
        within += 1
        assert reserved.epsilon is None or (
            charged.epsilon is not None and charged.epsilon <= reserved.epsilon
        )
        rounding = Fraction(sum(part.times for part in charged.parts), 10**12)
        for order in orders:
            assert charged.cost(order) <= reserved.cost(order) + rounding
    assert within > 200


def test_sums_at_one_order_do_not_tell() -> None:
    """Another mechanism of a smaller epsilon, that costs less at one order, costs more at another."""
    charged, reserved = parse("pure 4"), parse("pure 1/2 x 9")
    assert charged.charge.epsilon < reserved.charge.epsilon
    assert charged.cost(Fraction(900)) < reserved.cost(Fraction(900))
    assert charged.cost(Fraction(2)) > reserved.cost(Fraction(2))
    assert not is_within(charged, reserved)
