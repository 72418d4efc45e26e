"""Adversaries of the privacy filter, who see how high the loss is, do not break its promise.

Most are simulated. The best one is computed, for a few sizes of statements: it breaks a filter whose order is
chosen by what was asked.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Charge, Filter, OrderLimit, PrivacyLoss, _limit, settle

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


# --- the best adversary -----------------------------------------------------------------------------------

_SIZES = tuple(map(Fraction, ("1/4", "1", "2", "5/2")))
_STEP = Fraction(1, 4)
Asked = tuple[int, ...]
"""How many statements of each size were asked."""


class BestAdversary:
    """Knows the largest mean excess of the loss over epsilon that statements of a few sizes can reach.

    Each statement is private at one of a few epsilons e, and may depend on the loss so far. Its loss has two
    values: e and -e, e and -e/2, or -e and e/2; the chance of each is what the values imply, as exp(-loss)
    has mean 1. So after each number of statements of each size, the best next one is known from those behind.
    One of the filters has to admit what is asked.
    """

    def __init__(self, filters: Sequence[Filter], sizes: Sequence[Fraction] = _SIZES) -> None:
        self.epsilon, self.sizes = filters[0].epsilon, sizes
        self.ways = [
            ([each.amounts(PrivacyLoss.of(size)).cost for size in sizes], each.order_way.limit)
            for each in filters
            if each.order_way is not None
        ]
        self.reach = int(2 * sum(self._most(i) * size for i, size in enumerate(sizes)) / _STEP) + 1
        over = float(self.epsilon) - np.arange(-self.reach, self.reach + 1) * float(_STEP)
        self.ended: Floats = np.where(over < 0, -np.expm1(np.minimum(0, over)), 0)

    def admitted(self, asked: Asked) -> bool:
        """Whether the filters admit all that was asked."""
        if sum(n * size for n, size in zip(asked, self.sizes, strict=True)) <= self.epsilon:
            return True
        return any(sum(n * cost for n, cost in zip(asked, of, strict=True)) <= c for of, c in self.ways)

    def _most(self, place: int) -> int:
        return next(n for n in itertools.count() if not self.admitted(self.one_more(self.none, place, n + 1)))

    @property
    def none(self) -> Asked:
        return (0,) * len(self.sizes)

    def one_more(self, asked: Asked, place: int, more: int = 1) -> Asked:
        return (*asked[:place], asked[place] + more, *asked[place + 1 :])

    def before(self, after: Floats, size: Fraction) -> Iterator[Floats]:
        """Yield the mean of what is reached after a statement of a size, of each kind."""
        e = int(size / _STEP)
        for high, low in {(e, e), (e, max(e // 2, 1)), (max(e // 2, 1), e)}:
            rise = -np.expm1(-low * float(_STEP)) / -np.expm1(-(high + low) * float(_STEP))
            mean = rise * np.append(after[high:], [after[-1]] * high)
            yield mean + (1 - rise) * np.append([0.0] * low, after[:-low])

    def excess(self) -> float:
        """Return what is reached from nothing."""
        best: dict[Asked, Floats] = {}
        most = [self._most(i) for i in range(len(self.sizes))]
        for asked in itertools.product(*(range(n, -1, -1) for n in most)):
            if self.admitted(asked):
                best[asked] = self.ended
                for i, size in enumerate(self.sizes):
                    after = best.get(self.one_more(asked, i))
                    for mean in () if after is None else self.before(after, size):
                        best[asked] = np.maximum(best[asked], mean)
        return float(best[self.none][self.reach])

    def excess_in_parts(self, judge: Callable[[Iterable[bool]], bool]) -> float:
        """Return what is reached for a unit of the first of two parts, by statements of one or of both.

        `judge` says whether parts admit a statement of which some do.
        """

        @cache
        def best(one: Asked, other: Asked) -> Floats:
            found = self.ended
            for (i, size), read in itertools.product(enumerate(self.sizes), ((0,), (1,), (0, 1))):
                asked = [self.one_more(each, i) if n in read else each for n, each in enumerate((one, other))]
                if judge(self.admitted(asked[n]) for n in read):
                    after = best(*asked)
                    for mean in self.before(after, size) if 0 in read else (after,):
                        found = np.maximum(found, mean)
            return found

        return float(best(self.none, self.none)[self.reach])


def with_orders(scope: Filter, orders: Iterable[Fraction]) -> list[Filter]:
    """Return the same budget with each of some orders that has a limit above 0."""
    limits = ((order, _limit(scope.epsilon, scope.conversion_delta, order)) for order in orders)
    zero = Fraction(0)
    return [replace(scope, order_way=OrderLimit(*each, zero)) for each in limits if each[1] > zero]


DELTA = Fraction(1, 20)
SCOPE = Filter.of(Charge(Fraction(3), DELTA), "zcdp", DELTA)


def test_an_order_chosen_by_what_was_asked_breaks_the_promise() -> None:
    """Each of the orders keeps it alone, as the filter's own does."""
    assert BestAdversary([SCOPE]).excess() < 0.6 * float(DELTA)
    several = with_orders(SCOPE, (1 + Fraction(int(1.15**n), 64) for n in range(20, 80)))
    assert all(BestAdversary([each]).excess() < float(DELTA) for each in several[::8])
    assert BestAdversary(several).excess() > 1.05 * float(DELTA)


def test_what_is_asked_of_other_parts_adds_nothing() -> None:
    """Answers about one part decide what is asked of both: a unit bears no more than of its own."""
    adversary = BestAdversary([SCOPE], [Fraction(1, 2), Fraction(3, 2)])
    alone = adversary.excess()
    assert 0.2 * float(DELTA) < alone < float(DELTA)
    assert adversary.excess_in_parts(all) == alone
    assert adversary.excess_in_parts(any) > 4 * float(DELTA)
