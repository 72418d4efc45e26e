"""The constants of a budget, what it admits, its odometer; the numbers of statements that fit."""

import itertools
import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.kernel.loss import BoundedRange, Charge, Filter, PrivacyLoss, Totals, order_limit, settle

DELTA = Fraction(1, 10**6)
HALF = DELTA / 2


def budget(epsilon: int | Fraction, delta: Fraction = DELTA, conversion: Fraction | None = None) -> Filter:
    return Filter.of(Charge(Fraction(epsilon), delta), "zcdp", conversion)


def pure(epsilon: str, delta: Fraction = Fraction(0)) -> PrivacyLoss:
    return PrivacyLoss.of(Fraction(epsilon), delta)


def admitted(scope: Filter, losses: list[PrivacyLoss], most: int = 10**4) -> int:
    """How many statements are admitted one after the other, the losses in turn."""
    totals = Totals()
    for n, loss in enumerate(itertools.islice(itertools.cycle(losses), most)):
        if not scope.admits(totals, loss):
            return n
        totals += scope.amounts(loss)
    return most


class TestConstants:
    @pytest.mark.parametrize(
        ("epsilon", "order", "limit"),
        [(10, 3.984375, 5.8906), (5, 6.359375, 2.8091), (3, 9.359375, 1.6449), (1, 23.25, 0.5332)],
    )
    def test_golden(self, epsilon: int, order: float, limit: float) -> None:
        found = order_limit(Fraction(epsilon), HALF)
        assert found is not None
        assert float(found.order) == order
        assert limit <= found.limit < limit + 1e-4

    @pytest.mark.parametrize("n", [150, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_a_limit_is_never_above_the_exact_one(self, n: int) -> None:
        rng = random.Random(n)
        for _ in range(n):
            epsilon = Fraction(10 ** rng.uniform(-2, 2)).limit_denominator(10**9)
            delta = Fraction(10 ** rng.uniform(-30, -0.2)).limit_denominator(10**40)
            found = order_limit(epsilon, delta)
            if found is None:
                continue
            with localcontext() as context:
                context.prec = 80
                e, d, a = (
                    Decimal(x.numerator) / Decimal(x.denominator) for x in (epsilon, delta, found.order)
                )
                exact = Fraction(e - ((1 / d).ln() + (a - 1) * (1 - 1 / a).ln() - a.ln()) / (a - 1))
                margin = Fraction((1 / d).ln() / (a - 1))
            assert exact - Fraction(1, 10**30) - Fraction(1, 10**38) <= found.limit <= exact
            assert margin <= found.margin <= margin + Fraction(1, 10**12) + Fraction(1, 10**38)

    def test_the_order_is_the_best_one(self) -> None:
        rng = random.Random(5)

        def gain(epsilon: float, delta: float, step: int) -> float:
            less = step / 64
            fee = (-math.log(delta) - math.log1p(less)) / less - math.log1p(1 / less)
            return (epsilon - fee) / (1 + less)

        for _ in range(8):
            epsilon, delta = 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-12, -1)
            best = max(range(1, 65536), key=lambda step: gain(epsilon, delta, step))
            found = order_limit(Fraction(epsilon), Fraction(delta))
            assert found is None or found.order == 1 + Fraction(best, 64)
            assert (found is None) == (gain(epsilon, delta, best) <= 0)

    def test_a_budget_that_no_order_serves(self) -> None:
        scope = budget(Fraction(1, 1000))
        assert scope.order_way is None
        assert scope.more(Totals(), pure("1/10000")) == 10
        assert not scope.admits(Totals(), PrivacyLoss.gaussian(Fraction(1, 10**9)))

    def test_extreme_budgets(self) -> None:
        assert order_limit(Fraction(10**9), Fraction(1, 10**300)) is not None
        assert order_limit(Fraction(1), Fraction(1, 10**400)) is not None


class TestOf:
    def test_pure_accounting_adds_epsilons(self) -> None:
        scope = Filter.of(Charge(Fraction(10), DELTA))
        assert (scope.order_way, scope.mechanism_delta) == (None, DELTA)
        assert admitted(scope, [pure("1/10")]) == 100

    def test_a_cap_without_delta_adds_epsilons(self) -> None:
        scope = budget(10, Fraction(0))
        assert scope.order_way is None
        assert admitted(scope, [pure("1/10")]) == 100

    def test_half_of_delta_is_for_the_conversion(self) -> None:
        assert budget(10).conversion_delta == budget(10).mechanism_delta == HALF
        assert budget(10, DELTA, DELTA).mechanism_delta == 0

    @pytest.mark.parametrize("part", [Fraction(0), -DELTA, DELTA * 2])
    def test_another_part_is_refused(self, part: Fraction) -> None:
        with pytest.raises(ValueError, match="conversion_delta"):
            budget(10, DELTA, part)


class TestStatementsThatFit:
    @pytest.mark.parametrize(
        ("epsilon", "each", "half", "whole"),
        [
            (10, "1/10", 301, 313),
            (10, "3/10", 38, 39),
            (10, "1/2", 20, 20),
            (10, "1", 10, 10),
            (5, "1/10", 93, 97),
            (3, "1/10", 39, 41),
            (1, "1/100", 462, 490),
        ],
    )
    def test_golden(self, epsilon: int, each: str, half: int, whole: int) -> None:
        for scope, most in ((budget(epsilon), half), (budget(epsilon, DELTA, DELTA), whole)):
            assert scope.more(Totals(), pure(each)) == most
            assert admitted(scope, [pure(each)]) == most

    @pytest.mark.parametrize(("each", "most"), [("1/10", 301), ("3/10", 38), ("1/2", 16), ("1", 6)])
    def test_by_cost_alone(self, each: str, most: int) -> None:
        """Gaussian noise that costs nothing to speak of closes the other way."""
        scope = budget(10)
        closed = scope.amounts(PrivacyLoss.gaussian(Fraction(1, 10**9)))
        assert scope.more(closed, pure(each)) == most

    def test_large_statements_first(self) -> None:
        scope = budget(10)
        totals = Totals()
        for _ in range(4):
            assert scope.admits(totals, pure("1"))
            totals += scope.amounts(pure("1"))
        assert scope.more(totals, pure("1/10")) == 118

    def test_deltas_limit_the_number(self) -> None:
        loss = pure("1/10", HALF / 7)
        assert budget(10).more(Totals(), loss) == admitted(budget(10), [loss]) == 7
        assert budget(10, DELTA, DELTA).more(Totals(), loss) == 0
        assert Filter.of(Charge(Fraction(10), DELTA)).more(Totals(), loss) == 14

    def test_selections_and_noise(self) -> None:
        scope = budget(10)
        ranged = PrivacyLoss((BoundedRange(Fraction(1, 10)),))
        assert scope.more(Totals(), ranged) == 1182
        assert scope.more(Totals(), PrivacyLoss.gaussian(Fraction(1, 200))) == 295
        assert scope.more(Totals(), PrivacyLoss()) is None

    def test_a_refund_is_worth_what_is_below_the_cost(self) -> None:
        scope, reserved = budget(10), pure("1/10")
        assert scope.amounts(settle(reserved, pure("1/20"))).cost == scope.amounts(reserved).cost
        assert scope.more(Totals(), settle(reserved, pure("1/100"))) == 1000


LOSSES = st.sampled_from(
    [
        pure("1/10"),
        pure("1"),
        pure("1/100", DELTA / 100),
        PrivacyLoss.gaussian(Fraction(1, 50)),
        PrivacyLoss((BoundedRange(Fraction(1, 2)),)),
        settle(pure("2"), pure("1/2")),
        settle(pure("2"), pure("1/2"), stream=True),
    ]
)
SCOPES = st.sampled_from(
    [budget(10), budget(3), budget(1, DELTA, DELTA), Filter.of(Charge(Fraction(5), DELTA))]
)


@given(SCOPES, st.lists(LOSSES, max_size=30), LOSSES)
def test_as_many_more_are_admitted_as_is_said(
    scope: Filter, before: list[PrivacyLoss], loss: PrivacyLoss
) -> None:
    totals = Totals()
    for each in before:
        if scope.admits(totals, each):
            totals += scope.amounts(each)
    more = scope.more(totals, loss)
    assert more is not None
    for _ in range(more):
        assert scope.admits(totals, loss)
        totals += scope.amounts(loss)
    assert not scope.admits(totals, loss)
    assert scope.more(totals, loss) == 0


@given(SCOPES, st.lists(LOSSES, max_size=12), st.lists(LOSSES, max_size=12))
def test_what_is_added_can_be_taken_back(
    scope: Filter, kept: list[PrivacyLoss], other: list[PrivacyLoss]
) -> None:
    """All but epsilon: once a part without one was reserved, the sum of epsilons has no end."""
    some = sum((scope.amounts(loss) for loss in kept), Totals())
    both = sum((scope.amounts(loss) for loss in other), some)
    for loss in other:
        both -= scope.amounts(loss)
    assert (both.delta, both.cost) == (some.delta, some.cost)
    assert both.epsilon == (None if any(loss.epsilon is None for loss in (*kept, *other)) else some.epsilon)


def test_no_more_is_taken_back_than_there_is() -> None:
    one, other = Totals(Fraction(1), DELTA, Fraction(1, 2)), Totals(Fraction(1), DELTA * 2, Fraction(1, 2))
    with pytest.raises(ValueError, match="negative"):
        _ = one - other
    with pytest.raises(ValueError, match="epsilon"):
        _ = one - Totals(None)


class TestOdometer:
    def test_it_is_the_smaller_of_both_ways(self) -> None:
        scope = budget(10)
        way = scope.order_way
        assert way is not None
        assert scope.spent(Totals()) == 0
        totals = Totals(Fraction(87, 10), Fraction(0), Fraction(1699, 1000))
        assert scope.spent(totals) == Fraction(1699, 1000) + way.margin
        assert round(float(Fraction(1699, 1000) + way.margin), 3) == 6.561
        assert scope.spent(Totals(Fraction(1), Fraction(0), Fraction(1, 10))) == 1

    def test_it_says_nothing_that_is_no_news(self) -> None:
        scope = budget(10)
        assert scope.spent(Totals(Fraction(10), Fraction(0), Fraction(58, 10))) is None
        assert scope.spent(Totals(None, Fraction(0), Fraction(58, 10))) is None
        assert Filter.of(Charge(Fraction(10))).spent(Totals(Fraction(99, 10))) == Fraction(99, 10)
        assert Filter.of(Charge(Fraction(10))).spent(Totals(None)) is None
