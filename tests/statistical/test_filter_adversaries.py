"""Simulated adversaries of the privacy filter, who see how high the loss is, do not break its promise."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, settle

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
STAKES = ("2", "1", "1/2", "1/4", "1/10", "1/20")


@dataclass
class Play:
    """Many runs of one adversary: the losses, both sums, and the runs that go on."""

    scope: Filter
    runs: int
    loss: Floats = field(init=False)
    epsilon: Floats = field(init=False)
    cost: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.loss, self.epsilon, self.cost = np.zeros((3, self.runs))
        self.draw = np.random.default_rng(7)

    def admitted(self, loss: PrivacyLoss) -> Flags:
        each, way = self.scope.amounts(loss), self.scope.order_way
        assert way is not None
        epsilon = np.inf if each.epsilon is None else float(each.epsilon)
        basic = self.epsilon + epsilon <= float(self.scope.epsilon) + 1e-12
        return np.asarray(basic | (self.cost + float(each.cost) <= float(way.limit) + 1e-12))

    def charge(self, loss: PrivacyLoss, where: Flags) -> None:
        each = self.scope.amounts(loss)
        self.epsilon[where] += np.inf if each.epsilon is None else float(each.epsilon)
        self.cost[where] += float(each.cost)

    def respond(self, stake: str, where: Flags) -> Flags:
        """Run randomised response where it is admitted."""
        loss, e = PrivacyLoss.of(Fraction(stake)), float(Fraction(stake))
        runs = where & self.admitted(loss)
        up = self.draw.random(self.runs) < 1 / (1 + np.exp(-e))
        self.loss += np.where(runs, np.where(up, e, -e), 0)
        self.charge(loss, runs)
        return runs

    def gaussian(self, rho: str, where: Flags) -> Flags:
        loss, r = PrivacyLoss.gaussian(Fraction(rho)), float(Fraction(rho))
        runs = where & self.admitted(loss)
        self.loss += np.where(runs, self.draw.normal(r, np.sqrt(2 * r), self.runs), 0)
        self.charge(loss, runs)
        return runs

    def rare(self, dear: str, cheap: str, where: Flags) -> Flags:
        """Run a mechanism whose likely outcome has a small loss, and is refunded."""
        e, small = float(Fraction(dear)), float(Fraction(cheap))
        loss = PrivacyLoss.of(Fraction(dear))
        runs = where & self.admitted(loss)
        low, high = np.exp(-small), np.exp(e)
        hit = self.draw.random(self.runs) < (1 - low) / (high - low)
        self.loss += np.where(runs, np.where(hit, -e, small), 0)
        self.charge(loss, runs & hit)
        self.charge(settle(loss, PrivacyLoss.of(Fraction(cheap))), runs & ~hit)
        return runs

    def chase(self, where: Flags) -> Flags:
        """Run the largest stake that is admitted."""
        left = where.copy()
        for stake in STAKES:
            left &= ~self.respond(stake, left)
        return where & ~left


def small(play: Play) -> bool:
    return bool(play.respond("1/10", np.ones(play.runs, dtype=np.bool_)).any())


def noise(play: Play) -> bool:
    return bool(play.gaussian("1/20", np.ones(play.runs, dtype=np.bool_)).any())


def last_stake(play: Play) -> bool:
    """Small stakes until the budget is nearly used, then the largest that still fit."""
    way = play.scope.order_way
    assert way is not None
    late = play.cost > 0.6 * float(way.limit)
    return bool((play.respond("1/10", ~late) | play.chase(late)).any())


def lucky(play: Play) -> bool:
    """Noise where the loss is high, which closes basic composition; responses where it is not."""
    high = play.loss > float(play.scope.epsilon) / 3
    return bool((play.gaussian("1/50", high) | play.respond("1/4", ~high)).any())


def drift(play: Play) -> bool:
    """Refunded mechanisms whose likely loss has one sign, then large stakes."""
    ran = play.rare("1", "1/50", np.ones(play.runs, dtype=np.bool_))
    return bool((ran | play.chase(~ran)).any())


ADVERSARIES = (small, noise, last_stake, lucky, drift)


def excess(scope: Filter, adversary: Callable[[Play], bool], runs: int) -> tuple[float, float]:
    """Return the mean excess of the loss over epsilon as an adversary ends, and its standard error."""
    play = Play(scope, runs)
    while adversary(play):
        pass
    over = -np.expm1(np.minimum(0, float(scope.epsilon) - play.loss))
    return float(over.mean()), float(over.std() / np.sqrt(runs))


@pytest.mark.parametrize("runs", [20_000, pytest.param(400_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("epsilon", "delta"), [("3", "1/100"), ("2", "1/100"), ("5", "1/1000")])
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.sampled(4)
def test_the_excess_is_at_most_delta(
    adversary: Callable[[Play], bool], epsilon: str, delta: str, runs: int
) -> None:
    scope = Filter.of(Charge(Fraction(epsilon), Fraction(delta)), "zcdp", Fraction(delta))
    mean, error = excess(scope, adversary, runs)
    assert mean + 4 * error <= float(Fraction(delta))


def test_an_adversary_with_twice_the_budget_is_seen() -> None:
    scope = Filter.of(Charge(Fraction(3), Fraction(1, 100)), "zcdp", Fraction(1, 100))
    wide = Filter.of(Charge(Fraction(5), Fraction(1, 100)), "zcdp", Fraction(1, 100))
    play = Play(wide, 20_000)
    while small(play):
        pass
    over = -np.expm1(np.minimum(0, float(scope.epsilon) - play.loss))
    assert over.mean() > 0.02
