"""Gaussian noise on counts: what it costs, for all changes of a unit; its variances, runs and refusals."""

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpsql.analysis.epsilon_division import divide_epsilon
from dpsql.estimates.predictions import (
    difference_half_width,
    difference_stddev,
    half_width,
    shared_noise,
    stddev,
)
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss
from dpsql.kernel.mechanisms import Gaussian, NoiseSource
from dpsql.kernel.mechanisms.gaussian import Changes, least_variances
from dpsql.mechanisms import gaussian
from dpsql.noise import SeededEntropy


@dataclass(frozen=True)
class Given(NoiseSource):
    """Own noise of shape (.., k) first, then shared noise."""

    draws: list[NDArray[np.int64]] = field(kw_only=True)

    def gaussian(self, variance: int, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        drawn = self.draws.pop(0)
        assert drawn.shape == size
        return drawn


def worst(counts: int, most: int, own: int, shared: int, moves: range) -> Fraction:
    """The largest rho over all changes of the counts, each with its best move of the shared noise."""
    found = 0
    for v in itertools.combinations_with_replacement(moves, counts):
        if sum(each != 0 for each in v) > most:
            continue
        reach = 2 * max(abs(moves[0]), abs(moves[-1])) if shared else 0
        found = max(
            found,
            min(
                (shared or 1) * sum((each - s) ** 2 for each in v) + own * s * s
                for s in range(-reach, reach + 1)
            ),
        )
    return Fraction(found, 2 * own * (shared or 1))


class TestCost:
    @pytest.mark.parametrize(
        ("counts", "unit"), [(1, 9), (2, 6), (2, 14), (3, 5), (3, 8), (4, 7), (5, 6), (6, 5), (6, 8)]
    )
    @pytest.mark.parametrize("ratio", [Fraction(2, 3), Fraction(3, 2), Fraction(5, 2)])
    @pytest.mark.sampled(4)
    def test_it_is_that_of_the_worst_change(self, counts: int, unit: int, ratio: Fraction) -> None:
        own = 200
        shared = round(own / ratio)
        for most in range(1, counts + 1):
            changes = Changes(counts, most, unit)
            rho = changes.rho(own, shared)
            if changes.shareable(own / shared):
                assert rho == worst(counts, most, own, shared, range(unit + 1))
            assert changes.rho(own, 0) == worst(counts, most, own, 0, range(unit + 1))

    @pytest.mark.parametrize(("counts", "unit"), [(2, 14), (3, 9), (4, 8), (5, 7)])
    def test_counts_that_move_both_ways_within_one_width_cost_no_more(self, counts: int, unit: int) -> None:
        changes = Changes(counts, counts, unit)
        own, shared = 300, round(300 / math.sqrt(counts))
        assert changes.shareable(own / shared)
        for low in range(-unit, 1):
            assert worst(counts, counts, own, shared, range(low, low + unit + 1)) <= changes.rho(own, shared)

    @given(
        st.integers(1, 300),
        st.integers(1, 300),
        st.integers(6, 5000),
        st.integers(1, 10**7),
        st.integers(1, 10**7),
    )
    def test_no_number_of_changing_counts_costs_more(
        self, counts: int, most: int, unit: int, own: int, shared: int
    ) -> None:
        """The search looks near the worst number only."""
        changes = Changes(counts, min(most, counts), unit)
        every = max(changes._cost(j, own, shared) for j in range(1, changes.most + 1))
        assert changes.rho(own, shared) == Fraction(every, 2 * own * shared)

    @pytest.mark.parametrize("order", [1.5, 4.0])
    @pytest.mark.parametrize(("own", "shared", "unit"), [(12, 9, 6), (4, 0, 3)])
    @pytest.mark.sampled(5)
    def test_the_divergence_of_what_is_released(self, order: float, own: int, shared: int, unit: int) -> None:
        """Two counts, the law of the release summed over the shared noise: for each change of a unit."""
        reach = 60
        x = np.arange(-reach, reach + 1)
        z = np.arange(-40, 41) if shared else np.zeros(1, dtype=np.int64)
        weight = -(z**2) / (2 * max(shared, 1))
        weight = weight - logsumexp(weight)
        total = 2 * logsumexp(-(x**2) / (2 * own))

        def log_law(v: tuple[int, int]) -> NDArray[np.float64]:
            first, second = (-((x[:, None] - each - z) ** 2) / (2 * own) for each in v)
            return logsumexp(first[:, None, :] + second[None, :, :] + weight, axis=2) - total

        rho = float(Changes(2, 2, unit).rho(own, shared))
        zero, largest = log_law((0, 0)), 0.0
        for v in itertools.combinations_with_replacement(range(unit + 1), 2):
            other = log_law((v[0], v[1]))
            for p, q in ((zero, other), (other, zero)):
                largest = max(largest, float(logsumexp(order * p + (1 - order) * q)) / (order - 1))
        assert largest <= order * rho * (1 + 1e-6)
        assert largest > order * rho * 0.9


class TestVariances:
    @given(
        st.integers(1, 3000),
        st.integers(1, 3000),
        st.integers(1000, 10**6),
        st.fractions(min_value=Fraction(1, 10**4), max_value=5, max_denominator=10**4),
    )
    def test_they_fit_and_nearly_use_the_budget(
        self, counts: int, most: int, unit: int, rho: Fraction
    ) -> None:
        changes = Changes(counts, min(most, counts), unit)
        own, shared = least_variances(changes, rho)
        assert changes.rho(own, shared) <= rho
        assert changes.rho(own, shared) >= rho * (1 - Fraction(1, 10**3))
        assert own + shared <= math.ceil(changes.most * unit**2 / (2 * rho))

    @pytest.mark.parametrize(("k", "variance"), [(1, 1.001), (2, 1.34), (5, 2.58), (10, 4.33), (50, 16.3)])
    def test_at_the_price_of_epsilon_squared_over_two(self, k: int, variance: float) -> None:
        shared = stddev(Gaussian.plan(k, "1/2"), 0) ** 2
        assert shared <= variance
        assert 0.91 < shared / ((1 + math.sqrt(k)) ** 2 / 4) < 1.0001
        assert stddev(Gaussian.plan(k, "1/2", monotone=False), 0) ** 2 == pytest.approx(k, rel=1e-5)

    @pytest.mark.parametrize(("k", "deviation"), [(1, 10.1), (10, 21.0), (50, 40.8)])
    def test_laid_out_for_a_tenth_of_epsilon(self, k: int, deviation: float) -> None:
        policy = Filter.of(Charge(Fraction(10), Fraction(1, 10**6)), "zcdp")
        rho = divide_epsilon(Fraction(1, 10), policy).gaussian_rho()
        assert rho is not None
        assert stddev(Gaussian.plan(k, rho), 0) == pytest.approx(deviation, abs=0.06)

    def test_few_of_many_share_nothing(self) -> None:
        plan = Gaussian.plan(1000, "1/2", groups_per_unit=3)
        assert plan.shared == 0
        assert stddev(plan, 0) ** 2 == pytest.approx(3, rel=1e-5)
        half = Gaussian.plan(1000, "1/2", groups_per_unit=700)
        assert half.shared > 0
        assert stddev(half, 0) ** 2 < 300

    def test_a_coarse_grid_shares_nothing(self) -> None:
        """Where whole moves of the shared noise are not small steps, the proof does not hold."""
        plan = Gaussian.plan(4, "1/2", resolution=0)
        assert (plan.unit, plan.own, plan.shared) == (1, 4, 0)

    def test_differences_lose_what_is_shared(self) -> None:
        plan = Gaussian.plan(10, "1/2")
        noise = shared_noise(plan, 0)
        assert noise.variance == noise.own + noise.shared
        assert difference_stddev(plan, 0) == pytest.approx(math.sqrt(2 * noise.own))
        assert half_width(plan, Fraction(95, 100), 0) == pytest.approx(1.96 * stddev(plan, 0), rel=2e-3)
        assert half_width(plan, Fraction(95, 100), 0, simultaneous=True) > half_width(
            plan, Fraction(95, 100), 0
        )
        width = difference_half_width(plan, Fraction(9, 10), 0)
        assert width == pytest.approx(1.645 * difference_stddev(plan, 0), rel=2e-3)


class TestRun:
    def test_the_loss_is_that_of_the_budget(self) -> None:
        plan = Gaussian.plan(3, "1/200")
        assert plan.loss == PrivacyLoss.gaussian(Fraction(1, 200))
        assert plan.run([1, 2, 3]).loss == plan.loss
        assert str(plan.loss) == "gauss 1/200"

    def test_a_release_is_counts_plus_noise(self) -> None:
        plan = Gaussian.plan(3, "1/2")
        own, shared = np.array([5, -7, 0]), np.array([11])
        found = plan.run([100, 0, -4], Given(draws=[own, shared])).value
        assert found.tolist() == ((np.array([100, 0, -4]) * plan.unit + own + shared) / plan.unit).tolist()

    @given(st.data())
    def test_noise_that_moves_against_a_change_hides_it(self, data: st.DataObject) -> None:
        """The alignment of the proof, on the mechanism itself; with two bounds."""
        plan = Gaussian.plan(4, "1/2", sensitivity=(2, 3), resolution=9)
        assert plan.shared
        steps = np.array([plan.unit // 2, plan.unit // 3] * 2)
        counts = np.array(data.draw(st.lists(st.integers(-1000, 1000), min_size=4, max_size=4)))
        moves = np.array([data.draw(st.integers(0, each)) for each in (2, 3, 2, 3)])
        own = np.array(data.draw(st.lists(st.integers(-5000, 5000), min_size=4, max_size=4)))
        shared, s = np.array([data.draw(st.integers(-5000, 5000))]), data.draw(st.integers(-5000, 5000))
        v = moves * steps
        assert (v <= plan.unit).all()
        before = plan.run(counts, Given(draws=[own, shared])).value
        after = plan.run(counts + moves, Given(draws=[own - v + s, shared - s])).value
        assert before.tolist() == after.tolist()

    def test_trials_have_noise_of_their_own(self) -> None:
        found = Gaussian.plan(5, "1/2").run(
            np.zeros((1000, 5), dtype=np.int64), NoiseSource(SeededEntropy(1))
        )
        assert found.value.shape == (1000, 5)
        assert len(np.unique(found.value[:, 0])) > 900

    def test_unequal_bounds_are_hidden_on_one_grid(self) -> None:
        plan = Gaussian.plan(2, "1/2", sensitivity=(2, 3))
        assert plan.unit % 6 == 0
        assert plan.step(0) == 2 / plan.unit
        assert plan.step(1) == 3 / plan.unit
        assert stddev(plan, 1) == pytest.approx(stddev(plan, 0) * 3 / 2)

    def test_counts_are_cut_off(self) -> None:
        plan = Gaussian.plan(2, "1/2", resolution=20)
        found = plan.run([2**62, -(2**62)], NoiseSource(SeededEntropy(1))).value
        assert found[0] == pytest.approx(2**40)
        assert found[1] == pytest.approx(-(2**40))

    def test_in_one_call(self) -> None:
        found = gaussian([100, 200], 1, entropy=SeededEntropy(2))
        assert found.value == pytest.approx([100, 200], abs=10)
        assert found.plan == Gaussian.plan(2, 1)

    def test_no_count_costs_nothing(self) -> None:
        plan = Gaussian.plan(0, 1)
        assert plan.loss == PrivacyLoss()
        assert plan.run([]).value.shape == (0,)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"rho": 0},
            {"rho": -1},
            {"rho": 1, "sensitivity": 0},
            {"rho": 1, "sensitivity": (1, 2)},
            {"rho": 1, "groups_per_unit": 0},
            {"rho": 1, "resolution": 21},
            {"rho": Fraction(1, 10**30)},
        ],
    )
    def test_refused_from_public_facts(self, arguments: dict[str, object]) -> None:
        with pytest.raises(ValueError):
            Gaussian.plan(3, **arguments)  # type: ignore[arg-type]  # that is the test


class TestRounded:
    """Counts whose bound is so large that the variance would be beyond its limit are rounded first."""

    @pytest.mark.parametrize("bits", [30, 40, 50])
    def test_a_change_by_the_bound_is_at_most_the_unit(self, bits: int) -> None:
        bound = (1 << bits) + 12345
        plan = Gaussian.plan(1, "1/32", sensitivity=bound)
        assert 0 < plan.places < bits - 20
        fixed = [Given(SeededEntropy(1), draws=[np.zeros(1, dtype=np.int64)]) for _ in range(40)]
        for start, one, other in zip(range(-10, 10), fixed[::2], fixed[1::2], strict=True):
            first = plan.run([start * 987654321], one).value[0]
            second = plan.run([start * 987654321 + bound], other).value[0]
            steps = (second - first) / plan.step(0)
            assert plan.unit - 1 - plan.unit // plan.bounds[0] <= steps <= plan.unit

    def test_the_noise_is_that_of_the_budget(self) -> None:
        for bits in (20, 30, 45):
            plan = Gaussian.plan(1, "1/32", sensitivity=1 << bits)
            assert stddev(plan) == pytest.approx(4 * 2.0**bits, rel=1e-5)
            assert half_width(plan, Fraction(19, 20)) == pytest.approx(1.96 * 4 * 2.0**bits, rel=1e-3)
            drawn = plan.run([[7 << bits]] * 4000, NoiseSource(SeededEntropy(bits))).value
            assert abs(drawn.mean() / 2.0**bits - 7) < 0.3
            assert 3.8 < drawn.std() / 2.0**bits < 4.2

    def test_small_bounds_beside_large_ones_are_not_rounded_away(self) -> None:
        with pytest.raises(ValueError, match="variance"):
            Gaussian.plan(2, "1/32", sensitivity=[2**12, 2**32])

    def test_the_ends_of_counts(self) -> None:
        plan = Gaussian.plan(1, "1/32", sensitivity=1 << 40)
        ends = np.iinfo(np.int64)
        low, high = (plan.run([end]).value[0] for end in (ends.min, ends.max))
        assert low < -(1 << 59) < 1 << 59 < high
