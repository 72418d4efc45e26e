"""Laplace noise that divides a cost: within it, and never with more noise than one mechanism has."""

import math
import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpsql.analysis.epsilon_division import EpsilonDivision
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.loss.charge import pure_cost
from dpsql.planning.noise_shares import LaplaceShare, laplace_shares

ORDERS = [Fraction(65, 64), Fraction(2), Fraction(4), Fraction(23)]


def loss_of(shares: tuple[LaplaceShare, ...], sizes: list[int]) -> PrivacyLoss:
    return sum((each.noise(n).loss for each, n in zip(shares, sizes, strict=True)), PrivacyLoss())


def test_what_is_divided_is_not_exceeded_and_nearly_used() -> None:
    drawn = random.Random(2)
    for _ in range(30):
        layout = EpsilonDivision(Fraction(drawn.randint(10, 300), 1000), drawn.choice(ORDERS))
        bounds = [drawn.randint(1, 9) for _ in range(drawn.randint(1, 4))]
        moves = [bound * drawn.randint(1, 40) + drawn.randrange(bound) for bound in bounds]
        shares = laplace_shares(layout, moves, bounds)
        loss = loss_of(shares, [200] * len(bounds))
        assert layout.order is not None
        used = loss.cost(layout.order) / layout.cost
        assert 1 - Fraction(1, 10**4) < used <= 1
        for share, move, bound in zip(shares, moves, bounds, strict=True):
            # Of each mechanism a unit changes at most the sensitivity, of all of them at most the whole move.
            assert share.sensitivity in (move, bound)
            assert share.sensitivity * share.times >= move


def test_one_number_has_no_more_noise_than_by_one_mechanism() -> None:
    drawn = random.Random(4)
    for _ in range(60):
        layout = EpsilonDivision(Fraction(drawn.randint(1, 3000), 1000), drawn.choice(ORDERS))
        bound, move = drawn.randint(1, 9), drawn.randint(1, 60)
        (share,) = laplace_shares(layout, [move], [bound])
        assert share.scale <= move / layout.epsilon


def test_by_epsilon_each_number_is_one_mechanism() -> None:
    shares = laplace_shares(EpsilonDivision(Fraction(1, 2)), [1, 8], [1, 2])
    assert shares == (LaplaceShare(Fraction(1, 10), 1), LaplaceShare(Fraction(2, 5), 8))


def test_fewer_values_have_the_same_noise_and_cost_less() -> None:
    share = LaplaceShare(Fraction(1, 7), 3, 5)
    assert [share.noise(n).scale for n in (1, 3, 9)] == [21, 21, 21]
    assert [str(share.noise(n).loss) for n in (1, 3, 9)] == ["pure 1/7", "pure 1/7 x 3", "pure 1/7 x 5"]
    assert share.noise(0).loss == PrivacyLoss()


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        laplace_shares(EpsilonDivision(Fraction(1, 10**6), Fraction(4)), [10**6], [1])


def divergence(scale: float, moved: int, order: float) -> float:
    """The Renyi divergence of discrete Laplace noise on whole numbers and the same noise moved."""
    reach = math.ceil(60 * scale) + moved
    here = -np.abs(np.arange(-reach, reach + 1)) / scale
    there = -np.abs(np.arange(-reach, reach + 1) - moved) / scale
    total = np.log(np.exp(here).sum())
    return float(np.log(np.exp(order * here + (1 - order) * there - total).sum()) / (order - 1))


@pytest.mark.parametrize("scale", [1.5, 4.0, 11.0])
@pytest.mark.parametrize("order", [1.1, 2.0, 4.0, 9.0])
def test_changes_divided_in_any_way_cost_no_more_than_full_ones(scale: float, order: float) -> None:
    """Of five counts, each changed by at most 4 and all of them by at most 12: three mechanisms of 4."""
    found = {d: divergence(scale, d, order) for d in range(5)}
    most = max(sum(found[d] for d in moved) for moved in product(range(5), repeat=5) if sum(moved) <= 12)
    assert most == pytest.approx(3 * found[4])
    claimed = float(pure_cost(Fraction(4) / Fraction(scale), Fraction(order)))
    assert most <= 3 * claimed
    # Two mechanisms would be too few.
    assert most > 2 * claimed or order < 2
