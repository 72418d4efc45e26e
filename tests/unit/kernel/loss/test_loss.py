"""The privacy loss of mechanisms: the parts they consist of, their text, their sums."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import InternalError
from dpsql.kernel.loss import (
    BoundedRange,
    Charge,
    Gaussian,
    Part,
    PrivacyLoss,
    PureDP,
    Realised,
    Stream,
    largest_loss,
)
from dpsql.kernel.mechanisms import CheckStreamPlan, Laplace, NoisyTopK

ORDERS = [1 + Fraction(i, 64) for i in (1, 40, 191, 1500, 65535)]
AMOUNTS = st.fractions(min_value=Fraction(1, 1000), max_value=20, max_denominator=1000)
TIMES = st.integers(1, 60)


def realised(kind: Callable[..., Part], most: Fraction, share: Fraction, times: int) -> Part:
    return kind(most * share, most, times)


SHARES = st.fractions(min_value=Fraction(1, 100), max_value=Fraction(99, 100), max_denominator=100)
PURE = st.builds(PureDP, AMOUNTS, TIMES)
RANGES = st.builds(BoundedRange, AMOUNTS, TIMES)
SETTLED = st.builds(realised, st.sampled_from([Realised, Stream]), AMOUNTS, SHARES, TIMES)
FINITE = PURE | RANGES | SETTLED
PARTS = FINITE | st.builds(Gaussian, AMOUNTS, TIMES) | st.builds(Realised, AMOUNTS, st.none(), TIMES)
DELTAS = st.sampled_from([Fraction(0), Fraction(1, 10**9), Fraction(1, 3)])


def losses(parts: st.SearchStrategy[Part], least: int = 0) -> st.SearchStrategy[PrivacyLoss]:
    return st.builds(PrivacyLoss, st.lists(parts, min_size=least, max_size=4).map(tuple), DELTAS)


def test_steps_are_kept_and_their_sum_is_exact() -> None:
    loss = PrivacyLoss.of(Fraction(1, 3), times=3) + PrivacyLoss.of(Fraction(1, 7), Fraction(1, 10**9))
    assert loss.parts == (PureDP(Fraction(1, 3), times=3), PureDP(Fraction(1, 7)))
    assert loss.charge == Charge(Fraction(8, 7), Fraction(1, 10**9))
    assert PrivacyLoss.of(Fraction(1), Fraction(1, 10), times=3).charge == Charge(
        Fraction(3), Fraction(3, 10)
    )


@pytest.mark.parametrize(
    "loss",
    [
        PrivacyLoss(),
        PrivacyLoss.of(Fraction(0)),
        PrivacyLoss.of(Fraction(5), times=0),
        PrivacyLoss.of(Fraction(5), Fraction(1, 9)).repeated(0),
    ],
)
def test_what_costs_nothing_has_no_parts(loss: PrivacyLoss) -> None:
    assert loss == PrivacyLoss()
    assert loss.charge == Charge()
    assert loss.cost(Fraction(4)) == 0
    assert str(loss) == "none"


def test_what_has_delta_alone_is_kept() -> None:
    loss = PrivacyLoss.of(Fraction(0), Fraction(1, 9))
    assert loss.charge == Charge(Fraction(0), Fraction(1, 9))
    assert str(loss) == "delta 1/9"


def test_independent_noises_are_separate_parts() -> None:
    """A unit in m groups is hidden by m noises, each for its part of epsilon: not by one for all of it."""
    plan = Laplace.plan(10, "0.6", groups_per_unit=3, sensitivity=2)
    assert plan.loss.parts == (PureDP(Fraction(1, 5), times=3),)
    assert Laplace.plan(10, "0.6", total=True).loss.parts == (PureDP(Fraction(3, 5)),)
    assert NoisyTopK.plan(10, 3, "0.6").loss.parts == (PureDP(Fraction(3, 5)),)


def test_what_shares_a_threshold_is_one_part() -> None:
    """The threshold's noise is not released: neither it nor a check is a private mechanism by itself."""
    plan = CheckStreamPlan.plan("0.6", 3)
    assert plan.loss.parts == (PureDP(Fraction(3, 5)),)
    assert len(plan.realised_loss(2).parts) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: PrivacyLoss.of(Fraction(-1)),
        lambda: PrivacyLoss.of(Fraction(1), Fraction(-1)),
        lambda: PrivacyLoss.of(Fraction(1), times=-1),
        lambda: PrivacyLoss((), Fraction(-1)),
        lambda: PureDP(Fraction(0)),
        lambda: BoundedRange(Fraction(-1)),
        lambda: Gaussian(Fraction(-1)),
        lambda: Realised(Fraction(0)),
        lambda: PrivacyLoss.gaussian(Fraction(0)),
    ],
)
def test_a_negative_loss_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="negative"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: PureDP(Fraction(1), 0),
        lambda: Realised(Fraction(1), Fraction(1)),
        lambda: Stream(Fraction(2), Fraction(1)),
        lambda: Stream(Fraction(-1), Fraction(1)),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        make()


class TestText:
    @pytest.mark.parametrize(
        ("loss", "text"),
        [
            (PrivacyLoss.of(Fraction(1, 10), times=5), "pure 1/10 x 5"),
            (PrivacyLoss((BoundedRange(Fraction(2), 10),)), "range 2 x 10"),
            (PrivacyLoss.gaussian(Fraction(1, 200)), "gauss 1/200"),
            (PrivacyLoss((Realised(Fraction(1, 4)),)), "sum 1/4"),
            (PrivacyLoss((Realised(Fraction(1, 4), Fraction(1), 3),)), "sum 1/4 of 1 x 3"),
            (PrivacyLoss((Stream(Fraction(0), Fraction(1)),)), "stream 0 of 1"),
            (
                PrivacyLoss.of(Fraction(1, 3), Fraction(1, 10**6)) + PrivacyLoss.gaussian(Fraction(7)),
                "pure 1/3 + gauss 7 + delta 1/1000000",
            ),
        ],
    )
    def test_golden(self, loss: PrivacyLoss, text: str) -> None:
        assert str(loss) == text
        assert PrivacyLoss.parse(text) == loss

    @given(losses(PARTS))
    def test_every_loss_is_read_back(self, loss: PrivacyLoss) -> None:
        assert PrivacyLoss.parse(str(loss)) == loss

    @given(losses(PARTS, 1), losses(PARTS, 1))
    def test_one_text_a_loss(self, one: PrivacyLoss, other: PrivacyLoss) -> None:
        assert (str(one) == str(other)) == (one == other)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "pure",
            "pure 0",
            "pure 1/0",
            "pure 2/4",
            "pure 1/1",
            "pure 01",
            "pure .1",
            "pure -1",
            "pure 1 x 1",
            "pure 1 x 0",
            "pure 1 x 02",
            "pure 1  x 2",
            "pure 1 of 2",
            "gauss 1 of 2",
            "sum 2 of 1",
            "sum 0",
            "stream 1",
            "Pure 1",
            "pure 1+ pure 2",
            "pure 1 + ",
            "pure 1 + none",
            "none + pure 1",
            "delta 0",
            "delta 1/9 + pure 1",
            "pure 1 + delta 1/9 + delta 1/9",
            "pure 1\n",
            "pure ١",
            "pure 1 x " + "9" * 19,
            "pure " + "9" * 3001,
        ],
    )
    def test_no_other_text_is_read(self, text: str) -> None:
        with pytest.raises(ValueError):
            PrivacyLoss.parse(text)


class TestSums:
    def test_gaussian_noise_has_no_epsilon(self) -> None:
        loss = PrivacyLoss.of(Fraction(1), Fraction(1, 9)) + PrivacyLoss.gaussian(Fraction(1, 100))
        assert loss.epsilon is None
        assert loss.delta == Fraction(1, 9)
        with pytest.raises(InternalError, match="Gaussian"):
            _ = loss.charge

    @given(losses(PARTS), losses(PARTS), st.sampled_from(ORDERS))
    def test_epsilons_deltas_and_costs_add(
        self, one: PrivacyLoss, other: PrivacyLoss, order: Fraction
    ) -> None:
        both = one + other
        assert both.cost(order) == one.cost(order) + other.cost(order)
        assert both.delta == one.delta + other.delta
        if one.epsilon is None or other.epsilon is None:
            assert both.epsilon is None
        else:
            assert both.epsilon == one.epsilon + other.epsilon

    @given(losses(PARTS), st.integers(0, 5), st.sampled_from(ORDERS))
    def test_a_loss_is_repeated(self, loss: PrivacyLoss, times: int, order: Fraction) -> None:
        found, added = loss.repeated(times), sum((loss for _ in range(times)), PrivacyLoss())
        assert (found.epsilon, found.delta) == (added.epsilon, added.delta)
        assert found.cost(order) == added.cost(order)

    def test_what_is_realised_never_costs_as_a_mechanism_of_that_epsilon(self) -> None:
        order = Fraction(4)
        small, full = Fraction(1, 100), Fraction(13, 10)
        assert Realised(small, full).cost(order) == small > PureDP(small).cost(order)
        assert Realised(Fraction(129, 100), full).cost(order) == PureDP(full).cost(order) < Fraction(129, 100)
        assert Stream(small, full).cost(order) == PureDP(full).cost(order)
        assert Realised(small).cost(order) == small


class TestLargest:
    @given(st.lists(losses(FINITE | st.builds(Gaussian, AMOUNTS, TIMES)), min_size=1, max_size=4))
    def test_it_is_at_least_each(self, known: list[PrivacyLoss]) -> None:
        most = largest_loss(known)
        for loss in known:
            assert most.delta >= loss.delta
            assert most.epsilon is None or (loss.epsilon is not None and loss.epsilon <= most.epsilon)
            assert all(loss.cost(order) <= most.cost(order) for order in ORDERS)
        finite = [loss.epsilon for loss in known if loss.epsilon is not None]
        if len(finite) == len(known):
            assert most.epsilon == max(finite)

    def test_one_that_has_the_parts_of_all_others_is_it(self) -> None:
        most = PrivacyLoss.of(Fraction(1), times=3) + PrivacyLoss.gaussian(Fraction(2))
        less = PrivacyLoss.of(Fraction(1), Fraction(1, 9), times=2)
        settled = replace(less, parts=(Realised(Fraction(1, 2), Fraction(1)),))
        assert largest_loss([less, most, settled, PrivacyLoss()]) == replace(most, delta=Fraction(2, 9))

    def test_others_become_one_mechanism(self) -> None:
        one, other = PrivacyLoss.of(Fraction(1)), PrivacyLoss.of(Fraction(1, 4), times=5)
        assert str(largest_loss([one, other])) == "pure 5/4"
        assert str(largest_loss([one, PrivacyLoss((BoundedRange(Fraction(1)),))])) == "pure 1"
        part = PrivacyLoss((Realised(Fraction(1, 4), Fraction(2)),))
        assert str(largest_loss([one, part])) == "sum 1 of 2"
        assert (
            str(largest_loss([one, PrivacyLoss((Stream(Fraction(1, 4), Fraction(2)),))])) == "stream 1 of 2"
        )

    def test_what_has_no_known_bound_is_refused(self) -> None:
        with pytest.raises(ValueError, match="not known"):
            largest_loss([PrivacyLoss((Realised(Fraction(1)),)), PrivacyLoss.of(Fraction(1))])
